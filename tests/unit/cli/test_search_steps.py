"""The budget of searches in configuration files: what it changes, and values that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.commands import answer, manifests, run
from tests.support.draw import draw, gang, groups

VOLCANO = """
actions: "enqueue, allocate"
tiers:
- plugins: [{{name: gang}}, {{name: predicates}}, {{name: network-topology-aware}}]
configurations:
- name: allocate
  arguments: {{searchSteps: {0}}}
"""
KUBERNETES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: Tierwise
    args: {{searchSteps: {0}}}
"""
FORMATS = {"configurations.allocate": VOLCANO, "profiles[0].pluginConfig[0].args": KUBERNETES}


def _world(folder: Path) -> Path:
    sizes = (groups(1, 2, name="a", each="cpu=1", within=1), groups(1, 3, name="b", each="cpu=1", within=1))
    world = draw("s0: r0[n0 n1] r1[n2 n3 n4]", node="cpu=1")
    return manifests(folder, *world.manifests, *gang("g", within=2, groups=sizes).manifests())


def _config(folder: Path, text: str, value: object) -> Path:
    file = folder / "scheduler.conf"
    file.write_text(text.format(value))
    return file


@pytest.mark.parametrize("text", FORMATS.values(), ids=["volcano", "kubernetes"])
def test_both_formats_set_it(tmp_path: Path, text: str) -> None:
    """The gang finds its place with a few steps and not with one, and says why."""
    world = _world(tmp_path)

    assert 5 == len(answer("schedule", "-f", world, "--config", _config(tmp_path, text, 100))["bindings"])
    page = run("schedule", "-f", world, "--config", _config(tmp_path, text, 1)).stdout
    assert "the search stopped at its bound, so a place may exist" in " ".join(page.split())


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", "true", "10000001", '"100"', "[1]", "null"])
@pytest.mark.parametrize("name", ["searchSteps", "cycleSteps"])
@pytest.mark.parametrize("field", FORMATS)
def test_wrong_values_are_one_line(tmp_path: Path, field: str, name: str, value: str) -> None:
    """File and field, and exit status 2."""
    result = run(
        "schedule",
        "-f",
        _world(tmp_path),
        "--config",
        _config(tmp_path, FORMATS[field].replace("searchSteps", name), value),
    )

    assert 2 == result.exit_code
    assert 1 == len(result.stderr.strip().splitlines())
    assert f"scheduler.conf: {field}.{name}: " in result.stderr
    said = value.strip('"')
    assert f'"{said}" is not a whole number from 1 to 10000000' in result.stderr


@pytest.mark.parametrize(
    ("profiles", "said"),
    [
        ("- pluginConfig: [{name: Tierwise, args: {searchStep: 5}}]", "unknown field searchStep (did you mean"),
        (
            "- schedulerName: a\n- {schedulerName: b, pluginConfig: [{name: Tierwise, args: {searchSteps: 5}}]}",
            "profiles[1].pluginConfig: all profiles share one cycle: Tierwise is configured in the first of them",
        ),
    ],
)
def test_one_budget_is_for_all_profiles(tmp_path: Path, profiles: str, said: str) -> None:
    """A name that is not known is refused, and so is a second place for it."""
    file = tmp_path / "scheduler.conf"
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
    file.write_text(f"{head}{profiles}\n")
    result = run("schedule", "-f", _world(tmp_path), "--config", file)

    assert 2 == result.exit_code
    assert said in result.stderr

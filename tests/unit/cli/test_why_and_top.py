"""`why` and `top` on files, and the plugin of kubectl."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.support.commands import EXAMPLES, ROOT, answer, manifests, run
from tests.support.draw import draw, gang, objects_of

from tierwise.cli.kubectl import plugin
from tierwise.cli.main import LIVE, cli

TRAINING = EXAMPLES / "01-llm-training"


def test_a_pod_that_waits_hears_what_for() -> None:
    """The reason of its gang, tier by tier."""
    result = run("why", "-f", TRAINING, "pretrain-worker-3")

    assert "default/pretrain-worker-3 of pretrain waits  not now: NotEnoughResources" in result.stdout
    assert "tier 1 (rack): best of 16 hyperNodes is rack-8: 4 of 16 pods fit" in result.stdout


def test_a_pod_that_would_be_placed_hears_where() -> None:
    """The node, and the hyperNode that holds its gang."""
    found = answer("why", "-f", TRAINING, "default/llm-train-worker-3")

    assert ("placed", "node-3", "spine-0", "") == (found["state"], found["node"], found["hyperNode"], found["reason"])


def test_a_pod_that_stands_hears_that(tmp_path: Path) -> None:
    """Nothing is decided about it any more."""
    objects = objects_of(draw("r0[n0]", node="gpu=4"), gang("train", tasks=1, each="gpu=4", on="n0"))
    file = manifests(tmp_path, *(objects.raw(key) for key in objects))

    result = run("why", "-f", file, "train-0")

    assert "default/train-0: it is on node n0 already\n" == result.stdout


def test_what_the_cluster_said_is_passed_on(tmp_path: Path) -> None:
    """The newest condition of the podGroup stands beside our own answer."""
    objects = objects_of(draw("r0[n0]", node="gpu=4"), gang("train", tasks=2, each="gpu=4", within=1))
    raws = [objects.raw(key) for key in objects]
    for raw in raws:
        if raw is not None and raw["kind"] == "PodGroup":
            line = {"type": "Unschedulable", "status": "True", "reason": "R", "message": "no room"}
            raw["status"] = {"phase": "Inqueue", "conditions": [line]}

    assert "Unschedulable: no room" == answer("why", "-f", manifests(tmp_path, *raws), "train-0")["clusterSays"]


def test_a_pod_that_does_not_exist_is_bad_input() -> None:
    """One line, exit status 2."""
    result = run("why", "-f", TRAINING, "-n", "team-b", "nobody")

    assert 2 == result.exit_code
    unknown = "tierwise: Pod team-b/nobody: there is no such pod, and no controller makes one"
    assert f"{unknown}\n" == result.stderr
    near = run("why", "-f", TRAINING, "-n", "team-b", "notbook-0")
    assert "(did you mean team-b/notebook-0?)" in near.stderr


def test_top_counts_what_is_in_use_and_free(tmp_path: Path) -> None:
    """Figures of the scarce resource, of gangs by size and tier, and of each podGroup."""
    world = draw("s0: r0[n0 n1] r1[n2 n3]", node="gpu=4")
    objects = objects_of(world, gang("train", tasks=2, each="gpu=3", on="n0 n1"), gang("waits", tasks=2, each="gpu=4"))
    file = manifests(tmp_path, *(objects.raw(key) for key in objects))

    found = answer("top", "-f", file, "--gangs", "4")
    page = run("top", "-f", file, "--gangs", "4").stdout

    assert ("nvidia.com/gpu", 16, 6) == (found["resource"], found["total"], found["used"])
    assert {"tier": 1, "gang": 4, "free": 10, "usable": 8, "fragmentation": 1 - 8 / 10} == found["slots"][0]
    assert ("r0", 1, 2, 0) == tuple(
        found["podGroups"]["default/train"][n] for n in ("hyperNode", "tier", "running", "waiting")
    )
    assert "6 of 16 nvidia.com/gpu in use on 4 nodes" in page
    assert "2 (20%)" in page


@pytest.mark.parametrize("width", [60, 80, 160])
def test_pages_fit(width: int) -> None:
    """No line is wider than the page."""
    for words in (("top",), ("why", "pretrain-worker-3")):
        lines = run(*words, "-f", TRAINING, width=width).stdout.splitlines()
        assert max(map(len, lines)) <= width


def test_sizes_of_gangs_are_numbers() -> None:
    """Anything else is a mistake in the command."""
    result = run("top", "-f", TRAINING, "--gangs", "8,many")

    assert 2 == result.exit_code
    assert '"8,many" is not a list of sizes' in result.stderr


def test_the_plugin_has_the_verbs_that_look() -> None:
    """Under kubectl's name, with files as well, and without verbs that are not about a cluster."""
    runner = CliRunner()

    named = runner.invoke(plugin, ["why", "-f", str(TRAINING), "pretrain-worker-3", "-o", "json"])
    other = runner.invoke(plugin, ["schedule"], prog_name="kubectl tierwise")

    assert '"reason": "NotEnoughResources"' in named.stdout
    assert "Usage: kubectl tierwise" in other.stderr
    assert "No such command 'schedule'" in other.stderr


_SHOWN = re.compile(r"kubectl tierwise ([a-z][a-z-]*)")


def _shown_in_help() -> set[str]:
    """The verbs that the help of any verb shows below kubectl."""
    helps = (run(name, "--help", width=160).stdout for name in cli.list_commands(click.Context(cli)))
    return {verb for text in (*helps, run("--help").stdout) for verb in _SHOWN.findall(text)}


def test_kubectl_knows_every_verb_that_is_shown_below_it() -> None:
    """In the help of each verb, in the documentation and in the manifests."""
    files = (file for folder in ("docs", "deploy", "examples") for file in (ROOT / folder).rglob("*.[my]*"))
    texts = (file.read_text(errors="replace") for file in (ROOT / "README.md", *files) if file.is_file())
    shown = _shown_in_help() | {verb for text in texts for verb in _SHOWN.findall(text)}

    assert {"queue", "nodes", "drainable", "hold", "release"} <= shown
    assert shown <= set(plugin.list_commands(None)) | {"plugin"}  # type: ignore[arg-type]
    page = (ROOT / "docs/reference/cli.md").read_text().splitlines()
    described = next(line for line in page if "`kubectl-tierwise` is" in line)
    assert all(f"`{verb}`" in described or f"tierwise {verb}`" in described for verb in LIVE)


def test_without_files_and_without_a_cluster_there_is_one_clear_line(tmp_path: Path) -> None:
    """A kubeconfig that does not exist is bad input."""
    result = run("top", "--kubeconfig", tmp_path / "none")

    assert 2 == result.exit_code
    assert 1 == result.stderr.count("\n")

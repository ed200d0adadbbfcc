"""Nothing is passed over without a word: verbs say which objects have no effect, or not the one that was meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.commands import answer, manifests, run
from tests.support.draw import draw, gang, objects_of

from tierwise.cli.serve import manifest_source


def test_a_limit_by_an_unknown_tier_name_is_told_of(tmp_path: Path) -> None:
    """It limits nothing, as in Volcano, so `schedule` lists it among the problems."""
    world = draw("r0[n0] r1[n1]", node="gpu=1", tier_names={1: "rack"})
    objects = objects_of(world, gang("train", tasks=2, each="gpu=1", within="rak"))
    file = manifests(tmp_path, *(objects.raw(key) for key in objects))

    found = answer("schedule", "-f", file)

    assert {"default/train-0": "n0", "default/train-1": "n1"} == found["bindings"]
    assert [("PodGroup default/train", "UnknownTierName")] == [(p["object"], p["code"]) for p in found["problems"]]
    assert "highestTierName rak is not the tierName" in run("schedule", "-f", file, width=160).stdout


@pytest.mark.parametrize(
    "verb", ["schedule", "explain x", "why x", "reconcile", "submit", "audit", "top", "topology show"]
)
def test_what_is_not_read_is_named(verb: str, tmp_path: Path) -> None:
    """Kinds and fields that a verb passes over, whichever verb it is."""
    spec = {"nodeSelectors": {}, "containers": [{"name": "main"}], "schedulerName": "volcano"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}, "status": {"allocatable": {"pods": "1"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "default"}, "spec": spec}
    odd = {"apiVersion": "example.com/v1", "kind": "Odd", "metadata": {"name": "o"}}

    told = run(*verb.split(), "-f", manifests(tmp_path, node, pod, odd)).stderr

    assert "1 object of kind Odd (example.com/v1) is not understood and was left out" in told
    assert 'unknown field "nodeSelectors" (did you mean nodeSelector?)' in told


def test_kinds_that_are_left_out_are_among_the_problems(tmp_path: Path) -> None:
    """A program that reads the JSON alone learns of them, too."""
    hyper = {"apiVersion": "training.volcano.sh/v1alpha1", "kind": "HyperJob", "metadata": {"name": "h"}, "spec": {}}

    found = answer("schedule", "-f", manifests(tmp_path, hyper), "--nodes", 1)

    assert [("HyperJob", "NotUnderstood")] == [(one["object"], one["code"]) for one in found["problems"]]
    assert "was left out" in found["problems"][0]["message"]


def test_pages_name_what_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`serve -f` says the same as the verbs that end."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}, "status": {"allocatable": {"pods": "1"}}}
    odd = {"apiVersion": "example.com/v1", "kind": "Odd", "metadata": {"name": "o"}}

    manifest_source([str(manifests(tmp_path, node, odd))], None, None)

    assert "1 object of kind Odd (example.com/v1) is not understood" in capsys.readouterr().err


@pytest.mark.parametrize("width", [80, 160])
def test_the_timeline_has_names_in_full(width: int, tmp_path: Path) -> None:
    """A name that is longer than its column takes a line of its own, so that it can be searched for."""
    name = "a-name-of-a-pod-that-is-longer-than-the-column-for-it-0"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}, "status": {"allocatable": {"pods": "9"}}}
    spec = {"containers": [{"name": "main"}], "schedulerName": "default-scheduler"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}

    lines = run("submit", "-f", manifests(tmp_path, node, pod), "--until", "60s", width=width).stdout.splitlines()

    assert any(name in line for line in lines)
    assert all(len(line) <= width for line in lines)


@pytest.mark.parametrize("verb", ["schedule", "submit", "explain x", "explain --job train"])
def test_whatever_is_said_on_standard_error_is_a_problem_in_the_json(verb: str, tmp_path: Path) -> None:
    """Kinds, fields, marks, settings and schedulers without effect, and what admission refuses; each once."""
    spec = {"nodeSelectors": {}, "containers": [{"name": "main"}], "schedulerName": "volcano"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}, "status": {"allocatable": {"pods": "9"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "default"}, "spec": spec}
    other = {**pod, "metadata": {"name": "y"}, "spec": {**spec, "schedulerName": "mine"}}
    odd = {"apiVersion": "example.com/v1", "kind": "Odd", "metadata": {"name": "o"}}
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "annotations": {"tierwise.io/spare": "1"}},
        "spec": {"minMember": 0},
    }
    queue = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "q"},
        "spec": {"weight": -1},
    }
    config = tmp_path / "config.yaml"
    config.write_text(
        "tiers: [{plugins: [{name: gang}, {name: network-topology-aware, arguments: "
        "{hypernode.binpack.normal-pod.enable: true, hypernode.binpack.normal-pod.fading: abc}}]}]"
    )
    file = manifests(tmp_path, node, pod, other, odd, group, queue)

    found = answer(*verb.split(), "-f", file, "--config", str(config))
    told = [(one["object"], one["code"]) for one in found["problems"]]

    assert len(told) == len(set(map(str, found["problems"])))
    assert {
        ("Odd", "NotUnderstood"),
        ("Pod default/x", "NotRead"),
        ("PodGroup default/train", "NotRead"),
        ("Pod default/y", "NotServed"),
        ("Queue q", "Refused"),
        (str(config), "NoEffect"),
    } <= set(told)

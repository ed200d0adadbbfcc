"""`tierwise defrag`: which pods to move so that a gang fits, what that costs, and what is never moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import EXAMPLES, answer, manifests, run
from tests.support.draw import World, draw, gang
from tests.support.drawn_gang import Gang

from tierwise.api.codec import Raw

RACKS = "s0: r0[n0 n1] r1[n2 n3]"
EXAMPLE = (EXAMPLES / "15-defragmentation", "--now", "2026-01-01T12:00:00Z")


def _file(folder: Path, world: World, *gangs: Gang, more: tuple[Raw, ...] = ()) -> Path:
    return manifests(folder, *world.manifests, *(m for g in gangs for m in g.manifests()), *more)


def _moved(found: Any) -> dict[str, tuple[str, str]]:
    every = (item for move in found["moves"] for item in move["pods"].items())
    return {pod.removeprefix("default/"): (nodes["from"], nodes["to"]) for pod, nodes in every}


def _changed(objects: list[Raw], name: str, **fields: Any) -> list[Raw]:
    """The manifests with fields of one object's metadata, spec or status set."""
    for raw in objects:
        metadata: Any = raw["metadata"]
        if metadata["name"] == name:
            for part, value in fields.items():
                raw[part] = {**raw.get(part, {}), **value}  # type: ignore[dict-item]
    return objects


def test_the_example() -> None:
    """The fewest pods move, each job has a place, and hours are counted from checkpoints."""
    found = answer("defrag", "-f", *EXAMPLE, "--for", "nvidia.com/gpu=8x4@rack")

    assert {"ml/train-a-0": ("a0", "b2"), "ml/train-a-1": ("a1", "b3"), "ml/eval-0": ("a2", "c3")} == _moved(found)
    assert {"before": 0, "after": 1} == found["slots"]
    assert ("rack-a", {"a0": 1, "a1": 1, "a2": 1, "a3": 1}) == (found["hyperNode"], found["nodes"])
    assert {"resource": "nvidia.com/gpu", "hours": 9.333} == found["cost"]
    assert [5.333, 4.0] == [move["hours"] for move in found["moves"]]
    assert [False, True, True] == [found[key] for key in ("fitsNow", "possible", "exact")]


@pytest.mark.parametrize("more", [(), ("--for", "8x2@rack", "--resume")])
def test_a_plan_begins_or_goes_on(more: tuple[str, ...]) -> None:
    """With neither word there is nothing to do, and with both nobody knows which."""
    result = run("defrag", "-f", *EXAMPLE, *more)

    assert 2 == result.exit_code
    assert "either --for or --resume is needed" in result.output


def test_an_execution_that_opens_no_room_exits_with_one(tmp_path: Path) -> None:
    """Pods without an owner are not moved: the rehearsal stops, and scripts hear of it."""
    world = draw("s0: r0[n0 n1] r1[n2 n3]", node="gpu=4")
    file = _file(tmp_path, world, *(gang(f"g{i}", tasks=1, each="gpu=2", on=f"n{2 * i}") for i in range(2)))

    assert 1 == run("defrag", "-f", file, "--for", "4x2@1", "--execute").exit_code


@pytest.mark.parametrize("text", ["8x4@rack", "8×4@1", " nvidia.com/gpu = 8 x 4 @ rack ", "8,cpu=2x4@rack"])
def test_forms(text: str) -> None:
    """The room is written with either cross, a tier by name or number; an amount alone is of accelerators."""
    assert 3 == answer("defrag", "-f", *EXAMPLE, "--for", text)["podsMoved"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("8", "is not of the form RESOURCE=AMOUNT[,...]xPODS@TIER"),
        ("8x4", "is not of the form"),
        ("8x0@rack", "a gang has 1 pod or more"),
        ("8x4@row", "row is none of the tiers: 1 (rack), 2 (spine), cluster"),
        ("nvidia.com/gpu=ax4@rack", "--for: "),
        ("nvidia.com/gpu=0x4@rack", "is not an amount of a resource, named once"),
        ("cpu=1,cpu=2x4@rack", "is not an amount of a resource, named once"),
        ("=8x4@rack", "is not an amount of a resource, named once"),
    ],
)
def test_rooms_that_cannot_be_read(text: str, said: str) -> None:
    """One line says what is wrong, with exit status 2."""
    result = run("defrag", "-f", *EXAMPLE, "--for", text)

    assert (2, 1) == (result.exit_code, len(result.stderr.splitlines()))
    assert said in result.stderr


def test_what_fits_needs_no_move() -> None:
    """Where the gang fits now the plan is empty, and says so."""
    found = answer("defrag", "-f", *EXAMPLE, "--for", "8x2@rack")

    assert (True, True, [], 1) == (found["fitsNow"], found["possible"], found["moves"], found["slots"]["before"])
    assert "no pod has to move" in run("defrag", "-f", *EXAMPLE, "--for", "8x2@rack").stdout


def test_a_resource_that_no_node_has() -> None:
    """The reason names it."""
    reason = answer("defrag", "-f", *EXAMPLE, "--for", "amd.com/gpu=8x2@rack")["reason"]

    assert "no node has amd.com/gpu (did you mean nvidia.com/gpu?)" == reason


def test_a_pod_moves_within_the_domain(tmp_path: Path) -> None:
    """Two half-empty nodes of one rack become an empty and a full one; the room is not given to the moved pod."""
    world = draw("r0[n0 n1]", node="gpu=4")
    file = _file(tmp_path, world, gang("a", tasks=1, each="gpu=2", on="n0"), gang("b", tasks=1, each="gpu=2", on="n1"))

    found = answer("defrag", "-f", file, "--for", "4x1@1")

    assert 1 == found["podsMoved"]
    assert 1 == found["slots"]["after"]


def test_a_chain_of_moves(tmp_path: Path) -> None:
    """The gang that has to go needs the rack of a pod that therefore goes before it."""
    world = draw("s0: r0[n0 n1 n5] r1[n2 n3] r2[n4]", node="gpu=4")
    big = gang("big", tasks=2, each="gpu=4", within=1, on="n0 n1")
    small = gang("small", tasks=1, each="gpu=3", on="n2")

    found = answer("defrag", "-f", _file(tmp_path, world, big, small), "--for", "4x3@1")

    assert ["default/small", "default/big"] == [move["podGroup"] for move in found["moves"]]
    assert (3, True) == (found["podsMoved"], found["exact"])


def test_budgets_are_kept(tmp_path: Path) -> None:
    """Pods whose budget allows no disruption stay; with one disruption allowed, one of them moves."""
    world = draw(RACKS, node="gpu=4")
    where = {"a": "n0", "b": "n2"}
    own = [gang(n, tasks=1, each="gpu=4", on=on, labels={f"{n}-0": {"app": "a"}}) for n, on in where.items()]

    def asked(available: int) -> Any:
        budget: Raw = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "a", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "a"}}, "minAvailable": available},
        }
        return answer("defrag", "-f", _file(tmp_path, world, *own, more=(budget,)), "--for", "4x2@1")

    kept = asked(2)

    assert (False, []) == (kept["possible"], kept["moves"])
    assert "disruption budgets" in kept["reason"]
    assert 1 == asked(1)["podsMoved"]


def test_what_is_never_moved(tmp_path: Path) -> None:
    """Pods that nothing starts again, young pods and pods that are marked stay, and the notes say so."""
    world = draw("s0: r0[n0] r1[n1] r2[n2] r3[n3]", node="gpu=4", running="n0:gpu=1")
    young = gang("young", tasks=1, each="gpu=1", on="n1").manifests()
    marked = gang("marked", tasks=1, each="gpu=1", on="n2").manifests()
    _changed(young, "young", metadata={"name": "young", "annotations": {"tierwise.io/minimum-run-time": "1h"}})
    _changed(young, "young-0", status={"phase": "Running", "startTime": "2026-01-01T00:00:00Z"})
    _changed(marked, "marked-0", metadata={"labels": {"volcano.sh/preemptable": "false"}})
    other = gang("other", tasks=1, each="gpu=1", on="n3").manifests()
    file = manifests(tmp_path, *world.manifests, *young, *marked, *other)

    at = ("--now", "2026-01-01T00:30:00Z")
    found = answer("defrag", "-f", file, "--for", "4x1@1", *at)

    assert {"other-0"} == set(_moved(found))
    assert [
        "1 pod is not moved: marked as not preemptable",
        "1 pod is not moved: without an owner or a group",
        "1 pod is not moved: younger than the minimum run time",
    ] == found["notes"]


def test_waiting_pods_take_no_place(tmp_path: Path) -> None:
    """A gang that waits does not get the places that the plan counts on."""
    world = draw("s0: r0[n0] r1[n1]", node="gpu=4")
    runs = gang("runs", tasks=1, each="gpu=2", on="n0")
    also = gang("also", tasks=1, each="gpu=2", on="n1")
    waits = gang("waits", tasks=1, each="gpu=2", priority=9)

    found = answer("defrag", "-f", _file(tmp_path, world, runs, also, waits), "--for", "4x1@1")

    assert 1 == found["podsMoved"]


def test_a_gang_below_its_minimum_restarts_as_a_whole(tmp_path: Path) -> None:
    """Its other pods lose their work, too, and the cost says so."""
    world = draw("s0: r0[n0] r1[n1] r2[n2]", node="gpu=4", running="n2:gpu=2")
    both = gang("both", tasks=2, each="gpu=2", on="n0 n1").manifests()
    for pod in ("both-0", "both-1"):
        _changed(both, pod, status={"phase": "Running", "startTime": "2026-01-01T00:00:00Z"})
    file = manifests(tmp_path, *world.manifests, *both)

    found = answer("defrag", "-f", file, "--for", "4x1@1", "--now", "2026-01-01T01:00:00Z")

    (move,) = found["moves"]
    assert (1, 1, 2, True) == (len(move["pods"]), move["podsLeft"], move["minMember"], move["restarts"])
    assert 4.0 == move["hours"]
    assert "the other 1 pod of it restarts, too" in " ".join(
        run("defrag", "-f", file, "--for", "4x1@1", "--now", "2026-01-01T01:00:00Z").stdout.split()
    )


def test_no_plan_says_why(tmp_path: Path) -> None:
    """Where the rest of the cluster is full, the pods that would have to move find no other place."""
    world = draw(RACKS, node="gpu=4", running="n2:gpu=4 n3:gpu=4")
    file = _file(tmp_path, world, gang("a", tasks=2, each="gpu=4", on="n0 n1"))

    found = answer("defrag", "-f", file, "--for", "4x2@1")

    assert "the pods that would have to move find no other place" in found["reason"]
    assert found["exact"]


@pytest.mark.parametrize(("taint", "fits"), [("nvidia.com/gpu", True), ("team", False)])
def test_taints(tmp_path: Path, taint: str, fits: bool) -> None:
    """A pod of the gang tolerates taints with the name of what it asks for, and no others."""
    world = draw("r0[n0]", node="gpu=4")
    nodes = [raw for raw in world.manifests if raw["kind"] == "Node"]
    _changed(nodes, "n0", spec={"taints": [{"key": taint, "effect": "NoSchedule"}]})

    assert fits == answer("defrag", "-f", manifests(tmp_path, *world.manifests), "--for", "4x1@1")["fitsNow"]


def test_nobody_is_preempted_for_a_moved_pod(tmp_path: Path) -> None:
    """A moved job of high priority gets no place at another one's expense, whatever the profile allows."""
    world = draw("s0: r0[n0] r1[n1]", node="gpu=4")
    high = gang("high", tasks=1, each="gpu=2", on="n0", priority=100)
    low = gang("low", tasks=1, each="gpu=4", on="n1").manifests()
    _changed(low, "low-0", metadata={"labels": {"volcano.sh/preemptable": "true"}})
    conf = tmp_path / "profile.conf"
    conf.write_text(
        'actions: "enqueue, allocate, preempt"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n'
        "  - name: predicates\n  - name: nodeorder\n"
    )
    file = manifests(tmp_path, *world.manifests, *high.manifests(), *low)

    assert not answer("defrag", "-f", file, "--config", conf, "--for", "4x1@1")["possible"]


@pytest.mark.parametrize("cheap", ["a", "b"])
def test_of_equal_plans_the_cheaper_one(tmp_path: Path, cheap: str) -> None:
    """Where one pod of either rack will do, the one goes that has saved its work."""
    world = draw("s0: r0[n0] r1[n1] r2[n2]", node="gpu=4", running="n2:gpu=2")
    gangs = [gang(name, tasks=1, each="gpu=2", on=on) for name, on in (("a", "n0"), ("b", "n1"))]
    both = [raw for one in gangs for raw in one.manifests()]
    for name in ("a-0", "b-0"):
        _changed(both, name, status={"phase": "Running", "startTime": "2026-01-01T00:00:00Z"})
    saved = {"annotations": {"tierwise.io/checkpointed-at": "2026-01-01T23:00:00Z"}}
    _changed(both, cheap, metadata={"name": cheap, "namespace": "default", **saved})
    file = manifests(tmp_path, *world.manifests, *both)

    found = answer("defrag", "-f", file, "--for", "4x1@1", "--now", "2026-01-02T00:00:00Z")

    assert {f"{cheap}-0"} == set(_moved(found))
    assert 2.0 == found["cost"]["hours"]

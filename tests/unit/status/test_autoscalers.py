"""Waits that autoscalers do not misread: nodes are added where they would help, and nowhere else."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace
from tests.support.autoscalers import cluster_autoscaler_adds, karpenter_adds
from tests.support.commands import ROOT
from tests.support.draw import Gang, World, draw, gang, objects_of

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.model.job import Reason, Rejection, Verdict
from tierwise.port import PatchStatus
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import effects
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import build
from tierwise.status.pod import more_nodes_help, pod_conditions

FREE = draw("s0: r0[n0 n1] r1[n2 n3]", node="gpu=8")
FULL = draw("s0: r0[n0 n1] r1[n2 n3]", node="gpu=8", running="n0:gpu=8 n1:gpu=8 n2:gpu=8 n3:gpu=8")
SCATTERED = draw("s0: r0[n0 n1] r1[n2 n3]", node="gpu=8", running="n1:gpu=8 n3:gpu=8")
CLOSED = draw("n0", node="gpu=8", queues="blue!")
LEAVING = draw("n0", node="gpu=8", running="n0!:gpu=8")
CAPPED: Raw = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "team"},
    "spec": {"capability": {"nvidia.com/gpu": "8"}},
}


def _waits(world: World, train: Gang, profile: Profile = DEFAULT) -> set[tuple[bool, bool]]:
    """What either autoscaler makes of the pods of a gang after one cycle whose conditions and nominations are kept."""
    held = objects_of(world, train)
    snapshot = build(held, 0.0, profile)
    report = cycle(snapshot, profile)
    asked = [e for e in pod_conditions(held, snapshot, report) if isinstance(e, PatchStatus)]
    cluster = EmbeddedCluster(held)
    cluster.apply([*effects(snapshot, report), *asked])
    pods = [pod for pod in cluster.read().every(Pod).values() if pod.metadata.name.startswith("train")]
    assert all(not pod.spec.node_name for pod in pods)
    return {(karpenter_adds(pod), cluster_autoscaler_adds(pod)) for pod in pods}


def _train(tasks: int = 1, **settings: object) -> Gang:
    return gang("train", tasks=tasks, each="gpu=8", **settings)  # type: ignore[arg-type]


def _capped(each: str = "n0 n1 n2") -> World:
    world = draw(each, node="gpu=8")
    return World((*world.manifests, CAPPED), world.drawing)


@pytest.mark.parametrize(
    ("world", "train"),
    [
        (FULL, _train()),
        (FULL, _train(2, within=1)),
        (FREE, _train(9)),
        (FREE, _train(3, within=1)),
        (SCATTERED, _train(2, within=1)),
        (draw("n0", node="gpu=4"), _train()),
    ],
    ids=["full", "full racks", "larger than the cluster", "larger than a rack", "fragmented", "larger than a node"],
)
def test_nodes_are_added_for_who_has_no_place(world: World, train: Gang) -> None:
    """Whoever would start on more nodes of the kind, now or at all, is Unschedulable."""
    assert {(True, True)} == _waits(world, train)


@pytest.mark.parametrize(
    ("world", "train"),
    [
        (CLOSED, _train(queue="blue")),
        (FREE, _train(queue="nowhere")),
        (FREE, _train(2, minimum=3)),
        (FREE, _train(within=7, minimum=2)),
        (_capped(), _train(2, queue="team")),
        (_capped("n0"), _train(2, queue="team")),
        (LEAVING, _train()),
        (draw("n0", node="gpu=8"), _train(2, within="pod")),
    ],
    ids=[
        "closed queue",
        "no queue",
        "too few pods",
        "too few pods for a wide limit",
        "quota",
        "quota and no room either",
        "a node is kept",
        "no such tier",
    ],
)
def test_no_nodes_are_bought_for_who_is_held_back(world: World, train: Gang) -> None:
    """Queue, quota, gate, reservation: no autoscaler takes the pods for ones that lack nodes."""
    rejecting = replace(
        DEFAULT,
        tiers=(*DEFAULT.tiers[:1], tuple(_rejecting(choice) for choice in DEFAULT.tiers[1])),
    )

    assert {(False, False)} == _waits(world, train, rejecting)


def _rejecting(choice: PluginChoice) -> PluginChoice:
    """network-topology-aware that rejects names of tiers which do not exist."""
    if choice.name != "network-topology-aware":
        return choice
    return replace(choice, arguments={"unknownTierName": "reject"})


def test_no_nodes_are_bought_for_patience() -> None:
    """A gang that declines a wide place for a time has a place."""
    choice = PluginChoice("patience", {"ladder": "1=1h,any", "fromPods": 1})
    others = tuple(other for other in DEFAULT.tiers[1] if other.name != "patience")
    patient = replace(DEFAULT, tiers=(DEFAULT.tiers[0], (*others, choice)))

    assert {(False, False)} == _waits(SCATTERED, _train(2, soft=True), patient)


def test_no_nodes_are_bought_once_victims_leave() -> None:
    """Evictions have made the room: the gang waits for pods that are on their way out."""
    waits = Rejection("fit", "a", Reason("NotEnoughResources", "allocate", ""))
    leaving = Rejection("evict", "a", Reason("AwaitsVictims", "podpreempt", ""))

    assert more_nodes_help(waits)
    assert not more_nodes_help(replace(waits, children=(leaving,)))


_STAGES = {
    "WaitsForCloserPlace": "place",
    "WouldDelayReservation": "place",
    "AwaitsNotice": "place",
    "MovesForRepair": "place",
    "WaitsForVolume": "bind",
    "WaitsForDevice": "bind",
    "VolumeBindingFailed": "bind",
    "VolumeBindingTimedOut": "bind",
    "ClusterOvercommitted": "enqueue",
}


def _rows() -> list[list[str]]:
    page = (ROOT / "docs" / "reference" / "reasons.md").read_text(encoding="utf-8")
    table = page[page.index("## Why a job waits") : page.index("## What a node lacks")]
    return [[cell.strip() for cell in line.split("|")[1:4]] for line in re.findall(r"^\| `.*", table, re.MULTILINE)]


@pytest.mark.parametrize(("code", "verdict", "helped"), [row for row in _rows() if row[0] != "`NotTried`"])
def test_the_reference_says_it_by_code(code: str, verdict: str, helped: str) -> None:
    """The column of the reference is what pods are told for each code."""
    name = code.strip("`")
    held_back = verdict == "not allowed"
    stage = "gate" if held_back else _STAGES.get(name, "fit")
    rejection = Rejection(
        stage,
        "a",
        Reason(name, "any", ""),
        verdict=Verdict.NOT_ALLOWED if held_back else Verdict.NEVER if verdict == "never" else Verdict.NOT_NOW,
    )

    assert {"yes": True, "no": False}[helped] == more_nodes_help(rejection)

"""Nodes that have failed to start pods: a gang avoids them, several owners suspect them, and nobody waits for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.draw import World
from tests.support.reservations import HOUR, NOW, TWO_RACKS, in_namespace, job, running

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.config.profile import DEFAULT
from tierwise.framework.report import CycleReport
from tierwise.model.failed_starts import MOST_OF_NAMESPACE
from tierwise.port import Create, Objects, PatchStatus, Update
from tierwise.scheduler import cycle
from tierwise.scheduler.cycle import check_profile
from tierwise.snapshot.builder import build
from tierwise.snapshot.failed_starts import FAILED_STARTS, SUSPECTED, failed_start, failed_start_effects

REMEMBERS = replace(DEFAULT, action_arguments={"allocate": {"failedStarts": "tierwise"}})


def cluster(*parts: list[Raw], world: World = TWO_RACKS) -> Objects:
    """The racks and these objects."""
    every = [*world.manifests, *(raw for part in parts for raw in part)]
    return Objects.of((codec.decode(raw), raw) for raw in every)


def report(*parts: list[Raw], now: float = NOW) -> CycleReport:
    """One cycle of a profile that remembers."""
    return cycle(build(cluster(*parts), now, REMEMBERS), REMEMBERS)


def nodes_of(found: CycleReport, name: str) -> list[str]:
    """Where a job was bound."""
    rows = [row for one in found.decisions if one.job.key.endswith(name) and one.bound for _, row in one.places()]
    return sorted(f"n{row}" for row in rows)


def record(*starts: tuple[str, str, float], **forgiven: float) -> list[Raw]:
    """The ConfigMap: gang, node and how many seconds ago."""
    lines = [[f"u{i}", gang, node, NOW - ago, "OutOfcpu", False] for i, (gang, node, ago) in enumerate(starts)]
    data = {"starts": "".join(f"{json.dumps(line)}\n" for line in lines), "forgiven": json.dumps(forgiven)}
    metadata = {"name": FAILED_STARTS, "namespace": "tierwise"}
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}]


def pod(**status: Any) -> Any:
    """A pod on n0 with a status."""
    raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "u"}, "spec": {"nodeName": "n0"}}
    return codec.decode({**raw, "status": status})


def ended(code: int, reason: str = "Error") -> list[Any]:
    """A container that has ended."""
    return [{"name": "c", "state": {"terminated": {"exitCode": code, "reason": reason}}}]


def waiting(reason: str) -> list[Any]:
    """A container that does not start."""
    return [{"name": "c", "state": {"waiting": {"reason": reason}}}]


COUNTS: dict[str, Any] = {
    "UnexpectedAdmissionError": {"phase": "Failed", "reason": "UnexpectedAdmissionError"},
    "TopologyAffinityError": {"phase": "Failed", "reason": "TopologyAffinityError"},
    "OutOfnvidia.com/gpu": {"phase": "Failed", "reason": "OutOfnvidia.com/gpu"},
    "NodeLost": {"phase": "Failed", "reason": "NodeLost"},
    "ImagePullBackOff": {"phase": "Pending", "containerStatuses": waiting("ImagePullBackOff")},
    "RunContainerError": {"phase": "Pending", "containerStatuses": waiting("RunContainerError")},
    "Init:Error": {"phase": "Failed", "initContainerStatuses": ended(3)},
    "DeletionByTaintManager": {
        "phase": "Failed",
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}],
    },
}
NEVER: dict[str, Any] = {
    "an exit code": {"phase": "Failed", "containerStatuses": ended(1)},
    "out of memory": {"phase": "Failed", "containerStatuses": ended(137, "OOMKilled")},
    "evicted": {"phase": "Failed", "reason": "Evicted"},
    "deadline": {"phase": "Failed", "reason": "DeadlineExceeded"},
    "starting": {"phase": "Pending", "containerStatuses": waiting("ContainerCreating")},
    "circling": {"phase": "Running", "containerStatuses": waiting("CrashLoopBackOff")},
    "configuration": {"phase": "Pending", "containerStatuses": waiting("CreateContainerConfigError")},
    "name of an image": {"phase": "Pending", "containerStatuses": waiting("InvalidImageName")},
}


@pytest.mark.parametrize("why", COUNTS)
def test_what_the_node_could_not_do_counts(why: str) -> None:
    """Refused by the kubelet, no image, no device, a failed check, a lost node."""
    assert ("u", "n0", why) == failed_start(pod(**COUNTS[why]))


@pytest.mark.parametrize("why", NEVER)
def test_what_the_container_did_never_counts(why: str) -> None:
    """Neither exit codes nor memory, nor what its author has to correct."""
    assert failed_start(pod(**NEVER[why])) is None


def failed(raws: list[Raw], name: str, on: str) -> list[Raw]:
    """The same gang, with one more pod that a kubelet has refused."""
    body: Any = next(raw for raw in raws if raw["kind"] == "Pod")
    gone = {
        **body,
        "metadata": {**body["metadata"], "name": name, "uid": name},
        "spec": {**body["spec"], "nodeName": on},
        "status": {"phase": "Failed", "reason": "UnexpectedAdmissionError"},
    }
    return [*raws, gone]


def test_a_gang_goes_elsewhere_than_where_it_failed() -> None:
    """Without memory it returns to the first node; the profile has to ask for it."""
    again = failed(job("train"), "train-gone", "n0")

    assert ["n1"] == nodes_of(report(again), "train")
    assert ["n0"] == nodes_of(cycle(build(cluster(again), NOW), DEFAULT), "train")


def test_where_it_fits_only_there_it_goes_there() -> None:
    """It never waits for a node that failed it."""
    whole = failed(job("train", 4), "train-gone", "n0")

    assert ["n0", "n1", "n2", "n3"] == nodes_of(report(whole), "train")


def test_a_node_that_is_gone_is_avoided_by_nobody() -> None:
    """The node that failed was taken away since: its gang is placed on the others."""
    again = report(record(("default/train", "gone", 60.0)), job("train", 2))

    assert ["n0", "n1"] == nodes_of(again, "train")


def test_failed_starts_are_forgotten() -> None:
    """One counts for a half-life, two for twice as long, and none that is forgiven."""
    one, two = [("default/train", "n0", HOUR * 1.5)], [("default/train", "n0", HOUR * 1.5)] * 2

    assert ["n0"] == nodes_of(report(record(*one), job("train")), "train")
    assert ["n1"] == nodes_of(report(record(*one), job("train"), now=NOW - HOUR), "train")
    assert ["n1"] == nodes_of(report(record(*two), job("train"), now=NOW - HOUR / 2 - 60), "train")
    assert ["n0"] == nodes_of(report(record(*one, n0=NOW), job("train"), now=NOW - HOUR), "train")


def test_a_node_that_failed_several_owners_is_used_last() -> None:
    """Two namespaces, and a third that has never been there."""
    both = record(("a/x", "n0", 60.0), ("b/y", "n0", 60.0))
    third = in_namespace("c", job("third"))

    assert ["n1"] == nodes_of(report(both, third), "third")
    assert ["n0", "n1", "n2", "n3"] == nodes_of(report(both, in_namespace("c", job("whole", 4))), "whole")


def test_one_tenant_blackens_no_node_for_others() -> None:
    """However often it fails, in however many gangs: others are placed as if nothing had been."""
    many = record(*[(f"a/x{i}", f"n{i % 4}", 60.0) for i in range(200)])
    third = in_namespace("c", job("third"))

    assert ["n0"] == nodes_of(report(many, third), "third")


def test_of_a_rack_at_most_half_is_suspected() -> None:
    """Else a bad image that two teams share would close it."""
    both = record(*[(gang, node, 60.0) for gang in ("a/x", "b/y") for node in ("n0", "n1")])

    assert ["n1"] == nodes_of(report(both, in_namespace("c", job("third"))), "third")


def test_a_gang_avoids_at_most_half_as_many_nodes_as_it_has_pods() -> None:
    """A gang whose image is wrong fails everywhere: that says nothing of nodes."""
    everywhere = record(*[("default/train", f"n{i}", 60.0 + i) for i in range(4)])

    assert ["n1", "n2"] == nodes_of(report(everywhere, job("train", 2)), "train")


def test_the_record_is_written_once_and_bounded() -> None:
    """A line for each pod; a namespace has a share, so that nobody displaces what others know."""
    again = failed(job("train"), "train-gone", "n0")
    (created,) = effects(again)
    assert isinstance(created, Create)
    written: Any = created.raw
    data: Any = written["data"]
    assert [["train-gone", "default/train", "n0", NOW, "UnexpectedAdmissionError", True]] == [
        json.loads(line) for line in data["starts"].splitlines()
    ]
    assert [] == effects(again, [written])

    flood = record(*[(f"a/x{i}", "n0", 60.0) for i in range(300)], ("b/y", "n1", HOUR))
    (updated,) = effects(again, flood)
    assert isinstance(updated, Update)
    kept: Any = updated.raw["data"]
    gangs = [json.loads(line)[1] for line in kept["starts"].splitlines()]
    assert MOST_OF_NAMESPACE == sum(gang.startswith("a/") for gang in gangs)
    assert {"b/y", "default/train"} <= set(gangs)


def effects(*parts: list[Raw]) -> list[Any]:
    """What is written down of a cluster."""
    objects = cluster(*parts)
    return failed_start_effects(objects, build(objects, NOW, REMEMBERS))


@pytest.mark.parametrize("text", ["[1, 2]\n", "7", "[" * 100_000], ids=["too-short", "no-list", "too-deep"])
def test_a_record_that_cannot_be_read_is_told_and_remembers_nothing(text: str) -> None:
    """Somebody else has written it."""
    broken: Any = record()
    broken[0]["data"]["starts"] = text
    found = build(cluster(broken, job("train")), NOW, REMEMBERS)

    assert ["InvalidFailedStarts"] == [fault.code for fault in found.faults]
    assert ["n0"] == nodes_of(cycle(found, REMEMBERS), "train")


@pytest.mark.parametrize(
    ("name", "value"),
    [("failedStarts", "a/b"), ("failedStartsHalfLife", "soon"), ("suspectedBy", 1), ("suspectedCondition", "yes")],
)
def test_values_that_cannot_be_read_are_refused(name: str, value: object) -> None:
    """With the name of the argument."""
    with pytest.raises(InputError, match=r"is n") as refused:
        check_profile(replace(DEFAULT, action_arguments={"allocate": {name: value}}))
    assert f"configurations.allocate.{name}" == refused.value.field


def test_a_pod_that_came_up_elsewhere_since_speaks_against_the_node() -> None:
    """Nobody ran beside it when it failed; now all of it does, on another node. Not where it lacked an image."""
    alone = record(("default/train", "n0", 60.0))
    again = running("train", "n1")

    def flags(why: str, gang: list[Raw]) -> list[bool]:
        lines = alone[0]["data"]["starts"].replace("false", "true").replace("OutOfcpu", why)  # type: ignore[index]
        told = effects([{**alone[0], "data": {"starts": lines}}], gang)
        return [json.loads(line)[5] for one in told for line in one.raw["data"]["starts"].splitlines()]

    assert [False] == flags("OutOfcpu", again)
    assert [] == flags("OutOfcpu", running("train", "n0"))
    assert [] == flags("ImagePullBackOff", again)
    assert [] == flags("OutOfcpu", job("train"))


def conditions(*parts: list[Raw], now: float = NOW) -> dict[str, str]:
    """By node the status of the condition that is written."""
    marking = {"failedStarts": "tierwise", "suspectedCondition": True}
    profile = replace(DEFAULT, action_arguments={"allocate": marking})
    objects = cluster(*parts)
    written = failed_start_effects(objects, build(objects, now, profile))
    return {e.key.name: e.status["conditions"][0]["status"] for e in written if isinstance(e, PatchStatus)}  # type: ignore[index]


def test_suspected_nodes_have_a_condition_where_a_profile_asks_for_it() -> None:
    """It is written once, and taken back when the node is suspected no more; other nodes have none."""
    both = record(("a/x", "n0", 60.0), ("b/y", "n0", 60.0))
    marked = [{**raw, "status": status_of(raw)} for raw in TWO_RACKS.manifests if raw["kind"] == "Node"]

    assert {"n0": "True"} == conditions(both)
    assert {} == conditions(both, marked)
    assert {"n0": "False"} == conditions(marked)
    assert {"n0": "False"} == conditions(both, marked, now=NOW + 2 * HOUR)
    assert [] == effects(both)


def status_of(raw: Any) -> Any:
    """The status of a node, with the condition on the first."""
    condition = {"type": SUSPECTED, "status": "True"}
    given = raw.get("status", {})
    return {
        **given,
        "conditions": [*given.get("conditions", []), *([condition] if raw["metadata"]["name"] == "n0" else [])],
    }

"""Places that are kept for successors: own nodes first, then the own domain; for a time, charged, and told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.draw import draw
from tests.support.languages import grove_gang
from tests.support.reservations import NOW, in_namespace, job, running

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.errors import InputError
from tierwise.config.profile import DEFAULT, Profile
from tierwise.explain.obstacles import obstacles_of
from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.port import Create, Objects, Update
from tierwise.scheduler import cycle
from tierwise.scheduler.cycle import check_profile
from tierwise.snapshot.builder import build
from tierwise.snapshot.kept_places import KEPT_PLACES, MOST_OF_NAMESPACE, kept_place_effects

KEEPS = replace(DEFAULT, action_arguments={"allocate": {"keptPlaces": "tierwise"}})
RACKS = draw("s0[r0[n0 n1] r1[n2 n3]]", node="gpu=8")
OWNER: Raw = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "web", "controller": True}


def snapshot(*parts: list[Raw], profile: Profile = KEEPS) -> tuple[Objects, Snapshot]:
    """The racks and these objects."""
    raws = [*RACKS.manifests, *(raw for part in parts for raw in part)]
    objects = Objects.of((codec.decode(raw), raw) for raw in raws)
    return objects, build(objects, NOW, profile)


def report(*parts: list[Raw], profile: Profile = KEEPS) -> CycleReport:
    """One cycle."""
    return cycle(snapshot(*parts, profile=profile)[1], profile)


def nodes_of(found: CycleReport, name: str) -> list[str]:
    """Where a job is bound, or nominated."""
    return sorted(f"n{row}" for one in found.decisions if one.job.key.endswith(name) for _, row in one.places())


def pod(name: str, on: str = "", *, namespace: str = "ml", uid: str = "", **status: Any) -> list[Raw]:
    """A pod of a StatefulSet of whole nodes."""
    meta: Raw = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}", "ownerReferences": [OWNER]}
    meta["creationTimestamp"] = format_time(NOW)
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    spec: Raw = {"containers": [container], **({"nodeName": on} if on else {})}
    state = {"phase": "Running" if on else "Pending", **status}
    return [{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": state}]


def leaving(raws: list[Raw]) -> list[Raw]:
    """The same pods, whose deletion was asked for."""
    for raw in raws:
        body: Any = raw
        if raw["kind"] == "Pod":
            body["metadata"]["deletionTimestamp"] = format_time(NOW + 30)
    return raws


def without_pods(raws: list[Raw]) -> list[Raw]:
    """The objects that are left when all pods are gone."""
    return [raw for raw in raws if raw["kind"] != "Pod"]


def record(*lines: list[Any]) -> list[Raw]:
    """The ConfigMap."""
    metadata = {"name": KEPT_PLACES, "namespace": "tierwise"}
    data = {"places": "".join(f"{json.dumps(line)}\n" for line in lines)}
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}]


def stood(pod: str, on: str, *, gone: float = 0.0, gang: str = "", declared: str = "", **more: Any) -> list[Any]:
    """A line of it: a pod of whole nodes, gone for so many seconds, or not known to be gone."""
    at = NOW - gone if gone else 0.0
    amounts = {"pods": 1, "nvidia.com/gpu": 8}
    returns = more.get("returns", not gang)
    return [pod, "old", gang, declared, more.get("owner", ""), returns, on, more.get("queue", ""), amounts, at]


def lines_after(*parts: list[Raw]) -> list[list[Any]]:
    """The lines of the record that a cycle writes."""
    objects, seen = snapshot(*parts)
    (effect,) = kept_place_effects(objects, seen, ())
    assert isinstance(effect, Create | Update)
    data: Any = effect.raw["data"]
    return [json.loads(line) for line in data["places"].splitlines()]


def written(*parts: list[Raw]) -> list[list[Any]]:
    """Those lines; none where nothing is written."""
    objects, seen = snapshot(*parts)
    return lines_after(*parts) if kept_place_effects(objects, seen, ()) else []


FULL = [*pod("a", "n0"), *pod("b", "n1"), *pod("c", "n3")]
RIVAL = in_namespace("other", job("rival"))


def test_the_place_of_a_pod_is_its_successors() -> None:
    """The rival came first; only with the record nobody gets in between."""
    kept = record(stood("ml/web-0", "n2", gone=30.0))

    assert ["n2"] == nodes_of(report(FULL, RIVAL, kept, pod("web-0")), "web-0")
    assert ["n2"] == nodes_of(report(FULL, RIVAL, pod("web-0")), "rival")


def test_nobody_takes_it_while_the_successor_is_not_there() -> None:
    """While the old pod is leaving, when it is just gone, and until the time is over; then it is for others."""
    old = pod("web-0", "n2", uid="old")

    assert not report(FULL, RIVAL, record(stood("ml/web-0", "n2")), leaving(old)).decisions
    assert not report(FULL, RIVAL, record(stood("ml/web-0", "n2"))).decisions
    assert not report(FULL, RIVAL, record(stood("ml/web-0", "n2", gone=59.0))).decisions
    assert ["n2"] == nodes_of(report(FULL, RIVAL, record(stood("ml/web-0", "n2", gone=60.0))), "rival")


def test_a_cycle_looks_again_when_the_time_is_over() -> None:
    """Though nothing else happens."""
    found = report(FULL, RIVAL, record(stood("ml/web-0", "n2", gone=20.0)))

    assert NOW + 40.0 == found.retry_after(NOW)


def test_own_node_then_own_domain_then_anywhere() -> None:
    """A pod whose node is taken stays in its rack, though another one is emptier; it never waits for its node."""
    kept = record(stood("ml/web-0", "n2", gone=30.0))

    assert ["n2"] == nodes_of(report(kept, pod("web-0")), "web-0")
    assert ["n3"] == nodes_of(report(kept, pod("x", "n2"), pod("web-0")), "web-0")
    assert ["n0"] == nodes_of(report(kept, pod("x", "n2"), pod("y", "n3"), pod("web-0")), "web-0")


def test_a_gang_that_is_made_again_comes_back() -> None:
    """All its pods are gone, and its group is not; other pods take its places, and no other gang does."""
    names = {"gang": "default/train", "declared": "scheduling.volcano.sh/PodGroup"}
    kept = record(*(stood(f"default/train-{i}", f"n{i + 2}", gone=30.0, **names) for i in range(2)))

    assert ["n2", "n3"] == nodes_of(report(kept, job("train", 2)), "train")
    assert ["n0", "n1"] == nodes_of(report(job("train", 2)), "train")
    assert not report(pod("a", "n0"), pod("b", "n1"), kept, without_pods(job("train", 2)), RIVAL).decisions


def test_what_is_deleted_with_its_group_is_for_others() -> None:
    """Nobody would come after it."""
    names = {"gang": "default/train", "declared": "scheduling.volcano.sh/PodGroup"}
    kept = record(stood("default/train-0", "n2", gone=5.0, **names))

    assert ["n2"] == nodes_of(report(FULL, RIVAL, kept), "rival")


def test_gangs_of_one_owner_come_after_each_other() -> None:
    """As of a LeaderWorkerSet, whose groups have another name with each revision."""
    kept = record(stood("default/lws-0-a", "n3", gone=5.0, gang="default/lws-0-old", owner="lws"))
    group: Any = job("lws-0-new")
    group[0]["metadata"]["ownerReferences"] = [{**OWNER, "kind": "LeaderWorkerSet", "name": "lws"}]

    assert ["n3"] == nodes_of(report(kept, group), "lws-0-new")


def _grove(name: str, pods: int, *, after: str = "", on: str = "") -> list[Raw]:
    found: Any = grove_gang(name, {"w": pods}, on={f"{name}-w-{i}": node for i, node in enumerate(on.split())})
    for raw in found:
        if raw["kind"] == "PodGang" and after:
            raw["spec"]["reuseReservationRef"] = {"name": after, "namespace": "default"}
        if raw["kind"] == "Pod":
            limits = {"limits": {"nvidia.com/gpu": "8"}}
            raw["spec"]["containers"] = [{"name": "c", "image": "x", "resources": limits}]
    return list(found)


def test_a_grove_gang_takes_the_place_that_it_names() -> None:
    """Of a gang that is leaving, with any profile; n0 is idle, and without the reference it goes there."""
    before = leaving(_grove("a", 1, on="n3"))

    assert ["n3"] == nodes_of(report(before, _grove("b", 1, after="a"), profile=DEFAULT), "b")
    assert ["n0"] == nodes_of(report(before, _grove("b", 1), profile=DEFAULT), "b")
    assert ["n0"] == nodes_of(report(before, _grove("b", 1, after="c"), profile=DEFAULT), "b")


def test_no_place_is_kept_of_a_pod_that_was_evicted_or_has_ended() -> None:
    """It was evicted for somebody, who is to have the room; what has ended needs none."""
    evicted = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]}
    line = record(stood("ml/web-0", "n2"))

    for status in (evicted, {"phase": "Succeeded"}, {"phase": "Failed"}):
        gone = leaving(pod("web-0", "n2", uid="old", **status))
        assert ["n2"] == nodes_of(report(FULL, RIVAL, line, gone), "rival")


def test_the_record_follows_pods() -> None:
    """Who stands is written down, then when it was gone, then its successor; nothing where nothing is new."""
    assert [["ml/web-0", "uid-web-0", "", "", "", True, "n2", ""]] == [line[:8] for line in written(pod("web-0", "n2"))]
    first = written(pod("web-0", "n2"))
    assert [] == written(pod("web-0", "n2"), record(*first))
    assert [NOW] == [line[-1] for line in written(record(*first))]
    assert ["new"] == [line[1] for line in written(pod("web-0", "n1", uid="new"), record(*first))]
    assert [] == lines_after(record(stood("ml/web-0", "n2", gone=61.0)))
    (gang, *_) = written(running("train", "n0 n1"))
    assert ["default/train", "scheduling.volcano.sh/PodGroup"] == gang[2:4]


def test_a_pod_that_nobody_makes_again_has_no_place() -> None:
    """A pod by itself, and those of a Deployment, which makes new ones before old ones go."""
    by_itself: Any = pod("x", "n0")
    by_itself[0]["metadata"]["ownerReferences"] = [{**OWNER, "kind": "ReplicaSet"}]

    assert [] == written(by_itself)


def test_a_namespace_has_a_share_of_the_record() -> None:
    """A tenant with very many pods displaces nobody's places; who is in the record stays there."""
    many = record(*[stood(f"ml/x-{i}", "n0", gone=1.0) for i in range(MOST_OF_NAMESPACE)])
    lines = written(many, pod("web-0", "n2"), pod("web-0", "n3", namespace="other"))

    assert [MOST_OF_NAMESPACE, 1] == [sum(line[0].startswith(n) for line in lines) for n in ("ml/", "other/")]


def test_a_kept_place_is_charged() -> None:
    """To the queue of its owner while it is kept, and to the account of idle room of its namespace."""
    queue: Raw = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "ml"},
        "spec": {"capability": {"nvidia.com/gpu": "8"}},
    }
    limited = replace(KEEPS, tiers=((*KEEPS.tiers[0], _plugin("capacity")), *KEEPS.tiers[1:]))
    kept = record(stood("ml/web-0", "n2", gone=5.0, queue="ml"))
    own = job("train", queue="ml")

    assert ["n0"] == nodes_of(report([queue], own, profile=limited), "train")
    assert not report([queue], own, kept, profile=limited).decisions
    found = report(kept, RIVAL)
    assert {("ml", "ml"): 1.0} == {owner: account.nodes for owner, account in found.turns.idle.accounts.items()}


def _plugin(name: str) -> Any:
    return replace(KEEPS.tiers[0][0], name=name)


def test_an_account_that_is_spent_keeps_no_place() -> None:
    """Whoever lets pods come and go all day has used up what may be idle for him."""
    poor = replace(DEFAULT, action_arguments={"allocate": {"keptPlaces": "tierwise", "idleRoom": 0}})
    kept = record(stood("ml/web-0", "n2", gone=5.0))

    assert ["n2"] == nodes_of(report(FULL, RIVAL, kept, profile=poor), "rival")


def test_those_who_wait_are_told() -> None:
    """Where, for whom and until when."""
    _, seen = snapshot(FULL, RIVAL, record(stood("ml/web-0", "n2", gone=20.0)))
    found = cycle(seen, KEEPS)
    (rival,) = (one for one in seen.jobs if one.key == "other/rival")
    until = format_time(NOW + 40)

    assert [f"without the place on n2 that is kept until {until} for the successor of ml/web-0 it fits"] == [
        obstacle.text() for obstacle in obstacles_of(seen, found, KEEPS, rival)
    ]


@pytest.mark.parametrize(
    "text",
    ["[1, 2]", "7", '["default/p", "u", "", "", "", true, "n0", "", {"pods": Infinity}, 0]', "[" * 100_000],
    ids=["too-short", "no-list", "no-number", "too-deep"],
)
def test_a_record_that_cannot_be_read_is_told_and_keeps_nothing(text: str) -> None:
    """Somebody else has written it."""
    broken: Any = record()
    broken[0]["data"]["places"] = text
    _, seen = snapshot(FULL, RIVAL, broken)

    assert ["InvalidKeptPlaces"] == [fault.code for fault in seen.faults]
    assert ["n2"] == nodes_of(cycle(seen, KEEPS), "rival")


@pytest.mark.parametrize(("name", "value"), [("keptPlaces", "a/b"), ("keptPlacesFor", "soon"), ("keptPlacesFor", "2h")])
def test_values_that_cannot_be_read_are_refused(name: str, value: object) -> None:
    """With the name of the argument; no place is kept for longer than an hour."""
    with pytest.raises(InputError, match=r"is not") as refused:
        check_profile(replace(DEFAULT, action_arguments={"allocate": {name: value}}))
    assert f"configurations.allocate.{name}" == refused.value.field

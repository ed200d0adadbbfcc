"""What is written into a namespace never names the objects of another one, whatever it is about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.support.draw import World, draw, gang
from tests.support.drawn_gang import manifest
from tests.support.reservations import HOUR, NOW, job, running
from tests.unit.plugins.test_eviction_cost import costed

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.explain.message import message
from tierwise.framework.report import CycleReport
from tierwise.port import Effect, Evict, Key, Objects, Outcome, PatchStatus, RecordEvent
from tierwise.runtime.forecasts import forecast_effects
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import effects
from tierwise.sim.forecast.eta import forecasts, summary
from tierwise.snapshot.builder import build
from tierwise.status.pod import pod_conditions, pod_events
from tierwise.status.pod_group import statuses

ROW = draw("r0[n0 n1 n2 n3]", node="gpu=8")
RESERVING = replace(DEFAULT, action_arguments={"allocate": {"reservations": "easy"}})


def _ended_in_time(raws: Sequence[Raw]) -> list[Raw]:
    """Pods with a deadline two hours after their start, so that what their job states counts for others, too."""
    found: list[Any] = list(raws)
    for raw in found:
        if raw["kind"] == "Pod":
            raw["spec"]["activeDeadlineSeconds"] = int(2 * HOUR)
    return found


def _in(namespace: str, raws: Sequence[Raw]) -> list[Raw]:
    """Objects in a namespace, with names that nobody else has."""
    text = msgspec.json.encode(raws).decode()
    found: list[Any] = msgspec.json.decode(text)
    for raw in found:
        raw["metadata"]["namespace"] = namespace
    return found


def _mine(raws: Sequence[Raw]) -> list[Raw]:
    return _in("mine", raws)


def _theirs(raws: Sequence[Raw]) -> list[Raw]:
    return _in("theirs", raws)


def _leaving(raws: Sequence[Raw]) -> list[Raw]:
    found: list[Any] = _theirs(raws)
    for raw in found:
        if raw["kind"] == "Pod":
            raw["metadata"]["deletionTimestamp"] = format_time(NOW)
    return found


def _nominated(raws: Sequence[Raw], node: str) -> list[Raw]:
    found: list[Any] = _mine(raws)
    for raw in found:
        if raw["kind"] == "Pod":
            raw["status"] = {"phase": "Pending", "nominatedNodeName": node}
    return found


def _quota(namespace: str, name: str, most: int, least: int) -> Raw:
    amounts = {"nvidia.com/gpu": str(most)}, {"nvidia.com/gpu": str(least)}
    spec: Raw = {"max": amounts[0], "min": amounts[1]}
    return manifest(
        "scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", {"name": name, "namespace": namespace}, spec=spec
    )


BUSY = _ended_in_time(running("theirs-a", "n0", ends_in=HOUR))
BIG = job("theirs-big", 4, turn=1)
LOW = running("theirs-low", "n0 n1 n2 n3", ago=9 * HOUR)
TOLD = {"tierwise.io/eviction-notice": "2m", "tierwise.io/checkpointed-at": format_time(NOW - 60)}
NOTICED = running("theirs-low", "n0 n1 n2 n3", marks=TOLD)
URGENT = gang("mine-urgent", tasks=2, each="gpu=8", priority=10).manifests()

Case = tuple[Profile, list[Raw], str]

CASES: dict[str, Case] = {
    "a reservation of others": (RESERVING, [*_theirs(BUSY), *_theirs(BIG), *_mine(job("mine", turn=2))], "WouldDelay"),
    "a reservation behind others": (
        RESERVING,
        [*_theirs(BUSY), *_mine(job("mine-big", 4, turn=1))],
        "Reserved",
    ),
    "spares of others": (
        DEFAULT,
        [*_theirs(running("theirs-a", "n0 n1 n2", marks={"tierwise.io/spares": "1"})), *_mine(job("mine"))],
        "SparesKept",
    ),
    "work of others": (costed("gangpreempt"), [*_theirs(LOW), *_mine(URGENT)], "LosesMore"),
    "an eviction": (costed("gangpreempt", decline=False), [*_theirs(LOW), *_mine(URGENT)], "make room"),
    "an eviction pod by pod": (
        costed("preempt", decline=False),
        [*_theirs(running("theirs-low", "n0 n1 n2 n3", minimum=1)), *_mine(URGENT)],
        "make room",
    ),
    "a notice": (costed("gangpreempt"), [*_theirs(NOTICED), *_mine(URGENT)], "ToBeEvicted"),
    "victims on their way": (
        replace(DEFAULT, actions=("enqueue", "allocate", "jobpreempt")),
        [*_leaving(running("theirs-low", "n0")), *_theirs(running("theirs-b", "n1 n2 n3")), *_nominated(URGENT, "n0")],
        "AwaitsVictims",
    ),
    "quotas of others": (
        replace(
            DEFAULT,
            actions=("enqueue", "allocate", "giveback"),
            tiers=(*DEFAULT.tiers, (PluginChoice("elasticquota", {"trustedNamespaces": ["theirs", "mine"]}),)),
        ),
        [
            _quota("theirs", "theirs-quota", 32, 8),
            _quota("mine", "mine-quota", 32, 24),
            *_theirs(running("theirs-low", "n0 n1 n2 n3", queue="theirs-quota")),
            *_mine(gang("mine-urgent", tasks=2, each="gpu=8", queue="mine-quota").manifests()),
        ],
        "GiveBack",
    ),
    "a start behind others": (RESERVING, [*_theirs(LOW), *_mine(URGENT)], ""),
}


def _koordinator(raw: Raw) -> Raw:
    """As Koordinator's users write it; the status of their groups has no conditions, so annotations tell."""
    spec: Any = raw["spec"]
    meta: Any = raw["metadata"]
    if raw["kind"] == "Pod":
        marks = dict(meta["annotations"])
        labels = {"pod-group.scheduling.sigs.k8s.io": marks.pop("scheduling.k8s.io/group-name")}
        return {**raw, "metadata": {**meta, "annotations": marks, "labels": labels}}
    return {**raw, "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "spec": {"minMember": spec["minMember"]}}


CASES["a reservation of others, told to a Koordinator gang"] = (
    RESERVING,
    [_koordinator(raw) for raw in CASES["a reservation of others"][1]],
    "WouldDelay",
)


def _together(raws: Sequence[Raw]) -> list[Raw]:
    """A gang of Koordinator's that starts with one of another namespace, which does not exist."""
    found: list[Any] = [_koordinator(raw) for raw in raws]
    for raw in found:
        if raw["kind"] == "PodGroup":
            named = '["mine/mine", "theirs/theirs-b"]'
            raw["metadata"]["annotations"] = {"gang.scheduling.koordinator.sh/groups": named}
    return found


CASES["a gang group with others"] = (
    replace(DEFAULT, tiers=(*DEFAULT.tiers, (PluginChoice("coscheduling", {"crossNamespaceGangGroups": True}),))),
    _together(_mine(job("mine"))),
    "GangGroupIncomplete",
)


def _written(case: Case, world: World = ROW) -> tuple[CycleReport, list[tuple[Key, str]]]:
    """All that one cycle writes into the cluster, by object."""
    profile, raws, _ = case
    objects = Objects.of((codec.decode(raw), raw) for raw in (*world.manifests, *raws))
    snapshot = build(objects, NOW, profile)
    report = cycle(snapshot, profile)
    asked = effects(snapshot, report)
    outcomes = [Outcome(effect, ok=True) for effect in asked if isinstance(effect, Evict)]
    told: list[Effect] = [
        *asked,
        *statuses(objects, snapshot, report),
        *pod_conditions(objects, snapshot, report),
        *pod_events(snapshot, outcomes),
        *forecast_effects(objects, summary(forecasts(snapshot, profile), profile)),
    ]
    found: list[tuple[Key, str]] = []
    for effect in told:
        match effect:
            case PatchStatus(key, status, annotations):
                found.append((key, msgspec.json.encode((status, annotations)).decode()))
            case RecordEvent(key, _, _, text):
                found.append((key, text))
            case _:
                pass  # no text of it is written
    return report, found


@pytest.mark.parametrize("name", CASES)
def test_nothing_that_is_written_names_objects_of_others(name: str) -> None:
    """Neither a status nor a condition, an annotation or an event."""
    _, written = _written(CASES[name])
    strangers = {"mine": re.compile(r"theirs[-/]"), "theirs": re.compile(r"mine[-/]")}

    assert written
    assert [] == [(str(key), text) for key, text in written if strangers[key.namespace].search(text)]


def _operators(report: CycleReport) -> str:
    """What operators read of the same cycle."""
    parts = [message(rejection) for rejection in report.rejections.values()]
    parts += [eviction.reason for eviction in report.evictions]
    parts += [notice.reason for notice in report.notices]
    return " ".join(parts)


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name][2]])
def test_operators_read_all_of_it(name: str) -> None:
    """The report names what the objects of the cluster do not."""
    report, written = _written(CASES[name])
    said = _operators(report)
    codes = " ".join(code for rejection in report.rejections.values() for code in rejection.codes())

    assert CASES[name][2] in f"{codes} {said} {written}"
    assert re.search("theirs-|mine-", said)


OTHERS = [
    ("a reservation of others", "would delay a reservation of another namespace: it is not known how long"),
    ("a reservation behind others", "a job of another namespace must end before"),
    ("spares of others", "1 spare of gangs of other namespaces is kept free"),
    ("work of others", "gpu hours of a job of another namespace would be lost"),
    ("an eviction", "to make room for a job of another namespace: it is more important"),
    ("a notice", "to make room for a job of another namespace: it is more important; it will be evicted at"),
    ("victims on their way", "it waits for a pod of another namespace, which is terminating"),
    ("quotas of others", "another quota holds more than its runtime"),
    ("a gang group with others", "its gang group is not whole: gang of another namespace does not exist"),
    ("a start behind others", "it is not known when jobs of other namespaces end"),
]


@pytest.mark.parametrize(("name", "words"), OTHERS)
def test_what_is_said_in_their_place(name: str, words: str) -> None:
    """People are told that somebody else is in the way, and not who."""
    _, written = _written(CASES[name])

    assert any(words in text for _, text in written)

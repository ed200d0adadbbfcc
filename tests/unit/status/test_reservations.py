"""Reservations in the cluster: a condition and an annotation of the podGroup; and the record of runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.reservations import BIG, BUSY, HOUR, MINUTE, NOW, TWO_RACKS, job, profile, running

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import ConfigMap, ObjectMeta, format_time
from tierwise.api.reservation import RESERVATION
from tierwise.api.volcano import PodGroup
from tierwise.config.profile import DEFAULT, Profile
from tierwise.model.expected_ends import ExpectedEnds
from tierwise.port import Create, Objects, PatchStatus, Update
from tierwise.scheduler import cycle
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import build
from tierwise.snapshot.run_history import MOST, RUN_HISTORY, history_effects, read_history
from tierwise.status.pod_group import statuses


def cluster(*parts: list[Raw]) -> EmbeddedCluster:
    """A cluster of two racks with these gangs."""
    every = [*TWO_RACKS.manifests, *(raw for part in parts for raw in part)]
    return EmbeddedCluster(Objects.of((codec.decode(raw), raw) for raw in every))


def told(found: EmbeddedCluster, given: Profile, now: float = NOW) -> list[object]:
    """What one cycle has to say, which is then written."""
    objects = found.read()
    snapshot = build(objects, now, given)
    said = statuses(objects, snapshot, cycle(snapshot, given))
    found.apply(said)
    return [effect for effect in said if isinstance(effect, PatchStatus | Create | Update)]


def group(found: EmbeddedCluster, name: str) -> PodGroup:
    """A podGroup as it is now."""
    return found.read().every(PodGroup)[f"default/{name}"]


def reserved(found: EmbeddedCluster, name: str = "big") -> list[tuple[str, str]]:
    """The condition about reservations."""
    return [(c.status, c.message) for c in group(found, name).status.conditions if c.type == "Reserved"]


def test_a_reservation_is_written_once() -> None:
    """Condition and annotation are there after the first cycle, and a later one has nothing to add."""
    here = cluster(BUSY, BIG)
    told(here, profile())
    (condition,) = reserved(here)

    assert ("True", "reserved r1 from") == (condition[0], condition[1][:16])
    mark = json.loads(group(here, "big").metadata.annotations[RESERVATION])
    assert {"domain": "r1", "from": format_time(NOW + HOUR / 2)} == mark
    assert [] == told(here, profile(), now=NOW + 30)


def test_who_is_held_back_is_told_the_same_every_time() -> None:
    """No time in its message moves with the clock: each write would bring another cycle."""
    here = cluster(BUSY, BIG, job("x", lasts="9h", turn=2), job("y", lasts="9h", turn=3), job("z", turn=4))
    for moment in (0, 1):
        told(here, profile(), now=NOW + moment)

    assert [] == told(here, profile(), now=NOW + 2)


def test_a_reservation_that_is_no_more_is_taken_back() -> None:
    """Annotation and condition say so once the profile has none; a group that never had one is silent."""
    here = cluster(BUSY, BIG, job("x", 2, within=1, turn=2))
    told(here, profile())
    told(here, DEFAULT)

    assert [("False", "nothing is reserved for it")] == reserved(here)
    assert "" == group(here, "big").metadata.annotations[RESERVATION]
    assert [] == reserved(here, "x")


KEEPING = replace(DEFAULT, action_arguments={"allocate": {"runHistory": "tierwise"}})


def ended(name: str, *, took: float, ago: float = HOUR) -> list[Raw]:
    """A gang that has succeeded."""
    raws = running(name, "n0 n1", ago=took + ago)
    for raw in raws:
        body: Any = raw
        if raw["kind"] == "Pod":
            over = {"terminated": {"exitCode": 0, "finishedAt": format_time(NOW - ago)}}
            body["status"] |= {"phase": "Succeeded", "containerStatuses": [{"name": "c", "state": over}]}
    return raws


def record(found: EmbeddedCluster) -> ConfigMap:
    """The record of runs."""
    return found.read().every(ConfigMap)[f"tierwise/{RUN_HISTORY}"]


def test_runs_are_recorded_once() -> None:
    """A run that ends is added to the record; what is recorded is not written again."""
    here = cluster(ended("train-1", took=HOUR), ended("train-2", took=2 * HOUR, ago=MINUTE))
    told(here, KEEPING)

    assert [("default/train-1", HOUR), ("default/train-2", 2 * HOUR)] == [
        (run.job, run.seconds) for run in read_history(record(here))
    ]
    assert [] == [effect for effect in told(here, KEEPING) if isinstance(effect, Create | Update)]


def test_a_record_outlives_its_jobs() -> None:
    """Once the pods are gone, their runs still say how long the next one takes."""
    here = cluster(*(ended(f"train-{n}", took=n * HOUR) for n in range(1, 6)))
    told(here, KEEPING)
    kept = record(here)
    raw: Raw = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": RUN_HISTORY, "namespace": "tierwise"},
        "data": kept.data,
    }
    later = cluster([raw], running("train-9", "n0 n1", ago=0.0)).read()
    snapshot = build(later, NOW, KEEPING)
    (train,) = snapshot.jobs

    assert NOW + 3 * HOUR == ExpectedEnds(snapshot).of(train).median
    assert () == build(later, NOW).history


def test_a_record_is_bounded() -> None:
    """The oldest runs make way; one that is older than all of them is not written at all."""
    here = cluster(ended("train-1", took=HOUR))
    snapshot = build(here.read(), NOW, KEEPING)
    (one,) = read_history_of(history_effects(here.read(), snapshot))
    full = tuple(replace(one, job=f"default/x-{i}", ended=NOW - MOST + i) for i in range(MOST))
    older = tuple(replace(run, ended=run.ended - 2 * HOUR) for run in full)

    assert [] == history_effects(here.read(), replace(snapshot, history=full))
    written = read_history_of(history_effects(here.read(), replace(snapshot, history=older)))
    assert (MOST, older[1], one) == (len(written), written[0], written[-1])


def read_history_of(said: list[Any]) -> Any:
    """The runs of a record that is about to be written."""
    (effect,) = said
    return read_history(codec.decode(effect.raw))


def test_a_record_of_somebody_else_is_told_of() -> None:
    """It counts as empty, with a warning."""
    for text in ("x", "[1]", '["a", "b", "many", 1, 1, 1]'):
        raw: Raw = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": RUN_HISTORY, "namespace": "tierwise"},
            "data": {"runs": text},
        }
        snapshot = build(cluster([raw]).read(), NOW, KEEPING)
        assert ((), ["RunHistoryUnreadable"]) == (snapshot.history, [fault.code for fault in snapshot.faults])


@pytest.mark.parametrize("line", ['["a", "q", Infinity, 1, 1, 1]', "[" * 100_000], ids=["no-number", "too-deep"])
def test_a_history_that_cannot_be_read_is_no_other_error(line: str) -> None:
    """Whoever reads it reports one kind of error, and goes on without the runs."""
    with pytest.raises(ValueError, match="line 1 of its runs cannot be read"):
        read_history(ConfigMap(metadata=ObjectMeta(name="r"), data={"runs": line}))

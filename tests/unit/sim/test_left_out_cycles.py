"""Cycles that are left out: where nothing waits, and nothing has happened but that whole gangs have gone."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.lives import gang, machines
from tests.support.manifests import NOW, job, objects, task

from tierwise.api.codec import Raw
from tierwise.api.volcano import Job, PodGroup
from tierwise.config.profile import DEFAULT
from tierwise.port import Create, Delete, Effect, Key, Objects
from tierwise.sim.cluster.simulation import Simulation


class _User:
    """Somebody who does one thing, a minute after the start."""

    def __init__(self, effect: Effect) -> None:
        self._effects: list[Effect] = [effect]

    def act(self, objects: Objects, now: float) -> Sequence[Effect]:
        due, self._effects = (self._effects, []) if now >= NOW + 60 else ([], self._effects)
        return due

    def due(self) -> float | None:
        return NOW + 60 if self._effects else None


def _lived(raws: Sequence[Raw], effect: Effect, *, log: bool = True) -> Simulation:
    life = Simulation(objects(*machines("n0", "n1"), *raws), DEFAULT, start=NOW, user=_User(effect), log=log)
    for _ in life.run(3600):
        pass
    return life


def _brief() -> Raw:
    brief = task("w", 1)
    template = brief["template"]
    assert isinstance(template, dict)
    template["metadata"] = {"annotations": {"tierwise.io/start-after": "0s", "tierwise.io/run-for": "20s"}}
    return job("brief", brief, ttlSecondsAfterFinished=0)


def test_a_pod_that_goes_without_its_group_is_counted() -> None:
    """The scheduler writes how many pods of a group run, whoever made one of them go."""
    life = _lived(gang("train", 2, stop_after="0s"), Delete(Key("", "Pod", "default", "train-1")))

    assert 1 == life.cluster.read().every(PodGroup)["default/train"].status.running


def test_a_job_that_comes_to_an_idle_cluster_is_served() -> None:
    """A new object is news, and so is all that becomes of it; that it is gone in the end is none."""
    life = _lived([], Create(_brief()))

    assert {} == dict(life.cluster.read().every(Job))
    assert 4 == life.cycles  # of an empty cluster; it is let in, placed, and runs


def test_pods_that_start_are_counted_without_a_cycle() -> None:
    """Where nothing waits and nobody reads the log, a gang that runs changes nothing but how many of its pods do."""
    life = _lived([], Create(job("train", task("w", 2))), log=False)

    (group,) = life.cluster.read().every(PodGroup).values()
    assert ("Running", 2) == (group.status.phase, group.status.running)
    assert 3 == life.cycles  # of an empty cluster; it is let in, and placed


def test_a_gang_that_waits_is_looked_at_when_another_starts() -> None:
    """Pods that start beside it may change what it is told."""
    large = job("large", task("w", 3), metadata={"uid": "u2"})
    both = [job("train", task("w", 2)), large]
    told, quiet = (
        _lived(both, Delete(Key("batch.volcano.sh", "Job", "default", "none")), log=log) for log in (True, False)
    )

    assert told.cycles == quiet.cycles


def test_a_pod_that_ends_while_others_run_is_looked_at() -> None:
    """The phase of its gang may be another then."""
    told, quiet = (_lived([], Create(_brief()), log=log) for log in (True, False))

    assert (4, 3) == (told.cycles, quiet.cycles)
    assert not quiet.cluster.read().every(Job)
    assert not quiet.cluster.read().every(PodGroup)

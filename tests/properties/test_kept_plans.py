"""Plans of evictions that are kept for the next preemptor change no report.

The slow twin has a filter of victims besides that lets everybody go and promises nothing, so that every plan is made
anew.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.properties.test_plain_pods import promising
from tests.properties.test_price_bounds import drawn_jobs
from tests.support.depth import examples, seeds
from tests.support.evict_scenes import GANGS, Case, Dials, cases
from tests.support.evict_world import Gang, Pod, Scene, objects
from tests.support.plugin_table import plugin_table
from tests.support.sight import cycle, saw, sees

from tierwise.config.profile import PluginChoice, Profile
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, CycleView, Preemptor, Purpose, Quota, VictimFilter
from tierwise.model.arrays import Bools, Ints
from tierwise.model.job import Job
from tierwise.model.snapshot import Snapshot
from tierwise.scheduler import open_cycle
from tierwise.snapshot.builder import build
from tierwise_lab.bench.evictions import EVICTING, scattered
from tierwise_lab.bench.worlds import GPUS_PER_NODE, flat_cluster


class LetsGo:
    """Protects nobody, and notes how often it is asked."""

    answers = frozenset[Purpose]()
    counts = False
    asked = 0

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        pass

    def protect(self, preemptor: Preemptor, victims: Ints) -> Bools:
        type(self).asked += 1
        return np.zeros(len(victims), dtype=bool)


@takes_part(VictimFilter, by_amounts=True)
class Promises(LetsGo):
    """Plans are kept beside it."""


@takes_part(VictimFilter)
class PromisesNothing(LetsGo):
    """Plans are not kept beside it."""


def told(snapshot: Snapshot, profile: Profile, site: type[LetsGo]) -> list[object]:
    """What a report says."""
    site.asked = 0
    chosen = replace(profile, tiers=(*profile.tiers, (PluginChoice("site"),)))
    report = cycle(snapshot, chosen, plugins={**plugin_table(), "site": site})
    placed = [
        (d.job.key, d.action, d.domain, d.bound, [([t.key for t in p.tasks], p.rows.tolist()) for p in d.placed])
        for d in report.decisions
    ]
    evicted = [(e.task.key, e.by.key if e.by else "", e.action) for e in report.evictions]
    return [placed, evicted, report.eviction_attempts, report.rejections]


def same(snapshot: Snapshot, profile: Profile) -> None:
    """Both say the same."""
    assert told(snapshot, profile, PromisesNothing) == told(snapshot, profile, Promises)
    saw(spared=PromisesNothing.asked - Promises.asked)


def like(gang: Gang, number: int, pick: Random) -> Gang:
    """A gang like this one, or nearly."""
    pods = tuple(replace(pod, name=f"{pod.name}-{number}") for pod in gang.pods)
    made = replace(gang, name=f"{gang.name}-{number}", pods=pods)
    if pick.random() < 0.7:
        return made
    return pick.choice(
        (
            replace(made, priority=made.priority + 1),
            replace(made, within=pick.choice((None, 1, 2))),
            replace(made, pods=tuple(replace(pod, asks=pick.choice(gang.pods).asks) for pod in pods)),
            replace(made, pods=(*pods, *(replace(pod, name=f"{pod.name}-more") for pod in pods[:1]))),
            replace(made, size=1, whole=pick.randrange(3), pods=tuple(parted(pod, i) for i, pod in enumerate(pods))),
        )
    )


def parted(pod: Pod, part: int) -> Pod:
    """The same pod in a sub-group of its own."""
    return replace(pod, part=str(part))


def several(scene: Scene, pick: Random) -> Scene:
    """The same world, each gang that waits several times."""
    waiting = [gang for gang in scene.gangs if not any(pod.on for pod in gang.pods)]
    return replace(scene, gangs=(*scene.gangs, *(like(gang, i, pick) for gang in waiting for i in range(2))))


@sees(evictions=4, spared=4)
@given(cases(*GANGS, dials=Dials(plain=True, budgets=0.3)), seeds())
@examples(60, least=15)
def test_in_small_clusters(case: Case, pick: Random) -> None:
    """Queues, budgets, roles, sub-groups and marks; with and without a price of evictions, and shares of jobs."""
    scene, profile = case
    others = tuple(PluginChoice(name) for name in ("drf", "eviction-cost") if pick.random() < 0.3)
    profile = replace(profile, tiers=(*profile.tiers, others)) if others else profile
    if pick.random() < 0.3:  # what is free is taken in the same action, without victims
        profile = replace(profile, actions=tuple(name for name in profile.actions if name != "allocate"))
    same(build(objects(several(scene, pick)), 100.0, profile), profile)


def side_by_side(job: Job, nodes: int) -> Job:
    """The same job; a running one has half of its pods on a node and half on the next, so that few reach two racks."""
    (sub,) = job.subs
    if sub.pod_sets or job.number == 0:
        return job
    rows = [(job.number + rank % 2) % nodes for rank in range(len(job.tasks))]
    tasks = tuple(replace(task, node=row) for task, row in zip(job.tasks, rows, strict=True))
    return replace(job, tasks=tasks, subs=(replace(sub, held=np.array(rows), tasks=tasks),))


def covered(job: Job, pick: Random) -> Job:
    """The same job, its running pods under drawn budgets."""
    (sub,) = job.subs
    if sub.pod_sets or job.number == 0:
        return job
    tasks = tuple(
        replace(task, budgets=tuple(pick.sample(("d/0", "d/1", "d/2"), pick.choice((0, 0, 1, 2)))))
        for task in job.tasks
    )
    return replace(job, tasks=tasks, subs=(replace(sub, tasks=tasks),))


@pytest.mark.parametrize("plugins", [(), ("capacity",), ("proportion",), ("drf",), ("pdb", "capacity")])
@sees(spared=5)
@given(pick=st.randoms(use_true_random=False))
@examples(12, least=6)
def test_among_racks(plugins: tuple[str, ...], pick: Random) -> None:
    """Several preemptors that are alike, each of which breaks gangs of a rack and some that reach into the next one, in
    queues that may have to lose more than room is made for.
    """
    full = scattered(flat_cluster(pick.randrange(4, 7), 4), pick.randrange(3, 7), need=pick.randrange(1, 4), tier=1)
    full = replace(full, jobs=tuple(side_by_side(job, len(full.nodes)) for job in full.jobs))
    world = drawn_jobs(full, pick) if pick.random() < 0.5 else full
    if "pdb" in plugins:
        jobs = tuple(covered(job, pick) for job in world.jobs)
        world = replace(world, jobs=jobs, budgets={f"d/{i}": pick.randrange(2, 40) for i in range(3)})
    limit = {"nvidia.com/gpu": GPUS_PER_NODE * len(full.nodes) - pick.randrange(-20, 20)}  # all of them are used
    queues = {name: replace(queue, capability=limit) for name, queue in world.queues.items()}
    chosen = tuple(PluginChoice(name) for name in plugins)
    same(replace(world, queues=queues), replace(EVICTING, tiers=(*EVICTING.tiers, chosen)) if chosen else EVICTING)


@pytest.mark.parametrize("plugin", promising("by_amounts", VictimFilter, Quota))
@sees(alike=5)
@given(cases("gangpreempt", dials=Dials(plain=True, budgets=0.3)), seeds())
@examples(12, least=6)
def test_answers_follow_from_amounts(plugin: str, case: Case, pick: Random) -> None:
    """Preemptors that are alike hear the same of victims and quotas, whoever else has gone by then, where a plugin
    promises it.
    """
    scene, chosen = case
    chosen = replace(chosen, tiers=((PluginChoice(plugin),),))
    current = open_cycle(build(objects(several(scene, pick)), 100.0, chosen), chosen, plugins=plugin_table())
    running, ledger, pipeline = current.running, current.ledger, current.pipeline
    asked = np.isin(running.job, pick.choices(range(len(current.snapshot.jobs)), k=3))
    task, budget = running.covered
    beside = np.isin(np.arange(len(running)), task[np.isin(budget, budget[asked[task]])])
    victims, others = (
        np.flatnonzero(asked),
        np.flatnonzero(~(asked | np.isin(running.job, running.job[asked]) | beside)),
    )
    kinds: dict[object, set[object]] = {}
    for job in (job for job in current.snapshot.waiting if any(job.pod_sets())):
        shapes = tuple((pod_set.shape.number, len(pod_set.tasks)) for pod_set in job.pod_sets())
        need = np.sum([pod_set.shape.request * len(pod_set.tasks) for pod_set in job.pod_sets()], axis=0)
        held = ledger.job_used[:, job.number].tobytes()
        exceeded = pipeline.quota_exceeded(job, need) is not None
        with ledger.statement():
            gone = np.array([other for other in others.tolist() if pick.random() < 0.5], dtype=np.int64)
            if len(gone):
                ledger.evict(running, gone)
            may_go = pipeline.alone(preemptor := Preemptor(Purpose.PREEMPT, job, need, True, running), victims)
            counted = pipeline.counted_whole(preemptor, victims, np.arange(len(victims)))
        answers = kinds.setdefault((job.queue, job.priority, shapes, held), set())
        saw(alike=bool(answers))
        answers.add((exceeded, may_go.tobytes(), counted.all(axis=0).tobytes()))

    assert [1] * len(kinds) == [len(answers) for answers in kinds.values()]

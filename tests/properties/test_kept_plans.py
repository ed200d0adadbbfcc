"""A plan of evictions that is kept for the next preemptor is the one that would be made for it."""

from __future__ import annotations

from copy import copy
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.properties.test_price_bounds import drawn_jobs
from tests.support.depth import examples
from tests.support.evict_scenes import GANGS, Case, cases
from tests.support.evict_world import objects
from tests.support.sight import cycle, saw, sees

from tierwise.actions.eviction.gang import GangPreemptor, Planning
from tierwise.actions.eviction.victims import EvictionPlan
from tierwise.bench.evictions import EVICTING, scattered
from tierwise.bench.worlds import GPUS_PER_NODE, flat_cluster
from tierwise.config.profile import PluginChoice, Profile
from tierwise.model.job import Job
from tierwise.model.snapshot import Snapshot
from tierwise.snapshot.builder import build

FOUND = GangPreemptor.found


def shown(plan: EvictionPlan | None) -> object:
    """All that is carried out or told of a plan."""
    if plan is None:
        return None
    bundles = plan.bundles
    columns = (plan.victims, bundles.victims, bundles.start, bundles.job, bundles.safe, bundles.gain, bundles.cost)
    return plan.domain, plan.price, plan.rank, plan.taken, [column.tolist() for column in columns]


def compared(self: GangPreemptor, planning: Planning, domain: int, *, breaks: bool) -> EvictionPlan | None:
    """What is found, which the slow twin makes for each preemptor, asking queues about each set of victims."""
    known = planning.known.get(domain)
    plan = FOUND(self, planning, domain, breaks=breaks)
    saw(kept_plans=known is not None and planning.known[domain] is known)
    asking = copy(planning.quotas)
    asking.by_amounts = False
    fresh = FOUND(self, replace(planning, known={}, quotas=asking), domain, breaks=breaks)
    assert shown(fresh) == shown(plan)
    return plan


def same(snapshot: Snapshot, profile: Profile) -> None:
    """Run a cycle and compare whatever is found in it."""
    with patch.object(GangPreemptor, "found", compared):
        cycle(snapshot, profile)


@sees(evictions=4)
@given(cases(*GANGS))
@examples(25)
def test_in_small_clusters(case: Case) -> None:
    """Queues, budgets, roles, sub-groups and marks."""
    scene, profile = case
    same(build(objects(scene), 0.0, profile), profile)


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
    tasks = tuple(replace(task, budgets=tuple(pick.sample(range(3), pick.choice((0, 0, 1, 2))))) for task in job.tasks)
    return replace(job, tasks=tasks, subs=(replace(sub, tasks=tasks),))


@pytest.mark.parametrize("plugins", [(), ("capacity",), ("proportion",), ("drf",), ("pdb", "capacity")])
@sees(kept_plans=5)
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
        world = replace(world, jobs=jobs, budgets=tuple(pick.choices(range(2, 40), k=3)))
    limit = {"nvidia.com/gpu": GPUS_PER_NODE * len(full.nodes) - pick.randrange(-20, 20)}  # all of them are used
    queues = {name: replace(queue, capability=limit) for name, queue in world.queues.items()}
    chosen = tuple(PluginChoice(name) for name in plugins)
    same(replace(world, queues=queues), replace(EVICTING, tiers=(*EVICTING.tiers, chosen)) if chosen else EVICTING)

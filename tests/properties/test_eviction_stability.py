"""What must not matter, or matter one way only: order of objects and plugins, further filters, priorities, tiers."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.depth import examples
from tests.support.evict_facts import healthy, standing
from tests.support.evict_oracle import Plea, survivors
from tests.support.evict_scenes import GANGS, Case, Dials, cases, scenes
from tests.support.evict_world import Gang, Scene, objects, once, profile_of
from tests.support.sight import sees

from tierwise.actions.eviction.protection import ProtectionLimits
from tierwise.actions.placement.demand import demand, needs
from tierwise.config.profile import PluginChoice, Profile
from tierwise.framework.extension import Preemptor, Purpose
from tierwise.model.running import running_table
from tierwise.scheduler import open_cycle
from tierwise.snapshot.builder import build

ALONE = Dials(pending=1)


@sees(evictions=4)
@given(cases(), st.randoms(use_true_random=False))
@examples(25)
def test_order_of_objects_does_not_matter(case: Case, order: Random) -> None:
    """P20: the same manifests in any order give the same answer."""
    scene, profile = case

    assert once(scene, profile).wire == once(scene, profile, order).wire


@sees(evictions=4)
@given(cases(), st.permutations(("conformance", "pdb", "quota")), st.booleans())
@examples(25)
def test_order_of_filters_does_not_matter(case: Case, order: list[str], tiers: bool) -> None:
    """P14: filters that are listed in another order, or in tiers of their own, give the same answer."""
    scene, profile = case
    known = {choice.name: choice for choice in profile.plugins()}
    quota = next((name for name in ("capacity", "proportion") if name in known), "")
    names = [name for word in order if (name := quota if word == "quota" else word) in known]
    others = tuple(choice for name, choice in known.items() if name not in names)
    filters = [(known[name],) for name in names] if tiers else [tuple(known[name] for name in names)]
    arranged = Profile(profile.actions, (*filters, others), profile.action_arguments)

    assert once(scene, profile).wire == once(scene, arranged).wire


def who_may_go(
    scene: Scene, *plugins: str, purpose: Purpose, order: Random, ends: bool = False
) -> tuple[set[str], list[str]]:
    """Whom the filters of these plugins let go, of all running pods in some order; and that order.

    Protection by budgets ends at what a queue deserves where it `ends`, as in a cycle.
    """
    profile = Profile(("allocate", "gangreclaim"), (tuple(PluginChoice(name) for name in ("gang", *plugins)),))
    snapshot = build(objects(scene), 0.0, profile)
    cycle, running = open_cycle(snapshot, profile), running_table(snapshot)
    job = next(job for job in snapshot.jobs if job.key == scene.gangs[-1].key)
    positions = [i for i, task in enumerate(running.tasks) if running.job[i] != job.number]
    order.shuffle(positions)
    victims = np.array(positions, dtype=np.int64)
    need = needs(demand(cycle, job))
    limits = ProtectionLimits.of(cycle) if ends else None
    until = limits.against(job, purpose, priority=job.priority, by_pod=False) if limits is not None else None
    preemptor = Preemptor(purpose, job, need, gang=True, running=running, protection=until)
    allowed = cycle.pipeline.may_go(preemptor, victims)
    paths = [running.tasks[i].key for i in positions]
    return {path for path, goes in zip(paths, allowed.tolist(), strict=True) if goes}, paths


@given(scenes(Dials(reclaims=True)), st.integers(0, 2**32), st.sampled_from(list(Purpose)))
@examples(25)
def test_filters_intersect(scene: Scene, seed: int, purpose: Purpose) -> None:
    """P14: who goes is whom each filter lets go; those that count look only at the ones whom no other spares."""
    alone = [
        who_may_go(scene, "conformance", "priority", name, purpose=purpose, order=Random(seed))[0]
        for name in ("pdb", "capacity")
    ]
    together, _ = who_may_go(scene, "conformance", "priority", "pdb", "capacity", purpose=purpose, order=Random(seed))

    assert alone[0] & alone[1] == together


@given(scenes(Dials(reclaims=True)), st.integers(0, 2**32), st.sampled_from(("pdb", "capacity", "proportion")))
@examples(25)
def test_a_further_filter_adds_nobody(scene: Scene, seed: int, further: str) -> None:
    """P14: with one more filter that counts nobody goes who did not go before."""
    before, _ = who_may_go(scene, "conformance", purpose=Purpose.RECLAIM, order=Random(seed))
    after, _ = who_may_go(scene, "conformance", further, purpose=Purpose.RECLAIM, order=Random(seed))

    assert after <= before


@given(scenes(Dials(reclaims=True)), st.integers(0, 2**32), st.sampled_from(("capacity", "proportion")))
@examples(25)
def test_filters_count_as_one_by_one(scene: Scene, seed: int, quota: str) -> None:
    """P15: one call over the whole list lets go whom asking one after the other, with accounts, would."""
    scene = replace(scene, gangs=tuple(map(_unmarked, scene.gangs)))  # marks are no business of plugins
    told, order = who_may_go(scene, "conformance", "pdb", quota, purpose=Purpose.RECLAIM, order=Random(seed), ends=True)
    plea = Plea(scene, scene.gangs[-1], standing(scene), frozenset(), preempts=False, quota=quota, budgets=True)
    reclaimable = [path for path in order if scene.queue(scene.pods()[path][0].queue).reclaimable]

    assert survivors(plea, reclaimable) == told


def _unmarked(gang: Gang) -> Gang:
    pods = tuple(replace(pod, mark="" if pod.mark == "kept" else pod.mark) for pod in gang.pods)
    return replace(gang, kept=False, pods=pods)


@sees(evictions=4)
@given(cases(*GANGS, dials=ALONE), st.randoms(use_true_random=False))
@examples(25)
def test_more_important_gangs_do_not_become_victims(case: Case, pick: Random) -> None:
    """P21: raising the priority of a running gang makes none of its pods a victim."""
    scene, profile = case
    before = once(scene, profile).victims
    gang = pick.choice(scene.gangs[:-1] or scene.gangs)
    raised = tuple(replace(pod, priority=pod.priority + 1) for pod in gang.pods)
    after = once(scene.with_gang(replace(gang, priority=gang.priority + 1, pods=raised)), profile).victims
    own = {gang.path(pod) for pod in gang.pods}

    assert gang.name.startswith(("new", "half")) or own & after <= before


@sees(evictions=4)
@given(cases(*GANGS, dials=ALONE), st.randoms(use_true_random=False))
@examples(25)
def test_protected_gangs_do_not_become_victims(case: Case, pick: Random) -> None:
    """P21: a gang that is marked as not preemptable loses nobody to gangs of its own queue."""
    scene, profile = case
    gang = pick.choice(scene.gangs)
    evictions = once(scene.with_gang(replace(gang, kept=True)), profile).evictions
    victims = {entry["pod"] for entry in evictions if scene.gang(entry["by"]).queue == gang.queue}

    assert set() == victims & {gang.path(pod) for pod in gang.pods}


@sees(evictions=2)
@given(scenes(replace(ALONE, plain=True)), st.sampled_from(("gangpreempt", "gangpreempt gangreclaim")))
@examples(25)
def test_a_wider_tier_does_no_harm(scene: Scene, actions: str) -> None:
    """P21: a gang that finds a place within a tier finds one where a wider tier is allowed."""
    profile = profile_of(actions, quota="capacity", budgets=True)
    gang = replace(scene.gangs[-1], within=1, soft=False)
    placed = [
        healthy(gang, {**standing(scene), **once(scene.with_gang(replace(gang, within=tier)), profile).placed})
        for tier in (1, 2)
    ]

    assert placed[0] <= placed[1]

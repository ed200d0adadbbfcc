"""Who is evicted: by whom, for whom, and who never. Naively, from random worlds and the JSON of `schedule`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples
from tests.support.evict_facts import moments, standing, used
from tests.support.evict_oracle import Plea
from tests.support.evict_scenes import CLASSICS, GANGS, Case, Dials, cases, scenes
from tests.support.evict_world import Gang, Scene, once, profile_of
from tests.support.sight import saw, sees

from tierwise.config.profile import Profile


@sees(evictions=4)
@given(cases("gangpreempt", "preempt", "gangpreempt reclaim"))
@examples(25)
def test_preemption_takes_from_less_important_jobs_of_its_queue(case: Case) -> None:
    """P3: a victim of preemption is in the same queue and less important; of the own job only single tasks may go."""
    scene, profile = case
    for entry in once(scene, profile).evictions:
        (gang, pod), by = scene.pods()[entry["pod"]], scene.gang(entry["by"])
        if entry["action"] == "preempt" and gang.key == by.key:
            assert pod.priority < max(other.priority for other in by.pods if not other.on)
        elif "preempt" in entry["action"]:
            assert (gang.queue, True) == (by.queue, _importance(gang) < _importance(by))


def _importance(gang: Gang) -> int:
    """A gang is as important as its class says, and no more important than its most important pod."""
    return min(gang.priority, max(pod.priority for pod in gang.pods))


@sees(reclaims=3)
@given(cases("gangreclaim", "reclaim", "preempt reclaim"))
@examples(25)
def test_reclaim_takes_from_other_reclaimable_queues(case: Case) -> None:
    """P4: a victim of reclaim is in another queue that is reclaimable; the reclaimer's own is open."""
    scene, profile = case
    for entry in once(scene, profile).evictions:
        gang, by = scene.pods()[entry["pod"]][0], scene.gang(entry["by"])
        if "reclaim" in entry["action"]:
            assert gang.queue != by.queue
            assert scene.queue(gang.queue).reclaimable
            assert scene.queue(by.queue).open


def borrows_from_start(scene: Scene, profile: Profile, path: str, by: str) -> bool:
    """Whether the queue of a pod held more than it deserves when the cycle began, and the pod goes for another one."""
    quota = next((p.name for p in profile.plugins() if p.name in ("capacity", "proportion")), "")
    plea = Plea(scene, scene.gang(by), standing(scene), frozenset(), preempts=False, quota=quota)
    return plea.borrows(path, used(scene, plea.places, scene.pods()[path][0].queue))


@sees(evictions=4, guarded=3)
@given(cases())
@examples(25)
def test_protected_pods_are_no_victims(case: Case) -> None:
    """P11: no pod of the system; none that is marked itself or by its gang, unless its queue borrows what it holds."""
    scene, profile = case
    for entry in once(scene, profile).evictions:
        gang, pod = scene.pods()[entry["pod"]]
        assert ("critical", "default") != (pod.mark, gang.namespace)
        if gang.kept or pod.mark == "kept":
            assert borrows_from_start(scene, profile, entry["pod"], entry["by"])


@sees(budgeted_victims=2)
@given(cases(dials=Dials(budgets=1.0)))
@examples(25, least=5)
def test_budgets_hold(case: Case) -> None:
    """P11: no more pods of a gang go in a cycle than its disruption budget allows, for however many beneficiaries.

    Those do not count that their queue may have borrowed.
    """
    scene, profile = case
    if "pdb" not in {plugin.name for plugin in profile.plugins()}:
        return
    victims = [
        scene.pods()[entry["pod"]]
        for entry in once(scene, profile).evictions
        if not borrows_from_start(scene, profile, entry["pod"], entry["by"])
    ]
    for budget in scene.budgets:
        assert sum(budget.covers(*victim) for victim in victims) <= budget.allowed


@sees(evictions=4, preemptors_that_never=2)
@given(cases())
@examples(25)
def test_pods_that_never_preempt_cause_no_eviction(case: Case) -> None:
    """P12: whoever finds a place by an eviction may preempt."""
    scene, profile = case
    for step in once(scene, profile).steps:
        if step.evicted:
            assert [] == [path for path in step.placed if scene.pods()[path][1].never]


@sees(evictions=4)
@given(cases())
@examples(25)
def test_nobody_is_evicted_twice(case: Case) -> None:
    """P11: a victim runs, and goes once."""
    scene, profile = case
    victims = [entry["pod"] for entry in once(scene, profile).evictions]

    assert sorted(set(victims)) == sorted(victims)
    assert all(scene.pods()[victim][1].stands for victim in victims)


@sees(fitting=1)
@given(scenes(Dials(running=2, pending=1)), st.sampled_from((*GANGS, *CLASSICS)))
@examples(40)
def test_nobody_goes_where_everything_fits(scene: Scene, actions: str) -> None:
    """P13: where allocate alone leaves nobody waiting, nobody is evicted."""
    quota = "capacity" if "reclaim" in actions else ""
    if not once(scene, profile_of("", quota=quota)).wire["pending"]:
        saw(fitting=1)
        assert [] == once(scene, profile_of(actions, quota=quota)).evictions


@sees(evictions=4)
@given(cases())
@examples(25)
def test_every_decision_that_evicts_is_of_an_evicting_action(case: Case) -> None:
    """P1: each eviction belongs to a decision of the action that it names, for the gang that it names."""
    scene, profile = case
    told = once(scene, profile)
    owned = [(path, m.step.gang, m.step.action) for m in moments(scene, told.steps) for path in m.step.evicted]

    assert sorted(owned) == sorted((e["pod"], e["by"], e["action"]) for e in told.evictions)

"""What queues lose and gain by reclaiming, against naive shares: guarantees, deserved amounts and capabilities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hypothesis import given
from tests.support.depth import examples
from tests.support.evict_facts import (
    Due,
    Moment,
    dues,
    losable,
    moments,
    used,
)
from tests.support.evict_scenes import Case, cases
from tests.support.evict_world import Scene, once
from tests.support.sight import sees

from tierwise.config.profile import Profile

RECLAIMING = ("gangreclaim", "gangpreempt gangreclaim", "reclaim", "preempt reclaim", "gangpreempt reclaim")


def quota_of(profile: Profile) -> str:
    """The quota plugin of a profile."""
    names = {plugin.name for plugin in profile.plugins()}
    return next((name for name in ("capacity", "proportion") if name in names), "")


def reclaims(case: Case) -> Iterator[tuple[Moment, dict[str, Due]]]:
    """Every decision for which a queue lost something to another, with what queues are due."""
    scene, profile = case
    for moment in moments(scene, once(scene, profile).steps):
        if "reclaim" in moment.step.action and moment.step.evicted:
            yield moment, dues(scene, quota_of(profile))


def losses(scene: Scene, moment: Moment) -> dict[str, list[str]]:
    """The victims of a decision by queue."""
    found: dict[str, list[str]] = {}
    for path in moment.step.evicted:
        found.setdefault(scene.pods()[path][0].queue, []).append(path)
    return found


@sees(reclaims=3)
@given(cases(*RECLAIMING))
@examples(25)
def test_queues_stay_at_what_they_deserve(case: Case) -> None:
    """P5: there is an order in which every victim's queue held more than it deserves before the victim went."""
    scene, profile = case
    for moment, due in reclaims(case):
        for queue, victims in losses(scene, moment).items():
            assert losable(scene, due[queue], used(scene, moment.cleared, queue), victims, quota_of(profile))


@sees(reclaims=3)
@given(cases(*RECLAIMING))
@examples(25)
def test_guarantees_are_kept(case: Case) -> None:
    """P5: no queue is left with less than it is guaranteed."""
    scene, _ = case
    for moment, due in reclaims(case):
        for queue in losses(scene, moment):
            held = used(scene, moment.cleared, queue)
            assert [] == [r for r, least in due[queue].guarantee.items() if held[r] < least]


@sees(reclaims=3)
@given(cases(*RECLAIMING))
@examples(25)
def test_reclaimers_keep_within_what_they_deserve(case: Case) -> None:
    """P6: all that was placed keeps within deserved: in one resource (capacity) or all of them (proportion)."""
    scene, profile = case
    for moment, due in reclaims(case):
        queue = scene.gang(moment.step.gang).queue
        need = sum((scene.pods()[path][1].need for path in moment.step.placed), Counter[str]())
        assert due[queue].may_reclaim(used(scene, moment.cleared, queue), need, quota_of(profile))


@sees(evictions=4)
@given(cases())
@examples(25)
def test_capabilities_hold(case: Case) -> None:
    """P6: no decision takes a queue beyond its capability, whichever action made it."""
    scene, profile = case
    quota = quota_of(profile)
    due = dues(scene, quota)
    for moment in moments(scene, once(scene, profile).steps):
        queue = scene.gang(moment.step.gang).queue
        need = sum((scene.pods()[path][1].need for path in moment.step.placed), Counter[str]())
        assert due[queue].allows(used(scene, moment.cleared, queue), need, quota)

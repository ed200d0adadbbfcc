"""Gangs fall as bundles: what they can spare first, their core whole or not at all, nobody who could be put back.

Waiting gangs have pods of one kind here, so that fitting is a matter of counting (`evict_oracle`).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples
from tests.support.evict_facts import Domain, domains, healthy, moments
from tests.support.evict_oracle import (
    Bundle,
    Plea,
    allowed_bundles,
    queue_key,
    room_for,
    split,
)
from tests.support.evict_scenes import GANGS, Case, Dials, cases, scenes
from tests.support.evict_world import Scene, Told, once, profile_of, read
from tests.support.sight import sees

from tierwise.config.profile import Profile
from tierwise.framework.report import EvictionAttempt

PLAIN = cases(*GANGS, dials=Dials(plain=True))


class Clearing(msgspec.Struct, frozen=True):
    """A domain that was cleared for a gang, and how."""

    plea: Plea
    domain: Domain
    bundles: list[Bundle]  # that the filters leave, in order
    victims: frozenset[str]
    story: EvictionAttempt

    @property
    def broken(self) -> list[Bundle]:
        return [b for b in self.bundles if not b.safe and self.victims.issuperset(b.pods)]

    @property
    def spare(self) -> set[str]:
        return {path for b in self.bundles if b.safe for path in b.pods}

    def fits(self, gone: set[str] | frozenset[str]) -> bool:
        return room_for(self.plea, self.domain, gone)


def clearings(scene: Scene, profile: Profile, told: Told) -> Iterator[Clearing]:
    """Every decision of a gang action for which somebody went."""
    names = {plugin.name for plugin in profile.plugins()}
    quota = next((name for name in ("capacity", "proportion") if name in names), "")
    by_name = {domain.name: domain for domain in domains(scene)}
    for moment in moments(scene, told.steps):
        step = moment.step
        if step.evicted:
            plea = Plea(
                scene,
                scene.gang(step.gang),
                moment.before,
                moment.waits,
                preempts=step.action == "gangpreempt",
                quota=quota,
                budgets=True,
                gone=moment.gone,
            )
            domain = by_name.get(told.story(step).domain, by_name["the cluster"])
            bundles = allowed_bundles(plea, domain.nodes)
            yield Clearing(plea, domain, bundles, frozenset(step.evicted), told.story(step))


def all_clearings(case: Case) -> Iterator[Clearing]:
    """The same, straight from a case."""
    scene, profile = case
    yield from clearings(scene, profile, once(scene, profile))


@sees(evictions=4)
@given(PLAIN)
@examples(25)
def test_no_core_is_half_taken(case: Case) -> None:
    """P7: a gang stays whole, was broken before, or loses all of its core in the cleared domain."""
    scene, profile = case
    pods = scene.pods()
    for clearing in clearings(scene, profile, once(scene, profile)):
        plea = clearing.plea
        there = plea.places.keys() - plea.waits
        for key in {pods[path][0].key for path in clearing.victims}:
            gang = scene.gang(key)
            if healthy(gang, there) and not healthy(gang, there - clearing.victims):
                local = [
                    path for path in there if pods[path][0].key == key and pods[path][1].on in clearing.domain.nodes
                ]
                assert set(split(plea, gang, local)[1]) <= clearing.victims


@sees(evictions=4)
@given(PLAIN)
@examples(25)
def test_bundles_are_those_of_the_specification(case: Case) -> None:
    """P15, P22: the bundles weighed are, in order, those that naive bundling, sorting and filtering gives."""
    for clearing in all_clearings(case):
        told = [(note.job, note.safe, note.tasks) for note in clearing.story.bundles]
        if all(safe for _, safe, _ in told) and not all(bundle.safe for bundle in clearing.bundles):
            continue  # another choice of what gangs can spare was found, so that none is broken
        assert [(b.gang.key, b.safe, len(b.pods)) for b in clearing.bundles] == told


@sees(evictions=8)
@given(PLAIN)
@examples(25)
def test_no_gang_is_broken_where_spare_pods_are_enough(case: Case) -> None:
    """P8: where what gangs can spare makes room in the domain, no core is taken."""
    for clearing in all_clearings(case):
        assert not (clearing.broken and clearing.fits(clearing.spare))


@sees(evictions=5)
@given(PLAIN)
@examples(25)
def test_less_important_gangs_and_more_overused_queues_break_first(case: Case) -> None:
    """P9: no core of a priority (preempt) or a queue (reclaim) goes while all the cores before it are enough."""
    for clearing in all_clearings(case):
        plea = clearing.plea

        def rank(bundle: Bundle, plea: Plea = plea) -> tuple[object, ...]:
            return (bundle.gang.priority,) if plea.preempts else queue_key(plea, bundle.gang.queue)

        if clearing.broken:
            last = max(map(rank, clearing.broken))
            before = {path for b in clearing.bundles if not b.safe and rank(b) < last for path in b.pods}
            assert not clearing.fits(clearing.spare | before)


@sees(evictions=4)
@given(cases(*GANGS))
@examples(25)
def test_efficiency_falls_along_the_order(case: Case) -> None:
    """P9: inside a priority (preempt) or a queue (reclaim) cores stand by efficiency, but for small differences."""
    scene, profile = case
    told = once(scene, profile)
    for step in told.steps:
        if not step.evicted or "gang" not in step.action:
            continue
        groups: dict[object, list[float]] = {}
        for note in told.story(step).bundles:
            gang = scene.gang(note.job)
            if not note.safe:
                groups.setdefault(gang.priority if "preempt" in step.action else gang.queue, []).append(note.efficiency)
        for group in groups.values():
            assert all(later < max(group[: i + 1]) + 0.05 for i, later in enumerate(group))
            assert all(later <= min(group[:i], default=1.0) + 0.05 for i, later in enumerate(group))


@sees(evictions=7)
@given(PLAIN)
@examples(25)
def test_nobody_could_be_put_back(case: Case) -> None:
    """P10: without any one of the bundles taken, or any one spare pod, the gang would not fit."""
    for clearing in all_clearings(case):
        assert clearing.fits(clearing.victims)
        for bundle in clearing.bundles:
            taken = clearing.victims & set(bundle.pods)
            assert not taken or not clearing.fits(clearing.victims - taken)
            assert not bundle.safe or not any(clearing.fits(clearing.victims - {path}) for path in taken)


@sees(evictions=6)
@given(PLAIN)
@examples(25)
def test_bundles_part_the_candidates(case: Case) -> None:
    """P22: what gangs can spare and their cores are all their pods here, none twice; no more is spare than surplus."""
    for clearing in all_clearings(case):
        paths = [path for bundle in clearing.bundles for path in bundle.pods]
        assert sorted(set(paths)) == sorted(paths)
        there = clearing.plea.places.keys() - clearing.plea.waits
        for bundle in clearing.bundles:
            ready = sum(bundle.gang.path(pod) in there for pod in bundle.gang.pods)
            assert not bundle.safe or ready < bundle.gang.minimum or len(bundle.pods) <= ready - bundle.gang.minimum


@sees(evictions=4)
@given(cases(*GANGS))
@examples(25)
def test_efficiency_is_a_share(case: Case) -> None:
    """P23: what a core frees here is at most what breaking its gang destroys anywhere."""
    scene, profile = case
    for attempts in once(scene, profile).report.eviction_attempts.values():
        for attempt in attempts:
            assert all(0 <= note.efficiency <= 1 + 1e-9 for note in attempt.bundles if not note.safe)


@sees(evictions=4)
@given(cases(*GANGS))
@examples(25)
def test_efficiency_knows_no_units(case: Case) -> None:
    """P23: with every amount of cpu tenfold the same pods go, for the same reasons."""
    scene, profile = case

    def tenfold(text: str) -> str:
        return " ".join(f"{r}={n * 10 if r == 'cpu' else n}" for r, n in read(text).items())

    first = once(scene, profile)
    second = once(scaled(scene, tenfold), profile)

    assert first.wire["evictions"] == second.wire["evictions"]
    assert first.wire["nominations"] == second.wire["nominations"]


def scaled(scene: Scene, by: object) -> Scene:
    """The scene with every list of amounts rewritten."""
    from msgspec.structs import replace

    assert callable(by)
    gangs = tuple(replace(g, pods=tuple(replace(p, asks=by(p.asks)) for p in g.pods)) for g in scene.gangs)
    queues = tuple(
        replace(q, deserved=by(q.deserved), guarantee=by(q.guarantee), capability=by(q.capability))
        for q in scene.queues
    )
    return replace(scene, gangs=gangs, queues=queues, nodes={name: by(has) for name, has in scene.nodes.items()})


@sees(evictions=3)
@given(scenes(), st.sampled_from(("gangpreempt", "gangpreempt gangreclaim")))
@examples(25)
def test_without_whole_bundles_no_gang_breaks(scene: Scene, actions: str) -> None:
    """P25: with allowWholeBundle off no gang that has its minimums loses them."""
    profile = profile_of(actions, quota="capacity", arguments={"allowWholeBundle": False})
    told = once(scene, profile)
    for moment in moments(scene, told.steps):
        there = moment.before.keys() - moment.waits
        for gang in scene.gangs:
            assert not healthy(gang, there) or healthy(gang, there - set(moment.step.evicted))


@sees(evictions=2)
@given(scenes(Dials(reclaims=True)), st.integers(1, 3))
@examples(25)
def test_no_more_domains_are_looked_at_than_the_profile_says(scene: Scene, most: int) -> None:
    """P25: maxDomains bounds the domains that an attempt weighs."""
    profile = profile_of("gangpreempt gangreclaim", quota="capacity", arguments={"maxDomains": most})
    for attempts in once(scene, profile).report.eviction_attempts.values():
        assert all(len(attempt.domains_considered) <= most for attempt in attempts)

"""The first candidate of `explain` is where `schedule` puts the gang, and its numbers agree with the reason beside it.

Drawn clusters, under profiles of every format: every gang that a cycle places is explained by one of its pods and as a
whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples
from tests.support.draw import objects_of
from tests.support.sight import saw, sees
from tests.support.strategies import PROFILES, Scene, crowds, scenes

from tierwise.actions.diagnosis.inspection import Candidates
from tierwise.api.codec import Raw
from tierwise.config.kube import read_kube
from tierwise.config.profile import Profile
from tierwise.config.scheduler_profile import read_own
from tierwise.config.volcano import read_volcano
from tierwise.explain.decision_basis import decision_bases
from tierwise.framework.report import APART, CycleReport, Decision, Term
from tierwise.model.snapshot import Snapshot
from tierwise.sim.cluster.rounds import look, schedule

_TIERS: list[Raw] = [
    {"plugins": [{"name": "priority"}, {"name": "gang"}]},
    {
        "plugins": [
            {"name": name} for name in ("predicates", "proportion", "binpack", "network-topology-aware", "places")
        ]
    },
]
FORMATS = {
    **PROFILES,
    "volcano": read_volcano({"actions": "enqueue, allocate, gangpreempt, backfill", "tiers": _TIERS}),
    "reserving": read_volcano(
        {
            "actions": "enqueue, allocate, backfill",
            "configurations": [{"name": "allocate", "arguments": {"reservations": "easy"}}],
            "tiers": _TIERS,
        }
    ),
    "kube": read_kube({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}),
    "own": read_own({"apiVersion": "tierwise.io/v1alpha1", "kind": "SchedulerProfile"}),
}

_LARGEST = (Term.FREE_NOW, Term.SURPLUS_ROOM)
"""Terms of which the largest value is the best."""


@sees(gangs=15, several=4)
@examples(120)
@given(st.one_of(scenes(), scenes(leaving=True), crowds()), st.sampled_from(sorted(FORMATS)))
def test_the_first_candidate_is_the_decision(scene: Scene, name: str) -> None:
    """Of every gang that is placed, by the pod that is asked about and as a whole."""
    profile = FORMATS[name]
    history = schedule(objects_of(scene.world, *scene.gangs), profile, now=0.0, cycles=1)
    if not history.reports:
        return
    snapshot, report = history.reports[0]
    for key in dict.fromkeys(decision.job.key for decision in report.decisions):
        decision = next(decision for decision in report.decisions if decision.job.key == key)
        _check_job(snapshot, report, profile, decision)
        for part in {part.sub.number: part for part in decision.placed}.values():
            seen, again = look(objects_of(scene.world, *scene.gangs), profile, part.tasks[0].key, now=0.0)
            assert seen is not None
            told = seen.after(*again.reports[-1]).candidates
            apart = bool(seen.job.policies) and seen.sub.constraint is not None
            rows = [p.rows for p in decision.placed if not apart or p.sub.number == seen.sub.number]
            saw(gangs=1, several=len(told.scores) > 1)
            _check(snapshot, told, rows, decision)


def _check_job(snapshot: Snapshot, report: CycleReport, profile: Profile, decision: Decision) -> None:
    basis = decision_bases(snapshot, report, profile, {decision.job.key}).get(decision.job.key)
    if basis is not None and basis.candidates.scores:
        _check(snapshot, basis.candidates, [part.rows for part in decision.placed], decision)


def _check(snapshot: Snapshot, told: Candidates, rows: Sequence[np.ndarray], decision: Decision) -> None:
    if not told.scores:
        assert decision.action != "allocate"
        return
    topology = snapshot.topology
    first, *others = told.scores
    assert topology.contains(topology.index[first], topology.meet_rows(np.concatenate(rows)))
    assert bool(others) == bool(told.decided)
    if others and not APART.intersection(told.decided):
        _agrees(told)


def _agrees(told: Candidates) -> None:
    """What was ruled out by a term comes behind by that term; what no term but score and name rules out, by these."""
    first, *others = told.scores
    for other in others:
        for term in told.decided:
            if term is Term.NAME:
                assert _same(told.scores[first], told.scores[other])
            elif term is Term.SCORE:
                assert told.scores[first] >= told.scores[other] or _same(told.scores[first], told.scores[other])
                if not _same(told.scores[first], told.scores[other]):
                    break
            else:
                mine, theirs = told.terms.get(first, {}).get(term), told.terms.get(other, {}).get(term)
                if mine != theirs:
                    assert theirs is None or (mine is not None and (mine < theirs) is (term not in _LARGEST))
                    break


def _same(one: float, other: float) -> bool:
    return abs(one - other) < 1e-4

"""Whether idle room might have held a gang for which pods were evicted, by a second solver (CP-SAT).

The cycle is replayed up to each plan of evictions, with nobody gone yet. What the gang lacks is stated without what
filters tell no records of; the oracle then solves it with every task on a row of its own, without classes and mixtures.
"""

from __future__ import annotations

from msgspec.structs import replace
from tests.support.program_oracle import solvable

from tierwise.actions.placement.exact import relaxed_question, statable
from tierwise.actions.placement.program import Question
from tierwise.config.actions import EVICTING
from tierwise.config.profile import Profile
from tierwise.explain.decision_basis import after_decisions
from tierwise.framework.cycle import Cycle
from tierwise.framework.report import CycleReport, Decision
from tierwise.model.job import Job
from tierwise.model.snapshot import Snapshot
from tierwise.scheduler import cycle as decide

__all__ = ["needless_plans"]

_FOR_ROOM = ("gangpreempt", "gangreclaim", "preempt", "reclaim")


def needless_plans(snapshot: Snapshot, report: CycleReport, profile: Profile) -> tuple[list[str], int]:
    """Gangs for which pods went although idle room might have held them, and how many plans were looked at.

    Left out are gangs whose parts or tasks may be others than those that were chosen, which the oracle does not state,
    and actions by which pods go where a quota is short, whatever room there is.
    """
    needless: list[str] = []
    looked = 0
    plans = ((eviction.by, eviction.action) for eviction in report.evictions)
    left = {(by.key, action) for by, action in plans if by is not None and action in _FOR_ROOM}

    def look(cycle: Cycle, decision: Decision) -> None:
        nonlocal looked
        if (decision.job.key, decision.action) not in left:
            return
        left.remove((decision.job.key, decision.action))
        asked = statable(cycle, decision.job)
        question = relaxed_question(cycle, decision.job, asked) if asked is not None else None
        if question is None or not _plain(question):
            return
        looked += 1
        if solvable(question) and not _quota_is_short(snapshot, profile, decision.job):
            needless.append(f"{decision.job.key} by {decision.action}")

    after_decisions(snapshot, report, profile, before=look)
    return needless, looked


def _quota_is_short(snapshot: Snapshot, profile: Profile, job: Job) -> bool:
    """Whether a cycle without evictions refuses the job for its queue's sake: then pods go whatever room there is."""
    alone = replace(profile, actions=tuple(action for action in profile.actions if action not in EVICTING))
    refusal = decide(snapshot, alone).rejections.get(job.key)
    return refusal is not None and refusal.stage == "quota"


def _plain(question: Question) -> bool:
    """Whether all that is asked for is needed, wherever it stands."""
    several = question.wanted or question.parts or any(scope.spreads for scope in question.scopes)
    return not several and all(unit.needed for unit in question.units)

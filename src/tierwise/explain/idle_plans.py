"""Whether idle room might have held the gangs for which pods were evicted, by a second solver.

Called by `audit --journal` and by tests. A cycle is replayed up to each plan of evictions, with nobody gone yet. What
the gang lacks is stated without what filters tell no records of, and asked of a solver that decides nothing
(`second_solver`), with every task on a row of its own.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from tierwise.actions.placement.exact import relaxed_question, statable
from tierwise.config.actions import EVICTING
from tierwise.config.profile import Profile
from tierwise.explain.decision_basis import after_decisions
from tierwise.explain.second_solver import solvable
from tierwise.framework.cycle import Cycle
from tierwise.framework.report import CycleReport, Decision
from tierwise.model.job import Job
from tierwise.model.snapshot import Snapshot
from tierwise.scheduler import cycle as decide

__all__ = ["PlansSeen", "look_at_plans"]


class PlansSeen(msgspec.Struct, frozen=True):
    """The plans of one cycle: the job and the action of those that were needless, how many there were and were not
    looked at: what was evicted for a share of a queue or a quota, and gangs that are gathered in multiples.
    """

    needless: tuple[tuple[str, str], ...] = ()
    looked: int = 0
    left_out: int = 0


def look_at_plans(snapshot: Snapshot, report: CycleReport, profile: Profile) -> PlansSeen:
    """The plans of a cycle, and for which of them idle room might have done."""
    needless: list[tuple[str, str]] = []
    looked = 0
    plans = {(eviction.by.key, eviction.action) for eviction in report.evictions if eviction.by is not None}
    not_reached = set(plans)

    def look(cycle: Cycle, decision: Decision) -> None:
        nonlocal looked
        plan = decision.job.key, decision.action
        if plan not in not_reached:
            return
        not_reached.remove(plan)
        demand = statable(cycle, decision.job)
        if demand is None or _quota_is_short(snapshot, profile, decision.job):
            return
        looked += 1
        question = relaxed_question(cycle, decision.job, demand)
        if question is not None and solvable(question):
            needless.append(plan)

    after_decisions(snapshot, report, profile, before=look)
    return PlansSeen(tuple(needless), looked, len(plans) - looked)


def _quota_is_short(snapshot: Snapshot, profile: Profile, job: Job) -> bool:
    """Whether a cycle without evictions refuses the job for its queue's sake: then pods go whatever room there is."""
    alone = replace(profile, actions=tuple(action for action in profile.actions if action not in EVICTING))
    refusal = decide(snapshot, alone).rejections.get(job.key)
    return refusal is not None and refusal.stage == "quota"

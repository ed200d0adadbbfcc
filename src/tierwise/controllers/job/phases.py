"""The phases of a job as a table: whether each wants pods, and where each action leads.

Read by `transitions`, which decides, and by the modules that create and delete objects; nothing here looks at a job.

    Pending ⇄ Running ─────────────────────▶ Completed, Failed
       │         │
       ├─ Restart… ─▶ Restarting ─▶ Pending, or Failed once maxRetry is used up
       ├─ AbortJob ─▶ Aborting ─▶ Aborted ─ ResumeJob ─▶ Restarting
       ├─ TerminateJob ─▶ Terminating ─▶ Terminated
       └─ CompleteJob ─▶ Completing ─▶ Completed
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

__all__ = ["FINISHED", "NARROW", "Transition", "phase_rule"]


class Transition(msgspec.Struct, frozen=True):
    """Where an action leads: the phase, whether that uses up a retry, whether all pods of now belong to the past."""

    phase: str
    retries: bool = False
    renews: bool = True


class PhaseRule(msgspec.Struct, frozen=True):
    """Consequences of a phase for a job."""

    phase: str
    wants_pods: bool = False
    transitions: Mapping[str, Transition] = {}
    ends_in: str = ""
    """The phase that follows once no pod waits, runs or is on its way out."""

    @property
    def rests(self) -> bool:
        """Whether nothing happens any more without a command."""
        return not self.wants_pods and not self.ends_in


NARROW: Final = ("RestartTask", "RestartPartition", "RestartPod")
"""Actions that concern a part of a job, the widest first; the rest of the job goes on."""

_END: Final = {
    "TerminateJob": Transition("Terminating"),
    "AbortJob": Transition("Aborting"),
    "CompleteJob": Transition("Completing"),
}
_ACTIVE: Final = {
    **_END,
    "RestartJob": Transition("Restarting", retries=True),
    **dict.fromkeys(NARROW, Transition("Restarting", retries=True, renews=False)),
}
# One restart covers whatever else fails until it is over. Volcano loses an AbortJob that comes in between; we do not.
_RESTARTING: Final = {**_END, **dict.fromkeys(NARROW, Transition("Restarting", renews=False))}
_RESUME: Final = {"ResumeJob": Transition("Restarting", retries=True)}

_RULES: Final = {
    entry.phase: entry
    for entry in (
        PhaseRule("Pending", wants_pods=True, transitions=_ACTIVE),
        PhaseRule("Running", wants_pods=True, transitions=_ACTIVE),
        PhaseRule("Restarting", wants_pods=True, transitions=_RESTARTING),
        PhaseRule("Aborting", transitions=_RESUME, ends_in="Aborted"),
        PhaseRule("Aborted", transitions=_RESUME),
        PhaseRule("Terminating", ends_in="Terminated"),
        PhaseRule("Terminated"),
        PhaseRule("Completing", ends_in="Completed"),
        PhaseRule("Completed"),
        PhaseRule("Failed"),
    )
}

FINISHED: Final = frozenset({"Completed", "Failed", "Terminated"})
"""Phases that nothing leads out of; an aborted job can be resumed."""


def phase_rule(phase: str) -> PhaseRule:
    """Rule of a phase; an unknown phase counts as Pending, as in Volcano."""
    return _RULES.get(phase) or _RULES["Pending"]

"""The embedded cluster at one moment: controllers and scheduler, round by round, until nothing changes.

Time does not pass, so pods that get a node run at once, and those that lose it are gone.
"""

from __future__ import annotations

from collections.abc import Callable

from tierwise.actions.diagnosis.inspection import PodInspection
from tierwise.api.limits import LIMIT_EXCEEDED, TOO_MANY_WAITING
from tierwise.config.profile import Profile
from tierwise.controllers.job.status import NAME_TAKEN
from tierwise.framework.report import CycleReport, Eviction, plugin_faults
from tierwise.model.snapshot import Fault, Snapshot
from tierwise.port import Bind, Objects
from tierwise.sim.cluster.circles import Circles
from tierwise.sim.cluster.driver import MOST, Amend, Decided, EmbeddedDriver
from tierwise.sim.cluster.provisioner import provision
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import Reader
from tierwise.status.pod_group import NOT_RECORDED, UNKNOWN_TIER

__all__ = ["Rounds", "look", "schedule"]

_TOLD = (LIMIT_EXCEEDED, TOO_MANY_WAITING, NOT_RECORDED, UNKNOWN_TIER, NAME_TAKEN)
"""Events that say why something asked for is not done."""


class Rounds(EmbeddedDriver):
    """History of a run: bindings, evictions, and what each cycle saw and decided."""

    def __init__(
        self,
        objects: Objects,
        profile: Profile,
        now: float,
        *,
        amend: Amend | None = None,
        reader: Reader | None = None,
    ) -> None:
        super().__init__(EmbeddedCluster(objects, start=now), profile, amend=amend, reader=reader)
        self._now = now
        self.bindings: dict[str, str] = {}
        self.nominations: dict[str, str] = {}  # of the last cycle
        self.evictions: list[Eviction] = []
        self.reports: list[tuple[Snapshot, CycleReport]] = []
        self.circles = Circles()
        self.settled = False  # whether the last round changed nothing

    @property
    def snapshot(self) -> Snapshot | None:
        """Snapshot of the last cycle, None before the first."""
        return self.reports[-1][0] if self.reports else None

    @property
    def report(self) -> CycleReport | None:
        """Report of the last cycle, None before the first."""
        return self.reports[-1][1] if self.reports else None

    def complaints(self) -> list[Fault]:
        """Faults of any cycle: unmet wishes of pods, skipped objects, limits that are exceeded or have no effect, and
        plugins that failed.
        """
        task_reasons = []
        for _, report in self.reports:
            for task, reason in report.complaints:
                task_reasons.append((task.key, reason))
        aside = [crash.fault for crash in self.guard.crashes]
        aside += dict.fromkeys(fault for _, report in self.reports for fault in plugin_faults(report))
        refused = (event for event in self.cluster.events if event.reason in _TOLD)
        aside += dict.fromkeys(Fault(str(event.about), event.reason, event.message) for event in refused)
        aside += [Fault(f"Pod {pod}", reason.code, reason.text) for pod, reason in dict.fromkeys(task_reasons)]
        return aside + self.circling()

    def circling(self) -> list[Fault]:
        """Which jobs went in circles, if the cluster did not come to rest for that."""
        if self.settled or not (self.circles.found or len(self.reports) >= MOST):
            return []
        decided = {}
        for _, report in self.reports[-2:]:
            for decision in report.decisions:
                decided[decision.job.key] = decision.job
        return [self.circles.fault(decided.values())]

    def after(self, now: float) -> Snapshot:
        """The cluster as it is now."""
        return self.seen(self.guard.over(self.cluster.read()), now)

    def decide(self, pod: str = "") -> Decided | None:
        """Decisions of a cycle once the controllers are done; None if no cycle can run."""
        self._reconcile(self._now)
        self._provision()
        decided = self._decide(self._now, pod=pod)
        if decided is not None:
            self.reports.append((decided.snapshot, decided.report))
        return decided

    def carry_out(self, decided: Decided) -> bool:
        """Apply what a cycle decided, let pods run, and write statuses; whether anything came of it."""
        cluster = self.cluster
        before = self.cluster.read().version
        cluster.apply(decided.effects)
        self._provision()
        cluster.advance_pods()
        self._write_statuses(decided)
        self.bindings |= {effect.pod.path: effect.node for effect in decided.effects if isinstance(effect, Bind)}
        self.evictions += decided.report.evictions
        self.circles.note(decided.report.evictions, cluster.read())
        names = decided.snapshot.nodes.names
        undone_decisions = (decision for decision in decided.report.decisions if not decision.bound)
        self.nominations = {task.key: names[row] for decision in undone_decisions for task, row in decision.places()}
        self._reconcile(self._now)
        self.settled = cluster.read().version == before and not decided.report.goes_on
        return not self.settled

    def _provision(self) -> None:
        self.cluster.apply(provision(self.cluster.read()).effects)


def schedule(
    objects: Objects,
    profile: Profile,
    *,
    now: float,
    cycles: int | None = None,
    progress: Callable[[int], None] | None = None,
    amend: Amend | None = None,
    reader: Reader | None = None,
) -> Rounds:
    """Run so many cycles; or as many as change anything, until the cluster comes to rest or goes in circles."""
    rounds = Rounds(objects, profile, now, amend=amend, reader=reader)
    for number in range(cycles if cycles is not None else MOST):
        if progress is not None:
            progress(number)
        decided = rounds.decide()
        if (decided is None or not rounds.carry_out(decided) or rounds.circles.found) and cycles is None:
            break
    return rounds


def look(objects: Objects, profile: Profile, pod: str, *, now: float) -> tuple[PodInspection | None, Rounds]:
    """View of one pod in the first cycle that reaches it; nothing of that cycle is carried out."""
    rounds = Rounds(objects, profile, now)
    for _ in range(MOST):
        decided = rounds.decide(pod)
        if decided is None or decided.inspection is not None:
            return (decided.inspection if decided is not None else None), rounds
        if not rounds.carry_out(decided):
            break
    return None, rounds

"""Runs controllers and scheduler on the embedded cluster, round by round, until nothing changes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tierwise.actions.diagnosis.inspection import PodInspection, PodInspector
from tierwise.api.limits import LIMIT_EXCEEDED
from tierwise.config.profile import DEFAULT, Profile
from tierwise.controllers import Controllers, WholeController
from tierwise.controllers.job.status import NAME_TAKEN
from tierwise.framework.report import CycleReport, Eviction, plugin_faults
from tierwise.model.snapshot import Fault, Snapshot
from tierwise.port import Bind, Effect, Objects
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import effects
from tierwise.scheduler.guard import Guard
from tierwise.sim.cluster import claims, workloads
from tierwise.sim.cluster.provisioner import provision
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import Reader
from tierwise.status.pod_group import UNKNOWN_TIER, statuses

__all__ = ["Amend", "History", "all_controllers", "look", "reconcile", "schedule"]

_TOLD = (LIMIT_EXCEEDED, UNKNOWN_TIER, NAME_TAKEN)
"""Events that say why something asked for is not done."""

_MOST = 1000
"""Rounds after which a cluster that still changes is taken to be going in circles."""


Amend = Callable[[Snapshot], Snapshot]
"""A change of what cycles see, for questions that no object could be changed for in every language."""


class History(msgspec.Struct):
    """What happened: every binding and eviction, and the last cycle in full."""

    cluster: EmbeddedCluster
    profile: Profile
    controllers: Controllers
    snapshot: Snapshot | None = None
    report: CycleReport | None = None
    cycles: int = 0
    bindings: dict[str, str] = {}
    nominations: dict[str, str] = {}
    evictions: list[Eviction] = []
    reports: list[tuple[Snapshot, CycleReport]] = []
    guard: Guard = msgspec.field(default_factory=Guard)
    amend: Amend | None = None
    reader: Reader | None = None  # that has read most of these objects before; None at first, and where it has failed

    def complaints(self) -> list[Fault]:
        """What plugins could not do as pods ask for, in any cycle, what was set aside, is beyond a limit or limits
        nothing, and which plugins failed.
        """
        told = [(task.key, reason) for _, report in self.reports for task, reason in report.complaints]
        aside = [crash.fault for crash in self.guard.crashes]
        aside += dict.fromkeys(fault for _, report in self.reports for fault in plugin_faults(report))
        refused = (event for event in self.cluster.events if event.reason in _TOLD)
        aside += dict.fromkeys(Fault(str(event.about), event.reason, event.message) for event in refused)
        return aside + [Fault(f"Pod {pod}", reason.code, reason.text) for pod, reason in dict.fromkeys(told)]

    def after(self, now: float) -> Snapshot:
        """The cluster as it stands now."""
        return self.seen(self.guard.over(self.cluster.read()), now)

    def seen(self, objects: Objects, now: float) -> Snapshot:
        """What a cycle sees of these objects."""
        reader = self.reader if self.reader is not None else Reader(self.profile)
        self.reader = None  # one that fails may have kept halves of two reads
        snapshot = reader.read(objects, now)
        self.reader = reader
        return self.amend(snapshot) if self.amend is not None else snapshot


def all_controllers(profile: Profile = DEFAULT) -> Controllers:
    """Those of tierwise, and what controllers of other projects do."""
    others = [WholeController(of.READS, of.reconcile, about=of.ABOUT) for of in (claims, workloads)]
    return Controllers(profile, others)


def reconcile(
    cluster: EmbeddedCluster,
    now: float,
    profile: Profile = DEFAULT,
    guard: Guard | None = None,
    controllers: Controllers | None = None,
) -> Guard:
    """Run the controllers until they have nothing more to do; the guard tells what was set aside on the way.

    `controllers` are those that ran on this cluster before, for this profile.
    """
    guard = guard if guard is not None else Guard()
    remembering = controllers if controllers is not None else all_controllers(profile)

    def act(shown: Objects) -> bool:
        asked = remembering.run(shown, now)
        if asked:
            cluster.apply(asked)
        return bool(asked)

    def rehearse(shown: Objects) -> None:
        EmbeddedCluster(shown).apply(all_controllers(profile).run(shown, now))

    for _ in range(_MOST):
        if not guard.run("reconciling", cluster.read(), act, rehearse):
            break
    return guard


def schedule(
    objects: Objects,
    profile: Profile,
    *,
    now: float,
    cycles: int | None = None,
    progress: Callable[[int], None] | None = None,
    amend: Amend | None = None,
    reader: Reader | None = None,
) -> History:
    """Run so many cycles, or as many as change anything; a `reader` for the profile that knows most of the objects
    spares reading them anew.
    """
    history = History(
        EmbeddedCluster(objects, start=now), profile, all_controllers(profile), amend=amend, reader=reader
    )
    for number in range(cycles if cycles is not None else _MOST):
        if progress is not None:
            progress(number)
        if not _round(history, profile, now) and cycles is None:
            break
    return history


def _round(history: History, profile: Profile, now: float) -> bool:
    """Controllers, one cycle, its effects, a moment's pause, statuses; whether anything came of it."""
    cluster, guard = history.cluster, history.guard
    reconcile(cluster, now, profile, guard, history.controllers)
    cluster.apply(provision(cluster.read()).effects)
    before = cluster.read().version

    def decide(shown: Objects) -> tuple[Snapshot, CycleReport, list[Effect]]:
        snapshot = history.seen(shown, now)
        report = cycle(snapshot, profile)
        return snapshot, report, effects(snapshot, report)

    decided = guard.run("scheduling", cluster.read(), decide)
    if decided is None:
        return False
    snapshot, report, asked = decided
    cluster.apply(asked)
    cluster.apply(provision(cluster.read()).effects)
    cluster.advance_pods()
    cluster.apply(guard.run("writing statuses", cluster.read(), lambda shown: statuses(shown, snapshot, report)) or ())
    _remember(history, snapshot, report)
    history.nominations = {}
    for effect in asked:
        if isinstance(effect, Bind):
            history.bindings[effect.pod.path] = effect.node
    history.evictions += report.evictions
    for decision in report.decisions:
        if not decision.bound:
            for placed in decision.placed:
                for task, row in zip(placed.tasks, placed.rows.tolist(), strict=True):
                    history.nominations[task.key] = snapshot.nodes.names[row]
    reconcile(cluster, now, profile, guard, history.controllers)
    return cluster.read().version != before


def _remember(history: History, snapshot: Snapshot, report: CycleReport) -> None:
    history.snapshot, history.report = snapshot, report
    history.cycles += 1
    history.reports.append((snapshot, report))


def look(objects: Objects, profile: Profile, pod: str, *, now: float) -> tuple[PodInspection | None, History]:
    """What one pod sees in the first cycle that reaches it."""
    history = History(EmbeddedCluster(objects, start=now), profile, all_controllers(profile))
    guard = history.guard

    def probed(shown: Objects) -> tuple[PodInspector, Snapshot, CycleReport]:
        inspector, snapshot = PodInspector(pod), history.seen(shown, now)
        return inspector, snapshot, cycle(snapshot, profile, inspect=inspector.inspect)

    for _ in range(_MOST):
        reconcile(history.cluster, now, profile, guard, history.controllers)
        looked = guard.run("scheduling", history.cluster.read(), probed)
        if looked is None:
            break
        inspector, snapshot, report = looked
        if inspector.inspection is not None:
            _remember(history, snapshot, report)
            return inspector.inspection, history
        if not _round(history, profile, now):
            break
    return None, history

"""Controllers and scheduler on the embedded cluster, round by round, until nothing changes any more."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tierwise import controllers
from tierwise.config.profile import DEFAULT, Profile
from tierwise.dialects.build import build
from tierwise.explain.status import statuses
from tierwise.framework.probe import Look
from tierwise.framework.report import CycleReport, Eviction
from tierwise.model.snapshot import Fault, Snapshot
from tierwise.port import Bind, Objects
from tierwise.scheduler import cycle, probe_for
from tierwise.scheduler.effects import effects
from tierwise.sim.cluster import EmbeddedCluster

__all__ = ["History", "look", "reconcile", "schedule"]

_MOST = 1000
"""Rounds after which a cluster that still changes is taken to be going in circles."""


class History(msgspec.Struct):
    """What happened: every binding and eviction, and the last cycle in full."""

    cluster: EmbeddedCluster
    profile: Profile
    snapshot: Snapshot | None = None
    report: CycleReport | None = None
    cycles: int = 0
    bindings: dict[str, str] = {}
    nominations: dict[str, str] = {}
    evictions: list[Eviction] = []
    reports: list[tuple[Snapshot, CycleReport]] = []

    def complaints(self) -> list[Fault]:
        """What plugins could not do as pods ask for, in any cycle."""
        told = [(task.key, reason) for _, report in self.reports for task, reason in report.complaints]
        return [Fault(f"Pod {pod}", reason.code, reason.text) for pod, reason in dict.fromkeys(told)]

    def after(self, now: float) -> Snapshot:
        """The cluster as it stands now."""
        return build(self.cluster.read(), now, self.profile)


def reconcile(cluster: EmbeddedCluster, now: float, profile: Profile = DEFAULT) -> None:
    """Run the controllers until they have nothing more to do."""
    for _ in range(_MOST):
        asked = controllers.run(cluster.read(), now, settled=cluster.settled, profile=profile)
        if not asked:
            cluster.settled = cluster.read()
            return
        cluster.apply(asked)


def schedule(
    objects: Objects,
    profile: Profile,
    *,
    now: float,
    cycles: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> History:
    """Run so many cycles, or as many as change anything."""
    history = History(EmbeddedCluster(objects), profile)
    for number in range(cycles if cycles is not None else _MOST):
        if progress is not None:
            progress(number)
        if not _round(history, profile, now) and cycles is None:
            break
    return history


def _round(history: History, profile: Profile, now: float) -> bool:
    """Controllers, one cycle, its effects, a moment's pause, statuses; whether anything came of it."""
    cluster = history.cluster
    reconcile(cluster, now, profile)
    before = cluster.read().version
    snapshot = build(cluster.read(), now, profile)
    report = cycle(snapshot, profile)
    asked = effects(snapshot, report)
    cluster.apply(asked)
    cluster.settle()
    cluster.apply(statuses(cluster.read(), snapshot, report))
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
    reconcile(cluster, now, profile)
    return cluster.read().version != before


def _remember(history: History, snapshot: Snapshot, report: CycleReport) -> None:
    history.snapshot, history.report = snapshot, report
    history.cycles += 1
    history.reports.append((snapshot, report))


def look(objects: Objects, profile: Profile, pod: str, *, now: float) -> tuple[Look | None, History]:
    """What one pod sees in the first cycle that reaches it."""
    history = History(EmbeddedCluster(objects), profile)
    for _ in range(_MOST):
        reconcile(history.cluster, now, profile)
        probe = probe_for(pod)
        snapshot = build(history.cluster.read(), now, profile)
        report = cycle(snapshot, profile, probe=probe)
        if probe.found is not None:
            _remember(history, snapshot, report)
            return probe.found, history
        if not _round(history, profile, now):
            break
    return None, history

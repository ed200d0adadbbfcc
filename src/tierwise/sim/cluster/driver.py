"""The driver of the embedded cluster: controllers, cycles of the scheduler, and the statuses that follow from them.

When that happens, and how pods run meanwhile, is for those who drive it: `rounds` at one moment, where pods run at
once, and `simulation` on a clock, with kubelets. What makes a stage raise is set aside by name, as on a real cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from tierwise.actions.diagnosis.inspection import PodInspection, PodInspector
from tierwise.api.codec import Unknown
from tierwise.api.core import Node, Pod
from tierwise.api.nvidia import ComputeDomain
from tierwise.api.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate
from tierwise.api.volcano import PodGroup
from tierwise.config.profile import DEFAULT, Profile
from tierwise.controllers import Controllers, sleeping
from tierwise.controllers.job import KeySource
from tierwise.controllers.job.frameworks import KeyPair
from tierwise.framework.extension import Factory
from tierwise.framework.report import CycleReport, ReportBuilder
from tierwise.model.snapshot import Snapshot
from tierwise.model.turns import NO_TURNS
from tierwise.plugins import PLUGINS
from tierwise.port import Effect, Objects
from tierwise.scheduler import cycle
from tierwise.scheduler.cycle import nothing_waits
from tierwise.scheduler.effects import effects
from tierwise.scheduler.guard import Crash, Guard
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import Reader
from tierwise.status.pod_group import StatusWriter, statuses

__all__ = ["MOST", "Amend", "Decided", "EmbeddedDriver", "all_controllers", "no_key", "reconcile"]

MOST: Final = 1000
"""Rounds at one moment after which a cluster that still changes is taken to be going in circles."""

Amend = Callable[[Snapshot], Snapshot]
"""A change of what cycles see, for questions that no object could be changed for in every language."""


class Decided(msgspec.Struct, frozen=True):
    """Snapshot, report and effects of one cycle; `idle` is true if there was nothing to decide and nothing to do."""

    snapshot: Snapshot
    report: CycleReport
    effects: list[Effect]
    idle: bool = False
    inspection: PodInspection | None = None  # of the pod that was asked about, where the cycle came to it


_NO_KEY: Final = "no pod of this cluster is real, so there is nothing to log in to"


def no_key(_now: float) -> KeyPair:
    """Placeholder for the key of a job whose pods are simulated."""
    return _NO_KEY, _NO_KEY


def all_controllers(profile: Profile = DEFAULT, keys: KeySource = no_key) -> Controllers:
    """Those of tierwise, and what controllers of other projects do."""
    claims = sleeping(
        "tierwise.sim.cluster.claims", (ResourceClaim, ResourceClaimTemplate, ComputeDomain), (Pod, DeviceClass)
    )
    workloads = sleeping("tierwise.sim.cluster.workloads", (Unknown,), (Pod, Node, PodGroup))
    return Controllers(profile, [claims, workloads], keys)


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
        before = cluster.read()
        effects = remembering.run(shown, now)
        if effects:
            cluster.apply(effects)
        return cluster.read() is not before  # what is refused now would be refused again

    def rehearse(shown: Objects) -> None:
        EmbeddedCluster(shown).apply(all_controllers(profile).run(shown, now))

    for _ in range(MOST):
        if not guard.run("reconciling", cluster.read(), act, rehearse):
            break
    return guard


class EmbeddedDriver:
    """One embedded cluster under one profile, as far as it has come."""

    def __init__(
        self,
        cluster: EmbeddedCluster,
        profile: Profile,
        *,
        plugins: Mapping[str, Factory] = PLUGINS,
        amend: Amend | None = None,
        reader: Reader | None = None,
        keys: KeySource = no_key,
    ) -> None:
        """A `reader` for the profile that knows most of the objects makes reading them again needless."""
        self.cluster = cluster
        self.profile = profile
        self._plugins = plugins
        self._amend = amend
        self.reader = reader  # None at first, and where one has failed
        self._schedulers = reader.schedulers if reader is not None else None
        self.guard = Guard(tell=self._tell)
        self.cycles = 0
        self.turns = NO_TURNS  # of searches, after the last cycle
        self._controllers = all_controllers(profile, keys)
        self._statuses = StatusWriter()

    def _tell(self, crash: Crash) -> None:
        """Let people know of an object that is set aside."""

    def _reconcile(self, now: float) -> None:
        reconcile(self.cluster, now, self.profile, self.guard, self._controllers)

    def seen(self, objects: Objects, now: float) -> Snapshot:
        """Snapshot that a cycle sees of these objects."""
        reader = self.reader if self.reader is not None else Reader(self.profile, schedulers=self._schedulers)
        self.reader = None  # one that fails may have kept halves of two reads
        snapshot = reader.read(objects, now, self.turns)
        self.reader = reader
        if self._amend is not None:
            return self._amend(snapshot)
        return snapshot

    def _decide(self, now: float, *, skip: bool = False, pod: str = "") -> Decided | None:
        """One cycle, of which nothing is carried out; None where none can be had, whatever is set aside.

        With `skip` none is run where nothing waits; the cycle looks at a `pod` where one is named.
        """

        def decide(shown: Objects) -> Decided:
            snapshot = self.seen(shown, now)
            inspector = PodInspector(pod)
            idle = skip and nothing_waits(snapshot, self.profile)
            inspect = inspector.inspect if pod else None
            if idle:
                report = replace(ReportBuilder().build(), turns=snapshot.turns)  # what was used stays used
            else:
                report = cycle(snapshot, self.profile, plugins=self._plugins, inspect=inspect)
            decided_effects = effects(snapshot, report)
            return Decided(snapshot, report, decided_effects, idle and not decided_effects, inspector.inspection)

        decided = self.guard.run("scheduling", self.cluster.read(), decide)
        if decided is not None:
            self.turns = decided.report.turns
        self.cycles += decided is not None
        return decided

    def _write_statuses(self, decided: Decided) -> Sequence[Effect]:
        """Apply the statuses that follow from a cycle; which."""
        snapshot = decided.snapshot
        report = decided.report
        status_effects = self.guard.run(
            "writing statuses",
            self.cluster.read(),
            lambda shown: self._statuses.write(shown, snapshot, report),
            lambda shown: statuses(shown, snapshot, report),
        )
        if status_effects:
            self.cluster.apply(status_effects)
        return status_effects or ()

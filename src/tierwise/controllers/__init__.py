"""Controllers: from the objects of a cluster to the effects that reconcile them.

Each is level-triggered and idempotent: applied to its own result it returns nothing, so the caller repeats `run` until
it returns nothing. No controller reads a clock, does I/O or calls another controller. `Controllers` remembers what had
nothing to do, so that a change costs what it is about; what it returns never depends on that memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from importlib import import_module
from operator import attrgetter
from typing import Any, Final, Protocol

from tierwise.api import koordinator
from tierwise.api.codec import Object
from tierwise.api.core import ConfigMap, Node, Pod
from tierwise.api.elastic_quota import ElasticQuota
from tierwise.api.koordinator import ClusterNetworkTopology
from tierwise.api.network_aware import AppGroup, KepAppGroup, KepNetworkTopology, NetworkTopology
from tierwise.api.volcano import HyperNode, PodGroup, Queue
from tierwise.config.profile import DEFAULT, Profile
from tierwise.controllers.gang_counts import GangCountController
from tierwise.controllers.job import JobController, KeySource
from tierwise.controllers.pod_group import PodGroupController
from tierwise.controllers.workqueue import Changes
from tierwise.port import Delete, Effect, Objects, PatchStatus

__all__ = ["Controllers", "WholeController", "due", "run", "sleeping"]

_HERE: Final = "tierwise.controllers"


class Controller(Protocol):
    """One of them, with what it remembers."""

    def enqueue(self, objects: Objects, changed: Changes) -> None:
        """Take note of what has changed since the last time."""

    def reconcile(self, objects: Objects, now: float) -> list[Effect]:
        """Effects for the object, including earlier ones that have not been carried out."""


class Controllers:
    """All controllers of one cluster; an exception leaves them fit to be run again."""

    def __init__(
        self, profile: Profile = DEFAULT, controllers: Iterable[WholeController] = (), keys: KeySource | None = None
    ) -> None:
        """Make the controllers for a scheduler's `profile`, which sets quotas and AppGroup rules; `controllers` run
        last. Keys for jobs whose pods log in to each other come from `keys`; without it such jobs wait.
        """
        self._seen = Objects()
        self._jobs = JobController(keys)
        self._all: Final[tuple[Controller | WholeController, ...]] = (
            sleeping(f"{_HERE}.discovery.labels", (ConfigMap,), (Node, HyperNode)),
            sleeping(f"{_HERE}.discovery.sources", (ConfigMap,), (Node, HyperNode)),
            sleeping(
                f"{_HERE}.discovery.hypernode_status",
                (HyperNode,),
                (ConfigMap, Node),
                lambda module: module.HyperNodeStatus().reconcile,
            ),
            sleeping(f"{_HERE}.discovery.layers", (ClusterNetworkTopology,), (Node,)),
            self._jobs,
            PodGroupController(),
            GangCountController(),
            sleeping(f"{_HERE}.app_group", (AppGroup, KepAppGroup), (Pod,)),
            sleeping(
                f"{_HERE}.network_topology",
                (NetworkTopology, KepNetworkTopology),
                (AppGroup, KepAppGroup, ConfigMap, Node, Pod),
                lambda module: partial(module.reconcile, profile=profile),
            ),
            sleeping(
                f"{_HERE}.elastic_quota",
                (ElasticQuota,),
                (Node, Pod, PodGroup, Queue, koordinator.PodGroup),
                lambda module: module.QuotaFigures(profile).reconcile,
            ),
            *controllers,
        )
        # Most of them read few kinds of objects and seldom have anything to do: they are not even asked then.
        self._whole: dict[type[Object], list[WholeController]] = {}
        self._about: dict[type[Object], list[WholeController]] = {}
        for controller in self._all:
            if isinstance(controller, WholeController):
                for kind in controller.reads:
                    self._whole.setdefault(kind, []).append(controller)
                for kind in controller.about:
                    self._about.setdefault(kind, []).append(controller)
        self._following = [c for c in self._all if not isinstance(c, WholeController)]
        self._in_order = [(c, c if isinstance(c, WholeController) else None) for c in self._all]

    def run(self, objects: Objects, now: float) -> list[Effect]:
        """The effects of every controller, in a fixed order; `now` is in seconds since the epoch."""
        self._follow(objects)
        effects: list[Effect] = []
        for controller, controller_state in self._in_order:
            if controller_state is None or controller_state.touched:
                effects += controller.reconcile(objects, now)
        if not effects:
            return effects
        # All controllers see the same moment: one may describe what another is about to remove.
        gone = {effect.key for effect in effects if isinstance(effect, Delete)}
        return [effect for effect in effects if not (isinstance(effect, PatchStatus) and effect.key in gone)]

    def due(self, objects: Objects) -> float | None:
        """The next moment at which time alone gives a controller something to do; None where nothing waits for one.

        The caller runs the controllers again at that time, even if no object changes before.
        """
        self._follow(objects)
        return self._jobs.due(objects)

    def _follow(self, objects: Objects) -> None:
        if objects is self._seen:
            return
        changed = objects.changed_objects(self._seen)
        for kind in changed:
            for whole_controller in self._about.get(kind, ()):
                whole_controller.sleeps = not any(objects.every(kind_about) for kind_about in whole_controller.about)
        for kind in changed:
            for whole_controller in self._whole.get(kind, ()):
                whole_controller.touched = whole_controller.touched or not whole_controller.sleeps
        for controller in self._following:
            controller.enqueue(objects, changed)
        self._seen = objects


def run(objects: Objects, now: float, *, profile: Profile = DEFAULT) -> list[Effect]:
    """The effects of every controller that knows nothing of earlier objects."""
    return Controllers(profile).run(objects, now)


def due(objects: Objects) -> float | None:
    """The next moment at which time alone gives one of them something to do."""
    return Controllers().due(objects)


class WholeController:
    """A controller that looks at all that it reads, whenever any of it has changed or was not as it should be.

    Where it says which types of objects it is `about`, it sleeps while there are none of them.
    """

    def __init__(
        self,
        reads: Collection[type[Object]],
        reconcile: Callable[[Objects, float], list[Effect]],
        *,
        about: Collection[type[Object]] = (),
    ) -> None:
        self.reads = frozenset(reads)
        self.about = tuple(about)
        self.sleeps = bool(about)
        self.touched = not about
        self._reconcile = reconcile

    def reconcile(self, objects: Objects, now: float) -> list[Effect]:
        effects = self._reconcile(objects, now) if self.touched else []
        self.touched = bool(effects)
        return effects


def sleeping(
    module: str,
    about: tuple[type[Object], ...],
    besides: tuple[type[Object], ...],
    of: Callable[[Any], Callable[[Objects, float], list[Effect]]] = attrgetter("reconcile"),
) -> WholeController:
    """A controller whose module is imported when there are objects that it is about: few clusters have all kinds."""
    controllers_found: list[Callable[[Objects, float], list[Effect]]] = []

    def reconcile(objects: Objects, now: float) -> list[Effect]:
        if not controllers_found:
            controllers_found.append(of(import_module(module)))
        return controllers_found[0](objects, now)

    return WholeController((*about, *besides), reconcile, about=about)

"""Controllers: pure functions from the objects of a cluster to the effects that reconcile them.

`run` calls all of them. Each is level-triggered and idempotent: applied to its own result it returns nothing, so the
caller repeats `run` until it returns nothing. No controller reads a clock, does I/O or calls another controller.
"""

from tierwise.config.profile import DEFAULT, Profile
from tierwise.controllers import (
    app_group,
    elastic_quota,
    gang_counts,
    job,
    network_topology,
    pod_group,
)
from tierwise.controllers.discovery import hypernode_status, labels, layers, sources
from tierwise.port import Delete, Effect, Objects, PatchStatus

__all__ = ["due", "run"]

_ALL = (
    labels,
    sources,
    hypernode_status,
    layers,
    job,
    pod_group,
    gang_counts,
    app_group,
    network_topology,
    elastic_quota,
)


def run(objects: Objects, now: float, *, settled: Objects | None = None, profile: Profile = DEFAULT) -> list[Effect]:
    """The effects of every controller, in a fixed order; `now` is in seconds since the epoch.

    What quotas may use depends on the scheduler's `profile`; nothing else does.

    `settled` are earlier objects for which there was nothing to do: whichever controller reads only what has not
    changed since then has nothing to do now either, unless its time has come, and is spared the work of finding out.
    """
    effects: list[Effect] = []
    for controller in _ALL:
        same = settled is not None and objects.alike(settled, *controller.READS)
        if not same or (controller is job and _has_come(job.due(objects), now)):
            of_quotas = controller is elastic_quota
            effects += (
                elastic_quota.reconcile(objects, now, profile) if of_quotas else controller.reconcile(objects, now)
            )
    # All controllers see the same moment: one may describe what another is about to remove.
    gone = {effect.key for effect in effects if isinstance(effect, Delete)}
    return [effect for effect in effects if not (isinstance(effect, PatchStatus) and effect.key in gone)]


def due(objects: Objects) -> float | None:
    """The next moment at which time alone gives a controller something to do; None where nothing waits for one.

    The caller runs the controllers again at that time, even if no object changes before.
    """
    return job.due(objects)


def _has_come(moment: float | None, now: float) -> bool:
    return moment is not None and moment <= now

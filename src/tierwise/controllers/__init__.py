"""Controllers: pure functions from what a cluster holds to the effects that bring it where its objects say.

`run` calls them all. Each one is level-triggered and idempotent: applied to its own result it has nothing to do, so
whoever calls `run` repeats it until it returns nothing. No controller reads a clock, does I/O or calls another.
"""

from tierwise.controllers import discovery_label, elastic_quota, hypernode, job, network_topology
from tierwise.port import Delete, Effect, Objects, PatchStatus

__all__ = ["run"]

_ALL = (discovery_label, hypernode, network_topology, job, elastic_quota)


def run(objects: Objects, now: float, *, settled: Objects | None = None) -> list[Effect]:
    """The effects of every controller, in a fixed order; `now` is in seconds since the epoch.

    `settled` are earlier objects for which there was nothing to do: whichever controller reads only what has not
    changed since then has nothing to do now either, and is spared the work of finding out.
    """
    effects: list[Effect] = []
    for controller in _ALL:
        if settled is None or not objects.alike(settled, *controller.READS):
            effects += controller.reconcile(objects, now)
    # All controllers see the same moment: one may describe what another is about to remove.
    gone = {effect.key for effect in effects if isinstance(effect, Delete)}
    return [effect for effect in effects if not (isinstance(effect, PatchStatus) and effect.key in gone)]

"""A defragmentation carried out on the embedded cluster: the same executor, scheduler and controllers, virtual time.

What `tierwise defrag --execute` does with manifests, and what tests inject faults into. Owners that the embedded
cluster does not know start their pods again here, under their old names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tierwise.api.codec import Raw, part
from tierwise.api.core import Pod
from tierwise.api.defrag_record import DefragRecord
from tierwise.api.merge_patch import merged
from tierwise.config.profile import Profile
from tierwise.explain.defrag import DefragPlan
from tierwise.port import Cluster, Create, Effect, Objects
from tierwise.runtime.defrag import DefragExecutor
from tierwise.scheduler.effects import pod_key
from tierwise.sim.cluster.simulation import Simulation

__all__ = ["Rehearsal"]

_NAMESPACE = "kube-system"
_LONGEST = 30.0


class Rehearsal:
    """A cluster that lives by a virtual clock, and an executor beside it."""

    def __init__(
        self, objects: Objects, profile: Profile, start: float, *, between: Callable[[Cluster], Cluster] | None = None
    ) -> None:
        """`between` is what lies between the executor and the cluster."""
        self.now = float(math.ceil(start))
        named = _with_uids(objects)
        self.simulation = Simulation(named, profile, start=self.now, user=_Owners(named))
        self.cluster = self.simulation.cluster
        self._profile = profile
        self._seen: Cluster = between(self.cluster) if between is not None else self.cluster
        self.executor = self.another("rehearsal")

    def another(self, by: str) -> DefragExecutor:
        """An executor on the same cluster, as another process would be."""
        return DefragExecutor(self._seen, self._profile, namespace=_NAMESPACE, by=by, clock=lambda: self.now)

    def begin(self, room: str, *, step_seconds: float) -> tuple[DefragRecord, DefragPlan]:
        """Let the cluster come to rest, and begin."""
        self.simulation.advance(self.now)
        return self.executor.begin(room, step_seconds=step_seconds)

    def step(self, *, stopping: bool = False) -> DefragRecord | None:
        """Let the simulated cluster catch up with the clock, then take the executor's next step and return its record;
        None where there is no execution. The clock is moved on where the step changed nothing. stopping asks the
        executor to end after the move in hand.
        """
        self.simulation.advance(self.now)
        before = self.cluster.read()
        record = self.executor.step(stopping=stopping)
        if self.cluster.read() is before:
            self._later(record)
        return record

    def _later(self, record: DefragRecord | None) -> None:
        """To the next moment at which anything happens; an executor looks again after a while in any case."""
        following = self.simulation.following(self.now)
        ahead = [self.now + _LONGEST, *([following] if following is not None else [])]
        if record is not None and not record.over:
            ahead.append(math.ceil(record.deadline))
        self.now = max(self.now + 1.0, min(ahead))


class _Owners:
    """Who starts pods again: a user of the simulation, for owners that it does not know."""

    def __init__(self, objects: Objects) -> None:
        metas = (part(objects.raw(key), "metadata") for key in objects if key.kind != "Pod")
        uids = set()
        for meta in metas:
            if meta.get("uid"):
                uids.add(str(meta["uid"]))
        self._made = 0
        self._pods: dict[str, Raw] = {}
        for path, pod in objects.every(Pod).items():
            owners = pod.metadata.owner_references
            raw = objects.raw(pod_key(path))
            if owners and raw is not None and not any(owner.uid in uids for owner in owners):
                self._pods[path] = merged(raw, {"status": None, "spec": {"nodeName": None}})

    def act(self, objects: Objects, now: float) -> Sequence[Effect]:
        present = objects.every(Pod)
        missing = [path for path in self._pods if path not in present]
        effects: list[Effect] = []
        for path in missing:
            self._made += 1
            meta = {"uid": f"again-{self._made}", "creationTimestamp": None, "deletionTimestamp": None}
            effects.append(Create(merged(self._pods[path], {"metadata": meta})))
        return effects

    def due(self) -> float | None:
        return None


def _with_uids(objects: Objects) -> Objects:
    """The objects with a uid for every pod: that is how one is told from its successor."""
    puts = {}
    for path, pod in objects.every(Pod).items():
        raw = objects.raw(pod_key(path))
        if raw is not None and not pod.metadata.uid:
            puts[pod_key(path)] = merged(raw, {"metadata": {"uid": f"uid-{path}"}})
    return objects.changed(puts) if puts else objects

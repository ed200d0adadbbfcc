"""A defragmentation that is carried out strands no gang, whatever goes wrong at whichever step."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.defrag import owned
from tests.support.depth import size
from tests.support.draw import Gang, draw, gang, objects_of

from tierwise.api.core import Node, Pod
from tierwise.api.defrag_record import DefragRecord, MovePhase
from tierwise.api.errors import InputError
from tierwise.api.merge_patch import merged
from tierwise.audit import audit
from tierwise.config.profile import DEFAULT
from tierwise.port import (
    Begun,
    Create,
    Effect,
    Ended,
    Evict,
    Key,
    Objects,
    Outcome,
    PatchStatus,
    Prepare,
    RecordEvent,
    Update,
    Version,
)
from tierwise.port import Cluster as Port
from tierwise.runtime.defrag_rehearsal import Rehearsal
from tierwise.sim.defragmentation.plan import defrag
from tierwise.sim.what_if.runs import prepared

NOW = 1.8e9
STEP = 120.0


class Busy(msgspec.Struct, frozen=True):
    """Three racks of two nodes with four GPUs, a gang or two in each: no rack is free, and one can mostly be freed."""

    gangs: tuple[Gang, ...]
    text: str = "nvidia.com/gpu=4x2@1"

    def objects(self) -> Objects:
        return owned(objects_of(draw("s0[r0[n0 n1] r1[n2 n3] r2[n4 n5]]", node="gpu=4"), *self.gangs))


@st.composite
def busy_clusters(draws: st.DrawFn) -> Busy:
    """A gang of one or two pods in each rack, some of them bound to a rack."""
    gangs = []
    for number, nodes in enumerate((("n0", "n1"), ("n2", "n3"), ("n4", "n5"))):
        on = draws(st.sampled_from([nodes[:1], nodes, nodes[1:]]))
        each, within = draws(st.integers(1, 2)), draws(st.sampled_from([1, 2]))
        least = draws(st.integers(1, len(on)))
        name, where = f"g{number}", " ".join(on)
        gangs.append(gang(name, tasks=len(on), each=f"gpu={each}", within=within, minimum=least, on=where))
    for number in range(draws(st.sampled_from([0, 3]))):
        where = f"n{2 * number + draws(st.integers(0, 1))}"
        gangs.append(gang(f"h{number}", tasks=1, each="gpu=1", within=2, minimum=1, on=where))
    return Busy(tuple(gangs))


class KilledError(Exception):
    """The executor's process has ended."""


class Fault(msgspec.Struct, frozen=True):
    """What goes wrong, and at which call or step."""

    kind: str
    at: int
    pick: int = 0


KINDS = ("killed before", "killed after", "refused", "refused for good", "conflict", "rival", "foreign", "node", "stop")


@st.composite
def faults(draws: st.DrawFn) -> tuple[Fault, ...]:
    """Up to two things that go wrong."""
    one = st.builds(Fault, st.sampled_from(KINDS), st.integers(0, 7), st.integers(0, 3))
    return tuple(draws(st.lists(one, min_size=1, max_size=2)))


class Troubled:
    """A cluster as the executor reaches it: calls fail at their numbers."""

    def __init__(self, cluster: Port, wrong: Sequence[Fault]) -> None:
        self._cluster = cluster
        self._wrong = wrong
        self.calls = 0

    def read(self) -> Objects:
        return self._cluster.read()

    def wait(self, since: Version, timeout: float) -> Version:
        return self._cluster.wait(since, timeout)

    def apply(self, effects: Sequence[Effect]) -> Sequence[Outcome]:
        if not effects:
            return []
        number, self.calls = self.calls, self.calls + 1
        present = {fault.kind: fault for fault in self._wrong if fault.at == number}
        if "killed before" in present:
            raise KilledError
        outcomes = [self._one(effect, i, number, present) for i, effect in enumerate(effects)]
        if "killed after" in present:
            raise KilledError
        return outcomes

    def tell(self, effects: Sequence[PatchStatus | RecordEvent], by: str = "") -> None:
        self.apply(effects)

    def begin(self, effects: Sequence[Effect]) -> Begun:
        return Ended(self.apply(effects))

    def begin_in_order(self, effects: Sequence[Effect]) -> Begun:
        return Ended(self.apply(effects))

    def _one(self, effect: Effect, i: int, number: int, present: dict[str, Fault]) -> Outcome:
        if isinstance(effect, Evict):
            for fault in self._wrong:
                for_good = fault.kind == "refused for good" and number >= fault.at and fault.pick in (i, 3)
                if for_good or (fault.kind == "refused" and fault.at == number and fault.pick in (i, 3)):
                    return Outcome(effect, ok=False, error="a disruption budget refuses it")
        if isinstance(effect, Prepare) and "conflict" in present:
            return Outcome(effect, ok=False, error="the object has been modified")
        (outcome,) = self._cluster.apply([effect])
        return outcome


class Run:
    """An execution with faults, and what must hold all the time."""

    def __init__(self, cluster: Busy, wrong: Sequence[Fault]) -> None:
        self._wrong = wrong
        self._lost: set[str] = set()  # nodes
        self._stop = False
        self.rehearsal = Rehearsal(cluster.objects(), DEFAULT, NOW, between=lambda inner: Troubled(inner, wrong))
        self._minimum = {f"default/{g.name}": g.minimum or g.tasks for g in cluster.gangs}
        self._room = cluster.text

    def go(self, *, resumed: bool) -> DefragRecord | None:
        """Until it is over, or nobody goes on with it."""
        try:
            record, _ = self.rehearsal.begin(self._room, step_seconds=STEP)
        except (KilledError, InputError):
            return None
        for number in range(200):
            if record.over:
                return record
            self._befall(number, record)
            try:
                record = self.rehearsal.step(stopping=self._stop) or record
            except KilledError:
                if not resumed:
                    return None
                record = self._take_over() or record
        raise AssertionError(f"it does not end: {record}")

    def _take_over(self) -> DefragRecord | None:
        self.rehearsal.executor = self.rehearsal.another("another")
        for _ in range(5):
            try:
                return self.rehearsal.executor.take_over()
            except KilledError:
                continue
            except InputError:  # it was over, or somebody was faster
                return self.rehearsal.executor.record()
        return None

    def _befall(self, number: int, record: DefragRecord) -> None:
        """What comes from outside, between two steps."""
        cluster = self.rehearsal.cluster
        targets = sorted({pod.target for move in record.moves[:1] for pod in move.pods.values()})
        for fault in self._wrong:
            if fault.at != number:
                continue
            node = targets[fault.pick % len(targets)] if targets else ""
            if fault.kind == "stop":
                self._stop = True
            elif fault.kind == "rival":
                hungry = (_pod(f"rival-{number}-{i}", "", 1) for i in range(24))  # as many as there are GPUs
                cluster.apply([Create(raw) for raw in hungry])
            elif fault.kind == "foreign" and node and self._free(node) >= 1:
                cluster.apply([Create(_pod(f"foreign-{number}", node, 1))])
            elif fault.kind == "node" and node:
                self._lost.add(node)
                key = Key("", "Node", "", node)
                raw = cluster.read().raw(key)
                assert raw is not None
                cluster.apply([Update(key, merged(raw, {"spec": {"unschedulable": True}}))])

    def _free(self, node: str) -> int:
        objects = self.rehearsal.cluster.read()
        has = int(objects.every(Node)[node].status.allocatable["nvidia.com/gpu"])
        return has - sum(_gpus(pod) for pod in objects.every(Pod).values() if pod.spec.node_name == node)

    def rest(self, hours: float) -> None:
        """Time passes without an executor."""
        end = self.rehearsal.now + hours * 3600
        while self.rehearsal.now < end:
            self.rehearsal.simulation.advance(self.rehearsal.now)
            following = self.rehearsal.simulation.following(self.rehearsal.now)
            self.rehearsal.now = min(end, max(following or end, self.rehearsal.now + 60.0))
        self.rehearsal.simulation.advance(self.rehearsal.now)

    def stranded(self) -> list[str]:
        """Gangs below their minimum, or wider than they may be."""
        objects = self.rehearsal.cluster.read()
        found = [finding.subject for finding in audit(objects) if finding.rule in ("too-wide", "oversubscribed")]
        for path, minimum in self._minimum.items():
            own = [pod for name, pod in objects.every(Pod).items() if name.rpartition("-")[0] == path]
            if sum(pod.status.phase == "Running" for pod in own) < minimum:
                found.append(path)
        return found


def _gpus(pod: Pod) -> int:
    return sum(int(str(c.resources.requests.get("nvidia.com/gpu", "0"))) for c in pod.spec.containers)


def _pod(name: str, node: str, gpus: int) -> dict[str, object]:
    """A pod that nobody planned for: of another scheduler where it has a node already, else a more important one."""
    spec: dict[str, object] = {
        "schedulerName": "other" if node else "volcano",
        "priority": 1000,
        "containers": [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "rivals", "uid": f"uid-{name}"},
        "spec": spec | ({"nodeName": node} if node else {}),
    }


@given(cluster=busy_clusters())
@settings(max_examples=size(4, 300))
def test_what_is_planned_is_done(cluster: Busy) -> None:
    """Undisturbed, an execution ends with the room wherever there is a plan, and with every gang whole."""
    run = Run(cluster, ())
    record = run.go(resumed=True)
    plan = defrag(prepared(cluster.objects(), DEFAULT, NOW), cluster.text)

    assert record is not None
    assert plan.possible == (record.phase is MovePhase.DONE)
    assert [] == run.stranded()
    assert defrag(prepared(run.rehearsal.cluster.read(), DEFAULT, NOW), cluster.text).fits == plan.possible


@given(cluster=busy_clusters(), wrong=faults())
@settings(max_examples=size(10, 1000))
def test_no_gang_is_stranded(cluster: Busy, wrong: tuple[Fault, ...]) -> None:
    """Whatever fails, and whoever goes on with it, every gang has its minimum in the end, in its domain."""
    run = Run(cluster, wrong)
    run.go(resumed=True)
    run.rest(0.5)

    assert [] == run.stranded()


@given(cluster=busy_clusters(), wrong=faults())
@settings(max_examples=size(6, 600))
def test_a_process_that_is_gone_strands_nobody(cluster: Busy, wrong: tuple[Fault, ...]) -> None:
    """Where nobody goes on with an execution, the gang in hand still comes to its place."""
    run = Run(cluster, wrong)
    run.go(resumed=False)
    run.rest(3.0)

    assert [] == run.stranded()

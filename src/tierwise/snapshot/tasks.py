"""The pods of a cluster as tasks, kept by the groups that they name. Pods come and go one by one.

What a task is depends on more than its pod: on the numbers of nodes, the axis of resources, priorities. Where one of
them changes, tasks are read again; the groups that a pod names follow from it alone, and stay. A node keeps its number
for as long as it is there, whatever its row is: where others join and leave, no task changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from operator import attrgetter
from zlib import crc32

import msgspec
import numpy as np
from msgspec.structs import astuple, replace

from tierwise.api.core import Pod, parse_time
from tierwise.api.elastic_quota import DISABLE_PREEMPTIBLE, PREEMPTIBLE
from tierwise.api.eviction_terms import (
    CHECKPOINTED_AT,
    EXPECTED_DURATION,
    ended_at,
    expected_seconds,
    status_time,
    told_times,
)
from tierwise.api.natural import natural, natural_order
from tierwise.api.unsupported import unsupported
from tierwise.config.profile import Profile
from tierwise.dialects.elastic_quota import OWNER, shielded
from tierwise.dialects.jobs import Member
from tierwise.dialects.koordinator.gangs import SELECTOR
from tierwise.dialects.kubernetes.volumes import ReadVolumes
from tierwise.dialects.language import marks_of
from tierwise.dialects.languages import Name, names, plain
from tierwise.dialects.network_aware.services import GROUP_LABEL, Homes
from tierwise.dialects.pod_marks import PARTS, PLACES, PREEMPTABLE, index_of, not_preemptable, part_of, role_of
from tierwise.model.arrays import Axis, Ints
from tierwise.model.job import Shape, Status, Task
from tierwise.model.snapshot import Fault
from tierwise.snapshot.budgets import Covering
from tierwise.snapshot.derive import Derived, Graph, Index
from tierwise.snapshot.devices import Asked, ReadDevices
from tierwise.snapshot.pods import FollowedPods
from tierwise.snapshot.shapes import Priorities, ReadBy, Shapes
from tierwise.snapshot.templates import Common, Template, has_node_rules
from tierwise.snapshot.volumes import ReadVolumesOfPods

__all__ = ["Cohort", "TaskInputs", "TaskStore", "Tasks"]

_ORDER, _NODE, _SHAPE = map(attrgetter, ("order", "node", "shape"))
_TIMES_OF = attrgetter("started", "checkpointed", "noticed", "ended", "deleted")
_PARTS = 256
"""Into which pods without a group are dealt by name, so that a change of one looks at few."""

_MARKS = frozenset((OWNER, PREEMPTABLE, PREEMPTIBLE, DISABLE_PREEMPTIBLE, EXPECTED_DURATION))
"""The keys of what few pods say of themselves."""

_CRITICAL = ("system-cluster-critical", "system-node-critical")
_FEW = 8
"""Tasks that are counted one by one: arrays pay off for more."""

_PENDING = Status.PENDING
_GATED = Status.GATED
_RUNNING = Status.RUNNING
_RELEASING = Status.RELEASING
"""For what is asked of every pod: Python 3.11 takes ten times as long to find a member of an enumeration as a name."""

_HOLDING = (_RUNNING, _RELEASING)
_ENDED = {"Succeeded": Status.SUCCEEDED, "Failed": Status.FAILED}


class Cohort(msgspec.Struct, eq=False):
    """Pods that name the same groups; those of other schedulers stand apart."""

    ours: bool
    names: tuple[Name, ...]  # what they say that they belong to, in the order in which it counts
    part: int  # which share of those that name none, which may be very many; else 0
    members: dict[str, Member] = {}  # in natural order of their names
    version: int = 0  # grows with every change

    @property
    def order(self) -> tuple[object, ...]:
        """Its place among all of them, which does not depend on who came first."""
        return self.ours, self.names, self.part


class TaskStore:
    """Tasks by cohort, and what they hold together."""

    def __init__(
        self,
        by: ReadBy,
        profile: Profile,
        schedulers: frozenset[str],
        devices: Callable[[str], Asked],
        volumes: Callable[[str], ReadVolumes | None],
    ) -> None:
        self.shapes = Shapes(by, profile)
        self.used: Ints = np.zeros((len(by.axis), _width(by.nodes)), dtype=np.int64)  # (resources x numbers of nodes)
        self.releasing: set[str] = set()  # paths of pods that are terminating on their nodes
        self.attracting: dict[str, Pod] = {}  # pods that draw others towards them
        self.faults: dict[str, Fault] = {}
        self._nodes = by.nodes
        self._budgets = by.budgets
        self._schedulers = schedulers
        self._devices = devices  # what a pod asks of them, by its path
        self._volumes = volumes  # what was read of a pod's, by its path
        self._cohorts: dict[tuple[bool, tuple[Name, ...], int], Cohort] = {}
        self._naming: dict[Name, list[Cohort]] = {}  # by each group that they name
        self._cohort_of: dict[str, Cohort] = {}  # by path of the pod
        self._of_node = Index[int]()  # by number of a node, the pods that stand or are kept there
        self._astray: set[str] = set()  # paths of pods that name a node which does not exist
        self._unsorted: set[Cohort] = set()
        self._new: set[Cohort] = set()  # since the last flush: their members came in natural order
        self._touched: set[Cohort] = set()
        self._moved: set[Cohort] = set()
        self._came: list[Task] = []
        self._went: list[Task] = []

    def cohorts(self) -> Iterable[Cohort]:
        """Every cohort that has members."""
        return self._cohorts.values()

    def naming(self, name: Name) -> Sequence[Cohort]:
        """Those of them that name a group, whatever else they say of it."""
        return self._naming.get(plain(name), ())

    def first_pods(self, cohorts: Iterable[Cohort]) -> dict[Name, Pod | None]:
        """First pod of each group that the cohorts' pods name; pods of our schedulers come first. None without pods."""
        pod_by_name: dict[Name, Pod | None] = {}
        for name in {name: None for cohort in cohorts for name in cohort.names}:
            calling = [cohort for cohort in self.naming(name) if name in cohort.names]
            first_member = max(calling, key=_ORDER, default=None)
            pod_by_name[name] = next(iter(first_member.members.values())).pod if first_member is not None else None
        return pod_by_name

    def touched(self) -> tuple[set[Cohort], set[Cohort]]:
        """The cohorts that have come, gone or changed since this was last asked.

        Apart from them those whose pods have come to other nodes or states and are otherwise what they were.
        """
        touched = self._touched
        moved = self._moved - self._touched
        self._touched, self._moved = set(), set()
        return touched, moved

    def follow(
        self,
        pods: Mapping[str, tuple[Pod, Template]],
        moved: Mapping[str, Pod],
        placed: Mapping[str, Template],
        changed: Set[str],
    ) -> None:
        """Bring tasks to where their pods are, and read those of other pods."""
        unknown = [path for path in moved if path not in self._cohort_of]  # who left without ever having had a node
        paths_again = {*changed, *unknown}
        if not paths_again.isdisjoint(moved):
            moved = {path: pod for path, pod in moved.items() if path not in paths_again}
            placed = {path: template for path, template in placed.items() if path not in paths_again}
        self.move(moved, placed)
        paths = [*paths_again]
        for position in natural_order(paths):  # so that shapes are numbered in an order that objects decide
            path = paths[position]
            if path in pods:
                self.put(path, *pods[path])
            else:
                self.drop(path)
        self.flush()

    def move(self, pods: Mapping[str, Pod], placed: Mapping[str, Template], *, renumbered: bool = False) -> None:
        """Pods that are here may have come to another node or state, and are otherwise what they were.

        Of those that have got a node, the templates that they follow since. Where nodes are `renumbered`, the node of a
        pod may be another under the same name.
        """
        self._settle(pods, placed)
        cohort_of = self._cohort_of
        astray = self._astray
        attracting = self.attracting
        moved = set[Cohort]()
        came = self._came
        went = self._went
        for path, pod in pods.items():
            cohort = cohort_of[path]
            member = cohort.members[path]
            before = member.task
            previous_pod = member.pod
            status, times = _state(pod, before.created)
            if status is None:
                self.drop(path)
                continue
            node = before.node
            nominated = before.nominated
            if (
                renumbered
                or pod.spec.node_name != previous_pod.spec.node_name
                or pod.status.nominated_node_name != previous_pod.status.nominated_node_name
                or path in astray
            ):
                node, nominated = self._place(path, pod, status)
            started, checkpointed, noticed, ended, deleted = times
            task = before
            if (  # or it is as it was: kubelets write much else into a status
                status is not before.status
                or node != before.node
                or nominated != before.nominated
                or times != _TIMES_OF(before)
            ):
                task = replace(
                    before,
                    status=status,
                    node=node,
                    nominated=nominated,
                    started=started,
                    checkpointed=checkpointed,
                    noticed=noticed,
                    ended=ended,
                    deleted=deleted,
                )
                moved.add(cohort)
                if node != before.node or nominated != before.nominated:
                    self._of_node.put(path, _nodes_of(task))
                if status is _RELEASING:
                    self.releasing.add(path)
                elif before.status is _RELEASING:
                    self.releasing.discard(path)
                went.append(before)
                came.append(task)
            if task is not before or path in astray:  # which may name another node that does not exist
                cohort.members[path] = Member(pod, task)
                if path in attracting:
                    attracting[path] = pod
        for cohort in moved:
            self._reshaped(cohort)

    def _settle(self, pods: Mapping[str, Pod], placed: Mapping[str, Template]) -> None:
        """Read pods that have got a node without their rules about nodes."""
        for path in sorted(placed, key=natural):  # so that shapes are numbered in an order that objects decide
            cohort = self._cohort_of[path]
            spec = pods[path].spec
            before = cohort.members[path].pod
            task = cohort.members[path].task
            settled = replace(
                task,
                shape=self.shapes.place(task.shape, placed[path]),
                tolerations=spec.tolerations,
                node_rules=has_node_rules(spec),
                unsupported="",
            )
            cohort.members[path] = Member(before, settled)
            self._reshaped(cohort)

    def put(self, path: str, pod: Pod, template: Template) -> None:
        """A pod comes, or has become another."""
        before = self._cohort_of.get(path)
        if before is not None:
            self._let_go(path, before)
        marks = marks_of(pod)
        task = self._task(path, pod, template, marks)
        if task is None:
            self._remove(path)
            return
        home = self._cohort_for(path, pod, marks)
        if home is not before:
            if before is not None:
                self._remove(path)
            self._cohort_of[path] = home
            if home not in self._new:
                self._unsorted.add(home)
        home.members[path] = Member(pod, task)
        if task.status is _RELEASING:
            self.releasing.add(path)
        self._touch(home)
        self._of_node.put(path, _nodes_of(task))
        self._came.append(task)
        if SELECTOR in marks and pod.metadata.annotations.get(SELECTOR):
            self.attracting[path] = pod

    def drop(self, path: str) -> None:
        """A pod is gone."""
        before = self._cohort_of.get(path)
        if before is not None:
            self._let_go(path, before)
            self._remove(path)

    def follow_nodes(self, nodes: Mapping[str, int]) -> None:
        """Nodes have come or gone, others keep their numbers: tasks that name one of them become others."""
        gone = [self._nodes[name] for name in self._nodes.keys() - nodes.keys()]
        self._nodes = nodes
        self.used = np.pad(self.used, ((0, 0), (0, max(0, _width(nodes) - self.used.shape[1]))))
        concerned = self._astray.union(*(self._of_node[number] for number in gone))
        self.move({path: self._cohort_of[path].members[path].pod for path in sorted(concerned)}, {}, renumbered=True)

    def cover(self, covering: Covering) -> None:
        """Some pods may be covered by other budgets: tasks of which that is so become others."""
        self._budgets = covering
        for path in covering.changed & self._cohort_of.keys():
            cohort = self._cohort_of[path]
            member = cohort.members[path]
            budgets = covering.of(path)
            if budgets != member.task.budgets:
                cohort.members[path] = Member(member.pod, replace(member.task, budgets=budgets))
                self._touch(cohort)

    def resize(self, by: ReadBy) -> None:
        """There are other resources or ports, or other limits of them: all shapes become others, and nothing else."""
        axis = by.axis
        was = self.shapes.axis
        before = _requests(self.shapes)
        self.shapes.resize(by)
        shapes = self.shapes.all()
        requests = _requests(self.shapes)
        kept_columns = [(r, was.index[name]) for name, r in axis.index.items() if name in was.index]
        used = np.zeros((len(axis), self.used.shape[1]), dtype=np.int64)
        aligned = np.zeros_like(requests)
        for r, old in kept_columns:
            used[r], aligned[r] = self.used[old], before[old]
        self.used = used
        added_requests = requests - aligned
        ask_otherwise = {*np.flatnonzero(added_requests.any(axis=0)).tolist()}
        for cohort in self._cohorts.values():
            cohort.members = {
                path: Member(member.pod, replace(member.task, shape=shapes[member.task.shape.number]))
                for path, member in cohort.members.items()
            }
            self._reshaped(cohort)
        if ask_otherwise:
            tasks = (member.task for cohort in self._cohorts.values() for member in cohort.members.values())
            tasks_held = [task for task in tasks if task.shape.number in ask_otherwise and _holds(task)]
            np.add.at(
                used.T, [task.node for task in tasks_held], added_requests.T[[task.shape.number for task in tasks_held]]
            )

    def relabel(self, keys: Set[str]) -> None:
        """Selectors look at labels of these keys now, or no longer: pods that have one get another shape."""
        shape_by_kind: dict[tuple[int, tuple[str | None, ...]], Shape] = {}  # by the shape before, and labels
        for cohort in self._cohorts.values():
            reshaped = {}
            for path, member in cohort.members.items():
                labels = member.pod.metadata.labels
                task = member.task
                if keys.isdisjoint(labels):
                    continue
                kind = task.shape.number, tuple([labels.get(key) for key in keys])
                if kind in shape_by_kind:
                    shape = self.shapes.join_known(shape_by_kind[kind])
                else:
                    shape = shape_by_kind[kind] = self.shapes.relabel(task.shape, labels)
                self.shapes.leave(task.shape)
                reshaped[path] = Member(member.pod, replace(task, shape=shape))
            if reshaped:
                cohort.members.update(reshaped)
                self._reshaped(cohort)

    def _reshaped(self, cohort: Cohort) -> None:
        """Its pods are told from others in another way, or ask for the same in other columns."""
        cohort.version += 1
        self._moved.add(cohort)

    def flush(self) -> None:
        """After changes: members stand in natural order again, and what they hold is counted."""
        for cohort in self._unsorted:
            cohort.members = {path: cohort.members[path] for path in sorted(cohort.members, key=natural)}
        self._unsorted.clear()
        self._new.clear()
        self._count(self._came, 1)
        self._count(self._went, -1)
        self._came = []
        self._went = []

    def _count(self, tasks: Iterable[Task], sign: int) -> None:
        tasks_held = [task for task in tasks if task.node >= 0 and task.status in _HOLDING]
        if len(tasks_held) <= _FEW:
            for task in tasks_held:
                self.used[:, task.node] += sign * task.shape.request
        else:
            nodes = np.fromiter(map(_NODE, tasks_held), np.int64, len(tasks_held))
            # By identity: two shapes may have had one number since the last count.
            ids = np.fromiter(map(id, map(_SHAPE, tasks_held)), np.int64, len(tasks_held))
            _, indexes, which = np.unique(ids, return_index=True, return_inverse=True)
            requests = np.stack([tasks_held[i].shape.request for i in indexes.tolist()], axis=1)
            for r in np.flatnonzero(requests.any(axis=1)).tolist():
                np.add.at(self.used[r], nodes, sign * requests[r, which])

    def _cohort_for(self, path: str, pod: Pod, marks: Set[str]) -> Cohort:
        named = names(pod, marks)
        part = 0 if named else crc32(path.encode()) % _PARTS
        key = (pod.spec.scheduler_name in self._schedulers, named, part)
        cohort = self._cohorts.get(key)
        if cohort is None:
            cohort = self._cohorts[key] = Cohort(*key)
            self._new.add(cohort)
            for name in named:
                self._naming.setdefault(plain(name), []).append(cohort)
        return cohort

    def _touch(self, cohort: Cohort) -> None:
        cohort.version += 1
        self._touched.add(cohort)

    def _let_go(self, path: str, cohort: Cohort) -> None:
        """Take a pod out of the store's books: its shape, its node, what it attracts, its faults.

        Its entry in the cohort stays until the place is refilled. Returns nothing.
        """
        task = cohort.members[path].task
        self.shapes.leave(task.shape)
        self._of_node.put(path, ())
        self._went.append(task)
        self.releasing.discard(path)
        self.attracting.pop(path, None)
        self.faults.pop(path, None)
        self._astray.discard(path)

    def _remove(self, path: str) -> None:
        cohort = self._cohort_of.pop(path, None)
        if cohort is not None:
            del cohort.members[path]
            self._touch(cohort)
            if not cohort.members:
                del self._cohorts[cohort.ours, cohort.names, cohort.part]
                self._unsorted.discard(cohort)
                for name in map(plain, cohort.names):
                    self._naming[name].remove(cohort)
                    if not self._naming[name]:
                        del self._naming[name]

    def _task(self, path: str, pod: Pod, template: Template, marks: Set[str]) -> Task | None:
        meta = pod.metadata
        spec = pod.spec
        created = parse_time(meta.creation_timestamp) if meta.creation_timestamp else 0.0
        status, (started, checkpointed, noticed, ended, deleted) = _state(pod, created)
        if status is None:
            return None
        node, nominated = self._place(path, pod, status)
        part = part_of(pod) if not PARTS.isdisjoint(marks) else ""
        refused = unsupported(pod) if not spec.node_name else None
        devices = self._devices(path)
        volumes = self._volumes(path)
        placed = not PLACES.isdisjoint(marks)
        marked = not _MARKS.isdisjoint(marks)
        owners = meta.owner_references
        return Task(
            key=f"{meta.namespace or 'default'}/{meta.name}",
            shape=self.shapes.join(pod, template, devices, volumes),
            role=role_of(pod) if placed else "",
            status=status,
            node=node,
            nominated=nominated,
            created=created,
            index=index_of(pod) if placed else None,
            owner=meta.labels.get(OWNER, "") if marked else "",
            not_preemptable=marked and (not_preemptable(meta) or shielded(meta)),
            critical=meta.namespace == "kube-system" or spec.priority_class_name in _CRITICAL,
            budgets=self._budgets.of(path),
            unsupported=str(refused) if refused is not None else "",
            uid=meta.uid if devices.key else "",
            claims=devices.claims,
            unready=devices.waits,
            volume_claims=volumes.claims if volumes is not None else (),
            volume_names=volumes.names if volumes is not None else (),
            started=started,
            checkpointed=checkpointed,
            noticed=noticed,
            ended=ended,
            active_deadline=float(max(spec.active_deadline_seconds, 0)) if spec.active_deadline_seconds else 0.0,
            expected=expected_seconds(pod) if marked else 0.0,
            deleted=deleted,
            tolerations=spec.tolerations if spec.node_name else (),
            node_rules=bool(spec.node_name) and has_node_rules(spec),
            unowned=not (owners and (owners[0].controller or any(owner.controller for owner in owners))),
            part=part,
        )

    def _place(self, path: str, pod: Pod, status: Status) -> tuple[int, int]:
        """The numbers of the node that it is on and of the one that is kept for it; -1 for none."""
        name = pod.spec.node_name
        nominated_node = pod.status.nominated_node_name
        node = self._nodes.get(name, -1) if name else -1
        nominated = self._nodes.get(nominated_node, -1) if nominated_node else -1
        if path in self._astray:
            self._astray.discard(path)
            self.faults.pop(path, None)
        if (name and node < 0) or (nominated_node and nominated < 0):
            self._astray.add(path)
            if node < 0 and name and status in _HOLDING:
                text = f"is bound to node {name}, which does not exist"
                key = f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"
                self.faults[path] = Fault(f"Pod {key}", "UnknownNode", text)
        return node, nominated


class TaskInputs(msgspec.Struct, frozen=True):
    """Pods, and the other inputs that tasks are made from."""

    pods: Derived[FollowedPods]
    volumes: Derived[ReadVolumesOfPods]
    devices: Derived[ReadDevices]
    common: Derived[Common]
    axis: Derived[Axis]
    most: Derived[tuple[int, ...]]
    nodes: Derived[Mapping[str, int]]
    budgets: Derived[Covering]
    namespaces: Derived[dict[str, dict[str, str]]]
    apps: Derived[dict[str, Homes]]
    priorities: Derived[Priorities]
    firmness: Derived[bool]


class Tasks(Derived[TaskStore]):
    """The tasks of all pods.

    They are read by much that is the same for all of them. Where that is another, a patch makes what is here into what
    reading it again would give; for priorities that pods name and for the first quota there is none, and all are read.
    """

    def __init__(self, graph: Graph, by: TaskInputs, schedulers: frozenset[str], profile: Profile) -> None:
        super().__init__(graph, astuple(by))
        self._by = by
        self._schedulers = schedulers
        self._profile = profile
        self._last: tuple[Common, Priorities, Mapping[str, dict[str, str]], Mapping[str, Homes]]
        self.began = self.resized = -1  # the readings at which all were read, and at which all got other amounts

    def make(self, reading: int) -> None:
        followed = self._by.pods.value
        common = self._by.common.value
        apps = self._by.apps.value
        pods = followed.of.pods
        moved = followed.moved
        placed = followed.placed
        changed = followed.changed
        if not self._by.pods.changed:
            moved = {}
            placed = {}
            changed = set()
        changed = changed | (self._by.volumes.value.changed & pods.keys() if self._by.volumes.changed else set())
        changed |= self._by.devices.value.asking if self._by.devices.changed else set()
        if self.at < 0 or self._by.firmness.changed or self._others():
            self.began = reading
            of_devices = self._by.devices.value.of.of
            of_volumes = self._by.volumes.value.of.of
            self.value = TaskStore(self._read_by(), self._profile, self._schedulers, of_devices, of_volumes)
            moved = {}
            placed = {}
            changed = {*pods}
        else:
            changed = self._patch(reading, pods, changed)
        self._last = common, self._by.priorities.value, self._by.namespaces.value, apps
        self.value.follow(pods, moved, placed, changed)
        self.at = reading

    def _others(self) -> bool:
        """Whether classes mean something else for a pod that names one of them."""
        if not self._by.priorities.changed:
            return False
        now = self._by.priorities.value
        before = self._last[1]
        return any(now.meant(name) != before.meant(name) for name in ("", *self._by.common.value.class_names))

    def _patch(self, reading: int, pods: Mapping[str, tuple[Pod, Template]], changed: set[str]) -> set[str]:
        """Bring what is here to what all are read by now; the pods that are to be read again."""
        by = self._by
        store = self.value
        now = self._read_by()
        resized = by.axis.changed or by.most.changed  # host ports are on the axis
        keys = {*now.common.watched} ^ {*self._last[0].watched}
        changed = changed | self._concerned(pods)
        if resized or keys or by.namespaces.changed or by.apps.changed or by.devices.changed:
            for path in changed:  # before others get other shapes: what it was may have no column any more
                store.drop(path)
            store.flush()
        if resized:
            store.resize(now)
            self.resized = reading
        if any(facts.changed for facts in (by.common, by.priorities, by.namespaces, by.apps)):
            store.shapes.adapt(now)
        if by.nodes.changed:
            store.follow_nodes(now.nodes)
        if by.budgets.changed:
            store.cover(now.budgets)
        if keys:
            store.relabel(keys)
        return changed

    def _concerned(self, pods: Mapping[str, tuple[Pod, Template]]) -> set[str]:
        """The pods that are others because of what their namespace says now, or where their application is at home."""
        if not self._by.namespaces.changed and not self._by.apps.changed:
            return set()
        namespaces = _differing(self._last[2], self._by.namespaces.value)
        apps = _differing(self._last[3], self._by.apps.value)
        paths = set()
        for path, (pod, _) in pods.items():
            meta = pod.metadata
            if meta.labels.get(GROUP_LABEL) in apps or (namespaces and (meta.namespace or "default") in namespaces):
                paths.add(path)
        return paths

    def _read_by(self) -> ReadBy:
        values = {name: getattr(self._by, name).value for name in ReadBy.__struct_fields__}
        return ReadBy(**{**values, "most": np.array(values["most"], dtype=np.int64)})


def _differing(before: Mapping[str, object], now: Mapping[str, object]) -> set[str]:
    return {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}


def _holds(task: Task) -> bool:
    """Whether it takes up resources of a node."""
    return task.node >= 0 and task.status in _HOLDING


def _requests(shapes: Shapes) -> Ints:
    """Requests of each shape, (resources x shapes)."""
    vectors = [shape.request for shape in shapes.all()]
    if vectors:
        return np.stack(vectors, axis=1)
    return np.zeros((len(shapes.axis), 0), dtype=np.int64)


def _width(nodes: Mapping[str, int]) -> int:
    """How many numbers of nodes there are."""
    return max(nodes.values(), default=-1) + 1


def _nodes_of(task: Task) -> tuple[int, ...]:
    """The numbers of the nodes that a task is on or that are kept for it."""
    if task.nominated < 0 or task.nominated == task.node:
        return (task.node,) if task.node >= 0 else ()
    if task.node >= 0:
        return (task.node, task.nominated)
    return (task.nominated,)


_Times = tuple[float, float, float, float, float]
_NO_TIMES: _Times = (0.0, 0.0, 0.0, 0.0, 0.0)
_GRACE = 30
"""Seconds that a pod gets to terminate where it names no other time."""


def _state(pod: Pod, created: float) -> tuple[Status | None, _Times]:
    """The status of a pod, None for one that is leaving without ever having had a node; and of one with a node times.

    Since when it runs, when it last saved its work and was given notice, when it ended and was deleted.
    """
    status = pod.status
    meta = pod.metadata
    spec = pod.spec
    end = _ENDED.get(status.phase)
    if not spec.node_name:
        if end is not None or meta.deletion_timestamp:
            return end, _NO_TIMES
        return _GATED if spec.scheduling_gates else _PENDING, _NO_TIMES
    started = status_time(status.start_time) if status.start_time else 0.0
    checkpointed = noticed = ended = deleted = 0.0
    if status.conditions or CHECKPOINTED_AT in meta.annotations:
        checkpointed, noticed = told_times(pod)
    if end is not None and status.container_statuses:
        ended = ended_at(pod)
    if meta.deletion_timestamp:
        deleted = _deleted_at(pod)
    holds = _RELEASING if meta.deletion_timestamp else _RUNNING
    return end or holds, (started or created, checkpointed, noticed, ended, deleted)


def _deleted_at(pod: Pod) -> float:
    """When the deletion of a pod was asked for: its time is that at which its grace period ends."""
    grace = pod.spec.termination_grace_period_seconds
    return parse_time(pod.metadata.deletion_timestamp) - (_GRACE if grace is None else max(grace, 0))

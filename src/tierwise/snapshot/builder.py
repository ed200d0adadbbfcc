"""Builds the snapshot of one cycle from objects; their order does not matter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.api.core import (
    ConfigMap,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    ResourceQuota,
)
from tierwise.api.elastic_quota import ElasticQuota
from tierwise.api.kai import Queue as KaiQueue
from tierwise.api.natural import natural
from tierwise.api.network_aware import AppGroup, KepAppGroup, KepNetworkTopology, NetworkTopology
from tierwise.api.nvidia import ComputeDomain
from tierwise.api.pattern import COORDINATES, RANK, RANKS
from tierwise.api.volcano import Job as VolcanoJob
from tierwise.api.volcano import PodGroup, Queue
from tierwise.config.actions import EVICTING_BY_POD
from tierwise.config.profile import DEFAULT, Profile
from tierwise.config.reservations import reservation_rules
from tierwise.dialects.jobs import JobBuilder
from tierwise.dialects.kai.pod_group import inherited_run_times
from tierwise.dialects.kai.pod_group import read_queue as read_kai_queue
from tierwise.dialects.koordinator.elastic_quota import Quotas, firm
from tierwise.dialects.koordinator.gangs import drawn_to, gang_rules
from tierwise.dialects.kubernetes.compute_domains import domains
from tierwise.dialects.kubernetes.requests import FIRM_PREFIX, counted, firm_request
from tierwise.dialects.languages import TREE_ALIASES_READ, VOLCANO, GroupReader, tree_aliases
from tierwise.dialects.network_aware.services import (
    GROUP_LABEL,
    Homes,
    app_groups,
    group_homes,
    network_topologies,
    services,
)
from tierwise.dialects.volcano.pod_group import read_queue
from tierwise.model.arrays import Ints
from tierwise.model.finished_run import FinishedRun
from tierwise.model.held import ColumnCache, KeptColumns
from tierwise.model.node import NodeTable
from tierwise.model.queue import Queue as ModelQueue
from tierwise.model.resources import CPU, MEMORY, MOST, POD_SLOTS, UNOFFERED, Axis, beyond, ceiling
from tierwise.model.services import Services
from tierwise.model.snapshot import Fault, KeptVerdicts, Snapshot
from tierwise.model.volumes import ATTACH_PREFIX
from tierwise.port import HYPERNODE_ANNOTATION, PATH_ANNOTATION, Objects
from tierwise.snapshot.budgets import Budgets
from tierwise.snapshot.devices import DeviceReader
from tierwise.snapshot.held_places import read_held_places
from tierwise.snapshot.jobs import JobCache
from tierwise.snapshot.nodes import NodeIndex, node_table, read_nodes, renewed
from tierwise.snapshot.quotas import left_by_namespace
from tierwise.snapshot.run_history import history_key, read_history
from tierwise.snapshot.shapes import Priorities, Shapes
from tierwise.snapshot.tasks import TaskStore
from tierwise.snapshot.templates import Common, Template, Templates
from tierwise.snapshot.volumes import VolumeFollower

__all__ = ["SCHEDULER_NAMES", "Reader", "build"]


# Snapshots of a cluster one after another: what has not changed since the last is taken over from it.
#
# A live cluster of tens of thousands of pods changes by a few of them between two cycles. Records are compared by
# identity, which informers keep for what they were told nothing about, and only what is another object is read anew:
# pods, the jobs that they belong to, nodes. The outcome is that of reading everything, but for the numbers of shapes,
# which depend on who came first and which no decision looks at.


_ALWAYS = frozenset({CPU, MEMORY, POD_SLOTS})
"""Resources that stand on every axis."""

"""Actions that evict nobody."""

SCHEDULER_NAMES = frozenset(
    {
        "",
        "tierwise",
        "volcano",
        "koord-scheduler",
        "network-aware-scheduler",
        "default-scheduler",
        "scheduler-plugins-scheduler",
        "kai-scheduler",
    }
)
"""Whose pods the embedded cluster serves; pods of other schedulers only take up room."""


class _Frame(msgspec.Struct, frozen=True):
    """What every task is read by.

    Where priority classes that pods name or the first quota change, all tasks are read anew; else those that a change
    concerns.
    """

    nodes: Mapping[str, int]
    resources: tuple[str, ...]
    most: tuple[int, ...]
    ports: frozenset[str]
    watched: tuple[str, ...]
    budgets: tuple[object, ...]
    quotas: tuple[object, ...]
    namespaces: Mapping[str, dict[str, str]]
    apps: Mapping[str, Homes]
    devices: tuple[object, ...]
    firmness: bool  # whether non-preemptible pods are counted apart


_SETTINGS = frozenset(
    (ElasticQuota, Queue, KaiQueue, PriorityClass, ComputeDomain, AppGroup, KepAppGroup, *TREE_ALIASES_READ)
)
"""The types of objects that settings are read from."""


_OFTEN = frozenset((Pod, PodGroup, VolcanoJob))
"""The types of objects that change all the time; nothing but tasks and jobs is read from them."""


_TOLD = frozenset((HYPERNODE_ANNOTATION, PATH_ANNOTATION, RANK, RANKS, COORDINATES))
"""What a bind writes on its pod."""


class _Settings(msgspec.Struct, frozen=True):
    """What follows from objects that seldom change: kept while those are the same."""

    quotas: Quotas
    queues: dict[str, ModelQueue]
    priorities: Priorities
    tree_aliases: dict[str, str]
    domains: dict[str, str]
    apps: dict[str, Homes]

    @classmethod
    def of(cls, objects: Objects, profile: Profile) -> _Settings:
        queues = objects.every(Queue)
        quotas = Quotas(objects.every(ElasticQuota), profile, queues)
        return cls(
            quotas=quotas,
            queues={**_queues(objects.every(KaiQueue), queues), **quotas.queues},
            priorities=Priorities(objects.every(PriorityClass)),
            tree_aliases=tree_aliases(objects),
            domains=domains(objects),
            apps=group_homes((*objects.every(AppGroup), *objects.every(KepAppGroup)), profile),
        )


class _Followed(msgspec.Struct):
    """What has become of pods since they were last read."""

    moved: dict[str, Pod]  # to another node or state alone, as most do all their life
    placed: dict[str, Template]  # those of them that have got a node, by the template that they follow since
    changed: set[str]  # all others, which are read anew


class Reader:
    """Reads one cluster again and again, for one profile.

    Pods of these schedulers are served; where none are given, those of the usual names and of the profile's.
    """

    def __init__(
        self, profile: Profile = DEFAULT, *, schedulers: frozenset[str] | None = None, follow: str = ""
    ) -> None:
        """Rows `follow` the tree of a kind where one is named."""
        self._profile = profile
        self._follow = follow
        self._rules = reservation_rules(profile)
        self._history: tuple[ConfigMap, tuple[FinishedRun, ...], tuple[Fault, ...]] | None = None
        self._schedulers = SCHEDULER_NAMES.union(profile.schedulers) if schedulers is None else schedulers
        self._conditions = profile.listed("repair", "conditions")  # that make a node unhealthy
        self._objects = Objects()
        self._last: Snapshot | None = None
        self._site: NodeIndex | None = None
        self._table: NodeTable | None = None
        self._plain_table: NodeTable | None = None  # without the columns that count devices
        self._services = Services()
        self._settings: _Settings
        self._groups = GroupReader(gang_rules(profile))
        self._templates = Templates()
        self._pods: dict[str, tuple[Pod, Template]] = {}
        self._firm = 0  # how many of them are non-preemptible
        self._crowd = 1  # more than there are pods; a power of two, so that it seldom changes
        self._tight = False  # whether so much is asked for that the amounts of nodes are bounded by the pods as well
        self._axis = Axis.of(())
        self._ceiling = 0  # what no amount of the table is more than
        self._limits: tuple[NodeTable, tuple[tuple[str, ...], int], tuple[int, ...]] | None = None
        self._frame: _Frame | None = None
        self._framed: tuple[Common, int, bool] | None = None  # what it was made for; true where `_plain`
        self._group_classes: dict[str, str] = {}  # the priority class that each pod group of Volcano's names, if any
        self._class_users: dict[str, int] = {}  # by such a class, how many of them name it
        self._columns = ColumnCache()
        self._verdicts = KeptVerdicts()
        self._volumes = VolumeFollower()
        self._devices = DeviceReader()
        self._store: TaskStore
        self._job_cache: JobCache

    def read(self, objects: Objects, now: float) -> Snapshot:
        """What one cycle sees; pods are told apart as far as the profile does."""
        if self._last is not None and objects is self._objects:
            return replace(self._last, now=now)
        differing = objects.differing_types(self._objects)
        last = self._last if differing <= _OFTEN else None  # where nodes, settings and services are those of then
        site = self._site if last is not None else None
        if site is None:
            site = read_nodes(objects, self._site, self._objects, follow=self._follow, conditions=self._conditions)
        if self._last is not None and site is self._site and differing <= {Node}:
            self._objects = objects
            return replace(self._last, now=now)
        pods = objects.every(Pod)
        latest = objects.latest(self._objects, Pod)
        followed = self._follow_pods(latest)
        followed.changed |= self._volumes.follow(objects, latest) & self._pods.keys()
        self._count_pods()
        for name in self._groups.follow_objects(objects):
            if name[0] == VOLCANO:
                group = self._groups.groups.get(name)
                self._name_class(name[1], group.priority_class if group is not None else "")
        if self._last is None or not differing.isdisjoint(_SETTINGS):
            self._settings = _Settings.of(objects, self._profile)
        settings, quotas = self._settings, self._settings.quotas
        budgets = Budgets(objects.every(PodDisruptionBudget), pods.values())
        framed = self._templates.common(), self._crowd, True
        if last is not None and self._framed == framed and self._plain(latest):
            axis, table = last.axis, last.nodes
            self._follow_tasks(followed)
        else:
            axis, table, asking = self._read_nodes(site, objects, quotas, latest)
            followed.changed |= asking
            self._finish(site, axis, table, followed, objects, quotas, budgets)
        if not self._countable():
            axis, table, _ = self._read_nodes(site, objects, quotas, {})
            self._finish(site, axis, table, _Followed({}, {}, set()), objects, quotas, budgets)
        store = self._store
        drawn = drawn_to(store.attracting.values(), table.row)
        found = self._job_cache.sort(JobBuilder(axis, quotas, settings.domains), store, self._groups, drawn)
        jobs, others = tuple(found.jobs), tuple(chain.from_iterable(found.others))
        if last is None:
            self._services = self._read_services(objects)
        held_places, unread = read_held_places(objects, axis, table, found.jobs)
        history, unreadable = self._read_history(objects)
        self._objects = objects
        used = store.used[:, table.number]
        self._last = Snapshot(
            axis=axis,
            nodes=table,
            topology=site.topology,
            kind=site.kind,
            alternate_topologies=site.alternate_topologies,
            tree_aliases=settings.tree_aliases,
            queues=self._with_durations(settings.queues),
            jobs=jobs,
            shapes=store.shapes.all(),
            others=others,
            kept_columns=KeptColumns(
                table, jobs, others, found.others, self._columns, used if not store.releasing else None
            ),
            kept_unsettled=tuple(found.unsettled),
            kept_verdicts=self._verdicts,
            orphans=found.orphans,
            forsaken=found.forsaken,
            faults=(
                *site.faults,
                *quotas.faults,
                *found.faults,
                *_in_order(store.faults),
                *self._unknown_classes(),
                *_crowded(table, axis, used),
                *unread,
                *unreadable,
            ),
            now=now,
            budgets=budgets.allowed,
            services=self._services,
            devices=self._devices.devices if self._devices else None,
            storage=self._volumes.storage,
            resource_quotas=left_by_namespace(objects.every(ResourceQuota).values(), pods.values(), axis),
            held_places=held_places,
            history=history,
            history_in=self._rules.history,
        )
        return self._last

    def _name_class(self, group: str, name: str) -> None:
        """Take note of the priority class that a pod group names now; "" for none."""
        before = self._group_classes.pop(group, "")
        if before:
            self._class_users[before] -= 1
            if not self._class_users[before]:
                del self._class_users[before]
        if name:
            self._group_classes[group] = name
            self._class_users[name] = self._class_users.get(name, 0) + 1

    def _read_history(self, objects: Objects) -> tuple[tuple[FinishedRun, ...], tuple[Fault, ...]]:
        """The record of runs that have ended, and what is wrong with it."""
        record = objects.record(history_key(self._rules.history)) if self._rules.history else None
        if not isinstance(record, ConfigMap):
            return (), ()
        if self._history is None or self._history[0] is not record:
            try:
                self._history = record, read_history(record), ()
            except ValueError as error:
                path = f"ConfigMap {record.metadata.namespace}/{record.metadata.name}"
                self._history = record, (), (Fault(path, "RunHistoryUnreadable", f"{error}; it is written anew"),)
        return self._history[1:]

    def _with_durations(self, queues: dict[str, ModelQueue]) -> dict[str, ModelQueue]:
        """The queues with what the profile says of how long their jobs run, where they do not say it themselves."""
        rules = self._rules
        if not rules.duration and not rules.by_queue:
            return queues
        return {
            name: queue if queue.expected_duration else replace(queue, expected_duration=rules.duration_of(name))
            for name, queue in queues.items()
        }

    def _follow_pods(self, latest: Mapping[str, Pod | None]) -> _Followed:
        """Take note of pods that have come, gone or become others."""
        found = _Followed({}, {}, set())
        concerned = self._devices.concerned
        for path, pod in latest.items():
            before = self._pods.get(path)
            if before is not None and pod is not None and path not in concerned and _alike(before[0], pod):
                template = before[1]
                if pod.spec.node_name and not before[0].spec.node_name:
                    template = found.placed[path] = self._templates.place(pod, template)
                self._pods[path] = pod, template
                found.moved[path] = pod
                continue
            found.changed.add(path)
            if before is not None:
                self._templates.leave(before[1])
                self._firm -= firm(before[0].metadata)
                del self._pods[path]
            if pod is not None:
                self._pods[path] = pod, self._templates.join(pod)
                self._firm += firm(pod.metadata)
        return found

    def _read_nodes(
        self, site: NodeIndex, objects: Objects, quotas: Quotas, pods: Mapping[str, Pod | None]
    ) -> tuple[Axis, NodeTable, set[str]]:
        """Nodes as a table, and the resources that a node has; all that pods ask for besides is one more.

        Given the pods that have changed, also those that ask something else of devices than before.
        """
        common = self._templates.common()
        asking = self._devices.read(objects, site.names, pods, common.resources, site.resources)
        of_devices = self._devices.names if self._devices else set()
        offered = site.resources | _ALWAYS | of_devices
        apart = firm_request(dict.fromkeys(common.resources & offered, 1)) if quotas and self._firm else {}
        names = site.resources | {*common.ports.names(), *apart, *of_devices} | self._volumes.columns()
        axis = Axis.of(names | {UNOFFERED})  # also while nobody asks for such: one more column costs less than a change
        # Powers of two, so that it seldom changes when nodes come and go.
        most = ceiling(1 << max(len(site.nodes), self._crowd if self._tight else 1).bit_length())
        plain = self._plain_table
        if plain is None or self._ceiling != most:
            plain = node_table(site, axis, most, self._conditions)
        elif site is not self._site:
            plain = renewed(plain, self._axis, site, axis, most, self._conditions)
        elif axis.names != self._axis.names:
            same = replace(site, former=np.arange(len(site.names)))
            plain = renewed(plain, self._axis, same, axis, most, self._conditions)
        if self._table is None or plain is not self._plain_table:
            self._table = self._plain_table = plain
        if of_devices and (self._table is plain or asking or self._devices.changed):
            self._table = self._with_devices(plain, axis)
        self._site, self._axis, self._ceiling = site, axis, most
        return axis, self._volumes.limit(self._table, axis, most), asking

    def _with_devices(self, table: NodeTable, axis: Axis) -> NodeTable:
        """The table with the columns that count devices."""
        amounts = table.allocatable.copy()
        native = {name: amounts[r] for name, r in axis.index.items()}
        for name, counts in self._devices.allocatable(native, len(table)).items():
            amounts[axis.index[name]] = counts
        return replace(table, allocatable=amounts)

    def _count_pods(self) -> None:
        """Follow their number in powers of two, upwards at once and downwards late: what is read depends on it."""
        crowd = 1 << len(self._pods).bit_length()
        if crowd > self._crowd or 4 * crowd < self._crowd:
            self._crowd, self._tight = crowd, False

    def _countable(self) -> bool:
        """Whether no sum over pods can be too large; where one could, nodes are bounded more tightly from here on.

        Only pods by the ten thousands that each ask for a whole node of a hundred terabytes come so far.
        """
        assert self._frame is not None
        frame = self._frame
        asked = [most for name, most in zip(frame.resources, frame.most, strict=True) if name != POD_SLOTS]
        if self._tight or max(asked) * self._crowd < MOST or self._store.shapes.countable():
            return True
        self._tight = True
        return False

    def _finish(
        self,
        site: NodeIndex,
        axis: Axis,
        table: NodeTable,
        followed: _Followed,
        objects: Objects,
        quotas: Quotas,
        budgets: Budgets,
    ) -> None:
        """Bring the store up to date, or begin a new one, by what every task is read by."""
        common, priorities = self._templates.common(), self._read_priorities(objects)
        most = self._limits_of(table, axis)
        frame = _Frame(
            nodes=site.number,
            resources=axis.names,
            most=most,
            ports=frozenset(common.ports.names()),
            watched=common.watched,
            budgets=budgets.scopes(),
            quotas=quotas.homes(),
            namespaces=_labels(objects.every(Namespace), common.namespace_keys),
            devices=self._devices.frame if self._devices else (),
            apps=self._settings.apps,
            firmness=bool(quotas),
        )
        last, self._frame = self._frame, frame
        self._framed = common, self._crowd, self._plain({})
        if last is not None and priorities is not None and frame == _others_of(last, frame):
            resized, keys = _sizes(frame) != _sizes(last), {*frame.watched} ^ {*last.watched}
            concerned = self._concerned(last, frame)
            followed.changed |= concerned
            if resized or keys or concerned or frame.devices != last.devices:
                for path in followed.changed:  # before others get other shapes: what it was may have no column any more
                    self._store.drop(path)
                self._store.flush()
            if resized:
                self._store.resize(axis, common, np.array(most, dtype=np.int64))
                self._job_cache.resize()
            self._store.shapes.adapt(common, priorities, frame.namespaces, frame.apps)
            self._job_cache.priorities = priorities
            if frame.quotas != last.quotas:
                self._start_jobs(priorities, quotas)
            if frame.nodes is not last.nodes:
                self._store.follow_nodes(site.number)
            if frame.budgets != last.budgets:
                self._store.cover(budgets)
            if keys:
                self._store.relabel(keys)
        else:
            classes = self._settings.priorities
            shapes = self._start_shapes(axis, np.array(most, dtype=np.int64), common, classes)
            self._start_jobs(classes, quotas)
            if last is None:
                self._store = TaskStore(
                    shapes, site.number, len(axis), self._schedulers, budgets, self._devices.of, self._volumes.of
                )
                followed.changed |= self._pods.keys()
            else:
                followed.changed |= followed.moved.keys()
                self._store.restart(shapes, site.number, len(axis), budgets, self._pods, followed.changed)
        self._follow_tasks(followed)

    def _plain(self, pods: Mapping[str, Pod | None]) -> bool:
        """Whether what pods ask for is all in their templates: they and these ask for no devices, quotas or volumes."""
        return not (self._settings.quotas or self._volumes.read or self._devices.concern(pods.values()))

    def _follow_tasks(self, followed: _Followed) -> None:
        """Bring tasks to where their pods are, and read those of other pods."""
        moved, placed = followed.moved, followed.placed
        changed = {*followed.changed, *self._store.unknown(moved)}
        if not changed.isdisjoint(moved):
            moved = {path: pod for path, pod in moved.items() if path not in changed}
            placed = {path: template for path, template in placed.items() if path not in changed}
        self._store.move(moved, placed)
        for path in sorted(changed, key=natural):  # so that shapes are numbered in an order that objects decide
            if path in self._pods:
                self._store.put(path, *self._pods[path])
            else:
                self._store.drop(path)
        self._store.flush()

    def _limits_of(self, table: NodeTable, axis: Axis) -> tuple[int, ...]:
        """As `_limits`, once for a table."""
        known = self._limits
        if known is None or known[0] is not table or known[1] != (axis.names, self._crowd):
            known = self._limits = table, (axis.names, self._crowd), _limits(table, axis, self._crowd)
        return known[2]

    def _read_priorities(self, objects: Objects) -> Priorities | None:
        """What classes say now; None where that is something else for a pod or a group that names one of them."""
        now = self._settings.priorities
        if not objects.alike(self._objects, PriorityClass):
            before = Priorities(self._objects.every(PriorityClass))
            names = {"", *self._templates.common().class_names}
            names.update(self._class_users)
            names.update(group.priority_class for group in self._groups.groups.values())
            if any(now.meant(name) != before.meant(name) for name in names):
                return None
        return now

    def _start_shapes(
        self,
        axis: Axis,
        most: Ints,
        common: Common,
        priorities: Priorities,
    ) -> Shapes:
        """Begin with no shapes."""
        assert self._frame is not None
        return Shapes(
            axis,
            common,
            priorities,
            most=most,
            profile=self._profile,
            firmness=self._frame.firmness,
            namespaces=self._frame.namespaces,
            apps=self._frame.apps,
        )

    def _start_jobs(self, priorities: Priorities, quotas: Quotas) -> None:
        """Begin with no jobs: all of them are built from the tasks that are here."""
        singly = not EVICTING_BY_POD.isdisjoint(self._profile.actions)
        trusts = self._profile.trust_pod_group_priority or self._profile.switched_on(
            "priority", "trustPodGroupPriority"
        )
        self._job_cache = JobCache(
            priorities,
            alone=_always if singly else quotas.sees,
            trusts=trusts,
        )

    def _concerned(self, last: _Frame, frame: _Frame) -> set[str]:
        """The pods that are others because of what their namespace says now, or where their application is at home."""
        if frame.namespaces == last.namespaces and frame.apps == last.apps:
            return set()
        namespaces, apps = _differing(last.namespaces, frame.namespaces), _differing(last.apps, frame.apps)
        found = set()
        for path, (pod, _) in self._pods.items():
            meta = pod.metadata
            if meta.labels.get(GROUP_LABEL) in apps or (namespaces and (meta.namespace or "default") in namespaces):
                found.add(path)
        return found

    def _unknown_classes(self) -> list[Fault]:
        """Priority classes that are named and do not exist: an API server would have refused the pods."""
        priorities = self._settings.priorities
        named = (*self._class_users, *self._templates.common().classes)
        names = sorted({name for name in named if not priorities.knows(name)})
        if not names:
            return []
        text = f"it does not exist, so pods that name it have priority {priorities.of_class('')}"
        return [Fault(f"PriorityClass {name}", "PriorityClassNotFound", text) for name in names]

    def _read_services(self, objects: Objects) -> Services:
        if objects.alike(self._objects, AppGroup, KepAppGroup, NetworkTopology, KepNetworkTopology):
            return self._services
        groups = app_groups(objects.every(AppGroup), objects.every(KepAppGroup))
        return services(groups, network_topologies(objects.every(NetworkTopology), objects.every(KepNetworkTopology)))


def _others_of(last: _Frame, frame: _Frame) -> _Frame:
    """The last frame with all that may have changed without everything being read anew."""
    return replace(
        last,
        nodes=frame.nodes,
        resources=frame.resources,
        most=frame.most,
        ports=frame.ports,
        watched=frame.watched,
        budgets=frame.budgets,
        quotas=frame.quotas,
        namespaces=frame.namespaces,
        apps=frame.apps,
        devices=frame.devices,
    )


def _differing(before: Mapping[str, object], now: Mapping[str, object]) -> set[str]:
    return {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}


def _sizes(frame: _Frame) -> tuple[object, ...]:
    """What the vectors of amounts depend on."""
    return frame.resources, frame.most, frame.ports


def _always(_: str) -> bool:
    return True


def _alike(before: Pod, pod: Pod) -> bool:
    """Whether all that is read of a pod is as it was, but for its node and its state.

    With its node it is told where that is, and its rank: jobs with ranks are built anew whenever a pod of theirs moves.
    """
    old, new = before.metadata, pod.metadata
    spec, last = counted(pod), counted(before)
    if last != spec:
        if last.node_name and not spec.node_name:
            return False  # it was read without its rules about nodes
        if replace(last, node_name=spec.node_name, scheduling_gates=spec.scheduling_gates) != spec:
            return False
    if old.annotations != new.annotations:
        placed = spec.node_name and not last.node_name
        if not placed or _untold(old.annotations) != _untold(new.annotations):
            return False
    return (
        old.labels == new.labels
        and old.creation_timestamp == new.creation_timestamp
        and old.owner_references == new.owner_references
    )


def _untold(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations but for what comes with a node."""
    return {key: value for key, value in annotations.items() if key not in _TOLD}


def _limits(table: NodeTable, axis: Axis, crowd: int) -> tuple[int, ...]:
    """By resource, what stands for every larger request: more than any node has, and small enough to be added up.

    Of what is counted apart, the same as of what it counts.
    """
    countable = MOST // 2 // crowd
    most = [max(beyond(number), countable) for number in table.allocatable.max(axis=1, initial=0).tolist()]
    return tuple(most[axis.index.get(name.removeprefix(FIRM_PREFIX), r)] for r, name in enumerate(axis.names))


def _in_order(faults: Mapping[str, Fault]) -> Iterator[Fault]:
    return (faults[path] for path in sorted(faults, key=natural))


def _crowded(table: NodeTable, axis: Axis, used: Ints) -> list[Fault]:
    """Nodes that hold more than they have: nothing more fits there, and the rest goes on."""
    over = used > table.allocatable
    if not np.count_nonzero(over):
        return []
    over[[r for r, name in enumerate(axis.names) if name.startswith(ATTACH_PREFIX)]] = False  # that wrongs nobody
    faults = []
    for row in np.flatnonzero(over.any(axis=0)).tolist():
        names = ", ".join(axis.names[r] for r in np.flatnonzero(over[:, row]).tolist())
        faults.append(
            Fault(f"Node {table.names[row]}", "Oversubscribed", f"its pods ask for more than it has of {names}")
        )
    return faults


def _labels(records: Mapping[str, Namespace], keys: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Of every namespace that has one of these labels, those that it has."""
    if not keys:
        return {}
    found = {name: {k: v for k, v in record.metadata.labels.items() if k in keys} for name, record in records.items()}
    return {name: labels for name, labels in found.items() if labels}


def _queues(others: Mapping[str, KaiQueue], records: Mapping[str, Queue]) -> dict[str, ModelQueue]:
    """The declared queues, and the default one, which always exists; of two of one name Volcano's counts."""
    queues = inherited_run_times({name: read_kai_queue(record) for name, record in others.items()})
    queues |= {name: read_queue(record) for name, record in records.items()}
    queues.setdefault("default", ModelQueue("default", order=natural("default")))
    return queues


def build(
    objects: Objects,
    now: float,
    profile: Profile = DEFAULT,
    *,
    schedulers: frozenset[str] | None = None,
    follow: str = "",
) -> Snapshot:
    """What one cycle sees; see `Reader`, which builds many in a row and takes over what has not changed."""
    return Reader(profile, schedulers=schedulers, follow=follow).read(objects, now)

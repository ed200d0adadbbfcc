"""Builds the snapshot of one cycle from objects; their order does not matter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
from msgspec.structs import astuple, replace

from tierwise.api.codec import Object
from tierwise.api.core import ConfigMap, Namespace, Pod, PodDisruptionBudget, PriorityClass, ResourceQuota
from tierwise.api.elastic_quota import ElasticQuota
from tierwise.api.kai import Queue as KaiQueue
from tierwise.api.natural import natural
from tierwise.api.network_aware import AppGroup, KepAppGroup, KepNetworkTopology, NetworkTopology
from tierwise.api.nvidia import ComputeDomain
from tierwise.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from tierwise.api.volcano import PodGroup, Queue
from tierwise.api.window import Window
from tierwise.config.actions import EVICTING_BY_POD
from tierwise.config.profile import DEFAULT, Profile
from tierwise.config.reservations import ReservationRules, reservation_rules
from tierwise.dialects.compute_domains import domains
from tierwise.dialects.elastic_quota import Quotas
from tierwise.dialects.jobs import JobBuilder
from tierwise.dialects.kai.pod_group import inherited_run_times
from tierwise.dialects.kai.pod_group import read_queue as read_kai_queue
from tierwise.dialects.koordinator.gangs import drawn_to, gang_rules
from tierwise.dialects.kubernetes.devices import extended_names
from tierwise.dialects.kubernetes.requests import FIRM_PREFIX, effective_request, firm_request
from tierwise.dialects.kubernetes.volumes import STORAGE_KINDS
from tierwise.dialects.languages import LANGUAGES, TREES_READ, GroupReader, tree_aliases
from tierwise.dialects.network_aware.services import Homes, app_groups, group_homes, network_topologies, services
from tierwise.dialects.volcano.pod_group import read_queue
from tierwise.model.arrays import CPU, MEMORY, MOST, POD_SLOTS, UNOFFERED, Axis, Ints, beyond, ceiling
from tierwise.model.finished_run import FinishedRun
from tierwise.model.held import ColumnCache, KeptColumns
from tierwise.model.job import Job, Task
from tierwise.model.job import Queue as ModelQueue
from tierwise.model.node import NodeTable
from tierwise.model.services import Services
from tierwise.model.snapshot import Fault, KeptVerdicts, Snapshot
from tierwise.model.turns import NO_TURNS, Turns
from tierwise.model.volumes import ATTACH_PREFIX
from tierwise.model.window import ClosedTime
from tierwise.port import Objects
from tierwise.snapshot.budgets import SCOPE, CoveredPods, Covering, allowed
from tierwise.snapshot.derive import Derived, Each, Graph, Order
from tierwise.snapshot.devices import DeviceReader, ReadDevices
from tierwise.snapshot.held_places import read_held_places
from tierwise.snapshot.jobs import JobCache, SortedPods
from tierwise.snapshot.nodes import Nodes, OrderedTopology
from tierwise.snapshot.pods import FollowedPods, PodFollower
from tierwise.snapshot.quotas import left_by_namespace
from tierwise.snapshot.run_history import history_key, read_history
from tierwise.snapshot.shapes import Priorities
from tierwise.snapshot.tasks import TaskInputs, Tasks, TaskStore
from tierwise.snapshot.templates import Common
from tierwise.snapshot.volumes import VolumeFollower

__all__ = ["SCHEDULER_NAMES", "Reader", "build"]


_ALWAYS = frozenset({CPU, MEMORY, POD_SLOTS})
"""Resources that stand on every axis."""

_FEW = 1 << 16
"""Pods up to which sums of requests have one bound."""

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


class _Jobs(Derived[SortedPods]):
    """The jobs of all tasks."""

    def __init__(
        self,
        graph: Graph,
        profile: Profile,
        *,
        tasks: Tasks,
        order: Derived[Order],
        axis: Derived[Axis],
        quotas: Derived[Quotas],
        priorities: Derived[Priorities],
        domains: Derived[dict[str, str]],
    ) -> None:
        reads: dict[type, None] = {}
        for language in LANGUAGES.values():
            for record in language.reads:
                reads[record] = None
        self._groups = graph.follow(lambda: GroupReader(gang_rules(profile)), _follow_groups, graph.kinds(*reads))
        self._homes = graph.equal(Quotas.homes, quotas)
        names = Each(graph.records(PodGroup), attrgetter("spec.priority_class_name"))
        self.classes = graph.equal(lambda found: frozenset(found.values()), names)  # that podGroups name
        super().__init__(
            graph, (tasks, order, self._groups, self._homes, self.classes, axis, quotas, priorities, domains)
        )
        self._profile = profile
        self._tasks = tasks
        self._order = order
        self._axis = axis
        self._quotas = quotas
        self._priorities = priorities
        self._domains = domains
        self._last: Priorities
        self._cache: JobCache

    def make(self, reading: int) -> None:
        store = self._tasks.value
        priorities = self._priorities.value
        if self.at < 0 or self._tasks.began == reading or self._homes.changed or self._others():
            self._start()
        elif self._tasks.resized == reading:
            self._cache.resize()
        self._last = self._cache.priorities = priorities
        builder = JobBuilder(self._axis.value, self._quotas.value, self._domains.value)
        drawn = drawn_to(store.attracting.values(), self._order.value.row)
        self.value = self._cache.sort(builder, store, self._groups.value[0], drawn)
        self.at = reading

    def _others(self) -> bool:
        """Whether classes mean something else for a group that names one of them."""
        if not self._priorities.changed:
            return False
        now = self._priorities.value
        before = self._last
        names = {"", *self.classes.value, *(group.priority_class for group in self._groups.value[0].groups.values())}
        return any(now.meant(name) != before.meant(name) for name in names)

    def _start(self) -> None:
        """Begin with no jobs: all of them are built from the tasks that are here."""
        profile = self._profile
        singly = not EVICTING_BY_POD.isdisjoint(profile.actions)
        self._cache = JobCache(
            self._priorities.value,
            alone=(lambda _: True) if singly else self._quotas.value.sees,
            quotas=self._quotas.value.sees,
            trusts=profile.trust_pod_group_priority or profile.switched_on("priority", "trustPodGroupPriority"),
        )


def _follow_groups(memory: GroupReader, objects: Objects) -> tuple[GroupReader]:
    memory.follow_objects(objects)
    return (memory,)


class Reader:
    """Reads one cluster again and again, for one profile: it declares what a snapshot is made from.

    Pods of these schedulers are served; where none are given, those of the usual names and of the profile's.
    """

    def __init__(
        self,
        profile: Profile = DEFAULT,
        *,
        schedulers: frozenset[str] | None = None,
        follow: str = "",
        graph: Graph | None = None,
    ) -> None:
        """Rows `follow` the tree of a kind where one is named; what is kept is kept in a graph."""
        self.schedulers = schedulers
        graph = self._graph = Graph() if graph is None else graph
        kinds = graph.kinds
        whole = graph.whole
        equal = graph.equal
        rules = reservation_rules(profile)
        record = history_key(rules.history)
        served = SCHEDULER_NAMES.union(profile.schedulers) if schedulers is None else schedulers

        quotas = whole(
            lambda found: Quotas(found.every(ElasticQuota), profile, found.every(Queue)), kinds(ElasticQuota, Queue)
        )
        queues = equal(partial(_read_queues, rules=rules), kinds(KaiQueue, Queue), quotas)
        priorities = whole(lambda found: Priorities(found.every(PriorityClass)), kinds(PriorityClass))
        aliases = equal(tree_aliases, kinds(*TREES_READ))
        in_domains = equal(domains, kinds(ComputeDomain))
        apps = equal(partial(_read_homes, profile=profile), kinds(AppGroup, KepAppGroup))
        serving = whole(_read_services, kinds(AppGroup, KepAppGroup, NetworkTopology, KepNetworkTopology))
        runs = whole(lambda found: found.record(record) if rules.history else None, kinds(ConfigMap))
        history = whole(_read_history, runs)

        nodes = Nodes(graph, aliases, follow=follow, conditions=profile.listed("repair", "conditions"))
        pods = graph.records(Pod)
        extended = equal(lambda found: extended_names(found.every(DeviceClass)), kinds(DeviceClass))
        followed = graph.follow(PodFollower, lambda memory, _, by: memory.follow(pods.latest, by), pods, extended)
        volumes = graph.follow(
            VolumeFollower, lambda memory, objects, _: memory.follow(objects, pods.latest), kinds(*STORAGE_KINDS), pods
        )
        common = whole(lambda found: found.of.templates.common(), followed)
        devices = graph.follow(
            DeviceReader,
            lambda memory, objects, order, by, offered, found, *rest: memory.follow(
                objects, order.names, pods.latest, by.resources, offered, found.of.claiming, *rest
            ),
            kinds(ResourceSlice, DeviceClass, ResourceClaim, Pod),
            *(nodes.order, common, nodes.resources, followed, extended, in_domains),
        )
        firm = equal(_any_firm, followed, quotas)
        axis = equal(_axis, nodes.resources, common, firm, devices, equal(lambda found: found.of.columns(), volumes))
        crowd = graph.follow(list[int], _crowd, followed)
        loose = equal(_ceiling, nodes.order)
        amounts = nodes.amounts(axis, loose)
        tight = equal(_tight, equal(_largest, amounts, axis), crowd, followed)
        most = equal(min, loose, tight)
        table = nodes.table(whole(np.minimum, amounts, most))
        table = whole(lambda nodes, axis, found: found.table(nodes, axis), table, axis, devices)
        table = equal(
            lambda nodes, axis, most, found: found.of.limit(nodes, axis, most),
            *(table, axis, most, volumes),
            is_equal=_same_table,
        )

        scopes = graph.records(PodDisruptionBudget, SCOPE)
        budgets = graph.follow(
            CoveredPods, lambda memory, found, _: memory.follow(found, pods.latest, scopes.latest), pods, scopes
        )
        by = TaskInputs(
            pods=followed,
            volumes=volumes,
            devices=devices,
            common=common,
            axis=axis,
            most=equal(_limits, table, axis, crowd),
            nodes=nodes.number,
            budgets=budgets,
            namespaces=equal(_labels, kinds(Namespace), common),
            apps=apps,
            priorities=priorities,
            firmness=equal(bool, quotas),
        )
        tasks = Tasks(graph, by, served, profile)
        jobs = _Jobs(
            graph,
            profile,
            tasks=tasks,
            order=nodes.order,
            axis=axis,
            quotas=quotas,
            priorities=priorities,
            domains=in_domains,
        )
        held = whole(read_held_places, kinds(ConfigMap, Pod), axis, table, jobs)
        told: list[Derived[Any]] = [held, history]
        optional: dict[str, Derived[Any]] = {}
        if profile.action_arguments.get("allocate", {}).get("failedStarts"):
            from tierwise.snapshot.failed_starts import start_memory  # few profiles remember

            told.append(start_memory(graph, profile, pods))
            optional["start_memory"] = whole(itemgetter(0), told[-1])
        if profile.action_arguments.get("allocate", {}).get("keptPlaces"):
            from tierwise.snapshot.kept_places import place_memory, with_kept_places  # few profiles keep any

            told.append(place_memory(graph, profile, pods, served))
            optional["place_memory"] = whole(itemgetter(0), told[-1])
            held = with_kept_places(graph, held, optional["place_memory"], axis, table, jobs)
        if any(choice.name == "fairshare" for choice in profile.plugins()):
            from tierwise.config.usage import usage_rules
            from tierwise.snapshot.usage import usage_memory  # few profiles remember

            usage = usage_rules(profile)
            if usage is not None:
                told.append(usage_memory(graph, usage))
                optional["usage_memory"] = whole(itemgetter(0), told[-1])
        windows = whole(_read_windows, graph.records(Window), table, nodes.trees)
        unknown = equal(_unknown_classes, priorities, jobs.classes, common)
        own = whole(lambda found: tuple(found.jobs), jobs)
        others = whole(lambda found: tuple(chain.from_iterable(found.others)), jobs)
        used = whole(lambda store, nodes: store.used[:, nodes.number], tasks, table)
        judged_by: dict[str, Derived[Any]] = {
            "axis": axis,
            "nodes": table,
            "topology": whole(attrgetter("topology"), nodes.trees),
            "kind": whole(attrgetter("kind"), nodes.trees),
            "alternate_topologies": whole(attrgetter("alternate_topologies"), nodes.trees),
            "tree_aliases": aliases,
            "queues": queues,
            "devices": whole(lambda found, _: found.of.devices if found.any else None, devices, table),
        }
        self._snapshot = graph.struct(
            partial(Snapshot, now=0.0, history_in=rules.history, trust_stated=rules.trust_stated),
            **judged_by,
            kept_verdicts=graph.struct(partial(KeptVerdicts, profile), **judged_by),
            jobs=own,
            shapes=whole(lambda store: store.shapes.all(), tasks),
            others=others,
            kept_columns=graph.follow(ColumnCache, _columns, table, own, others, jobs, used, tasks),
            kept_unsettled=whole(lambda found: tuple(found.unsettled), jobs),
            orphans=whole(attrgetter("orphans"), jobs),
            forsaken=whole(attrgetter("forsaken"), jobs),
            faults=whole(_faults, nodes.trees, quotas, jobs, tasks, unknown, table, axis, used, *told, windows),
            budgets=whole(_allowed, budgets, kinds(PodDisruptionBudget)),
            services=serving,
            storage=whole(lambda found: found.of.storage, volumes),
            resource_quotas=whole(left_by_namespace, kinds(ResourceQuota, Pod), axis),
            held_places=whole(itemgetter(0), held),
            history=whole(itemgetter(0), history),
            windows=whole(itemgetter(0), windows),
            **optional,
        )

    def read(self, objects: Objects, now: float, turns: Turns = NO_TURNS) -> Snapshot:
        """What one cycle sees; pods are told apart as far as the profile does. `turns` are of the cycle before it."""
        self._graph.read(objects)
        return replace(self._snapshot.value, now=now, turns=turns)


def _columns(
    cache: ColumnCache,
    table: NodeTable,
    jobs: tuple[Job, ...],
    others: tuple[Task, ...],
    found: SortedPods,
    used: Ints,
    store: TaskStore,
) -> KeptColumns:
    return KeptColumns(table, jobs, others, found.others, cache, used if not store.releasing else None)


def _faults(
    trees: OrderedTopology,
    quotas: Quotas,
    found: SortedPods,
    store: TaskStore,
    unknown: list[Fault],
    table: NodeTable,
    axis: Axis,
    used: Ints,
    *told: tuple[object, Iterable[Fault]],
) -> tuple[Fault, ...]:
    of_pods = _in_order(store.faults)
    crowded = _crowded(table, axis, used)
    rest = chain.from_iterable(faults for _, faults in told)
    return *trees.faults, *quotas.faults, *found.faults, *of_pods, *unknown, *crowded, *rest


def _same_table(one: NodeTable, other: NodeTable) -> bool:
    """Whether two tables have the same columns; what is counted for volumes is counted again and again."""
    pairs = zip(astuple(one), astuple(other), strict=True)
    return all(a is b or (isinstance(a, np.ndarray) and np.array_equal(a, b)) for a, b in pairs)


def _read_queues(objects: Objects, quotas: Quotas, *, rules: ReservationRules) -> dict[str, ModelQueue]:
    """The queues with what the profile says of how long their jobs run, where they do not say it themselves."""
    queues = {**_queues(objects.every(KaiQueue), objects.every(Queue)), **quotas.queues}
    queues = dict(sorted(queues.items()))  # equal ones are kept, and must not remember which came first
    if not rules.duration and not rules.by_queue:
        return queues
    return {
        name: queue if queue.expected_duration else replace(queue, expected_duration=rules.duration_of(name))
        for name, queue in queues.items()
    }


def _read_homes(objects: Objects, *, profile: Profile) -> dict[str, Homes]:
    return group_homes((*objects.every(AppGroup), *objects.every(KepAppGroup)), profile)


def _read_services(objects: Objects) -> Services:
    groups = app_groups(objects.every(AppGroup), objects.every(KepAppGroup))
    return services(groups, network_topologies(objects.every(NetworkTopology), objects.every(KepNetworkTopology)))


def _read_history(record: Object | None) -> tuple[tuple[FinishedRun, ...], tuple[Fault, ...]]:
    """The record of runs that have ended, and what is wrong with it."""
    if not isinstance(record, ConfigMap):
        return (), ()
    try:
        return read_history(record), ()
    except ValueError as error:
        path = f"ConfigMap {record.metadata.namespace}/{record.metadata.name}"
        return (), (Fault(path, "RunHistoryUnreadable", f"{error}; it is written anew"),)


def _any_firm(followed: FollowedPods, quotas: Quotas) -> int:
    """How many pods have what they ask for counted apart, as non-preemptible ones: 1 for some."""
    return min(followed.of.firm, 1) if quotas else 0


def _axis(offered: frozenset[str], common: Common, firm: int, devices: ReadDevices, attached: set[str]) -> Axis:
    """The resources that a node has; all that pods ask for besides is one more."""
    offers = offered | _ALWAYS | devices.names
    apart = firm_request(dict.fromkeys(common.resources & offers, 1)) if firm else {}
    names = offered | {*common.ports.names(), *apart, *devices.names} | attached
    return Axis.of(names | {UNOFFERED})  # also while no pod asks for such: one more column costs less than a change


def _read_windows(
    found: Mapping[str, Window], table: NodeTable, trees: OrderedTopology
) -> tuple[tuple[ClosedTime, ...], tuple[Fault, ...]]:
    if not found:
        return (), ()
    from tierwise.snapshot.windows import read_windows  # few clusters have windows

    return read_windows(found, table, trees.topology)


def _crowd(last: list[int], followed: FollowedPods) -> int:
    """More than there are pods: a power of two, upwards at once and downwards late, as what is read depends on it.

    All that is read is read again where it changes: in most clusters it never does.
    """
    crowd = max(_FEW, 1 << len(followed.of.pods).bit_length())
    if not last or crowd > last[0] or 4 * crowd < last[0]:
        last[:] = [crowd]
    return last[0]


def _ceiling(order: Order) -> int:
    """The limit that amounts of a node are cut to: the more nodes, the lower.

    The number of nodes is rounded up to a power of two, so the limit seldom changes when nodes come and go.
    """
    return ceiling(1 << max(len(order.names), 1).bit_length())


def _largest(amounts: Ints, axis: Axis) -> dict[str, int]:
    """By resource, more than any node has; without those of which there is no end."""
    found = zip(axis.names, amounts.max(axis=1, initial=0).tolist(), strict=True)
    return {name: beyond(n) for name, n in found if name != POD_SLOTS and not name.startswith(FIRM_PREFIX)}


def _tight(largest: dict[str, int], crowd: int, followed: FollowedPods) -> int:
    """What no amount of a node may be more than, so that no sum over pods is too large.

    Only pods by the ten thousands that each ask for a whole node of a hundred terabytes come so far.
    """
    if max(largest.values()) * crowd < MOST:
        return MOST
    asked = dict.fromkeys(largest, 0)
    for template in followed.of.templates:
        for name, number in effective_request(template.spec).items():
            if name in asked:
                asked[name] += min(number, largest[name]) * template.pods
    if max(asked.values()) >= MOST:
        return ceiling(1 << crowd.bit_length())
    return MOST


def _allowed(covering: Covering, objects: Objects) -> dict[str, int]:
    return allowed(covering, objects.every(PodDisruptionBudget))


def _unknown_classes(priorities: Priorities, of_groups: frozenset[str], common: Common) -> list[Fault]:
    """Priority classes that are named and do not exist: an API server would have refused the pods."""
    names = sorted({name for name in (*of_groups, *common.classes) if not priorities.knows(name)})
    text = f"it does not exist, so pods that name it have priority {priorities.of_class('')}"
    return [Fault(f"PriorityClass {name}", "PriorityClassNotFound", text) for name in names]


def _limits(table: NodeTable, axis: Axis, crowd: int) -> tuple[int, ...]:
    """By resource, what replaces every larger request: more than any node has, and small enough to be added up.

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
    over[[r for r, name in enumerate(axis.names) if name.startswith(ATTACH_PREFIX)]] = False  # it harms no one
    faults = []
    for row in np.flatnonzero(over.any(axis=0)).tolist():
        names = ", ".join(axis.names[r] for r in np.flatnonzero(over[:, row]).tolist())
        faults.append(
            Fault(f"Node {table.names[row]}", "Oversubscribed", f"its pods ask for more than it has of {names}")
        )
    return faults


def _labels(objects: Objects, common: Common) -> dict[str, dict[str, str]]:
    """Of every namespace that has one of the labels that selectors look at, those that it has."""
    keys = common.namespace_keys
    records = objects.every(Namespace)
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
    graph = Graph()
    found = Reader(profile, schedulers=schedulers, follow=follow, graph=graph).read(objects, now)
    graph.close()
    return found

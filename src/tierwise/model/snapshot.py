"""What one cycle sees of the cluster."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import force_setattr

from tierwise.api.brief import LONG, brief
from tierwise.model.arrays import Axis, Ints
from tierwise.model.held import ColumnCache, Endings, KeptColumns, TaskColumns, TaskTimes
from tierwise.model.held_places import HeldPlaces
from tierwise.model.job import Constraint, Job, Queue, Reason, Shape, Task
from tierwise.model.node import NodeTable
from tierwise.model.topology import HYPERNODES, AlternateTopology, Topology
from tierwise.model.turns import NO_TURNS, Turns
from tierwise.model.usage import UsageMemory
from tierwise.model.volumes import Storage

if TYPE_CHECKING:
    from tierwise.model.devices import Devices
    from tierwise.model.failed_starts import StartMemory
    from tierwise.model.finished_run import FinishedRun
    from tierwise.model.kept_places import PlaceMemory
    from tierwise.model.services import Services
    from tierwise.model.window import ClosedTime

__all__ = ["Fault", "Ground", "KeptVerdicts", "Snapshot"]


_POD_SETS = attrgetter("pod_sets")


def _no_services() -> Services:
    from tierwise.model.services import Services  # most clusters have none, and importing the core must stay cheap

    return Services()


class Fault(msgspec.Struct, frozen=True):
    """Something well-formed but wrong in itself: it is named, set aside, and the rest works."""

    subject: str
    code: str
    text: str

    def __post_init__(self) -> None:
        if len(self.text) > LONG:
            force_setattr(self, "text", brief(self.text))


class Orphan(NamedTuple):
    """A pending pod whose group does not exist: the group that it names, and why there is none, where that is known."""

    group: str
    why: str = ""

    @property
    def text(self) -> str:
        """One line of why it waits."""
        return brief(f"podGroup {self.group} does not exist{self.why and ': '}{self.why}")


class KeptVerdicts(msgspec.Struct, eq=False):
    """What cycles found out about gangs on empty nodes, by kind, what they made of the rejection of each job, and which
    jobs found no place.

    All that this may be made from, besides a job and the kind of a gang, is in the other fields. A reader declares
    these: where one of them is another, so is this, and it begins with nothing. Tasks, quotas and the time are not
    among them. `actions.diagnosis.verdicts` fills it; what cycles decide is the same without it.
    """

    by: object  # the profile
    axis: Axis
    nodes: NodeTable
    topology: Topology
    kind: str
    alternate_topologies: dict[str, AlternateTopology]
    tree_aliases: dict[str, str]
    queues: dict[str, Queue]  # they may be tied to nodes
    devices: Devices | None  # claims that no pod uses give them back
    last: tuple[Mapping[object, object], Mapping[str, object], object] = ({}, {}, None)

    def about(self, snapshot: Snapshot, by: object) -> bool:
        """Whether this is of a snapshot and a profile: some snapshots are made from others, with other nodes."""
        own = (name for name in self.__struct_fields__ if name not in ("by", "last"))
        return self.by is by and all(getattr(self, name) is getattr(snapshot, name) for name in own)


class Ground(enum.Enum):
    """On what the place of a gang is looked for."""

    ROWS = "rows"  # the one tree that rows follow, domain by domain; or no tree at all
    GATHERED = "gathered"  # in multiples, from rows up: it asks for it, or its only constraint is on another tree
    TREES = "trees"  # several trees at once, or parts on another than rows follow


class Snapshot(msgspec.Struct, frozen=True, dict=True):
    """Everything that one cycle knows; nothing in it changes."""

    axis: Axis
    nodes: NodeTable
    topology: Topology
    queues: dict[str, Queue]
    jobs: tuple[Job, ...]
    shapes: tuple[Shape, ...]
    others: tuple[Task, ...]  # tasks that hold resources and belong to no job of ours
    orphans: dict[str, Orphan]  # by pending pod that names a pod group which does not exist
    faults: tuple[Fault, ...]
    now: float
    budgets: dict[str, int] = {}  # by path, how many more disruptions a disruption budget allows
    services: Services = msgspec.field(default_factory=_no_services)
    resource_quotas: dict[str, Ints] = {}  # what the quotas of a namespace leave, per resource
    standing: dict[int, Ints] = {}  # more of `others` in count form: rows by number of shape
    standing_in: dict[str, Ints] = {}  # what queues hold of these, per resource
    standing_jobs: tuple[Job, ...] = ()  # whose these are, for who asks when they end; without numbers
    kind: str = HYPERNODES  # that declares the tree which rows follow
    storage: Storage = Storage()  # what there is for claims without a volume
    alternate_topologies: dict[str, AlternateTopology] = {}  # further trees, by the kind that declares them
    devices: Devices | None = None  # None where the cluster has none
    tree_aliases: dict[str, str] = {}  # further names of trees, and the kinds that they stand for
    history: tuple[FinishedRun, ...] = ()  # jobs that have ended and may be gone from the cluster
    held_places: HeldPlaces = HeldPlaces()  # for jobs whose pods are being moved
    history_in: str = ""  # the namespace in which their record is kept; "" where none is
    trust_stated: bool = False  # what a job states of its duration counts for jobs of other namespaces, too
    forsaken: tuple[str, ...] = ()  # those of `orphans` that are nominated
    turns: Turns = NO_TURNS  # of searches, as the cycle before this one has left them
    paused: Mapping[str, Reason] = {}  # by key of a job that is not served now because its binds were refused
    windows: tuple[ClosedTime, ...] = ()  # times in which nodes are closed
    start_memory: StartMemory | None = None  # None where the profile remembers no failed starts
    place_memory: PlaceMemory | None = None  # None where the profile keeps no places for successors
    usage_memory: UsageMemory | None = None  # None where the profile remembers no usage
    endings: Endings | None = None  # of what runs, where `standing` counts it; else they follow from the tasks

    kept_columns: KeptColumns | None = None  # see `columns`: what a reader keeps from snapshot to snapshot
    kept_unsettled: tuple[Job, ...] = ()  # see `unsettled`
    kept_verdicts: KeptVerdicts | None = None  # from cycle to cycle; None where each cycle begins with none

    @property
    def _is_kept(self) -> bool:
        """Whether what is kept is about the tasks that are here, and not about those before a change."""
        kept = self.kept_columns
        return kept is not None and kept.jobs is self.jobs and kept.others is self.others

    @cached_property
    def columns(self) -> TaskColumns:
        """All tasks as columns."""
        if self.kept_columns is not None and self._is_kept:
            return self.kept_columns.columns()
        return ColumnCache().columns(self.nodes, self.jobs, self.others)

    @cached_property
    def times(self) -> TaskTimes:
        """When they began and what is known of their ends, in the same order."""
        if self.kept_columns is not None and self._is_kept:
            return self.kept_columns.times()
        return ColumnCache().times(self.jobs, [self.others])

    @property
    def keeps_records(self) -> bool:
        """Whether something is written down of what becomes of pods."""
        memories = self.start_memory, self.place_memory, self.usage_memory
        return bool(self.history_in) or any(memory is not None for memory in memories)

    @property
    def used(self) -> Ints | None:
        """What all tasks hold on each node, (resources x rows), where a reader has kept count and none terminates."""
        kept = self.kept_columns
        counted = kept is not None and self._is_kept and kept.nodes is self.nodes and not self.standing
        return kept.used if kept is not None and counted else None

    @cached_property
    def budget_index(self) -> dict[str, int]:
        """By path of a disruption budget, its number."""
        return {path: i for i, path in enumerate(self.budgets)}

    @cached_property
    def unsettled(self) -> tuple[Job, ...]:
        """The jobs that are not settled, in order: few of those that a cluster has."""
        return self.kept_unsettled if self._is_kept else tuple([job for job in self.jobs if not job.settled])

    @cached_property
    def waiting(self) -> tuple[Job, ...]:
        """The jobs with pending tasks, in order."""
        return tuple([job for job in self.unsettled if job.best_effort_pod_sets or any(map(_POD_SETS, job.subs))])

    @cached_property
    def nominated(self) -> tuple[Job, ...]:
        """Those of them for which a node is kept."""
        found = []
        for job in self.waiting:
            for task in job.tasks:  # a loop instead of `any`: there are very many
                if task.nominated >= 0:
                    found.append(job)
                    break
        return tuple(found)

    def alternate_topology(self, constraint: Constraint | None) -> AlternateTopology | None:
        """The tree that a constraint is about, where that is not the one that rows follow.

        A key of a node label may be a tree of its own, beside the one that most keys share.
        """
        if constraint is None or not self.alternate_topologies:
            return None
        kind = self.tree_aliases.get(constraint.kind, constraint.kind)
        own = self.alternate_topologies.get(f"{kind} {constraint.tier_name}")
        return own or self.alternate_topologies.get(kind)

    def trees(self) -> tuple[Topology, ...]:
        """All trees, that which rows follow first."""
        return (self.topology, *(tree.topology for tree in self.alternate_topologies.values()))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of all trees, that of the one which rows follow first."""
        return (self.kind, *self.alternate_topologies)

    def ground(self, job: Job) -> Ground:
        """On what the place of a job is looked for."""
        shape, wishes = job.shape, job.shape.wishes
        if wishes.further_limits:
            return Ground.TREES
        if wishes.gather is not None:
            return Ground.GATHERED
        if not self.alternate_topologies:
            return Ground.ROWS
        if shape.parted and any(self.alternate_topology(constraint) is not None for constraint in wishes.first_limits):
            return Ground.TREES
        return Ground.ROWS if self.alternate_topology(job.constraint) is None else Ground.GATHERED

    def on_several_trees(self, job: Job) -> bool:
        """Whether a job's constraints are on several trees, or those of its parts on another than rows follow."""
        return self.ground(job) is Ground.TREES

    def knows(self, constraint: Constraint) -> bool:
        """Whether there is a tree of the kind that a constraint is about."""
        kind = self.tree_aliases.get(constraint.kind, constraint.kind)
        names = (kind, f"{kind} {constraint.tier_name}")
        return self.kind in names or self.alternate_topology(constraint) is not None

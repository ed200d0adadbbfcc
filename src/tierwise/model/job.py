"""Jobs, sub-jobs and tasks: a pod group, its sub-groups, pods as scheduling sees them; queues, and why jobs wait."""

from __future__ import annotations

import enum
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import force_setattr, replace

from tierwise.api.brief import LONG, brief
from tierwise.model.arrays import EMPTY, UNOFFERED, Axis, Ints, seal
from tierwise.model.gang import LONE, Constraint, GangShape, Gather, GroupForm, LeafForm, Wishes, around, gang_shape
from tierwise.model.part_names import PART_NAMES, PartNames, joint_word, pods_by_part

if TYPE_CHECKING:
    from tierwise.api.core import Affinity, Requirement, Toleration, TopologySpreadConstraint
    from tierwise.api.eviction_terms import EvictionTerms
    from tierwise.api.expected_start import ExpectedStart
    from tierwise.api.ladder import LadderStep
    from tierwise.api.pattern import Pattern
    from tierwise.api.repair import RepairTerms
    from tierwise.api.reservation import ReservationRecord
    from tierwise.model.devices import DeviceAsk
    from tierwise.model.services import Service
    from tierwise.model.volumes import Claim, PodVolumes
    from tierwise.port import Key

__all__ = [
    "ANYBODY",
    "Constraint",
    "Gather",
    "InnerGroup",
    "Job",
    "Named",
    "NodeGroups",
    "Phase",
    "PodSet",
    "Policy",
    "Queue",
    "Reason",
    "ReasonBook",
    "Rejection",
    "SetMember",
    "SetRule",
    "Shape",
    "Size",
    "Status",
    "SubJob",
    "Task",
    "Tried",
    "Verdict",
    "namespace_of",
    "other_job",
    "plain_shape",
    "told",
]

# Queues: their weights, limits and hierarchy as a cycle sees them.


class NodeGroups(msgspec.Struct, frozen=True):
    """The groups of nodes that a queue asks for, and those that it must not use or would rather not."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()

    def any(self) -> bool:
        """Whether any of the four lists of node groups has an entry."""
        return bool(self.required or self.preferred or self.forbidden or self.avoided)

    def opens(self, group: str) -> bool:
        """Whether the queue may use a group."""
        asked = group in self.required or group in self.preferred
        return group in self.avoided or (asked and group not in self.forbidden)


class Queue(msgspec.Struct, frozen=True):
    """A queue as declared; amounts are in the units of the axis."""

    name: str
    order: tuple[object, ...] = ()  # natural order of the name
    weight: int = 1
    priority: int = 0
    parent: str = ""
    open: bool = True
    reclaimable: bool = True
    capability: Mapping[str, int] = {}
    deserved: Mapping[str, int] = {}
    guarantee: Mapping[str, int] = {}
    hierarchy: str = ""  # path for hierarchical fairness, "root/eng/prod"; empty where none is declared
    hierarchy_weights: str = ""  # a weight for each step of the path, "1/2/8"
    elastic: bool = False  # an ElasticQuota: it lends what it does not use
    weights: Mapping[str, int] = {}  # by resource: how what is lent is shared
    lends: bool = True  # whether others may use what it is guaranteed while it is idle
    tree: str = ""  # the tree of quotas that it is in, where that shares a total of its own; empty for the cluster's
    total: Mapping[str, int] | None = None  # what its tree shares, where it is the one that says so
    aside: bool = True  # that total is not the cluster's own tree's to share
    scope: str = ""  # the namespace whose quotas it shares with alone; empty for those that all namespaces see
    enclosing: str = ""  # the queue or quota in which what it holds counts as well, whatever it declares itself
    minimum_run_time: float = 0.0  # seconds for which pods of its jobs are not evicted
    reclaim_run_time: float | None = None  # the same where another queue reclaims; None: the same number
    expected_duration: float = 0.0  # seconds that its jobs run where they do not say; 0 where it is not known
    over_since: float | None = None  # since when it has held more than its share; None where it has not
    held: str = ""  # why all its jobs are held; "" where they are not

    @property
    def served_with(self) -> str:
        """The queue with which its jobs are served: a namespace gets no extra turns from quotas that it declares."""
        return self.enclosing or self.name

    groups: NodeGroups | None = None  # of nodes, where it declares an affinity to them


# Why something is not placed: one cause (`Reason`), the causes of a cycle by number, and the tree for one subject.
#
# A filter that says no must name a reason, so a no without a reason cannot be written down.
# Tests and alerts match on `code`; `text` is for people; rendering lives in `tierwise.explain`.


class Verdict(enum.Enum):
    """What a job that waits may hope for."""

    NEVER = "never"  # it would not fit if every other pod of the present cluster were gone
    NOT_NOW = "not-now"  # it would, and what it needs is in use
    NOT_ALLOWED = "not-allowed"  # it would, and a queue, a quota or a gate holds it back

    @property
    def words(self) -> str:
        """As people read it."""
        return self.value.replace("-", " ")

    @property
    def camel(self) -> str:
        """As the reason of a condition spells it."""
        return self.words.title().replace(" ", "")


ANYBODY = ""
"""A namespace that no job has: what counts for it counts for all."""


def namespace_of(key: str) -> str:
    """The namespace in the key of a job or a task, whatever says before it what kind of job it is."""
    return key.rpartition(" ")[2].partition("/")[0]


class Named(msgspec.Struct, frozen=True):
    """Words of a text that name objects of a namespace, and what is said in their place to those of any other."""

    namespace: str
    words: str
    instead: str


def other_job(key: str) -> Named:
    """The key of a job in a text about another one."""
    return Named(namespace_of(key), key, "a job of another namespace")


def told(text: str, names: Iterable[Named], reader: str | None) -> str:
    """A text as it is told in a namespace: it names no objects of others. None: to operators, who see all of it."""
    for name in names:
        if reader is not None and name.namespace != reader:
            text = text.replace(name.words, name.instead)
    return text


class Reason(msgspec.Struct, frozen=True):
    """One cause for a no."""

    code: str  # stable, CamelCase: "InsufficientResource"
    plugin: str
    text: str  # for people, without per-node numbers
    names: tuple[Named, ...] = ()  # what of the text is not for every namespace
    cut: bool = False  # a search was cut short: the no is not a proof

    def __post_init__(self) -> None:
        if len(self.text) > LONG:
            force_setattr(self, "text", brief(self.text))

    def told(self, reader: str | None) -> str:
        """The text as it is told in a namespace; None for operators."""
        return told(self.text, self.names, reader)


class ReasonBook:
    """Numbers the reasons of a cycle, so that an array can hold one per node; 0 is "no objection"."""

    def __init__(self) -> None:
        self._reasons: list[Reason] = []
        self._numbers: dict[Reason, int] = {}

    def number(self, reason: Reason) -> int:
        found = self._numbers.get(reason)
        if found is None:
            self._reasons.append(reason)
            found = self._numbers[reason] = len(self._reasons)
        return found

    def __getitem__(self, number: int) -> Reason:
        return self._reasons[number - 1]

    def __len__(self) -> int:
        return len(self._reasons)

    @property
    def any_cut(self) -> bool:
        """Whether a search that gave one of them was cut short."""
        return any(reason.cut for reason in self._reasons)


class Tried(msgspec.Struct, frozen=True):
    """The domains of one tier that a search looked at, and how far the best of them came.

    `fits` counts tasks that the best domain takes together; of alike sub-groups, only those that it takes whole.
    """

    tier: int
    domains: int
    best: str
    fits: int
    asked: int
    nodes: int = 0  # nodes below the best domain
    causes: tuple[tuple[Reason, int], ...] = ()  # per reason, on how many of its nodes
    layer: str = ""  # how the owner of a gathered job calls the tier
    whole: int = 0  # tasks of a sub-group, where sub-groups are counted and not tasks
    here: bool = False  # running tasks of the gang confine the search to this domain
    outside: int = 0  # domains of this tier that are not searched for that reason
    short: str = ""  # what else the best domain lacks, where every task fits
    part: str = ""  # how sub-groups are called, where these are counted


class Rejection(msgspec.Struct, frozen=True):
    """Why one subject is not placed now; children say the same of its parts."""

    stage: str  # "enqueue", "gate", "quota", "space", "fit", "place", "evict", "steps"
    subject: str
    reason: Reason
    tried: tuple[Tried, ...] = ()
    children: tuple[Rejection, ...] = msgspec.field(default=())
    bounded: bool = False  # the search stopped at its bound: the no is not a proof
    verdict: Verdict = Verdict.NOT_NOW
    part: str = ""  # how its language calls the subject, where that is a part of a gang

    def names(self) -> Iterator[Named]:
        """What of the texts in the tree is not for every namespace."""
        yield from self.reason.names
        for child in self.children:
            yield from child.names()

    def codes(self) -> Iterator[str]:
        """The code of every cause in the tree, outermost first: what tests and alerts match on."""
        yield self.reason.code
        for child in self.children:
            yield from child.codes()


# Shapes: equivalence classes of tasks.
#
# Plugins are handed a shape, never a pod, so whatever a plugin can see is part of the class, and tasks of one
# shape cannot be told apart. A field joins `Shape` when a plugin first needs it; names and indexes never do.


_NAMED = 3
"""How many of the resources that no node has a message names."""


class Shape(msgspec.Struct, frozen=True, eq=False):
    """All that scheduling sees of a task. Interned per cycle: two equal tasks share one object."""

    number: int
    request: Ints  # per resource of the axis, pod slot and host ports included
    asked: Ints  # indexes of the resources it asks for
    namespace: str
    labels: dict[str, str]  # only the keys that some selector of this cycle looks at
    node_selector: dict[str, str]
    affinity: Affinity | None
    tolerations: tuple[Toleration, ...]
    spread: tuple[TopologySpreadConstraint, ...]
    images: tuple[str, ...]
    priority: int
    best_effort: bool  # asks for nothing but a pod slot, and is left to backfill unless it is part of a gang
    never_preempts: bool
    qos: int = 0  # quality-of-service class; 0 for guaranteed, which goes first
    service: Service | None = None  # the workload of an application that it is one of
    scheduler: str = ""  # by name, where the profile has plugins for that scheduler's pods alone
    unasked: tuple[int, int] = (0, 0)  # cpu and memory that Kubernetes' scores take it to use besides its request
    guessed: tuple[int, int] = (0, 0)  # cpu and memory that Kubernetes' scores take it to ask for as it comes
    namespace_labels: dict[str, str] = {}  # of its namespace, only the keys that some selector of this cycle looks at
    volumes: PodVolumes | None = None  # what its volumes allow; None where it has none that matter
    unoffered: tuple[str, ...] = ()  # resources it asks for that no node has; on the axis they are one
    written: dict[str, int] = {}  # what it asks for in truth, where that is cut down to what can be added up
    devices: DeviceAsk | None = None  # what it asks of devices beyond their number

    def __post_init__(self) -> None:
        seal(self.request, self.asked)

    def __hash__(self) -> int:
        return self.number

    def names(self, axis: Axis) -> list[str]:
        """The resources it asks for as people call them, in the order of `asked`."""
        named = ", ".join(self.unoffered[:_NAMED])
        more = len(self.unoffered) - _NAMED
        spelled = named if more <= 0 else f"{named} and {more} more"
        return [spelled if axis.names[r] == UNOFFERED else axis.names[r] for r in self.asked.tolist()]

    def max_tasks(self, free: Ints) -> Ints:
        """How many tasks each column of `free`, (asked resources x rows), takes. Uses `free` up."""
        free //= self.request[self.asked, None]
        result: Ints = np.minimum.reduce(free)
        np.maximum(result, 0, out=result)
        return result


def plain_shape(number: int, request: Ints, *, namespace: str, priority: int = 0) -> Shape:
    """Tasks that ask for these amounts, and for nothing else."""
    return Shape(
        number=number,
        request=request,
        asked=np.flatnonzero(request),
        namespace=namespace,
        labels={},
        node_selector={},
        affinity=None,
        tolerations=(),
        spread=(),
        images=(),
        priority=priority,
        best_effort=False,
        never_preempts=False,
    )


class Status(enum.Enum):
    """The state of a task."""

    __hash__ = object.__hash__  # that of Enum is a call in Python, and tasks are counted by status

    PENDING = "Pending"
    GATED = "Gated"  # pending behind a scheduling gate
    RUNNING = "Running"  # bound or running: it holds its resources
    RELEASING = "Releasing"  # on its way out: it holds them a little longer
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Phase(enum.Enum):
    """The state of a job, in the words of its pod group."""

    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"


# Sets: gangs that stand together, or apart from each other. Their parts are gangs, and the sets one level below.


class SetRule(msgspec.Struct, frozen=True):
    """What a gang asks of the parts of a set that it is in.

    All of them in one domain of the tier that the constraint means; or `apart`, so many of them in one at most.
    """

    set: str  # namespace/path
    constraint: Constraint
    most: int = 0  # parts in one domain; 0 for a share, or for parts that stay together
    share: int = 0  # thousandths of the parts that stand up to which a domain is open for one more
    agreed: bool = False  # it counts where all gangs of the set say the same
    among: tuple[Requirement, ...] | None = None  # the set is all gangs of the namespace and language with such labels

    @property
    def apart(self) -> bool:
        return bool(self.most or self.share)

    @property
    def name(self) -> str:
        """The set as its owner writes it."""
        return self.set.partition("/")[2]


class SetMember(msgspec.Struct, frozen=True):
    """A gang as a part of a set."""

    set: str  # namespace/path; "" where it names none, and its rules say themselves which gangs they mean
    rules: tuple[SetRule, ...] = ()
    starts: int = 0  # parts that start together; 0: one by one
    partners: frozenset[str] = frozenset()  # keys of all gangs that are to start together, where it lists them itself

    def part_of(self, path: str, key: str) -> str | None:
        """The part of a set that a gang with this key belongs to; None where it is not in the set."""
        if self.set == path:
            return f"gang {key}"
        if not self.set.startswith(f"{path}/"):
            return None
        return f"set {path}/{self.set[len(path) + 1 :].partition('/')[0]}"

    def sets(self) -> Iterator[str]:
        """The sets that it is in, the innermost first."""
        path = self.set
        while path.count("/"):
            yield path
            path = path.rpartition("/")[0]


class Task(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One pod."""

    key: str  # namespace/name
    shape: Shape
    role: str
    status: Status
    node: int = -1  # the number of its node, see `NodeTable.rows`; -1 where it has none, or it is unknown
    nominated: int = -1  # the number of the node that is kept for it
    created: float = 0.0
    rank: int = 0  # its place among the tasks of its job, where the job says so
    index: int | None = None  # its place among the tasks of its role, where its pod says so
    owner: str = ""  # an owner that it names besides its job; such tasks count once where evictions are priced
    not_preemptable: bool = False  # marked as not to be evicted
    critical: bool = False  # a pod of the system
    budgets: tuple[str, ...] = ()  # the disruption budgets that cover it, by path
    unsupported: str = ""  # what it names and what cannot be honoured, as a sentence
    uid: str = ""  # of its pod, where it has claims
    claims: tuple[str, ...] = ()  # the claims of devices that it means, by path
    unready: str = ""  # what it means and what is not there yet, as a sentence
    volume_claims: tuple[Claim, ...] = ()  # claims that get a volume with its place, as its shape wants them
    volume_names: tuple[str, ...] = ()  # all its claims of volumes, namespace/name
    started: float = 0.0  # when it began to run, as far as is known
    checkpointed: float = 0.0  # when it last saved its work; 0 where it does not say
    noticed: float = 0.0  # when it was told that it is going to be evicted; 0 where it was not
    ended: float = 0.0  # when it succeeded or failed, as far as is known
    active_deadline: float = 0.0  # seconds after its start at which its node stops it; 0 where it would not
    expected: float = 0.0  # seconds that it says it runs; 0 where it does not say
    deleted: float = 0.0  # when its deletion was asked for; 0 where it was not
    tolerations: tuple[Toleration, ...] = ()  # of a task with a node, whose shape is without its rules about nodes
    node_rules: bool = False  # a task with a node has such rules
    unowned: bool = False  # nothing would make it again
    part: str = ""  # what its workload calls the part that it is of, "role decode"; nothing is decided by it


class PodSet(msgspec.Struct, frozen=True, eq=False):
    """Pending tasks of a sub-job that scheduling cannot tell apart, in rank order."""

    shape: Shape
    role: str
    role_number: int  # the role's place in the ledger's tallies; -1 where its job sets no minimum for it
    tasks: tuple[Task, ...]
    backfilled: bool = False  # best-effort tasks that are left to backfill, and count as ready before


class Policy(msgspec.Struct, frozen=True):
    """How a job is cut into sub-jobs: a sub-job of `size` per label value, at least `minimum` of them."""

    name: str
    size: int
    minimum: int
    constraint: Constraint | None
    further: tuple[Constraint, ...] = ()  # on other trees
    apart: tuple[SetRule, ...] = ()  # how many of its sub-jobs may share a domain


class InnerGroup(msgspec.Struct, frozen=True):
    """A group of sub-groups in a nested job: so many of its parts must be whole, all of them within its limit.

    Its parts are the sub-jobs and the inner groups that name it.
    """

    path: str  # the names from the job inwards, joined by "/"; "" for the job itself
    parent: int  # index into the job's inner groups; -1 for the job itself, which is the first of them
    minimum: int  # parts that must be whole
    pods: int  # pods that its smallest parts need, so many of them
    constraint: Constraint | None
    further: tuple[Constraint, ...] = ()  # on other trees


class SubJob(msgspec.Struct, frozen=True, eq=False):
    """A sub-group. A job without policies has one, which is the job itself."""

    key: str  # namespace/podgroup, or namespace/podgroup/policy-value; in a nested job with the groups around it
    number: int  # its place in the ledger's tallies
    job_number: int
    minimum: int
    order: tuple[object, ...]  # natural order of the key
    priority: int
    policy: int = -1  # index into the job's policies; -1 for the tasks that no policy takes
    constraint: Constraint | None = None
    match_index: int = 0
    tasks: tuple[Task, ...] = ()
    # What follows from the tasks, see `counted`:
    pod_sets: tuple[PodSet, ...] = ()  # what is pending
    total: int = 0  # all its tasks, whatever their status, failed ones left out
    request: Ints = EMPTY  # of all its tasks together
    held: Ints = EMPTY  # numbers of the nodes of the tasks that run, one entry per task
    ready: int = 0  # running and succeeded tasks, and pending best-effort ones (backfill places those)
    previous_domain: str = ""  # the domain that it was last placed in
    path: str = ""  # of a nested job: the names of the groups around it and its own, joined by "/"
    inner_group: int = -1  # index into the job's inner groups; -1 where it is part of none
    further: tuple[Constraint, ...] = ()  # constraints on other trees

    def __post_init__(self) -> None:
        seal(self.request, self.held)

    @property
    def pending(self) -> int:
        return sum(len(pod_set.tasks) for pod_set in self.pod_sets)


class Size(msgspec.Struct, frozen=True):
    """The lack of a gang that is like others but for one number: so many pods of one shape."""

    shape: Shape
    pods: int
    part: int = 0  # it needs all its sub-groups, which have so many pods each; 0: it has none


class Job(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A pod group: the unit that is queued, gated and started as one."""

    key: str
    number: int
    queue: str
    priority: int
    created: float
    order: tuple[object, ...]  # natural order of the key: the last word in every tie
    phase: Phase
    declared: bool  # a pod group object declares it (a lone pod has none)
    minimum: int
    roles: dict[int, int] = {}  # role number -> minimum
    constraint: Constraint | None = None
    policies: tuple[Policy, ...] = ()
    min_resources: Ints | None = None
    subs: tuple[SubJob, ...] = ()
    tasks: tuple[Task, ...] = ()
    not_preemptable: bool = False  # marked as not to be evicted
    best_effort_pod_sets: tuple[tuple[int, PodSet], ...] = ()  # those that are left to backfill, by index of sub-job
    role_names: dict[int, str] = {}
    role_ready: dict[int, int] = {}
    sla: float | None = None  # seconds that it may wait at most; None where it names no such time
    owner: str = ""  # the name of the object that its pod group was made for
    predecessor: str = ""  # the key of the gang whose place it takes over, where it names one
    pattern: Pattern | None = None  # how its ranks talk to each other, where it says so
    ranks: dict[str, int] = {}  # of a job with a pattern or repair terms: the rank of every task by its key
    world_size: int = 0  # how many ranks there are, those whose pods are lost and not made again yet included
    lone: bool = False  # a pod by itself: without a pod group, or with one that was made for it alone
    gather: Gather | None = None  # how its tasks are to be gathered; None where it does not say
    gangs: tuple[str, ...] = ()  # Koordinator's gangs in this job, each a role, where its key is not that of one gang
    missing: tuple[str, ...] = ()  # pod groups that belong to it and do not exist
    satisfied: bool = False  # it had its minimum once, and what is missing may come task by task
    never_preempts: str = ""  # what marks it, or a task of it, as one that causes no evictions
    scheduler: str = ""  # that of its tasks, as `Shape.scheduler` names it
    unsupported: str = ""  # what a pending task of it names and what cannot be honoured: it waits
    unready: str = ""  # what a pending task of it means and what is not there yet: it waits for it
    language: str = ""  # in which its gang is declared; "" where nothing declares one
    declared_by: Key | None = None  # the object behind it, where that is neither Volcano's nor Koordinator's
    awaits: dict[str, tuple[str, ...]] = {}  # by role, those that must run before its tasks are made
    refusal: Reason | None = None  # why its group has to wait, whatever room there is
    together: bool = False  # evicting one of its tasks evicts all of them
    terms: EvictionTerms | None = None  # what it says of its own eviction
    repair: RepairTerms | None = None  # what it says of the loss of nodes
    ladder: tuple[LadderStep, ...] = ()  # for how long it holds out for which tier, step by step
    sizes: tuple[int, ...] = ()  # the numbers of pods that it may run with; the least is its minimum
    expected_start: ExpectedStart | None = None  # what was last said of its start
    reserved: ReservationRecord | None = None  # the reservation that it was last given
    inner_groups: tuple[InnerGroup, ...] = ()  # of a nested job: itself and its groups of groups, in preorder
    further: tuple[Constraint, ...] = ()  # constraints on other trees
    member: SetMember | None = None  # of a set of gangs; None where it is in none
    labels: Mapping[str, str] = {}  # by which rules about sets mean it, in languages that have such rules
    part_names: PartNames = PART_NAMES  # how its language calls its parts

    def __post_init__(self) -> None:
        if self.min_resources is not None:
            seal(self.min_resources)

    @cached_property
    def shape(self) -> GangShape:
        """What the gang needs and where it may be, in the one form that all gangs have.

        A copy with other values finds its own out.
        """
        return _shape_of(self)

    def gang_of(self, sub: SubJob) -> Job | SubJob:
        """The part with limits and a place of its own that a sub-job is: a sub-group, or the gang where it has none."""
        return sub if self.shape.parted else self

    def group(self, number: int) -> Job:
        """A group of its shape as a job of its own sub-jobs, under the same number; 0 is the job itself."""
        return self._groups[number - 1] if number else self

    @cached_property
    def _groups(self) -> tuple[Job, ...]:
        inside: list[list[SubJob]] = [[] for _ in self.inner_groups]
        for sub in self.subs:
            for number in around(self.shape, sub.inner_group):
                inside[number].append(sub)
        return tuple(
            [self._as_group(group, subs) for group, subs in zip(self.inner_groups[1:], inside[1:], strict=True)]
        )

    def _as_group(self, group: InnerGroup, subs: list[SubJob]) -> Job:
        return replace(
            self,
            constraint=group.constraint,
            further=group.further,
            minimum=group.pods,
            min_resources=None,
            subs=tuple(subs),
        )

    def part_word(self, sub: SubJob) -> str:
        """How its language calls a sub-job: "sub-group", "PodClique"."""
        policy = self.policies[sub.policy].name if sub.policy >= 0 else ""
        return self.part_names.of(sub.key.rpartition("/")[2], policy)

    def joint_word(self, subs: Iterable[SubJob] | None = None) -> str:
        """One word for some of its sub-groups, or for all of them."""
        if not self.part_names.others:
            return self.part_names.part
        chosen = self.subs if subs is None else subs
        return joint_word(self.part_word(sub) for sub in chosen if sub.policy >= 0)

    @property
    def words(self) -> tuple[PartNames, tuple[str, ...]]:
        """Texts about it besides figures: the words for its parts, and its waiting pods by parts of its workload.

        Whoever tells one gang of another that asks for the same must not put these words into its mouth.
        """
        named = len(self._titles) > 1 or any(task.part for task in self.tasks[:1])
        if self.shape.parted or not named:
            return self.part_names, ()
        return self.part_names, tuple([pods_by_part(map(self.part_of, p.tasks)) for p in self.pod_sets()])

    def part_of(self, task: Task) -> str:
        """The part of a task that is in no sub-group: its role where that has a minimum, else that of its workload."""
        return self._titles.get(task.role, task.part)

    @cached_property
    def _titles(self) -> dict[str, str]:
        """Its roles with minimums, as they are told: "task worker", by name."""
        return {name: f"{self.part_names.role} {name}" for name in self.role_names.values()}

    def in_parts(self, shapes: Container[Shape] | None = None) -> str:
        """Its waiting pods, or those of some shapes, by parts of its workload; "" where these name none."""
        if not any(self.words[1]):
            return ""
        asking = [pod_set for pod_set in self.pod_sets() if shapes is None or pod_set.shape in shapes]
        return pods_by_part(self.part_of(task) for pod_set in asking for task in pod_set.tasks)

    def numbers_of(self, role: str) -> list[int]:
        """The numbers under which tasks of a role count; none where it has no minimum."""
        return [number for number, name in self.role_names.items() if name == role]

    @property
    def counted_roles(self) -> Mapping[int, int]:
        """The minimums of roles, by number, that count: none where their sum exceeds the job's minimum."""
        return self.roles if self.minimum >= sum(self.roles.values()) else _NO_ROLES

    def pod_sets(self) -> Iterator[PodSet]:
        for sub in self.subs:
            yield from sub.pod_sets

    def every_pod_set(self) -> list[PodSet]:
        """All pod sets, best-effort ones that are left to backfill included."""
        return [*self.pod_sets(), *(pod_set for _, pod_set in self.best_effort_pod_sets)]

    @property
    def saved(self) -> float:
        """When its work was last saved: a checkpoint is one of all its pods, whichever of them says so; 0 for never."""
        own = self.terms.checkpointed if self.terms is not None else 0.0
        return max([own, *(task.checkpointed for task in self.tasks)])

    @property
    def starts_whole(self) -> bool:
        """Whether tasks of it start together or not at all: then its best-effort tasks are placed with the others."""
        whole = whole_only(self.minimum, self.policies)
        return whole or bool(self.sizes)

    def backfills(self, shape: Shape) -> bool:
        """Whether its tasks of a shape are left to backfill, and count as ready before they are placed."""
        return shape.best_effort and not self.starts_whole

    @property
    def settled(self) -> bool:
        """Whether one look is enough to see that it runs: its minimum is there, and nothing of it waits.

        Where its parts or other objects have a say, the answer is no.
        """
        return (
            len(self.subs) == 1
            and not self.subs[0].pod_sets
            and self.subs[0].ready >= self.minimum
            and not self.best_effort_pod_sets
            and self.phase not in (Phase.PENDING, Phase.INQUEUE)
        )

    def constraints(self) -> Iterator[Constraint]:
        """Those of the job and of the groups in it, at every level, that name a tree in the first place."""
        inner = (group.constraint for group in self.inner_groups[1:])
        every = (self.constraint, *inner, *(policy.constraint for policy in self.policies))
        yield from (constraint for constraint in every if constraint is not None)


_NO_ROLES: Mapping[int, int] = {}


def _shape_of(job: Job) -> GangShape:
    limits = _limits(job)
    said = any((job.policies, job.roles, limits, job.gather, job.ladder, job.pattern, job.sizes))
    if job.minimum == len(job.subs) == 1 and not said:
        return LONE  # as almost all are in a cluster of services
    parts: tuple[Policy | InnerGroup, ...] = (*job.policies, *job.inner_groups)
    first = [gang.constraint for gang in (job, *parts) if gang.constraint is not None]
    further = any(gang.further for gang in (job, *parts))
    apart = {i for i, policy in enumerate(job.policies) if policy.apart}
    return gang_shape(
        job.minimum,
        roles=tuple(job.counted_roles.values()),
        policies=tuple([policy.minimum for policy in job.policies]),
        groups=tuple([GroupForm(g.parent, g.minimum, _limits(g)) for g in job.inner_groups]),
        leaves=tuple(
            [LeafForm(sub.minimum, sub.policy, sub.inner_group, _limits(sub), sub.policy in apart) for sub in job.subs]
        ),
        limits=limits,
        wishes=Wishes(job.gather, job.ladder, job.pattern, job.sizes, tuple(first), further),
    )


def _limits(gang: Job | InnerGroup | SubJob) -> tuple[Constraint, ...]:
    return gang.further if gang.constraint is None else (gang.constraint, *gang.further)


def whole_only(minimum: int, policies: tuple[Policy, ...]) -> bool:
    """Whether a job with such a minimum and such policies has tasks that start together or not at all."""
    return minimum > 1 or bool(policies)

"""Volcano's objects: pod groups, queues, hyperNodes and jobs, as their users write them.

Built by the codec; `dialects.volcano` gives the fields their meaning in scheduling, `admission` checks them.
Whether a number was given matters to admission, so numbers whose absence means something are None where absent.
"""

from tierwise.api.core import Condition, Int, LabelSelector, ObjectMeta, PodTemplate, Record, ResourceList

__all__ = [
    "Command",
    "ExactMatch",
    "HyperNode",
    "Job",
    "JobSpec",
    "JobState",
    "JobStatus",
    "LifecyclePolicy",
    "MemberSelector",
    "MemberSpec",
    "NetworkTopologySpec",
    "PartitionPolicy",
    "PodGroup",
    "PodGroupAffinityTerm",
    "PodGroupAntiAffinity",
    "PodGroupSpec",
    "PodGroupStatus",
    "Queue",
    "QueueAffinity",
    "QueueStatus",
    "SubGroupAffinity",
    "SubGroupAffinityTerm",
    "SubGroupPolicy",
    "TaskSpec",
    "TopologyAffinitySpec",
]


class NetworkTopologySpec(Record, frozen=True):
    """How near the members of a gang must be: at most that tier, by number or by name."""

    mode: str = "hard"
    highest_tier_allowed: Int | None = None
    highest_tier_name: str = ""


class SubGroupPolicy(Record, frozen=True):
    """How the pods of a group are parted into sub-groups, each with a topology of its own."""

    name: str = ""
    sub_group_size: Int | None = None
    min_sub_groups: Int | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    network_topology: NetworkTopologySpec | None = None


class PodGroupAffinityTerm(Record, frozen=True):
    """Pod groups that labels select, and the tier of the domains that are meant, by number or by name."""

    pod_group_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    topology_tier: Int | None = None
    topology_tier_name: str = ""


class PodGroupAntiAffinity(Record, frozen=True):
    """Pod groups in whose domains a gang is not placed; terms that are only preferred are not read."""

    required: tuple[PodGroupAffinityTerm, ...] = ()


class SubGroupAffinityTerm(Record, frozen=True):
    """Sub-groups of policies, by their names, and the tier of the domains that are meant."""

    sub_groups: tuple[str, ...] = ()
    topology_tier: Int | None = None
    topology_tier_name: str = ""


class SubGroupAffinity(Record, frozen=True):
    """Sub-groups that share a domain; or, as anti-affinity, that share none."""

    required: tuple[SubGroupAffinityTerm, ...] = ()


class TopologyAffinitySpec(Record, frozen=True):
    """Where a gang and its sub-groups stand as others do: a draft of Volcano's, read behind a gate."""

    pod_group_anti_affinity: PodGroupAntiAffinity | None = None
    sub_group_affinity: SubGroupAffinity | None = None
    sub_group_anti_affinity: SubGroupAffinity | None = None


class PodGroupSpec(Record, frozen=True):
    """Conditions under which a gang may start."""

    min_member: Int = 0
    min_task_member: dict[str, Int] = {}
    queue: str = ""
    priority_class_name: str = ""
    min_resources: ResourceList | None = None
    network_topology: NetworkTopologySpec | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()
    topology_affinity: TopologyAffinitySpec | None = None


class PodGroupStatus(Record, frozen=True):
    """Reported state of a gang."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    running: Int = 0
    succeeded: Int = 0
    failed: Int = 0


class PodGroup(Record, frozen=True):
    """Pods that start together or not at all."""

    metadata: ObjectMeta
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class Guarantee(Record, frozen=True):
    """Resources reserved for a queue."""

    resource: ResourceList = {}


class NodeGroupTerms(Record, frozen=True):
    """Names of groups of nodes: those that must be, and those that should."""

    required_during_scheduling_ignored_during_execution: tuple[str, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[str, ...] = ()


class QueueAffinity(Record, frozen=True):
    """Which groups of nodes a queue uses, and which it does not."""

    node_group_affinity: NodeGroupTerms = NodeGroupTerms()
    node_group_anti_affinity: NodeGroupTerms = NodeGroupTerms()


class QueueSpec(Record, frozen=True):
    """Limit, deserved share and guarantee of a queue."""

    weight: Int | None = None
    capability: ResourceList = {}
    deserved: ResourceList = {}
    guarantee: Guarantee = Guarantee()
    reclaimable: bool | None = None
    priority: Int = 0
    parent: str = ""
    type: str = ""
    affinity: QueueAffinity | None = None


class QueueStatus(Record, frozen=True):
    """Reported state of a queue."""

    state: str = ""
    unknown: Int = 0
    pending: Int = 0
    running: Int = 0
    inqueue: Int = 0
    completed: Int = 0
    allocated: ResourceList = {}


class Queue(Record, frozen=True):
    """Who waits where."""

    metadata: ObjectMeta
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


class ExactMatch(Record, frozen=True):
    """A member by name."""

    name: str = ""


class RegexMatch(Record, frozen=True):
    """Members by a Go regular expression that need not match the whole name."""

    pattern: str = ""


class MemberSelector(Record, frozen=True):
    """One way of naming members; admission asks for exactly one."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class MemberSpec(Record, frozen=True):
    """Members of a hyperNode: nodes, or hyperNodes below it."""

    type: str = ""
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(Record, frozen=True):
    """Height and members of a domain."""

    tier: Int = 0
    tier_name: str = ""
    members: tuple[MemberSpec, ...] = ()


class HyperNodeStatus(Record, frozen=True):
    """Counts that the hyperNode controller reported."""

    node_count: Int = 0
    conditions: tuple[Condition, ...] = ()


class HyperNode(Record, frozen=True):
    """A domain of the network."""

    metadata: ObjectMeta
    spec: HyperNodeSpec = HyperNodeSpec()
    status: HyperNodeStatus = HyperNodeStatus()


class LifecyclePolicy(Record, frozen=True):
    """Action to take on an event of a job or task; `timeout` is a Go duration such as "60s"."""

    action: str = ""
    event: str = ""
    events: tuple[str, ...] = ()
    exit_code: Int | None = None
    timeout: str = ""


class DependsOn(Record, frozen=True):
    """Tasks that come first; `iteration` says whether any or all of them."""

    name: tuple[str, ...] = ()
    iteration: str = ""


class PartitionPolicy(Record, frozen=True):
    """How the replicas of a task are parted."""

    total_partitions: Int | None = None
    partition_size: Int | None = None
    min_partitions: Int | None = None
    network_topology: NetworkTopologySpec | None = None


class TaskSpec(Record, frozen=True):
    """One role of a job."""

    name: str = ""
    replicas: Int = 1
    min_available: Int | None = None
    template: PodTemplate = PodTemplate()
    partition_policy: PartitionPolicy | None = None
    policies: tuple[LifecyclePolicy, ...] = ()
    depends_on: DependsOn | None = None
    topology_policy: str = ""
    max_retry: Int | None = None


class JobSpec(Record, frozen=True):
    """A job as a user writes it."""

    scheduler_name: str = ""
    min_available: Int | None = None
    min_success: Int | None = None
    queue: str = ""
    priority_class_name: str = ""
    max_retry: Int | None = None
    ttl_seconds_after_finished: Int | None = None
    plugins: dict[str, tuple[str, ...]] = {}
    volumes: tuple[dict[str, object], ...] = ()
    policies: tuple[LifecyclePolicy, ...] = ()
    network_topology: NetworkTopologySpec | None = None
    tasks: tuple[TaskSpec, ...] = ()


class JobState(Record, frozen=True):
    """Where a job is in its life."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class JobCondition(Record, frozen=True):
    """A phase that a job has been through."""

    status: str = ""
    last_transition_time: str = ""


class TaskState(Record, frozen=True):
    """How many pods of a task are in each phase."""

    phase: dict[str, Int] = {}


class JobStatus(Record, frozen=True):
    """Counts and state of a job as its controller wrote them; `controlled_resources` is the controller's memory."""

    state: JobState = JobState()
    min_available: Int = 0
    pending: Int = 0
    running: Int = 0
    succeeded: Int = 0
    failed: Int = 0
    terminating: Int = 0
    unknown: Int = 0
    version: Int = 0
    retry_count: Int = 0
    running_duration: str = ""
    task_status_count: dict[str, TaskState] = {}
    controlled_resources: dict[str, str] = {}
    conditions: tuple[JobCondition, ...] = ()


class Job(Record, frozen=True):
    """A batch job of several roles (batch.volcano.sh)."""

    metadata: ObjectMeta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class CommandTarget(Record, frozen=True):
    """The target of a command."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class Command(Record, frozen=True):
    """A wish of a user, such as AbortJob; carried out once and deleted (bus.volcano.sh)."""

    metadata: ObjectMeta
    action: str = ""
    target: CommandTarget | None = None
    reason: str = ""
    message: str = ""

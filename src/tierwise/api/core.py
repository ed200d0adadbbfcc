"""Kubernetes' own objects, as far as scheduling looks at them: nodes, pods, priorities, disruption budgets.

Built by the codec. Optional objects are None and optional texts "" where absent; integers are None where absence
means something else than zero. Enumerations are plain text: an unknown value is for `validate` to report.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Final

from msgspec import Meta, Struct, field

from tierwise.api.quantity import Quantity

__all__ = [
    "Affinity",
    "AzureDisk",
    "Condition",
    "ConfigMap",
    "Container",
    "ContainerImage",
    "ContainerPort",
    "ContainerState",
    "ContainerStateTerminated",
    "ContainerStateWaiting",
    "ContainerStatus",
    "EphemeralSource",
    "GoogleDisk",
    "Int",
    "LabelSelector",
    "Labels",
    "Namespace",
    "NetworkPolicy",
    "Node",
    "NodeAffinity",
    "NodeSelector",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "NumberedDisk",
    "ObjectMeta",
    "OwnerReference",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodDisruptionBudget",
    "PodDisruptionBudgetSpec",
    "PodResourceClaim",
    "PodSpec",
    "PodStatus",
    "PodTemplate",
    "PreferredNodeTerm",
    "PriorityClass",
    "Record",
    "Requirement",
    "ResourceList",
    "ResourceQuota",
    "ResourceRequirements",
    "Service",
    "Taint",
    "Toleration",
    "TopologySpreadConstraint",
    "Volume",
    "WeightedPodAffinityTerm",
    "format_micro_time",
    "format_time",
    "parse_time",
    "read_number",
]

Labels = dict[str, str]
_FIRST, _LAST = -62_135_596_800, 253_402_300_799  # times that can be written: years 1 to 9999

Int = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""An integer that fits 64 bits. Narrower limits are admission's business; this one keeps arrays from overflowing."""

# RFC 3339: the date and time parts, the fraction, and the offset.
_DIGITS: Final = 19
"""From so many digits on a number may be beyond 64 bits."""

_TIME: Final = re.compile(r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(\.\d+)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)


class Record(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A piece of an API object. Records form trees, never cycles, hence no garbage collection."""


class OwnerReference(Record, frozen=True):
    """The object that an object belongs to and is deleted with."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Record, frozen=True):
    """Identity, labels and life of an object; times are the text that the API shows, "" where there is none."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    labels: Labels = {}
    annotations: Labels = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Requirement(Record, frozen=True):
    """One condition on a label or field; `selector.holds` says what it means."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Record, frozen=True):
    """Conditions on labels, all of which must hold; `selector.matches` says what it means."""

    match_labels: Labels = {}
    match_expressions: tuple[Requirement, ...] = ()


@lru_cache(maxsize=65536)
def read_number(text: str) -> int | None:
    """The whole number that a label or an annotation spells with plain digits; None where it spells none.

    What is beyond 64 bits counts as the largest: a number of thousands of digits is never computed.
    """
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        return None
    size = int(digits) if len(digits) < _DIGITS else 2**63 - 1
    return -size if text.startswith("-") else size


@lru_cache(maxsize=1 << 8)
def format_time(seconds: float) -> str:
    """Seconds since the epoch as the API shows times: RFC 3339, UTC, whole seconds, at most the end of year 9999."""
    moment = datetime.fromtimestamp(min(max(int(seconds), _FIRST), _LAST), UTC)
    return moment.isoformat().replace("+00:00", "Z")


def format_micro_time(seconds: float) -> str:
    """A moment as Kubernetes' MicroTime, in UTC and with microseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


@lru_cache(maxsize=1 << 14)
def parse_time(text: str) -> float:
    """Seconds since the epoch for an RFC 3339 time; ValueError for anything else.

    Digits beyond microseconds are dropped: the API itself keeps whole seconds, or microseconds in leases.
    """
    form = _TIME.fullmatch(text)
    if form is None:
        raise ValueError(f'"{text[:40]}" is not an RFC 3339 time')
    date, clock, fraction, offset = form.groups()
    zone = "+00:00" if offset in "Zz" else offset
    try:
        moment = datetime.fromisoformat(f"{date}T{clock}{(fraction or '')[:7]}{zone}")
    except ValueError as error:
        raise ValueError(f'"{text}" is not a time: {error}') from None
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()


# Where a pod wants to run: affinity to nodes and to other pods, and spreading over topologies.
#
# Part of `core`'s pod specification and built by the codec. Terms within a list of node selector terms are
# alternatives; the conditions within one term must all hold.


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class NodeSelectorTerm(Record, frozen=True):
    """Conditions on a node's labels and on its fields (`metadata.name`); an empty term matches no node."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Record, frozen=True):
    """Alternatives, one of which must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredNodeTerm(Record, frozen=True):
    """A wish with a weight."""

    weight: Int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()

    @property
    def counted(self) -> int:
        """The weight as far as the API server takes one: between 0 and 100."""
        return min(max(self.weight, 0), 100)


class NodeAffinity(Record, frozen=True):
    """The nodes that a pod may run on, and those that it prefers."""

    required: NodeSelector | None = field(default=None, name=_REQUIRED)
    preferred: tuple[PreferredNodeTerm, ...] = field(default=(), name=_PREFERRED)


class PodAffinityTerm(Record, frozen=True):
    """Other pods, chosen by label and namespace, and how near is near.

    A `label_selector` of None matches no pod; a `namespace_selector` of None adds no namespace, an empty one all.
    """

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Record, frozen=True):
    """A wish with a weight."""

    weight: Int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()

    @property
    def counted(self) -> int:
        """The weight as far as the API server takes one: between 0 and 100."""
        return min(max(self.weight, 0), 100)


class PodAffinity(Record, frozen=True):
    """Pods to be near to; the same record serves as anti-affinity, for pods to be away from."""

    required: tuple[PodAffinityTerm, ...] = field(default=(), name=_REQUIRED)
    preferred: tuple[WeightedPodAffinityTerm, ...] = field(default=(), name=_PREFERRED)


class Affinity(Record, frozen=True):
    """All of a pod's affinities."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Record, frozen=True):
    """How evenly matching pods are spread over the values of a node label."""

    max_skew: Int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int | None = None
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: str = ""
    node_taints_policy: str = ""


ResourceList = dict[str, Quantity]
"""Amounts by resource name, spelled as in the manifest; the codec has checked that every one can be counted."""


class Condition(Record, frozen=True):
    """One line of an object's status; also used by Volcano's objects.

    When it was last confirmed or looked at is left out: kubelets write that every few minutes, and nothing depends on
    it; and a status that was never written is null, which would cost every pod its short way in.
    """

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    transition_id: str = field(default="", name="transitionID")


class Taint(Record, frozen=True):
    """Taint of a node: keeps off pods that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str = ""


class ContainerImage(Record, frozen=True):
    """An image that a node already has."""

    names: tuple[str, ...] = ()
    size_bytes: Int = 0


class NodeSpec(Record, frozen=True):
    """Desired state of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = field(default="", name="providerID")


class NodeAddress(Record, frozen=True):
    """One of the addresses of a node."""

    type: str = ""
    address: str = ""


class NodeStatus(Record, frozen=True):
    """Reported state of a node: its capacity, conditions and addresses."""

    addresses: tuple[NodeAddress, ...] = ()
    allocatable: ResourceList = {}
    capacity: ResourceList = {}
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()


class Node(Record, frozen=True):
    """A node of the cluster."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Toleration(Record, frozen=True):
    """A taint that a pod puts up with."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int | None = None


class ContainerPort(Record, frozen=True):
    """A port of a container; `host_port` is 0 where it takes none of the node's."""

    name: str = ""
    container_port: Int = 0
    host_port: Int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = ""


class ContainerClaim(Record, frozen=True):
    """A claim of its pod's that a container uses, or one request of it."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Record, frozen=True):
    """Requests and limits of a container."""

    requests: ResourceList = {}
    limits: ResourceList = {}
    claims: tuple[ContainerClaim, ...] = ()


class RestartRule(Record, frozen=True):
    """Action to take when a container ends with certain exit codes."""

    action: str = ""


class Container(Record, frozen=True):
    """One container; an init container with restart policy "Always" is a sidecar."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    restart_policy_rules: tuple[RestartRule, ...] = ()


class PodSchedulingGate(Record, frozen=True):
    """A reason not to look at a pod yet."""

    name: str = ""


class GoogleDisk(Record, frozen=True):
    """A disk that is attached to nodes, by name."""

    pd_name: str = ""
    read_only: bool = False


class NumberedDisk(Record, frozen=True):
    """A disk of Amazon's, of OpenStack's or of Portworx's, by its identity."""

    volume_id: str = field(default="", name="volumeID")
    read_only: bool = False


class AzureDisk(Record, frozen=True):
    """A disk by its address; of no kind unless it says so."""

    disk_uri: str = field(default="", name="diskURI")
    kind: str = ""


class IscsiDisk(Record, frozen=True):
    """A disk that is reached by iSCSI."""

    iqn: str = ""
    read_only: bool = False


class CephDisk(Record, frozen=True):
    """A block device of Ceph's; an empty pool is the one that the API server writes there."""

    monitors: tuple[str, ...] = ()
    pool: str = ""
    image: str = ""
    read_only: bool = False


class ClaimSource(Record, frozen=True):
    """A claim that was made apart from the pod."""

    claim_name: str = ""


class EphemeralSource(Record, frozen=True):
    """A claim that is made for the pod and goes with it; `volume_claim_template` as it was written."""

    volume_claim_template: dict[str, object] = {}


class Volume(Record, frozen=True):
    """A volume of a pod: the kinds that bear on where it may run. A volume of another kind has its name alone."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None
    aws_elastic_block_store: NumberedDisk | None = None
    azure_disk: AzureDisk | None = None
    cinder: NumberedDisk | None = None
    gce_persistent_disk: GoogleDisk | None = None
    iscsi: IscsiDisk | None = None
    portworx_volume: NumberedDisk | None = None
    rbd: CephDisk | None = None


class SchedulingGroup(Record, frozen=True):
    """The PodGroup of scheduling.k8s.io that a pod belongs to."""

    pod_group_name: str = ""


class WorkloadReference(Record, frozen=True):
    """The group of a Workload of scheduling.k8s.io that a pod belongs to, as Kubernetes 1.35 has it."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class PodResourceClaim(Record, frozen=True):
    """A claim of devices by the name that its pod has for it: one that exists, or one made from a template."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class PodSpec(Record, frozen=True):
    """Desired state of a pod. `priority` is None until admission or the scheduler has looked up the class."""

    scheduler_name: str = ""
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: ResourceList = {}
    resources: ResourceRequirements | None = None
    priority: Int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    host_network: bool = False
    host_users: bool = True
    restart_policy: str = ""
    termination_grace_period_seconds: Int | None = None
    active_deadline_seconds: Int | None = None
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None


class ContainerStateWaiting(Record, frozen=True):
    """Why a container does not run yet, or not now."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(Record, frozen=True):
    """Since when a container runs."""

    started_at: str = ""


class ContainerStateTerminated(Record, frozen=True):
    """How a container ended."""

    exit_code: Int = 0
    reason: str = ""
    started_at: str = ""
    finished_at: str = ""


class ContainerState(Record, frozen=True):
    """Where a container is in its life: at most one of the three is there."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Record, frozen=True):
    """Reported state of one container."""

    name: str = ""
    ready: bool = False
    restart_count: Int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}


class PodResourceClaimStatus(Record, frozen=True):
    """The claim that was made for a pod from a template; "" where none is needed."""

    name: str = ""
    resource_claim_name: str = ""


class ContainerExtendedResourceRequest(Record, frozen=True):
    """The request of a claim that serves an extended resource of a container."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(Record, frozen=True):
    """The claim that was made for the extended resources of a pod."""

    resource_claim_name: str = ""
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()


class PodStatus(Record, frozen=True):
    """The status of a pod; the phase is empty until a kubelet or a controller sets it."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    start_time: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None

    @property
    def ended(self) -> bool:
        """Whether the pod has run to its end, well or not."""
        return self.phase in ("Succeeded", "Failed")


class Pod(Record, frozen=True):
    """A pod, waiting where `spec.node_name` is empty."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplate(Record, frozen=True):
    """Template for the pods of a controller. `raw` is the template as it was written, with every field that tierwise
    does not know: pods made from it must carry those as well. The codec fills it in.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    raw: dict[str, object] = {}


class PriorityClass(Record, frozen=True):
    """A named priority."""

    metadata: ObjectMeta
    value: Int = 0
    global_default: bool = False
    preemption_policy: str = ""
    description: str = ""


class ConfigMap(Record, frozen=True):
    """Named texts."""

    metadata: ObjectMeta
    data: dict[str, str] = {}


class Service(Record, frozen=True):
    """A name under which pods are found; made by controllers, and looked at only for whether it is there."""

    metadata: ObjectMeta


class NetworkPolicy(Record, frozen=True):
    """Who may talk to some pods; made by controllers, and looked at only for whether it is there."""

    metadata: ObjectMeta


class Namespace(Record, frozen=True):
    """A namespace; its labels are what namespace selectors look at."""

    metadata: ObjectMeta


class PodDisruptionBudgetSpec(Record, frozen=True):
    """How many pods must stay, or may go: a number or a percentage."""

    min_available: Int | str | None = None
    max_unavailable: Int | str | None = None
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Record, frozen=True):
    """Counts that the budget's controller last reported."""

    disruptions_allowed: Int = 0
    current_healthy: Int = 0
    desired_healthy: Int = 0
    expected_pods: Int = 0
    disrupted_pods: dict[str, str] = {}


class PodDisruptionBudget(Record, frozen=True):
    """A limit on voluntary evictions."""

    metadata: ObjectMeta
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus | None = None


class ResourceQuotaSpec(Record, frozen=True):
    """Limits of a namespace's usage."""

    hard: ResourceList = {}


class ResourceQuotaStatus(Record, frozen=True):
    """Usage of a namespace as last counted."""

    hard: ResourceList = {}
    used: ResourceList = {}


class ResourceQuota(Record, frozen=True):
    """A namespace's quota."""

    metadata: ObjectMeta
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()

"""Devices as Kubernetes hands them out (`resource.k8s.io`): claims, templates of claims, classes, and slices of pools.

Built by the codec, as far as a scheduler looks at them. A claim asks for devices of a class; drivers publish the
devices of a pool in slices; the scheduler writes into the status of a claim which devices it was given.
"""

from msgspec import field
from msgspec.structs import force_setattr

from tierwise.api.core import Condition, Int, NodeSelector, ObjectMeta, Record, ResourceList
from tierwise.api.quantity import Quantity

__all__ = [
    "AllocatedDeviceStatus",
    "ConsumerReference",
    "Device",
    "DeviceAllocationResult",
    "DeviceAttribute",
    "DeviceCapacity",
    "DeviceClaim",
    "DeviceClass",
    "DeviceRequest",
    "DeviceSelector",
    "DeviceSubRequest",
    "DeviceTaint",
    "DeviceToleration",
    "ExactDeviceRequest",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceSlice",
]


class DeviceAttribute(Record, frozen=True):
    """A value that selectors look at: one of four types, or a list of one."""

    int_value: Int | None = field(default=None, name="int")
    bool_value: bool | None = field(default=None, name="bool")
    string_value: str | None = field(default=None, name="string")
    version_value: str | None = field(default=None, name="version")
    int_values: tuple[Int, ...] | None = field(default=None, name="ints")
    bool_values: tuple[bool, ...] | None = field(default=None, name="bools")
    string_values: tuple[str, ...] | None = field(default=None, name="strings")
    version_values: tuple[str, ...] | None = field(default=None, name="versions")


class CapacityRequestPolicyRange(Record, frozen=True):
    """Amounts from `min` to `max` in steps."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Record, frozen=True):
    """Which amounts of a capacity may be asked for, and what counts where none is."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Record, frozen=True):
    """How much of something a device has."""

    value: Quantity = 0
    request_policy: CapacityRequestPolicy | None = None


class Counter(Record, frozen=True):
    """An amount that devices share."""

    value: Quantity = 0


class CounterSet(Record, frozen=True):
    """Counters that the devices of a pool draw on together: what is behind partitions of one card."""

    name: str = ""
    counters: dict[str, Counter] = {}


class CounterConsumption(Record, frozen=True):
    """Amounts of a counter set that a device uses once it is allocated."""

    counter_set: str = ""
    counters: dict[str, Counter] = {}


class DeviceTaint(Record, frozen=True):
    """Taint of a device: keeps off claims that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str = ""


class BasicDevice(Record, frozen=True):
    """Attributes and capacity of a device; v1beta1 nests them one level deeper than later versions."""

    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[CounterConsumption, ...] = ()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False


class Device(BasicDevice, frozen=True):
    """One device as its driver describes it; node fields count where its slice leaves nodes to devices.

    A description of v1beta1 is taken over when the record is made.
    """

    name: str = ""
    basic: BasicDevice | None = None

    def __post_init__(self) -> None:
        if self.basic is not None:
            for name in BasicDevice.__struct_fields__:
                force_setattr(self, name, getattr(self.basic, name))
            force_setattr(self, "basic", None)


class ResourcePool(Record, frozen=True):
    """The pool that a slice is a part of: of the newest generation, `resource_slice_count` slices make it whole."""

    name: str = ""
    generation: Int = 0
    resource_slice_count: Int = 0


class ResourceSliceSpec(Record, frozen=True):
    """Devices or sets of counters, and the nodes that reach them."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Record, frozen=True):
    """A part of a pool of devices, as a driver publishes it."""

    metadata: ObjectMeta
    spec: ResourceSliceSpec = ResourceSliceSpec()


class CelSelector(Record, frozen=True):
    """A condition on a device, in Kubernetes' expression language."""

    expression: str = ""


class DeviceSelector(Record, frozen=True):
    """A condition on a device; one without `cel` is of a kind that is not known here."""

    cel: CelSelector | None = None


class DeviceToleration(Record, frozen=True):
    """A taint of a device that a request puts up with."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int | None = None


class CapacityRequirements(Record, frozen=True):
    """How much of a device's capacities is asked for."""

    requests: ResourceList = {}


class DeviceQuery(Record, frozen=True):
    """Devices of one class: a number of them, or all that a node has."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(DeviceQuery, frozen=True):
    """One of several alternatives of a request."""

    name: str = ""


class ExactDeviceRequest(DeviceQuery, frozen=True):
    """Request of a claim without alternatives."""

    admin_access: bool | None = None


class DeviceRequest(ExactDeviceRequest, frozen=True):
    """Request of a claim under one name: one exact request, or the first of several that can be satisfied. In v1beta1
    the fields of `exactly` are in the request itself; they are taken over when the record is made.
    """

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()

    def __post_init__(self) -> None:
        if self.device_class_name and self.exactly is None and not self.first_available:
            fields = ExactDeviceRequest.__struct_fields__
            force_setattr(self, "exactly", ExactDeviceRequest(**{name: getattr(self, name) for name in fields}))
            empty = DeviceRequest()
            for name in fields:
                force_setattr(self, name, getattr(empty, name))


class DeviceConstraint(Record, frozen=True):
    """Attribute in which the devices of some or all requests must agree, or must differ."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class OpaqueConfiguration(Record, frozen=True):
    """Settings that only a driver understands."""

    driver: str = ""
    parameters: object = None


class DeviceClassConfiguration(Record, frozen=True):
    """Settings that go with every device of a class."""

    opaque: OpaqueConfiguration | None = None


class DeviceClaimConfiguration(Record, frozen=True):
    """Settings that go with the devices of some requests, or of all."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueConfiguration | None = None


class DeviceClaim(Record, frozen=True):
    """Device requests and constraints of a claim."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Record, frozen=True):
    """Desired devices of a claim; it never changes."""

    devices: DeviceClaim = DeviceClaim()


class DeviceAllocationResult(Record, frozen=True):
    """A device that a claim was given, and for which request."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str = field(default="", name="shareID")
    consumed_capacity: ResourceList = {}


class DeviceAllocationConfiguration(Record, frozen=True):
    """Settings for the driver, from the class or from the claim."""

    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueConfiguration | None = None


class DeviceAllocation(Record, frozen=True):
    """Devices and settings."""

    results: tuple[DeviceAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Record, frozen=True):
    """Devices allocated to a claim, and the nodes that can reach them; no node selector means all nodes."""

    devices: DeviceAllocation = DeviceAllocation()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str = ""


class ConsumerReference(Record, frozen=True):
    """A consumer of a claim."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(Record, frozen=True):
    """State of an allocated device as its driver reports it."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    conditions: tuple[Condition, ...] = ()


class ResourceClaimStatus(Record, frozen=True):
    """Reported state of a claim: its allocation and its consumers."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(Record, frozen=True):
    """Devices that pods ask for and share."""

    metadata: ObjectMeta
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Record, frozen=True):
    """Template for claims."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Record, frozen=True):
    """A pattern from which every pod that names it gets a claim of its own."""

    metadata: ObjectMeta
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceClassSpec(Record, frozen=True):
    """Which devices are of a class, and what goes with them."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str = ""


class DeviceClass(Record, frozen=True):
    """A name for devices of one sort."""

    metadata: ObjectMeta
    spec: DeviceClassSpec = DeviceClassSpec()

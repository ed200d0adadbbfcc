"""Reads device claims into model types: pools from slices, and requests matched with kinds of devices.

Kubernetes' rules, one by one: a pool counts in its newest generation and when all of its slices are there; a class
narrows what a request may have; taints bar devices unless they are tolerated; extended resources that a class serves
become the requests of a claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Final

import msgspec

from tierwise.api import resource as api
from tierwise.api.core import Container, Pod, PodResourceClaim, PodSpec
from tierwise.api.eviction_terms import status_time
from tierwise.api.quantity import milli, whole
from tierwise.model.devices import Extended, Kind, PlannedClaim, PlannedRequest

if TYPE_CHECKING:
    from tierwise.api.cel import CelError

__all__ = [
    "ANY_CLAIM",
    "EXTENDED_CLAIM",
    "MOST_CONSUMERS",
    "MOST_DEVICES",
    "Binding",
    "KindKeys",
    "Planner",
    "Selectors",
    "binding_of",
    "claim_name",
    "compared_names",
    "expressions",
    "extended",
    "extended_claim_name",
    "extended_names",
    "is_consumer",
    "looks_at",
    "owns",
    "pool_fault",
    "slices_fault",
    "unfit",
]

MOST_CONSUMERS: Final = 256
"""For how many pods a claim can be reserved."""

MOST_DEVICES: Final = 32
"""How many devices a claim can hold."""

ANY_CLAIM: Final = "\0"
"""Takes the place of the name of a claim in what is said of all claims alike."""

EXTENDED_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of a claim that was made for the extended resources of its pod."""

_IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
_BARRING: Final = frozenset({"NoSchedule", "NoExecute"})
_YES = 1
_TAINTED = 2
_FAULTS = 3
_MOST_FAULTS: Final = 200

_REQUEST_COST: Final = 1_000_000
"""What the selectors of one request may cost together beyond `_KIND_COST`: as much as Kubernetes allows one of them."""

_KIND_COST: Final = 200
"""What they may cost for each kind of devices that they tell apart: several times what people write."""

Request = api.ExactDeviceRequest | api.DeviceSubRequest
Names = frozenset[tuple[str, str]]

_encode = msgspec.msgpack.Encoder().encode


# -- claims of a pod


def claim_name(pod: Pod, claim: PodResourceClaim) -> str | None:
    """The claim that a pod means; "" where it needs none after all, None where none was made for it yet."""
    if claim.resource_claim_name:
        return claim.resource_claim_name
    names = (status.resource_claim_name for status in pod.status.resource_claim_statuses if status.name == claim.name)
    return next(names, None)


def owns(pod: Pod, claim: api.ResourceClaim) -> bool:
    """Whether a claim was made for this pod; without uids, as in files, names tell."""
    meta = pod.metadata
    for owner in claim.metadata.owner_references:
        if owner.controller and owner.kind == "Pod":
            if owner.uid and meta.uid:
                return owner.uid == meta.uid
            return owner.name == meta.name
    return False


def is_consumer(reference: api.ConsumerReference, pod: Pod) -> bool:
    """Whether a claim is reserved for this pod by that entry."""
    if reference.resource != "pods" or reference.api_group:
        return False
    meta = pod.metadata
    if reference.uid and meta.uid:
        return reference.uid == meta.uid
    return reference.name == meta.name


def unfit(pod: Pod, entry: PodResourceClaim, claims: Mapping[str, api.ResourceClaim]) -> str:
    """Why a pod must wait for one of its claims before anything else is looked at; "" where it need not."""
    if not entry.resource_claim_name and not entry.resource_claim_template_name:
        return f"spec.resourceClaims {entry.name} names neither a claim nor a template"
    name = claim_name(pod, entry)
    if name is None:
        template = entry.resource_claim_template_name
        return f"no ResourceClaim was made yet for its claim {entry.name} from the template {template}"
    if not name:
        return ""
    claim = claims.get(f"{pod.metadata.namespace or 'default'}/{name}")
    if claim is None:
        return f"ResourceClaim {name} does not exist"
    if claim.metadata.deletion_timestamp:
        return f"ResourceClaim {name} is being deleted"
    if entry.resource_claim_template_name and not owns(pod, claim):
        return f"ResourceClaim {name} was not made for this pod"
    status = claim.status
    full = len(status.reserved_for) >= MOST_CONSUMERS
    if full and not any(is_consumer(consumer, pod) for consumer in status.reserved_for):
        return f"ResourceClaim {name} is reserved for {MOST_CONSUMERS} pods already"
    return ""


class Binding(msgspec.Struct, frozen=True):
    """How far a driver is with devices that it prepares once they are given away, such as those of a fabric.

    Kubernetes looks at the devices of a claim in their order, and at the first that is not ready only.
    """

    device: str = ""  # the device that is not ready; "" where all of them are
    condition: str = ""  # what it lacks, or the failure that its driver reports
    failed: bool = False
    since: float = 0.0  # when the devices were given away; 0 where that is not known


def binding_of(claim: api.ResourceClaim) -> Binding | None:
    """The state of an allocated claim whose devices have binding conditions; None for all others."""
    allocation = claim.status.allocation
    if allocation is None or not any(result.binding_conditions for result in allocation.devices.results):
        return None
    by_device = {(device.driver, device.pool, device.device): device.conditions for device in claim.status.devices}
    since = status_time(allocation.allocation_timestamp)
    for result in allocation.devices.results:
        if not result.binding_conditions:
            continue
        conditions = by_device.get((result.driver, result.pool, result.device))
        by_type = {condition.type: condition for condition in reversed(conditions or ())}
        for name in result.binding_failure_conditions if conditions is not None else ():
            if name in by_type and by_type[name].status == "True":
                words = ": ".join(text for text in (by_type[name].reason, by_type[name].message) if text)
                return Binding(result.device, f"{name} ({words})" if words else name, failed=True, since=since)
        for name in result.binding_conditions:
            if name not in by_type or by_type[name].status != "True":
                return Binding(result.device, name, since=since)
    return Binding(since=since)


# -- slices


def pool_fault(slices: Sequence[api.ResourceSlice]) -> str:
    """Why nothing is taken from a pool of one node, given the slices of its newest generation; "" where all is well.

    What begins with "being" may pass: the driver has not published all of it yet.
    """
    return "being updated" if len(slices) != slices[0].spec.pool.resource_slice_count else slices_fault(slices)


def slices_fault(slices: Sequence[api.ResourceSlice]) -> str:
    """Error that makes slices unusable: a repeated name of a device or counter set, or unknown counters. "" without
    one.
    """
    devices = (
        slices[0].spec.devices if len(slices) == 1 else [d for slice_part in slices for d in slice_part.spec.devices]
    )
    if len({device.name for device in devices}) < len(devices):
        return "a device is there twice"
    groups: list[api.CounterSet] = []
    for slice_part in slices:
        groups.extend(slice_part.spec.shared_counters)
    if len({group.name for group in groups}) < len(groups):
        return "a counter set is there twice"
    return _counters_fault(devices, groups)


def _counters_fault(devices: Sequence[api.Device], groups: Sequence[api.CounterSet]) -> str:
    """That a device uses a counter that no set has; "" if none does."""
    counters = set()
    for group in groups:
        for name in group.counters:
            counters.add((group.name, name))
    for device in devices:
        for counter_use in device.consumes_counters:
            if any((counter_use.counter_set, name) not in counters for name in counter_use.counters):
                return f"device {device.name} draws on counters that do not exist"
    return ""


class KindKeys:
    """Keys of the devices of one driver: equal for those that agree in everything that selectors look at."""

    def __init__(self, driver: str, names: Names) -> None:
        self._driver = driver
        self._whole = any(not name for _, name in names)  # all of a domain: then all of the device
        driver_names = [name for domain, name in names if domain in (driver, _ANY_DRIVER)]
        self._names = tuple(sorted({*driver_names, *(f"{domain}/{name}" for domain, name in names)}))
        self._alike = not self._names and not self._whole  # no selector looks at what drivers say of devices

    def of_all(self, devices: Iterable[api.Device]) -> list[object]:
        """The keys of devices; there may be a hundred thousand of which nothing matters but that they are there."""
        if not self._alike:
            return [self.of(device) for device in devices]
        return [
            self.of(d)
            if d.taints or d.binding_conditions or d.allow_multiple_allocations or d.consumes_counters
            else self._driver
            for d in devices
        ]

    def of(self, device: api.Device) -> object:
        """The key of a device."""
        odd = device.allow_multiple_allocations or device.consumes_counters
        if self._whole or odd:
            seen = sorted(device.attributes.items())
            if not self._whole:
                seen = [(name, attribute_of_device) for name, attribute_of_device in seen if name in self._names]
            return _encode((self._driver, seen, sorted(device.capacity.items()), device.taints, _rest(device)))
        attributes = device.attributes
        capacity = device.capacity
        return (
            self._driver,
            tuple([attributes.get(name) for name in self._names]),
            tuple([capacity.get(name) for name in self._names]),
            device.taints,
            bool(device.binding_conditions),
        )


def _rest(device: api.Device) -> tuple[object, ...]:
    return device.consumes_counters, device.allow_multiple_allocations, bool(device.binding_conditions)


# -- what is asked for


def expressions(spec: api.DeviceClaim) -> Iterable[tuple[str, ...]]:
    """The selectors of a claim, for each of its requests that has any."""
    for request in spec.requests:
        for option in (request.exactly, *request.first_available):
            if option is not None and option.selectors:
                yield _texts(option.selectors)


_ANY_DRIVER: Final = "*"


def looks_at(text: str) -> Names:
    """The attributes and capacities that a selector looks at, by domain and name."""
    from tierwise.api.cel import CelError, selector  # most clusters have no selectors

    try:
        return selector(text).looks_at
    except CelError:
        return frozenset()  # it fails on every device alike


def compared_names(spec: api.DeviceClaim) -> Iterable[tuple[str, str]]:
    """The attributes that the constraints of a claim compare and the capacities it asks for, by domain and name."""
    for request in spec.requests:
        for option in (request.exactly, *request.first_available):
            if option is not None and option.capacity is not None:
                yield from ((_ANY_DRIVER, name) for name in option.capacity.requests)
    for constraint in spec.constraints:
        domain, _, name = (constraint.match_attribute or constraint.distinct_attribute or "").partition("/")
        if name:
            yield domain, name


class Selectors:
    """Answers of selectors about devices, with their costs; devices that selectors cannot tell apart are evaluated
    once.
    """

    def __init__(self) -> None:
        self._said: dict[str, dict[object, tuple[bool | CelError | None, int]]] = {}  # None: it costs more than that

    def keep(self, texts: Set[str]) -> None:
        """Forget all others."""
        self._said = {text: answer for text, answer in self._said.items() if text in texts}

    def ask(self, text: str, kind: Kind, budget_left: int) -> tuple[bool | CelError, int]:
        """Whether a selector says yes to devices of a kind, or why it says nothing; and its cost, at most `left`.

        What was found out before costs as much again, so that answers do not depend on what was asked before.
        """
        from tierwise.api.cel import LIMIT, TOO_MUCH, CelError, CompileError, TooMuchWorkError, Work, selector

        try:
            compiled = selector(text)
        except CompileError as error:
            return error, 0
        answers = self._said.setdefault(text, {})
        key = KindKeys(kind.driver, compiled.looks_at).of(kind.device)
        if key not in answers or (answers[key][0] is None and answers[key][1] < budget_left):
            budget = Work(budget_left)
            answer: bool | CelError | None
            try:
                answer = compiled.matches(kind.driver, kind.device, budget)
            except TooMuchWorkError as error:
                answer = error if budget_left >= LIMIT else None
            except CelError as error:
                answer = error
            answers[key] = answer, min(budget_left - budget.left, budget_left)
        answer, cost = answers[key]
        return (
            (answer, cost) if answer is not None and cost <= budget_left else (TooMuchWorkError(TOO_MUCH), budget_left)
        )


class Planner:
    """Holds claims against kinds of devices; what selectors say of a kind is asked once."""

    def __init__(self, kinds: Sequence[Kind], classes: Mapping[str, api.DeviceClass], selectors: Selectors) -> None:
        self._kinds = kinds
        self._classes = classes
        self._selectors = selectors
        self._selected: dict[tuple[str, ...], tuple[bytes, tuple[str, ...], int]] = {}
        self._requests: dict[tuple[object, ...], tuple[bytes, tuple[str, ...]]] = {}

    def of_class(self, name: str) -> bytes:
        """Per kind 1 where a device is of a class, whatever taints it has."""
        device_class = self._classes.get(name)
        if device_class is None or any(entry.cel is None for entry in device_class.spec.selectors):
            return bytes(len(self._kinds))
        answers, *_ = self._select(_texts(device_class.spec.selectors), f"class {name}")
        return bytes(answer == _YES for answer in answers)

    def cost(self, texts: tuple[str, ...], whose: str, budget: int) -> int | None:
        """Cost of evaluating a request's selectors on all kinds of devices; None if it exceeds the budget."""
        evaluated = self._selected.get((whose, *texts)) or self._evaluate(texts, whose, budget)
        if evaluated is None or evaluated[2] > budget:
            return None
        self._selected[whose, *texts] = evaluated
        return evaluated[2]

    def plan(self, spec: api.DeviceClaim, name: str) -> PlannedClaim | str:
        """A claim as it can be searched for, or what is wrong with it in itself."""
        faults: list[str] = []
        planned: list[tuple[PlannedRequest, ...]] = []
        for request in spec.requests:
            options = _options(request)
            if not options:
                return f"request {request.name} of {name} is of a type that is not known"
            alternatives = []
            for shown, option in options:
                options_of_request = self._request(shown, option, name, faults)
                if isinstance(options_of_request, str):
                    return options_of_request
                alternatives.append(options_of_request)
            planned.append(tuple(alternatives))
        minimum = sum(min(0 if option.all else option.count for option in options) for options in planned)
        if minimum > MOST_DEVICES:
            return f"{name} asks for {minimum} devices, and a claim can hold {MOST_DEVICES}"
        constraints = []
        for constraint in spec.constraints:
            attribute = constraint.match_attribute or constraint.distinct_attribute
            if not attribute:
                return f"{name} has a constraint of a type that is not known"
            constraints.append((constraint.match_attribute is not None, attribute, frozenset(constraint.requests)))
        return PlannedClaim(tuple(planned), tuple(constraints), tuple(faults))

    def _request(self, shown: str, request: Request, claim: str, faults: list[str]) -> PlannedRequest | str:
        if any(entry.cel is None for entry in request.selectors):
            return f"request {shown} of {claim} has a selector of a type that is not known"
        named = self._classes.get(request.device_class_name)
        if named is None:
            return f"request {shown} of {claim}: device class {request.device_class_name} does not exist"
        if any(entry.cel is None for entry in named.spec.selectors):
            return f"class {request.device_class_name} has a selector of a type that is not known"
        mode = request.allocation_mode or "ExactCount"
        if mode not in ("ExactCount", "All"):
            return f"request {shown} of {claim}: the allocation mode {mode} is not known"
        if request.count < 0:
            return f"request {shown} of {claim} asks for {request.count} devices"
        answers = self._answers(named, request, claim, faults)
        admin = isinstance(request, api.ExactDeviceRequest) and bool(request.admin_access)
        capacity = request.capacity.requests if request.capacity is not None else {}
        return PlannedRequest(
            name=shown,
            device_class=request.device_class_name,
            answers=answers,
            all=mode == "All",
            count=1 if not request.count and mode == "ExactCount" else request.count,
            admin=admin,
            capacity={name: milli(amount) for name, amount in capacity.items()},
            sized=bool(capacity),
        )

    def _answers(self, named: api.DeviceClass, request: Request, claim: str, faults: list[str]) -> bytes:
        """Per kind, whether a request may have its devices; what goes wrong is noted among the faults of its claim."""
        key = named.metadata.name, _texts(request.selectors), request.tolerations
        cached = self._requests.get(key)
        if cached is None:
            class_answers, class_faults, _ = self._select(_texts(named.spec.selectors), f"class {named.metadata.name}")
            second, request_faults, _ = self._select(_texts(request.selectors), claim)
            joined = bytearray(len(self._kinds))
            for i, kind in enumerate(self._kinds):
                if class_answers[i] != _YES:
                    joined[i] = class_answers[i]
                elif second[i] != _YES:
                    joined[i] = second[i] + len(class_faults) if second[i] >= _FAULTS else 0
                else:
                    joined[i] = _TAINTED if _barred(kind.device.taints, request.tolerations) else _YES
            cached = self._requests[key] = bytes(joined), (*class_faults, *request_faults)
        answers, class_faults = cached
        shift = len(faults)
        room = _MOST_FAULTS - len(faults)
        faults += class_faults[: max(room, 0)]
        if not shift or not class_faults:
            return answers
        return bytes(min(answer + shift, 255) if answer >= _FAULTS else answer for answer in answers)

    def _select(self, texts: tuple[str, ...], whose: str) -> tuple[bytes, tuple[str, ...], int]:
        """Per kind, whether all of these selectors match; a fault ends the asking, as in Kubernetes. And its cost."""
        evaluated = self._selected.get((whose, *texts)) or self._evaluate(texts, whose)
        assert evaluated is not None  # it may cost as much as it needs
        self._selected[whose, *texts] = evaluated
        return evaluated

    def _evaluate(
        self, texts: tuple[str, ...], whose: str, budget: int | None = None
    ) -> tuple[bytes, tuple[str, ...], int] | None:
        """See `_select`; None where `most` is not enough to find out."""
        if not texts:
            return bytes([_YES]) * len(self._kinds), (), 0
        from tierwise.api.cel import CelError, CompileError, TooMuchWorkError  # most clusters have no selectors

        keys = self._keys(texts)
        answers = bytearray(len(self._kinds))
        faults = dict[str, int]()
        answer_by_key = dict[object, int]()
        allowed = budget_left = _REQUEST_COST + _KIND_COST * len(set(keys))
        if budget is not None:
            allowed = budget_left = min(allowed, budget)
        for i, kind in enumerate(self._kinds):
            if keys[i] in answer_by_key:
                answers[i] = answer_by_key[keys[i]]
                continue
            answers[i] = _YES
            for number, text in enumerate(texts):
                answer, cost = self._selectors.ask(text, kind, budget_left)
                budget_left -= cost
                if answer is False:
                    answers[i] = 0
                    break
                if isinstance(answer, TooMuchWorkError) and budget_left == 0 and allowed == budget:
                    return None
                if isinstance(answer, CelError):
                    fault = f"{whose}: selector #{number}: {answer}"
                    if len(faults) < _MOST_FAULTS // 4:
                        faults.setdefault(fault, len(faults))
                    answers[i] = _FAULTS + faults.get(fault, 0)
                    if isinstance(answer, CompileError | TooMuchWorkError):  # once is enough
                        answers[i:] = bytes([answers[i]]) * (len(answers) - i)
                        return bytes(answers), tuple(faults), allowed - budget_left
                    break
            answer_by_key[keys[i]] = answers[i]
        return bytes(answers), tuple(faults), allowed - budget_left

    def _keys(self, texts: tuple[str, ...]) -> list[object]:
        """Per kind what these selectors see of it."""
        names: Names = frozenset().union(*map(looks_at, texts))
        drivers = {kind.driver: KindKeys(kind.driver, names) for kind in self._kinds}
        return [drivers[kind.driver].of(kind.device) for kind in self._kinds]


def _options(request: api.DeviceRequest) -> list[tuple[str, Request]]:
    if request.exactly is not None:
        return [(request.name, request.exactly)]
    return [(f"{request.name}/{option.name}", option) for option in request.first_available]


def _texts(selectors: Sequence[api.DeviceSelector]) -> tuple[str, ...]:
    return tuple(entry.cel.expression for entry in selectors if entry.cel is not None)


def _barred(taints: Sequence[api.DeviceTaint], tolerations: Sequence[api.DeviceToleration]) -> bool:
    return any(
        taint.effect in _BARRING and not any(_tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
    )


def _tolerates(toleration: api.DeviceToleration, taint: api.DeviceTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case operator:
            return operator == "Exists"


# -- extended resources that classes serve


def extended_names(classes: Mapping[str, api.DeviceClass]) -> dict[str, str]:
    """By extended resource, the class that serves it; of several the youngest, then the first by name."""
    by_resource = {f"{_IMPLICIT}{name}": name for name in classes}
    best: dict[str, tuple[str, str]] = {}
    for name, device_class in sorted(classes.items()):
        resource = device_class.spec.extended_resource_name
        born = device_class.metadata.creation_timestamp
        if resource and (resource not in best or born > best[resource][0]):
            best[resource] = born, name
    return by_resource | {resource: name for resource, (_, name) in best.items()}


def extended(spec: PodSpec, served: Mapping[str, str]) -> Extended | None:
    """The claim for the extended resources of a pod that classes serve; None where it asks for none.

    Each container has a request of its own. Init containers that end before the others begin use what those have, and
    one more request for the largest of what they lack.
    """
    containers = (*spec.init_containers, *spec.containers)
    short = {
        i
        for i, container in enumerate(containers)
        if i < len(spec.init_containers) and container.restart_policy != "Always"
    }
    requests: list[api.DeviceRequest] = []
    mappings: list[tuple[str, str, str]] = []
    named = sorted({name for container in containers for name in container.resources.requests if name in served})
    requested_names = [name for name in named if any(_asked(container, name) for container in containers)]
    for resource in requested_names:
        by_container = {
            i: _one_request(i, container, resource, served[resource], _asked(container, resource))
            for i, container in enumerate(containers)
            if i not in short and _asked(container, resource)
        }
        mappings += [(containers[i].name, resource, request.name) for i, request in by_container.items()]
        lacking: list[tuple[int, api.DeviceRequest]] = []
        later: list[tuple[str, str, str]] = []
        for i in sorted(short):
            missing = _asked(containers[i], resource)
            for j, request in by_container.items():
                if missing > 0 and j >= i:
                    later.append((containers[i].name, resource, request.name))
                    missing -= _count(request)
            if missing > 0:
                lacking.append((missing, _one_request(i, containers[i], resource, served[resource], missing)))
                later.append((containers[i].name, resource, lacking[-1][1].name))
        if lacking:
            largest = max(lacking, key=lambda pair: pair[0])[1]
            other_names = {request.name for _, request in lacking} - {largest.name}
            later = [(c, r, largest.name if name in other_names else name) for c, r, name in later]
            requests.append(largest)
        requests += by_container.values()
        mappings += later
    if not requests:
        return None
    return Extended(
        api.DeviceClaim(requests=tuple(sorted(requests, key=lambda request: request.name))),
        tuple(requested_names),
        tuple(mappings),
    )


def extended_claim_name(pod: Pod) -> str:
    """The name of the claim for the extended resources of a pod; the same whenever it is asked for.

    So a claim that was made just before a crash is found again.
    """
    import hashlib  # few clusters serve extended resources so

    unique = hashlib.sha256(f"{pod.metadata.uid} {pod.metadata.name}".encode()).hexdigest()[:8]
    return f"{pod.metadata.name[:200]}-extended-resources-{unique}"


def _asked(container: Container, resource: str) -> int:
    return whole(container.resources.requests.get(resource, 0))


def _count(request: api.DeviceRequest) -> int:
    if request.exactly is not None:
        return request.exactly.count
    return 0


def _one_request(index: int, container: Container, resource: str, device_class: str, count: int) -> api.DeviceRequest:
    place = sorted(container.resources.requests).index(resource)
    exactly = api.ExactDeviceRequest(device_class_name=device_class, allocation_mode="ExactCount", count=count)
    return api.DeviceRequest(name=f"container-{index}-request-{place}", exactly=exactly)

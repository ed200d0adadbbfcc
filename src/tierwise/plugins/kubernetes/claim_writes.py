"""The patches of ResourceClaims before a pod is bound: devices, node selector, configuration and reservation.

The same fields in the same order as Kubernetes' scheduler writes them, as merge patches. A claim gets its finalizer
first, so that it is not deleted while a pod uses it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from tierwise.api.codec import Raw, lists
from tierwise.api.core import NodeSelectorTerm, Requirement, format_time
from tierwise.api.quantity import show
from tierwise.api.resource import DeviceClaim, DeviceToleration, ResourceClaim
from tierwise.dialects.kubernetes.devices import EXTENDED_CLAIM
from tierwise.model.devices import Devices, Extended, PlannedRequest
from tierwise.model.job import Job, Task
from tierwise.model.node import NodeTable
from tierwise.plugins.kubernetes.device_allocation import Choice, Reach
from tierwise.port import Key, Prepare

__all__ = ["FAILED_AT", "ClaimWriter", "claim_key", "deallocation"]

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
FAILED_AT: Final = "tierwise.io/device-binding-failed-at"
"""The annotation of a claim that says when its devices last could not be prepared."""

_GROUP: Final = "resource.k8s.io"


class ClaimWriter:
    """Writes for the claims of one cycle; remembers what it has given, for pods that share a claim."""

    def __init__(self, devices: Devices, reach: Reach, nodes: NodeTable, now: float) -> None:
        self._devices = devices
        self._now = format_time(now)
        self._table = devices.table
        self._reach = reach
        self._nodes = nodes
        self.given: dict[str, Raw] = {}  # allocations of this cycle, by path of the claim
        self._reserved: dict[str, list[Raw]] = {}
        self._here: dict[int, Raw] = {}  # by row: the selector of that node
        self._configured = any(device_class.spec.config for device_class in devices.classes.values())

    def writes(
        self,
        job: Job,
        task: Task,
        row: int,
        choices_by_claim: Mapping[str, Sequence[Choice]],
        new_claim: tuple[Extended, Sequence[Choice]] | None,
    ) -> list[Prepare]:
        """All that a task needs before it is bound; `new_claim` are a claim that is yet to be made, and its devices."""
        writes: list[Prepare] = []
        for path in task.claims:
            claim = self._devices.claims.get(path)
            if claim is not None:
                self._of_claim(writes, job, task, row, claim, path, choices_by_claim.get(path))
        if new_claim is not None:
            writes += self._made(job, task, row, *new_claim)
        return writes

    def _of_claim(
        self,
        writes: list[Prepare],
        job: Job,
        task: Task,
        row: int,
        claim: ResourceClaim,
        path: str,
        choices: Sequence[Choice] | None,
    ) -> None:
        """Add what is written on one claim."""
        key = claim_key(path)
        meta = claim.metadata
        if choices is not None:
            changed: Raw = {}
            if FINALIZER not in meta.finalizers:
                changed["finalizers"] = [*meta.finalizers, FINALIZER]
            if FAILED_AT in meta.annotations:
                changed["annotations"] = {FAILED_AT: None}
            if changed:
                writes.append(Prepare(key, {"metadata": changed}, gang=job.key, version=meta.resource_version))
            self.given[path] = self._allocation(claim.spec.devices, choices, row, meta.uid or path)
        reserved_for = self._reserved.get(path)
        if reserved_for is None:
            reserved_for = self._reserved[path] = [lists_of(reservation) for reservation in claim.status.reserved_for]
        task_reference = reference(task)
        if task_reference not in reserved_for:
            reserved_for.append(task_reference)
        elif choices is None:
            return
        status: Raw = {"reservedFor": list(reserved_for)}
        if path in self.given:
            status = {"allocation": self.given[path], **status}
        patch: Raw = {"metadata": {"uid": meta.uid}, "status": status} if meta.uid else {"status": status}
        writes.append(Prepare(key, patch, gang=job.key, status=True))

    def _made(self, job: Job, task: Task, row: int, extended: Extended, choices: Sequence[Choice]) -> Iterator[Prepare]:
        """A claim for the extended resources of a pod, and a word about it on the pod."""
        path = next(path for path in task.claims if path not in self._devices.claims)
        key = claim_key(path)
        namespace, _, pod = task.key.partition("/")
        owner: Raw = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": task.uid, "controller": True}
        spec: Raw = {"devices": msgspec.to_builtins(extended.spec)}
        claim: Raw = {
            "apiVersion": f"{_GROUP}/v1",
            "kind": "ResourceClaim",
            "metadata": {
                "name": key.name,
                "namespace": namespace,
                "annotations": {EXTENDED_CLAIM: "true"},
                "finalizers": [FINALIZER],
                "ownerReferences": [owner],
            },
            "spec": lists_of(spec),
        }
        yield Prepare(key, claim, gang=job.key, create=True)
        allocation = self._allocation(extended.spec, choices, row, path)
        yield Prepare(
            key, {"status": {"allocation": allocation, "reservedFor": [reference(task)]}}, gang=job.key, status=True
        )
        mappings = [
            {"containerName": container, "resourceName": resource, "requestName": request}
            for container, resource, request in extended.mappings
        ]
        status: Raw = {"extendedResourceClaimStatus": {"resourceClaimName": key.name, "requestMappings": mappings}}
        yield Prepare(Key("", "Pod", namespace, pod), {"status": status}, gang=job.key, status=True)

    def _allocation(self, spec: DeviceClaim, choices: Sequence[Choice], row: int, unique: str) -> Raw:
        devices: Raw = {"results": [self._result(spec, choice, i, unique) for i, choice in enumerate(choices)]}
        config = self._config(spec, choices)
        if config:
            devices["config"] = config
        allocation: Raw = {"devices": devices, "allocationTimestamp": self._now}
        selector = self._selector(choices, row)
        if selector is not None:
            allocation["nodeSelector"] = selector
        return allocation

    def _result(self, spec: DeviceClaim, choice: Choice, number: int, unique: str) -> Raw:
        pool = self._table.pools[int(self._table.pool[choice.device])]
        device = self._table.devices[choice.device]
        result: Raw = {
            "request": choice.request.name,
            "driver": pool.driver,
            "pool": pool.name,
            "device": device.name,
        }
        if choice.request.admin:
            result["adminAccess"] = True
        tolerations = _tolerations(spec, choice.request.name)
        if tolerations:
            result["tolerations"] = [lists_of(toleration) for toleration in tolerations]
        if device.binding_conditions:
            result["bindingConditions"] = list(device.binding_conditions)
            result["bindingFailureConditions"] = list(device.binding_failure_conditions)
        if device.allow_multiple_allocations:
            result["shareID"] = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{unique} {number}"))
            if choice.consumed:
                result["consumedCapacity"] = {name: _quantity(amount) for name, amount in choice.consumed.items()}
        return result

    def _config(self, spec: DeviceClaim, choices: Sequence[Choice]) -> list[Raw]:
        """Settings of the classes, each once, then those of the claim that are about what was chosen."""
        configs: list[Raw] = []
        if not spec.config and not self._configured:
            return configs
        by_class: dict[str, list[Raw]] = {}
        request_by_name = {choice.request.name.partition("/")[0]: choice.request for choice in choices}
        for stated in spec.requests:
            request = request_by_name.get(stated.name)
            named = self._devices.classes.get(request.device_class) if request is not None else None
            if request is None or named is None:
                continue
            if request.device_class in by_class:
                for entry in by_class[request.device_class]:
                    names = entry["requests"]
                    assert isinstance(names, list)
                    names.append(request.name)
                continue
            class_configs = [
                {"source": "FromClass", "requests": [request.name], **lists_of(config)} for config in named.spec.config
            ]
            by_class[request.device_class] = class_configs
            configs += class_configs
        return configs + _configs_of_claim(spec, request_by_name)

    def _selector(self, choices: Sequence[Choice], row: int) -> Raw | None:
        """The nodes from which all devices can be reached; None where that is every node."""
        node_selector = self._here.get(row)
        if node_selector is None:
            only = {"key": "metadata.name", "operator": "In", "values": [self._nodes.names[row]]}
            node_selector = self._here[row] = {"nodeSelectorTerms": [{"matchFields": [only]}]}
        if choices and self._table.row[choices[0].device] >= 0:  # of a node's own pool
            return node_selector
        fields: dict[bytes, Requirement] = {}
        labels: dict[bytes, Requirement] = {}
        for choice in choices:
            device = self._table.devices[choice.device]
            part = self._reach.slice_of(choice.device).spec
            by_device = part.per_device_node_selection
            name, selector = (
                (device.node_name, device.node_selector) if by_device else (part.node_name, part.node_selector)
            )
            if name or device.binds_to_node:
                return node_selector
            for term in selector.node_selector_terms[:1] if selector is not None else ():
                fields |= {_same(field): field for field in term.match_fields}
                labels |= {_same(label): label for label in term.match_expressions}
        if not fields and not labels:
            return None
        term = NodeSelectorTerm(match_fields=tuple(fields.values()), match_expressions=tuple(labels.values()))
        return {"nodeSelectorTerms": [lists_of(term)]}


def claim_key(path: str) -> Key:
    """The identity of a claim by its path."""
    namespace, _, name = path.partition("/")
    return Key(_GROUP, "ResourceClaim", namespace, name)


def deallocation(path: str, claim: ResourceClaim) -> Prepare:
    """What takes the devices of a claim back."""
    patch: Raw = {"status": {"allocation": None, "reservedFor": None, "devices": None}}
    return Prepare(claim_key(path), patch, version=claim.metadata.resource_version, status=True)


def reference(task: Task) -> Raw:
    """How a claim says that it is reserved for a pod."""
    return {"resource": "pods", "name": task.key.partition("/")[2], "uid": task.uid}


def _configs_of_claim(spec: DeviceClaim, request_by_name: Mapping[str, PlannedRequest]) -> list[Raw]:
    """Settings of a claim: those for all of its requests, and those for one that was chosen or names them."""
    configs: list[Raw] = []
    for config in spec.config:
        entry = {"source": "FromClaim", **lists_of(config)}
        if not config.requests:
            configs.append(entry)
            continue
        for stated in spec.requests:
            request = request_by_name.get(stated.name)
            if stated.name in config.requests or (request is not None and request.name in config.requests):
                configs.append(entry)
    return configs


def lists_of(value: object) -> Raw:
    """A record as a manifest holds it."""
    builtins = lists(msgspec.to_builtins(value))
    assert isinstance(builtins, dict)
    return builtins


def _same(requirement: Requirement) -> bytes:
    return msgspec.msgpack.encode((requirement.key, requirement.operator, sorted(set(requirement.values))))


def _tolerations(spec: DeviceClaim, name: str) -> tuple[DeviceToleration, ...]:
    for request in spec.requests:
        if request.exactly is not None and request.name == name:
            return request.exactly.tolerations
        for sub in request.first_available:
            if f"{request.name}/{sub.name}" == name:
                return sub.tolerations
    return ()


def _quantity(amount: int) -> str:
    """Thousandths as Kubernetes writes them."""
    if amount % 1000 == 0:
        return show("memory", amount // 1000)
    return f"{amount}m"

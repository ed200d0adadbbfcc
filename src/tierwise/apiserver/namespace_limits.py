"""What a namespace allows, as Kubernetes' admission sees it: LimitRanges, ResourceQuotas, and classes of priority.

New objects pass here whoever makes them: clients through `ObjectApi`, and controllers through the store. What each
ResourceQuota has used is counted by the same function that refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from tierwise.api import codec
from tierwise.api.codec import Raw, part
from tierwise.api.core import Container, Pod, PodSpec, PriorityClass, ResourceQuota, ResourceRequirements
from tierwise.api.errors import InputError
from tierwise.api.quantity import amount, show
from tierwise.apiserver.failures import ApiFailure
from tierwise.apiserver.kinds import of_kind
from tierwise.dialects.kubernetes.requests import counted, effective_request
from tierwise.dialects.workloads.fields import Fields
from tierwise.port import Effect, Key, Objects, PatchStatus

__all__ = ["admitted", "check_limit_range", "quota_statuses"]

_POD: Final = ("", "Pod")
_ENDED: Final = ("Succeeded", "Failed")
_CLAIM: Final = ("", "PersistentVolumeClaim")
_BOUNDS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")


def admitted(objects: Objects, key: Key, raw: Raw) -> Raw:
    """A new object with the defaults of its namespace; ApiFailure where one of its limits is in the way."""
    if (key.group, key.kind) == _POD:
        raw = _with_limits(objects, key, _with_priority(objects, key, raw))
    for quota in _quotas(objects, key.namespace):
        _check_quota(objects, quota, key, raw)
    return raw


def _forbidden(key: Key, why: str) -> ApiFailure:
    served = of_kind(key.group, key.kind)
    resource = served.resource if served is not None else key.kind.lower()
    details: Raw = {"name": key.name, "group": key.group, "kind": served.plural if served is not None else key.kind}
    return ApiFailure(403, "Forbidden", f'{resource} "{key.name}" is forbidden: {why}', details)


# Classes of priority.


def _with_priority(objects: Objects, key: Key, raw: Raw) -> Raw:
    """A pod with the number of its class, or of the default one; of several, the lowest."""
    spec = part(raw, "spec")
    classes = objects.every(PriorityClass)
    usual = sorted(
        (priority_class.value, name) for name, priority_class in classes.items() if priority_class.global_default
    )
    name = str(spec.get("priorityClassName") or (usual[0][1] if usual else ""))
    if not name:
        return raw
    priority_class = classes.get(name)
    if priority_class is None:
        raise _forbidden(key, f"no PriorityClass with name {name} was found")
    if spec.get("priority") not in (None, priority_class.value):
        text = f"the integer value of priority ({spec['priority']}) must not be provided in pod spec"
        raise _forbidden(
            key, f"{text}; priority admission controller computed {priority_class.value} from the PriorityClass"
        )
    policy = spec.get("preemptionPolicy") or priority_class.preemption_policy or "PreemptLowerPriority"
    defaults = {"priorityClassName": name, "priority": priority_class.value, "preemptionPolicy": policy}
    return {**raw, "spec": {**spec, **defaults}}


# LimitRanges.


def _with_limits(objects: Objects, key: Key, raw: Raw) -> Raw:
    """A pod whose containers have the defaults of all LimitRanges, and are within them."""
    items = [item for item in _limit_items(objects, key.namespace) if item.get("type") in ("Container", "Pod")]
    if not items:
        return raw
    spec = dict(part(raw, "spec"))
    for field in ("initContainers", "containers"):
        listed = spec.get(field)
        if isinstance(listed, list):
            spec[field] = [
                _filled(container, items) if isinstance(container, dict) else container for container in listed
            ]
    raw = {**raw, "spec": spec}
    pod: Pod = codec.decode(raw)
    pod_total = {"requests": effective_request(pod.spec), "limits": effective_request(_by_limits(pod.spec))}
    wrong: list[str] = []
    for item in items:
        if item["type"] == "Pod":
            wrong += _outside(item, pod_total)
            continue
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            of_container = {"requests": container.resources.requests, "limits": container.resources.limits}
            wrong += _outside(
                item, {s: {n: amount(n, q) for n, q in quantities.items()} for s, quantities in of_container.items()}
            )
    if wrong:
        raise _forbidden(key, wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")
    return raw


def _limit_items(objects: Objects, namespace: str) -> Iterator[Raw]:
    """Of the LimitRanges of a namespace that can be read: a file may have others."""
    for path in objects.of_kind("", "LimitRange"):
        key = Key.at("", "LimitRange", path)
        with suppress(InputError):
            if (key.namespace or "default") == namespace:
                yield from check_limit_range(objects.raw(key) or {})


def check_limit_range(raw: Raw) -> list[Raw]:
    """The items of a LimitRange; InputError where one cannot be read."""
    items = list(Fields(raw).at("spec").each("limits"))
    for item in items:
        item.text("type")
        for bound in _BOUNDS:
            amounts = item.at(bound)
            for name, quantity in amounts.raw.items():
                try:
                    amount(name, str(quantity))
                except ValueError as error:
                    raise amounts.wrong(name, str(error)) from None
    return [item.raw for item in items]


def _filled(container: Raw, items: Sequence[Raw]) -> Raw:
    """A container with default limits and requests: a maximum is a limit, and a limit or a minimum a request."""
    resources = part(container, "resources")
    limits = dict(part(resources, "limits"))
    requests = dict(part(resources, "requests"))
    requests = {**limits, **requests}
    for item in items:
        if item["type"] == "Container":
            usual = part(item, "max") | part(item, "default")
            default_requests = part(item, "min") | usual | part(item, "defaultRequest")
            limits = {**usual, **limits}
            requests = {**default_requests, **requests}
    by_side = {name: amounts for name, amounts in (("limits", limits), ("requests", requests)) if amounts}
    if by_side:
        return {**container, "resources": {**resources, **by_side}}
    return container


def _outside(item: Raw, resources_by_side: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Texts for amounts of a container or pod that are outside the bounds of a LimitRange."""
    kind = item["type"]
    for bound, side, word in (("min", "requests", "minimum"), ("max", "limits", "maximum")):
        for name, quantity in part(item, bound).items():
            limit = amount(name, str(quantity))
            quantity_here = resources_by_side[side].get(name)
            if quantity_here is None:
                yield f"{word} {name} usage per {kind} is {quantity}.  No {side[:-1]} is specified"
            elif quantity_here < limit if bound == "min" else quantity_here > limit:
                yield f"{word} {name} usage per {kind} is {quantity}, but {side[:-1]} is {show(name, quantity_here)}"
    for name, quantity in part(item, "maxLimitRequestRatio").items():
        low = resources_by_side["requests"].get(name, 0)
        high = resources_by_side["limits"].get(name, 0)
        if not low or high * 1000 > amount("cpu", str(quantity)) * low:
            yield f"{name} max limit to request ratio per {kind} is {quantity}, but it is not kept"


def _by_limits(spec: PodSpec) -> PodSpec:
    """A pod's spec that asks for its limits."""

    def of(container: Container) -> Container:
        return replace(container, resources=ResourceRequirements(requests=container.resources.limits))

    return replace(
        spec, containers=tuple(map(of, spec.containers)), init_containers=tuple(map(of, spec.init_containers))
    )


# ResourceQuotas.


def _quotas(objects: Objects, namespace: str) -> list[ResourceQuota]:
    return [
        quota for quota in objects.every(ResourceQuota).values() if (quota.metadata.namespace or "default") == namespace
    ]


def _check_quota(objects: Objects, quota: ResourceQuota, key: Key, raw: Raw) -> None:
    hard = quota.spec.hard
    scopes = _scopes(objects, quota)
    requested = {name: number for name, number in _use(hard, scopes, key, raw).items() if number}
    name = quota.metadata.name
    unsaid = sorted(_unsaid(hard, scopes, key, raw))
    if unsaid:
        raise _forbidden(key, f"failed quota: {name}: must specify {'; '.join(unsaid)}")
    used = _used(objects, quota, scopes) if requested else {}
    over = [name for name, number in requested.items() if used.get(name, 0) + number > amount(name, hard[name])]
    if over:
        shown = [
            ",".join(f"{name}={show(name, amounts.get(name, 0))}" for name in sorted(over))
            for amounts in (requested, used)
        ]
        limited = ",".join(f"{name}={hard[name]}" for name in sorted(over))
        text = f"exceeded quota: {name}, requested: {shown[0]}, used: {shown[1]}, limited: {limited}"
        raise _forbidden(key, text)


def quota_statuses(objects: Objects) -> Iterator[Effect]:
    """Status patches for quotas whose reported limits or usage are outdated."""
    for path, quota in objects.every(ResourceQuota).items():
        hard = quota.spec.hard
        used = _used(objects, quota, _scopes(objects, quota))
        used_shown = {name: show(name, used.get(name, 0)) for name in hard}
        if quota.status.hard != hard or quota.status.used != used_shown:
            yield PatchStatus(Key.at("", "ResourceQuota", path), {"hard": dict(hard), "used": used_shown})


def _used(objects: Objects, quota: ResourceQuota, scopes: Sequence[Raw]) -> dict[str, int]:
    """Amounts that the objects of a namespace count against a quota."""
    namespace = quota.metadata.namespace or "default"
    total = dict[str, int]()
    for key in objects:
        raw = objects.raw(key) if (key.namespace or "default") == namespace else None
        for name, number in (_use(quota.spec.hard, scopes, key, raw) if raw is not None else {}).items():
            total[name] = total.get(name, 0) + number
    return total


def _use(hard: Mapping[str, object], scopes: Sequence[Raw], key: Key, raw: Raw) -> dict[str, int]:
    """Amounts that one object counts against a quota: the object itself, and its requests."""
    served = of_kind(key.group, key.kind)
    if served is None or not served.namespaced:
        return {}
    counts = {f"count/{served.resource}": 1} | ({served.plural: 1} if not key.group else {})
    if (key.group, key.kind) == _POD:
        pod: Pod = codec.decode(raw)
        if pod.status.phase in _ENDED or not all(_within(scope, pod) for scope in scopes):
            return {}
        asked = effective_request(counted(pod))
        counts |= asked | {f"requests.{name}": number for name, number in asked.items()}
        counts |= {f"limits.{name}": number for name, number in effective_request(_by_limits(pod.spec)).items()}
    elif scopes:
        return {}
    elif (key.group, key.kind) == _CLAIM:
        requests = part(part(part(raw, "spec"), "resources"), "requests")
        counts["requests.storage"] = amount("storage", str(requests.get("storage", "0")))
    return {name: number for name, number in counts.items() if name in hard}


def _unsaid(hard: Mapping[str, object], scopes: Sequence[Raw], key: Key, raw: Raw) -> Iterator[str]:
    """Names of resources that containers must state under the quota, and do not."""
    if (key.group, key.kind) != _POD:
        return
    pod: Pod = codec.decode(raw)
    for name in hard if all(_within(scope, pod) for scope in scopes) else ():
        side, _, resource = name.rpartition(".") if "." in name else ("requests", "", name)
        if side not in ("requests", "limits") or resource not in _COMPUTE:
            continue
        for container in pod.spec.containers:
            resources = container.resources
            listed = resources.limits if side == "limits" else {**resources.limits, **resources.requests}
            if resource not in listed:
                yield f"{name} for: {container.name}"


def _scopes(objects: Objects, quota: ResourceQuota) -> list[Raw]:
    """Which pods a quota is about, as expressions."""
    raw = objects.raw(Key("", "ResourceQuota", quota.metadata.namespace or "default", quota.metadata.name)) or {}
    spec = part(raw, "spec")
    plain = spec.get("scopes")
    listed = part(spec, "scopeSelector").get("matchExpressions")
    selectors: list[Raw] = (
        [{"scopeName": scope, "operator": "Exists"} for scope in plain] if isinstance(plain, list) else []
    )
    return selectors + (
        [selector for selector in listed if isinstance(selector, dict)] if isinstance(listed, list) else []
    )


def _within(scope: Raw, pod: Pod) -> bool:
    """Whether a pod is in a scope."""
    name = scope.get("scopeName")
    operator = scope.get("operator")
    values = scope.get("values")
    if name == "PriorityClass":
        priority_class = pod.spec.priority_class_name
        listed = values if isinstance(values, list) else ()
        return {
            "In": priority_class in listed,
            "NotIn": priority_class not in listed,
            "Exists": bool(priority_class),
        }.get(str(operator), not priority_class)
    has_resources = any(
        c.resources.requests or c.resources.limits for c in (*pod.spec.containers, *pod.spec.init_containers)
    )
    ends = pod.spec.active_deadline_seconds is not None
    return {
        "BestEffort": not has_resources,
        "NotBestEffort": has_resources,
        "Terminating": ends,
        "NotTerminating": not ends,
    }.get(str(name), False)

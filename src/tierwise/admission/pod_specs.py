"""What Kubernetes' API server refuses in the spec of a pod, alone or in a template.

Read from manifests, since most of it is about fields that nothing else here needs. The oracle is a real kube-apiserver
(`make e2e` posts drawn specs to both); what it refuses beyond this is listed there by class.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterator
from typing import Final

from tierwise.admission.findings import Issue, error
from tierwise.admission.names import dns_label, label_value, labels_and_annotations, qualified_name
from tierwise.api.quantity import Quantity, ratio
from tierwise.dialects.workloads.fields import Fields

__all__ = ["check_label_selector", "check_pod_fields", "check_pod_template", "left_out"]

_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_PULLS: Final = ("Always", "IfNotPresent", "Never")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_DNS: Final = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_RESTARTS: Final = ("Always", "OnFailure", "Never")
_PORT_NAME: Final = re.compile(r"(?=[a-z0-9-]{1,15}$)(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*")
_MOST_PORT: Final = 65535
_SHARED: Final = ("cpu", "memory", "ephemeral-storage")
"""Resources of which a container may ask for less than its limit, and for fractions."""
_HUGE: Final = "hugepages-"
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def check_pod_template(template: Fields, *, claims: Collection[str] = ()) -> Iterator[Issue]:
    """Issues of a pod template; `claims` are the volumes that a StatefulSet adds to it."""
    yield from labels_and_annotations(template.at("metadata"))
    yield from check_pod_fields(template.at("spec"), claims=claims)


def check_pod_fields(spec: Fields, *, claims: Collection[str] = ()) -> Iterator[Issue]:
    """Issues of the spec of a pod; `claims` are volumes that it gets from elsewhere."""
    volumes = yield from _volumes(spec)
    seen: set[str] = set()
    for field in _CONTAINERS:
        for container in spec.each(field):
            yield from _container(container, spec, {*volumes, *claims})
            name = container.text("name")
            if name in seen:
                yield error(container.where("name"), f'there is another container "{name}"')
            seen.add(name)
    if not spec.raw.get("containers"):
        yield error(spec.where("containers"), "at least one container is needed")
    yield from _one_of(spec, "restartPolicy", _RESTARTS)
    yield from _one_of(spec, "dnsPolicy", _DNS)
    yield from _least(spec, "activeDeadlineSeconds", 1)
    for key, value in spec.texts("nodeSelector").items():
        yield from qualified_name(spec.where("nodeSelector"), key)
        yield from label_value(f"{spec.where('nodeSelector')}.{key}", value)
    for toleration in spec.each("tolerations"):
        yield from _toleration(toleration)
    yield from _affinity(spec.at("affinity"))
    yield from _spreads(spec)
    gates: set[str] = set()
    for gate in spec.each("schedulingGates"):
        name = gate.text("name")
        yield from qualified_name(gate.where("name"), name)
        if name in gates:
            yield error(gate.where("name"), f'there is another gate "{name}"')
        gates.add(name)


def left_out(spec: Fields) -> Iterator[Issue]:
    """Yield an error for each container without an image, and for each of its requests that needs a limit and has none.

    A resource needs a limit where containers cannot share it (devices, not CPU or memory). Kubernetes refuses such
    containers; scheduling does not need these fields.
    """
    for field in _CONTAINERS:
        for container in spec.each(field):
            if not container.text("image").strip():
                yield error(container.where("image"), "a container needs an image")
            limits, requests = (container.at("resources", side) for side in ("limits", "requests"))
            for name in requests.raw:
                if name not in _SHARED and name not in limits.raw:
                    text = f"{name} is not divided between containers: it needs a limit that is the request"
                    yield error(limits.where(name), text)


# Containers.


def _container(container: Fields, spec: Fields, volumes: Collection[str]) -> Iterator[Issue]:
    name = container.text("name")
    if name:
        yield from dns_label(container.where("name"), name)
    else:
        yield error(container.where("name"), "a container needs a name")
    yield from _one_of(container, "imagePullPolicy", _PULLS)
    yield from _ports(container, spec)
    for variable in container.each("env"):
        yield from _variable(variable)
    places: set[str] = set()
    for mount in container.each("volumeMounts"):
        place = mount.text("mountPath")
        if mount.text("name") not in volumes:
            yield error(mount.where("name"), f'there is no volume "{mount.text("name")}"')
        if not place:
            yield error(mount.where("mountPath"), "a volume needs a place to be mounted at")
        elif place in places:
            yield error(mount.where("mountPath"), f"something else is mounted at {place}")
        places.add(place)
    yield from _resources(container.at("resources"))


def _ports(container: Fields, spec: Fields) -> Iterator[Issue]:
    names: set[str] = set()
    for port in container.each("ports"):
        number = port.raw.get("containerPort")
        outer = port.raw.get("hostPort")
        name = port.text("name")
        if not _is_port(number):
            yield error(port.where("containerPort"), f"a port is a number from 1 to {_MOST_PORT}")
        if outer and not _is_port(outer):
            yield error(port.where("hostPort"), f"a port is a number from 1 to {_MOST_PORT}")
        if spec.flag("hostNetwork") and outer and outer != number:
            yield error(port.where("hostPort"), "with hostNetwork it must be the containerPort")
        yield from _one_of(port, "protocol", _PROTOCOLS)
        if name and not _PORT_NAME.fullmatch(name):
            text = 'has at most 15 lower-case letters, digits and single "-" between them, and at least one letter'
            yield error(port.where("name"), f'the name of a port {text}: "{name}"')
        if name and name in names:
            yield error(port.where("name"), f'there is another port "{name}"')
        names.add(name)


def _is_port(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST_PORT


def _variable(variable: Fields) -> Iterator[Issue]:
    source = {name for name, value in variable.at("valueFrom").raw.items() if value is not None}
    if not variable.text("name"):
        yield error(variable.where("name"), "a variable needs a name")
    if variable.text("value") and source:
        yield error(variable.where("valueFrom"), "a variable has a value or a source, and not both")
    elif variable.raw.get("valueFrom") is not None and len(source) != 1:
        yield error(variable.where("valueFrom"), f"exactly one source is needed, not {len(source)}")


# Resources.


def _resources(resources: Fields) -> Iterator[Issue]:
    limits = resources.at("limits")
    requests = resources.at("requests")
    resources_named = {**limits.raw, **requests.raw}
    for side in (limits, requests):
        for name, quantity in side.raw.items():
            yield from _amount(side, name, quantity)
    for name, quantity in requests.raw.items():
        request = _value(quantity)
        limit = _value(limits.raw.get(name))
        if request is None or limit is None:
            continue
        if name not in _SHARED and request != limit:
            yield error(requests.where(name), f"must be the limit of {name}, {limits.raw[name]}")
        elif request[0] * limit[1] > limit[0] * request[1]:
            yield error(requests.where(name), f"{quantity} is more than the limit of {name}, {limits.raw[name]}")
    if any(name.startswith(_HUGE) for name in resources_named) and not resources_named.keys() & {"cpu", "memory"}:
        yield error(resources.path, "huge pages need a request of cpu or memory beside them")


def _amount(side: Fields, name: str, quantity: object) -> Iterator[Issue]:
    if name not in _SHARED and not name.startswith(_HUGE):
        if "/" not in name:
            yield error(
                side.where(name), f'there is no resource "{name}": those of devices have a domain, as in a/{name}'
            )
        else:
            yield from qualified_name(side.where(name), name)
    value = _value(quantity)
    if value is None:
        return  # the reader says that it is no quantity
    if value[0] < 0:
        yield error(side.where(name), f"{quantity} is negative")
    elif name not in _SHARED and value[0] % value[1]:
        yield error(side.where(name), f"{quantity} is no whole number: {name} is not divided")


def _value(quantity: object) -> tuple[int, int] | None:
    if isinstance(quantity, bool) or not isinstance(quantity, Quantity):
        return None
    try:
        return ratio(quantity)
    except ValueError:
        return None


# Volumes.


def _volumes(spec: Fields) -> Generator[Issue, None, set[str]]:
    """The issues of volumes; what it returns are their names."""
    names: set[str] = set()
    for volume in spec.each("volumes"):
        name = volume.text("name")
        sources = sorted(field for field, value in volume.raw.items() if field != "name" and value is not None)
        if not name:
            yield error(volume.where("name"), "a volume needs a name")
        else:
            yield from dns_label(volume.where("name"), name)
        if name in names:
            yield error(volume.where("name"), f'there is another volume "{name}"')
        if len(sources) > 1:
            yield error(volume.path, f"a volume has one source, not {' and '.join(sources)}")
        names.add(name)
    return names


# Where the pod may go.


def _toleration(toleration: Fields) -> Iterator[Issue]:
    key = toleration.text("key")
    operator = toleration.text("operator") or "Equal"
    yield from _one_of(toleration, "operator", ("Equal", "Exists", "Gt", "Lt"))
    yield from _one_of(toleration, "effect", ("NoSchedule", "PreferNoSchedule", "NoExecute"))
    if key:
        yield from qualified_name(toleration.where("key"), key)
    elif operator != "Exists":
        yield error(toleration.where("operator"), "a toleration without a key must have the operator Exists")
    if operator == "Exists" and toleration.text("value"):
        yield error(toleration.where("value"), "operator Exists takes no value")
    elif operator == "Equal":
        yield from label_value(toleration.where("value"), toleration.text("value"))
    if toleration.raw.get("tolerationSeconds") is not None and toleration.text("effect") != "NoExecute":
        yield error(toleration.where("effect"), "tolerationSeconds needs the effect NoExecute")


def _affinity(affinity: Fields) -> Iterator[Issue]:
    nodes = affinity.at("nodeAffinity")
    required = nodes.at(_REQUIRED)
    if nodes.raw.get(_REQUIRED) is not None and not required.raw.get("nodeSelectorTerms"):
        yield error(required.where("nodeSelectorTerms"), "at least one term is needed")
    for term in required.each("nodeSelectorTerms"):
        yield from _node_term(term)
    for wish in nodes.each(_PREFERRED):
        yield from _weight(wish)
        yield from _node_term(wish.at("preference"))
    for side in (affinity.at("podAffinity"), affinity.at("podAntiAffinity")):
        for wish in side.each(_PREFERRED):
            yield from _weight(wish)
        for term in (*side.each(_REQUIRED), *(wish.at("podAffinityTerm") for wish in side.each(_PREFERRED))):
            if not term.text("topologyKey"):
                yield error(term.where("topologyKey"), "a topology key is needed")
            else:
                yield from qualified_name(term.where("topologyKey"), term.text("topologyKey"))
            for field in ("labelSelector", "namespaceSelector"):
                yield from check_label_selector(term.at(field))


def _weight(wish: Fields) -> Iterator[Issue]:
    weight = wish.raw.get("weight")
    if not isinstance(weight, int) or not 1 <= weight <= 100:
        yield error(wish.where("weight"), "the weight of a wish is a number from 1 to 100")


def _node_term(term: Fields) -> Iterator[Issue]:
    for requirement in term.each("matchExpressions"):
        yield from qualified_name(requirement.where("key"), requirement.text("key"))
        yield from _requirement(requirement)
    for requirement in term.each("matchFields"):
        if requirement.text("key") != "metadata.name":
            yield error(requirement.where("key"), "the only field that nodes are selected by is metadata.name")
        if requirement.text("operator") not in ("In", "NotIn") or len(_values(requirement)) != 1:
            yield error(requirement.where("values"), "a field has the operator In or NotIn and one value")


def _requirement(requirement: Fields, operators: Collection[str] = _OPERATORS) -> Iterator[Issue]:
    operator = requirement.text("operator")
    values = _values(requirement)
    if operator not in operators:
        yield error(requirement.where("operator"), f'operator "{operator}" is not known')
    elif operator in ("In", "NotIn") and not values:
        yield error(requirement.where("values"), f"operator {operator} needs values")
    elif operator in ("Exists", "DoesNotExist") and values:
        yield error(requirement.where("values"), f"operator {operator} takes no values")
    elif operator in ("Gt", "Lt") and len(values) != 1:
        yield error(requirement.where("values"), f"operator {operator} takes one value")


def _values(requirement: Fields) -> list[object]:
    values = requirement.raw.get("values")
    return values if isinstance(values, list) else []


def check_label_selector(selector: Fields) -> Iterator[Issue]:
    """Issues of a label selector."""
    for key, value in selector.texts("matchLabels").items():
        yield from qualified_name(selector.where("matchLabels"), key)
        yield from label_value(f"{selector.where('matchLabels')}.{key}", value)
    for requirement in selector.each("matchExpressions"):
        yield from qualified_name(requirement.where("key"), requirement.text("key"))
        yield from _requirement(requirement, _OPERATORS[:4])


def _spreads(spec: Fields) -> Iterator[Issue]:
    seen: set[tuple[str, str]] = set()
    for spread in spec.each("topologySpreadConstraints"):
        key = spread.text("topologyKey")
        when = spread.text("whenUnsatisfiable")
        skew = spread.raw.get("maxSkew")
        if not key:
            yield error(spread.where("topologyKey"), "a topology key is needed")
        else:
            yield from qualified_name(spread.where("topologyKey"), key)
        if not isinstance(skew, int) or skew < 1:
            yield error(spread.where("maxSkew"), "maxSkew must be at least 1")
        if not when:
            yield error(spread.where("whenUnsatisfiable"), "whenUnsatisfiable is missing")
        yield from _one_of(spread, "whenUnsatisfiable", ("DoNotSchedule", "ScheduleAnyway"))
        if (key, when) in seen:
            yield error(spread.path, f"there is another constraint of {key} with {when}")
        seen.add((key, when))
        minimum = spread.raw.get("minDomains")
        if isinstance(minimum, int) and minimum < 1:
            yield error(spread.where("minDomains"), "minDomains must be at least 1")
        if minimum is not None and when == "ScheduleAnyway":
            yield error(spread.where("minDomains"), "minDomains needs whenUnsatisfiable: DoNotSchedule")
        yield from check_label_selector(spread.at("labelSelector"))


def _one_of(fields: Fields, name: str, allowed: Collection[str]) -> Iterator[Issue]:
    value = fields.text(name)
    if value and value not in allowed:
        yield error(fields.where(name), f'{name} "{value}" is not known: it must be one of {", ".join(allowed)}')


def _least(fields: Fields, name: str, minimum: int) -> Iterator[Issue]:
    value = fields.raw.get(name)
    if isinstance(value, int) and value < minimum:
        yield error(fields.where(name), f"{name} is {value}, it must be at least {minimum}")

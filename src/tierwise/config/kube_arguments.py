"""What arguments of plugins must look like, by name: what has another type is bad input, not a default.

Called by `config.kube` for every plugin that a KubeSchedulerConfiguration configures. Kubernetes' scheduler reads these
arguments strictly, so a file that it would refuse is refused here, and so is an argument that no plugin of that name
has. Plugins that have no effect may be given anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from tierwise.api.affinity import NodeAffinity
from tierwise.api.duration import seconds
from tierwise.api.mistakes import suggestion
from tierwise.api.quantity import amount

__all__ = ["wrong_argument"]

_POLICIES: Final = ("only-waiting", "waiting-and-running", "once-satisfied")


def wrong_argument(plugin: str, arguments: Mapping[str, object]) -> tuple[str, str] | None:
    """The first argument of a plugin that cannot be read, and why; None where all of them can."""
    if plugin in _STRICT:
        known = (*_CHECKS.get(plugin, {}), *_STRICT[plugin], "apiVersion", "kind")
        unknown = next((str(name) for name in arguments if name not in known), None)
        if unknown is not None:
            return unknown, f"{plugin} has no such argument{suggestion(unknown, known)}"
    for name, problem in _CHECKS.get(plugin, {}).items():
        said = problem(arguments[name]) if arguments.get(name) is not None else ""
        if said:
            return name, said
    return None


def _flag(value: object) -> str:
    return "" if isinstance(value, bool) else f"expected true or false, not {value}"


def _text(value: object) -> str:
    return "" if isinstance(value, str) else f"expected a text, not {value}"


def _texts(value: object) -> str:
    fine = isinstance(value, list) and all(isinstance(text, str) for text in value)
    return "" if fine else f"expected a list of texts, not {value}"


def _duration(value: object) -> str:
    return "" if seconds(str(value)) is not None else f'expected a duration such as "90s", not {value}'


def _policy(value: object) -> str:
    return "" if value in ("", *_POLICIES) else f"expected one of {', '.join(_POLICIES)}, not {value}"


def _amounts(value: object) -> str:
    if not isinstance(value, Mapping):
        return "expected a mapping of resources and quantities"
    for resource, quantity in value.items():
        try:
            amount(str(resource), quantity)
        except (ValueError, TypeError):
            return f"{resource}: {quantity} is not a quantity"
    return ""


def _whole(low: int, high: int) -> Callable[[object], str]:
    def check(value: object) -> str:
        fine = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return "" if fine else f"expected a whole number from {low} to {high}, not {value}"

    return check


def _resources(value: object) -> str:
    """A list of resources with weights, as scores take them."""
    if not isinstance(value, list):
        return "expected a list of resources"
    seen: set[str] = set()
    for entry in value:
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or not name:
            return "expected resources with a name"
        if name in seen:
            return f"resource {name} is listed twice"
        seen.add(name)
        wrong = _whole(0, 100)(entry.get("weight", 1))
        unknown = next((key for key in entry if key not in ("name", "weight")), None)
        if wrong or unknown is not None:
            return f"resource {name}: unknown field {unknown}" if unknown is not None else f"weight of {name}: {wrong}"
    return ""


def _strategy(value: object) -> str:
    """How NodeResourcesFit scores."""
    if not isinstance(value, Mapping):
        return "expected a mapping"
    unknown = next((key for key in value if key not in ("type", "resources", "requestedToCapacityRatio")), None)
    if unknown is not None:
        return f"unknown field {unknown}"
    kind = value.get("type", "LeastAllocated")
    if kind not in _STRATEGIES:
        return f"type: expected one of {', '.join(_STRATEGIES)}, not {kind}"
    wrong = _resources(value["resources"]) if value.get("resources") is not None else ""
    if wrong or kind != "RequestedToCapacityRatio":
        return f"resources: {wrong}" if wrong else ""
    ratio = value.get("requestedToCapacityRatio")
    return _shape(ratio.get("shape") if isinstance(ratio, Mapping) else None)


def _shape(value: object) -> str:
    """A broken line over utilization, which must grow from point to point."""
    if not isinstance(value, list) or not value:
        return "requestedToCapacityRatio.shape: expected at least one point"
    last = -1
    for point in value:
        if not isinstance(point, Mapping):
            return "requestedToCapacityRatio.shape: expected points with utilization and score"
        place, score = point.get("utilization", 0), point.get("score", 0)
        wrong = _whole(0, 100)(place) or _whole(0, 10)(score)
        if wrong:
            return f"requestedToCapacityRatio.shape: {wrong}"
        if place <= last:
            return "requestedToCapacityRatio.shape: utilization must grow from point to point"
        last = place
    return ""


def _node_affinity(value: object) -> str:
    if not isinstance(value, Mapping):
        return "expected a mapping"
    try:
        msgspec.convert(value, NodeAffinity)
    except msgspec.ValidationError as error:
        return f"not a node affinity: {error}"
    return ""


def _defaulting(value: object) -> str:
    return "" if value in ("List", "System") else f"expected List or System, not {value}"


_STRATEGIES: Final = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")

_STRICT: Final[Mapping[str, tuple[str, ...]]] = {
    "DefaultPreemption": (),
    "InterPodAffinity": (),
    "NodeAffinity": (),
    "NodeResourcesBalancedAllocation": (),
    "NodeResourcesFit": ("ignoredResources", "ignoredResourceGroups"),
    "PodTopologySpread": ("defaultConstraints",),
    "VolumeBinding": ("bindTimeoutSeconds", "shape"),
    "DynamicResources": ("filterTimeout", "bindingTimeout"),
    "Coscheduling": (
        *("controllerWorkers", "skipCheckScheduleCycle", "permitWaitingTimeSeconds", "podGroupBackoffSeconds"),
        *("podGroupRejectPercentage", "denyPGExpirationTimeSeconds", "deniedPGExpirationTimeSeconds"),
        *("kubeConfigPath", "kubeMaster", "kubeConfig"),
    ),
    "ElasticQuota": ("quotaGroupNamespace", "enableQueueHint", "quotaSnapshotUpdateInterval", "hookPlugins"),
    "NetworkOverhead": (),
    "PrioritySort": (),
    "QOSSort": (),
    "TopologicalSort": (),
}
"""Plugins with arguments, all of which are known; those named here are refused, or have no effect."""

_CHECKS: Final[Mapping[str, Mapping[str, Callable[[object], str]]]] = {
    "DefaultPreemption": {
        "minCandidateNodesPercentage": _whole(0, 100),
        "minCandidateNodesAbsolute": _whole(0, 2**31 - 1),
    },
    "InterPodAffinity": {"hardPodAffinityWeight": _whole(0, 100), "ignorePreferredTermsOfExistingPods": _flag},
    "NodeAffinity": {"addedAffinity": _node_affinity},
    "NodeResourcesBalancedAllocation": {"resources": _resources},
    "NodeResourcesFit": {"scoringStrategy": _strategy},
    "PodTopologySpread": {"defaultingType": _defaulting},
    "Coscheduling": {
        "awareNetworkTopology": _flag,
        "enablePreemption": _flag,
        "defaultMatchPolicy": _policy,
        "defaultTimeout": _duration,
        "crossNamespaceGangGroups": _flag,
    },
    "ElasticQuota": {
        "enableRuntimeQuota": _flag,
        "enableCheckParentQuota": _flag,
        "enableMinQuotaScale": _flag,
        "disableDefaultQuotaPreemption": _flag,
        "monitorAllQuotas": _flag,
        "delayEvictTime": _duration,
        "revokePodInterval": _duration,
        "defaultQuotaGroupMax": _amounts,
        "systemQuotaGroupMax": _amounts,
        "quotaGroupNamespace": _text,
        "trustedNamespaces": _texts,
    },
    "NetworkOverhead": {
        "namespaces": _texts,
        "weightsName": _text,
        "networkTopologyName": _text,
        "strict": _flag,
        "bothWays": _flag,
        "lookAhead": _flag,
    },
    "TopologicalSort": {"namespaces": _texts},
}

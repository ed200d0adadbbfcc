"""What arguments of plugins must look like, by name: what has another type is bad input, not a default.

Called by `config.kube` for every plugin that a KubeSchedulerConfiguration configures. Kubernetes' scheduler reads these
arguments strictly, so a file that it would refuse is refused here. Arguments that are not listed are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tierwise.api.duration import seconds
from tierwise.api.quantity import amount

__all__ = ["wrong_argument"]

_POLICIES: Final = ("only-waiting", "waiting-and-running", "once-satisfied")


def wrong_argument(plugin: str, arguments: Mapping[str, object]) -> tuple[str, str] | None:
    """The first argument of a plugin that cannot be read, and why; None where all of them can."""
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


_CHECKS: Final[Mapping[str, Mapping[str, Callable[[object], str]]]] = {
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

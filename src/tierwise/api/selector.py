"""What label selectors, node selector requirements and tolerations mean.

Used by dialects, plugins and controllers on plain dictionaries of labels. A requirement that the API server would
refuse (unknown operator, missing or superfluous values) matches nothing here.
"""

import math
import re
from collections.abc import Mapping
from typing import Final

from tierwise.api.core import LabelSelector, Requirement, Taint, Toleration

__all__ = ["holds", "matches", "selects_nothing", "stays_for", "tolerates"]

_LABEL_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
_INTEGER: Final = r"[+-]?[0-9]{1,32}"
_INT64: Final = range(-(2**63), 2**63)


def matches(selector: LabelSelector | None, labels: Mapping[str, str], *, absent: bool = False) -> bool:
    """Whether labels satisfy a selector. An empty selector matches everything.

    `absent` is the answer for no selector at all: False as nearly everywhere in Kubernetes, True where a missing
    selector means "no restriction".
    """
    if selector is None:
        return absent
    for name, value in selector.match_labels.items():
        if labels.get(name) != value:
            return False
    return all(
        requirement.operator in _LABEL_OPERATORS and holds(requirement, labels.get(requirement.key))
        for requirement in selector.match_expressions
    )


def selects_nothing(selector: LabelSelector | None) -> bool:
    """Whether a selector has no conditions: Volcano's hyperNodes read that as "no node", Kubernetes as "any"."""
    return selector is None or not (selector.match_labels or selector.match_expressions)


def holds(requirement: Requirement, value: str | None) -> bool:
    """Whether one requirement holds for the value of its key, None where the key is missing.

    As in Kubernetes, NotIn and DoesNotExist hold for a missing key; Gt and Lt compare integers and hold only where
    both sides are integers.
    """
    values = requirement.values
    match requirement.operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return bool(values) and value not in values
        case "Exists":
            return not values and value is not None
        case "DoesNotExist":
            return not values and value is None
        case "Gt" | "Lt":
            return _compares(requirement, value)
        case _:
            return False


def _compares(requirement: Requirement, value: str | None) -> bool:
    if value is None or len(requirement.values) != 1:
        return False
    left = _integer(value)
    right = _integer(requirement.values[0])
    if left is None or right is None:
        return False
    return left > right if requirement.operator == "Gt" else left < right


def _integer(text: str) -> int | None:
    if re.fullmatch(_INTEGER, text) is None:
        return None
    number = int(text)
    return number if number in _INT64 else None


def tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Whether one of the tolerations matches the taint, by the rules of Kubernetes.

    An empty effect matches every effect and an empty key every key; the operator is Equal unless it says Exists.
    """
    return any(
        toleration.effect in ("", taint.effect)
        and toleration.key in ("", taint.key)
        and (
            toleration.operator == "Exists"
            or (toleration.operator in ("", "Equal") and toleration.value == taint.value)
        )
        for toleration in tolerations
    )


def stays_for(tolerations: tuple[Toleration, ...], taint: Taint) -> float:
    """How many seconds a pod with these tolerations may stay on a node with a taint that drives pods away.

    The least time that a matching toleration gives counts, as in Kubernetes; infinity where all match for good.
    """
    meant = [toleration for toleration in tolerations if tolerates((toleration,), taint)]
    times = (
        math.inf if toleration.toleration_seconds is None else max(toleration.toleration_seconds, 0)
        for toleration in meant
    )
    return min(times, default=0.0)

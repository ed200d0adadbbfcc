"""A short notation for the schemas of custom resources: structural OpenAPI, as the API server wants it.

Used by the files beside this one. A schema says what shape an object has; what it may mean is admission's business,
so there are limits only where every sender agrees on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tierwise.api.codec import Raw

__all__ = [
    "amounts",
    "anything",
    "conditions",
    "each",
    "flag",
    "items",
    "names",
    "number",
    "part",
    "quantity",
    "selector",
    "text",
    "time",
]

_QUANTITY: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$"

_NO_RULES: Mapping[str, str] = {}


def text(about: str, *, allowed: Sequence[str] = (), default: str = "", longest: int = 0) -> Raw:
    """A text; one of `allowed` where that is given."""
    found: Raw = {"type": "string", "description": about}
    if allowed:
        found["enum"] = list(allowed)
    if default:
        found["default"] = default
    if longest:
        found["maxLength"] = longest
    return found


def time(about: str) -> Raw:
    """A moment, as RFC 3339 writes it."""
    return {"type": "string", "format": "date-time", "description": about}


def number(about: str, *, least: int | None = None, most: int | None = None, default: int | None = None) -> Raw:
    """A whole number."""
    found: Raw = {"type": "integer", "description": about}
    bounds = {"minimum": least, "maximum": most, "default": default}
    return found | {name: value for name, value in bounds.items() if value is not None}


def flag(about: str, *, default: bool | None = None) -> Raw:
    """Yes or no."""
    return {"type": "boolean", "description": about} | ({} if default is None else {"default": default})


def quantity(about: str) -> Raw:
    """An amount such as "500m", "64Gi" or a whole number."""
    return {"description": about, **_amount()}


def amounts(about: str) -> Raw:
    """Amounts by the name of a resource."""
    return {"type": "object", "description": about, "additionalProperties": _amount()}


def _amount() -> Raw:
    either = [{"type": "integer"}, {"type": "string"}]
    return {"x-kubernetes-int-or-string": True, "anyOf": either, "pattern": _QUANTITY}


def anything(about: str) -> Raw:
    """An object whose fields belong to another API: kept as they are."""
    return {"type": "object", "description": about, "x-kubernetes-preserve-unknown-fields": True}


def part(
    about: str, fields: Mapping[str, Raw], *, needs: Sequence[str] = (), rules: Mapping[str, str] = _NO_RULES
) -> Raw:
    """An object with these fields, of which some must be given; others are dropped by the API server.

    `rules` are expressions that must hold of it, each with the message where it does not.
    """
    found: Raw = {"type": "object", "description": about, "properties": dict(fields)}
    if rules:
        found["x-kubernetes-validations"] = [{"rule": rule, "message": text} for rule, text in rules.items()]
    return found | ({"required": list(needs)} if needs else {})


def items(about: str, item: Raw, *, least: int = 0, most: int = 0, by: Sequence[str] = ()) -> Raw:
    """A list; `by` names the fields that tell its items apart when two writers apply their own."""
    found: Raw = {"type": "array", "description": about, "items": item}
    if least:
        found["minItems"] = least
    if most:
        found["maxItems"] = most
    if by:
        found |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(by)}
    return found


def names(about: str) -> Raw:
    """A list of texts."""
    return {"type": "array", "description": about, "items": {"type": "string"}}


def each(about: str, value: Raw) -> Raw:
    """A map from names to values."""
    return {"type": "object", "description": about, "additionalProperties": value}


def selector(about: str) -> Raw:
    """Conditions on labels, in Kubernetes' usual form."""
    condition = part(
        "One condition on a label.",
        {
            "key": text("The label's key."),
            "operator": text("In, NotIn, Exists or DoesNotExist."),
            "values": names("The values that In and NotIn compare with."),
        },
        needs=("key", "operator"),
    )
    return part(
        about,
        {
            "matchLabels": each("Labels that must have exactly these values.", {"type": "string"}),
            "matchExpressions": items("Further conditions, all of which must hold.", condition),
        },
    )


def conditions(about: str) -> Raw:
    """Lines of a status. Not told apart by type: Volcano's pod groups may hold several of one."""
    line = part(
        "One line of the status.",
        {
            "type": text("What the line is about."),
            "status": text("True, False or Unknown."),
            "reason": text("The reason in one word."),
            "message": text("The reason in a sentence."),
            "lastTransitionTime": time("When the line last changed."),
            "lastProbeTime": time("When it was last looked at."),
            "lastHeartbeatTime": time("When it was last confirmed."),
            "observedGeneration": number("The generation of the object that was looked at."),
            "transitionID": text("An identity of the change."),
        },
    )
    return items(about, line)

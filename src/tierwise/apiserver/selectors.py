"""Label and field selectors as requests write them: `app=web,tier!=db`, `spec.nodeName=n1`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.core import Requirement
from tierwise.api.selector import holds
from tierwise.apiserver.failures import bad_request
from tierwise.apiserver.store import meta_of

__all__ = ["Selected", "selector"]

Selected = Callable[[Raw], bool]
"""Whether an object is meant."""

_SET: Final = re.compile(r"\s*(?P<key>[^\s,=!()]+)\s+(?P<word>in|notin)\s*\((?P<values>[^()]*)\)\s*")
_EQUAL: Final = re.compile(r"\s*(?P<key>[^\s,=!()<>]+)\s*(?P<word>==|=|!=|>|<)\s*(?P<value>[^\s,()=]*)\s*")
_HAS: Final = re.compile(r"\s*(?P<no>!?)\s*(?P<key>[^\s,=!()]+)\s*")

_EVERYWHERE: Final = frozenset({"metadata.name", "metadata.namespace"})
_EVENT: Final = frozenset(
    {
        f"involvedObject.{name}"
        for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    }
    | {"reason", "reportingComponent", "source", "type"}
)
_FIELDS: Final = {
    "Pod": frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        }
    ),
    "Node": frozenset({"spec.unschedulable"}),
    "Namespace": frozenset({"status.phase"}),
    "Event": _EVENT,
    "Job": frozenset({"status.successful"}),
    "ReplicaSet": frozenset({"status.replicas"}),
    "Secret": frozenset({"type"}),
}
_DEFAULTS: Final = {"spec.unschedulable": "false", "spec.hostNetwork": "false"}


def selector(kind: str, labels: str, fields: str) -> Selected:
    """Function that selects objects by the labels and fields of a request. 400 for unreadable or unindexed fields."""
    by_label = _label_requirements(labels)
    by_field = []
    for part in fields.split(","):
        if part.strip():
            by_field.append(_field_requirement(kind, part))

    def selected(raw: Raw) -> bool:
        marks = meta_of(raw).get("labels") if by_label else None
        labels_here = marks if isinstance(marks, dict) else {}
        if not all(holds(requirement, labels_here.get(requirement.key)) for requirement in by_label):
            return False
        return all((_field(raw, path) == value) is equal for path, value, equal in by_field)

    return selected


def _label_requirements(text: str) -> Sequence[Requirement]:
    requirements: list[Requirement] = []
    at = 0
    while at < len(text.rstrip()):
        part = _SET.match(text, at) or _EQUAL.match(text, at) or _HAS.match(text, at)
        if part is None or (part.end() < len(text) and text[part.end()] != ","):
            raise bad_request(f"unable to parse requirement: {text[at:]!r}")
        requirements.append(_requirement(part))
        at = part.end() + 1
    return requirements


def _requirement(part: re.Match[str]) -> Requirement:
    groups = part.groupdict()
    match groups.get("word"):
        case "in" | "notin" as word:
            values = tuple(value.strip() for value in groups["values"].split(","))
            return Requirement(key=groups["key"], operator="In" if word == "in" else "NotIn", values=values)
        case "=" | "==":
            return Requirement(key=groups["key"], operator="In", values=(groups["value"],))
        case "!=":
            return Requirement(key=groups["key"], operator="NotIn", values=(groups["value"],))
        case ">" | "<" as word:
            return Requirement(key=groups["key"], operator="Gt" if word == ">" else "Lt", values=(groups["value"],))
        case _:
            return Requirement(key=groups["key"], operator="DoesNotExist" if groups["no"] else "Exists")


def _field_requirement(kind: str, part: str) -> tuple[str, str, bool]:
    match = _EQUAL.fullmatch(part)
    if match is None or match["word"] in "<>":
        raise bad_request(f"invalid field selector: {part!r}")
    path = match["key"]
    if path not in _EVERYWHERE and path not in _FIELDS.get(kind, ()):
        raise bad_request(f"field label not supported: {path}")
    return path, match["value"], match["word"] != "!="


def _field(raw: Raw, path: str) -> str:
    value: object = raw
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if value is None or isinstance(value, dict):
        return _DEFAULTS.get(path, "")
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)

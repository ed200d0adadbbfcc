"""Which tree of a cluster an object is about, where there are several: `tierwise.io/fabric`, and further constraints.

On a hyperNode, as a label or an annotation, the mark names the fabric that it is a domain of; hyperNodes without it
form the tree that Volcano's constraints mean. On a group it names the fabric that the group's own constraints are
about. Constraints on further fabrics, and rules about the other gangs of its sets (`api.sets`), are in an annotation of
the group, as a JSON list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from tierwise.api.core import Int, ObjectMeta, Record
from tierwise.api.sets import RULES, most_of, set_fault

__all__ = ["CONSTRAINTS", "FABRIC", "fabric_name_fault", "fabric_of", "fabrics_of_sub_groups", "parse_constraints"]

FABRIC: Final = "tierwise.io/fabric"
"""With a dot and the name of a sub-group behind it, the fabric of that sub-group's own constraint."""
_PREFIX: Final = f"{FABRIC}."

CONSTRAINTS: Final = "tierwise.io/topology-constraints"
"""On a group, as JSON: its constraints on further fabrics."""

FORM: Final = (
    '[{"fabric": NAME, "tier": NAME or NUMBER, "mode": "hard" or "soft", "spread": NUMBER, "subGroup": NAME, '
    '"set": PATH, "apart": NUMBER or SHARE}]'
)
_MOST: Final = 16
_SPREAD: Final = 1000
_NAME: Final = r"[A-Za-z0-9]([-A-Za-z0-9_. /]{0,251}[A-Za-z0-9])?"


class FabricConstraint(Record, frozen=True, forbid_unknown_fields=True):
    """One entry of the list: pods within one domain of a tier, or spread over so many domains of it at least."""

    tier: Int | str
    fabric: str = ""  # that of the group's own constraints
    mode: str = "hard"
    spread: Int | None = None  # all in one
    sub_group: str = ""  # each sub-group of this name; the whole group where it is empty
    set: str = ""  # a set that the group is in: it is a rule about the parts of it
    apart: Int | str | None = None  # so many parts, or this share of them, in one domain at most; None: all in one


def fabric_of(marks: ObjectMeta | Mapping[str, str]) -> str:
    """The fabric that an object names by its label, else by its annotation; "" where it names none."""
    if isinstance(marks, ObjectMeta):
        return (marks.labels.get(FABRIC) or marks.annotations.get(FABRIC) or "").strip()
    return marks.get(FABRIC, "").strip()


def fabrics_of_sub_groups(marks: ObjectMeta | Mapping[str, str]) -> dict[str, str]:
    """The fabrics that a group names for its sub-groups, by their names."""
    values = {**marks.annotations, **marks.labels} if isinstance(marks, ObjectMeta) else marks
    return {key[len(_PREFIX) :]: name.strip() for key, name in values.items() if key.startswith(_PREFIX)}


def fabric_name_fault(name: str) -> str:
    """Error text for a fabric's name; "" if the name is valid."""
    if not name or re.fullmatch(_NAME, name):
        return ""
    return f'"{name}" cannot be the name of a fabric'


def parse_constraints(text: str) -> tuple[FabricConstraint, ...] | str:
    """The constraints of an annotation, or what is wrong with it."""
    try:
        constraints = msgspec.json.decode(text, type=tuple[FabricConstraint, ...]) if text.strip() else ()
    except msgspec.DecodeError as error:
        text = str(error)
        text = text if text[1:2].isupper() else text[:1].lower() + text[1:]  # "JSON is malformed" stays as it is
        return f"it must be a JSON list such as {FORM}: {text}"
    if len(constraints) > _MOST:
        return f"{len(constraints)} constraints are more than the {_MOST} that a group may have"
    for i, entry in enumerate(constraints):
        fault = _fault(entry) or _rule_fault(entry)
        if fault:
            return f"[{i}].{fault}"
    rules = sum(bool(entry.set) for entry in constraints)
    if rules <= RULES:
        return constraints
    return f"{rules} rules about sets are more than the {RULES} that a group may have"


def _fault(entry: FabricConstraint) -> str:
    if entry.mode.lower() not in ("hard", "soft"):
        return f'mode: "{entry.mode}" is neither hard nor soft'
    if entry.tier == "":
        return "tier: the tier is empty"
    if entry.spread is not None and not 2 <= entry.spread <= _SPREAD:
        return f"spread: {entry.spread} is not between 2 and {_SPREAD}"
    if fabric_name_fault(entry.fabric):
        return f"fabric: {fabric_name_fault(entry.fabric)}"
    return ""


def _rule_fault(entry: FabricConstraint) -> str:
    """Error text for an entry's rules about sets and parts; "" if they are valid."""
    if not entry.set and entry.sub_group and entry.apart is not None:
        if entry.spread is not None:
            return "apart: it says nothing beside spread"
        if most_of(entry.apart) is not None:
            return ""
        return f'apart: "{entry.apart}" is {_APART}'
    if not entry.set:
        why = "apart: it is said of the parts of a set, which `set` names, or of the sub-groups that `subGroup` names"
        return why if entry.apart is not None else ""
    if entry.sub_group or entry.spread is not None:
        return f"set: a rule about a set says nothing of {'sub-groups' if entry.sub_group else 'spread'}"
    if set_fault(entry.set):
        return f"set: {set_fault(entry.set)}"
    if entry.apart is None or most_of(entry.apart):
        return ""
    return f'apart: "{entry.apart}" is {_APART}'


_APART: Final = 'neither a number from 1 on nor a share such as "45%"'

"""The trees that the constraints of a group are about, in any language: its marks read into constraints.

Called by the readers of groups. A group's own constraints are about the fabric that `tierwise.io/fabric` names, else
about the tree of its language; `tierwise.io/topology-constraints` adds others. What cannot be read is a refusal: a
constraint that was not understood must not pass. `tierwise.io/set` says which set of gangs a group is in; entries of
the list that name a set are rules about its parts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec
from msgspec.structs import replace

from tierwise.api import fabric, sets
from tierwise.api.core import ObjectMeta
from tierwise.model.job import Constraint, Reason, SetMember, SetRule
from tierwise.model.part_names import PART_NAMES, PartNames
from tierwise.model.topology import fabric_kind

__all__ = ["FabricMarks", "read_marks"]


class FabricMarks(msgspec.Struct, frozen=True):
    """Network wishes that the annotations of a group state."""

    kind: str = ""  # of the tree that its own constraints are about; "": that of its language
    whole: tuple[Constraint, ...] = ()  # on the group as a whole
    by_sub_group: Mapping[str, tuple[Constraint, ...]] = {}
    refusal: Reason | None = None
    kinds: Mapping[str, str] = {}  # the same as `kind` for sub-groups that have their own, by their names
    apart: Mapping[str, tuple[SetRule, ...]] = {}  # by the name of sub-groups, how many may share a domain
    member: SetMember | None = None  # the set that it is in, by its path, and the rules about sets around it

    def own(self, constraint: Constraint | None, sub_group: str = "") -> Constraint | None:
        """A constraint of the group, or of one of its sub-groups, on the tree that the group names for it."""
        kind = self.kinds.get(sub_group, self.kind)
        if constraint is not None and kind:
            return replace(constraint, kind=kind)
        return constraint

    def of(self, sub_group: str) -> tuple[Constraint, ...]:
        """The constraints on each sub-group of a name."""
        return self.by_sub_group.get(sub_group, ())


def read_marks(
    marks: ObjectMeta | Mapping[str, str],
    language: str,
    sub_groups: Collection[str] = (),
    words: PartNames = PART_NAMES,
) -> FabricMarks:
    """The marks of a group whose language speaks of one kind of tree, and whose sub-groups have these names.

    `words` are those of the language for its parts.
    """
    annotations = marks.annotations if isinstance(marks, ObjectMeta) else marks
    name = fabric.fabric_of(marks)
    text = annotations.get(fabric.CONSTRAINTS, "")
    inside = fabric.fabrics_of_sub_groups(marks)
    path = annotations.get(sets.SET, "").strip()
    start = annotations.get(sets.SET_START, "")
    if not (name or text or inside or path or start):
        return _NONE
    fault = _set_fault(path, start) or _name_fault(name, inside, sub_groups, words)
    if fault is not None:
        return _refused(*fault)
    listed = fabric.parse_constraints(text)
    if isinstance(listed, str):
        return _refused(fabric.CONSTRAINTS, listed)
    kind = fabric_kind(name) if name else ""
    entries = _Entries(path, sub_groups, words)
    for entry in listed:
        outside = entries.add(entry, _constraint(entry, kind or language))
        if outside:
            return _refused(fabric.CONSTRAINTS, outside)
    kinds = {}
    for sub_group, fabric_name in inside.items():
        if fabric_name:
            kinds[sub_group] = fabric_kind(fabric_name)
    member = SetMember(path, tuple(entries.rules), sets.parse_start(start) or 0) if path else None
    return FabricMarks(kind, tuple(entries.whole), entries.inner, kinds=kinds, member=member, apart=entries.between)


def _set_fault(path: str, start: str) -> tuple[str, str] | None:
    """The annotation of a set that cannot be read, and why; None without a fault."""
    fault = sets.marks_fault(path, start)
    if fault is None and start.strip() and not path:
        return (sets.SET_START, sets.NO_SET)
    return fault


def _name_fault(
    name: str, inside: Mapping[str, str], sub_groups: Collection[str], words: PartNames
) -> tuple[str, str] | None:
    """The annotation that names no fabric or no sub-group, and why; None without a fault."""
    for fabric_name in (name, *inside.values()):
        fault = fabric.fabric_name_fault(fabric_name)
        if fault:
            return fabric.FABRIC, fault
    for sub_group in inside:
        if sub_group not in sub_groups:
            return f"{fabric.FABRIC}.{sub_group}", words.unknown(sub_group)
    return None


def _constraint(entry: fabric.FabricConstraint, kind: str) -> Constraint:
    """The constraint of an entry, on its own fabric or else on the tree of this kind."""
    return Constraint(
        hard=entry.mode.lower() == "hard",
        tier=entry.tier if isinstance(entry.tier, int) else None,
        tier_name=entry.tier if isinstance(entry.tier, str) else "",
        kind=fabric_kind(entry.fabric) if entry.fabric else kind,
        spread=entry.spread or 0,
    )


def _rule(path: str, entry: fabric.FabricConstraint, constraint: Constraint) -> SetRule:
    """The rule of an entry about a set, or, with an empty path, about the sub-groups of a name."""
    most = sets.most_of(entry.apart) if entry.apart is not None else None
    if most is None:
        return SetRule(path, constraint)
    return SetRule(path, constraint, most.number, most.share)


class _Entries:
    """The entries of the annotation of constraints, by what they are about."""

    def __init__(self, path: str, sub_groups: Collection[str], words: PartNames) -> None:
        """`path` is the set that the group is in, "" if it is in none."""
        self._path = path
        self._sub_groups = sub_groups
        self._words = words
        self.whole: list[Constraint] = []
        self.rules: list[SetRule] = []
        self.between: dict[str, tuple[SetRule, ...]] = {}  # by sub-group
        self.inner: dict[str, tuple[Constraint, ...]] = {}  # by sub-group

    def add(self, entry: fabric.FabricConstraint, constraint: Constraint) -> str:
        """Add an entry; why it cannot be added, "" if it was."""
        name = entry.sub_group
        if entry.set:
            outside = sets.within(self._path, entry.set)
            if not outside:
                self.rules.append(_rule(entry.set, entry, constraint))
            return outside
        if not name:
            self.whole.append(constraint)
        elif name not in self._sub_groups:
            return self._words.unknown(name)
        elif entry.apart is not None:
            self.between[name] = (*self.between.get(name, ()), _rule("", entry, constraint))
        else:
            self.inner[name] = (*self.inner.get(name, ()), constraint)
        return ""


_NONE = FabricMarks()


def _refused(key: str, fault: str) -> FabricMarks:
    return FabricMarks(refusal=Reason("InvalidGroup", "pod", f"annotation {key}: {fault}"))

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


def read_marks(marks: ObjectMeta | Mapping[str, str], language: str, sub_groups: Collection[str] = ()) -> FabricMarks:
    """The marks of a group whose language speaks of one kind of tree, and whose sub-groups have these names."""
    name = fabric.fabric_of(marks)
    text = (marks.annotations if isinstance(marks, ObjectMeta) else marks).get(fabric.CONSTRAINTS, "")
    inside = fabric.fabrics_of_sub_groups(marks)
    said = marks.annotations if isinstance(marks, ObjectMeta) else marks
    path = said.get(sets.SET, "").strip()
    start = said.get(sets.SET_START, "")
    if not name and not text and not inside and not path and not start:
        return _NONE
    wrong = sets.marks_fault(path, start) or ((sets.SET_START, sets.NO_SET) if start.strip() and not path else None)
    if wrong is not None:
        return _refused(*wrong)
    fault = next(filter(None, map(fabric.fabric_name_fault, (name, *inside.values()))), "")
    if fault:
        return _refused(fabric.FABRIC, fault)
    unknown = next((sub_group for sub_group in inside if sub_group not in sub_groups), None)
    if unknown is not None:
        return _refused(f"{fabric.FABRIC}.{unknown}", f'there is no sub-group "{unknown}"')
    kind = fabric_kind(name) if name else ""
    listed = fabric.parse_constraints(text)
    if isinstance(listed, str):
        return _refused(fabric.CONSTRAINTS, listed)
    whole: list[Constraint] = []
    rules: list[SetRule] = []
    between: dict[str, tuple[SetRule, ...]] = {}
    inner: dict[str, tuple[Constraint, ...]] = {}
    for entry in listed:
        constraint = Constraint(
            hard=entry.mode.lower() == "hard",
            tier=entry.tier if isinstance(entry.tier, int) else None,
            tier_name=entry.tier if isinstance(entry.tier, str) else "",
            kind=fabric_kind(entry.fabric) if entry.fabric else kind or language,
            spread=entry.spread or 0,
        )
        if entry.set:
            if outside := sets.within(path, entry.set):
                return _refused(fabric.CONSTRAINTS, outside)
            most = sets.most_of(entry.apart) if entry.apart is not None else None
            rules.append(SetRule(entry.set, constraint, *((most.number, most.share) if most is not None else ())))
        elif not entry.sub_group:
            whole.append(constraint)
        elif entry.apart is not None and entry.sub_group in sub_groups:
            most = sets.most_of(entry.apart)
            rule = SetRule("", constraint, *((most.number, most.share) if most is not None else ()))
            between[entry.sub_group] = (*between.get(entry.sub_group, ()), rule)
        elif entry.sub_group in sub_groups:
            inner[entry.sub_group] = (*inner.get(entry.sub_group, ()), constraint)
        else:
            return _refused(fabric.CONSTRAINTS, f'there is no sub-group "{entry.sub_group}"')
    kinds = {}
    for sub_group, found in inside.items():
        if found:
            kinds[sub_group] = fabric_kind(found)
    member = SetMember(path, tuple(rules), sets.parse_start(start) or 0) if path else None
    return FabricMarks(kind, tuple(whole), inner, kinds=kinds, member=member, apart=between)


_NONE = FabricMarks()


def _refused(key: str, fault: str) -> FabricMarks:
    return FabricMarks(refusal=Reason("InvalidGroup", "pod", f"annotation {key}: {fault}"))

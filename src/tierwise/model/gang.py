"""The shape of a gang: which numbers of its pods and parts must be reached, and where each part may be.

A gang may be declared as a number of pods, with minimums of roles, with sub-groups and minimums of whole ones, or as
groups of groups of any depth. All of these are one form: a tree of groups, each of which needs some numbers, all of
them at once (`least`); and leaves, which have the pods. A pod counts in the numbers that its leaf and its role name
(`Slot`); a leaf that has all its pods, and a group that has all it needs, count once in a number of the group around
them. One number of group 0, the gang itself, counts all pods; its others are roles, whole sub-groups by policy, or
parts.

    >>> shape = gang_shape(3, roles=(1,), leaves=(LeafForm(3),))  # three pods, at least one of them of a role
    >>> lacking(shape, ready=[2], roles=[0])
    [[1, 1]]

Whoever writes a language declares a gang as `dialects.groups.Group`; `Job.shape` makes its shape of that. A shape has
no names, numbers, queue, priority or progress: gangs that differ in these alone have one shape, which they share.
Whoever wants to know in which form a gang needs its pods asks the shape, and never how it was declared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import msgspec

from tierwise.api.plurals import several
from tierwise.model.arrays import EMPTY, Ints
from tierwise.model.topology import HYPERNODES, is_fabric

if TYPE_CHECKING:
    from tierwise.api.ladder import LadderStep
    from tierwise.api.pattern import Pattern

__all__ = [
    "LONE",
    "Constraint",
    "GangShape",
    "Gather",
    "GroupForm",
    "Leaf",
    "LeafForm",
    "ShapeGroup",
    "Slot",
    "Wishes",
    "around",
    "gang_shape",
    "lacking",
    "without",
]


# Where pods may be, as languages declare it.


class Constraint(msgspec.Struct, frozen=True):
    """How far apart the tasks of a gang may be: a tier, by number or by name, hard or soft."""

    hard: bool
    tier: int | None = None
    tier_name: str = ""
    kind: str = HYPERNODES  # the kind that declares the tree it is about
    preferred: str = ""  # a tier inside the hard one that is asked for without insisting, by name
    spread: int = 0  # the fewest domains of the tier to be in; 0: within one of them
    must_exist: bool = False  # of a language that knows no limit which means nothing, on whatever tree

    def words(self) -> str:
        """Where tasks are to be: "one spine", "one domain of fabric nvlink", "2 feeds of fabric power or more"."""
        place = f"{self.where()} of {self.kind}" if is_fabric(self.kind) else self.where()
        return f"{place} or more" if self.spread else place

    def where(self) -> str:
        """Where the constraint allows pods to stand, without the name of the tree: "one rack"."""
        number = self.spread or "one"
        if self.tier_name:
            return f"{number} {several(self.tier_name) if self.spread else self.tier_name}"
        level = "" if self.tier is None else f" of tier {self.tier}"
        return f"{number} {'domains' if self.spread else 'domain'}{level}"


# How a gang wants to be gathered: tiers by name, as its owner wrote them.
#
# Dialects make a `Gather`; a plugin turns it into `GatherOption`s, which are tried in order.


class Gather(msgspec.Struct, frozen=True, eq=False):
    """What a gang asks of the network; tiers by name, since the tree may not know them."""

    within: tuple[str, ...] = ()  # tiers in one domain of which the whole gang must be
    prefer: tuple[str, ...] = ()  # tiers in one domain of which it should be, in the order listed
    multiples: tuple[tuple[str, int], ...] = ()  # in each domain of a tier tasks come in multiples of a number
    parallel: bool = False  # its tasks form pipelines: domains are filled by name, pipeline by pipeline
    pipeline: int = 1  # how many tasks, one rank after the other, form a pipeline
    drawn: Ints = EMPTY  # rows of other tasks that it should be near, one entry each
    fault: str = ""  # why what it asks for cannot be read

    def _key(self) -> tuple[object, ...]:
        return self.within, self.prefer, self.multiples, self.parallel, self.pipeline, self.drawn.tobytes(), self.fault

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gather) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


# The form of a gang.


class Slot(msgspec.Struct, frozen=True):
    """One number that one group needs."""

    group: int
    at: int  # index into the group's `least`


class Leaf(msgspec.Struct, frozen=True):
    """A sub-group, or all of a gang that has none."""

    size: int  # pods with which it is whole
    tasks: Slot  # where each of its pods counts
    whole: Slot | None  # where it counts once, having `size` of them; None where nobody asks
    limits: tuple[Constraint, ...] = ()  # constraints on where it may be
    apart: bool = False  # at most so many of its like may be in one domain


class Wishes(msgspec.Struct, frozen=True):
    """Where and how all of a gang wants to be placed, beside the limits of its groups."""

    gather: Gather | None = None  # how its pods are gathered; None where it does not say
    ladder: tuple[LadderStep, ...] = ()  # for how long it holds out for which tier
    pattern: Pattern | None = None  # how its ranks talk to each other
    sizes: tuple[int, ...] = ()  # the numbers of pods that it may run with, ascending; none: all from its minimum on
    first_limits: tuple[Constraint, ...] = ()  # of the gang and its parts, those that name a tree in the first place
    further_limits: bool = False  # some of these have constraints on other trees besides


_NO_WISHES: Final = Wishes()


class ShapeGroup(msgspec.Struct, frozen=True):
    """A gang or a group in it."""

    least: tuple[int, ...]  # all of these numbers must be reached
    whole: Slot | None = None  # where it counts once, having reached them; None for the gang itself
    limits: tuple[Constraint, ...] = ()  # constraints on where all of it may be


class GangShape(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """What a gang needs; equal gangs share one, so `is` tells most of those apart that are not alike."""

    groups: tuple[ShapeGroup, ...]  # in preorder; 0 is the gang
    leaves: tuple[Leaf, ...]  # in the order of the job's sub-jobs
    roles: tuple[Slot, ...]  # where pods of each role with a minimum count, in the order of the job's roles
    wishes: Wishes
    parted: bool  # its pods are in sub-groups; else it has one leaf
    nested: bool  # its sub-groups are in groups of their own
    hashed: int
    gated: bool  # it needs more than a number of pods
    only_pods: bool  # it needs a number of pods, and has no sub-groups
    apart: bool  # some of its sub-groups must not share a domain with their like
    free: bool  # it has no sub-groups, and says nothing of where its pods stand
    one_part: Leaf | None  # the one kind of its sub-groups; None where it has none, several, or groups of them

    def __hash__(self) -> int:
        return self.hashed

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, GangShape) or self.hashed != other.hashed:
            return False
        return _key(self) == _key(other)


class LeafForm(msgspec.Struct, frozen=True):
    """A leaf as it is declared: in a policy of a gang of two levels, or in a group of a nested one."""

    size: int
    policy: int = -1
    group: int = -1
    limits: tuple[Constraint, ...] = ()
    apart: bool = False


class GroupForm(msgspec.Struct, frozen=True):
    """A group of a nested gang as it is declared: so many of its parts must be whole."""

    parent: int  # -1 for the gang itself
    minimum: int
    limits: tuple[Constraint, ...] = ()


_Key = tuple[tuple[ShapeGroup, ...], tuple[Leaf, ...], tuple[Slot, ...], Wishes, bool, bool]
_SHARED: Final[WeakValueDictionary[_Key, GangShape]] = WeakValueDictionary()
"""Shapes that some job has. That they are shared saves memory and time; whether two are equal does not depend on it."""


def gang_shape(
    minimum: int,
    *,
    roles: Sequence[int] = (),
    policies: Sequence[int] = (),
    groups: Sequence[GroupForm] = (),
    leaves: Sequence[LeafForm] = (),
    limits: tuple[Constraint, ...] = (),
    wishes: Wishes = _NO_WISHES,
) -> GangShape:
    """The shape of a gang of `minimum` pods.

    `roles` are the least numbers of pods by role, `policies` those of whole sub-groups by policy; `groups` are those of
    a nested gang, the gang itself first, whose leaves name them. A gang with any of these two is `parted`.
    """
    parts = (groups[0].minimum,) if groups else tuple(policies)
    pods = 1 if groups else 0  # of a nested gang parts come first, as in its other groups
    counts = (*parts, minimum) if groups else (minimum, *parts)
    slots = tuple([Slot(0, len(counts) + i) for i in range(len(roles))])
    made = [ShapeGroup((*counts, *roles), None, limits)]
    made += [ShapeGroup((group.minimum,), Slot(group.parent, 0), group.limits) for group in groups[1:]]
    in_gang = Slot(0, pods)
    nested = bool(groups)
    ends = tuple(
        [Leaf(leaf.size, in_gang, _counts_in(leaf, nested=nested), leaf.limits, leaf.apart) for leaf in leaves]
    )
    return _shared((tuple(made), ends, slots, wishes, bool(policies) or nested, nested), pods)


def _counts_in(leaf: LeafForm, *, nested: bool) -> Slot | None:
    """Where a leaf counts that is whole; one that needs nothing makes no group whole."""
    if nested:
        return Slot(leaf.group, 0) if leaf.group >= 0 and leaf.size else None
    return Slot(0, 1 + leaf.policy) if leaf.policy >= 0 else None


def _shared(key: _Key, pods: int) -> GangShape:
    shape = _SHARED.get(key)
    if shape is not None:
        return shape
    groups, leaves, roles, wishes, parted, nested = key
    beyond = (number for at, number in enumerate(groups[0].least) if at != pods)
    gated = len(groups) > 1 or any(number > 0 for number in beyond)
    only_pods = not gated and len(leaves) == 1 and leaves[0].whole is None
    apart = any(leaf.apart for leaf in leaves)
    placed = wishes.gather is not None or wishes.pattern is not None or _limited(groups, leaves)
    free = not (parted or placed)
    numbers = len(groups[0].least) - len(roles)  # its pods, and the whole sub-groups of each policy
    alike = parted and not nested and numbers == 2 and len(set(leaves)) == 1
    one_part = leaves[0] if alike else None
    shape = GangShape(groups, leaves, roles, wishes, parted, nested, hash(key), gated, only_pods, apart, free, one_part)
    _SHARED[key] = shape
    return shape


def _limited(groups: tuple[ShapeGroup, ...], leaves: tuple[Leaf, ...]) -> bool:
    return any(group.limits for group in groups) or any(leaf.limits for leaf in leaves)


def _key(shape: GangShape) -> _Key:
    return shape.groups, shape.leaves, shape.roles, shape.wishes, shape.parted, shape.nested


LONE: Final = gang_shape(1, leaves=(LeafForm(1),))
"""The shape of a pod by itself that says nothing of where it is placed."""


def lacking(shape: GangShape, ready: Sequence[int], roles: Sequence[int] = ()) -> list[list[int]]:
    """What every group lacks of each number that it needs: 0 or less where it has enough.

    `ready` are the pods of each leaf that count, `roles` those of each role.
    """
    left = [list(group.least) for group in shape.groups]
    for leaf, number in zip(shape.leaves, ready, strict=True):
        left[leaf.tasks.group][leaf.tasks.at] -= number
        if leaf.whole is not None and number >= leaf.size:
            left[leaf.whole.group][leaf.whole.at] -= 1
    for slot, number in zip(shape.roles, roles, strict=True):
        left[slot.group][slot.at] -= number
    for i in range(len(left) - 1, 0, -1):  # parts come after the groups that they are in
        slot_of_group = shape.groups[i].whole
        if slot_of_group is not None and max(left[i]) <= 0:
            left[slot_of_group.group][slot_of_group.at] -= 1
    return left


def without(shape: GangShape, left: list[list[int]], leaf: int, role: int, ready: int) -> list[Slot]:
    """The numbers that one pod fewer of a leaf takes one from, where `ready` of its pods count and this is `left`.

    `role` is the pod's role, -1 where that has no minimum.
    """
    end = shape.leaves[leaf]
    less = [end.tasks] if role < 0 else [end.tasks, shape.roles[role]]
    slot = end.whole if ready == end.size else None
    while slot is not None:
        less.append(slot)
        breaks = max(left[slot.group]) <= 0 and left[slot.group][slot.at] == 0
        slot = shape.groups[slot.group].whole if breaks else None
    return less


def around(shape: GangShape, group: int) -> Iterator[int]:
    """A group and those around it, from the inside out; none for a number below 0."""
    while group >= 0:
        yield group
        slot = shape.groups[group].whole
        group = slot.group if slot is not None else -1

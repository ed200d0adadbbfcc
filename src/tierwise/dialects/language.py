"""A language in which gangs are declared, as one record: all that the program needs to know of it.

Its folder holds the record (`language.py`) and what reads its objects. What other rooms do with them is named by the
record as "module:function" and loaded on use, since these rooms lie above this one. The audit's check shares no code
with what reads: a contract of the import linter ensures that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import msgspec

from tierwise.api.codec import KINDS_OF, Object, Raw
from tierwise.api.core import ObjectMeta, Pod
from tierwise.dialects.groups import Gathered, Group
from tierwise.dialects.jobs import Member
from tierwise.dialects.label_trees import LabelTree
from tierwise.model.arrays import Ints
from tierwise.port import Objects

__all__ = ["IN_SPEC", "Drawn", "Language", "NotOurs", "Rules", "kinds", "loaded", "marks_of"]

IN_SPEC = "spec.schedulingGroup"
"""Stands among the keys of a pod whose spec names a group."""

Drawn = Mapping[tuple[str, str], Ints]
"""Where the pods run that draw others towards them, by namespace and value of their selector annotation."""


class NotOurs(msgspec.Struct, frozen=True):
    """That something of a language is not for this scheduler to do, and why."""

    reason: str


def _none(objects: Objects) -> Iterator[Any]:
    return iter(())


def _no_sub_group(pod: Pod) -> str:
    return ""


class Rules(msgspec.Struct, frozen=True):
    """Rules of a profile for reading gangs."""

    match_policy: str = "once-satisfied"  # which pods count towards the minimum of gangs that do not say so
    across: bool = False  # gangs of several namespaces may form one group
    affinity: bool = False  # `spec.topologyAffinity` of Volcano's pod groups, a draft, is read


class Language(msgspec.Struct, frozen=True):
    """A language in which gangs are declared."""

    name: str  # the API group that it is called by
    reads: tuple[type[Object], ...]  # the records that its groups follow from
    declares: tuple[type[Object], ...]  # those of them that declare gangs; pods name the first
    named: Callable[[Pod], str]  # the group that a pod names, as namespace/name; "" where it names none
    keys: frozenset[str]  # of labels and annotations, without one of which it names none; `IN_SPEC` where its spec does
    page: str  # its reference page, below docs
    admit: str | NotOurs  # issues of an object that declares a gang: (record, key, surroundings)
    status: str | NotOurs  # what a cycle means for a job: (outcome)
    check: str | NotOurs  # findings of the audit: (objects)
    marks: tuple[type[Object], ...] | NotOurs  # one object declares one gang, and keeps since when a part of it runs
    # What one object declares: of the kind that pods name, by its path; None where it is a part of something larger.
    each: Callable[[str, Any, Rules], Group | None] | None = None
    # All other groups by what their pods call them, of several objects, or of pods that declare them: these are given
    # by what they call their group, with the first pod of each. One that has several names is under each.
    woven: Callable[[Objects, Mapping[str, Pod], Rules], dict[str, Group]] | None = None
    sub_group: Callable[[Pod], str] = _no_sub_group  # the sub-group of a pod, "" where it is in none
    joined: Callable[[Group, list[Member]], list[Member]] | None = None  # its pods as they count in their job
    gathered: Callable[[Group, Sequence[Member], Drawn], Gathered | None] | None = None
    # What a gang and its pods ask of the network, given where the pods run that draw others.
    trees: Callable[[Objects], Iterator[LabelTree]] = _none  # the trees of labels that its constraints are about
    # The kinds of trees that its objects declare, each with what these say of themselves: they may name a fabric.
    tree_marks: Callable[[Objects], Iterator[tuple[str, ObjectMeta]]] = _none
    tree_reads: tuple[type[Object], ...] = ()  # the records that both follow from
    level: Callable[[str], Raw] | NotOurs = NotOurs("its levels are those of a tree, not labels of nodes")
    # A patch of an object that makes the label of nodes the level which it requires.


def marks_of(pod: Pod) -> set[str]:
    """The keys of all labels and annotations of a pod: most pods have none that any language looks at."""
    spec = pod.spec
    marks = {*pod.metadata.labels, *pod.metadata.annotations}
    if spec.scheduling_group is not None or spec.workload_ref is not None:
        marks.add(IN_SPEC)
    return marks


def kinds(records: tuple[type[Object], ...]) -> Iterator[tuple[str, str]]:
    """The API groups and kinds of records."""
    return (kind for record in records for kind in KINDS_OF[record])


@cache
def loaded(name: str) -> Callable[..., Any]:
    """The function behind a name of a record."""
    module, _, function = name.partition(":")
    reader: Callable[..., Any] = getattr(import_module(module), function)
    return reader

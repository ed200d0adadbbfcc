"""A language in which gangs are declared, as one record: all that anybody needs to know of it.

Its folder holds the record (`language.py`) and what reads its objects. What other rooms do with them is named by the
record as "module:function" and loaded on use, since these rooms lie above this one. The audit's check shares no code
with what reads: a contract of the import linter holds it to that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pkgutil import resolve_name
from typing import Any

import msgspec

from tierwise.api.codec import KINDS_OF, Object, Raw
from tierwise.api.core import Pod
from tierwise.dialects.groups import Group
from tierwise.dialects.label_trees import LabelTree
from tierwise.port import Objects

__all__ = ["Language", "NotOurs", "kinds", "loaded"]


class NotOurs(msgspec.Struct, frozen=True):
    """That something of a language is not for this scheduler to do, and why."""

    reason: str


def _no_trees(objects: Objects) -> Iterator[LabelTree]:
    return iter(())


def _no_sub_group(pod: Pod) -> str:
    return ""


def _read_elsewhere(objects: Objects, pods: Mapping[str, Pod]) -> dict[str, Group]:
    return {}


class Language(msgspec.Struct, frozen=True):
    """A language in which gangs are declared."""

    name: str  # the API group that it is called by
    reads: tuple[type[Object], ...]  # the records that its groups follow from
    declares: tuple[type[Object], ...]  # those of them that declare gangs; pods name the first
    named: Callable[[Pod], str]  # the group that a pod names, as namespace/name; "" where it names none
    page: str  # its reference page, below docs
    admit: str | NotOurs  # issues of an object that declares a gang: (record, key, surroundings)
    status: str | NotOurs  # what a cycle means for a job: (outcome)
    check: str | NotOurs  # findings of the audit: (objects)
    marks: tuple[type[Object], ...] | NotOurs  # one object declares one gang, and keeps since when a part of it stands
    # Every group by what its pods call it; one that has several names stands under each. The pods are names that pods
    # of this language call, with the first pod of each: some groups follow from them.
    read: Callable[[Objects, Mapping[str, Pod]], dict[str, Group]] = _read_elsewhere
    sub_group: Callable[[Pod], str] = _no_sub_group  # the sub-group of a pod, "" where it is in none
    trees: Callable[[Objects], Iterator[LabelTree]] = _no_trees  # the trees that its constraints are about
    level: Callable[[str], Raw] | NotOurs = NotOurs("its levels are those of a tree, not labels of nodes")
    # A patch of an object that makes the label of nodes the level which it requires.


def kinds(records: tuple[type[Object], ...]) -> Iterator[tuple[str, str]]:
    """The API groups and kinds of records."""
    return (kind for record in records for kind in KINDS_OF[record])


def loaded(name: str) -> Callable[..., Any]:
    """The function behind a name of a record."""
    found: Callable[..., Any] = resolve_name(name)
    return found

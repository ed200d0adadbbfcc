"""What applying discovered hyperNodes to a cluster would create, change and delete.

Called by `topology diff`. A hyperNode counts as changed where its tier, its tier's name or its members differ; other
fields of its manifest are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from tierwise.api.natural import natural
from tierwise.api.volcano import HyperNode, MemberSpec
from tierwise.dialects.volcano.discovery import SOURCE_LABEL

__all__ = ["Change", "Changes", "Move", "changes"]


class Change(msgspec.Struct, frozen=True):
    """One hyperNode that comes, goes or becomes different; members that are not given by name are shown as patterns."""

    name: str
    tier: int
    tier_name: str
    was: tuple[int, str] | None  # tier and name before, where they differ
    added: tuple[str, ...]
    removed: tuple[str, ...]


class Move(msgspec.Struct, frozen=True):
    """A node that leaves one hyperNode for another; empty texts for none."""

    node: str
    before: str
    after: str


class Changes(msgspec.Struct, frozen=True):
    """Everything that would become different."""

    created: tuple[Change, ...]
    changed: tuple[Change, ...]
    deleted: tuple[Change, ...]
    same: int
    moves: tuple[Move, ...]
    unknown: tuple[str, ...]  # nodes that the source names and the cluster lacks
    unplaced: tuple[str, ...]  # nodes of the cluster that the source does not name

    @property
    def none(self) -> bool:
        return not (self.created or self.changed or self.deleted)


def changes(
    hypernodes: Sequence[HyperNode], present: Mapping[str, HyperNode], *, source: str, nodes: Iterable[str]
) -> Changes:
    """Return what has to be created, changed and deleted so that a cluster has the hyperNodes of a source; it changes
    nothing. present are those of the cluster, by name; only those labelled as this source's are deleted. nodes are the
    names of the cluster's nodes, for the report of unknown and unplaced ones; without any none counts as unknown.
    """
    named = {hypernode.metadata.name: hypernode for hypernode in hypernodes}
    mine = [hypernode for hypernode in present.values() if hypernode.metadata.labels.get(SOURCE_LABEL) == source]
    gone = [hypernode for hypernode in mine if hypernode.metadata.name not in named]
    both = [(present[name], hypernode) for name, hypernode in named.items() if name in present]
    changed = [(old, new) for old, new in both if _differ(old, new)]
    after = _homes(named.values())
    existing = set(nodes)
    return Changes(
        created=_told((None, hypernode) for name, hypernode in named.items() if name not in present),
        changed=_told(changed),
        deleted=_told((hypernode, None) for hypernode in gone),
        same=len(both) - len(changed),
        moves=tuple(_moves(_homes([*(old for old, _ in both), *gone]), after)),
        unknown=tuple(sorted(after.keys() - existing, key=natural)) if existing else (),
        unplaced=tuple(sorted(existing - after.keys(), key=natural)),
    )


def _differ(old: HyperNode, new: HyperNode) -> bool:
    return (old.spec.tier, old.spec.tier_name) != (new.spec.tier, new.spec.tier_name) or _members(old) != _members(new)


def _told(pairs: Iterable[tuple[HyperNode | None, HyperNode | None]]) -> tuple[Change, ...]:
    changes_found = []
    for old, new in pairs:
        shown = new or old
        assert shown is not None
        before = _members(old)
        after = _members(new)
        height = (shown.spec.tier, shown.spec.tier_name)
        was = (old.spec.tier, old.spec.tier_name) if old is not None else height
        changes_found.append(
            Change(
                shown.metadata.name,
                *height,
                was=None if was == height else was,
                added=tuple(sorted(after - before, key=natural)),
                removed=tuple(sorted(before - after, key=natural)),
            )
        )
    return tuple(sorted(changes_found, key=lambda change: (change.tier, natural(change.name))))


def _members(hypernode: HyperNode | None) -> set[str]:
    if hypernode is not None:
        return {_shown(member) for member in hypernode.spec.members}
    return set()


def _shown(member: MemberSpec) -> str:
    selector = member.selector
    if selector.exact_match is not None:
        return selector.exact_match.name
    if selector.regex_match is not None:
        return f"/{selector.regex_match.pattern}/"
    labels = selector.label_match.match_labels if selector.label_match is not None else {}
    return f"{{{', '.join(f'{key}={value}' for key, value in sorted(labels.items()))}}}"


def _homes(hypernodes: Iterable[HyperNode]) -> dict[str, str]:
    """The hyperNode that names each node exactly."""
    homes = {}
    for hypernode in hypernodes:
        for member in hypernode.spec.members:
            if member.type == "Node" and member.selector.exact_match is not None:
                homes[member.selector.exact_match.name] = hypernode.metadata.name
    return homes


def _moves(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Move]:
    for node in sorted(before.keys() | after.keys(), key=natural):
        old = before.get(node, "")
        new = after.get(node, "")
        if old != new:
            yield Move(node, old, new)

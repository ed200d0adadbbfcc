"""The one form that every source is read into: each node with the domains around it.

A domain's identity is its path, because sites use one name for many switches: rack 4 of one hall is not rack 4 of
another. Readers build a `Tree` from the paths of nodes; writers of hyperNodes and other formats ask it for members.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import msgspec

from tierwise.api.natural import NaturalKey, natural

__all__ = ["Discovered", "Path", "PathElement", "SourceRemark", "Tree"]


class PathElement(NamedTuple):
    """One domain on the way to a node: its tier, 1 innermost, and what the source calls it."""

    tier: int
    name: str


Path = tuple[PathElement, ...]
"""The domains around something, outermost first; the last step is the domain itself. Tiers fall along a path."""


class Members(msgspec.Struct, frozen=True):
    """Direct members of a domain, in natural order."""

    nodes: tuple[str, ...]
    domains: tuple[Path, ...]


class Tree(msgspec.Struct, frozen=True, dict=True):
    """The domains of one network: every node is in one domain, and through it in those around.

    `tier_names` says what the source calls its tiers. `unique` is the source's promise that no two domains share a
    name, so that a domain may be moved without being renamed.
    """

    places: Mapping[str, Path]
    tier_names: Mapping[int, str] = {}
    unique: bool = False

    @cached_property
    def domains(self) -> dict[Path, Members]:
        """Every domain with its members: tier after tier from the innermost, natural order within a tier."""
        nodes: dict[Path, list[str]] = {}
        inner: dict[Path, set[Path]] = {}
        for node, place in self.places.items():
            nodes.setdefault(place, []).append(node)
        for place in nodes:
            for length in range(len(place) - 1, 0, -1):
                above = inner.setdefault(place[:length], set())
                if place[: length + 1] in above:
                    break
                above.add(place[: length + 1])
        ordered = sorted({*nodes, *inner}, key=lambda path: (path[-1].tier, path_key(path)))
        return {
            path: Members(
                tuple(sorted(nodes.get(path, ()), key=natural)), tuple(sorted(inner.get(path, ()), key=path_key))
            )
            for path in ordered
        }

    def __iter__(self) -> Iterator[Path]:
        return iter(self.domains)

    def __len__(self) -> int:
        return len(self.domains)

    @property
    def tiers(self) -> list[int]:
        """The tiers that have domains, innermost first."""
        return sorted({path[-1].tier for path in self.domains})


def path_key(path: Path) -> tuple[tuple[NaturalKey, int], ...]:
    """Natural order of paths, step by step from the outermost."""
    return tuple((natural(step.name), step.tier) for step in path)


class SourceRemark(msgspec.Struct, frozen=True):
    """Something about a source that people should know; with an error nothing at all is discovered.

    `where` is the file with a line, or with the field of a structured text.
    """

    where: str
    text: str
    error: bool = True

    def __str__(self) -> str:
        if self.where:
            return f"{self.where}: {self.text}"
        return self.text


class Discovered(msgspec.Struct, frozen=True):
    """Tree that a source gave, and remarks. The tree is empty if a remark is an error: an old tree is better than half
    of one.
    """

    tree: Tree
    remarks: tuple[SourceRemark, ...] = ()

    @classmethod
    def of(cls, tree: Tree, remarks: Iterable[SourceRemark] = ()) -> Discovered:
        """The tree with what is to be said about it."""
        listed_remarks = tuple(remarks)
        return cls(Tree({}) if any(remark.error for remark in listed_remarks) else tree, listed_remarks)

    @classmethod
    def failed(cls, *remarks: SourceRemark) -> Discovered:
        """Nothing, and why."""
        return cls(Tree({}), remarks)

    @property
    def errors(self) -> list[SourceRemark]:
        return [remark for remark in self.remarks if remark.error]

    @property
    def warnings(self) -> list[SourceRemark]:
        return [remark for remark in self.remarks if not remark.error]

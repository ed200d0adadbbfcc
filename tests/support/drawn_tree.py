"""The text in which drawings write trees, read into domains; `tests.support.draw` says what it looks like."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

__all__ = ["Domain", "domains", "node_names", "read_tree"]


class Domain(msgspec.Struct, frozen=True):
    """A domain with its members, domains or names of nodes."""

    name: str
    members: tuple[Domain | str, ...]
    given: int | None

    @property
    def tier(self) -> int:
        inner = (m.tier for m in self.members if isinstance(m, Domain))
        return self.given if self.given is not None else 1 + max(inner, default=0)


def read_tree(text: str) -> tuple[Domain | str, ...]:
    """The members of the whole cluster."""
    return _parse(re.findall(r"[^\s\[\]():]+|[\[\]():]", text))


def _parse(tokens: list[str]) -> tuple[Domain | str, ...]:
    """Members up to the end of the group; uses the tokens up."""
    members: list[Domain | str] = []
    while tokens and tokens[0] not in ("]", ")"):
        name = tokens.pop(0)
        opened = tokens[0] if tokens else ""
        if name == "(":
            members += _parse(tokens)
            tokens.pop(0)
        elif opened in ("[", ":"):
            tokens.pop(0)
            short, _, tier = name.partition("@")
            members.append(Domain(short, _parse(tokens), int(tier) if tier else None))
            if opened == "[":
                tokens.pop(0)
        else:
            members += _range(name)
    return tuple(members)


def _range(name: str) -> list[str]:
    found = re.fullmatch(r"(.*?)(\d+)\.\.(\d+)", name)
    return [f"{found[1]}{i}" for i in range(int(found[2]), int(found[3]) + 1)] if found else [name]


def node_names(members: Iterable[Domain | str]) -> Iterator[str]:
    """Every node, in the order of the text."""
    for member in members:
        yield from node_names(member.members) if isinstance(member, Domain) else (member,)


def domains(members: Iterable[Domain | str]) -> Iterator[Domain]:
    """Every domain, outer ones first."""
    for member in members:
        if isinstance(member, Domain):
            yield member
            yield from domains(member.members)

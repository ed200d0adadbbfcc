"""Names for discovered domains: stable from run to run, unique by path, and short enough for a label.

A name follows from the domain's path alone, so that nothing elsewhere in the tree can change it. Only paths that look
alike once they are spelled as Kubernetes wants (S1 and s1) are told apart by a hash, again of the path alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Container
from typing import Final

from tierwise.discovery.tree import Path, Tree

__all__ = ["LONGEST", "names"]

LONGEST: Final = 63
"""Characters of a name: a label's value may have no more, and names end up in labels."""

_HASH: Final = 8
_FULL_HASH: Final = 40
_ODD: Final = re.compile(r"[^a-z0-9]+")


def names(tree: Tree, prefix: str = "", taken: Container[str] = frozenset()) -> dict[Path, str]:
    """The name of each domain, after `prefix`; what is `taken` is taken by others and stays theirs."""
    plain = {path: _plain(path, prefix, whole=not tree.unique) for path in tree}
    chosen = _unlike(plain, lambda path: _hashed(plain[path], path, _HASH), taken)
    # A hash of eight digits may still meet a chosen name; one of forty does not.
    return _unlike(chosen, lambda path: _hashed(plain[path], path, _FULL_HASH), taken)


def _unlike(given: dict[Path, str], other: Callable[[Path], str], taken: Container[str]) -> dict[Path, str]:
    """The names with another one for every path whose name is not its own."""
    owners: dict[str, int] = {}
    for name in given.values():
        owners[name] = owners.get(name, 0) + 1
    return {path: other(path) if owners[name] > 1 or name in taken else name for path, name in given.items()}


def _plain(path: Path, prefix: str, *, whole: bool) -> str:
    words = [step.name for step in (path if whole else path[-1:])]
    spelled = _ODD.sub("-", f"{prefix}{'-'.join(words)}".lower()).strip("-")
    if not _ODD.sub("-", "".join(words).lower()).strip("-"):  # nothing of a name in another script is left
        return _hashed(f"{spelled}-tier{path[-1].tier}".strip("-"), path, _HASH)
    return spelled if len(spelled) <= LONGEST else _hashed(spelled, path, _HASH)


def _hashed(spelled: str, path: Path, digits: int) -> str:
    text = "\n".join(f"{tier} {name}" for tier, name in path)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
    return f"{spelled[: LONGEST - digits - 1].rstrip('-')}-{digest}".strip("-")

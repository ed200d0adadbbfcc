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


def names(tree: Tree, prefix: str = "", used_names: Container[str] = frozenset()) -> dict[Path, str]:
    """The name of each domain, after `prefix`; what is `taken` is taken by others and stays theirs."""
    plain = {path: _plain(path, prefix, full_path=not tree.unique) for path in tree}
    unique_names = _unlike(plain, lambda path: _hashed(plain[path], path, _HASH), used_names)
    # A hash of eight digits may still meet a chosen name; one of forty does not.
    return _unlike(unique_names, lambda path: _hashed(plain[path], path, _FULL_HASH), used_names)


def _unlike(
    names_by_path: dict[Path, str], rename: Callable[[Path], str], used_names: Container[str]
) -> dict[Path, str]:
    """The names with another one for every path whose name is not its own."""
    owners: dict[str, int] = {}
    for name in names_by_path.values():
        owners[name] = owners.get(name, 0) + 1
    return {
        path: rename(path) if owners[name] > 1 or name in used_names else name for path, name in names_by_path.items()
    }


def _plain(path: Path, prefix: str, *, full_path: bool) -> str:
    words = [step.name for step in (path if full_path else path[-1:])]
    spelled = _ODD.sub("-", f"{prefix}{'-'.join(words)}".lower()).strip("-")
    if not _ODD.sub("-", "".join(words).lower()).strip("-"):  # nothing of a name in another script is left
        return _hashed(f"{spelled}-tier{path[-1].tier}".strip("-"), path, _HASH)
    if len(spelled) <= LONGEST:
        return spelled
    return _hashed(spelled, path, _HASH)


def _hashed(spelled: str, path: Path, digits: int) -> str:
    text = "\n".join(f"{tier} {name}" for tier, name in path)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
    return f"{spelled[: LONGEST - digits - 1].rstrip('-')}-{digest}".strip("-")

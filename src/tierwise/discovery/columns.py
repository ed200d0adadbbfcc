"""Which columns of a host map hold the host and the tiers, and in which order.

Called by `host_map`. What is said by options holds; else well-known words decide, then the values themselves. Where the
order cannot be told from either, that is an error: a guess would turn a network inside out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

__all__ = ["Columns", "columns"]

_HOSTS: Final = (
    "node", "nodename", "host", "hostname", "instance", "instanceid",
    "server", "machine", "name", "sn", "ip", "address",
)  # fmt: skip
# Innermost first; words on one line mean the same height.
_TIERS: Final = (
    ("subdomain",),
    ("accelerator", "nvl", "nvlink", "nvldomain", "nvlinkdomain", "clique", "superpod", "supernode", "hypernode"),
    ("chassis", "enclosure"),
    ("leaf", "leafswitch", "tor", "torswitch", "rack", "asw", "accessswitch", "switch"),
    ("row",),
    ("block", "su", "scalableunit"),
    ("spine", "spineswitch", "psw", "pod", "podswitch", "aggregation", "agg"),
    ("core", "coreswitch", "dsw", "superspine", "fabric"),
    ("room", "hall"),
    ("datacenter", "dc"),
    ("zone", "availabilityzone", "az"),
    ("region",),
)
_RANKS: Final = {word: rank for rank, words in enumerate(_TIERS) for word in words}


class Columns(msgspec.Struct, frozen=True):
    """The column of hosts, the columns of tiers from the innermost outwards, and those that nothing is read from."""

    host: str
    tiers: tuple[str, ...]
    ignored: tuple[str, ...] = ()


def columns(
    titles: Sequence[str], rows: Sequence[Mapping[str, str]], host: str = "", tiers: Sequence[str] = ()
) -> Columns:
    """The columns of a map with these titles and rows; ValueError where they cannot be told."""
    for wanted in (*([host] if host else []), *tiers):
        if wanted not in titles:
            raise ValueError(f'there is no column "{wanted}": it has {", ".join(titles)}')
    hosts = host or _host(titles, rows, tiers)
    if hosts in tiers:
        raise ValueError(f'column "{hosts}" cannot be the host and a tier')
    rest = [title for title in titles if title != hosts]
    chosen = tuple(tiers) or _ordered(rest, rows)
    return Columns(hosts, chosen, tuple(title for title in rest if title not in chosen))


def _host(titles: Sequence[str], rows: Sequence[Mapping[str, str]], tiers: Sequence[str]) -> str:
    free = [title for title in titles if title not in tiers]
    named = [title for word in _HOSTS for title in free if _word(title) == word]
    if named:
        return named[0]
    distinct = [title for title in free if len({row.get(title, "") for row in rows}) == len(rows) > 1]
    if len(distinct) == 1:
        return distinct[0]
    raise ValueError("no column is known to name the hosts: say which (host column)")


def _ordered(titles: Sequence[str], rows: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    """Columns from the innermost outwards: by their words, else by how many values they have."""
    known = [title for title in titles if _word(title) in _RANKS]
    if known:
        ranks = [_RANKS[_word(title)] for title in known]
        if len(set(ranks)) == len(ranks):
            return tuple(title for _, title in sorted(zip(ranks, known, strict=True)))
    candidates = known or list(titles)
    if not candidates:
        raise ValueError("there is no column for a tier")
    counts = {title: len({row.get(title, "") for row in rows} - {""}) for title in candidates}
    if len(set(counts.values())) < len(counts):
        raise ValueError(f"the order of {', '.join(candidates)} cannot be told: say it (tiers, innermost first)")
    return tuple(sorted(candidates, key=lambda title: -counts[title]))


def _word(title: str) -> str:
    return "".join(c for c in title.lower() if c.isalnum())

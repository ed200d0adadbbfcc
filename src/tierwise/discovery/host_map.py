"""A map of hosts: a table with one row for each host and a column for each tier, as CSV or JSON.

JSON is a list of objects, or an object of objects by host. An empty cell passes a tier over.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from tierwise.api.errors import suggestion
from tierwise.discovery.tree import Discovered, Path, PathElement, SourceRemark, Tree

__all__ = ["parse_csv", "parse_json"]


# Which columns of a host map hold the host and the tiers, and in which order.
#
# Called by `host_map`. What is said by options holds; else well-known words decide, then the values themselves. Where
# the order cannot be told from either, that is an error: a guess would turn a network inside out.


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
    for title_wanted in (*([host] if host else []), *tiers):
        if title_wanted not in titles:
            raise ValueError(
                f'there is no column "{title_wanted}": it has {", ".join(titles)}{suggestion(title_wanted, titles)}'
            )
    hosts = host or _host(titles, rows, tiers)
    if hosts in tiers:
        raise ValueError(f'column "{hosts}" cannot be the host and a tier')
    other_titles = [title for title in titles if title != hosts]
    tier_titles = tuple(tiers) or _ordered(other_titles, rows)
    return Columns(hosts, tier_titles, tuple(title for title in other_titles if title not in tier_titles))


def _host(titles: Sequence[str], rows: Sequence[Mapping[str, str]], tiers: Sequence[str]) -> str:
    free = [title for title in titles if title not in tiers]
    named = []
    for word in _HOSTS:
        for title in free:
            if _word(title) == word:
                named.append(title)
    if named:
        return named[0]
    distinct = [title for title in free if len({row.get(title, "") for row in rows}) == len(rows) > 1]
    if len(distinct) == 1:
        return distinct[0]
    raise ValueError("no column is known to name the hosts: say which (host column)")


def _ordered(titles: Sequence[str], rows: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    """The titles of the tier columns, innermost first.

    They are those with known words, such as rack, where there are any, else all; known words order them, or else the
    number of values, most first. ValueError where there is no column, or two have equally many values.
    """
    ranked = [title for title in titles if _word(title) in _RANKS]
    if ranked:
        ranks = [_RANKS[_word(title)] for title in ranked]
        if len(set(ranks)) == len(ranks):
            return tuple(title for _, title in sorted(zip(ranks, ranked, strict=True)))
    candidates = ranked or list(titles)
    if not candidates:
        raise ValueError("there is no column for a tier")
    counts = {title: len({row.get(title, "") for row in rows} - {""}) for title in candidates}
    if len(set(counts.values())) < len(counts):
        raise ValueError(f"the order of {', '.join(candidates)} cannot be told: say it (tiers, innermost first)")
    return tuple(sorted(candidates, key=lambda title: -counts[title]))


def _word(title: str) -> str:
    return "".join(c for c in title.lower() if c.isalnum())


_DELIMITERS: Final = ",;\t|"
_HOST: Final = "host"


class _Row(msgspec.Struct, frozen=True):
    """The cells of a row by title, and its place."""

    cells: Mapping[str, str]
    where: str


def parse_csv(text: str, file: str, host: str = "", tiers: Sequence[str] = ()) -> Discovered:
    """The tree of a table with a line of titles; `tiers` are columns, innermost first."""
    try:
        titles, rows = _table(text.removeprefix("\ufeff"), file)
    except (csv.Error, ValueError) as error:
        return Discovered.failed(SourceRemark(file, str(error)))
    return _planted(titles, rows, file, host, tiers)


def _table(text: str, file: str) -> tuple[list[str], list[_Row]]:
    heading = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(_DELIMITERS, key=heading.count)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    titles: list[str] = []
    rows: list[_Row] = []
    for cells in lines:
        stripped = [cell.strip() for cell in cells]
        if not any(stripped):
            continue
        if not titles:
            titles = stripped
            if len(set(titles)) < len(titles):
                raise ValueError("two columns have the same title")
            continue
        if len(stripped) != len(titles):
            raise ValueError(f"line {lines.line_num} has {len(stripped)} cells, the titles are {len(titles)}")
        rows.append(_Row(dict(zip(titles, stripped, strict=True)), f"{file}:{lines.line_num}"))
    return titles, rows


def parse_json(data: object, file: str, host: str = "", tiers: Sequence[str] = ()) -> Discovered:
    """The tree of a table in JSON that has been read already."""
    if isinstance(data, dict):
        host = host or _HOST
        entries = [
            (f"{file}: {name}", {host: name, **entry}) for name, entry in data.items() if isinstance(entry, dict)
        ]
        malformed = [name for name, entry in data.items() if not isinstance(entry, dict)]
    elif isinstance(data, list):
        entries = [(f"{file}: [{i}]", entry) for i, entry in enumerate(data) if isinstance(entry, dict)]
        malformed = [f"[{i}]" for i, entry in enumerate(data) if not isinstance(entry, dict)]
    else:
        return Discovered.failed(SourceRemark(file, "expected a list of hosts, or an object by host"))
    if malformed:
        return Discovered.failed(SourceRemark(f"{file}: {malformed[0]}", "expected an object with the tiers of a host"))
    titles = list(dict.fromkeys(str(key) for _, entry in entries for key in entry))
    rows = [_Row({str(k): _cell(v) for k, v in entry.items()}, where) for where, entry in entries]
    # What is itself a list or an object, such as addresses, names no domain.
    flat = [t for t in titles if not any(isinstance(entry.get(t), dict | list) for _, entry in entries)]
    return _planted(flat, rows, file, host, tiers)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip()
    return str(value)


def _planted(titles: Sequence[str], rows: Sequence[_Row], file: str, host: str, tiers: Sequence[str]) -> Discovered:
    if not rows:
        return Discovered.failed(SourceRemark(file, "lists no host"))
    try:
        chosen_columns = columns(titles, [row.cells for row in rows], host, tiers)
    except ValueError as error:
        return Discovered.failed(SourceRemark(file, str(error)))
    places: dict[str, Path] = {}
    remarks = [*_placed(rows, chosen_columns, places), *_unread(chosen_columns, file)]
    return Discovered.of(Tree(places, dict(enumerate(chosen_columns.tiers, start=1))), remarks)


def _placed(rows: Sequence[_Row], chosen_columns: Columns, places: dict[str, Path]) -> Iterator[SourceRemark]:
    """Fills in the places; remarks about rows that say nothing, or something else than another."""
    seen_at: dict[str, str] = {}
    for row in rows:
        node = row.cells.get(chosen_columns.host, "")
        path = tuple(
            PathElement(tier, value)
            for tier, title in reversed(list(enumerate(chosen_columns.tiers, start=1)))
            if (value := row.cells.get(title, ""))
        )
        if not node:
            yield SourceRemark(row.where, f"{chosen_columns.host} is empty")
        elif node in seen_at:
            same_place = places.get(node, ()) == path
            text = f"host {node} is listed twice, first at {seen_at[node]}" + (
                "" if same_place else ", in another place"
            )
            yield SourceRemark(row.where, text, error=not same_place)
        elif not path:
            yield SourceRemark(row.where, f"host {node} is in no domain", error=False)
        if node and node not in seen_at:
            seen_at[node] = row.where
            if path:
                places[node] = path


def _unread(chosen_columns: Columns, file: str) -> Iterator[SourceRemark]:
    if chosen_columns.ignored:
        many = len(chosen_columns.ignored) > 1
        text = f"column{'s' if many else ''} {', '.join(chosen_columns.ignored)} {'are' if many else 'is'} not read"
        yield SourceRemark(file, text, error=False)

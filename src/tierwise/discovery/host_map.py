"""A map of hosts: a table with one row for each host and a column for each tier, as CSV or JSON.

JSON is a list of objects, or an object of objects by host. An empty cell passes a tier over.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from tierwise.discovery.columns import Columns, columns
from tierwise.discovery.tree import Discovered, Path, Remark, Step, Tree

__all__ = ["parse_csv", "parse_json"]

_DELIMITERS: Final = ",;\t|"
_HOST: Final = "host"


class _Row(msgspec.Struct, frozen=True):
    """The cells of a row by title, and where it stands."""

    cells: Mapping[str, str]
    where: str


def parse_csv(text: str, file: str, host: str = "", tiers: Sequence[str] = ()) -> Discovered:
    """The tree of a table with a line of titles; `tiers` are columns, innermost first."""
    try:
        titles, rows = _table(text.removeprefix("\ufeff"), file)
    except (csv.Error, ValueError) as error:
        return Discovered.failed(Remark(file, str(error)))
    return _planted(titles, rows, file, host, tiers)


def _table(text: str, file: str) -> tuple[list[str], list[_Row]]:
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(_DELIMITERS, key=first.count)
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
        return Discovered.failed(Remark(file, "expected a list of hosts, or an object by host"))
    if malformed:
        return Discovered.failed(Remark(f"{file}: {malformed[0]}", "expected an object with the tiers of a host"))
    titles = list(dict.fromkeys(str(key) for _, entry in entries for key in entry))
    rows = [_Row({str(k): _cell(v) for k, v in entry.items()}, where) for where, entry in entries]
    # What is itself a list or an object, such as addresses, names no domain.
    flat = [t for t in titles if not any(isinstance(entry.get(t), dict | list) for _, entry in entries)]
    return _planted(flat, rows, file, host, tiers)


def _cell(value: object) -> str:
    return "" if value is None else value.strip() if isinstance(value, str) else str(value)


def _planted(titles: Sequence[str], rows: Sequence[_Row], file: str, host: str, tiers: Sequence[str]) -> Discovered:
    if not rows:
        return Discovered.failed(Remark(file, "lists no host"))
    try:
        found = columns(titles, [row.cells for row in rows], host, tiers)
    except ValueError as error:
        return Discovered.failed(Remark(file, str(error)))
    places: dict[str, Path] = {}
    remarks = [*_placed(rows, found, places), *_unread(found, file)]
    return Discovered.of(Tree(places, dict(enumerate(found.tiers, start=1))), remarks)


def _placed(rows: Sequence[_Row], found: Columns, places: dict[str, Path]) -> Iterator[Remark]:
    """Fills in the places; remarks about rows that say nothing, or something else than another."""
    first: dict[str, str] = {}
    for row in rows:
        node = row.cells.get(found.host, "")
        path = tuple(
            Step(tier, value)
            for tier, title in reversed(list(enumerate(found.tiers, start=1)))
            if (value := row.cells.get(title, ""))
        )
        if not node:
            yield Remark(row.where, f"{found.host} is empty")
        elif node in first:
            same = places.get(node, ()) == path
            text = f"host {node} is listed twice, first at {first[node]}" + ("" if same else ", in another place")
            yield Remark(row.where, text, error=not same)
        elif not path:
            yield Remark(row.where, f"host {node} stands in no domain", error=False)
        if node and node not in first:
            first[node] = row.where
            if path:
                places[node] = path


def _unread(found: Columns, file: str) -> Iterator[Remark]:
    if found.ignored:
        many = len(found.ignored) > 1
        text = f"column{'s' if many else ''} {', '.join(found.ignored)} {'are' if many else 'is'} not read"
        yield Remark(file, text, error=False)

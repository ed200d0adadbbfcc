"""What the answers of plugins are made of, node by node: costs, limits kept and violated, what links have left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from tierwise.explain.page import Page, count, heading
from tierwise.explain.ranges import compact
from tierwise.explain.tables import Cell, Column, table
from tierwise.framework.probe import NodeLook

__all__ = ["figure_lines"]

_MOST = 12
_SUFFIXES = ("", "k", "M", "G", "T")


def figure_lines(page: Page, nodes: Sequence[NodeLook]) -> list[Text]:
    """A section for each plugin that gave figures; nodes with the same figures stand on one line."""
    plugins = dict.fromkeys(plugin for node in nodes for plugin in node.figures)
    return [line for plugin in plugins for line in _section(page, plugin, nodes)]


def _section(page: Page, plugin: str, nodes: Sequence[NodeLook]) -> list[Text]:
    groups: dict[tuple[str, ...], list[str]] = {}
    fields: tuple[str, ...] = ()
    for node in nodes:
        figures = node.figures.get(plugin)
        if figures:
            fields = tuple(figures)
            groups.setdefault(tuple(_shown(figures[field]) for field in fields), []).append(node.name)
    ranked = list(groups.items()) if page.everything else list(groups.items())[:_MOST]
    rows: list[list[Cell]] = [[compact(names, most=2), *figures] for figures, names in ranked]
    columns = [Column("node", least=10)]
    for number, field in enumerate(fields):
        columns.append(Column(field, right=True) if _plain(rows, number) else Column(field, least=20, wraps=True))
    lines = [*heading(plugin), *table(page, columns, rows)]
    rest = sum(len(names) for names in groups.values()) - sum(len(names) for _, names in ranked)
    return [*lines, Text(f"  and {count(rest, 'more node')}; --all shows them", style="dim")] if rest else lines


def _plain(rows: Sequence[Sequence[Cell]], field: int) -> bool:
    """Whether a column holds nothing but numbers."""
    return all(str(row[field + 1]).lstrip("-").isdigit() for row in rows)


def _shown(value: object) -> str:
    if isinstance(value, list):
        return "; ".join(_link(entry) for entry in value)
    return str(value)


def _link(entry: Mapping[str, object]) -> str:
    left, capacity, needs = (_short(entry[field]) for field in ("left", "capacity", "needs"))
    return f"{entry['link']}: {left} of {capacity} left, {needs} needed"


def _short(number: object) -> str:
    """An amount with the largest decimal suffix that loses nothing: 500M."""
    assert isinstance(number, int)
    power = 0
    while number and number % 1000 == 0 and power < len(_SUFFIXES) - 1:
        number, power = number // 1000, power + 1
    return f"{number}{_SUFFIXES[power]}"

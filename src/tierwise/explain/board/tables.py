"""Tables of jobs, nodes, domains and queues: columns, an order, words and conditions that rows must meet, and CSV.

A page asks for some rows at a time. A domain's row tells what draining it would cost, by counting: nothing is tried.
"""

from __future__ import annotations

import csv
import io
import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from tierwise.actions.placement.bounds import Room
from tierwise.api.codec import Raw
from tierwise.api.errors import InputError, suggestion
from tierwise.api.natural import natural
from tierwise.config.profile import Profile
from tierwise.explain.board.jobs import Line
from tierwise.explain.board.pods import BoardPod
from tierwise.explain.board.tree import BoardTree
from tierwise.explain.disruption import Losses
from tierwise.explain.naming import tier_label
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import CPU, Ints
from tierwise.model.job import Status
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT, AlternateTopology
from tierwise.scheduler import open_cycle

__all__ = [
    "TABLES",
    "Row",
    "Table",
    "TableQuery",
    "csv_text",
    "domain_rows",
    "job_rows",
    "node_rows",
    "queue_rows",
    "rows_wire",
]

_MOST: Final = 500
"""Rows of one answer; a page asks again for those that follow."""

_KEYS: Final = 3
"""Columns that rows are ordered by at most."""

_SHAPES: Final = 64
"""Kinds of pods that are counted elsewhere for a drain; where more run, it is not said whether they fit there."""

Value = str | int | float | None
Row = Mapping[str, Value]


class TableColumn(msgspec.Struct, frozen=True):
    """A column: its name in addresses, its title, and how a page shows it."""

    name: str
    title: str
    kind: str = "text"  # text, number, amount, share, age, hours, job, node, domain or queue


class Table(msgspec.Struct, frozen=True):
    """The columns of a table, and its order where none is asked for: a column, with "-" from the largest down."""

    columns: tuple[TableColumn, ...]
    order: str


class TableQuery(msgspec.Struct, frozen=True):
    """Which rows of a table a page wants; what is empty selects nothing away."""

    table: str
    text: str = ""  # words that a row must have, and conditions such as free>8 or state=cordoned
    sort: str = ""  # columns with commas between them, each with "-" before it from the largest down
    resource: str = ""  # of amounts; the first one where there is none of this name
    tier: str = ""  # of domains, by number or name, or "lowest"; every tier where it is empty
    offset: int = 0
    limit: int = 100


def _columns(*columns: tuple[str, str] | tuple[str, str, str]) -> tuple[TableColumn, ...]:
    return tuple(TableColumn(*column) for column in columns)


TABLES: Final[Mapping[str, Table]] = {
    "jobs": Table(
        _columns(
            ("job", "job", "job"),
            ("queue", "queue", "queue"),
            ("state", "state"),
            ("pods", "pods", "number"),
            ("waiting", "waiting", "number"),
            ("minimum", "minimum", "number"),
            ("used", "holds", "amount"),
            ("asks", "asks for", "amount"),
            ("priority", "priority", "number"),
            ("age", "age", "age"),
            ("domain", "domain", "domain"),
            ("expected", "expected"),
            ("reason", "reason"),
        ),
        "-used",
    ),
    "nodes": Table(
        _columns(
            ("node", "node", "node"),
            ("domain", "domain", "domain"),
            ("state", "state"),
            ("used", "in use", "amount"),
            ("total", "has", "amount"),
            ("free", "free", "amount"),
            ("share", "in use of it", "share"),
            ("pods", "pods", "number"),
            ("jobs", "jobs", "number"),
        ),
        "node",
    ),
    "domains": Table(
        _columns(
            ("domain", "domain", "domain"),
            ("tier", "tier"),
            ("nodes", "nodes", "number"),
            ("shut", "take no pods", "number"),
            ("empty", "empty nodes", "number"),
            ("used", "in use", "amount"),
            ("total", "has", "amount"),
            ("free", "free", "amount"),
            ("share", "in use of it", "share"),
            ("jobs", "jobs", "number"),
            ("pods", "pods that restart if drained", "number"),
            ("broken", "gangs that stop", "number"),
            ("lost", "hours lost", "hours"),
            ("elsewhere", "room elsewhere"),
        ),
        "-share",
    ),
    "queues": Table(
        _columns(
            ("queue", "queue", "queue"),
            ("parent", "parent", "queue"),
            ("state", "state"),
            ("waiting", "jobs that wait", "number"),
            ("used", "in use", "amount"),
            ("deserved", "deserved", "amount"),
            ("over", "of its share", "share"),
            ("borrowed", "borrowed", "amount"),
            ("guarantee", "guaranteed", "amount"),
            ("capability", "limit", "amount"),
            ("weight", "weight", "number"),
            ("priority", "priority", "number"),
        ),
        "-over",
    ),
}
"""Every table by its name."""

_CONDITION: Final = re.compile(r"([a-z]+)(<=|>=|=|<|>)(.+)")
_COMPARED: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "=": operator.eq,
}


def rows_wire(query: TableQuery, rows: Sequence[Row]) -> Raw:
    """Some of the rows that match, in an order, and how many do."""
    table = TABLES[query.table]
    matching = _selected(table, query, rows)
    part = matching[query.offset : query.offset + min(query.limit, _MOST)]
    names = [column.name for column in table.columns]
    return {
        "table": query.table,
        "columns": [msgspec.to_builtins(column) for column in table.columns],
        "sort": query.sort or table.order,
        "count": len(matching),
        "of": len(rows),
        "offset": query.offset,
        "rows": [[row[name] for name in names] for row in part],
    }


def csv_text(query: TableQuery, rows: Sequence[Row]) -> str:
    """All rows that match as CSV; what a tenant has named like a formula is no formula for a spreadsheet."""
    table = TABLES[query.table]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [column.name for column in table.columns]
    writer.writerow(names)
    for row in _selected(table, query, rows):
        writer.writerow([_harmless(row[name]) for name in names])
    return text.getvalue()


def _harmless(value: Value) -> Value:
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


def _selected(table: Table, query: TableQuery, rows: Sequence[Row]) -> list[Row]:
    """The rows that have every word and meet every condition, in the order asked for; None comes last."""
    names = {column.name for column in table.columns}
    words: list[str] = []
    conditions: list[tuple[str, str, str]] = []
    for word in query.text.lower().split():
        form = _CONDITION.fullmatch(word)
        if form is None:
            words.append(word)
        elif form[1] in names:
            conditions.append((form[1], form[2], form[3]))
        else:
            raise InputError(f"{form[1]} is no column of {query.table}{suggestion(form[1], names)}", field="q")
    matching = [row for row in rows if _matches(row, words, conditions)]
    for part in reversed((query.sort or table.order).split(",")[:_KEYS]):
        column = part.lstrip("-")
        if column not in names:
            raise InputError(f"{column} is no column of {query.table}{suggestion(column, names)}", field="sort")
        matching = _ordered(matching, column, falling=part.startswith("-"))
    return matching


def _ordered(rows: Sequence[Row], column: str, *, falling: bool) -> list[Row]:
    """Rows by one column; equal ones stay as they were."""
    with_value = [row for row in rows if row[column] is not None]
    with_value.sort(key=lambda row: _rank(row[column]), reverse=falling)
    return with_value + [row for row in rows if row[column] is None]


def _rank(value: Value) -> tuple[bool, object]:
    if isinstance(value, str):
        return True, natural(value)
    return False, value


def _matches(row: Row, words: Sequence[str], conditions: Sequence[tuple[str, str, str]]) -> bool:
    if not all(_meets(row[name], compare, operand) for name, compare, operand in conditions):
        return False
    if not words:
        return True
    text = "\n".join(value.lower() for value in row.values() if isinstance(value, str))
    return all(word in text for word in words)


def _meets(value: Value, compare: str, operand: str) -> bool:
    """Whether a cell meets a condition: numbers are compared, texts are equal or not."""
    if value is None:
        return False
    if isinstance(value, str):
        return compare == "=" and value.lower() == operand
    try:
        number = float(operand)
    except ValueError:
        return False
    return _COMPARED[compare](float(value), number)


def _shown(resource: str) -> float:
    """The amount of one unit: a core of cpu, else one of the resource's own."""
    return 1000.0 if resource == CPU else 1.0


def _number(amount: int, unit: float) -> float | int:
    return amount if unit == 1.0 else round(amount / unit, 3)


def _part(used: float, total: float) -> float | None:
    return round(used / total, 4) if total else None


def job_rows(lines: Sequence[Line], tree: BoardTree, resource: int, now: float) -> list[Row]:
    """A row for each job that waits or holds something."""
    names = next(iter(tree.trees.values())).topology.name
    unit = _shown(tree.resources[resource])
    rows: list[Row] = []
    for line in lines:
        domain = line.hyper_nodes[0]
        rows.append(
            {
                "job": line.path,
                "queue": line.queue,
                "state": line.verdict.replace("-", " ") or ("waiting" if line.waits else "running"),
                "pods": line.pods,
                "waiting": line.waiting + line.kept,
                "minimum": line.minimum,
                "used": _number(line.used[resource], unit),
                "asks": _number(line.asks[resource], unit),
                "priority": line.priority,
                "age": max(0, round(now - line.created)) if line.created > 0 else None,
                "domain": names[domain] if domain > ROOT else "",
                "expected": line.expected,
                "reason": line.reason,
            }
        )
    return rows


def node_rows(snapshot: Snapshot, tree: BoardTree, standing: Sequence[BoardPod], resource: int) -> list[Row]:
    """A row for each node."""
    main_tree = next(iter(tree.trees.values()))
    names = main_tree.topology.name
    leaves = main_tree.topology.leaf[main_tree.positions].tolist()
    unit = _shown(tree.resources[resource])
    pods = Counter(stand.row for stand in standing if stand.holds)
    jobs = Counter(row for row, _ in {(stand.row, stand.job.number) for stand in standing if stand.holds})
    used = tree.used[resource].tolist()
    total = tree.total[resource].tolist()
    free = tree.free[resource].tolist()
    rows: list[Row] = []
    for row, name in enumerate(snapshot.nodes.names):
        rows.append(
            {
                "node": name,
                "domain": names[leaves[row]] if leaves[row] > ROOT else "",
                "state": tree.state(row) or "ready",
                "used": _number(used[row], unit),
                "total": _number(total[row], unit),
                "free": _number(free[row], unit),
                "share": _part(used[row], total[row]),
                "pods": pods[row],
                "jobs": jobs[row],
            }
        )
    return rows


def queue_rows(queues: Sequence[Raw], resource: int, unit: float) -> list[Row]:
    """A row for each queue, from what the board tells of them."""
    rows: list[Row] = []
    for queue in queues:
        amounts: dict[str, Value] = {}
        for name in ("used", "deserved", "borrowed", "guarantee", "capability"):
            values = queue[name]
            amount = values[resource] if isinstance(values, list) else None
            amounts[name] = _number(amount, unit) if isinstance(amount, int) else None
        rows.append(
            {
                "queue": str(queue["name"]),
                "parent": str(queue["parent"]),
                "state": "open" if queue["open"] else "closed",
                "waiting": _whole(queue["waiting"]),
                **amounts,
                "over": _float(queue["share"]),
                "weight": _whole(queue["weight"]),
                "priority": _whole(queue["priority"]),
            }
        )
    return rows


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def domain_rows(
    snapshot: Snapshot, profile: Profile, tree: BoardTree, standing: Sequence[BoardPod], resource: int, tier: str = ""
) -> list[Row]:
    """A row for each domain of a tier of the tree that rows follow, or of all tiers."""
    main_tree = next(iter(tree.trees.values()))
    topology = main_tree.topology
    domains = _domains(main_tree, tier)
    running_pods = [stand for stand in standing if stand.holds and stand.task.status is not Status.PENDING]
    drains = _Drains(snapshot, profile, main_tree, running_pods)
    unit = _shown(tree.resources[resource])
    sums = {
        "nodes": np.ones(len(snapshot.nodes), dtype=np.int64),
        "shut": tree.shut.astype(np.int64),
        "empty": ((tree.used[resource] == 0) & ~tree.shut).astype(np.int64),
        "used": tree.used[resource],
        "total": tree.total[resource],
        "free": tree.free[resource],
    }
    totals = {name: topology.totals(amounts[main_tree.rows]).tolist() for name, amounts in sums.items()}
    rows: list[Row] = []
    for domain in domains:
        number = {name: values[domain] for name, values in totals.items()}
        rows.append(
            {
                "domain": topology.name[domain],
                "tier": tier_label(topology, int(topology.tier[domain])),
                "nodes": number["nodes"],
                "shut": number["shut"],
                "empty": number["empty"],
                "used": _number(number["used"], unit),
                "total": _number(number["total"], unit),
                "free": _number(number["free"], unit),
                "share": _part(number["used"], number["total"]),
                **drains.of(domain),
            }
        )
    return rows


def _domains(tree: AlternateTopology, tier: str) -> list[int]:
    topology = tree.topology
    if not tier:
        return list(range(ROOT + 1, len(topology.name)))
    tier_numbers = {"lowest": next(iter(topology.at_tier)), **topology.tier_names}
    number = tier_numbers.get(tier, int(tier) if tier.isdecimal() and len(tier) < 9 else -1)
    if number not in topology.at_tier:
        raise InputError(f"{tier} is none of the tiers{suggestion(tier, tier_numbers)}", field="tier")
    return [domain for domain in topology.at_tier[number].tolist() if domain != ROOT]


class _Drains:
    """Cost of draining each domain of a tree would cost, by counting the pods of jobs there."""

    def __init__(
        self, snapshot: Snapshot, profile: Profile, tree: AlternateTopology, running_pods: Sequence[BoardPod]
    ) -> None:
        topology = tree.topology
        self._topology = topology
        positions = tree.positions[np.array([stand.row for stand in running_pods], dtype=np.int64)]
        order = np.argsort(positions, kind="stable")
        self._position = positions[order]
        self._pods = [running_pods[i] for i in order.tolist()]
        self._job = np.array([stand.job.number for stand in self._pods], dtype=np.int64)
        self._shape = np.array([stand.task.shape.number for stand in self._pods], dtype=np.int64)
        self._jobs = snapshot.jobs
        self._losses = Losses(snapshot)
        self._whole: dict[int, int] = {}
        self._running = np.bincount(self._job, minlength=len(snapshot.jobs))
        self._seconds = np.array([self._losses.each(stand.task.key) for stand in self._pods])
        self._room = self._rooms(snapshot, profile, tree)

    def _rooms(self, snapshot: Snapshot, profile: Profile, tree: AlternateTopology) -> dict[int, Ints]:
        """By kind of pod that runs: how many more of it each domain takes; nothing where there are many kinds."""
        kinds = np.unique(self._shape).tolist()
        if len(kinds) > _SHAPES:
            return {}
        room = Room(open_cycle(snapshot, profile), Pool.IDLE)
        totals = self._topology.totals
        return {number: totals(room.rows(snapshot.shapes[number])[tree.rows]) for number in kinds}

    def of(self, domain: int) -> Row:
        """Jobs and pods there, gangs that fall below their minimum, hours of work that are lost, and room elsewhere."""
        span = self._topology.span(domain)
        begin, end = np.searchsorted(self._position, (span.start, span.stop)).tolist()
        jobs, counts = np.unique(self._job[begin:end], return_counts=True)
        seconds = np.bincount(self._job[begin:end], self._seconds[begin:end], len(self._jobs))
        broken = 0
        lost = 0.0
        for number, pods in zip(jobs.tolist(), counts.tolist(), strict=True):
            job = self._jobs[number]
            stops = int(self._running[number]) - pods < job.minimum
            broken += stops and not job.lone
            lost += self._all_of(number) if stops else float(seconds[number])
        return {
            "jobs": len(jobs),
            "pods": end - begin,
            "broken": broken,
            "lost": round(lost / 3600, 1),
            "elsewhere": self._elsewhere(domain, self._shape[begin:end]),
        }

    def _all_of(self, number: int) -> int:
        if number not in self._whole:
            self._whole[number] = self._losses.whole(self._jobs[number])
        return self._whole[number]

    def _elsewhere(self, domain: int, shapes: Ints) -> str:
        """Whether each kind of pod has room enough outside, counted by itself."""
        if not len(shapes):
            return "nothing runs"
        if not self._room:
            return "not counted"
        kinds, counts = np.unique(shapes, return_counts=True)
        short = 0
        for number, pods in zip(kinds.tolist(), counts.tolist(), strict=True):
            totals = self._room[number]
            short += max(0, pods - int(totals[ROOT] - totals[domain]))
        return f"{short} short" if short else "enough"

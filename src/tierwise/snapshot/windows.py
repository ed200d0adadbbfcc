"""Windows of nodes, from their objects and the table of nodes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tierwise.api.errors import InputError
from tierwise.api.natural import natural
from tierwise.api.window import Window, read_window
from tierwise.model.arrays import Bools
from tierwise.model.node import NodeTable
from tierwise.model.snapshot import Fault
from tierwise.model.topology import Topology
from tierwise.model.window import ClosedTime

__all__ = ["read_windows"]

_REASON = 200
"""Characters of a window's reason that are shown."""


def read_windows(
    records: Mapping[str, Window], nodes: NodeTable, topology: Topology
) -> tuple[tuple[ClosedTime, ...], tuple[Fault, ...]]:
    """The windows in the order of their names, and what is wrong with some."""
    found: list[ClosedTime] = []
    faults: list[Fault] = []
    for name in sorted(records, key=natural):
        record = records[name]
        try:
            schedule = read_window(record)
        except InputError as error:
            faults.append(Fault(f"Window {name}", "InvalidWindow", f"{error.field}: {error.message}"))
            continue
        lost = [domain for domain in record.spec.domains if domain not in topology.index]
        if lost:
            text = f"there is no domain {lost[0]}: what it means of it is closed to nobody"
            faults.append(Fault(f"Window {name}", "WindowWithoutNodes", text))
        rows = _rows(record, nodes, topology)
        if not rows.any() and not lost:
            faults.append(Fault(f"Window {name}", "WindowWithoutNodes", "it means no node that there is"))
        queues = frozenset(record.spec.queues)
        found.append(ClosedTime(name, rows, schedule, queues, " ".join(record.spec.reason.split())[:_REASON]))
    return tuple(found), tuple(faults)


def _rows(record: Window, nodes: NodeTable, topology: Topology) -> Bools:
    """The rows of the nodes that a window names, of those with its labels, and of those in its domains."""
    spec = record.spec
    rows: Bools = np.zeros(len(nodes), dtype=bool)
    rows[[nodes.row[name] for name in spec.nodes if name in nodes.row]] = True
    if spec.node_selector:
        chosen: Bools = np.ones(len(nodes), dtype=bool)
        for key, value in spec.node_selector.items():
            column = nodes.labels.column(key)
            chosen &= column.where([value == known for known in column.values], missing=False)
        rows |= chosen
    for name in spec.domains:
        domain = topology.index.get(name)
        if domain is not None:
            rows[topology.span(domain)] = True
    return rows

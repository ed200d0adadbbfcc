"""The page of `nodes`: how many nodes of which domain are idle, in use, cordoned or not ready, as sinfo shows them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from tierwise.api.codec import Raw
from tierwise.api.core import Node
from tierwise.api.errors import InputError, suggestion
from tierwise.api.natural import natural
from tierwise.explain.page import Page, Text, count
from tierwise.explain.ranges import compact
from tierwise.explain.tables import Cell, table
from tierwise.explain.usage import held, scarce, short
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT
from tierwise.port import Objects

__all__ = ["NodeStates", "node_states", "nodes_lines", "nodes_wire"]

_STATES = {
    "idle": "green",
    "mixed": "cyan",
    "allocated": "blue",
    "cordoned": "yellow",
    "not-ready": "red",
    "unhealthy": "red",
}
"""A node's state, in the order of the page: nothing of the scarce resource is used, some, all; or it takes no pods."""
_ROWS = 60


class NodeStates(msgspec.Struct, frozen=True):
    """The nodes of one domain, or of one value of a label, that are in one state."""

    group: str
    state: str
    nodes: tuple[str, ...]
    used: int
    total: int


def node_states(snapshot: Snapshot, objects: Objects, by: str = "") -> tuple[str, str, list[NodeStates]]:
    """What nodes are grouped by, the scarce resource, and each group state by state.

    They are grouped by a tier (number or name; the highest unless it is given), or by the key of a label.
    """
    title, groups = _groups(snapshot, objects, by)
    resource = scarce(snapshot)
    used = held(snapshot, resource)
    index = snapshot.axis.index.get(resource)
    total = snapshot.nodes.allocatable[index] if index is not None else np.zeros_like(used)
    rows_by_group: dict[tuple[str, str], list[int]] = {}
    for row, group in enumerate(groups):
        if not snapshot.nodes.ready[row]:
            state = "not-ready"
        elif row in snapshot.nodes.unhealthy:
            state = "unhealthy"
        elif snapshot.nodes.cordoned[row]:
            state = "cordoned"
        elif not used[row]:
            state = "idle"
        else:
            state = "allocated" if used[row] >= total[row] else "mixed"
        rows_by_group.setdefault((group, state), []).append(row)
    order = list(_STATES)
    names = snapshot.nodes.names
    states = [
        NodeStates(group, state, tuple(names[row] for row in rows), int(used[rows].sum()), int(total[rows].sum()))
        for (group, state), rows in rows_by_group.items()
    ]
    return (
        title,
        resource,
        sorted(
            states, key=lambda states_of_group: (natural(states_of_group.group), order.index(states_of_group.state))
        ),
    )


def _groups(snapshot: Snapshot, objects: Objects, by: str) -> tuple[str, list[str]]:
    topology = snapshot.topology
    names = snapshot.nodes.names
    titles = {tier: name for name, tier in topology.tier_names.items()}
    tiers = [tier for tier in topology.at_tier if tier != int(topology.tier[ROOT])]
    tier = next((t for t in tiers if by and by in (str(t), titles.get(t, ""))), max(tiers, default=None))
    if by and (tier is None or by not in (str(tier), titles.get(tier, ""))):
        labels = {name: node.metadata.labels for name, node in objects.every(Node).items()}
        if not any(by in marks for marks in labels.values()):
            shown = ", ".join(f"{t} ({titles[t]})" if t in titles else str(t) for t in tiers) or "there are none"
            near = suggestion(by, {*titles.values()}.union(*labels.values()))
            raise InputError(f"{by} is no label of a node, and none of the tiers: {shown}{near}", field="--by")
        return by, [labels.get(name, {}).get(by, "") for name in names]
    groups = [""] * len(names)
    for domain in topology.at_tier[tier].tolist() if tier is not None else ():
        span = topology.span(domain)
        groups[span] = [topology.name[domain]] * (span.stop - span.start)
    return (titles.get(tier) or f"tier {tier}") if tier is not None else "domain", groups


def nodes_lines(page: Page, title: str, resource: str, states: Sequence[NodeStates]) -> list[Text]:
    """Everything that `nodes` tells people."""
    by_state = {
        state: sum(len(node_state.nodes) for node_state in states if node_state.state == state) for state in _STATES
    }
    number = sum(by_state.values())
    summary = ", ".join(f"{n} {state}" for state, n in by_state.items() if n)
    lines = [Text(f"{count(number, 'node')}: {summary}" if number else "no nodes"), Text("")]
    rows: list[Sequence[Cell]] = [
        (
            node_state.group or "-",
            Text(node_state.state, style=_STATES[node_state.state]),
            str(len(node_state.nodes)),
            f"{short(resource, node_state.used)}/{short(resource, node_state.total)}",
            compact(node_state.nodes),
        )
        for node_state in states
    ]
    columns = (f"{title}:10", "state", "nodes>", f"{resource.rpartition('/')[2]} used>", "names~24")
    return lines + table(page, columns, rows, indent=0, most=None if page.everything else _ROWS, more="more rows")


def nodes_wire(title: str, resource: str, states: Sequence[NodeStates]) -> Raw:
    """The states of nodes by group, as JSON."""
    return {"by": title, "resource": resource, "states": [msgspec.to_builtins(node_state) for node_state in states]}

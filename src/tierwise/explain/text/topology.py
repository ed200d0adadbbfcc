"""The page of `topology show`: the tree with what its nodes have and use, what still fits, and what is wrong."""

from __future__ import annotations

from collections.abc import Sequence

from tierwise.api.codec import Raw
from tierwise.config.profile import Profile
from tierwise.discovery.changes import Change, Changes, Move
from tierwise.discovery.hostlist import compress
from tierwise.explain.amounts import amount_lines
from tierwise.explain.free_slots import slots_lines
from tierwise.explain.naming import tier_label
from tierwise.explain.page import Page, Text, count, heading, section, shortened, wrapped
from tierwise.explain.problems import aside_line, problem_lines
from tierwise.explain.ranges import compact
from tierwise.explain.tables import Cell, table
from tierwise.explain.text.tree import topology_tree
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import HYPERNODES, ROOT, fabric_title, is_fabric

__all__ = ["changes_lines", "changes_wire", "topology_lines"]


def topology_lines(page: Page, snapshot: Snapshot, profile: Profile) -> list[Text]:
    """Everything that `topology show` tells people."""
    lines = wrapped(_headline(snapshot), page.width)
    for kind, alternate in snapshot.alternate_topologies.items():
        number = count(len(alternate.topology) - 1, "domain")
        whose = "the tree of the hyperNodes" if kind == HYPERNODES else f"the {kind}"
        text = f"{whose} is a tree of its own over the same nodes, with {number}"
        named = fabric_title(kind)
        shown = f'"{named}"' if " " in named else named
        lines += wrapped(Text(f"{text}; --fabric {shown} shows it"), page.width)
    aside = aside_line(snapshot)
    if aside:
        lines += wrapped(Text(aside, style="red"), page.width)
    tree = topology_tree(page, snapshot)
    lines += [Text(""), *tree]
    if len(tree) <= len(snapshot.topology):  # a title and a line for every hyperNode would be more
        lines.append(Text("folded to fit a screen; --all shows everything", style="dim"))
    lines += section("Amounts", amount_lines(page, snapshot, profile))
    lines += section("Free slots", slots_lines(page, snapshot))
    return lines + section("Problems", problem_lines(page, snapshot))


def _headline(snapshot: Snapshot) -> Text:
    topology = snapshot.topology
    tiers = sorted({int(tier) for tier in topology.tier[ROOT + 1 :].tolist()})
    shown = ", ".join(tier_label(topology, tier) for tier in tiers)
    text = Text.assemble((count(len(topology) - 1, "hyperNode"), "bold"), f" over {count(len(snapshot.nodes), 'node')}")
    if is_fabric(snapshot.kind):
        text.append(f" in {snapshot.kind}")
    return text.append(f"; tiers {shown}" if shown else "; no tiers: all nodes are equally near")


# What `topology diff` shows: hyperNodes that would come, change and go, and the nodes that would move.


_MOST = 12
_LONGEST = 24
_STYLES = {"create": "green", "change": "yellow", "delete": "red"}


def changes_lines(page: Page, changes: Changes, origin: str) -> list[Text]:
    """The page for people."""
    if changes.none:
        lines = [Text(f"no difference: {count(changes.same, 'hyperNode')} of {origin} as they should be")]
    else:
        groups = (("create", changes.created), ("change", changes.changed), ("delete", changes.deleted))
        counts = []
        for what, group in groups:
            if group:
                counts.append(f"{len(group)} to {what}")
        lines = wrapped(Text(f"hyperNodes of {origin}: {', '.join(counts)}, {changes.same} unchanged"), page.width)
        rows = []
        for what, group in groups:
            for change in group:
                rows.append(_row(page, what, change))
        columns = ("", "hyperNode:12", "tier", "members~24")
        lines += [Text(""), *table(page, columns, rows, most=_MOST)]
    lines += _moves(page, changes.moves)
    notes = (
        (
            changes.unknown,
            "is named by the source and not in the cluster",
            "are named by the source and not in the cluster",
        ),
        (changes.unplaced, "of the cluster is not named by the source", "of the cluster are not named by the source"),
    )
    for nodes, singular, many in notes:
        if nodes:
            text = f"{count(len(nodes), 'node')} {singular if len(nodes) == 1 else many}: {_named(page, nodes)}"
            lines += [Text(""), *wrapped(Text(text, style="yellow"), page.width)]
    return lines


def _row(page: Page, what: str, change: Change) -> list[Cell]:
    tier = f"{change.tier} {change.tier_name}".rstrip()
    if change.was is not None:
        tier = f"{change.was[0]} {change.was[1]}".rstrip() + f" {page.glyphs.arrow} {tier}"
    members = [f"+ {_named(page, change.added)}"] if change.added else []
    members += [f"- {_named(page, change.removed)}"] if change.removed else []
    return [Text(what, style=_STYLES[what]), change.name, tier, "  ".join(members)]


def _named(page: Page, names: Sequence[str]) -> str:
    """One expression where that is short; else the first names, long ones cut so that each stays in one piece."""
    folded = compress(names)
    if len(folded) <= 2 * _LONGEST:
        if "[" not in folded:
            return folded.replace(",", ", ")
        return folded
    return compact(shortened(name, _LONGEST, page.glyphs.dots) for name in names)


def _moves(page: Page, moves: Sequence[Move]) -> list[Text]:
    """Nodes that had a place and get another one; what only comes or goes is in the table above already."""
    real = [move for move in moves if move.before and move.after]
    if not real:
        return []
    nodes_by_move: dict[tuple[str, str], list[str]] = {}
    for move in real:
        nodes_by_move.setdefault((move.before, move.after), []).append(move.node)
    rows = [(_named(page, nodes), before, page.glyphs.arrow, after) for (before, after), nodes in nodes_by_move.items()]
    columns = ("~16", ":12", "", ":12")
    return [*heading("Nodes that move"), *table(page, columns, rows, most=_MOST)]


def changes_wire(changes: Changes) -> Raw:
    """The differences between two trees of hyperNodes as JSON, as docs/reference/json.md describes it."""
    return {
        "equal": changes.none,
        "create": [_change(change) for change in changes.created],
        "change": [_change(change) for change in changes.changed],
        "delete": [_change(change) for change in changes.deleted],
        "same": changes.same,
        "moves": [{"node": move.node, "from": move.before, "to": move.after} for move in changes.moves],
        "unknownNodes": list(changes.unknown),
        "unplacedNodes": list(changes.unplaced),
    }


def _change(change: Change) -> Raw:
    wire: Raw = {"name": change.name, "tier": change.tier, "tierName": change.tier_name}
    if change.was is not None:
        wire |= {"wasTier": change.was[0], "wasTierName": change.was[1]}
    return wire | {"added": list(change.added), "removed": list(change.removed)}

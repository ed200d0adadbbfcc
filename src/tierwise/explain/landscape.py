"""The page of `topology show`: the tree with what its nodes have and use, what still fits, and what is wrong."""

from __future__ import annotations

from rich.text import Text

from tierwise.explain.free_slots import slots_lines
from tierwise.explain.naming import tier_label
from tierwise.explain.page import Page, count, heading, wrapped
from tierwise.explain.problems import aside_line, problem_lines
from tierwise.explain.tree import topology_tree
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT

__all__ = ["topology_lines"]


def topology_lines(page: Page, snapshot: Snapshot) -> list[Text]:
    """Everything that `topology show` tells people."""
    lines = wrapped(_headline(snapshot), page.width)
    for kind, fabric in snapshot.fabrics.items():
        text = f"the {kind} is a tree of its own over the same nodes, with {count(len(fabric.topology) - 1, 'domain')}"
        lines += wrapped(Text(f"{text}; -o json lists them"), page.width)
    aside = aside_line(snapshot)
    if aside:
        lines += wrapped(Text(aside, style="red"), page.width)
    tree = topology_tree(page, snapshot)
    lines += [Text(""), *tree]
    if len(tree) <= len(snapshot.topology):  # a title and a line for every hyperNode would be more
        lines.append(Text("folded to fit a screen; --all shows everything", style="dim"))
    slots = slots_lines(page, snapshot)
    lines += [*heading("Free slots"), *slots] if slots else []
    problems = problem_lines(page, snapshot)
    return [*lines, *heading("Problems"), *problems] if problems else lines


def _headline(snapshot: Snapshot) -> Text:
    topology = snapshot.topology
    tiers = sorted({int(tier) for tier in topology.tier[ROOT + 1 :].tolist()})
    shown = ", ".join(tier_label(topology, tier) for tier in tiers)
    text = Text.assemble((count(len(topology) - 1, "hyperNode"), "bold"), f" over {count(len(snapshot.nodes), 'node')}")
    return text.append(f"; tiers {shown}" if shown else "; no tiers: all nodes are equally near")

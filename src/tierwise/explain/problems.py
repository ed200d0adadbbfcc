"""Objects that are well-formed but wrong: each is named and set aside, and the rest is processed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tierwise.explain.page import Page, Text, count, joined
from tierwise.explain.tables import table
from tierwise.model.snapshot import Fault, Snapshot

__all__ = ["GOES_IN_CIRCLES", "aside_line", "problem_lines"]

GOES_IN_CIRCLES: Final = "GoesInCircles"
"""Code of the fault of jobs that are placed and evicted in turn for ever."""

_MOST = 12
_COLUMNS = ("", ":12", "~30")


def problem_lines(page: Page, snapshot: Snapshot, complaints: Sequence[Fault] = ()) -> list[Text]:
    """Problems of the topology, faults of other objects and complaints of plugins, errors first."""
    trees = (snapshot.topology, *(alternate.topology for alternate in snapshot.alternate_topologies.values()))
    problems = (problem for tree in trees for problem in tree.problems)
    entries = [(problem.error, f"HyperNode {problem.domain}", problem.text) for problem in problems]
    entries += [(False, fault.subject, fault.text) for fault in (*snapshot.faults, *complaints)]
    entries.sort(key=lambda entry: not entry[0])
    rows = [(_severity(error=error), subject, text) for error, subject, text in entries]
    return table(page, _COLUMNS, rows, most=_MOST, more="more problem")


def aside_line(snapshot: Snapshot) -> str:
    """Which hyperNodes an error took out of the tree."""
    alternate_trees = (alternate.topology for alternate in snapshot.alternate_topologies.values())
    aside = [name for tree in (snapshot.topology, *alternate_trees) for name in tree.set_aside]
    if not aside:
        return ""
    return f"{count(len(aside), 'hyperNode')} set aside for errors: {joined(aside, 6)}"


def _severity(*, error: bool) -> Text:
    return Text("error", style="red") if error else Text("warning", style="yellow")

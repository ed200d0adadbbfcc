"""What verdicts are kept by is declared: what is read besides is named, and what is declared is needed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import cached_property
from typing import Any
from unittest.mock import patch

import pytest
from tests.properties.test_kept_verdict_keys import CHANGES, GANGS, cluster
from tests.support.koordinator import objects_of
from tests.support.sight import cycle

from tierwise.actions import jobs_by_queue
from tierwise.actions.diagnosis.verdicts import _Judge
from tierwise.config.profile import DEFAULT, Profile
from tierwise.framework.ledger import Ledger
from tierwise.model.snapshot import KeptVerdicts, Snapshot
from tierwise.port import Objects
from tierwise.snapshot.builder import Reader

DECLARED = frozenset(KeptVerdicts.__struct_fields__) - {"by", "last"}
OF_THE_JOB = frozenset({"shapes"})
"""What the tasks of a job name by number is a part of the job."""

BY_VIEW = frozenset({"axis"})
"""What plugins are shown beside the snapshot; where it is another, all shapes are, and so are all kinds of gangs."""

IN_PASSING = frozenset({"paused", "jobs", "others"})
"""Who is left alone, and how many pods of a namespace wait: asked before what is kept, which they never become."""

FOR_ORDER = frozenset({"endings", "history", "kept_columns", "now", "trust_stated"})
"""What ends when: scores ask, so domains are tried in another order, and whether all of them fail does not change."""

FINDING_OUT: tuple[tuple[Any, str], ...] = (
    (_Judge, "_on_cleared_nodes"),
    (_Judge, "_capacity_for"),
    (jobs_by_queue, "admission_reason"),
)
"""All that makes something which is kept."""

TREES = frozenset({"topology", "kind", "alternate_topologies", "tree_aliases"})
"""They are made together."""


class WatchedSnapshot(Snapshot, frozen=True, dict=True):
    """A snapshot that notes which of its fields are looked at while something is found out that is kept."""

    def __getattribute__(self, name: str) -> Any:
        looking = object.__getattribute__(self, "__dict__").get("looking")
        if looking is not None and name in Snapshot.__struct_fields__:
            looking.add(name)
        return super().__getattribute__(name)


def _watched(snapshot: Snapshot, by: Profile) -> tuple[object, set[str]]:
    """What a cycle tells, and what is looked at of the snapshot on the way to what is kept."""
    seen = WatchedSnapshot(**{name: getattr(snapshot, name) for name in Snapshot.__struct_fields__})
    notes, read = vars(seen), set[str]()

    def watched(true: Callable[..., Any]) -> Callable[..., Any]:
        def find_out(who: Any, *args: Any, **named: Any) -> Any:
            ledger = (who._cycle if isinstance(who, _Judge) else who).ledger
            for name, made in vars(Ledger).items():  # what a ledger counts when it is first asked is no verdict
                if isinstance(made, cached_property):
                    getattr(ledger, name)
            notes["looking"] = read
            try:
                return true(who, *args, **named)
            finally:
                notes["looking"] = None

        return find_out

    with ExitStack() as patches:
        for where, name in FINDING_OUT:
            patches.enter_context(patch.object(where, name, watched(getattr(where, name))))
        return cycle(seen, by).rejections, read


def _worlds() -> dict[str, tuple[Objects, Objects, Profile]]:
    """Clusters before and after a change, and the profile that minds it."""
    return {
        what: (objects_of([*cluster(), *waiting]), objects_of(change([*cluster(), *waiting])), by)
        for what, (waiting, change, by) in CHANGES.items()
    }


def test_nothing_is_read_besides() -> None:
    """Gangs of every kind and on every cluster hear what they hear, and all that is looked at for it is declared."""
    every = [raw for i, made in enumerate(GANGS.values()) for raw in made(f"g{i}")]
    worlds = [(objects_of([*cluster(), *every]), DEFAULT), *((after, by) for _, after, by in _worlds().values())]
    found = set[str]()
    for objects, by in worlds:
        told, read = _watched(Reader(by).read(objects, 0.0), by)
        found |= read

        assert cycle(Reader(by).read(objects, 0.0), by).rejections == told

    assert found - OF_THE_JOB - IN_PASSING - FOR_ORDER == DECLARED - BY_VIEW


@pytest.mark.parametrize("left_out", [{"nodes"}, {"queues"}, TREES], ids=["nodes", "queues", "trees"])
def test_each_declared_input_is_needed(left_out: Collection[str]) -> None:
    """Without it, something that was kept is told where it holds no longer."""
    wrong = []
    for what, (before, after, by) in _worlds().items():
        reader = Reader(by)
        first = reader.read(before, 0.0)
        cycle(first, by)
        second = reader.read(after, 0.0)
        kept, box = first.kept_verdicts, second.kept_verdicts
        assert kept is not None
        assert box is not None
        if all(getattr(kept, name) is getattr(box, name) for name in DECLARED.difference(left_out)):
            box.last = kept.last  # as it would be if these were not declared
        if cycle(second, by).rejections != cycle(Reader(by).read(after, 0.0), by).rejections:
            wrong.append(what)

    assert wrong

"""Runs to make boards of: what `serve` shows for objects, without a server."""

from __future__ import annotations

from tierwise.config.profile import DEFAULT, Profile
from tierwise.explain.board import Board
from tierwise.explain.text.schedule import Run
from tierwise.port import Objects
from tierwise.sim.cluster import rounds
from tierwise.web.views import Basis, RunView

__all__ = ["HOSTILE", "Fixed", "Growing", "scheduled", "shown"]

HOSTILE = "<script>alert(1)</script>\"'&"
"""A name that no API server would let through; manifests may say anything."""


class Fixed:
    """A source that always has the same to say."""

    def __init__(self, show: RunView | str) -> None:
        self._show = show

    def show(self) -> RunView | str:
        return self._show


class Growing:
    """A source that has something else to say when it is told to go on."""

    def __init__(self, *views: RunView) -> None:
        self._views = iter(views)
        self.go_on()

    def go_on(self) -> None:
        self._view = next(self._views)

    def show(self) -> RunView:
        return self._view


def scheduled(objects: Objects, profile: Profile = DEFAULT, *, now: float = 0.0) -> Run:
    """All cycles that change anything."""
    history = rounds.schedule(objects, profile, now=now)
    return Run(history.reports, history.after(now), profile, history.evictions, history.complaints())


def shown(objects: Objects, profile: Profile = DEFAULT, *, questions: bool = False) -> RunView:
    """The same, ready to be served; with `questions` those of the kind "what if" are answered."""
    board = Board(scheduled(objects, profile))
    basis = Basis(objects, profile, 0.0) if questions else None
    return RunView(board, mode="manifests", title="drawn", basis=basis)

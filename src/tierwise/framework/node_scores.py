"""What scorers of nodes have in common, by how far a task that is placed moves scores."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from tierwise.framework.extension import Ask, CycleView, ScoreEffect
from tierwise.model.arrays import Bools, Floats, Rows

__all__ = ["ComparedScores", "OwnScores"]


class OwnScores(ABC):
    """Scores each node by itself: a task moves no score but that of its node."""

    def score(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        return self._scored(ask, span)

    def score_rows(self, ask: Ask, rows: Rows) -> Floats:
        """Scores of any rows."""
        return self._scored(ask, rows)

    def stale(self, ask: Ask, row: int) -> slice:
        """Only the row that took the task."""
        return slice(row, row + 1)

    @abstractmethod
    def _scored(self, ask: Ask, rows: Rows) -> Floats:
        """The scores of some rows."""


class ComparedScores(ABC):
    """Compares nodes with the others that fit, where it has anything to say: a task may move any score."""

    _otherwise = 0.0
    """The score of every node where it has nothing to say."""

    def __init__(self, view: CycleView) -> None:
        self._nodes = view.nodes

    def effect(self, ask: Ask) -> ScoreEffect:
        if self._speaks(ask):
            return ScoreEffect.FREE
        return ScoreEffect.FIXED

    def stale(self, ask: Ask, row: int) -> slice:
        if self._speaks(ask):
            return slice(0, len(self._nodes))
        return slice(row, row + 1)

    def score(self, ask: Ask, span: slice, fits: Bools) -> Floats | None:
        if len(fits) and self._speaks(ask):
            return self._compared(ask, span, fits)
        if self._otherwise:
            return np.full(len(fits), self._otherwise)
        return None

    def score_rows(self, ask: Ask, rows: Rows) -> float | None:
        """One score for all nodes where the plugin does not compare them for this task; None where it does."""
        return self._otherwise if not self._speaks(ask) else None

    @abstractmethod
    def _speaks(self, ask: Ask) -> bool:
        """Whether nodes differ for a task."""

    @abstractmethod
    def _compared(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        """The scores of a span, against those that fit."""

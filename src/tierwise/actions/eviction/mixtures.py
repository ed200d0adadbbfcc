"""How many groups of tasks of several shapes some rows take, counted for many rows at once.

A group is a leader and its workers, say: so many tasks of each shape. What rows take together is a table: for every
number of tasks of all shapes but the most numerous one, how many of that one fit beside them. Tables of two sets of
rows add up by taking the best of all ways to share out the others (a convolution), for as many pairs of sets at once as
there are, so that many rows need few steps. `placement.mixtures` counts the same with one row after the other,
and says which task goes where.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tierwise.model.arrays import Bools, Ints

__all__ = ["Mixture"]

_NEVER = -(2**40)
"""In place of a number of tasks: the others do not fit."""


class Mixture:
    """Groups of tasks: `sizes` says how many of each shape a group has, `requests` what a task of each asks for,
    (shapes x resources).
    """

    def __init__(self, requests: Ints, sizes: Ints, groups: int) -> None:
        order = np.argsort(sizes, kind="stable")  # the most numerous is the last
        self.requests, self.sizes, self.groups = requests[order], sizes[order], groups
        self.order = order
        self.least: Ints = self.requests.min(axis=0)  # what any task asks for
        most = self.sizes[:-1] * groups
        cells = prod((most + 1).tolist())  # one where there is but one shape
        self._offsets: Ints = np.indices(tuple(most + 1)).reshape(len(most), cells).T  # (cells x other shapes)
        self._used: Ints = (self._offsets @ self.requests[:-1]).T[:, :, None]
        self._wanted = np.flatnonzero(self.requests[-1])
        stride = np.cumprod(np.concatenate(([1], most[:0:-1] + 1)))[::-1]
        self._whole: Ints = np.arange(1, groups + 1) * int((self.sizes[:-1] * stride).sum())  # cells of whole groups
        below = (self._offsets[:, None] <= self._offsets).all(axis=2)  # (cells x cells): which is part of which
        whole, part = np.nonzero(below.T)
        self._left, self._right = part, whole - part  # cells are numbered so that they add up
        self._starts: Ints = np.flatnonzero(np.diff(whole, prepend=-1))

    @staticmethod
    def ways(sizes: Ints, groups: int) -> int:
        """How many ways two sets of rows have to share out the tasks: the cost of a row."""
        most = np.sort(sizes)[:-1].tolist()
        return prod((number * groups + 1) * (number * groups + 2) // 2 for number in most)

    def tables(self, free: Ints, allowed: Bools) -> Ints:
        """What each row takes, (rows x cells), of which so much is free (resources x rows) for the shapes that are
        allowed there (shapes x rows).
        """
        left = free[:, None] - self._used  # (resources x cells x rows)
        fits = ((left >= 0) | (self._used == 0)).all(axis=0)
        for shape, number in enumerate(self._offsets.T):
            fits &= allowed[shape] | (number == 0)[:, None]
        each = self.requests[-1, self._wanted, None, None]
        last = np.maximum((left[self._wanted] // each).min(axis=0), 0) * allowed[-1]
        result: Ints = np.where(fits, np.minimum(last, self.sizes[-1] * self.groups), _NEVER).T
        return result

    def together(self, tables: Ints, blocks: Ints) -> Ints:
        """What the rows of each block take together, (blocks x cells); `blocks` has the rows of one in each line, as
        many as a power of two, -1 for none.
        """
        nothing = np.full((1, tables.shape[1]), _NEVER)
        nothing[0, 0] = 0
        result: Ints = np.concatenate((tables, nothing))[blocks]
        while result.shape[1] > 1:
            both = result[:, ::2][..., self._left] + result[:, 1::2][..., self._right]
            result = np.maximum(np.maximum.reduceat(both, self._starts, axis=2), _NEVER)
        return result[:, 0]

    def whole_groups(self, together: Ints) -> Ints:
        """How many whole groups each block takes."""
        number: Ints = (together[:, self._whole] >= np.arange(1, self.groups + 1) * self.sizes[-1]).sum(axis=1)
        return number

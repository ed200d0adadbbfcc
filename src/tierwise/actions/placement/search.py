"""The search with backtracking: a place for one part after the other, from the outside inwards.

It has an explicit stack, remembers dead states, and ends at its budget of steps. Whether tasks fit is asked of a
*ground*, a subclass: those of `assign` and `mixed_parts` on the tree that rows follow, and those of `cells` on others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import msgspec
import numpy as np

from tierwise.actions.placement.choose import gradients_of, ordered, preference
from tierwise.actions.placement.demand import TaskGroup
from tierwise.actions.placement.problem import (
    Budget,
    Counts,
    NoPlace,
    Part,
    Placement,
    SearchResult,
    plus,
)
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Gradients
from tierwise.framework.ledger import Pool
from tierwise.model.job import Job, SubJob

__all__ = ["Chosen", "Frame", "Ground", "Option", "Search"]


class Option(msgspec.Struct, frozen=True, eq=False):
    """A domain for a part, its score, and for a leaf which of its tasks it takes, where there is a choice."""

    place: int
    worth: float
    task_group: TaskGroup | None = None


Chosen = list[tuple[Part, Option]]
"""Leaves with the place of each."""


class Frame(msgspec.Struct, frozen=True, eq=False):
    """A group whose domain is chosen: which of its parts is next, and what those that are placed add up to."""

    part: Part
    domain: int
    next: int
    have: Counts
    outer: Frame | None

    def key(self) -> tuple[int, ...]:
        around = self.outer.key() if self.outer is not None else ()
        return (self.part.number, self.domain, self.next, *self.have, *around)

    def domains(self) -> Iterator[int]:
        frame: Frame | None = self
        while frame is not None:
            yield frame.domain
            frame = frame.outer


class Search(ABC):
    """A depth-first search: a stack of choices, each of a place for the next part of the innermost open group.

    Subclasses say which places a part may have, and whether what is put into them fits.
    """

    cost = 1
    """Steps that a choice counts as."""

    def __init__(self, whole: Part, place: int) -> None:
        self._whole = whole
        self._start = place
        self._bounded = False
        self._left = 0
        self._dead: set[tuple[object, ...]] = set()

    @property
    def bounded(self) -> bool:
        """Whether the search stopped at its bound."""
        return self._bounded

    def solutions(self, budget: Budget, most: int) -> Iterator[Chosen]:
        """Every way to give a place to what is needed, each in force until the next is asked for.

        It ends at the budget, or after so many choices, and is `bounded` then.
        """
        self._left = most = min(most, budget.left // self.cost)
        try:
            yield from self._solutions()
        finally:
            budget.left -= (most - max(self._left, 0)) * self.cost

    def _solutions(self) -> Iterator[Chosen]:
        chosen: Chosen = []
        start = Frame(self._whole, self._start, 0, (0,) * len(self._whole.lacks), None)
        if self.covered(start):
            yield chosen
            return
        stack = [(self._state(start), self._choices(start, chosen))]
        while stack:
            state, choices = stack[-1]
            for frame in choices:
                if frame is None:
                    yield chosen
                    continue
                if self._bounded:
                    return
                further = self._state(frame)
                if further not in self._dead:
                    stack.append((further, self._choices(frame, chosen)))
                    break
            else:
                self._dead.add(state)
                stack.pop()

    def _choices(self, frame: Frame, chosen: Chosen) -> Iterator[Frame | None]:
        """Every way to go on, each in force until the next one is asked for: a place for the next part, or none.

        None is the end: all that is needed has a place.
        """
        parts, this = frame.part.parts, frame.next
        if this == len(parts) or not self.hopeful(frame):
            return
        part = parts[this]
        for option in self.options(part, frame.domain):
            self._left -= 1
            if self._left < 0:
                self._bounded = True
                yield frame
                return
            if part.parts:
                yield Frame(part, option.place, 0, (0,) * len(part.lacks), self._after(frame, part, this + 1))
            elif self.put(part, option):
                chosen.append((part, option))
                yield self._after(frame, part, this + 1)
                chosen.pop()
                self.take_back(part, option)
        if frame.part.optional:
            later = this + 1
            while part.kind is not None and later < len(parts) and parts[later].kind == part.kind:
                later += 1  # where this part leads nowhere, one like it leads nowhere either
            yield self._after(frame, None, later)

    def _after(self, frame: Frame, placed: Part | None, following: int) -> Frame | None:
        """Where to go on: in the group around it where this one lacks nothing more; None at the end."""
        have = plus(frame.have, placed.adds) if placed is not None else frame.have
        after = Frame(frame.part, frame.domain, following, have, frame.outer)
        return frame.outer if self.covered(after) else after

    def _state(self, frame: Frame) -> tuple[object, ...]:
        return (*frame.key(), *self.state(frame))

    def covered(self, frame: Frame) -> bool:
        """Whether a group lacks nothing more."""
        return all(have >= least for have, least in zip(frame.have, frame.part.lacks, strict=True))

    def hopeful(self, frame: Frame) -> bool:
        """Whether the rest of a group may be enough, and fit, by counting alone."""
        most = plus(frame.have, frame.part.still_to_come[frame.next])
        return all(reached >= least for reached, least in zip(most, frame.part.lacks, strict=True))

    @abstractmethod
    def state(self, frame: Frame) -> tuple[object, ...]:
        """The part of the memo key that describes what was placed so far."""

    @abstractmethod
    def options(self, part: Part, within: int) -> Iterator[Option]:
        """The places to try for a part."""

    @abstractmethod
    def put(self, part: Part, option: Option) -> bool:
        """Note that a leaf is placed, if it can be."""

    @abstractmethod
    def take_back(self, part: Part, option: Option) -> None:
        """Undo the last `put`."""


class Ground(Search):
    """A search below a domain of the tree that rows follow, and what becomes of it on the ledger."""

    def __init__(self, cycle: Cycle, job: Job, whole: Part, domain: int, pools: tuple[Pool, ...]) -> None:
        super().__init__(whole, domain)
        self._cycle = cycle
        self._job = job
        self._domain = domain
        self._pools = pools
        self._near = cycle.current_domain(job)
        self._known: dict[tuple[int, int], list[Option]] = {}
        subs = [task_group.sub for task_group in whole.task_groups()]
        self._tied = [here for sub in subs if (here := cycle.current_domain(sub)) is not None]

    def run(self, budget: Budget, most: int) -> SearchResult | NoPlace:
        """Place all that is needed, within the budget and so many choices."""
        for chosen in self.solutions(budget, most):
            placements = self.write(chosen)
            if placements is None:  # what was counted together may not fit one after the other
                return NoPlace.BOUNDED
            return SearchResult(self._domain, tuple(placements), sum(option.worth for _, option in chosen))
        return NoPlace.of(bounded=self._bounded)

    @abstractmethod
    def write(self, chosen: Chosen) -> list[Placement] | None:
        """The placements of what was chosen, on the ledger; None where that does not fit after all."""

    # Domains.

    def ranked(self, task_group: TaskGroup, within: int, *, widest: bool = False) -> Iterator[Option]:
        """Domains below one that may hold a task group, in the order of preference.

        Of the `widest` alone: a tighter one inside is chosen when it is placed.
        """
        for gradient in self._gradients_below(task_group.sub, within, widest=widest):
            for domain, score in ordered(self._cycle, task_group, gradient, self._near, self._pools):
                yield Option(domain, score)

    def of_group(self, part: Part, within: int, *, widest: bool) -> list[Option]:
        """The domains below one that a group may use, tightest tier first, or the widest of them alone."""
        sub, found = next(part.task_groups()).sub, list[Option]()
        for gradient in self._gradients_below(part.gang, within, widest=widest):
            scores = self._cycle.pipeline.score_domains(sub, gradient)
            order = np.lexsort(preference(self._cycle, gradient, scores, self._near))
            found += (Option(int(gradient[i]), float(scores[i])) for i in order)
        return found

    def _gradients_below(self, gang: Job | SubJob, within: int, *, widest: bool) -> Gradients:
        """The gradients of a gang below a domain, or one of the widest domains of all of them."""
        gradients = gradients_of(self._cycle, gang, within)
        if not widest or not (gradients := list(gradients)):
            return gradients
        every = np.concatenate(gradients)
        return [every[~np.isin(self._cycle.topology.parent[every], every)]]

    def known(self, part: Part, within: int, *, widest: bool) -> list[Option]:
        """The domains for a part that counting decides about, looked up once."""
        key = (part.number, within)
        if key not in self._known:
            if part.task_group is not None:
                self._known[key] = list(self.ranked(part.task_group, within, widest=True))
            else:
                self._known[key] = self.of_group(part, within, widest=widest)
        return self._known[key]

    def has_placed_tasks(self, place: int) -> bool:
        """Whether tasks of a sub-job that is to be completed stand in a place, or around it."""
        contains = self._cycle.topology.contains
        return any(contains(place, domain) or contains(domain, place) for domain in self._tied)

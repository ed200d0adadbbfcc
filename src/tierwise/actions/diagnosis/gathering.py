"""Why a job that asks to be gathered found no place: how much was asked, and what the best domains take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tierwise.actions.diagnosis.causes import NOT_TOGETHER, causes, once_full
from tierwise.actions.placement.demand import TaskGroup, everything
from tierwise.actions.placement.slots import Quanta, SlotTree, slot_tree
from tierwise.api.plurals import count, verb
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import GatherOption
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, Reason, Shape, Tried
from tierwise.model.topology import ROOT

__all__ = ["ungathered"]

_GATHERED_SHOWN = 3
"""How many domains a rejection names."""


def ungathered(
    cycle: Cycle, job: Job, task_group: TaskGroup, options: Sequence[GatherOption]
) -> tuple[Reason, tuple[Tried, ...]]:
    """Why so many tasks cannot be gathered in any way, and how far each layer came."""
    all_tasks = everything(task_group)
    if _odd(task_group.need, options[-1]) and not _odd(all_tasks.need, options[-1]):
        task_group = all_tasks  # the minimum alone could not come in multiples: all of it was looked for
    offer = _Offer(cycle, job, task_group)
    slot_tree = offer.slot_tree
    widest = options[-1]
    where = (
        "the cluster" if widest.tier == int(slot_tree.topology.tier[ROOT]) else f"one {_layer(slot_tree, widest.tier)}"
    )
    text = f"{count(task_group.need, 'pod')} cannot be gathered in {where}"
    odd = _odd(task_group.need, widest)
    if odd:  # whatever room there is
        multiples_text = f"pods come in multiples of {_multiples(slot_tree, widest)}"
        multiples_text += f", and {task_group.need} is not a multiple of {odd}"
        return Reason("CannotGather", "coscheduling", f"{text}: {multiples_text}"), ()
    text += offer.words(widest)
    if widest.multiples:
        text += f"; pods come in multiples of {_multiples(slot_tree, widest)}"
    by_tier = {
        option.tier: option for option in options if option.tier > 0
    }  # of several options in one tier the last asks the least
    tries = (offer.tried(option, widest=option is widest) for option in by_tier.values())
    return Reason("CannotGather", "coscheduling", text), tuple(t for t in tries if t is not None)


class _Offer:
    """What the domains of a tree take of a task group that is to be gathered.

    Tasks of several shapes are counted as if each shape had a domain to itself: where that would be enough, they only
    do not fit together.
    """

    def __init__(self, cycle: Cycle, job: Job, task_group: TaskGroup) -> None:
        self._cycle = cycle
        self._need = task_group.need
        self._left = task_group.by_shape()
        self._slot_trees = {
            shape: slot_tree(cycle, task_group.sub, job, cycle.fit_counts.of(shape).rows(Pool.FUTURE_IDLE))
            for shape in self._left
        }
        self.slot_tree = self._slot_trees[max(self._left, key=lambda shape: self._left[shape])]

    def of(self, option: GatherOption) -> tuple[Ints, Ints]:
        """The places of an option, roomiest first, and how many of the tasks each takes."""
        quanta = Quanta(self.slot_tree, option)
        places = quanta.offers()
        if len(self._left) == 1:
            return places, quanta.top[places]
        counts = np.add.reduce([np.minimum(self._alone(s, option), n) for s, n in self._left.items()])[places]
        order = np.argsort(-counts, kind="stable")
        return places[order], counts[order]

    def _alone(self, shape: Shape, option: GatherOption) -> Ints:
        """How many tasks of one shape each place takes."""
        return np.maximum(Quanta(self._slot_trees[shape], option).top, 0)

    def words(self, option: GatherOption) -> str:
        """The domains with the most room, each with how many pods it takes, as the end of a sentence."""
        places, room = self.of(option)
        if not len(places):
            if self.slot_tree.standing.any():
                return ", none of which holds its running pods"
            return ", of which there is none"
        if self._apart(int(room[0])):
            return f": {NOT_TOGETHER}"
        shown = [
            f"{self._name(place)} takes {max(number, 0)}"
            for place, number in zip(places[:_GATHERED_SHOWN].tolist(), room[:_GATHERED_SHOWN].tolist(), strict=True)
        ]
        hidden = len(places) - len(shown)
        hidden_text = f", {hidden} more {verb(hidden, 'takes', 'take')} no more than that" if hidden else ""
        return f": {', '.join(shown)}{hidden_text}"

    def _name(self, place: int) -> str:
        tree = self.slot_tree
        if place >= len(tree.topology):
            return self._cycle.nodes.names[int(tree.rows_in(place)[0])]
        return tree.topology.name[place] if place != ROOT else "it"

    def tried(self, option: GatherOption, *, widest: bool) -> Tried | None:
        """How many of the tasks the best domain of a layer takes, and what keeps the others out."""
        places, room = self.of(option)
        if not len(places):
            return None
        best = int(places[0])
        rows = self.slot_tree.rows_in(best)
        shape = max(self._left, key=lambda shape: self._left[shape] - self._alone(shape, option)[best])
        short = causes(self._cycle, shape, rows)
        if widest and not short and not option.multiples:  # which leave nodes that are not full
            short = once_full(self._cycle, shape, rows)
        return Tried(
            tier=option.tier,
            domains=len(places),
            best=self.slot_tree.topology.name[best],
            fits=min(max(int(room[0]), 0), self._need),
            asked=self._need,
            nodes=len(rows),
            causes=short,
            layer=_layer(self.slot_tree, option.tier),
            short=NOT_TOGETHER if self._apart(int(room[0])) else "",
        )

    def _apart(self, takes: int) -> bool:
        """Whether a domain that takes so many, shape by shape, takes them only one shape at a time."""
        return len(self._left) > 1 and takes >= self._need


def _layer(slot_tree: SlotTree, tier: int) -> str:
    names = (name for name, number in slot_tree.topology.tier_names.items() if number == tier)
    return next(names, f"domain of tier {tier}" if tier else "node")


def _multiples(slot_tree: SlotTree, option: GatherOption) -> str:
    return ", ".join(f"{number} in each {_layer(slot_tree, tier)}" for tier, number in option.multiples)


def _odd(tasks: int, option: GatherOption) -> int:
    """A multiple that so many tasks are none of, 0 where there is none such."""
    return next((number for _, number in option.multiples if tasks % number), 0)

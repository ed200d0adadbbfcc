"""Which rows tasks of one shape take: kernels for a span, a walk down the tree, and best nodes that are kept.

There are four kernels with one contract. Each answers which rows take how many tasks when tasks are placed one after
the other, each on the node with the highest total score, ties to the natural order of names; it leaves the ledger as it
was. `reference` in the tests does literally that; the kernels are faster and exact where their condition holds, which a
property checks. `place` picks the fastest that is exact for the plugins at hand.

| kernel    | exact when                                              | work for k tasks on n nodes  |
|-----------|---------------------------------------------------------|------------------------------|
| step      | always: rescores stale rows only                        | k small updates and k argmax |
| runs      | a task raises its own node at least as much as any other | nodes used, not k            |
| domains   | and all others of its innermost domain alike            | at best, domains used        |
| fill      | and changes no other node's score                       | one sort                     |

Where filters move as tasks are placed, `fill` is not exact, and `runs` is where they move on the task's own row alone
(`Filter.own_row`), unless they say how many tasks each node takes (`Filter.room`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate
from operator import mul

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.framework.closest import Split, least_missed, pieces_needed, sets_of_fewest
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask, ScoreEffect
from tierwise.framework.kept import KeptOfLedger
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Bools, Floats, Ints, Rows, begins, distinct
from tierwise.model.job import Shape
from tierwise.model.topology import ROOT

__all__ = [
    "GRAIN",
    "KeptScores",
    "Kernel",
    "Picks",
    "best_row",
    "domains",
    "fill",
    "kernel_for",
    "place",
    "place_in_order",
    "room_ahead",
    "runs",
    "score_keys",
    "step",
    "takes",
    "walk",
]

Picks = tuple[Ints, Ints]
"""Distinct rows in ascending order, and how many tasks each takes."""

Visits = tuple[Ints, Ints]
"""Rows in the order in which they are chosen, which may repeat, and how many tasks each takes."""

Kernel = Callable[[Cycle, Ask, int, slice, Pool], Visits]

GRAIN = 2.0**20
"""Scores are compared in steps of a millionth, so that rounding noise decides nothing."""
_LEAST = -(2**62)
_SETS, _CHILDREN = 64, 4
"""Sets of children that are compared by what is inside them, and children in each; where there are more, children are
chosen as they are: what is left of the last one matters less the more of them a gang uses up."""


def place(cycle: Cycle, ask: Ask, count: int, span: slice, pool: Pool) -> Picks:
    """Choose rows for up to `count` tasks in a span, with the fastest kernel that is exact here."""
    room_by_row = _room(cycle, ask, pool)
    if room_by_row is not None:
        room = room_by_row[span]
        rows = room.nonzero()[0]
        if count and (len(rows) <= 1 or int(room.sum()) <= count):  # nothing to choose
            return rows + span.start, np.minimum(room[rows], count)
        if count == 1:
            return np.array([best_row(cycle, ask, span, pool)]), np.ones(1, dtype=np.int64)
    return _ascending(*kernel_for(cycle, ask, pool)(cycle, ask, count, span, pool))


def _room(cycle: Cycle, ask: Ask, pool: Pool) -> Ints | None:
    """How many tasks each row takes; None where only asking filters again tells."""
    room = cycle.fit_counts.of(ask.shape).rows(pool)
    if not cycle.pipeline.moving(ask.shape):
        return room
    let = cycle.pipeline.room(ask.shape)
    return np.minimum(room, let) if let is not None else None


def takes(cycle: Cycle, ask: Ask, picks: Picks, pool: Pool) -> bool:
    """Whether rows take so many tasks each, all of them together.

    Where filters move, tasks are tried one after the other, in an order that they allow: where topology spread lets all
    of them stand in the end, there is one, and whichever fits next is a part of it.
    """
    rows, counts = picks
    room = _room(cycle, ask, pool)
    if room is not None:
        return bool((room[rows] >= counts).all())
    span = slice(int(rows[0]), int(rows[-1]) + 1)
    still_to_place = np.zeros(span.stop - span.start, dtype=np.int64)
    still_to_place[rows - span.start] = counts
    with cycle.ledger.statement():
        while still_to_place.any():
            able = np.flatnonzero(cycle.fits(ask, span, pool) & (still_to_place > 0))
            if not len(able):
                return False
            cycle.ledger.place(ask.shape, able[:1] + span.start, np.array([1]), pool=pool)
            still_to_place[able[0]] -= 1
    return True


def place_in_order(cycle: Cycle, ask: Ask, count: int, span: slice, pool: Pool) -> Ints:
    """The rows of up to `count` tasks in the order in which they would be placed, one entry for each."""
    return np.repeat(*kernel_for(cycle, ask, pool)(cycle, ask, count, span, pool))


def kernel_for(cycle: Cycle, ask: Ask, pool: Pool) -> Kernel:
    """The fastest kernel that is exact for this shape and these plugins."""
    moving = cycle.pipeline.moving(ask.shape) and _room(cycle, ask, pool) is None
    if moving and not cycle.pipeline.moving_own_rows(ask.shape):
        return step
    effect = cycle.pipeline.effect(ask)
    pipelined = cycle.ledger.any_pipelined or (pool is not Pool.IDLE and cycle.ledger.any_releasing)
    if effect is ScoreEffect.FREE or (effect > ScoreEffect.ROW and pipelined):
        return step  # pipelined tasks can make a domain overfull, which lowers the score of the node that took one
    if moving or effect is ScoreEffect.SPAN:
        return runs  # where filters move, how many a node takes is known only as tasks are placed there
    if effect is ScoreEffect.DOMAIN:
        return domains if _by_domain(cycle, ask) else runs
    return fill


def _by_domain(cycle: Cycle, ask: Ask) -> bool:
    """Whether scores are known in two parts, that of each node and that of its innermost domain."""
    by_leaf = cycle.pipeline.score_leaves(ask) is not None
    return by_leaf and cycle.pipeline.score_rows(ask, slice(0, 0)) is not None


def best_row(cycle: Cycle, ask: Ask, span: slice, pool: Pool, *, among: Bools | None = None) -> int:
    """The row for one task, of all or `among` some of the span, scores computed again; -1 if it fits nowhere."""
    fits = cycle.fits(ask, span, pool)
    if among is not None:
        fits = fits & among
    if not fits.any():
        return -1
    return int(span.start) + _best(score_keys(cycle, ask, span, fits), cycle.nodes.rank[span], fits)


def fill(cycle: Cycle, ask: Ask, count: int, span: slice, pool: Pool) -> Visits:
    """Sort the nodes once, then fill one after the other."""
    room_by_row = _room(cycle, ask, pool)
    assert room_by_row is not None, "whoever chose this kernel has asked"
    room = room_by_row[span]
    rows = room.nonzero()[0]
    keys = score_keys(cycle, ask, span, room > 0)[rows]
    order = np.lexsort((cycle.nodes.rank[span][rows], -keys))
    room, rows = room[rows][order], rows[order]
    upto = room.cumsum()
    used = min(int(upto.searchsorted(count)) + 1, len(order)) if count else 0
    counts = room[:used]
    if used:
        counts[-1] -= max(int(upto[used - 1]) - count, 0)
    return rows[:used] + span.start, counts


def runs(cycle: Cycle, ask: Ask, count: int, span: slice, pool: Pool) -> Visits:
    """Fill the best node, then rescore the rows that changed."""
    return _visits(cycle, ask, count, span, pool, whole_node=True)


def step(cycle: Cycle, ask: Ask, count: int, span: slice, pool: Pool) -> Visits:
    """Place one task after the other, rescoring only the rows that the last one made stale."""
    return _visits(cycle, ask, count, span, pool, whole_node=False)


def _visits(cycle: Cycle, ask: Ask, count: int, span: slice, pool: Pool, *, whole_node: bool) -> Visits:
    chosen_rows: list[int] = []
    numbers: list[int] = []
    rank = cycle.nodes.rank[span]
    moving = _room(cycle, ask, pool) is None
    fits = cycle.fits(ask, span, pool)
    keys = score_keys(cycle, ask, span, fits)
    still_to_place = count
    with cycle.ledger.statement():
        while still_to_place and fits.any():
            best = _best(keys, rank, fits)
            row = span.start + best
            room_by_row = _room(cycle, ask, pool)
            room = int((cycle.fit_counts.of(ask.shape).rows(pool) if room_by_row is None else room_by_row)[row])
            if not room:  # filters contradict each other: without a step of ours this would never end
                fits[best] = False
                continue
            number = min(still_to_place, room) if whole_node else 1
            takes_more = room > number
            if moving and whole_node:
                number, takes_more = _fill_row(cycle, ask, number, row, pool)
            chosen_rows.append(row)
            numbers.append(number)
            still_to_place -= number
            if not still_to_place:
                break
            if not (moving and whole_node):
                cycle.ledger.place(ask.shape, np.array([row]), np.array([number]), pool=pool)
            if moving and not whole_node:
                fits = cycle.fits(ask, span, pool)
            else:
                fits[best] = takes_more
            stale = cycle.pipeline.stale(ask, row)
            part = slice(max(stale.start, span.start), min(stale.stop, span.stop))
            inside = slice(part.start - span.start, part.stop - span.start)
            keys[inside] = score_keys(cycle, ask, part, fits[inside])
    return np.array(chosen_rows, dtype=np.int64), np.array(numbers, dtype=np.int64)


def domains(cycle: Cycle, ask: Ask, count: int, span: slice, pool: Pool) -> Visits:
    """Fill all nodes of the best one's innermost domain that are ahead of every node outside, then rescore."""
    lines = _Lines(cycle, ask, span, pool)
    visits: list[Visits] = []
    still_to_place = min(count, lines.room)
    with cycle.ledger.statement():
        while still_to_place:
            positions, room = lines.next()
            before = np.cumsum(room) - room
            used = int(np.searchsorted(before, still_to_place))
            numbers = np.minimum(room, still_to_place - before)[:used]
            visits.append((positions[:used], numbers))
            still_to_place -= int(numbers.sum())
            if still_to_place:
                order = np.argsort(positions)
                cycle.ledger.place(ask.shape, positions[order] + span.start, numbers[order], pool=pool)
    if not visits:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    positions, counts = (np.concatenate(column) for column in zip(*visits, strict=True))
    return positions + span.start, counts


class _Lines:
    """The nodes that fit, in a line for each innermost domain, the best of each at its head.

    The nodes of a line differ in their own scores alone, which stay, so their order stays. What they share rises at
    least as much as what others share with each task in their domain. So it is enough to look at the heads; and all who
    are ahead of every other head in the line of the best one are the next, whatever is placed before them.
    """

    def __init__(self, cycle: Cycle, ask: Ask, span: slice, pool: Pool) -> None:
        room_by_row, own_scores = _room(cycle, ask, pool), cycle.pipeline.score_rows(ask, span)
        assert room_by_row is not None, "whoever chose this kernel has asked"
        assert own_scores is not None, "the same"
        room = room_by_row[span]
        self._cycle, self._ask = cycle, ask
        positions = np.flatnonzero(room)
        leaf, rank = cycle.topology.leaf[span], cycle.nodes.rank[span]
        self._positions = positions[np.lexsort((rank[positions], -own_scores[positions], leaf[positions]))]
        self._own, self._rank, self._room = own_scores[self._positions], rank[self._positions], room[self._positions]
        self.room = int(self._room.sum())
        leaf = leaf[self._positions]
        self._heads = np.flatnonzero(np.diff(leaf, prepend=-1))
        self._ends = np.append(self._heads, len(leaf))[1:]
        self._leaves = leaf[self._heads]
        # Less than two steps apart, scores may or may not be equal once something is added to them and they are
        # rounded: which of such nodes is ahead is found out when it matters.
        gaps = -np.diff(self._own, append=0.0) * GRAIN
        apart = gaps >= 2
        apart[self._ends - 1] = True
        group: Ints = np.cumsum(apart) - apart
        self._unclear = np.bincount(group, weights=(gaps > 0) & ~apart)[group] > 0

    def next(self) -> Visits:
        """The best position and those that follow in its line for certain, and the room of each."""
        shared = [part[self._leaves] for part in self._cycle.pipeline.score_leaves(self._ask) or ()]
        keys = _rounded(sum(shared, start=self._own[self._heads]))
        best = np.flatnonzero(keys == keys.max())
        heads = self._heads[best]
        for i in np.flatnonzero(self._unclear[heads]).tolist():
            heads[i] = self._best_of(best[i], shared)
        chosen_head = int(np.argmin(self._rank[heads]))
        line = int(best[chosen_head])
        self._move_to_head(line, int(heads[chosen_head]))
        keys[line] = _LEAST
        certain = self._certain(line, shared, int(keys.max()))
        if certain.stop < self._ends[line]:
            self._heads[line] = certain.stop
        else:
            self._heads, self._ends = np.delete(self._heads, line), np.delete(self._ends, line)
            self._leaves = np.delete(self._leaves, line)
        return self._positions[certain], self._room[certain]

    def _certain(self, line: int, shared: Sequence[Floats], best_other: int) -> slice:
        """The head of the best line, and who follows it: ahead of all others' heads, and in an order that is clear."""
        head, end = int(self._heads[line]), int(self._ends[line])
        if end == head + 1 or self._unclear[head]:
            return slice(head, head + 1)
        keys = _rounded(sum([part[line] for part in shared], start=self._own[head:end]))
        number = 1 + int((keys[1:] >= best_other + 2).sum())
        unclear = np.flatnonzero(self._unclear[head : head + number])
        return slice(head, head + (int(unclear[0]) if len(unclear) else number))

    def _best_of(self, line: int, shared: Sequence[Floats]) -> int:
        """The position of the best node of a line that begins with nodes whose order is not clear."""
        head, end = int(self._heads[line]), int(self._ends[line])
        keys = _rounded(sum([part[line] for part in shared], start=self._own[head:end]))
        equal = head + np.flatnonzero(keys == keys[0])
        return int(equal[np.argmin(self._rank[equal])])

    def _move_to_head(self, line: int, at: int) -> None:
        head = int(self._heads[line])
        if at != head:
            order = np.array([at, *range(head, at)])
            for column in (self._positions, self._own, self._rank, self._room):
                column[head : at + 1] = column[order]


def _fill_row(cycle: Cycle, ask: Ask, max_tasks: int, row: int, pool: Pool) -> tuple[int, bool]:
    """Place tasks on a row, one after the other, as long as filters let them: how many, and if one more would fit."""
    number, takes_more = 0, True
    while takes_more and number < max_tasks:
        cycle.ledger.place(ask.shape, np.array([row]), np.array([1]), pool=pool)
        number += 1
        takes_more = bool(cycle.fits(ask, slice(row, row + 1), pool)[0])
    return number, takes_more


def _ascending(rows: Ints, counts: Ints) -> Picks:
    order = rows.argsort(kind="stable")
    rows, counts = rows[order], counts[order]
    if np.logical_and.reduce(rows[1:] > rows[:-1]):
        return rows, counts
    row_starts = begins(rows).nonzero()[0]
    return rows[row_starts], np.add.reduceat(counts, row_starts)


def score_keys(cycle: Cycle, ask: Ask, span: slice, fits: Bools) -> Ints:
    """Scores of a span in steps of `GRAIN`, by which nodes are compared."""
    cycle.steps.charge(7 + (span.stop - span.start) // 256)
    return _rounded(cycle.pipeline.score(ask, span, fits))


def _rounded(scores: Floats) -> Ints:
    return np.rint(scores * GRAIN).astype(np.int64)


def _best(keys: Ints, rank: Ints, fits: Bools) -> int:
    """The position with the highest key, then the lowest rank, among those that fit."""
    candidates = fits.nonzero()[0]
    top = candidates[keys[candidates] == keys[candidates].max()]
    return int(top[np.argmin(rank[top])])


# The walk places k tasks of a gang below one domain, close together. It does not change the ledger.
#
# Distance is decided before score: first the domains with most of the gang's placed tasks, then the child that holds
# all remaining tasks with the least capacity left over, and if there is none, the largest child. This uses the fewest
# domains at every tier. Inside an innermost domain scores choose the nodes (`place`). A domain that is used
# completely is taken as one slice, so the work grows with the depth of the tree, not with the number of tasks.
#
# Where a plugin foresees room (`Foresight`), a gang that has nothing placed goes to the child with the least room ahead
# that holds all; else to the fewest children, in these to the fewest innermost domains, and of those to the set that is
# missed least (`closest`).
#
# `close_reference` in the tests states the first rule task by task.


def walk(cycle: Cycle, ask: Ask, count: int, domain: int, pool: Pool) -> Picks:
    """Choose rows for up to `count` tasks below a domain, close to each other and to the sub-job's placed tasks."""
    if cycle.pipeline.moving(ask.shape):
        return place(cycle, ask, count, cycle.topology.span(domain), pool)
    cycle.steps.charge(2)
    return _Walk(cycle, ask, pool).run(domain, count)


class _Walk:
    def __init__(self, cycle: Cycle, ask: Ask, pool: Pool) -> None:
        self._cycle = cycle
        self._ask = replace(ask, distance_decided=True)
        self._pool = pool
        self._topology = cycle.topology
        room = cycle.fit_counts.of(ask.shape)
        self._per_row = room.rows(pool)
        self._room = self._per_domain = room.domains(pool)
        self._siblings = _siblings(cycle, ask)
        self._rows: list[Ints] = []
        self._counts: list[Ints] = []

    @cached_property
    def _ahead(self) -> Floats | None:
        """The room ahead by domain; None where none is foreseen, or tasks are placed already. Few walks ask for it."""
        return room_ahead(self._cycle, self._ask, self._pool) if not self._siblings else None

    def run(self, domain: int, count: int) -> Picks:
        self._per_domain = self._whole_blocks(domain, count)
        self._descend(domain, min(count, int(self._per_domain[domain])))
        if not self._rows:
            empty = np.zeros(0, dtype=np.int64)
            return empty, empty
        if len(self._rows) == 1:
            return self._rows[0], self._counts[0]
        rows, counts = np.concatenate(self._rows), np.concatenate(self._counts)
        order = rows.argsort()
        return rows[order], counts[order]

    def _descend(self, domain: int, count: int) -> None:
        if not count:
            return
        children = self._topology.children[domain]
        if count >= self._room[domain] or not children:
            self._span(self._topology.span(domain), count)
            return
        if self._ahead is None:
            parts = self._split(domain, children, count)
        else:
            parts_foreseen = self._foresee(domain, count, self._ahead)
            if parts_foreseen is None:
                return
            parts = parts_foreseen
        for child, number in parts:
            if child == domain:
                self._span(self._topology.own_span(domain), number)
            else:
                self._descend(child, number)

    def _whole_blocks(self, domain: int, count: int) -> Ints:
        """The room by domain, that of innermost ones in whole blocks of a grid if these do in as few of them.

        The largest blocks that do: then no group of theirs is in several.
        """
        pattern, topology = self._ask.job.pattern, self._topology
        if pattern is None or self._ahead is None or count != len(self._ask.job.tasks) or count >= self._room[domain]:
            return self._room
        own_room, where = topology.own(self._room), np.array([domain])
        fewest = int(pieces_needed(topology, self._room, where, count)[0])
        for block in reversed(list(accumulate(pattern.factors, mul))):
            block_room = topology.roll_up(own_room // block * block) if count % block == 0 else self._room[:0]
            if (
                len(block_room)
                and block_room[domain] >= count
                and pieces_needed(topology, block_room, where, count)[0] == fewest
            ):
                return block_room
        return self._room

    def _span(self, span: slice, count: int) -> None:
        rows, counts = place(self._cycle, self._ask, count, span, self._pool)
        self._rows.append(rows)
        self._counts.append(counts)

    def _foresee(self, domain: int, count: int, ahead: Floats) -> list[tuple[int, int]] | None:
        """How many tasks each child takes, as `_split`; None where they are placed."""
        places, room, expected = self._members(domain, ahead)
        holds = (room >= count).nonzero()[0]
        if len(holds):
            order = np.lexsort((room[holds], np.rint(GRAIN * expected[holds]))) if len(holds) > 1 else (0,)
            return [(int(places[holds[order[0]]]), count)]
        if self._two_tiers(domain) and self._place_pieces(domain, count, ahead):
            return None
        split = least_missed(room, expected, count)
        return _fewest(places, room, count) if split is None else _parts(places, split)

    def _place_pieces(self, domain: int, count: int, ahead: Floats) -> bool:
        """Place tasks in the fewest innermost domains of the fewest children; False where there are too many sets."""
        places, room, _ = self._members(domain, ahead)
        sets = sets_of_fewest(room, count, _SETS)
        if sets is None or sets.shape[1] > _CHILDREN:
            return False
        below = {place: self._members(place, ahead) for place in places[distinct(sets.ravel())].tolist()}
        if domain in below:
            inner, own_room, expected = below[domain]
            below[domain] = inner[-1:], own_room[-1:], expected[-1:]
        best: tuple[int, int] | None = None
        parts: list[tuple[int, int]] = []
        for place_set in sets:
            columns = zip(*(below[place] for place in places[place_set].tolist()), strict=True)
            inner, own_room, expected = (np.concatenate(column) for column in columns)
            split = least_missed(own_room, expected, count)
            if split is None:
                return False
            if best is None or (len(split.places), split.cost) < best:
                best, parts = (len(split.places), split.cost), _parts(inner, split)
        for piece, number in parts:
            self._span(self._topology.own_span(piece), number)
        return best is not None

    def _members(self, domain: int, ahead: Floats) -> tuple[Ints, Ints, Floats]:
        """The children of a domain and, under its own number, the rows directly in it; their room, now and ahead."""
        children = self._topology.children[domain]
        places = np.array([*children, domain])
        room, later = self._per_domain[places], ahead[places]
        if children:
            room[-1] -= room[:-1].sum()
            later[-1] = max(later[-1] - later[:-1].cumsum()[-1], 0.0)
        return places, room, later

    def _two_tiers(self, domain: int) -> bool:
        """Whether there are domains in the children of a domain, and none in those."""
        children = self._topology.children
        inner = [grandchild for child in children[domain] for grandchild in children[child]]
        return bool(inner) and not any(children[grandchild] for grandchild in inner)

    def _split(self, domain: int, children: tuple[int, ...], count: int) -> list[tuple[int, int]]:
        """How many tasks each child takes; the domain's own number means the rows directly in it."""
        places = np.array([*children, domain])
        room = self._per_domain[places]
        room[-1] = self._per_row[self._topology.own_span(domain)].sum()
        parts: list[tuple[int, int]] = []
        for siblings in self._siblings:
            placed_by_place = siblings[places]
            placed_by_place[-1] -= placed_by_place[:-1].sum()
            for i in np.argsort(-placed_by_place, kind="stable"):
                if placed_by_place[i] <= 0 or not count:
                    break
                number = min(count, int(room[i]))
                if number:
                    parts.append((int(places[i]), number))
                room[i] = 0
                count -= number
        parts += _fewest(places, room, count)
        return parts


def _parts(places: Ints, split: Split) -> list[tuple[int, int]]:
    return list(zip(places[split.places].tolist(), split.counts.tolist(), strict=True))


def room_ahead(cycle: Cycle, ask: Ask, pool: Pool = Pool.IDLE) -> Floats | None:
    """By domain, the room for tasks like these while their job runs; None where no plugin foresees any."""
    if not cycle.pipeline.room_ahead:
        return None
    counted = cycle.fit_counts.of(ask.shape)
    room = counted.domains(pool)
    expected = cycle.pipeline.room_ahead(ask, room, counted.open)
    return room.astype(float) if expected is None else expected


def _fewest(places: Ints, room: Ints, count: int) -> list[tuple[int, int]]:
    """Use the largest children first, until one of the others holds the rest: that one with the least left over."""
    order = np.argsort(-room, kind="stable")
    sizes = room[order]
    parts: list[tuple[int, int]] = []
    for i, size in enumerate(sizes.tolist()):
        if not count or not size:
            break
        if size >= count:
            tightest = sizes[i:][sizes[i:] >= count].min()
            i += int(np.argmax(sizes[i:] == tightest))
            size = count
        parts.append((int(places[order[i]]), size))
        count -= size
    return parts


def _siblings(cycle: Cycle, ask: Ask) -> list[Ints]:
    """For each domain, the number of placed tasks of the sub-job, and then of the whole job."""
    own_placed = cycle.ledger.placed_rows(ask.sub)
    placed_by_domain = [cycle.topology.spread(*own_placed)] if own_placed is not None else []
    if len(ask.job.subs) > 1 and cycle.ledger.placed_span(ask.job) is not None:
        every = cycle.ledger.placed_spread(ask.job)
        if every[ROOT] > (placed_by_domain[0][ROOT] if placed_by_domain else 0):
            placed_by_domain.append(every)
    return placed_by_domain


# The best node for the next task of a shape, kept from task to task: cost follows what has changed since the last
# one.
#
# Where pods of many shapes wait among each other, each of them is placed after tasks of other shapes. `KeptScores`
# keeps what each node scores by itself for each shape, and scores the rows again that have changed on the ledger.
# What nodes score by their domain is added each time, since a task moves the domains around it, and so all scores by
# a little. Where tasks raise their own node most, a node that was the best stays so while all tasks go there and it
# has room; where they raise the others of its innermost domain alike, the next of these follows it (as in `_Lines`).
# So pods of many shapes that fill one node after the other ask no plugin, and go to the ledger node by node.
#
# The row is the one that `best_row` chooses for one task: a property compares both.


class _Kept(msgspec.Struct):
    """What is kept of one shape."""

    ask: Ask  # the first one; others of the shape score the same
    request: Ints  # of what it asks for, as a column
    needs: list[tuple[int, int]]  # the same as pairs, with the index of each resource
    open: Bools  # by row: no static filter objects
    scores: Floats  # by row, in steps of `GRAIN`, without what domains add; minus infinity where it does not fit
    effect: ScoreEffect  # of a task of whatever shape on the scores of this one
    shared: list[Floats] = []  # by leaf, what its domains add, in the same steps
    line: list[int] = []  # rows in the order in which they are the best, each as those before it are full
    at: int = 0  # how many of them are
    best: int = -1  # the row that was the best, and up to which change it is known to be
    known: int = -1

    def keys(self, scores: Floats, leaves: Ints | slice) -> Floats:
        """By which nodes of these leaves are compared, given what each of them scores by itself."""
        for part in self.shared:
            scores = scores + part[leaves]
        return np.rint(scores)


class KeptScores:
    """What nodes score for tasks of each shape that was asked for."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._kept = KeptOfLedger(cycle.ledger.moved, KeptScores._first, KeptScores._again)
        self._needed: dict[int, list[tuple[int, int]]] = {}
        self._placed: list[Shape] = []  # of the tasks that the ledger does not know yet
        self._filled = -1  # their row, and what they leave of each resource there
        self._left: list[int] = []

    # Found when first asked for: most gangs have constraints, and many cycles place no task. Leaves are the innermost
    # domains, those that have nodes: the rows of each follow each other.

    @cached_property
    def _begins(self) -> Ints:
        """By leaf, its first row."""
        return begins(self._cycle.topology.leaf).nonzero()[0]

    @cached_property
    def _rows(self) -> list[Ints]:
        """By leaf, all its rows."""
        return np.split(np.arange(len(self._cycle.nodes)), self._begins[1:])

    @cached_property
    def _leaf(self) -> Ints:
        """Number of the innermost domain of each row."""
        leaf: Ints = begins(self._cycle.topology.leaf).cumsum() - 1
        return leaf

    def best(self, ask: Ask) -> int | None:
        """The row for the next task of a job without constraints, -1 if it fits nowhere.

        None where scores or filters depend on more than the tasks of each node and the amounts of each domain.
        """
        shape, job = ask.shape, ask.job
        who = shape.number if self._cycle.pipeline.scores_by_shape else (shape.number, job.queue, job.lone)
        entry = self._kept.last(who)
        if entry is None or not self._stays(entry):
            self.write()
            if entry is None and not self.has_room(shape):
                return -1  # a backlog of many shapes costs a look at each
            entry = self._kept.of(who, self, ask)
            if entry is None:
                return None
            entry.at, entry.line = 0, self._line(entry)
            entry.best = entry.line[0] if entry.line else -1
        entry.known = self._cycle.ledger.moved.length
        return entry.best

    def place(self, shape: Shape, row: int) -> None:
        """Place a task on idle resources of a row; the ledger is told of it by `write`, with others of that row."""
        if row != self._filled:
            self.write()
            self._filled, self._left = row, self._cycle.ledger.idle[:, row].tolist()
        self._placed.append(shape)
        for resource, amount in self._needs(shape):
            self._left[resource] -= amount

    def write(self) -> None:
        """Tell the ledger of all tasks that were placed."""
        if self._placed:
            self._cycle.ledger.place_each(self._placed, self._filled)
            self._placed = []
        self._filled = -1

    def has_room(self, shape: Shape) -> bool:
        """Whether some node has the amounts, whatever filters say."""
        free = self._cycle.ledger.idle[shape.asked]
        return bool(np.logical_and.reduce(free >= shape.request[shape.asked, None], axis=0).any())

    def _needs(self, shape: Shape) -> list[tuple[int, int]]:
        """The resources that a task asks for, and how much of each."""
        needs = self._needed.get(shape.number)
        if needs is None:
            amounts = shape.request[shape.asked].tolist()
            needs = self._needed[shape.number] = [*zip(shape.asked.tolist(), amounts, strict=True)]
        return needs

    def _stays(self, entry: _Kept) -> bool:
        """Whether the row that was the best is known to be so still, or which of its line has become so."""
        ledger = self._cycle.ledger
        written = entry.known != ledger.moved.length
        if not written and not self._placed:
            return True
        if entry.best < 0 or entry.effect > ScoreEffect.SPAN or ledger.any_pipelined or ledger.any_releasing:
            return False
        taken_rows = ledger.moved.taken_since(entry.known) if written else []
        if taken_rows is None:
            return False
        line, at = entry.line, entry.at
        while not self._takes(entry.needs, line[at]):
            at += 1
            if at == len(line):
                return False
        if taken_rows or self._filled != line[at]:
            ahead = {*line[: at + 1]}  # all but the last are full for this shape
            if not ahead.issuperset(taken_rows) or (self._placed and self._filled not in ahead):
                return False
        entry.at, entry.best = at, line[at]
        return True

    def _takes(self, needs: list[tuple[int, int]], row: int) -> bool:
        free = self._left if row == self._filled else self._cycle.ledger.idle[:, row].tolist()
        for resource, amount in needs:  # noqa: SIM110 -- asked for each pod, and this is the fastest
            if free[resource] < amount:
                return False
        return True

    def _line(self, entry: _Kept) -> list[int]:
        """The best row, and those of its innermost domain that follow it for certain as it fills up; none if it fits
        nowhere.
        """
        if not len(entry.scores):
            return []  # a cluster may have no node
        keys = entry.keys(np.maximum.reduceat(entry.scores, self._begins), slice(None))  # of the best node of each leaf
        leaf = int(keys.argmax())
        top, keys[leaf] = keys[leaf], -np.inf
        if top == -np.inf:
            return []
        best_other, rows, rank = keys.max(), self._rows[leaf], self._cycle.nodes.rank
        if best_other == top:
            keys[leaf] = top
            rows = (keys == top)[self._leaf].nonzero()[0]
        rows = rows[entry.scores[rows] > -np.inf]
        row_scores = entry.scores[rows]
        keys = entry.keys(row_scores, self._leaf[rows])
        least_key = best_other + 2  # as sums are rounded, less may or may not be ahead
        if entry.effect <= ScoreEffect.DOMAIN and top >= least_key:
            order = np.lexsort((rank[rows], -row_scores))
            row_scores = row_scores[order]
            number = int((keys >= least_key).sum())
            gaps = row_scores[:-1] - row_scores[1:]
            unclear = ((gaps > 0) & (gaps < 2)).nonzero()[0]
            if len(unclear):  # the order of these, and of all that score the same, is found out when it matters
                number = min(number, int((row_scores > row_scores[unclear[0]]).sum()))
            if number:
                line: list[int] = rows[order[:number]].tolist()
                return line
        equal = rows[keys == top]
        return [int(equal[rank[equal].argmin()])]

    def _first(self, ask: Ask) -> _Kept | None:
        """Score all nodes for a shape that was not asked for before."""
        pipeline, shape, size = self._cycle.pipeline, ask.shape, len(self._cycle.nodes)
        if pipeline.moving(shape):
            return None
        request, objections = shape.request[shape.asked, None], pipeline.why_not(shape)
        entry = _Kept(
            ask=ask,
            request=request,
            needs=self._needs(shape),
            open=objections == 0,
            scores=np.empty(size),
            effect=pipeline.effect(ask),
        )
        return self._again(ask, entry, slice(0, size))

    def _again(self, _: Ask, entry: _Kept | None, rows: Rows) -> _Kept | None:
        """Score the rows again that have changed, and all domains; None if the plugins cannot tell."""
        if entry is None:
            return None
        if not isinstance(rows, slice) and len(rows) == rows[-1] - rows[0] + 1:
            rows = slice(int(rows[0]), int(rows[-1]) + 1)  # of those that fill up one after the other; it is faster
        pipeline, ask = self._cycle.pipeline, entry.ask
        scores, parts = pipeline.score_rows(ask, rows), pipeline.score_leaves(ask)
        if scores is None or parts is None:
            return None
        free = self._cycle.ledger.free(ask.shape.asked, rows, Pool.IDLE)
        fits = np.logical_and.reduce(free >= entry.request, axis=0)
        fits &= entry.open[rows]
        scores *= GRAIN  # a power of two: no digit is lost, and sums are the same
        scores[~fits] = -np.inf
        entry.scores[rows] = scores
        leaves = self._cycle.topology.leaf[self._begins]
        entry.shared = [GRAIN * part[leaves] for part in parts]
        return entry

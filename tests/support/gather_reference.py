"""The rule of gathering, stated plainly: every distribution of the tasks is looked at.

Slow and obvious, for small trees only; `placement.quanta` must agree with it.
A node's box of a tier is the widest domain around it within that tier, or the node itself: in every box of a tier
tasks come in multiples of what is asked there.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tierwise.actions.placement.slots import SlotTree
from tierwise.framework.extension import GatherOption
from tierwise.model.topology import ROOT

__all__ = ["best_place", "boxes", "distribution", "mixtures"]

Place = tuple[int, int]  # (0, domain) or (1, row)


def boxes(slot_tree: SlotTree, tier: int) -> list[Place]:
    """The box of a tier around each row."""
    return [_box(slot_tree, row, tier) for row in range(len(slot_tree.room))]


def best_place(slot_tree: SlotTree, option: GatherOption, count: int) -> Place | None:
    """Where all tasks go: of the places that hold them the first by the order of candidates."""
    holding = [
        place for place in _candidates(slot_tree, option) if any(_all(slot_tree, option, place, count, whole=True))
    ]
    return min(holding, key=lambda place: _candidate_key(slot_tree, option, place), default=None)


def distribution(slot_tree: SlotTree, option: GatherOption, place: Place, count: int) -> tuple[int, ...]:
    """Of all distributions below a place the one that fills its parts in their order, at every height."""
    found = list(_all(slot_tree, option, place, count, whole=True))
    return max(found, key=lambda numbers: _filled(slot_tree, option, place, numbers))


def mixtures(
    slot_tree: SlotTree, option: GatherOption, free: list[int], counts: tuple[int, int]
) -> Iterator[tuple[Place, list[int]]]:
    """Every way to place tasks of size one and of size two in one domain: where, and how many tasks on each row."""
    rows = range(len(free))
    for place in _candidates(slot_tree, option):
        inside = [row for row in _rows(slot_tree, place) if _inside(slot_tree, row)]
        fits = [[(a, b) for b in range(free[r] // 2 + 1) for a in range(free[r] - 2 * b + 1)] for r in inside]
        for mixes in product(*fits):
            if counts == (sum(a for a, _ in mixes), sum(b for _, b in mixes)):
                dealt = dict(zip(inside, (a + b for a, b in mixes), strict=True))
                numbers = tuple(dealt.get(row, 0) for row in rows)
                every = [(boxes(slot_tree, tier), number) for tier, number in option.multiples]
                if all(_kept(slot_tree, numbers, box, number, _rows(slot_tree, place)) for box, number in every):
                    yield place, list(numbers)


def _candidates(slot_tree: SlotTree, option: GatherOption) -> Iterator[Place]:
    topology = slot_tree.topology
    stands = [row for row in range(len(slot_tree.room)) if slot_tree.standing[row]]
    if option.tier <= 0:
        places: list[Place] = [(1, row) for row in range(len(slot_tree.room)) if _inside(slot_tree, row)]
    else:
        places = [(0, d) for d in range(len(topology)) if topology.tier[d] == option.tier]
    for place in places:
        if all(row in _rows(slot_tree, place) for row in stands):
            yield place


def _rows(slot_tree: SlotTree, place: Place) -> range:
    kind, number = place
    span = slot_tree.topology.span(number) if kind == 0 else slice(number, number + 1)
    return range(span.start, span.stop)


def _inside(slot_tree: SlotTree, row: int) -> bool:
    return len(slot_tree.topology) == 1 or int(slot_tree.topology.leaf[row]) != ROOT


def _box(slot_tree: SlotTree, row: int, tier: int) -> Place:
    around = [
        d for d in slot_tree.topology.ancestors(int(slot_tree.topology.leaf[row])) if slot_tree.topology.tier[d] <= tier
    ]
    return (0, around[-1]) if around else (1, row)


def _all(
    slot_tree: SlotTree, option: GatherOption, place: Place, count: int, *, whole: bool
) -> Iterator[tuple[int, ...]]:
    """Every distribution of so many tasks below a place that keeps the multiples.

    `whole` says that all tasks are there, so that the boxes around the place count too; else only those below its
    parent do.
    """
    rows = _rows(slot_tree, place)
    limit = float("inf") if whole else _parent_tier(slot_tree, place)
    multiples = [(boxes(slot_tree, tier), number) for tier, number in option.multiples if tier < limit]
    room = [
        range(int(slot_tree.room[row]) + 1 if row in rows and _inside(slot_tree, row) else 1)
        for row in range(len(slot_tree.room))
    ]
    for numbers in product(*room):
        if sum(numbers) == count and all(_kept(slot_tree, numbers, box, number, rows) for box, number in multiples):
            yield numbers


def _kept(slot_tree: SlotTree, numbers: tuple[int, ...], box: list[Place], multiple: int, rows: range) -> bool:
    totals: dict[Place, int] = {}
    for row in rows:
        totals[box[row]] = totals.get(box[row], 0) + numbers[row] + int(slot_tree.standing[row])
    return all(total % multiple == 0 for total in totals.values())


def _parent_tier(slot_tree: SlotTree, place: Place) -> float:
    kind, number = place
    parent = int(slot_tree.topology.parent[number]) if kind == 0 else int(slot_tree.topology.leaf[number])
    return float(slot_tree.topology.tier[parent]) if parent >= 0 else float("inf")


def _most(slot_tree: SlotTree, option: GatherOption, place: Place) -> int:
    upto = sum(int(slot_tree.room[row]) for row in _rows(slot_tree, place))
    found = (n for n in range(upto, -1, -1) if any(_all(slot_tree, option, place, n, whole=False)))
    return next(found, -1)


def _drawn(slot_tree: SlotTree, place: Place) -> int:
    return sum(int(slot_tree.drawn[row]) for row in _rows(slot_tree, place))


def _name(slot_tree: SlotTree, place: Place) -> int:
    return int(slot_tree.rank[place[1]] if place[0] else slot_tree.topology.rank[place[1]])


def _candidate_key(slot_tree: SlotTree, option: GatherOption, place: Place) -> tuple[int, ...]:
    """Near what is drawn, then the least room, then the same of the domains around, then the name."""
    tiers = [tier for tier in slot_tree.topology.at_tier if tier > option.tier]
    around = {tier: _around(slot_tree, place, tier) for tier in tiers}
    listed = [tier for tier in dict.fromkeys((*option.compare, *tiers)) if tier in around]
    drawn = [-_drawn(slot_tree, p) for p in (place, *around.values())]
    room = [_most(slot_tree, option, p) for p in (place, *(around[tier] for tier in listed))]
    return (*drawn, *room, _name(slot_tree, place))


def _around(slot_tree: SlotTree, place: Place, tier: int) -> Place:
    """The widest domain around a place within a tier; where a node has none, its innermost one."""
    inner = int(slot_tree.topology.leaf[place[1]]) if place[0] else place[1]
    return (0, [d for d in slot_tree.topology.ancestors(inner) if d == inner or slot_tree.topology.tier[d] <= tier][-1])


def _parts(slot_tree: SlotTree, place: Place) -> list[Place]:
    children = list(slot_tree.topology.children[place[1]])
    covered = {row for child in children for row in _rows(slot_tree, (0, child))}
    return [(0, child) for child in children] + [(1, row) for row in _rows(slot_tree, place) if row not in covered]


def _filled(slot_tree: SlotTree, option: GatherOption, place: Place, numbers: tuple[int, ...]) -> tuple[int, ...]:
    """How much each part has, in the order of filling, then the same inside each of them."""
    if place[0]:
        return ()

    def key(part: Place) -> tuple[int, ...]:
        room = 0 if option.by_name and not part[0] else -_most(slot_tree, option, part)
        return (-_drawn(slot_tree, part), room, part[0], _name(slot_tree, part))

    parts = sorted(_parts(slot_tree, place), key=key)
    amounts = [sum(numbers[row] for row in _rows(slot_tree, part)) for part in parts]
    inner = [n for part in parts for n in _filled(slot_tree, option, part, numbers)]
    return (*amounts, *inner)

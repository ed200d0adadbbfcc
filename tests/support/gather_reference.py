"""The rule of gathering, stated plainly: every distribution of the tasks is looked at.

Slow and obvious, for small trees only; `framework.gathering` must agree with it.
A node's box of a tier is the widest domain around it within that tier, or the node itself: in every box of a tier
tasks come in multiples of what is asked there.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tierwise.framework.gathering import Ground, Way
from tierwise.model.topology import ROOT

__all__ = ["best_place", "boxes", "distribution", "mixtures"]

Place = tuple[int, int]  # (0, domain) or (1, row)


def boxes(ground: Ground, tier: int) -> list[Place]:
    """The box of a tier around each row."""
    return [_box(ground, row, tier) for row in range(len(ground.room))]


def best_place(ground: Ground, way: Way, count: int) -> Place | None:
    """Where all tasks go: of the places that hold them the first by the order of candidates."""
    holding = [place for place in _candidates(ground, way) if any(_all(ground, way, place, count, whole=True))]
    return min(holding, key=lambda place: _candidate_key(ground, way, place), default=None)


def distribution(ground: Ground, way: Way, place: Place, count: int) -> tuple[int, ...]:
    """Of all distributions below a place the one that fills its parts in their order, at every height."""
    found = list(_all(ground, way, place, count, whole=True))
    return max(found, key=lambda numbers: _filled(ground, way, place, numbers))


def mixtures(ground: Ground, way: Way, free: list[int], counts: tuple[int, int]) -> Iterator[tuple[Place, list[int]]]:
    """Every way to place tasks of size one and of size two in one domain: where, and how many tasks on each row."""
    rows = range(len(free))
    for place in _candidates(ground, way):
        inside = [row for row in _rows(ground, place) if _inside(ground, row)]
        fits = [[(a, b) for b in range(free[r] // 2 + 1) for a in range(free[r] - 2 * b + 1)] for r in inside]
        for mixes in product(*fits):
            if counts == (sum(a for a, _ in mixes), sum(b for _, b in mixes)):
                dealt = dict(zip(inside, (a + b for a, b in mixes), strict=True))
                numbers = tuple(dealt.get(row, 0) for row in rows)
                every = [(boxes(ground, tier), number) for tier, number in way.multiples]
                if all(_kept(ground, numbers, box, number, _rows(ground, place)) for box, number in every):
                    yield place, list(numbers)


def _candidates(ground: Ground, way: Way) -> Iterator[Place]:
    topology = ground.topology
    stands = [row for row in range(len(ground.room)) if ground.standing[row]]
    if way.tier <= 0:
        places: list[Place] = [(1, row) for row in range(len(ground.room)) if _inside(ground, row)]
    else:
        places = [(0, d) for d in range(len(topology)) if topology.tier[d] == way.tier]
    for place in places:
        if all(row in _rows(ground, place) for row in stands):
            yield place


def _rows(ground: Ground, place: Place) -> range:
    kind, number = place
    span = ground.topology.span(number) if kind == 0 else slice(number, number + 1)
    return range(span.start, span.stop)


def _inside(ground: Ground, row: int) -> bool:
    return len(ground.topology) == 1 or int(ground.topology.leaf[row]) != ROOT


def _box(ground: Ground, row: int, tier: int) -> Place:
    around = [d for d in ground.topology.ancestors(int(ground.topology.leaf[row])) if ground.topology.tier[d] <= tier]
    return (0, around[-1]) if around else (1, row)


def _all(ground: Ground, way: Way, place: Place, count: int, *, whole: bool) -> Iterator[tuple[int, ...]]:
    """Every distribution of so many tasks below a place that keeps the multiples.

    `whole` says that all tasks are there, so that the boxes around the place count too; else only those below its
    parent do.
    """
    rows = _rows(ground, place)
    limit = float("inf") if whole else _parent_tier(ground, place)
    multiples = [(boxes(ground, tier), number) for tier, number in way.multiples if tier < limit]
    room = [
        range(int(ground.room[row]) + 1 if row in rows and _inside(ground, row) else 1)
        for row in range(len(ground.room))
    ]
    for numbers in product(*room):
        if sum(numbers) == count and all(_kept(ground, numbers, box, number, rows) for box, number in multiples):
            yield numbers


def _kept(ground: Ground, numbers: tuple[int, ...], box: list[Place], multiple: int, rows: range) -> bool:
    totals: dict[Place, int] = {}
    for row in rows:
        totals[box[row]] = totals.get(box[row], 0) + numbers[row] + int(ground.standing[row])
    return all(total % multiple == 0 for total in totals.values())


def _parent_tier(ground: Ground, place: Place) -> float:
    kind, number = place
    parent = int(ground.topology.parent[number]) if kind == 0 else int(ground.topology.leaf[number])
    return float(ground.topology.tier[parent]) if parent >= 0 else float("inf")


def _most(ground: Ground, way: Way, place: Place) -> int:
    upto = sum(int(ground.room[row]) for row in _rows(ground, place))
    found = (n for n in range(upto, -1, -1) if any(_all(ground, way, place, n, whole=False)))
    return next(found, -1)


def _drawn(ground: Ground, place: Place) -> int:
    return sum(int(ground.drawn[row]) for row in _rows(ground, place))


def _name(ground: Ground, place: Place) -> int:
    return int(ground.rank[place[1]] if place[0] else ground.topology.rank[place[1]])


def _candidate_key(ground: Ground, way: Way, place: Place) -> tuple[int, ...]:
    """Near what is drawn, then the least room, then the same of the domains around, then the name."""
    tiers = [tier for tier in ground.topology.at_tier if tier > way.tier]
    around = {tier: _around(ground, place, tier) for tier in tiers}
    listed = [tier for tier in dict.fromkeys((*way.compare, *tiers)) if tier in around]
    drawn = [-_drawn(ground, p) for p in (place, *around.values())]
    room = [_most(ground, way, p) for p in (place, *(around[tier] for tier in listed))]
    return (*drawn, *room, _name(ground, place))


def _around(ground: Ground, place: Place, tier: int) -> Place:
    """The widest domain around a place within a tier; where a node has none, its innermost one."""
    inner = int(ground.topology.leaf[place[1]]) if place[0] else place[1]
    return (0, [d for d in ground.topology.ancestors(inner) if d == inner or ground.topology.tier[d] <= tier][-1])


def _parts(ground: Ground, place: Place) -> list[Place]:
    children = list(ground.topology.children[place[1]])
    covered = {row for child in children for row in _rows(ground, (0, child))}
    return [(0, child) for child in children] + [(1, row) for row in _rows(ground, place) if row not in covered]


def _filled(ground: Ground, way: Way, place: Place, numbers: tuple[int, ...]) -> tuple[int, ...]:
    """How much each part has, in the order of filling, then the same inside each of them."""
    if place[0]:
        return ()

    def key(part: Place) -> tuple[int, ...]:
        room = 0 if way.by_name and not part[0] else -_most(ground, way, part)
        return (-_drawn(ground, part), room, part[0], _name(ground, part))

    parts = sorted(_parts(ground, place), key=key)
    amounts = [sum(numbers[row] for row in _rows(ground, part)) for part in parts]
    inner = [n for part in parts for n in _filled(ground, way, part, numbers)]
    return (*amounts, *inner)

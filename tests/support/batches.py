"""Batches of three gangs on small clusters, and the best that can be done for all of them together, by CP-SAT.

A batch is judged by (gangs started, the sum of their tiers, the sum of the innermost domains that they touch):
`python -m tests.support.batches` says how many of drawn batches the default profile places so.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import click
import msgspec
from msgspec.structs import replace
from ortools.sat.python import cp_model
from tests.support.draw import Gang, Outcome, Role, World, allocate, draw, placed

__all__ = ["Batch", "Found", "best", "drawn_batch", "found", "in_turn", "share_of_best", "summed"]

_AMOUNTS = ("gpu", "cpu")


class Batch(msgspec.Struct, frozen=True):
    """A cluster of racks under spines, what its nodes have, and gangs in the order of their turns."""

    spines: tuple[tuple[tuple[str, ...], ...], ...]  # nodes by rack
    room: dict[str, tuple[int, int]]  # gpu and cpu
    gangs: tuple[Gang, ...]
    standing: tuple[Gang, ...] = ()  # what runs beside them, on further devices of the nodes
    now: float = 0.0

    @property
    def racks(self) -> list[tuple[int, tuple[str, ...]]]:
        """Each rack's spine and nodes."""
        return [(number, rack) for number, spine in enumerate(self.spines) for rack in spine]

    @property
    def world(self) -> World:
        number, drawn = 0, []
        for i, spine in enumerate(self.spines):
            inner = []
            for rack in spine:
                inner.append(f"r{number}[{' '.join(rack)}]")
                number += 1
            drawn.append(f"s{i}[{' '.join(inner)}]")
        taken = Counter(node for gang in self.standing for node in gang.on.split())
        nodes = {name: f"gpu={gpu + taken[name]} cpu={cpu}" for name, (gpu, cpu) in self.room.items()}
        return draw(f"top[{' '.join(drawn)}]", nodes=nodes)

    @property
    def outcome(self) -> Outcome:
        """What one cycle of the default profile makes of it."""
        return allocate(self.world, *self.standing, *self.gangs, now=self.now)


class Found(msgspec.Struct, frozen=True, order=True):
    """How good a placement is, the smaller the better."""

    waiting: int
    tiers: int
    domains: int


def drawn_batch(seed: int, *, roles: int = 1, gangs: int = 3) -> Batch:
    """A batch that asks for most of what there is."""
    chance = random.Random(f"batch {roles} {seed}")
    number, spines = 0, []
    for _ in range(chance.choice((1, 2, 2, 3))):
        racks = []
        for _ in range(chance.randint(2, 4)):
            size = chance.randint(1, 3)
            racks.append(tuple(f"n{number + i}" for i in range(size)))
            number += size
        spines.append(tuple(racks))
    room = {f"n{i}": (chance.randint(0, 4), chance.choice((4, 8))) for i in range(number)}
    total = sum(gpu for gpu, _ in room.values())
    asked = max(2 * gangs, int(total * chance.uniform(0.5, 1.0)))
    cuts = sorted(chance.sample(range(1, asked), gangs - 1))
    sizes = [b - a for a, b in zip((0, *cuts), (*cuts, asked), strict=True)]
    made = [_gang(chance, f"g{i}", max(2, size), roles, i) for i, size in enumerate(sizes)]
    return Batch(tuple(spines), room, tuple(made))


def _gang(chance: random.Random, name: str, size: int, roles: int, order: int) -> Gang:
    limit = chance.choice((None, None, None, 2, 1))
    if roles == 1:
        return Gang(name, size, "gpu=1", within=limit, soft=limit is None, created=order)
    drivers = chance.randint(1, max(1, size // 2))
    made = (Role("w", max(1, size - drivers), "gpu=1"), Role("d", drivers, "cpu=2"))
    return Gang(name, within=limit, soft=limit is None, created=order, roles=made)


def found(batch: Batch) -> tuple[Found, ...]:
    """By gang, how well the default profile places it."""
    outcome = batch.outcome
    return tuple(_judged(batch, set(placed(outcome, gang.name))) for gang in batch.gangs)


def _judged(batch: Batch, nodes: set[str]) -> Found:
    if not nodes:
        return Found(1, 0, 0)
    touched = [(spine, rack) for spine, rack in batch.racks if nodes & set(rack)]
    tier = 1 if len(touched) == 1 else 2 if len({spine for spine, _ in touched}) == 1 else 3
    return Found(0, tier, len(touched))


def in_turn(batch: Batch) -> tuple[Found, ...]:
    """How well each gang is placed one after the other, each in a cycle of its own."""
    standing: list[Gang] = []
    for gang in batch.gangs:
        outcome = allocate(batch.world, *standing, gang)
        pods = [f"{gang.name}-{r.name}-{i}" for r in gang.roles for i in range(r.tasks)]
        pods = pods or [f"{gang.name}-{i}" for i in range(gang.tasks)]
        if pods[0] in outcome.bindings:
            standing.append(replace(gang, on=" ".join(outcome.bindings[pod] for pod in pods)))
    nodes = {gang.name: set(gang.on.split()) for gang in standing}
    return tuple(_judged(batch, nodes.get(gang.name, set())) for gang in batch.gangs)


def best(batch: Batch, turns: Sequence[Found] | None = None) -> Found:
    """The best of all placements: most gangs, then the lowest tiers, then the fewest domains.

    With `turns`, of those that are fair: who comes first starts first, and nobody has a wider tier than in its turn
    unless somebody starts that would not have.
    """
    model = cp_model.CpModel()
    racks = batch.racks
    used: dict[tuple[str, int], list[cp_model.LinearExprT]] = {}
    starts, tiers, domains = [], [], []
    for gang in batch.gangs:
        start = model.new_bool_var("")
        kinds = [(r.tasks, r.each) for r in gang.roles] or [(gang.tasks, gang.each)]
        on_rack: list[list[cp_model.IntVar]] = [[] for _ in racks]
        for tasks, each in kinds:
            name, _, number = each.partition("=")
            counts = []
            for i, (_, rack) in enumerate(racks):
                for node in rack:
                    count = model.new_int_var(0, tasks, "")
                    used.setdefault((node, _AMOUNTS.index(name)), []).append(count * int(number))
                    counts.append(count)
                    on_rack[i].append(count)
            model.add(sum(counts) == tasks * start)
        whole = sum(tasks for tasks, _ in kinds)
        touched = [model.new_bool_var("") for _ in racks]
        for flag, here in zip(touched, on_rack, strict=True):
            model.add(sum(here) <= whole * flag)
        spines = [model.new_bool_var("") for _ in batch.spines]
        for (spine, _), flag in zip(racks, touched, strict=True):
            model.add_implication(flag, spines[spine])
        several, across = model.new_bool_var(""), model.new_bool_var("")
        model.add(sum(touched) <= 1 + (len(racks) - 1) * several)
        model.add(sum(spines) <= 1 + (len(spines) - 1) * across)
        tier = start + several + across
        if isinstance(gang.within, int):
            model.add(tier <= gang.within)
        starts.append(start)
        tiers.append(tier)
        domains += touched
    for (node, kind), amounts in used.items():
        model.add(sum(amounts) <= batch.room[node][kind])
    worth = [10_000 * (2 ** (len(starts) - i) if turns else 1) for i in range(len(starts))]
    if turns:
        new = sum(start for start, turn in zip(starts, turns, strict=True) if turn.waiting)
        for tier, turn in zip(tiers, turns, strict=True):
            if not turn.waiting:
                model.add(tier <= turn.tiers + 3 * new)
    model.minimize(-sum(w * start for w, start in zip(worth, starts, strict=True)) + 100 * sum(tiers) + sum(domains))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return Found(
        len(starts) - sum(solver.value(start) for start in starts),
        sum(solver.value(tier) for tier in tiers),
        sum(solver.value(flag) for flag in domains),
    )


def summed(each: Sequence[Found]) -> Found:
    """Gangs together."""
    return Found(sum(f.waiting for f in each), sum(f.tiers for f in each), sum(f.domains for f in each))


class Shares(msgspec.Struct, frozen=True):
    """Of some batches: as good as can be, as good as can be fairly, and how many start fewer gangs than could."""

    best: float
    fair: float
    fewer: int


def share_of_best(seeds: Sequence[int], *, roles: int = 1) -> Shares:
    """How many of drawn batches are placed as well as can be."""
    best_of, fair, fewer = 0, 0, 0
    for batch in (drawn_batch(seed, roles=roles) for seed in seeds):
        ours, most = summed(found(batch)), best(batch)
        best_of += ours == most
        fair += ours == most or ours <= best(batch, in_turn(batch))
        fewer += ours.waiting > most.waiting
    return Shares(best_of / len(seeds), fair / len(seeds), fewer)


@click.command()
@click.option("--seeds", default=300)
@click.option("--first", default=0)
def main(seeds: int, first: int) -> None:
    """Print the shares of drawn batches that are placed as well as can be."""
    for roles in (1, 2):
        shares = share_of_best(range(first, first + seeds), roles=roles)
        click.echo(
            f"{roles} role(s), {seeds} batches: {shares.best:.1%} the best of all, {shares.fair:.1%} the best of those "
            f"that are fair, {shares.fewer} start fewer gangs than could"
        )


if __name__ == "__main__":
    main()

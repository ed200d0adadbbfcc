"""Grids of ranks on drawn racks, and the narrowest groups that they allow, by CP-SAT.

`python -m tests.support.grids` says how wide the widest pipeline group is: in the order of the tree, as laid out, and
at best; and, for gangs of seven grids on racks half in use, as the default profile places them without and with the
pattern.
"""

from __future__ import annotations

import random

import click
import msgspec
import numpy as np
from ortools.sat.python import cp_model
from tests.support.draw import Gang, allocate, draw
from tests.support.split_optimum import tree_of

from tierwise.api.pattern import PATTERN, Pattern, parse_pattern
from tierwise.model.arrays import Ints
from tierwise.model.ranks import laid_out, spreads
from tierwise.model.topology import Topology

__all__ = ["Drawn", "drawn_racks", "narrowest"]


class Drawn(msgspec.Struct, frozen=True):
    """Racks with so many rows each, and a grid of as many ranks."""

    counts: tuple[int, ...]
    pattern: Pattern

    @property
    def topology(self) -> Topology:
        first, racks = 0, []
        for i, count in enumerate(self.counts):
            racks.append(f"r{i}[{' '.join(f'n{first + j}' for j in range(count))}]")
            first += count
        return tree_of(f"s0[{' '.join(racks)}]")

    @property
    def rows(self) -> Ints:
        return np.arange(sum(self.counts))


def drawn_racks(seed: int) -> Drawn:
    """Two to six groups of two to eight ranks on two to six racks."""
    chance = random.Random(f"grid {seed}")
    block, groups = chance.choice((2, 3, 4, 5, 6, 8)), chance.randint(2, 6)
    total = block * groups
    racks = min(chance.randint(2, 6), total)
    cuts = sorted(chance.sample(range(1, total), racks - 1))
    counts = tuple(b - a for a, b in zip((0, *cuts), (*cuts, total), strict=True))
    return Drawn(counts, Pattern("grid", (("dp", groups), ("pp", block))))


def narrowest(drawn: Drawn) -> tuple[int, int]:
    """The fewest racks that the widest group can have, and of such layouts the fewest groups in several racks."""
    (_, groups), (_, block) = drawn.pattern.grid
    model, counts = cp_model.CpModel(), drawn.counts
    widest = model.new_int_var(1, len(counts), "")
    placed = [[model.new_int_var(0, min(block, count), "") for count in counts] for _ in range(groups)]
    cut = []
    for group in placed:
        model.add(sum(group) == block)
        touched = [model.new_bool_var("") for _ in counts]
        for number, flag in zip(group, touched, strict=True):
            model.add(number <= block * flag)
        several = model.new_bool_var("")
        model.add(sum(touched) <= 1 + len(counts) * several)
        model.add(sum(touched) <= widest)
        cut.append(several)
    for rack, count in enumerate(counts):
        model.add(sum(group[rack] for group in placed) == count)
    model.minimize(1000 * widest + sum(cut))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return solver.value(widest), sum(solver.value(flag) for flag in cut)


GRIDS = ("dp=4,pp=4", "dp=8,pp=4", "dp=4,pp=8", "dp=16,pp=2", "dp=6,pp=4", "dp=3,pp=8", "dp=2,pp=12")


def placed_widths(text: str, seed: int, *, told: bool) -> tuple[int, int]:
    """The racks of the widest pipeline and data-parallel group of a gang on eight racks of eight nodes, half in use."""
    chance = random.Random(f"placed grid {seed}")
    pattern = parse_pattern(text)
    assert pattern is not None
    tree = " ".join(f"r{i}[n{8 * i}..{8 * i + 7}]" for i in range(8))
    busy = " ".join(f"n{i}:gpu=8" for i in chance.sample(range(64), 28))
    number = int(np.prod([size for _, size in pattern.grid]))
    gang = Gang("train", number, "gpu=8", soft=True, marks={PATTERN: text} if told else {})
    outcome = allocate(draw(f"s0[{tree}]", node="gpu=8", running=busy), gang)
    rows = {node: row for row, node in enumerate(outcome.snapshot.nodes.names)}
    stands = np.array([rows[outcome.bindings[f"train-{rank}"]] for rank in range(number)])
    wide = {name: widest for name, widest, _ in spreads(outcome.snapshot.topology, stands, pattern)}
    return wide["pp"], wide["dp"]


@click.command()
@click.option("--seeds", default=300)
@click.option("--first", default=0)
def main(seeds: int, first: int) -> None:
    """Print mean widths of the widest group."""
    rows = []
    for drawn in map(drawn_racks, range(first, first + seeds)):
        topology = drawn.topology
        orders = (drawn.rows, laid_out(topology, drawn.rows, drawn.pattern))
        plain, ours = (spreads(topology, order, drawn.pattern)[1][1:] for order in orders)
        rows.append((plain, ours, narrowest(drawn)))
    means = [np.mean([row[i][0] for row in rows]) for i in range(3)]
    exact = np.mean([ours == best for _, ours, best in rows])
    most = max(plain[0] / ours[0] for plain, ours, _ in rows)
    click.echo(
        f"{len(rows)} grids, racks of the widest group: {means[0]:.2f} in the order of the tree, {means[1]:.2f} laid "
        f"out, {means[2]:.2f} at best; {exact:.1%} exactly the best; up to {most:.2f} times narrower than the order"
    )
    for text in GRIDS:
        sides = [[placed_widths(text, first + seed, told=told) for seed in range(20)] for told in (False, True)]
        before, after = (np.array(side, dtype=float) for side in sides)
        (pp, dp), (own_pp, own_dp) = before.mean(axis=0), after.mean(axis=0)
        narrower, wider = (before[:, 0] / after[:, 0]).max(), int((after[:, 0] > before[:, 0]).sum())
        click.echo(
            f"{text}: racks of the widest pp group {pp:.2f} without the pattern, {own_pp:.2f} with it, at most "
            f"{narrower:.2f} times narrower; wider in {wider} of 20; of dp groups {dp:.2f}, {own_dp:.2f}"
        )


if __name__ == "__main__":
    main()

"""Hypothesis strategies for whole scenes: a cluster and the gangs that want it, as drawings.

A failing scene is printed as the calls of `tests.support.draw` that make it, ready to be pasted into a unit test.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from msgspec.structs import replace
from tests.support.draw import (
    Gang,
    Groups,
    Printer,
    Role,
    World,
    draw,
)

from tierwise.config.profile import DEFAULT, PluginChoice, Profile

__all__ = ["PROFILES", "Scene", "crowds", "node_names", "profile", "proposing", "scenes", "trees"]

MOST_NODES = 12
NODE_KINDS = ("cpu=8 mem=8 gpu=4", "cpu=4 mem=8 gpu=2", "cpu=2 mem=1", "cpu=6 mem=4 gpu=1 pods=3")
ASKS = ("cpu=1", "cpu=2 mem=1", "gpu=1", "cpu=1 gpu=2", "cpu=3", "mem=3")


class Scene(msgspec.Struct, frozen=True):
    """A cluster and its gangs."""

    world: World
    gangs: tuple[Gang, ...]

    def _repr_pretty_(self, printer: Printer, cycle: bool) -> None:
        printer.text("\n".join(["", self.world.drawing, *map(repr, self.gangs)]))


def profile(*plugins: str | PluginChoice, actions: str = "enqueue allocate backfill") -> Profile:
    """A profile with these plugins in one tier."""
    chosen = (p if isinstance(p, PluginChoice) else PluginChoice(p) for p in plugins)
    return Profile(tuple(actions.split()), (tuple(chosen),))


def proposing(**arguments: object) -> Profile:
    """The default profile with `propose`."""
    first, second = DEFAULT.tiers
    return replace(DEFAULT, tiers=(first, (*second, PluginChoice("propose", arguments))))


PROFILES = {
    "default": DEFAULT,
    "proposing": proposing(),
    "proposing-packed": proposing(objective="pack", sortBySize="true"),
    "proposing-kindly": proposing(objective="least-damage"),
    "proposing-greedily": proposing(cells=0),
    "spreading": profile("priority", "gang", "predicates", "nodeorder", "network-topology-aware"),
    "packing": profile("gang", "priority", "predicates", "binpack", "network-topology-aware"),
}


# -- trees


@dataclass
class _Growth:
    """A tree on its way: how many nodes and domains it has."""

    draw: DrawFn
    mixed: bool
    step: int  # between the tiers of parent and child
    nodes: int = 0
    domains: int = 0

    def domain(self, height: int) -> str:
        name = f"d{self.domains}@{height * self.step}" if self.step > 1 else f"d{self.domains}"
        self.domains += 1
        members = [self._member(height) for _ in range(self.draw(st.integers(1, 3)))]
        return f"{name}[{' '.join(members)}]"

    def _member(self, height: int) -> str:
        if height == 1 or self.nodes >= MOST_NODES or (self.mixed and self.draw(st.integers(0, 3)) == 0):
            return self.node()
        return self.domain(height - 1)

    def node(self) -> str:
        self.nodes += 1
        return f"n{self.nodes - 1}"


@st.composite
def trees(draw_: DrawFn, deepest: int = 4) -> str:
    """One to four tiers, perhaps of mixed depth, perhaps with nodes outside every domain."""
    growth = _Growth(draw_, mixed=draw_(st.booleans()), step=draw_(st.sampled_from((1, 1, 1, 2))))
    height = draw_(st.integers(1, deepest))
    tops = [growth.domain(height) for _ in range(draw_(st.integers(1, 3)))]
    outside = [growth.node() for _ in range(draw_(st.sampled_from((0, 0, 1, 2))))]
    return " ".join(tops + outside)


def node_names(tree: str) -> list[str]:
    """The nodes of a generated tree."""
    return [word for word in tree.replace("[", " [ ").replace("]", " ").split() if word.startswith("n")]


# -- scenes


@dataclass
class _Room:
    """What is left of each node while pods are put on it."""

    free: dict[str, dict[str, int]]

    def place(self, node: str, asks: str) -> bool:
        wanted = {"pods": 1} | _amounts(asks)
        if any(self.free[node].get(name, 0) < number for name, number in wanted.items()):
            return False
        for name, number in wanted.items():
            self.free[node][name] -= number
        return True


def _amounts(text: str) -> dict[str, int]:
    return {name: int(number) for name, number in (item.split("=") for item in text.split())}


@st.composite
def scenes(draw_: DrawFn, gangs: int = 4, busy: bool = True, leaving: bool = False) -> Scene:
    """A cluster of several resources with pods on it, and gangs of every kind.

    `busy=False` leaves the cluster empty, `leaving=True` has more pods on it, most of them on their way out.
    """
    tree = draw_(trees())
    names = node_names(tree)
    kinds = draw_(st.lists(st.sampled_from(NODE_KINDS), min_size=1, max_size=3))
    nodes = {name: kinds[i % len(kinds)] for i, name in enumerate(names)}
    room = _Room({name: {"pods": 110} | _amounts(has) for name, has in nodes.items()})
    pods = draw_(st.integers(0, 12 if leaving else 4)) if busy else 0
    running = [draw_(_busy_pod(room, names, ("!", "!", "") if leaving else ("", "", "!"))) for _ in range(pods)]
    world = draw(
        tree,
        nodes=nodes,
        running=" ".join(filter(None, running)),
        cordoned=draw_(st.sampled_from(("", "", "n1"))),
        tier_names={1: "rack", 2: "spine"},
        queues="blue red!",
    )
    made = [draw_(_gang(f"g{i}", room if busy else None, names)) for i in range(draw_(st.integers(1, gangs)))]
    return Scene(world, tuple(made))


@st.composite
def _busy_pod(draw_: DrawFn, room: _Room, names: list[str], marks: tuple[str, ...]) -> str:
    node, asks = draw_(st.sampled_from(names)), draw_(st.sampled_from(ASKS))
    mark = draw_(st.sampled_from(marks))
    return f"{node}{mark}:{asks.replace(' ', ',')}" if room.place(node, asks) else ""


def _within() -> SearchStrategy[int | str | None]:
    return st.sampled_from((None, None, 1, 1, 2, 2, 3, 4, "rack", "spine", "nowhere", ""))


@st.composite
def _gang(draw_: DrawFn, name: str, room: _Room | None, names: list[str]) -> Gang:
    kind = draw_(st.sampled_from(("plain", "plain", "roles", "alike", "unlike", "mixed")))
    each = draw_(st.sampled_from((*ASKS, "")))
    roles: tuple[Role, ...] = ()
    groups: tuple[Groups, ...] = ()
    tasks = draw_(st.integers(1, 6)) if kind in ("plain", "mixed") else 0
    if kind in ("roles", "mixed"):
        roles = tuple(draw_(_role(role)) for role in ("chief", "worker"))
    if kind in ("alike", "unlike"):
        policies = ("part",) if kind == "alike" else ("part", "shard")
        groups = tuple(draw_(_groups(policy, each)) for policy in policies)
    total = _total(tasks, roles, groups)
    on = draw_(_standing(room, names, _asks(each, tasks, roles, groups))) if room is not None else ""
    return Gang(
        name,
        tasks=tasks,
        each=each,
        within=draw_(_within()),
        soft=draw_(st.sampled_from((False, False, False, True))),
        minimum=draw_(st.one_of(st.none(), st.integers(0, total))),
        roles=roles,
        groups=groups,
        on=on,
        priority=draw_(st.sampled_from((0, 0, 10))),
        queue=draw_(st.sampled_from(("", "", "", "blue", "red", "green"))) if room is not None else "",
        created=draw_(st.integers(0, 2)),
        phase=draw_(st.sampled_from(("", "Inqueue"))),
    )


@st.composite
def _role(draw_: DrawFn, name: str) -> Role:
    tasks = draw_(st.integers(1, 3))
    minimum = draw_(st.one_of(st.none(), st.integers(0, tasks)))
    return Role(name, tasks, draw_(st.sampled_from((*ASKS, ""))), minimum)


@st.composite
def _groups(draw_: DrawFn, name: str, each: str) -> Groups:
    count, size = draw_(st.integers(1, 3)), draw_(st.integers(1, 3))
    return Groups(
        count,
        size,
        tasks=size + draw_(st.sampled_from((0, 0, 1, -1))),
        within=draw_(_within()),
        soft=draw_(st.sampled_from((False, False, True))),
        minimum=draw_(st.integers(0, count)),
        each=draw_(st.sampled_from(("", "", *ASKS))) if each else "",
        name=name,
    )


def _total(tasks: int, roles: tuple[Role, ...], groups: tuple[Groups, ...]) -> int:
    return tasks + sum(r.tasks for r in roles) + sum(g.count * (g.tasks or 0) for g in groups)


def _asks(each: str, tasks: int, roles: tuple[Role, ...], groups: tuple[Groups, ...]) -> list[str]:
    """What each pod asks for, in the order in which a gang has them."""
    found = [each] * tasks
    for r in roles:
        found += [r.each] * r.tasks
    for g in groups:
        found += [g.each or each] * (g.count * (g.tasks or 0))
    return found


@st.composite
def _standing(draw_: DrawFn, room: _Room, names: list[str], asks: list[str]) -> str:
    """Where the first pods of a gang stand: mostly nowhere."""
    spots = []
    for asked in asks[: draw_(st.sampled_from((0, 0, 1, 3, len(asks))))]:
        mark = draw_(st.sampled_from(("-", "-", "n", "n", "n!", "~", "+")))
        node = draw_(st.sampled_from(names)) if mark.startswith("n") else ""
        fits = not node or room.place(node, asked)
        spots.append((node + mark[1:] if node else mark) if fits else "-")
    return " ".join(spots)


@st.composite
def crowds(draw_: DrawFn) -> Scene:
    """Many gangs of one pod class on few nodes: what one is refused tells something about the next."""
    tree = draw_(trees(deepest=3))
    nodes = {name: f"cpu={draw_(st.integers(0, 4))}" for name in node_names(tree)}
    gangs = [draw_(_one_of_many(f"g{i}")) for i in range(draw_(st.integers(2, 6)))]
    return Scene(draw(tree, nodes=nodes), tuple(gangs))


@st.composite
def _one_of_many(draw_: DrawFn, name: str) -> Gang:
    limits = st.sampled_from((None, 1, 1, 2, 2, 3))
    within, soft, created = draw_(limits), draw_(st.sampled_from((False, False, True))), draw_(st.integers(0, 5))
    if draw_(st.booleans()):
        return Gang(name, tasks=draw_(st.integers(1, 6)), within=within, soft=soft, created=created)
    count, size = draw_(st.integers(1, 3)), draw_(st.integers(1, 3))
    groups = Groups(count, size, within=draw_(limits), minimum=draw_(st.integers(0, count)))
    minimum = draw_(st.one_of(st.none(), st.integers(1, count * size)))
    gated = draw_(st.sampled_from(("", "", "~")))
    return Gang(name, within=within, soft=soft, minimum=minimum, groups=(groups,), created=created, on=gated)

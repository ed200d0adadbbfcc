"""Small clusters whose domains share amounts, and the plainest answer to "can this gang start?".

`startable` places pod after pod on every node and remembers what it has been through. Charges are counted here pod by
pod from the manifests, so the answer shares nothing with the scheduler.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace
from tests.support.draw import Gang, World, draw, gang, role

from tierwise.api.codec import Raw, part
from tierwise.api.merge_patch import merged
from tierwise.config.profile import DEFAULT, PluginChoice, Profile

__all__ = ["MODEL", "Domain", "Scene", "drawn", "marked", "startable", "with_amounts"]

MODEL: Final = "example.com/model"
_FEED: Final = "example.com/feed"


class Domain(msgspec.Struct, frozen=True):
    """Nodes that share so much; a pod on a node takes its cpus times what its model takes, 1 where none is named."""

    nodes: frozenset[int]
    most: int


class Scene(msgspec.Struct, frozen=True):
    """A cluster and a gang: pods of some sizes, so many of each; all of them are needed, or `minimum` of one size."""

    cpus: tuple[int, ...]
    models: tuple[str, ...]
    racks: tuple[int, ...]  # of each node
    feeds: tuple[str, ...]
    by_rack: tuple[int | None, ...]
    whole: int | None  # of the spine around all racks
    by_feed: int | None
    each: tuple[tuple[str, int], ...]  # what a cpu takes, by model
    standing: tuple[tuple[int, int], ...]  # node, cpus
    kinds: tuple[tuple[int, int], ...]  # cpus of a pod, and how many there are
    minimum: int
    packed: bool  # in one rack

    def domains(self) -> list[Domain]:
        every = range(len(self.cpus))
        found = [
            Domain(frozenset(i for i in every if self.racks[i] == rack), most)
            for rack, most in enumerate(self.by_rack)
            if most is not None
        ]
        if self.whole is not None:
            found.append(Domain(frozenset(every), self.whole))
        if self.by_feed is not None:
            for feed in sorted({*self.feeds}):
                found.append(Domain(frozenset(i for i in every if self.feeds[i] == feed), self.by_feed))
        return found

    def takes(self, node: int, cpus: int) -> int:
        """What a pod of so many cpus takes on a node."""
        return cpus * dict(self.each).get(self.models[node], 1)

    def charges(self) -> list[dict[str, object]]:
        """The same in the words of the annotation."""
        of_models: list[dict[str, object]] = [
            {"resource": "cpu", "each": str(each), "nodes": {MODEL: model}} for model, each in self.each
        ]
        return [*of_models, {"resource": "cpu", "each": 1}]

    def world(self) -> World:
        racks = sorted({*self.racks})
        inner = " ".join(f"r{rack}[{' '.join(self._nodes(rack))}]" for rack in racks)
        has = {f"n{i}": f"cpu={cpus}" for i, cpus in enumerate(self.cpus)}
        running = " ".join(f"n{node}:cpu={cpus}" for node, cpus in self.standing)
        world = draw(f"s[{inner}]", nodes=has, running=running, tier_names={1: "rack", 2: "spine"})
        by_node = {f"n{i}": {MODEL: m, _FEED: f} for i, (m, f) in enumerate(zip(self.models, self.feeds, strict=True))}
        given = {f"r{rack}": most for rack, most in enumerate(self.by_rack) if most is not None}
        if self.whole is not None:
            given["s"] = self.whole
        entries = {name: [{"name": "power", "amount": most, "charges": self.charges()}] for name, most in given.items()}
        return with_amounts(marked(world, by_node), entries)

    def profile(self) -> Profile:
        if self.by_feed is None:
            return DEFAULT
        entry = {"name": "power", "charges": self.charges(), "tiers": {_FEED: str(self.by_feed)}}
        choice = PluginChoice("amounts", {"amounts": [entry]})
        return replace(DEFAULT, tiers=(*DEFAULT.tiers, (choice,)))

    def gang(self) -> Gang:
        within = "rack" if self.packed else None
        if len(self.kinds) == 1:
            cpus, number = self.kinds[0]
            return gang("g", number, f"cpu={cpus}", within=within, minimum=self.minimum)
        roles = tuple(role(f"k{i}", number, f"cpu={cpus}") for i, (cpus, number) in enumerate(self.kinds))
        return gang("g", within=within, roles=roles)

    def _nodes(self, rack: int) -> list[str]:
        return [f"n{i}" for i in range(len(self.cpus)) if self.racks[i] == rack]


def marked(world: World, by_node: dict[str, dict[str, str]]) -> World:
    """A world with labels on its nodes."""
    manifests = []
    for raw in world.manifests:
        labels = by_node.get(_name(raw), {}) if raw["kind"] == "Node" else {}
        manifests.append(merged(raw, {"metadata": {"labels": labels}}) if labels else raw)
    return replace(world, manifests=tuple(manifests))


def _name(raw: Raw) -> str:
    return str(part(raw, "metadata")["name"])


def with_amounts(world: World, entries: dict[str, list[dict[str, object]]]) -> World:
    """A world whose hyperNodes have these amounts."""
    manifests = []
    for raw in world.manifests:
        own = entries.get(_name(raw)) if raw["kind"] == "HyperNode" else None
        marks = {"annotations": {"tierwise.io/amounts": json.dumps(own)}}
        manifests.append(merged(raw, {"metadata": marks}) if own else raw)
    return replace(world, manifests=tuple(manifests))


def startable(scene: Scene, *, cleared: bool = False) -> bool:
    """Whether the pods that a gang needs find places together."""
    standing = () if cleared else scene.standing
    needed = [cpus for cpus, number in scene.kinds for _ in range(number)]
    if len(scene.kinds) == 1:
        needed = needed[: scene.minimum]
    scopes = [[i for i, own in enumerate(scene.racks) if own == rack] for rack in sorted({*scene.racks})]
    places = scopes if scene.packed else [list(range(len(scene.cpus)))]
    return any(_fit(scene, needed, nodes, standing) for nodes in places)


def _fit(scene: Scene, needed: list[int], nodes: Iterable[int], standing: tuple[tuple[int, int], ...]) -> bool:
    domains = scene.domains()
    free = list(scene.cpus)
    left = [domain.most for domain in domains]
    for node, cpus in standing:
        free[node] -= cpus
        for i, domain in enumerate(domains):
            if node in domain.nodes:
                left[i] -= scene.takes(node, cpus)
    return _place(scene, domains, tuple(needed), list(nodes), tuple(free), tuple(left), set())


def _place(
    scene: Scene,
    domains: list[Domain],
    needed: tuple[int, ...],
    nodes: list[int],
    free: tuple[int, ...],
    left: tuple[int, ...],
    dead: set[object],
) -> bool:
    if not needed:
        return True
    key = len(needed), free, left
    if key in dead:
        return False
    cpus = needed[0]
    for node in nodes:
        takes = scene.takes(node, cpus)
        inside = [node in domain.nodes for domain in domains]
        if free[node] < cpus or any(own and takes > have for own, have in zip(inside, left, strict=True)):
            continue
        after = tuple(have - takes if own else have for own, have in zip(inside, left, strict=True))
        rest = tuple(have - cpus if i == node else have for i, have in enumerate(free))
        if _place(scene, domains, needed[1:], nodes, rest, after, dead):
            return True
    dead.add(key)
    return False


def drawn(rng: random.Random, *, kinds: int, packed: bool) -> Scene:
    """A scene with gangs of so many sizes of pods."""
    number = rng.randint(3, 6)
    racks = sorted(rng.randrange(3) for _ in range(number))
    models = tuple(rng.choice(["a", "a", "b", ""]) for _ in range(number))
    cpus = tuple(rng.randint(2, 5) for _ in range(number))
    standing = tuple((node, 1) for node in range(number) if rng.random() < 0.3)
    each = tuple((model, rng.randint(1, 4)) for model in ("a", "b") if rng.random() < 0.6)
    pods = tuple((size, rng.randint(2, 5)) for size in rng.sample([1, 2, 3], kinds))
    total = sum(many for _, many in pods)
    return Scene(
        cpus=cpus,
        models=models,
        racks=tuple(racks),
        feeds=tuple(rng.choice(["x", "y"]) for _ in range(number)),
        by_rack=tuple(rng.choice([None, rng.randint(2, 12)]) for _ in range(3)),
        whole=rng.choice([None, rng.randint(4, 24)]),
        by_feed=rng.choice([None, None, rng.randint(3, 16)]),
        each=each,
        standing=standing,
        kinds=pods,
        minimum=total if kinds > 1 else rng.randint(max(1, total - 1), total),
        packed=packed,
    )

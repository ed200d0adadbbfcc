"""Random worlds for the tests of eviction: racks under spines, queues, and gangs of every kind, running and pending.

They take any `random.Random`; Hypothesis draws its seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

import msgspec
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.depth import seeds
from tests.support.evict_world import (
    Budget,
    Gang,
    Pod,
    Queue,
    Scene,
    profile_of,
    read,
    starves,
)

from tierwise.config.profile import Profile

__all__ = ["CLASSICS", "GANGS", "Case", "Dials", "Floor", "cases", "random_gang", "random_scene", "scenes"]

GANGS = ("gangpreempt", "gangreclaim", "gangpreempt gangreclaim")
CLASSICS = ("preempt", "reclaim", "preempt reclaim", "gangpreempt reclaim")
_KINDS = ("cpu=4", "cpu=4", "cpu=4 gpu=2", "cpu=3 pods=3", "cpu=6 gpu=1")
_ASKS = ("cpu=1", "cpu=1", "cpu=2", "cpu=3", "cpu=1 gpu=1", "cpu=2 gpu=1")
_SHAPES = ("tight", "tight", "surplus", "surplus", "broken", "roles", "elastic", "parts")


class Dials(msgspec.Struct, frozen=True):
    """What random worlds may hold."""

    queues: int = 3
    running: int = 8
    pending: int = 3
    nodes: int = 2  # in a rack, at most
    marks: bool = True  # protected pods and gangs, budgets, pods that never preempt
    plain: bool = False  # gangs that wait have pods of one kind, and no sub-groups
    budgets: float = 0.15  # the share of gangs with a disruption budget, where there are marks
    leaving: bool = True
    reclaims: bool = False  # several queues, of which the first has more than its due
    holds: bool = False  # gangs and queues are held and released on the way
    loose: bool = False  # mostly without hard tiers, and with low minimums: what classic actions can serve


class Floor:
    """What is left of each node while pods are put on it."""

    def __init__(self, nodes: Mapping[str, Counter[str]]) -> None:
        self.free = {name: Counter(has) for name, has in nodes.items()}
        self._cpu = sum(has["cpu"] for has in nodes.values())

    def idle(self) -> float:
        """The share of cpu that is left."""
        return sum(free["cpu"] for free in self.free.values()) / self._cpu

    def put(self, pick: Random, pod: Pod, among: Sequence[str]) -> Pod | None:
        """The pod on a random node with room for it; None where there is none."""
        fitting = [node for node in among if all(self.free[node][r] >= n for r, n in pod.need.items())]
        if not fitting:
            return None
        node = pick.choice(fitting)
        self.free[node].subtract(pod.need)
        return replace(pod, on=node)


def random_scene(pick: Random, dials: Dials = Dials()) -> Scene:  # noqa: B008 - a frozen value
    """A world that is rather full, and gangs that want in."""
    racks = {f"r{i}": () for i in range(pick.randint(2, 4))}
    count = 0
    for rack in racks:
        more = pick.randint(1, dials.nodes)
        racks[rack] = tuple(f"n{count + i}" for i in range(more))  # type: ignore[assignment]
        count += more
    cut = pick.randint(1, len(racks)) if pick.random() < 0.5 else len(racks)
    names = tuple(racks)
    spines = {"s0": names[:cut]} | ({"s1": names[cut:]} if names[cut:] else {})
    kinds = [pick.choice(_KINDS) for _ in range(pick.choice((1, 1, 2)))]
    nodes = {f"n{i}": kinds[i % len(kinds)] for i in range(count)}
    scene = Scene(spines, racks, nodes, _queues(pick, dials, nodes))
    scene = replace(scene, cordoned=("n0",) if dials.marks and pick.random() < 0.08 else ())
    floor = Floor({node: scene.has(node) for node in nodes})
    gangs: list[Gang] = []
    while len(gangs) < dials.running and floor.idle() > pick.choice((0.0, 0.0, 0.2)):
        gangs.append(random_gang(pick, scene, f"run{len(gangs)}", dials, floor))
    gangs += [random_gang(pick, scene, f"new{i}", dials, None) for i in range(pick.randint(1, dials.pending))]
    if pick.random() < 0.3:
        gangs.append(_half(pick, scene, dials, floor))
    gangs = [gang for gang in gangs if gang.pods]
    covered = [gang for gang in gangs if dials.marks and gang.namespace == "default" and pick.random() < dials.budgets]
    budgets = (Budget(gang.name, pick.randint(0, 2), pick.choice(("", gang.pods[0].role))) for gang in covered)
    return replace(scene, gangs=tuple(gangs), budgets=tuple(budgets))


def _queues(pick: Random, dials: Dials, nodes: Mapping[str, str]) -> tuple[Queue, ...]:
    total: Counter[str] = sum((read(has) for has in nodes.values()), Counter())
    made = []
    count = pick.randint(2, dials.queues) if dials.reclaims else pick.choice((1, pick.randint(1, dials.queues)))
    for i in range(count):
        named = [r for r in ("cpu", "gpu") if total[r] and pick.random() < 0.8]
        poor, rich = dials.reclaims and i == 0, dials.reclaims and i == count - 1
        most = {r: total[r] // 3 if poor else total[r] * 2 // 3 for r in named}
        deserved = {r: pick.randint(most[r] // 2 + 1 if rich else 1, max(1, most[r])) for r in named}
        guarantee = {r: pick.randint(1, n) for r, n in deserved.items() if pick.random() < 0.25 and n * 3 <= total[r]}
        capability = {r: pick.randint(n, total[r]) for r, n in deserved.items() if pick.random() < 0.1}
        made.append(
            Queue(
                f"q{i}",
                deserved=_text(deserved),
                guarantee=_text(guarantee),
                capability=_text(capability),
                reclaimable=pick.random() < 0.85,
                open=not dials.marks or pick.random() < 0.95,
                priority=pick.choice((0, 0, 0, 1)),
                weight=pick.choice((1, 1, 2)),
            )
        )
    return tuple(made)


def _text(given: Mapping[str, int]) -> str:
    return " ".join(f"{name}={number}" for name, number in given.items())


def random_gang(pick: Random, scene: Scene, name: str, dials: Dials, floor: Floor | None) -> Gang:
    """A gang of some kind: running where there is a floor to stand on, else pending."""
    kind = pick.choice(_SHAPES) if floor is not None or not dials.plain else pick.choice(("tight", "surplus"))
    kind = "loose" if dials.loose and pick.random() < 0.6 else kind
    priority = pick.choice((0, 0, 0, 1, 2)) if floor is not None else pick.choice((0, 1, 5, 5))
    pods = _pods(pick, name, kind, dials, priority, _fitting(scene))
    if floor is not None:
        pods = [put for pod in pods if (put := floor.put(pick, pod, list(scene.nodes))) is not None]
        if dials.leaving:
            pods = [replace(pod, leaving=True) if pick.random() < 0.06 else pod for pod in pods]
    gang = Gang(
        name,
        tuple(pods),
        len(pods),
        queue=_queue_of(pick, scene, waits=floor is None),
        priority=priority,
        created=pick.randint(0, 9),
        namespace="kube-system" if dials.marks and pick.random() < 0.04 else "default",
        kept=dials.marks and pick.random() < 0.06,
    )
    gang = _shaped(pick, gang, kind)
    return gang if floor is not None else _confined(pick, gang, dials)


def _queue_of(pick: Random, scene: Scene, *, waits: bool) -> str:
    """Those who run are mostly in the first queue, those who wait mostly in the last."""
    names = [queue.name for queue in scene.queues]
    return pick.choice((*names, *names[-1:] * 3) if waits else (*names, *names[:1] * 3))


def _fitting(scene: Scene) -> list[str]:
    """What some node could hold."""
    return [asks for asks in _ASKS if any(read(asks) <= scene.has(node) for node in scene.nodes)]


def _pods(pick: Random, name: str, kind: str, dials: Dials, priority: int, among: Sequence[str]) -> list[Pod]:
    asks, others = pick.choice(among), pick.choice(among)
    count = pick.randint(1, 5)
    never = dials.marks and pick.random() < 0.1
    pods = []
    for i in range(count):
        role = ("chief" if i == 0 else "worker") if kind in ("roles", "elastic") else ""
        marked = dials.marks and pick.random() < 0.06
        pod = Pod(
            f"{name}-{i}",
            others if role == "chief" else asks,
            role=role,
            part=str(i // 2) if kind == "parts" else "",
            priority=priority if pick.random() < 0.8 or dials.plain else pick.choice((0, 3)),
            created=pick.randint(0, 9),
            mark=pick.choice(("kept", "critical")) if marked else "",
            never=never and pick.random() < 0.5,
        )
        pods.append(pod)
    return pods


def _shaped(pick: Random, gang: Gang, kind: str) -> Gang:
    """The gang with the minimums of its kind."""
    count = len(gang.pods)
    if not count or kind == "tight":
        return gang
    if kind in ("surplus", "loose"):
        return replace(gang, minimum=pick.randint(1, count if kind == "surplus" else min(2, count)))
    if kind == "broken":
        return replace(gang, minimum=count + pick.randint(1, 2)) if any(pod.on for pod in gang.pods) else gang
    if kind == "parts":
        parts = len({pod.part for pod in gang.pods})
        inner = pick.choice((None, None, 1, 2)) if not any(pod.on for pod in gang.pods) else None
        size, whole = pick.randint(1, 2), pick.randint(0, parts)
        return replace(gang, minimum=pick.randint(1, count), size=size, whole=whole, inner=inner)
    have = Counter(pod.role for pod in gang.pods)
    roles = {role: pick.randint(0, number) for role, number in sorted(have.items())}
    least = sum(roles.values())
    minimum = (
        pick.randint(min(1, least), max(1, least - 1)) if kind == "elastic" else pick.randint(max(1, least), count)
    )
    return replace(gang, minimum=minimum, roles=roles)


def _confined(pick: Random, gang: Gang, dials: Dials) -> Gang:
    """A waiting gang with a topology: hard, soft or none."""
    within = pick.choice((None, 1, 1, 2)) if not dials.loose else pick.choice((None, None, None, 1))
    soft = within is None and pick.random() < 0.3
    if dials.plain:
        gang = replace(gang, pods=tuple(replace(pod, asks=gang.pods[0].asks) for pod in gang.pods))
    return replace(gang, within=within, soft=soft)


def _half(pick: Random, scene: Scene, dials: Dials, floor: Floor) -> Gang:
    """A gang of which some stand in one rack, and the rest waits."""
    gang = random_gang(pick, scene, "half", dials, None)
    rack = pick.choice(list(scene.racks.values()))
    pods = []
    for i, pod in enumerate(gang.pods):
        put = floor.put(pick, replace(pod, part=""), rack) if i < (len(gang.pods) + 1) // 2 else None
        pods.append(put or replace(pod, part=""))
    return replace(gang, pods=tuple(pods), size=0, whole=0, inner=None)


def scenes(dials: Dials = Dials()) -> st.SearchStrategy[Scene]:  # noqa: B008 - a frozen value
    """Random worlds, each from a seed.

    They do not shrink, and need not: a world is shown whole. A Random that Hypothesis draws from shrinks, and gives
    mostly worlds of the smallest numbers, in which nobody is evicted.
    """
    return seeds().map(lambda pick: random_scene(pick, dials))


Case = tuple[Scene, Profile]


_TRIES = 8


def _starving(pick: Random, dials: Dials, profile: Profile) -> Case:
    """A world in which somebody is evicted; the last of a few where nobody is in any."""
    scene = random_scene(pick, dials)
    for _ in range(_TRIES):
        if starves(scene, profile):
            break
        scene = random_scene(pick, dials)
    return scene, profile


def cases(*evicting: str, dials: Dials = Dials()) -> st.SearchStrategy[Case]:  # noqa: B008 - a frozen value
    """Worlds with a profile that has one of these lists of evicting actions (any where none is named).

    Most of them starve: somebody is evicted.
    """

    def with_world(actions: str) -> st.SearchStrategy[Case]:
        quotas = ("capacity", "proportion") if "reclaim" in actions else ("capacity", "proportion", "")
        suited = replace(dials, reclaims="reclaim" in actions, loose=actions in CLASSICS)
        chosen = st.builds(
            lambda quota, budgets: profile_of(actions, quota=quota, budgets=budgets),
            st.sampled_from(quotas),
            st.booleans(),
        )
        return st.builds(_starving, seeds(), st.just(suited), chosen)

    return st.sampled_from(evicting or (*GANGS, *CLASSICS)).flatmap(with_world)

"""Random clusters of two languages, giant amounts and hostile objects, cycle by cycle, with an auditor that counts.

    python -m tests.fuzz.fuzz_mixed --cycles 20000 --seed 1

A history is one cluster under one profile: gangs come, evicted pods leave and come back. Every cycle is also run on the
same objects in another order, which must give the same bytes, and without the hostile ones, which must make no
difference to others. Prints what went wrong with the seed of its history, and exits with 1 if anything did.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from msgspec.structs import replace
from tests.fuzz.mixed_auditor import Cycle, Promises, audit
from tests.fuzz.mixed_world import World, hostile
from tests.support.evict_world import Step, steps
from tests.support.quotas import koordinator

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.config.profile import PluginChoice, Profile
from tierwise.explain.wire import pending_wire
from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.port import Bind, Create, Effect, Evict, Nominate, Objects, Update, key_of_raw
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import effects
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import build
from tierwise.status.pod_group import statuses

__all__ = ["Total", "fuzz", "history"]

CYCLES = 5
PLACING = ("enqueue", "allocate", "backfill")


@dataclass
class Total:
    """What came of histories."""

    cycles: int = 0
    histories: int = 0
    bound: int = 0
    nominated: int = 0
    evictions: int = 0
    faults: list[str] = field(default_factory=list)


def _profile(pick: Random) -> tuple[Profile, Promises]:
    """A profile of either kind with some evicting actions, in Volcano's format in any order."""
    if pick.random() < 0.3:
        chosen = koordinator(preempts=pick.random() < 0.6, in_quota=pick.random() < 0.8)
        return chosen, Promises(budgets=False, queues=False, placing_first=False, shares=False, firm=True)
    evicting = pick.choice(
        ("", "preempt", "gangpreempt", "preempt reclaim", "gangpreempt gangreclaim", "gangpreempt reclaim")
    )
    quota = pick.choice(("capacity", "proportion") if "reclaim" in evicting else ("", "", "capacity", "proportion"))
    later = ["allocate", "backfill", *evicting.split()]
    if pick.random() < 0.5:
        pick.shuffle(later)
    names = ["priority", "gang", "conformance", "pdb", *([quota] if quota else ["elasticquota"])]
    plugins = [PluginChoice(name) for name in (*names, "predicates", "nodeorder", "network-topology-aware")]
    plugins.insert(1, PluginChoice("coscheduling", {"awareNetworkTopology": True}))
    ordered = later.index("allocate") < later.index("backfill")  # else best-effort pods come first, and take slots
    promises = Promises(budgets=True, queues=True, placing_first=ordered, shares=bool(quota), firm=not quota)
    return Profile(("enqueue", *later), (tuple(plugins),)), promises


def history(seed: int, total: Total) -> None:
    """One history."""
    pick = Random(seed)
    profile, promises = _profile(pick)
    world = World(pick, giants=pick.random() < 0.5)
    raws = [*world.cluster(), *world.crowd(running=pick.randint(1, 6), waiting=pick.randint(1, 4))]
    evil = hostile(pick) if pick.random() < 0.5 else []
    pick.shuffle(raws)
    cluster = EmbeddedCluster(_objects([*raws, *evil]))
    total.histories += 1
    for number in range(CYCLES):
        for fault in _one(pick, cluster, profile, promises, total):
            kind = "by the way" if not evil else "hostile"
            total.faults.append(f"seed {seed} ({', '.join(profile.actions)}, {kind}) cycle {number}: {fault}")
        _between(pick, cluster, world)


def _one(pick: Random, cluster: EmbeddedCluster, profile: Profile, promises: Promises, total: Total) -> list[str]:
    """One cycle, carried out; what is wrong with it."""
    before = _manifests(cluster.read())
    try:
        snapshot, report, asked = _decide(cluster.read(), profile)
    except Exception as error:  # noqa: BLE001 - whatever is raised is a finding, and the next history goes on
        return [f"raised: {type(error).__name__} {error}"]
    told = _told(snapshot, report, asked)
    made = tuple(steps(snapshot, report))
    other, evil = _shuffled(pick, before), [raw for raw in before if raw["metadata"].get("namespace") == "evil"]
    faults = []
    if json.dumps(told, sort_keys=True) != json.dumps(_told(*_decide(_objects(other), profile)), sort_keys=True):
        faults.append("order of objects: another order gives another report")
    if evil and not any(plugin.name == "proportion" for plugin in profile.plugins()):
        rest = _told(*_decide(_objects([raw for raw in before if raw not in evil]), profile))
        faults += [
            f"hostile objects: {kind} {told[kind]} and not {rest[kind]}" for kind in _KINDS if told[kind] != rest[kind]
        ]
    fits: frozenset[str] = frozenset()
    if promises.placing_first:
        placing = cycle(snapshot, replace(profile, actions=PLACING))
        fits = frozenset(path for step in steps(snapshot, placing) if step.bound for path in step.placed)
    _carry_out(cluster, snapshot, report, asked)
    evictions = tuple((e.task.key, e.by.key if e.by else "", e.action) for e in report.evictions)
    after = tuple(_manifests(cluster.read()))
    faults += audit(Cycle(tuple(before), after, made, evictions, tuple(told["pending"]), fits), promises)
    total.cycles += 1
    total.evictions += len(evictions)
    total.bound += len(told["bound"])
    total.nominated += len(told["nominated"])
    return faults


_KINDS = ("bound", "nominated", "evicted")


def _decide(objects: Objects, profile: Profile) -> tuple[Snapshot, CycleReport, Sequence[Effect]]:
    snapshot = build(objects, 0.0, profile)
    report = cycle(snapshot, profile)
    return snapshot, report, effects(snapshot, report)


def _told(snapshot: Snapshot, report: CycleReport, asked: Sequence[Effect]) -> dict[str, Any]:
    """What a cycle says and asks for."""
    placed: dict[str, str] = {}
    made: list[Step] = list(steps(snapshot, report))
    for step in made:
        placed |= step.placed
    return {
        "bound": {effect.pod.path: effect.node for effect in asked if isinstance(effect, Bind)},
        "nominated": {effect.pod.path: effect.node for effect in asked if isinstance(effect, Nominate) and effect.node},
        "evicted": [[effect.pod.path, effect.by, effect.action] for effect in asked if isinstance(effect, Evict)],
        "pending": pending_wire(snapshot, report, placed),
        "steps": [[step.gang, step.action, list(step.evicted), step.placed, step.bound] for step in made],
    }


def _shuffled(pick: Random, raws: list[Raw]) -> list[Raw]:
    """The same objects in another order, and so the members of hyperNodes and the layers."""
    other: list[Any] = copy.deepcopy(raws)
    for raw in other:
        for name in ("members", "networkTopologySpec"):
            pick.shuffle(raw.get("spec", {}).get(name, []))
    pick.shuffle(other)
    return other


def _objects(raws: Sequence[Raw]) -> Objects:
    return Objects.of((codec.decode(raw), raw) for raw in raws)


def _manifests(objects: Objects) -> list[Any]:
    return [copy.deepcopy(objects.raw(key)) for key in objects]


def _carry_out(cluster: EmbeddedCluster, snapshot: Snapshot, report: CycleReport, asked: Sequence[Effect]) -> None:
    """Apply what was asked; evicted pods are on their way out."""
    carried: list[Effect] = []
    for effect in asked:
        if isinstance(effect, Evict):
            raw: Any = copy.deepcopy(cluster.read().raw(effect.pod))
            raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:02:00Z"
            carried.append(Update(effect.pod, raw))
        else:
            carried.append(effect)
    cluster.apply(carried)
    cluster.apply(statuses(cluster.read(), snapshot, report))


def _between(pick: Random, cluster: EmbeddedCluster, world: World) -> None:
    """Pods that leave are gone or linger, some come back, one is lost, and others arrive."""
    for raw in _manifests(cluster.read()):
        leaves = raw["kind"] == "Pod" and "deletionTimestamp" in raw["metadata"]
        lost = raw["kind"] == "Pod" and "nodeName" in raw["spec"] and pick.random() < 0.05
        if (leaves and pick.random() < 0.7) or lost:
            cluster.remove([key_of_raw(raw)])
            if pick.random() < 0.6:
                raw["metadata"].pop("deletionTimestamp", None)
                raw["spec"].pop("nodeName", None)
                cluster.apply([Create(raw | {"status": {"phase": "Pending"}})])
        elif raw["kind"] == "Pod" and "nodeName" in raw["spec"] and not leaves:
            cluster.apply([Update(key_of_raw(raw), raw | {"status": {"phase": "Running"}})])
    if pick.random() < 0.6:
        cluster.apply([Create(raw) for raw in world.gang(runs=False)])


def fuzz(cycles: int, seed: int, *, shown: int = 0) -> Total:
    """Histories from a seed on until there are so many cycles; faults are printed as they come where `shown`."""
    total, told = Total(), 0
    while total.cycles < cycles:
        history(seed, total)
        seed += 1
        if shown and len(total.faults) > told:
            print("\n".join(total.faults[told:][:shown]), flush=True)
        told = len(total.faults)
    return total


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    started = time.monotonic()
    total = fuzz(given.cycles, given.seed, shown=5)
    kinds = Counter(fault.split(": ")[1] for fault in total.faults)
    print(
        f"{total.cycles} cycles in {total.histories} histories, {total.evictions} evictions, {total.bound} pods bound, "
        f"{total.nominated} nominated, {len(total.faults)} faults {dict(kinds)}, {time.monotonic() - started:.0f} s"
    )
    return 1 if total.faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""What a stranger's manifests cost a cycle: jobs are drawn, and changed until they take the most steps for their bytes.

    python -m tests.properties.cost                      a minute of it
    python -m tests.properties.cost --minutes 60         longer, which says what it found as it goes
    python -m tests.properties.cost --seed 7 --evicts    under a profile that evicts
    python -m tests.properties.cost --write FILE         leaves the dearest manifests in a file

Steps say how much of the account a job takes, and calls of functions whether steps say the truth: both are counted, so
the same seed finds the same.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from types import FrameType
from typing import cast

import msgspec
from msgspec.structs import replace
from tests.support.draw import Gang, draw

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT, Profile
from tierwise.config.searches import CYCLE_STEPS
from tierwise.framework.steps import CUT_SHORT, NOT_LOOKED_AT
from tierwise.model.job import namespace_of
from tierwise.port import Objects
from tierwise.sim.cluster.rounds import Rounds

__all__ = ["Cost", "Task", "Trick", "climb", "cost", "grown", "manifests", "measured", "profile"]

BYTES = 100_000
"""What a stranger may write."""

PODS = 3000
"""More pods are not made of it, so that it ends today."""

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
RACKS = [f"r{s}{r}[{' '.join(f'n{s}{r}{i}' for i in range(5))}]" for s in range(4) for r in range(5)]


class Task(msgspec.Struct, frozen=True):
    """One task of a job: so many alike pods, in parts of one size where there are parts."""

    pods: int
    cpu: int  # in thousandths
    gpus: int = 0
    parts: int = 0
    apart: str = ""  # no two of them on nodes with the same value of this label
    beside: str = ""  # all pods of the job where this label has one value
    even: str = ""  # spread over the values of this label
    near: str = ""  # each beside a pod of the next task, where this label has one value
    off: str = ""  # none beside a pod of the next task, where this label has one value
    level: str = ""  # spread over the values of this label, with the pods of all tasks counted
    wishes: int = 0  # preferred rules about other pods


class Trick(msgspec.Struct, frozen=True):
    """A job, as often as it is written."""

    tasks: tuple[Task, ...]
    tier: int = 0  # hard limit; 0 for none
    minimum: bool = True  # all its pods, else one
    copies: int = 1


class Cost(msgspec.Struct, frozen=True):
    """What came of it."""

    steps: int  # the most of a cycle
    calls: int  # of functions, in that cycle
    objects: int  # that the cycle saw
    written: int  # bytes
    decided: bool  # the honest gang was placed in its first cycle, or has no place beside older jobs

    @property
    def dearness(self) -> float:
        """Steps for each byte."""
        return self.steps / self.written


def _world() -> tuple[Raw, ...]:
    """100 nodes in racks and spines, each spine a zone; every other one has pods of little importance."""
    spines = " ".join(f"s{s}[{' '.join(RACKS[5 * s : 5 * s + 5])}]" for s in range(4))
    found = []
    for one in draw(spines, node="gpu=8 cpu=64 mem=512").manifests:
        if one["kind"] == "Node":
            metadata = one["metadata"]
            assert isinstance(metadata, dict)
            name, labels = str(metadata["name"]), metadata["labels"]
            assert isinstance(labels, dict)
            one = {**one, "metadata": {**metadata, "labels": {**labels, ZONE: name[1]}}}
        found.append(one)
    for i in range(0, 100, 2):
        low = Gang(f"low-{i}", tasks=1, each="gpu=2 cpu=8", on=f"n{i // 25}{i // 5 % 5}{i % 5}", priority=-5)
        found += low.manifests()
    return tuple(found)


WORLD = _world()
NOW = 1_767_229_200.0


def _job(name: str, own: str, trick: Trick) -> Raw:
    """The manifest of a job."""
    tasks = []
    for number, task in enumerate(trick.tasks):
        asked = {"cpu": f"{task.cpu}m"} | ({"nvidia.com/gpu": str(task.gpus)} if task.gpus else {})
        container = {"name": "c", "image": "x", "resources": {"requests": asked}}
        following = f"t{(number + 1) % len(trick.tasks)}"
        spec: Raw = {"containers": [container], **_rules(name, f"t{number}", following, task)}
        one: Raw = {"name": f"t{number}", "replicas": task.pods, "template": {"spec": spec}}
        if task.parts:
            size = max(task.pods // task.parts, 1)
            limit = {"mode": "hard", "highestTierAllowed": 1}
            one["partitionPolicy"] = {"totalPartitions": task.parts, "partitionSize": size, "networkTopology": limit}
            one["replicas"] = size * task.parts
        tasks.append(one)
    pods = sum(int(str(one["replicas"])) for one in tasks)
    spec = {"schedulerName": "volcano", "minAvailable": pods if trick.minimum else 1, "tasks": tasks}
    if trick.tier:
        spec["networkTopology"] = {"mode": "hard", "highestTierAllowed": trick.tier}
    metadata: Raw = {"name": name, "namespace": own, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": spec}


def _rules(job: str, name: str, following: str, task: Task) -> Raw:
    """The rules between pods of a task, and of it with the next one."""
    whole, mine = {"volcano.sh/job-name": job}, {"volcano.sh/job-name": job, "volcano.sh/task-spec": name}
    theirs = {**mine, "volcano.sh/task-spec": following}
    must, rather = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
    affinity: dict[str, object] = {}
    for kind, rules in (
        ("podAntiAffinity", ((task.apart, mine), (task.off, theirs))),
        ("podAffinity", ((task.beside, whole), (task.near, theirs))),
    ):
        terms = [{"labelSelector": {"matchLabels": about}, "topologyKey": key} for key, about in rules if key]
        if terms:
            affinity[kind] = {must: terms}
    if task.wishes:
        about = [{"matchExpressions": [{"key": f"k{i}", "operator": "DoesNotExist"}]} for i in range(task.wishes)]
        wished = [
            {"weight": 1 + i % 100, "podAffinityTerm": {"labelSelector": one, "topologyKey": HOST}}
            for i, one in enumerate(about)
        ]
        affinity["podAffinity"] = {**cast(Raw, affinity.get("podAffinity", {})), rather: wished}
    found: Raw = {"affinity": affinity} if affinity else {}
    hard = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    spreads = [
        {**hard, "topologyKey": key, "labelSelector": {"matchLabels": about}}
        for key, about in ((task.even, mine), (task.level, whole))
        if key
    ]
    return found | ({"topologySpreadConstraints": spreads} if spreads else {})


_HONEST = _job("honest", "own", Trick((Task(8, 1000, 8),), tier=1))


def manifests(trick: Trick) -> list[Raw]:
    """What the stranger writes."""
    return [_job(f"j{i}", "stranger", trick) for i in range(trick.copies)]


def profile(steps: int, *, evicts: bool) -> Profile:
    """The default one, or one that evicts, in which a cycle takes so many steps at most."""
    actions = ("enqueue", "allocate", "gangpreempt", "backfill") if evicts else DEFAULT.actions
    return replace(DEFAULT, actions=actions, action_arguments={"allocate": {"cycleSteps": steps}})


def cost(trick: Trick, under: Profile, *, cycles: int = 3, count: bool = False) -> Cost:
    """What the first cycles take beside a stranger's jobs that are older than the honest gang."""
    return measured(manifests(trick), under, cycles=cycles, count=count)


def measured(written: Sequence[Raw], under: Profile, *, cycles: int = 3, count: bool = False) -> Cost:
    """As `cost`, of any manifests."""
    mine: Raw = {**_HONEST, "metadata": {**_meta(_HONEST), "creationTimestamp": "2026-01-01T01:00:00Z"}}
    every = (*WORLD, *written, mine)
    rounds = Rounds(Objects.of((codec.decode(one), one) for one in every), under, NOW)
    steps, calls, found, seen = 0, 0, False, False
    for _ in range(cycles):
        with _Calls(count) as counted:
            decided = rounds.decide()
        assert decided is not None
        report = decided.report
        own = [job.key for job in decided.snapshot.waiting if namespace_of(job.key) == "own" and job.tasks]
        if own and not seen:
            seen, refused = True, report.rejections.get(own[0])
            found = refused is None or {NOT_LOOKED_AT, CUT_SHORT}.isdisjoint(refused.codes())
        if report.search_counts.steps >= steps:
            steps, calls = report.search_counts.steps, counted.number
        rounds.carry_out(decided)
    size = sum(len(json.dumps(one, separators=(",", ":"))) for one in written)
    return Cost(steps, calls, len(rounds.cluster.read()), size, found)


def _meta(raw: Raw) -> Raw:
    found = raw["metadata"]
    assert isinstance(found, dict)
    return found


class _Calls:
    """Counts calls of functions, of Python and of C."""

    def __init__(self, on: bool) -> None:
        self._on, self.number = on, 0

    def __enter__(self) -> _Calls:
        if self._on:
            sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._on:
            sys.setprofile(None)

    def _note(self, _frame: FrameType, event: str, _what: object) -> None:
        if event in ("call", "c_call"):
            self.number += 1


# -- drawing


def drawn(pick: Random) -> Trick:
    """Any job."""
    tasks = tuple(_drawn_task(pick) for _ in range(pick.choice((1, 1, 2, 3, 5, 8))))
    return Trick(tasks, pick.choice((0, 1, 1, 2, 2)), pick.random() < 0.8, pick.choice((1, 1, 2, 4)))


def _drawn_task(pick: Random) -> Task:
    pods = pick.choice((1, 3, 7, 18, 40, 99, 101, 130))
    plain = Task(pods, pick.randrange(100, 60_000), pick.choice((0, 0, 1, 2, 3, 5, 8)))
    match pick.randrange(11):
        case 0:
            return replace(plain, apart=pick.choice((HOST, ZONE)))
        case 6 | 7:
            return replace(plain, near=pick.choice((HOST, ZONE)))
        case 8:
            return replace(plain, off=pick.choice((HOST, ZONE)))
        case 9:
            return replace(plain, level=pick.choice((HOST, ZONE)))
        case 1:
            return replace(plain, beside=pick.choice((HOST, ZONE)))
        case 2:
            return replace(plain, even=pick.choice((HOST, ZONE)))
        case 3:
            return replace(plain, wishes=pick.choice((1, 5, 30)))
        case 4 | 5:
            return replace(plain, parts=pick.choice((1, 2, 4, 6)))
        case _:
            return plain


def changed(trick: Trick, pick: Random) -> Trick:
    """The same job with something of it changed."""
    tasks = list(trick.tasks)
    at = pick.randrange(len(tasks))
    match pick.randrange(9):
        case 0:
            tasks.append(_drawn_task(pick))
        case 1 if len(tasks) > 1:
            tasks.pop(at)
        case 2:
            tasks[at] = _drawn_task(pick)
        case 3:
            tasks[at] = replace(tasks[at], pods=max(1, tasks[at].pods + pick.randrange(-9, 10)))
        case 4:
            tasks[at] = replace(tasks[at], cpu=pick.randrange(100, 60_000), gpus=pick.randrange(9))
        case 5:
            other = _drawn_task(pick)
            rules = {name: getattr(other, name) for name in ("apart", "beside", "even", "near", "off", "level")}
            if pick.random() < 0.5:  # beside those that it has
                rules = {name: key for name, key in rules.items() if key}
            tasks[at] = replace(tasks[at], parts=other.parts, **rules)
        case 6:
            tasks = [replace(task, near=tasks[at].near, off=tasks[at].off, level=tasks[at].level) for task in tasks]
        case 7:
            return replace(trick, tier=pick.randrange(3))
        case _:
            return replace(trick, copies=max(1, trick.copies + pick.choice((-1, 1, 2))))
    return replace(trick, tasks=tuple(tasks[:12]))


def grown(trick: Trick) -> Trick:
    """The same job as often as its bytes and its pods allow."""
    size = len(json.dumps(_job("j10", "stranger", trick), separators=(",", ":")))
    pods = sum(task.pods for task in trick.tasks)
    return replace(trick, copies=max(1, min(BYTES // size, PODS // max(pods, 1))))


def climb(
    pick: Random, under: Profile, tries: int, *, told: Callable[[Trick, Cost], None] = lambda *_: None
) -> list[tuple[Trick, Cost]]:
    """The dearest jobs that were found in so many tries, dearest first."""
    best: list[tuple[Trick, Cost]] = []
    for number in range(tries):
        fresh = number < tries // 3 or not best or pick.random() < 0.1
        trick = drawn(pick) if fresh else changed(pick.choice(best)[0], pick)
        if trick.copies * sum(task.pods for task in trick.tasks) > PODS:
            continue
        found = cost(trick, under)
        told(trick, found)
        best = sorted([*best, (trick, found)], key=lambda one: -one[1].dearness)[:5]
    return best


def main(arguments: Sequence[str] | None = None) -> int:
    """Look for so many minutes, and tell what is dearest."""
    parser = argparse.ArgumentParser(description="What a stranger's manifests cost a cycle.")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=CYCLE_STEPS, help="cycleSteps of the profile")
    parser.add_argument("--evicts", action="store_true")
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args(arguments)
    under, ends, seed = profile(asked.steps, evicts=asked.evicts), time.monotonic() + 60 * asked.minutes, asked.seed
    most = 0.0
    while time.monotonic() < ends:
        for trick, found in climb(Random(seed), under, 30):
            whole = cost(grown(trick), under, count=True)
            assert whole.decided, f"the honest gang waits beside {trick}"
            assert whole.steps <= asked.steps, f"{whole.steps} steps of {trick}"
            if found.dearness > most:
                most = found.dearness
                each = whole.calls / max(whole.steps, 1)
                said = f"{1000 * most:.0f} steps per KB, {each:.0f} calls per step"
                print(f"seed {seed}: {said}: {trick}", flush=True)
                if asked.write:
                    texts = (json.dumps(one, separators=(",", ":")) for one in manifests(grown(trick)))
                    asked.write.write_text("\n---\n".join(texts), encoding="utf-8")
        seed += 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

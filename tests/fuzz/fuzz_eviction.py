"""Random histories of evicting schedulers, cycle by cycle, with an auditor that counts.

    python -m tests.fuzz.fuzz_eviction --cycles 100000 --seed 1 --workers 2

A history is a small cluster under one profile: a busy time in which gangs and nodes come and go, then quiet, in which
evictions must come to an end. Prints what went wrong with the seed of its history, and exits with 1 if anything did.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from random import Random

from msgspec.structs import replace
from tests.fuzz.auditor import Rules, audit
from tests.fuzz.stage import Act, Stage
from tests.support.evict_scenes import CLASSICS, GANGS, Dials
from tests.support.evict_world import profile_of

from tierwise.config.profile import Profile

__all__ = ["Verdict", "fuzz", "history"]

BUSY, QUIET = 24, 40
"""Cycles of a history with news, and at most without."""


@dataclass
class Verdict:
    """What came of a history, or of several."""

    cycles: int = 0
    histories: int = 0
    evictions: int = 0
    bound: int = 0
    nominated: int = 0
    faults: list[str] = field(default_factory=list)

    def add(self, other: Verdict) -> None:
        self.cycles += other.cycles
        self.histories += other.histories
        self.evictions += other.evictions
        self.bound += other.bound
        self.nominated += other.nominated
        self.faults += other.faults

    def note(self, act: Act) -> None:
        self.cycles += 1
        self.evictions += len(act.evictions)
        self.bound += sum(len(step.placed) for step in act.steps if step.bound)
        self.nominated += sum(len(step.placed) for step in act.steps if not step.bound)


def history(seed: int) -> Verdict:
    """One history."""
    pick = Random(seed)
    actions = pick.choice((*GANGS, *CLASSICS))
    quota = pick.choice(("capacity", "proportion") if "reclaim" in actions else ("capacity", "proportion", ""))
    reclaims, marks = "reclaim" in actions, pick.random() < 0.4
    holds = Random(f"{seed} holds").random() < 0.3  # by a chance of its own: histories without it stay as they are
    dials = Dials(reclaims=reclaims, loose=actions in CLASSICS, marks=marks, holds=holds, running=6, pending=2)
    profile, rules = profile_of(actions, quota=quota, budgets=True), Rules(quota)
    if pick.random() < 0.5:
        profile, rules = _odd(pick, profile, quota)
        actions = ", ".join(profile.actions)
    usual = rules == Rules(quota)
    stage = Stage(pick, profile, dials)
    verdict = Verdict(histories=1)

    def told(faults: Iterator[str] | list[str]) -> None:
        verdict.faults += [f"seed {seed} ({actions}, {quota or 'no quota'}) cycle {stage.number}: {f}" for f in faults]

    for _ in range(BUSY):
        act = stage.play(quiet=False)
        verdict.note(act)
        told(audit(act, rules))
    calm = []
    for _ in range(QUIET):
        act = stage.play(quiet=True)
        verdict.note(act)
        told(audit(act, rules))
        calm.append(act)
        if len(calm) > 4 and not any(a.steps or a.evictions for a in calm[-4:]):
            break
    told(_restless(calm) if usual else [])  # without their filters two queues may take from each other for ever
    return verdict


def _odd(pick: Random, profile: Profile, quota: str) -> tuple[Profile, Rules]:
    """The same actions in any order, perhaps without those that place, and plugins switched off point by point."""
    later = [name for name in profile.actions if name != "enqueue"]
    pick.shuffle(later)
    dropped = pick.choice(("", "", "allocate", "backfill"))
    actions = ("enqueue", *(name for name in later if name != dropped))
    usual, share = Rules(quota), pick.choice((0.0, 0.2, 0.6, 1.0))
    off: dict[str, set[str]] = {plugin.name: set() for plugin in profile.plugins()}
    left: dict[str, frozenset[str]] = {}
    for point, names in (("Preemptable", usual.preempt), ("Reclaimable", usual.reclaim)):
        out = {name for name in sorted(names) if pick.random() < share}
        for name in out & off.keys():
            off[name].add(point)
        left[point] = frozenset(name for name in names - out if name in off)
    tiers = tuple(tuple(replace(p, off=frozenset(off[p.name])) for p in tier) for tier in profile.tiers)
    rules = Rules(quota, left["Preemptable"], left["Reclaimable"])
    return replace(profile, actions=actions, tiers=tiers), rules if share else usual


def _restless(calm: list[Act]) -> Iterator[str]:
    """Evictions that do not end, and gangs that take from each other in turn."""
    if len(calm) == QUIET and any(act.evictions for act in calm[QUIET // 2 :]):
        yield f"livelock: evictions in each of {sum(bool(act.evictions) for act in calm)} of {QUIET} quiet cycles"
    pairs = Counter((by, act.before.pods()[pod][0].key) for act in calm for pod, by, _ in act.evictions)
    for by, victim in sorted(pairs):
        if by < victim and (victim, by) in pairs:
            yield f"back and forth: {by} and {victim}"


def fuzz(cycles: int, seed: int, workers: int) -> Verdict:
    """Histories from a seed on until there are so many cycles."""
    total = Verdict()
    if workers <= 1:
        while total.cycles < cycles:
            total.add(history(seed))
            seed += 1
        return total
    with ProcessPoolExecutor(workers) as pool:
        running: set[Future[Verdict]] = set()
        while total.cycles < cycles or running:
            while total.cycles < cycles and len(running) < 2 * workers:
                running.add(pool.submit(history, seed))
                seed += 1
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                before = total.cycles
                total.add(future.result())
                if before // 5000 != total.cycles // 5000:
                    print(f"{total.cycles} cycles, {total.evictions} evictions, {len(total.faults)} faults", flush=True)
    return total


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    started = time.monotonic()
    total = fuzz(given.cycles, given.seed, given.workers)
    for fault in total.faults[:50]:
        print(fault)
    kinds = Counter(fault.split(": ")[1] for fault in total.faults)
    print(
        f"{total.cycles} cycles in {total.histories} histories, {total.evictions} evictions, {total.bound} pods bound, "
        f"{total.nominated} nominated, {len(total.faults)} faults {dict(kinds)}, {time.monotonic() - started:.0f} s"
    )
    return 1 if total.faults else 0


if __name__ == "__main__":
    sys.exit(main())

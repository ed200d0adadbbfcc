"""Another scheduler of gangs beside tierwise: both are asked about the same drawn clusters, judged, and compared.

`volcano` and `pod_groups` say who the other one is (`Rival`). Every cluster is drawn from its own seed, so a difference
can be drawn again (`--only SEED`, `--only SEED.CYCLE`). The other scheduler draws lots between equals, so it is run
several times, and both agree where tierwise does what one of these runs does. An auditor that shares no code with
either judges the answers by counting. A difference is excused only where both agree once a known cause is taken away;
any other, and any answer of tierwise that is not sound, is printed and makes the exit status 1. With `--log FILE` what
each cluster showed is written down, and a run that was cut short goes on where it ended.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import go_programs
from counting import Answer, audit
from drawn_gangs import World
from drawn_rules import Raw
from excuses import Cause, Tally, explain
from gang_causes import differing, served

HERE = Path(__file__).resolve().parent
CYCLES = 3
NOW = "2026-01-01T03:00:00Z"


@dataclass(frozen=True)
class Rival:
    """The other scheduler, what is drawn for it, and how it is asked."""

    name: str
    program: Callable[[], Path]
    differences: str  # the file with the reasons of causes
    causes: list[Cause[World, Answer]]
    chances: Mapping[str, float]
    draw: Callable[[int, tuple[str, ...]], World]
    manifests: Callable[[World], list[Raw]]
    config: Callable[[World], str]
    answer: Callable[[World, Raw], Answer]  # one that its program gave
    counted: Callable[[World, Answer], dict[str, int]]  # what else is summed of either answer
    drawn: Callable[[World], Iterable[str]]
    times: int  # how often it is run on each cluster
    steps: int  # questions for finding causes
    lots: int = 0  # how often it is run before a difference is said to have no cause
    advance: Callable[[World, Answer], World] | None = None  # what happens before the next cycle, where there is one
    from_checkout: Callable[[Path], Path] | None = None


@dataclass
class Schedulers:
    """Both schedulers, ready to be asked."""

    rival: Rival
    program: go_programs.Conversation
    folder: Path
    times: int

    def ask(self, world: World, times: int = 0) -> tuple[Answer, Answer, bool]:
        """The nearest of the other's answers, ours, and whether they agree; asked again only where they do not."""
        question = {"config": self.rival.config(world), "objects": self.rival.manifests(world)}
        self.program.send({**question, "times": 1})
        ours = self._ours(question["objects"], self.rival.config(world))
        found = self._answers(world)
        if not found[0].error and differing(world, found[0], ours) and (times or self.times) > 1:
            self.program.send({**question, "times": (times or self.times) - 1})
            found += self._answers(world)
        nearest = min(found, key=lambda one: (bool(one.error), len(differing(world, one, ours))))
        return nearest, ours, not nearest.error and not ours.error and not differing(world, nearest, ours)

    def _answers(self, world: World) -> list[Answer]:
        given = self.program.receive()
        return [
            Answer(error=str(one["error"])) if one.get("error") else self.rival.answer(world, one)
            for one in given.get("answers") or [{"error": given.get("error", "no answer")}]
        ]

    def _ours(self, objects: object, config: str) -> Answer:
        """What tierwise answers, through the command line."""
        from click.testing import CliRunner

        from tierwise.cli.main import cli

        manifest, profile = self.folder / "cluster.json", self.folder / "profile.yaml"
        manifest.write_text(as_list(objects))
        profile.write_text(config)
        words = ["schedule", "-f", str(manifest), "--config", str(profile), "--cycles", "1", "-o", "json", "--now", NOW]
        ran = CliRunner().invoke(cli, words)
        if ran.exit_code not in (0, 1):
            return Answer(error=ran.output)
        said = json.loads(ran.stdout)
        by = {one["pod"]: one["by"].removeprefix("pod ") for one in said["evictions"]}
        return Answer(said["bindings"], said["nominations"], list(by), by=by)


def as_list(objects: object) -> str:
    """Objects as one file of manifests."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=1)


@dataclass
class Run:
    """What clusters showed: sums of both schedulers' answers, what was drawn, and who agreed."""

    rival: Rival
    tally: Tally
    sums: collections.Counter[str] = field(default_factory=collections.Counter)

    def cluster(self, world: World, schedulers: Schedulers, cycles: int, show: Callable[[int], bool]) -> None:
        """Compare some cycles of one cluster; the world goes on from tierwise's answers."""
        for cycle in range(cycles):
            ours = self._cycle(world, schedulers, shown=show(cycle))
            if self.rival.advance is not None:
                world = self.rival.advance(world, ours)

    def _cycle(self, world: World, schedulers: Schedulers, *, shown: bool) -> Answer:
        name, tally = self.rival.name, self.tally
        where = str(world.seed) if self.rival.advance is None else f"{world.seed}.{world.cycle}"
        theirs, ours, agree = schedulers.ask(world)
        self._count(world, theirs, ours)
        if shown:
            print(as_list(self.rival.manifests(world)))
            print(self.rival.config(world), f"\n{name}", theirs, "\ntierwise", ours, file=sys.stderr)
        faults = {fault.promise for fault in audit(world, ours)} | ({"failed"} if ours.error else set())
        for fault in sorted(faults):
            tally.unexplained[f"tierwise: {fault}"].append(where)
        for fault in sorted({fault.promise for fault in audit(world, theirs)}):
            tally.seen[f"an answer of {name} that is not sound: {fault}"].append(where)
        if theirs.error:
            tally.unexplained[f"{name} failed: {theirs.error[:80]}"].append(where)
        elif agree:
            tally.seen["the same"].append(where)
        elif not faults:
            causes = explain(world, (theirs, ours), self.rival.causes, schedulers.ask, steps=self.rival.steps, far=_far)
            if causes is not None:
                tally.excused[causes].append(where)
            elif self.rival.lots > schedulers.times and schedulers.ask(world, self.rival.lots)[2]:
                tally.seen["the same"].append(where)
            else:
                tally.unexplained[_class(name, world, theirs, ours)].append(where)
            if shown:
                print("differs", sorted(differing(world, theirs, ours)), "causes", causes, file=sys.stderr)
        return ours

    def _count(self, world: World, theirs: Answer, ours: Answer) -> None:
        self.sums["cycles"] += 1
        for who, answer in ((self.rival.name, theirs), ("tierwise", ours)):
            own = {"bound": len(answer.bound), **self.rival.counted(world, answer), "victims": len(answer.evicted)}
            for word, number in {**own, "answers not sound": any(True for _ in audit(world, answer))}.items():
                self.sums[f"{who} {word}"] += number
        self.sums.update(f"drawn {feature}" for feature in self.rival.drawn(world))
        self.sums["drawn evictions by tierwise"] += bool(ours.evicted)

    def lines(self, show: int) -> Iterator[str]:
        """The table: sums of both, what was drawn, and the tally."""
        yield f"  {self.sums['cycles']} cycles"
        for word in [key.partition(" ")[2] for key in self.sums if key.startswith("tierwise ")]:
            theirs, ours = self.sums[f"{self.rival.name} {word}"], self.sums[f"tierwise {word}"]
            yield f"  {word:22} {self.rival.name} {theirs:6}   tierwise {ours:6}"
        drawn = sorted((name[6:], count) for name, count in self.sums.items() if name.startswith("drawn "))
        yield f"  cycles with {', '.join(f'{name} {count}' for name, count in drawn)}"
        yield from self.tally.lines(show)

    def wire(self) -> Raw:
        """What clusters showed, as a line of a log holds it."""
        return {"sums": self.sums, **self.tally.wire()}

    def add(self, line: Raw) -> None:
        """Count what a line of a log holds."""
        self.sums.update(line["sums"])
        self.tally.add(line)


def _far(world: World, theirs: Answer, ours: Answer) -> int:
    return len(differing(world, theirs, ours))


def _class(name: str, world: World, theirs: Answer, ours: Answer) -> str:
    """In a word, what differs."""
    gangs = served(world, theirs), served(world, ours)
    if gangs[0] - gangs[1]:
        turned = ", and the other way round" if gangs[1] - gangs[0] else ""
        return f"{name} serves a gang that tierwise does not{turned}"
    if gangs[1] - gangs[0]:
        return f"tierwise serves a gang that {name} does not"
    if len(theirs.evicted) != len(ours.evicted):
        return f"{name if len(theirs.evicted) < len(ours.evicted) else 'tierwise'} evicts fewer"
    return f"{name if len(theirs.bound) > len(ours.bound) else 'tierwise'} binds more pods"


def compare(rival: Rival, about: str | None, given: Sequence[str] | None = None) -> int:
    """Compare, print the table, and say whether anything stays unexplained."""
    parser = argparse.ArgumentParser(description=about)
    if rival.from_checkout is not None:
        parser.add_argument("--source", type=Path, help=f"a checkout of {rival.name} instead of its published module")
    if rival.advance is not None:
        parser.add_argument("--cycles", type=int, default=CYCLES, help="of each cluster, with events between them")
    parser.set_defaults(source=None, cycles=1 if rival.advance is None else CYCLES)
    parser.add_argument("--clusters", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1, help="the first seed; cluster k is drawn from seed + k")
    parser.add_argument("--only", help="draw this one SEED, or SEED.CYCLE, and print its manifests and both answers")
    parser.add_argument("--without", default="", help=f"features not to draw, of {', '.join(rival.chances)}")
    parser.add_argument("--times", type=int, default=rival.times, help=f"how often {rival.name} is run on each")
    parser.add_argument("--log", type=Path, help="write down what each cluster shows, and go on where the file ends")
    parser.add_argument("--show", type=int, default=3, help="seeds shown for each class")
    options = parser.parse_args(given)
    try:
        program = rival.from_checkout(options.source) if rival.from_checkout and options.source else rival.program()
    except go_programs.UnavailableError as reason:
        print(f"skipped the comparison with {rival.name}: {reason}", file=sys.stderr)
        return go_programs.SKIPPED
    reasons = tomllib.loads((HERE / rival.differences).read_text())["differences"]
    told = {cause.name: reasons[cause.name]["reason"] for cause in rival.causes}
    total, done = Run(rival, Tally(told)), dict[int, Raw]()
    if options.log is not None and options.log.exists():
        done = {line["seed"]: line for line in map(json.loads, options.log.read_text().splitlines())}
    only, _, stop = (options.only or "").partition(".")
    seeds = [int(only)] if only else list(range(options.seed, options.seed + options.clusters))
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        schedulers = Schedulers(rival, go_programs.Conversation(program), Path(name), options.times)
        for seed in seeds:
            if seed not in done:
                one = Run(rival, Tally(told))
                world = rival.draw(seed, tuple(filter(None, options.without.split(","))))
                one.cluster(world, schedulers, options.cycles, lambda at: bool(only) and stop in ("", str(at)))
                done[seed] = {"seed": seed, **one.wire()}
                if options.log is not None:
                    with options.log.open("a") as log:
                        log.write(json.dumps(done[seed]) + "\n")
            total.add(done[seed])
        schedulers.program.close()
    print(f"{len(seeds)} clusters, seeds {seeds[0]} to {seeds[-1]}", *total.lines(options.show), sep="\n")
    print(f"  {time.monotonic() - begun:.0f} seconds", file=sys.stderr)
    return 1 if total.tally.unexplained else 0

"""Volcano and tierwise on the same random clusters: what each binds and evicts, audited by counting, and compared.

Every cluster is drawn from its own seed, so a difference can be drawn again (`--only SEED`, `--only SEED.CYCLE`). Both
schedulers run one cycle on the same manifests with the same configuration; then pods start, end and fail, victims go,
new gangs come, and the next cycle is compared. Volcano draws lots between equals, so it is run several times, and both
agree where tierwise does what one of these runs does. An auditor that shares no code with either judges the answers by
counting. A difference is excused only where both agree once a known cause is taken away (`volcano_differences.toml` has
their reasons); any other, and any answer of tierwise that is not sound, is printed and makes the exit status 1.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import drawn_gangs
import go_programs
from counting import Answer, audit, broken
from drawn_gangs import World
from excuses import Tally, explain
from gang_causes import differing, served
from volcano_causes import CAUSES

HERE = Path(__file__).resolve().parent
LOTS = 150
"""How often Volcano is run before a difference is said to have no cause: some of its lots are rare."""
SHOWN = 100
"""After so many clusters a run says how far it is."""
NOW = "2026-01-01T03:00:00Z"


@dataclass
class Schedulers:
    """Both schedulers; Volcano runs so many times, as it draws lots."""

    volcano: go_programs.Conversation
    folder: Path
    times: int

    def ask(self, world: World, times: int = 0) -> tuple[Answer, Answer, bool]:
        """The nearest of Volcano's answers, ours, and whether they agree; asked again only where they do not."""
        times = times or self.times
        objects = drawn_gangs.manifests(world)
        question = {"config": world.config(), "objects": objects}
        self.volcano.send({**question, "times": 1})
        ours = ours_of(objects, world.config(), self.folder)
        nearest = self._nearest(world, ours, self.volcano.receive())
        if not nearest.error and differing(world, nearest, ours) and times > 1:
            self.volcano.send({**question, "times": times - 1})
            again = self._nearest(world, ours, self.volcano.receive())
            nearest = min((nearest, again), key=lambda one: len(differing(world, one, ours)))
        return nearest, ours, not nearest.error and not ours.error and not differing(world, nearest, ours)

    def _nearest(self, world: World, ours: Answer, given: drawn_gangs.Raw) -> Answer:
        found = [
            Answer(a["bound"], a["pipelined"], a["evicted"], a.get("error", "")) for a in given.get("answers", ())
        ] or [Answer(error=str(given.get("error")))]
        return min(found, key=lambda one: (bool(one.error), len(differing(world, one, ours))))


def ours_of(objects: list[drawn_gangs.Raw], config: str, folder: Path) -> Answer:
    """What tierwise answers, through the command line."""
    from click.testing import CliRunner

    from tierwise.cli.main import cli

    manifest, profile = folder / "cluster.json", folder / "profile.yaml"
    manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    profile.write_text(config)
    words = ["schedule", "-f", str(manifest), "--config", str(profile), "--cycles", "1", "-o", "json", "--now", NOW]
    ran = CliRunner().invoke(cli, words)
    if ran.exit_code not in (0, 1):
        return Answer(error=ran.output)
    said = json.loads(ran.stdout)
    return Answer(said["bindings"], said["nominations"], [one["pod"] for one in said["evictions"]])


def main() -> int:
    """Compare, print the table, and say whether anything stays unexplained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, help="a checkout of Volcano instead of its published module")
    parser.add_argument("--clusters", type=int, default=500)
    parser.add_argument("--cycles", type=int, default=3, help="cycles of each cluster, with events between them")
    parser.add_argument("--seed", type=int, default=1, help="the first seed; cluster k is drawn from seed + k")
    parser.add_argument("--only", help="draw this one SEED, or SEED.CYCLE, and print its manifests and both answers")
    parser.add_argument("--without", default="", help=f"features not to draw, of {', '.join(drawn_gangs.CHANCES)}")
    parser.add_argument("--times", type=int, default=4, help="how often Volcano, which draws lots, is run on each")
    parser.add_argument("--show", type=int, default=3, help="seeds shown for each class")
    options = parser.parse_args()
    try:
        program = go_programs.volcano(options.source and options.source.resolve())
    except go_programs.UnavailableError as reason:
        print(f"skipped the comparison with Volcano: {reason}", file=sys.stderr)
        return go_programs.SKIPPED
    reasons = tomllib.loads((HERE / "volcano_differences.toml").read_text())["differences"]
    run = Run(Tally({cause.name: reasons[cause.name]["reason"] for cause in CAUSES}))
    only, _, stop = (options.only or "").partition(".")
    seeds = [int(only)] if only else range(options.seed, options.seed + options.clusters)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        schedulers = Schedulers(go_programs.Conversation(program), Path(name), options.times)
        for number, seed in enumerate(seeds, 1):
            world = drawn_gangs.draw(seed, tuple(filter(None, options.without.split(","))))
            for cycle in range(options.cycles):
                shown = bool(only) and (not stop or cycle == int(stop))
                ours = run.compare(world, schedulers, shown=shown)
                world = drawn_gangs.advance(world, ours.bound, ours.nominated, ours.evicted)
            if number % SHOWN == 0 and number < len(seeds):  # a long run may be cut short
                print(
                    f"so far: seeds {seeds[0]} to {seed}",
                    *run.lines(options.show),
                    sep="\n",
                    file=sys.stderr,
                    flush=True,
                )
        schedulers.volcano.close()
    print(f"{len(seeds)} clusters, seeds {seeds[0]} to {seeds[-1]}", *run.lines(options.show), sep="\n")
    print(f"  {time.monotonic() - begun:.0f} seconds", file=sys.stderr)
    return 1 if run.tally.unexplained else 0


@dataclass
class Run:
    """What a run has seen so far."""

    tally: Tally

    def __post_init__(self) -> None:
        self.sums: collections.Counter[str] = collections.Counter()

    def compare(self, world: World, schedulers: Schedulers, *, shown: bool) -> Answer:
        """Compare one cycle, and give tierwise's answer, from which the world goes on."""
        where = f"{world.seed}.{world.cycle}"
        theirs, ours, agree = schedulers.ask(world)
        self._count(world, theirs, ours)
        if shown:
            print(json.dumps({"apiVersion": "v1", "kind": "List", "items": drawn_gangs.manifests(world)}, indent=1))
            print(world.config(), "\nvolcano ", theirs, "\ntierwise", ours, file=sys.stderr)
        faults = {fault.promise for fault in audit(world, ours)} | ({"failed"} if ours.error else set())
        for fault in sorted(faults):
            self.tally.unexplained[f"tierwise: {fault}"].append(where)
        for fault in sorted({fault.promise for fault in audit(world, theirs)}):
            self.tally.seen[f"an answer of Volcano that is not sound: {fault}"].append(where)
        if theirs.error:
            self.tally.seen[f"Volcano failed: {theirs.error[:60]}"].append(where)
        elif agree:
            self.tally.seen["the same"].append(where)
        elif not faults:
            causes = explain(world, (theirs, ours), CAUSES, schedulers.ask, steps=120, far=_far)
            if causes is None and schedulers.ask(world, LOTS)[2]:
                self.tally.seen["the same"].append(where)
            elif causes is None:
                self.tally.unexplained[_class(world, theirs, ours)].append(where)
            else:
                self.tally.excused[causes].append(where)
            if shown:
                print("differs", sorted(differing(world, theirs, ours)), "causes", causes, file=sys.stderr)
        return ours

    def lines(self, show: int) -> Iterator[str]:
        """The table: sums of both, what was drawn, and the tally."""
        yield f"  {self.sums['cycles']} cycles"
        for word in ("bound", "nominated", "victims", "broken gangs", "answers not sound"):
            yield f"  {word:18} Volcano {self.sums['volcano ' + word]:6}   tierwise {self.sums['tierwise ' + word]:6}"
        drawn = sorted((name[6:], count) for name, count in self.sums.items() if name.startswith("drawn "))
        yield f"  cycles with {', '.join(f'{name} {count}' for name, count in drawn)}"
        yield from self.tally.lines(show)

    def _count(self, world: World, theirs: Answer, ours: Answer) -> None:
        self.sums["cycles"] += 1
        for who, answer in (("volcano", theirs), ("tierwise", ours)):
            self.sums[f"{who} bound"] += len(answer.bound)
            self.sums[f"{who} nominated"] += len(answer.nominated)
            self.sums[f"{who} victims"] += len(answer.evicted)
            self.sums[f"{who} broken gangs"] += len(broken(world, answer))
            self.sums[f"{who} answers not sound"] += any(True for _ in audit(world, answer))
        self.sums.update(f"drawn {feature}" for feature in world.features)
        self.sums.update(f"drawn {action}" for action in world.actions.split(", "))
        half = {
            g for g in world.gangs if 0 < sum(not world.pods[k].node for k in world.members(g)) < len(world.members(g))
        }
        self.sums["drawn gangs of which a part stands"] += bool(half)
        self.sums["drawn evictions by tierwise"] += bool(ours.evicted)


def _far(world: World, theirs: Answer, ours: Answer) -> int:
    return len(differing(world, theirs, ours))


def _class(world: World, theirs: Answer, ours: Answer) -> str:
    """In a word, what differs."""
    gangs = served(world, theirs), served(world, ours)
    if gangs[0] - gangs[1]:
        return "Volcano serves a gang that tierwise does not" + _on_both_sides(gangs)
    if gangs[1] - gangs[0]:
        return "tierwise serves a gang that Volcano does not"
    if len(theirs.evicted) != len(ours.evicted):
        return f"{'Volcano' if len(theirs.evicted) < len(ours.evicted) else 'tierwise'} evicts fewer"
    return f"{'Volcano' if len(theirs.bound) > len(ours.bound) else 'tierwise'} binds more pods"


def _on_both_sides(gangs: tuple[set[str], set[str]]) -> str:
    return ", and the other way round" if gangs[1] - gangs[0] else ""


if __name__ == "__main__":
    sys.exit(main())

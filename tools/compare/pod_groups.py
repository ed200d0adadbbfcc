"""Kubernetes' own pod groups in its scheduler and in tierwise: who is placed, who makes room, and how many go for it.

Every cluster is drawn from its own seed, so a difference can be drawn again (`--only SEED`). The whole scheduler of
Kubernetes runs, with its gates for workloads on, until everybody who waits has had a turn; tierwise runs one cycle on
the same manifests with the same configuration. Kubernetes draws lots between equals, so it is run several times, and
both agree where tierwise does what one of these runs does. An auditor judges the answers by counting. A difference is
excused only where both agree once a known cause is taken away (`pod_groups_differences.toml` has their reasons); any
other, and any answer of tierwise that is not sound, is printed and makes the exit status 1.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import drawn_groups
import go_programs
from counting import Answer, audit
from drawn_gangs import World
from excuses import Tally, explain
from gang_causes import differing, served
from group_causes import CAUSES

HERE = Path(__file__).resolve().parent
NOW = "2026-01-01T03:00:00Z"


@dataclass
class Schedulers:
    """Both schedulers; Kubernetes runs so many times, as it draws lots."""

    kubernetes: go_programs.Conversation
    folder: Path
    times: int

    def ask(self, world: World) -> tuple[Answer, Answer, bool]:
        """The nearest of Kubernetes' answers, ours, and whether they agree; asked again only where they do not."""
        question = {"config": drawn_groups.config(world), "objects": drawn_groups.manifests(world)}
        self.kubernetes.send(question)
        ours = ours_of(world, self.folder)
        nearest = _answer(world, self.kubernetes.receive())
        for _ in range(self.times - 1):
            if nearest.error or not differing(world, nearest, ours):
                break
            self.kubernetes.send(question)
            again = _answer(world, self.kubernetes.receive())
            nearest = min((nearest, again), key=lambda one: (bool(one.error), len(differing(world, one, ours))))
        return nearest, ours, not nearest.error and not ours.error and not differing(world, nearest, ours)


def _answer(world: World, given: drawn_groups.Raw) -> Answer:
    """Kubernetes' answer; a group that it evicts for is nominated, wherever that may be."""
    if given.get("error"):
        return Answer(error=str(given["error"]))
    waiting = {pod.gang: key for key, pod in world.pods.items() if not pod.node and key not in given["bound"]}
    room = {waiting[whom]: "" for whom in sorted(set(given["victims"].values())) if whom in waiting}
    return Answer(given["bound"], room, sorted(given["victims"]), by=given["victims"])


def ours_of(world: World, folder: Path) -> Answer:
    """What tierwise answers, through the command line."""
    from click.testing import CliRunner

    from tierwise.cli.main import cli

    manifest, profile = folder / "cluster.json", folder / "profile.yaml"
    manifest.write_text(as_file(world))
    profile.write_text(drawn_groups.config(world))
    words = ["schedule", "-f", str(manifest), "--config", str(profile), "--cycles", "1", "-o", "json", "--now", NOW]
    ran = CliRunner().invoke(cli, words)
    if ran.exit_code not in (0, 1):
        return Answer(error=ran.output)
    said = json.loads(ran.stdout)
    by = {one["pod"]: one["by"].removeprefix("pod ") for one in said["evictions"]}
    return Answer(said["bindings"], said["nominations"], [one["pod"] for one in said["evictions"]], by=by)


def as_file(world: World) -> str:
    """The world as manifests."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": drawn_groups.manifests(world)}, indent=1)


def main() -> int:
    """Compare, print the table, and say whether anything stays unexplained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1, help="the first seed; cluster k is drawn from seed + k")
    parser.add_argument("--only", type=int, help="draw this one seed, and print its manifests and both answers")
    parser.add_argument("--without", default="", help=f"features not to draw, of {', '.join(drawn_groups.CHANCES)}")
    parser.add_argument("--times", type=int, default=6, help="how often Kubernetes, which draws lots, is run on each")
    parser.add_argument("--show", type=int, default=3, help="seeds shown for each class")
    options = parser.parse_args()
    try:
        program = go_programs.kubernetes("pod-groups", HERE / "pod_groups.go")
    except go_programs.UnavailableError as reason:
        print(f"skipped the comparison with Kubernetes' pod groups: {reason}", file=sys.stderr)
        return go_programs.SKIPPED
    reasons = tomllib.loads((HERE / "pod_groups_differences.toml").read_text())["differences"]
    run = Run(Tally({cause.name: reasons[cause.name]["reason"] for cause in CAUSES}))
    seeds = [options.only] if options.only is not None else range(options.seed, options.seed + options.clusters)
    without = tuple(filter(None, options.without.split(",")))
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        schedulers = Schedulers(go_programs.Conversation(program), Path(name), options.times)
        for seed in seeds:
            run.compare(drawn_groups.draw(seed, without), schedulers, shown=options.only is not None)
        schedulers.kubernetes.close()
    print(f"{len(seeds)} clusters, seeds {seeds[0]} to {seeds[-1]}")
    for word in ("bound", "groups that start", "groups that make room", "victims", "answers not sound"):
        print(f"  {word:22} Kubernetes {run.sums['kubernetes ' + word]:6}   tierwise {run.sums['tierwise ' + word]:6}")
    drawn = sorted((name[6:], count) for name, count in run.sums.items() if name.startswith("drawn "))
    print("  clusters with", ", ".join(f"{name} {count}" for name, count in drawn))
    print(*run.tally.lines(options.show), sep="\n")
    print(f"  {time.monotonic() - begun:.0f} seconds", file=sys.stderr)
    return 1 if run.tally.unexplained else 0


@dataclass
class Run:
    """What a run has seen so far."""

    tally: Tally

    def __post_init__(self) -> None:
        self.sums: collections.Counter[str] = collections.Counter()

    def compare(self, world: World, schedulers: Schedulers, *, shown: bool) -> None:
        """Compare one cluster."""
        where = str(world.seed)
        theirs, ours, agree = schedulers.ask(world)
        self._count(world, theirs, ours)
        if shown:
            print(as_file(world))
            print(drawn_groups.config(world), "\nkubernetes", theirs, "\ntierwise  ", ours, file=sys.stderr)
        faults = {fault.promise for fault in audit(world, ours)} | ({"failed"} if ours.error else set())
        for fault in sorted(faults):
            self.tally.unexplained[f"tierwise: {fault}"].append(where)
        for fault in sorted({fault.promise for fault in audit(world, theirs)}):
            self.tally.seen[f"an answer of Kubernetes that is not sound: {fault}"].append(where)
        if theirs.error:
            self.tally.unexplained[f"Kubernetes failed: {theirs.error[:80]}"].append(where)
        elif agree:
            self.tally.seen["the same"].append(where)
        elif not faults:
            causes = explain(world, (theirs, ours), CAUSES, schedulers.ask, steps=32)
            if causes is None:
                self.tally.unexplained[_class(world, theirs, ours)].append(where)
            else:
                self.tally.excused[causes].append(where)
            if shown:
                print("differs", sorted(differing(world, theirs, ours)), "causes", causes, file=sys.stderr)

    def _count(self, world: World, theirs: Answer, ours: Answer) -> None:
        for who, answer in (("kubernetes", theirs), ("tierwise", ours)):
            gangs = {gang for gang in world.gangs if drawn_groups.group_of(world, gang).kind == "gang"}
            started = {world.pods[key].gang for key in answer.bound} & gangs
            self.sums[f"{who} bound"] += len(answer.bound)
            self.sums[f"{who} groups that start"] += len(started)
            self.sums[f"{who} groups that make room"] += len(served(world, answer) & gangs - started)
            self.sums[f"{who} victims"] += len(answer.evicted)
            self.sums[f"{who} answers not sound"] += any(True for _ in audit(world, answer))
        self.sums.update(f"drawn {feature}" for feature in world.features)


def _class(world: World, theirs: Answer, ours: Answer) -> str:
    """In a word, what differs."""
    gangs = served(world, theirs), served(world, ours)
    if gangs[0] - gangs[1]:
        return "Kubernetes serves somebody whom tierwise does not"
    if gangs[1] - gangs[0]:
        return "tierwise serves somebody whom Kubernetes does not"
    if len(theirs.evicted) != len(ours.evicted):
        return f"{'Kubernetes' if len(theirs.evicted) < len(ours.evicted) else 'tierwise'} evicts fewer"
    return f"{'Kubernetes' if len(theirs.bound) > len(ours.bound) else 'tierwise'} binds more pods"


if __name__ == "__main__":
    sys.exit(main())

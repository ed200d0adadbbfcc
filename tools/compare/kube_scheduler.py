"""Kubernetes' scheduler and tierwise on the same random clusters: which nodes take a pod, and how scores rank them.

Every cluster is drawn from its own seed, so a difference can be drawn again (`--only SEED`). Both get the same
manifests and the same KubeSchedulerConfiguration. What is compared: the nodes that pass every filter now; where these
are the same, each plugin's score on each of them, and what claims are given; with `--preemption`, which node is
nominated and who is evicted. A difference is excused only where both agree once a known cause is taken away
(`kube_scheduler_differences.toml` has their reasons); any other is printed and makes the exit status 1.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import drawn_pods
import go_programs
from drawn_pods import POD
from drawn_rules import Raw
from excuses import Tally, explain
from kube_causes import Question, as_file, causes

HERE = Path(__file__).resolve().parent
NOW = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"  # Kubernetes' plugins ask the clock
SELECTED = "volume.kubernetes.io/selected-node"
SCORES = (
    "ImageLocality",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "PodTopologySpread",
    "TaintToleration",
)
_WEIGHTS = {"InterPodAffinity": 2, "NodeAffinity": 2, "PodTopologySpread": 2, "TaintToleration": 3}


def build() -> Path:
    """The program that runs Kubernetes' plugins; built once for each version and each state of our file."""
    return go_programs.kubernetes("kube_scheduler.go", "api_server.go")


@dataclass
class Schedulers:
    """Both schedulers; Kubernetes draws lots between nodes that preemption finds equal, and is asked several times."""

    plugins: go_programs.Conversation
    folder: Path
    times: int = 4

    def ask(self, case: Question) -> tuple[Raw, Raw, bool]:
        """Both answers, and whether they agree."""
        question = {"config": case.config, "objects": case.objects, "pod": POD}
        question |= {"bind": case.bind, "preempt": case.preempt}
        for attempt in range(self.times if case.preempt else 1):
            self.plugins.send(question)
            if attempt == 0:
                ours = ours_of(case, self.folder)
            theirs = self.plugins.receive()
            if not differences(case, theirs, ours):
                return theirs, ours, True
        return theirs, ours, False

    def fits(self, objects: list[Raw], config: str) -> list[str]:
        """The nodes that Kubernetes gives the last of these objects."""
        meta = objects[-1]["metadata"]
        pod = f"{meta['namespace']}/{meta['name']}"
        self.plugins.send({"config": config, "objects": objects, "pod": pod})
        found: list[str] = self.plugins.receive().get("feasible") or []
        return found


def ours_of(case: Question, folder: Path) -> Raw:
    """What tierwise answers, through the command line."""
    manifest, profile = folder / "cluster.json", folder / "profile.yaml"
    manifest.write_text(as_file(case))
    profile.write_text(case.config)
    files = ["-f", str(manifest), "--config", str(profile), "-o", "json", "--now", NOW]
    found = _run(["explain", *files, "--pod", POD])
    return found | _decided(case) if case.preempt and "error" not in found else found


def _decided(case: Question) -> Raw:
    """The node that tierwise nominates the pod to, and its victims, in one cycle; no controller acts before."""
    from tierwise.api import codec
    from tierwise.api.core import parse_time
    from tierwise.config.kube import read_kube
    from tierwise.port import Objects
    from tierwise.scheduler import cycle
    from tierwise.snapshot.builder import build

    profile = read_kube(json.loads(case.config))
    objects = Objects.of((codec.decode(raw), raw) for raw in case.objects)
    snapshot = build(objects, now=parse_time(NOW), profile=profile)
    report = cycle(snapshot, profile)
    nominated = {
        task.key: snapshot.nodes.names[row]
        for decision in report.decisions
        if not decision.bound
        for placed in decision.placed
        for task, row in zip(placed.tasks, placed.rows, strict=True)
    }
    return {"chosen": nominated.get(POD, ""), "victims": sorted(one.task.key for one in report.evictions)}


def _run(words: list[str]) -> Raw:
    from click.testing import CliRunner

    from tierwise.cli.main import cli

    ran = CliRunner().invoke(cli, words)
    if ran.exit_code not in (0, 1):
        return {"error": ran.output, "nodes": {}}
    found: Raw = json.loads(ran.stdout)
    return found


def writes_of(objects: list[Raw], node: str) -> Raw:
    """What tierwise would write for the claims of the pod on a node, were there no other."""
    from tierwise.api import codec
    from tierwise.api.core import parse_time
    from tierwise.config.profile import DEFAULT
    from tierwise.port import Objects
    from tierwise.scheduler import cycle
    from tierwise.snapshot.builder import build

    volumes = {o["metadata"]["name"]: o for o in objects if o["kind"] == "PersistentVolume"}
    kept = [o for o in objects if o["kind"] != "Node"]
    there = next(o for o in objects if o["kind"] == "Node" and o["metadata"]["name"] == node)
    kept.append({**there, "status": {**there["status"], "conditions": []}})
    snapshot = build(Objects.of((codec.decode(raw), raw) for raw in kept), now=parse_time(NOW))
    report = cycle(snapshot, DEFAULT)
    found: Raw = {}
    for write in report.writes:
        patch: Any = write.patch
        if write.key.kind == "PersistentVolume":
            name = patch["spec"]["claimRef"]["name"]
            found[name] = f"volume of {volumes[write.key.name]['spec']['capacity']['storage']}"
        elif write.key.kind == "PersistentVolumeClaim":
            marks = patch["metadata"]["annotations"]
            if SELECTED in marks:
                found[write.key.name] = f"made for {marks[SELECTED]}"
        elif write.key.kind == "ResourceClaim" and write.status:
            made = "-extended-resources-" in write.key.name
            known = next(
                (o for o in objects if o["kind"] == "ResourceClaim" and o["metadata"]["name"] == write.key.name), {}
            )
            found["extended resources" if made else write.key.name] = _allocated(
                {**known.get("status", {}), **patch["status"]}
            )
    return found


def _allocated(status: Raw) -> str:
    """What a claim was given, in the words of kube_scheduler.go."""
    from tierwise.api.quantity import whole

    lines = [f"reserved for {len(status['reservedFor'])}"]
    given = status.get("allocation") or {"devices": {"results": []}}
    for one in given["devices"]["results"]:
        words = [f"{one['request']} {one['driver']}/{one['pool']}/{one['device']}"]
        words += ["as admin"] if one.get("adminAccess") else []
        for told in one.get("tolerations", ()):
            words.append(f"tolerates {' '.join(told.get(name, '') for name in ('key', 'operator', 'value', 'effect'))}")
        words += [f"once {condition}" for condition in one.get("bindingConditions", ())]
        words += [f"unless {condition}" for condition in one.get("bindingFailureConditions", ())]
        words += ["shared"] if one.get("shareID") else []
        words += [f"{name} {whole(amount)}" for name, amount in one.get("consumedCapacity", {}).items()]
        lines.append(" ".join(words))
    for one in given["devices"].get("config", ()):
        lines.append(f"{one['source']} {','.join(one.get('requests', ()))} of {one['opaque']['driver']}")
    for term in given.get("nodeSelector", {}).get("nodeSelectorTerms", ()):
        wanted = [
            f"{one['key']} {one['operator']} {','.join(one.get('values', ()))}"
            for one in (*term.get("matchFields", ()), *term.get("matchExpressions", ()))
        ]
        lines.append(f"where {' and '.join(sorted(wanted))}")
    return "\n".join(lines)


def differences(case: Question, theirs: Raw, ours: Raw) -> list[str]:
    """The classes of what differs, with the first node that shows it."""
    if theirs.get("error") or ours.get("error"):
        return [f"failed: {str(theirs.get('error') or ours.get('error'))[:200]}"]
    fit = {name for name, node in ours["nodes"].items() if node["now"]}
    wrong = sorted(fit.symmetric_difference(theirs["feasible"]))
    if wrong:
        why = ours["nodes"].get(wrong[0], {"reasons": [str(ours)]})["reasons"]
        refusal = theirs["refused"].get(wrong[0], "it names no such node")
        return [f"filter, tierwise {f'allows, {refusal}' if wrong[0] in fit else 'refuses: ' + '; '.join(why)}"]
    if case.preempt and not fit:
        return _preemption(theirs, ours)
    given = theirs.get("writes", {})
    written = writes_of(case.objects, theirs["node"]) if theirs.get("node") else {}
    if written != given:
        return ["what claims are given"]
    found = []
    for plugin in SCORES:
        told = {node: scores[plugin] for node, scores in theirs["scores"].items() if plugin in scores}
        own = {node: ours["nodes"][node]["scores"].get(plugin, 0) for node in theirs["scores"]}
        weight = _WEIGHTS.get(plugin, 1)
        if any(abs(own[node] - score / weight) > 1e-6 for node, score in told.items()):
            found.append(f"score of {plugin}")
        elif not told and max(own.values(), default=0) - min(own.values(), default=0) > 1e-6:
            # A plugin that has nothing to say of a pod is not run there, and says the same of every node here.
            found.append(f"score of {plugin}, which Kubernetes does not ask")
    return found


def _far(case: Question, theirs: Raw, ours: Raw) -> int:
    """How many nodes fare otherwise, and how much else differs."""
    fit = {name for name, node in ours.get("nodes", {}).items() if node["now"]}
    return len(fit.symmetric_difference(theirs.get("feasible") or ())) + len(differences(case, theirs, ours))


def _preemption(theirs: Raw, ours: Raw) -> list[str]:
    victims, own = sorted(theirs.get("victims") or ()), ours["victims"]
    if theirs.get("chosen", "") == ours["chosen"] and victims == own:
        return []
    if bool(victims) != bool(own):
        return [f"preemption, {'Kubernetes' if victims else 'tierwise'} alone finds victims"]
    return [f"preemption, {'other nodes' if theirs.get('chosen', '') != ours['chosen'] else 'other victims'}"]


def main() -> int:
    """Compare, print the table, and say whether anything stays unexplained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1, help="the first seed; cluster k is drawn from seed + k")
    parser.add_argument("--only", type=int, help="draw this one seed, and print its manifests and both answers")
    parser.add_argument("--volumes", action="store_true", help="draw storage, and pods that use it")
    parser.add_argument("--devices", action="store_true", help="draw devices, and pods that claim them")
    parser.add_argument(
        "--preemption", action="store_true", help="draw full clusters, and compare victims; with the others too"
    )
    parser.add_argument("--without", default="", help=f"features not to draw, of {', '.join(drawn_pods.CHANCES)}")
    parser.add_argument("--show", type=int, default=3, help="seeds shown for each class")
    options = parser.parse_args()
    try:
        program = build()
    except go_programs.UnavailableError as reason:
        print(f"skipped the comparison with kube-scheduler: {reason}", file=sys.stderr)
        return go_programs.SKIPPED
    crowded = functools.partial(drawn_pods.draw_for_preemption, volumes=options.volumes, devices=options.devices)
    drawn = drawn_pods.draw
    for wanted, other in (
        (options.volumes, drawn_pods.draw_with_volumes),
        (options.devices, drawn_pods.draw_with_devices),
        (options.preemption, crowded),
    ):
        drawn = other if wanted else drawn
    seeds = [options.only] if options.only is not None else range(options.seed, options.seed + options.clusters)
    reasons = tomllib.loads((HERE / "kube_scheduler_differences.toml").read_text())["differences"]
    tally = Tally({one["class"]: one["reason"] for one in reasons})
    sums: collections.Counter[str] = collections.Counter()
    without = tuple(filter(None, options.without.split(",")))
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        schedulers = Schedulers(go_programs.Conversation(program, 500), Path(name))
        for seed in seeds:
            case = Question(*drawn(seed, without), bind=options.devices, preempt=options.preemption)
            theirs, ours, agree = schedulers.ask(case)
            if options.only is not None:
                print(as_file(case))
                print(case.config, "\nkubernetes", json.dumps(theirs), file=sys.stderr)
                print("tierwise  ", json.dumps(ours), differences(case, theirs, ours), file=sys.stderr)
            sums["verdicts"] += len(ours["nodes"])
            sums["scored"] += len(theirs.get("feasible") or ())
            sums["preempted"] += bool(theirs.get("victims"))
            if agree:
                tally.seen["the same"].append(str(seed))
                continue
            excuse = explain(case, (theirs, ours), causes(schedulers.fits), schedulers.ask, steps=40, far=_far)
            if excuse is not None:
                tally.excused[excuse].append(str(seed))
                continue
            for found in differences(case, theirs, ours):
                tally.unexplained[found].append(str(seed))
        schedulers.plugins.close()
    print(f"{len(seeds)} clusters, seeds {seeds[0]} to {seeds[-1]}: {sums['verdicts']} verdicts on nodes,", end=" ")
    print(f"{sums['scored']} nodes scored, {sums['preempted']} preemptions")
    print(*tally.lines(options.show), sep="\n")
    print(f"  {time.monotonic() - begun:.0f} seconds", file=sys.stderr)
    return 1 if tally.unexplained else 0


if __name__ == "__main__":
    sys.exit(main())

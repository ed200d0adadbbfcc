"""Volcano and tierwise on the same random clusters: what each binds and evicts, audited by counting, and compared.

Every cluster is drawn from its own seed, so a difference can be drawn again (`--only SEED`). Both schedulers run one
cycle on the same manifests with the same configuration. An auditor of its own judges both answers by counting; it
shares no code with either scheduler. Differences fall into classes; those that are meant stand in
`volcano_differences.toml` with their reasons, and any other is printed and makes the exit status 1.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("TIERWISE_CACHE", Path.home() / ".cache" / "tierwise")) / "compare"

GROUP = "scheduling.k8s.io/group-name"
_TIERS = """
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: {share}
  - name: nodeorder
  - name: network-topology-aware
"""
PROFILES = {
    "allocate": 'actions: "allocate"\ntiers:' + _TIERS.format(share="proportion"),
    "allocate-capacity": 'actions: "enqueue, allocate, backfill"\ntiers:' + _TIERS.format(share="capacity"),
    "preempt": 'actions: "allocate, preempt"\ntiers:' + _TIERS.format(share="proportion"),
    "reclaim": 'actions: "allocate, reclaim"\ntiers:' + _TIERS.format(share="proportion"),
    "reclaim-capacity": 'actions: "allocate, reclaim"\ntiers:' + _TIERS.format(share="capacity"),
    "gangpreempt": 'actions: "allocate, gangpreempt"\ntiers:' + _TIERS.format(share="proportion"),
}


@dataclass
class Cluster:
    """A drawn cluster: what both schedulers are given, and what the auditor counts with."""

    seed: int
    profile: str
    objects: list[dict[str, Any]] = field(default_factory=list)
    nodes: dict[str, dict[str, int]] = field(default_factory=dict)
    domains: dict[str, tuple[int, set[str]]] = field(default_factory=dict)
    gangs: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)


def draw(seed: int) -> Cluster:
    """One cluster of up to sixteen nodes below two or three tiers, with running and waiting gangs in two queues."""
    dice = random.Random(seed)
    cluster = Cluster(seed, dice.choice(sorted(PROFILES)))
    _draw_nodes(cluster, dice)
    for name in ("q0", "q1"):
        spec: dict[str, Any] = {"weight": dice.choice((1, 1, 2)), "reclaimable": True}
        if cluster.profile.endswith("capacity"):
            spec["deserved"] = {"cpu": str(sum(n["cpu"] for n in cluster.nodes.values()) // 2), "memory": "1000Gi"}
        queue = _object("scheduling.volcano.sh/v1beta1", "Queue", name, spec=spec, status={"state": "Open"})
        cluster.objects.append(queue)
    for name, value in (("low", 10), ("high", 1000)):
        cluster.objects.append({**_object("scheduling.k8s.io/v1", "PriorityClass", name), "value": value})
    free = {name: dict(amounts) for name, amounts in cluster.nodes.items()}
    for number in range(dice.randint(0, 6)):
        _draw_running(cluster, dice, f"run{number}", free)
    for number in range(dice.randint(1, 4)):
        _draw_pending(cluster, dice, f"gang{number}")
    return cluster


def _draw_nodes(cluster: Cluster, dice: random.Random) -> None:
    racks = dice.randint(1, 4)
    for rack in range(racks):
        members = []
        for number in range(dice.randint(1, 4)):
            name = f"n{rack}-{number}"
            amounts = {"cpu": dice.choice((4, 8)), "memory": 64, "nvidia.com/gpu": dice.choice((0, 4, 8)), "pods": 110}
            cluster.nodes[name] = amounts
            shown = {**{k: str(v) for k, v in amounts.items()}, "memory": f"{amounts['memory']}Gi"}
            status = {"allocatable": shown, "capacity": shown, "conditions": [{"type": "Ready", "status": "True"}]}
            labels = {"kubernetes.io/hostname": name}
            cluster.objects.append(_object("v1", "Node", name, labels=labels, status=status))
            members.append(name)
        _add_domain(cluster, f"rack{rack}", 1, members, "Node")
    if racks > 1:
        half = [f"rack{i}" for i in range(racks // 2)], [f"rack{i}" for i in range(racks // 2, racks)]
        for number, below in enumerate(half):
            _add_domain(cluster, f"spine{number}", 2, below, "HyperNode")


def _add_domain(cluster: Cluster, name: str, tier: int, members: list[str], kind: str) -> None:
    inside = set(members) if kind == "Node" else set().union(*(cluster.domains[m][1] for m in members))
    cluster.domains[name] = (tier, inside)
    listed = [{"type": kind, "selector": {"exactMatch": {"name": m}}} for m in members]
    cluster.objects.append(
        _object("topology.volcano.sh/v1alpha1", "HyperNode", name, spec={"tier": tier, "members": listed})
    )


def _draw_running(cluster: Cluster, dice: random.Random, name: str, free: dict[str, dict[str, int]]) -> None:
    size = dice.randint(1, 4)
    ask = _draw_ask(dice)
    places = []
    for _ in range(size):
        fitting = [node for node in sorted(free) if all(free[node][r] >= ask[r] for r in ask)]
        if not fitting:
            break
        node = dice.choice(fitting)
        for resource, amount in ask.items():
            free[node][resource] -= amount
        places.append(node)
    if places:
        minimum = dice.randint(1, len(places))
        _add_gang(cluster, dice, name, places=places, minimum=minimum, ask=ask, limit=None)


def _draw_pending(cluster: Cluster, dice: random.Random, name: str) -> None:
    size = dice.randint(1, 6)
    limit = dice.choice((None, None, ("hard", 1), ("hard", 2), ("soft", 1)))
    minimum = size if dice.random() < 0.7 else dice.randint(1, size)
    _add_gang(cluster, dice, name, places=[""] * size, minimum=minimum, ask=_draw_ask(dice), limit=limit)


def _draw_ask(dice: random.Random) -> dict[str, int]:
    ask = {"cpu": dice.randint(1, 4), "memory": dice.randint(1, 16)}
    if dice.random() < 0.4:
        ask["nvidia.com/gpu"] = dice.choice((1, 2, 4))
    return ask


def _add_gang(
    cluster: Cluster,
    dice: random.Random,
    name: str,
    *,
    places: list[str],
    minimum: int,
    ask: dict[str, int],
    limit: tuple[str, int] | None,
) -> None:
    queue, importance = dice.choice(("q0", "q1")), dice.choice(("low", "high"))
    spec: dict[str, Any] = {"minMember": minimum, "queue": queue, "priorityClassName": importance}
    if limit is not None:
        spec["networkTopology"] = {"mode": limit[0], "highestTierAllowed": limit[1]}
    phase = "Running" if places[0] else "Inqueue"
    created = f"2026-01-01T00:{len(cluster.gangs):02d}:00Z"
    group = _object("scheduling.volcano.sh/v1beta1", "PodGroup", name, namespace="ns", spec=spec)
    group["status"] = {"phase": phase}
    group["metadata"]["creationTimestamp"] = created
    cluster.objects.append(group)
    cluster.gangs[f"ns/{name}"] = {
        "minimum": minimum,
        "limit": limit,
        "queue": queue,
        "priority": {"low": 10, "high": 1000}[importance],
    }
    shown = {k: f"{v}Gi" if k == "memory" else str(v) for k, v in ask.items()}
    for number, node in enumerate(places):
        pod = _object("v1", "Pod", f"{name}-{number}", namespace="ns", annotations={GROUP: name})
        pod["metadata"]["creationTimestamp"] = created
        pod["spec"] = {
            "schedulerName": "volcano",
            "priorityClassName": importance,
            "priority": cluster.gangs[f"ns/{name}"]["priority"],
            "containers": [{"name": "main", "image": "x", "resources": {"requests": shown, "limits": shown}}],
        }
        pod["status"] = {"phase": "Running" if node else "Pending"}
        if node:
            pod["spec"]["nodeName"] = node
        cluster.objects.append(pod)
        cluster.pods[f"ns/{name}-{number}"] = {"gang": f"ns/{name}", "ask": {**ask, "pods": 1}, "node": node}


def _object(version: str, kind: str, name: str, **parts: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "uid": f"{kind}-{name}".lower()}
    for key in ("namespace", "labels", "annotations"):
        if key in parts:
            meta[key] = parts.pop(key)
    return {"apiVersion": version, "kind": kind, "metadata": meta, **parts}


@dataclass
class Answer:
    """What one scheduler did in one cycle."""

    bound: dict[str, str]
    nominated: dict[str, str]
    evicted: list[str]
    error: str = ""


def audit(cluster: Cluster, answer: Answer) -> Iterator[str]:
    """Promises that an answer breaks, by counting."""
    used: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    gone = set(answer.evicted)
    members: dict[str, list[str]] = collections.defaultdict(list)
    for key, pod in cluster.pods.items():
        node = answer.bound.get(key) or pod["node"]
        if node:
            used[node].update(pod["ask"])  # an evicted pod holds its place until it is gone
            if key not in gone:
                members[pod["gang"]].append(node)
    for node, amounts in used.items():
        for resource, amount in amounts.items():
            if amount > cluster.nodes[node].get(resource, 0):
                yield f"overcommitted {node}"
                break
    started = {cluster.pods[key]["gang"] for key in answer.bound}
    for key in sorted(started):
        gang = cluster.gangs[key]
        if len(members[key]) < gang["minimum"]:
            yield f"partial gang {key}"
        limit = gang["limit"]
        if limit and limit[0] == "hard":
            domains = [inside for tier, inside in cluster.domains.values() if tier <= limit[1]]
            if not any(set(members[key]) <= inside for inside in domains):
                yield f"hard tier exceeded {key}"
    importance = {key: cluster.gangs[pod["gang"]]["priority"] for key, pod in cluster.pods.items()}
    waiting = [*answer.nominated, *answer.bound]
    if answer.evicted and not answer.nominated and not answer.bound:
        yield "evicted for nobody"
    if answer.evicted and waiting and "preempt" in cluster.profile:
        most = max(importance[key] for key in waiting)
        if any(importance[key] >= most for key in answer.evicted):
            yield "victim of equal or higher priority"


def broken(cluster: Cluster, answer: Answer) -> int:
    """How many running gangs an answer left below their minimum."""
    left: collections.Counter[str] = collections.Counter()
    for key, pod in cluster.pods.items():
        if pod["node"] and key not in answer.evicted:
            left[pod["gang"]] += 1
    hit = {cluster.pods[key]["gang"] for key in answer.evicted}
    return sum(left[key] < cluster.gangs[key]["minimum"] for key in hit)


def classes(cluster: Cluster, theirs: Answer, ours: Answer) -> Iterator[str]:
    """In what ways two sound answers differ; nothing where they came to the same."""
    served = [{cluster.pods[key]["gang"] for key in (*answer.bound, *answer.nominated)} for answer in (theirs, ours)]
    victims = [len(theirs.evicted), len(ours.evicted)]
    if served[0] == served[1] and len(theirs.bound) == len(ours.bound) and victims[0] == victims[1]:
        return
    known = list(_causes(cluster, theirs, ours, served))
    yield from known
    if known:
        return
    if served[0] != served[1]:
        yield (
            "tierwise serves more gangs"
            if len(served[1]) > len(served[0])
            else ("Volcano serves more gangs" if len(served[0]) > len(served[1]) else "other gangs are served")
        )
    elif len(theirs.bound) != len(ours.bound):
        yield "tierwise binds more pods" if len(ours.bound) > len(theirs.bound) else "Volcano binds more pods"
    if victims[0] != victims[1] and served[0] == served[1]:
        yield "tierwise evicts fewer" if victims[1] < victims[0] else "Volcano evicts fewer"


def _causes(cluster: Cluster, theirs: Answer, ours: Answer, served: list[set[str]]) -> Iterator[str]:
    """What is known to make the answers differ, as far as counting shows it."""
    if broken(cluster, theirs) > broken(cluster, ours):
        yield "Volcano breaks running gangs"
    size = collections.Counter(pod["gang"] for pod in cluster.pods.values())
    there = collections.Counter(pod["gang"] for pod in cluster.pods.values() if pod["node"])
    there.update(cluster.pods[key]["gang"] for key in (*theirs.bound, *theirs.nominated))
    if any(there[gang] < cluster.gangs[gang]["minimum"] for gang in served[0]):
        yield "Volcano nominates less than a minimum"
    elastic = {gang for gang in served[1] - served[0] if size[gang] > cluster.gangs[gang]["minimum"]}
    if any(cluster.gangs[gang]["limit"] for gang in elastic):
        yield "Volcano asks for room for the whole of an elastic gang"
    if cluster.profile.startswith("reclaim"):
        lost = [cluster.gangs[gang]["limit"] for gang in served[0] - served[1]]
        if any(limit and limit[0] == "hard" for limit in lost):
            yield "tierwise leaves hard topology to gangreclaim"
        elif len(theirs.evicted) > len(ours.evicted):
            yield "Volcano asks one tier alone about victims"
    if any(ours.bound.get(key, node) != node for key, node in theirs.bound.items()):
        yield "another of equally good nodes was taken before"


def build(source: Path) -> Path:
    """The program that runs Volcano's session; built once for each checkout and each version of our file."""
    text = (HERE / "volcano.go").read_bytes()
    version = subprocess.run(["git", "-C", source, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    mark = hashlib.sha256(text + (version or str(source)).encode()).hexdigest()[:12]
    program = CACHE / f"volcano-{mark}"
    if program.exists():
        return program
    CACHE.mkdir(parents=True, exist_ok=True)
    folder = source / "cmd" / "tierwise-compare"
    folder.mkdir(exist_ok=True)
    try:
        shutil.copyfile(HERE / "volcano.go", folder / "main.go")
        print(f"building Volcano's session in {source} (minutes, the first time)", file=sys.stderr)
        subprocess.run(["nice", "go", "build", "-o", program, "./cmd/tierwise-compare"], cwd=source, check=True)
    finally:
        shutil.rmtree(folder)
    return program


def theirs_of(program: Path, clusters: list[Cluster]) -> list[Answer]:
    """Volcano's answers, from one process for all of these."""
    lines = "".join(json.dumps({"config": PROFILES[c.profile], "objects": c.objects}) + "\n" for c in clusters)
    ran = subprocess.run([program], input=lines, capture_output=True, text=True)
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    if len(answers) != len(clusters):
        raise SystemExit(f"Volcano's session ended after {len(answers)} of {len(clusters)}: {ran.stderr[-2000:]}")
    return [Answer(a["bound"], a["pipelined"], a["evicted"], a.get("error", "")) for a in answers]


def ours_of(cluster: Cluster, folder: Path) -> Answer:
    """What tierwise answers, through the command line."""
    from click.testing import CliRunner

    from tierwise.cli.main import cli

    manifest, config = folder / "cluster.json", folder / "profile.yaml"
    manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster.objects}))
    config.write_text(PROFILES[cluster.profile])
    words = ["schedule", "-f", str(manifest), "--config", str(config), "--cycles", "1", "-o", "json"]
    ran = CliRunner().invoke(cli, words)
    if ran.exit_code not in (0, 1):
        return Answer({}, {}, [], ran.output)
    said = json.loads(ran.stdout)
    return Answer(said["bindings"], said["nominations"], [one["pod"] for one in said["evictions"]])


def main() -> int:
    """Compare, print the table, and say whether anything stays unexplained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True, help="a checkout of Volcano")
    parser.add_argument("--clusters", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1, help="the first seed; cluster k is drawn from seed + k")
    parser.add_argument("--only", type=int, help="draw this one seed, and print its manifests and both answers")
    parser.add_argument("--show", type=int, default=3, help="seeds shown for each class")
    options = parser.parse_args()
    program = build(options.source.resolve())
    seeds = [options.only] if options.only is not None else range(options.seed, options.seed + options.clusters)
    meant = tomllib.loads((HERE / "volcano_differences.toml").read_text())["differences"]
    seen: dict[str, list[int]] = collections.defaultdict(list)
    sums: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as name:
        for begin in range(0, len(seeds), 100):
            clusters = [draw(seed) for seed in seeds[begin : begin + 100]]
            for cluster, theirs in zip(clusters, theirs_of(program, clusters), strict=True):
                ours = ours_of(cluster, Path(name))
                if options.only is not None:
                    print(json.dumps({"config": PROFILES[cluster.profile], "objects": cluster.objects}, indent=1))
                    print("volcano ", theirs, "\ntierwise", ours)
                _count(cluster, theirs, ours, seen, sums)
    print(f"{len(seeds)} clusters, seeds {seeds[0]} to {seeds[-1]}")
    for word in ("bound", "nominated", "victims", "broken gangs", "invalid answers"):
        print(f"  {word:16} Volcano {sums['volcano ' + word]:6}   tierwise {sums['tierwise ' + word]:6}")
    unexplained = 0
    for name, found in sorted(seen.items(), key=lambda entry: -len(entry[1])):
        reason = meant.get(name, {}).get("reason", "" if name == "same" else "NOT EXPLAINED")
        unexplained += len(found) if reason == "NOT EXPLAINED" else 0
        print(f"  {len(found):6}  {name}: {reason}  (seeds {', '.join(map(str, found[: options.show]))})")
    return 1 if unexplained else 0


def _count(
    cluster: Cluster, theirs: Answer, ours: Answer, seen: dict[str, list[int]], sums: collections.Counter[str]
) -> None:
    for who, answer in (("volcano", theirs), ("tierwise", ours)):
        if answer.error:
            seen[f"{who}-failed"].append(cluster.seed)
        faults = {fault.rsplit(" ", 1)[0] if fault[-1].isdigit() else fault for fault in audit(cluster, answer)}
        for fault in sorted(faults):
            seen[f"invalid-by-{who}: {fault}"].append(cluster.seed)
        sums[f"{who} bound"] += len(answer.bound)
        sums[f"{who} nominated"] += len(answer.nominated)
        sums[f"{who} victims"] += len(answer.evicted)
        sums[f"{who} broken gangs"] += broken(cluster, answer)
        sums[f"{who} invalid answers"] += bool(faults)
    found = list(classes(cluster, theirs, ours))
    for name in found or ["same"]:
        seen[name].append(cluster.seed)


if __name__ == "__main__":
    sys.exit(main())

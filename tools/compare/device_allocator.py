"""Kubernetes' structured allocator and tierwise on the same random devices and claims, node by node, claim by claim.

Every cluster is drawn from its own seed, so a difference can be drawn again (`--only SEED`). What is compared: which
nodes can serve the claims of a pod, and which devices each request gets there. Where tierwise counts instead of
matching, its counts must say the same. Differences that are meant are left out of what is drawn, and listed in
docs/reference/kubernetes-support.md.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import drawn_devices
import numpy as np
from drawn_devices import made
from go_programs import HERE, kubernetes

sys.path.insert(0, str(HERE.parents[1]))
from tests.support import selectors

from tierwise.api import codec
from tierwise.api.cel import CompileError, selector
from tierwise.model.devices import Devices
from tierwise.plugins.kubernetes.device_allocation import AllocationFault, DeviceState, Reach, allocate
from tierwise.port import Objects
from tierwise.snapshot.builder import build as build_snapshot

Raw = dict[str, Any]


def build() -> Path:
    """The program around Kubernetes' allocator; built once for each version and each state of our file."""
    return kubernetes("device_allocator.go")


_MOST = 1_000_000
"""What a selector may cost by estimate; beyond it the API server refuses it."""


_STEPS = 1_000_000
"""After how many steps a search is given up; none that is drawn here takes as many."""


def draw(seed: int) -> tuple[list[Raw], list[str]]:
    """Nodes, devices, classes and claims; half of the selectors are drawn by the grammar of `device_selectors`.

    Of these, such as the API server accepts, which is compared there; none uses a list of a device, which the allocator
    does not know unless a gate is on.
    """
    objects, claims = drawn_devices.draw(seed)
    dice = random.Random(f"selectors {seed}")
    for found in _selectors(objects):
        if dice.random() < 0.5:
            found["expression"] = _accepted(dice)
    return objects, claims


def _selectors(part: Any) -> list[Raw]:
    if isinstance(part, list):
        return [found for one in part for found in _selectors(one)]
    if not isinstance(part, dict):
        return []
    own = [part["cel"]] if "cel" in part else []
    return own + [found for one in part.values() for found in _selectors(one)]


def _accepted(dice: random.Random) -> str:
    while True:
        expression, _ = selectors.draw(dice.randrange(10**9))
        lists = any(name in expression for name in ("lanes", "ports"))
        try:
            if not lists and selector(expression).most <= _MOST:
                return expression
        except CompileError:
            continue


def ours_of(objects: list[Raw], claims: list[str]) -> dict[str, Raw]:
    """What tierwise finds: by matching, and where it counts, whether the counts agree."""
    entries = [{"name": f"e{i}", "resourceClaimName": name} for i, name in enumerate(claims)]
    spec = {"schedulerName": "tierwise", "containers": [{"name": "c"}], "resourceClaims": entries}
    pod = made("Pod", "p", spec, version="v1", status={"phase": "Pending"})
    snapshot = build_snapshot(Objects.of([(codec.decode(raw), raw) for raw in [*objects, pod]]), 0.0)
    task = next(task for job in snapshot.jobs for task in job.tasks)
    if task.unready:
        return {name: {"error": task.unready} for name in snapshot.nodes.names}
    devices, ask = snapshot.devices, task.shape.devices
    assert isinstance(devices, Devices)
    assert ask is not None
    reach, state = Reach(devices.table, snapshot.nodes), DeviceState(devices.table)
    asked = task.shape.asked
    room = task.shape.max_tasks(snapshot.nodes.allocatable[np.ix_(asked, np.arange(len(snapshot.nodes)))])
    found: dict[str, Raw] = {}
    for row, name in enumerate(snapshot.nodes.names):
        try:
            chosen = allocate(devices.table, reach, row, [one.plan for one in ask.claims], state, max_steps=_STEPS)
        except AllocationFault as fault:
            found[name] = {"error": str(fault)}
            continue
        if chosen is None:
            found[name] = {}
        else:
            found[name] = {"claims": [[_shown(devices, c.request.name, c.device) for c in one] for one in chosen]}
        if not ask.matched and (chosen is not None) is not bool(room[row] > 0):
            found[name]["counted"] = int(room[row])
        if chosen is not None and not room[row] > 0:
            found[name]["bound"] = int(room[row])
    return found


def _shown(devices: Devices, request: str, number: int) -> str:
    pool = devices.table.pools[int(devices.table.pool[number])]
    return f"{request} {pool.driver}/{pool.name}/{devices.table.devices[number].name}"


def _meant(node: str, theirs: Raw) -> bool:
    """Kubernetes lets a pool with counters that is not complete on one node keep all others from giving all devices."""
    _, mark, pool = theirs.get("error", "").partition("asks for all devices, but resource pool ")
    return bool(mark) and not pool.partition("/")[2].startswith(node)


def main() -> int:
    """Compare, and say what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1, help="the first seed; cluster k is drawn from seed + k")
    parser.add_argument("--only", type=int, help="draw this one seed, and print its manifests and both answers")
    options = parser.parse_args()
    program = build()
    seeds = [options.only] if options.only is not None else range(options.seed, options.seed + options.clusters)
    questions = [draw(seed) for seed in seeds]
    lines = "".join(json.dumps({"objects": o, "claims": c}) + "\n" for o, c in questions)
    ran = subprocess.run([program], input=lines, capture_output=True, text=True)
    answers = [json.loads(line)["nodes"] for line in ran.stdout.splitlines()]
    if len(answers) != len(questions):
        raise SystemExit(f"the allocator ended after {len(answers)} of {len(questions)}: {ran.stderr[-2000:]}")
    verdicts = served = failed = 0
    wrong: list[str] = []
    for seed, (objects, claims), theirs in zip(seeds, questions, answers, strict=True):
        ours = ours_of(objects, claims)
        if options.only is not None:
            print(json.dumps({"objects": objects}, indent=1), "\nkubernetes", theirs, "\ntierwise  ", ours)
        for name, said in theirs.items():
            verdicts += 1
            served += "claims" in said
            failed += "error" in said
            same = said.get("claims") == ours[name].get("claims") and not {"counted", "bound"} & ours[name].keys()
            if not same and not _meant(name, said):
                wrong.append(f"seed {seed}, node {name}: kubernetes {said}, tierwise {ours[name]}")
    counts = f"{served} served, {failed} failed, {len(wrong)} differ"
    print(f"{len(questions)} clusters, {verdicts} verdicts on nodes: {counts}")
    for text in wrong[:10]:
        print(f"  {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

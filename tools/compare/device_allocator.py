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

import numpy as np
from kube_scheduler import HERE, go_module

from tierwise.api import codec
from tierwise.model.devices import Devices
from tierwise.plugins.kubernetes.device_allocation import AllocationFault, DeviceState, Reach, allocate
from tierwise.port import Objects
from tierwise.snapshot.builder import build as build_snapshot

Raw = dict[str, Any]
API = "resource.k8s.io/v1"
DRIVERS = ("gpu.example.com", "nic.example.com")


def draw(seed: int) -> tuple[list[Raw], list[str]]:
    """Nodes with devices, classes, claims that hold some of the devices, and the claims of one pod."""
    dice = random.Random(seed)
    nodes = [f"n{i}" for i in range(dice.randint(1, 3))]
    objects: list[Raw] = []
    for name in nodes:
        labels = {"zone": dice.choice("ab")}
        amounts = {"cpu": "8", "memory": "8Gi", "pods": "110"}
        objects.append(_object("Node", name, {}, version="v1", labels=labels, status={"allocatable": amounts}))
    slices = [one for name in nodes for driver in DRIVERS if dice.random() < 0.7 for one in _pool(dice, name, driver)]
    if dice.random() < 0.3:
        slices += _shared_pool(dice)
    objects += slices
    for driver in DRIVERS:
        objects.append(_object("DeviceClass", driver, {"selectors": [_cel(f'device.driver == "{driver}"')]}))
    objects.append(_object("DeviceClass", "any", {"selectors": [_cel(_CONDITIONS[0])] if dice.random() < 0.3 else []}))
    held = _held(dice, slices)
    wanted = [_claim(dice, f"c{i}") for i in range(dice.choice((1, 1, 1, 2)))]
    return [*objects, *held, *wanted], [claim["metadata"]["name"] for claim in wanted]


def _object(kind: str, name: str, spec: Raw, version: str = API, labels: Raw | None = None, **more: Any) -> Raw:
    meta: Raw = {"name": name, "labels": labels or {}}
    if kind in ("ResourceClaim", "Pod"):
        meta["namespace"] = "default"
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec, **more}


def _cel(expression: str) -> Raw:
    return {"cel": {"expression": expression}}


def _pool(dice: random.Random, name: str, driver: str) -> list[Raw]:
    """The pool of a node: one slice or two, now and then with counters, old slices, or one that is missing."""
    number, partitioned = dice.choice((1, 1, 2)), dice.random() < 0.25
    # Kubernetes takes counters of two drivers for the same where their pools have one name.
    pool = {
        "name": f"{name}-{driver[:3]}",
        "generation": 2,
        "resourceSliceCount": number + partitioned + (dice.random() < 0.1),
    }
    found = []
    for i in range(number):
        devices = [_device(dice, f"d{i}{j}", partitioned=partitioned) for j in range(dice.randint(0, 4))]
        spec = {"driver": driver, "nodeName": name, "pool": pool, "devices": devices}
        found.append(_object("ResourceSlice", f"{name}-{driver}-{i}", spec))
    if partitioned:
        counters = [{"name": "card", "counters": {"memory": {"value": dice.choice(("40Gi", "80Gi"))}}}]
        spec = {"driver": driver, "nodeName": name, "pool": pool, "sharedCounters": counters}
        found.append(_object("ResourceSlice", f"{name}-{driver}-counters", spec))
    if dice.random() < 0.1:
        spec = {
            "driver": driver,
            "nodeName": name,
            "pool": {**pool, "generation": 1},
            "devices": [_device(dice, "old")],
        }
        found.append(_object("ResourceSlice", f"{name}-{driver}-old", spec))
    return found


def _shared_pool(dice: random.Random) -> list[Raw]:
    """A pool that several nodes reach: all, those of a zone, or each device as it says."""
    driver = dice.choice(DRIVERS)
    pool = {"name": "shared", "generation": 1, "resourceSliceCount": 1}
    devices = [_device(dice, f"s{i}") for i in range(dice.randint(1, 3))]
    term = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    how = dice.choice(({"allNodes": True}, {"nodeSelector": term}, {"perDeviceNodeSelection": True}))
    if "perDeviceNodeSelection" in how:
        for device in devices:
            device |= dice.choice(({"allNodes": True}, {"nodeSelector": term}, {"nodeName": "n0"}))
    return [_object("ResourceSlice", "shared", {"driver": driver, "pool": pool, "devices": devices, **how})]


def _device(dice: random.Random, name: str, *, partitioned: bool = False) -> Raw:
    attributes: Raw = {"model": {"string": dice.choice(("a", "b"))}, "numa": {"int": dice.randint(0, 1)}}
    if dice.random() < 0.5:
        attributes["ecc"] = {"bool": dice.random() < 0.5}
    if dice.random() < 0.5:
        attributes["fw"] = {"version": dice.choice(("1.2.3", "1.10.0", "2.0.0-rc.1"))}
    if dice.random() < 0.3:
        attributes["common.example.com/root"] = {"string": dice.choice("xy")}
    device: Raw = {
        "name": name,
        "attributes": attributes,
        "capacity": {"memory": {"value": dice.choice(("40Gi", "80Gi"))}},
    }
    if dice.random() < 0.15:
        effect = dice.choice(("NoSchedule", "NoExecute", "None"))
        device["taints"] = [{"key": dice.choice("kl"), "value": dice.choice(("", "v")), "effect": effect}]
    if partitioned:
        size = dice.choice(("20Gi", "40Gi"))
        device["consumesCounters"] = [{"counterSet": "card", "counters": {"memory": {"value": size}}}]
    elif dice.random() < 0.15:
        device["allowMultipleAllocations"] = True
        policy: Raw = dice.choice(
            (
                {"default": "10Gi"},
                {"default": "10Gi", "validValues": ["10Gi", "20Gi"]},
                {"default": "10Gi", "validRange": {"min": "10Gi", "max": "40Gi", "step": "5Gi"}},
            )
        )
        device["capacity"]["memory"]["requestPolicy"] = policy
    return device


_CONDITIONS = (
    '"model" in device.attributes[device.driver] && device.attributes[device.driver].model == "a"',
    'device.attributes["gpu.example.com"].numa == 0',
    "has(device.attributes[device.driver].ecc) && device.attributes[device.driver].ecc",
    "device.attributes[device.driver].?ecc.orValue(true)",
    'device.capacity[device.driver].memory.compareTo(quantity("50Gi")) > 0',
    'cel.bind(d, device.attributes[device.driver], "fw" in d && d.fw.isGreaterThan(semver("1.9.0")))',
    'device.attributes[device.driver].model.matches("^[ab]$")',
    'device.attributes[device.driver].exists(name, name == "ecc")',
    "!device.allowMultipleAllocations",
    'device.attributes["common.example.com"].root == "x"',
    'device.driver.startsWith("gpu") ? device.attributes[device.driver].numa > 0 : true',
)


def _request(dice: random.Random, *, sub: bool = False) -> Raw:
    found: Raw = {"deviceClassName": dice.choice((*DRIVERS, *DRIVERS, "any")), "allocationMode": "ExactCount"}
    found["count"] = dice.choice((1, 1, 2, 3))
    if dice.random() < 0.15:
        found["allocationMode"] = "All"
        del found["count"]
    if dice.random() < 0.5:
        found["selectors"] = [_cel(dice.choice(_CONDITIONS)) for _ in range(dice.choice((1, 1, 2)))]
    if dice.random() < 0.3:
        toleration: Raw = {"key": dice.choice("kl"), "operator": dice.choice(("Exists", "Equal"))}
        if toleration["operator"] == "Equal":
            toleration["value"] = dice.choice(("", "v"))
        found["tolerations"] = [toleration]
    if dice.random() < 0.2:
        found["capacity"] = {
            "requests": {dice.choice(("memory", "memory", "none")): dice.choice(("5Gi", "20Gi", "60Gi"))}
        }
    if not sub and dice.random() < 0.1:
        found["adminAccess"] = True
    return found


def _claim(dice: random.Random, name: str) -> Raw:
    requests: list[Raw] = []
    for i in range(dice.choice((1, 1, 2))):
        if dice.random() < 0.25:
            options = [{"name": f"o{j}", **_request(dice, sub=True)} for j in range(2)]
            requests.append({"name": f"r{i}", "firstAvailable": options})
        else:
            requests.append({"name": f"r{i}", "exactly": _request(dice)})
    devices: Raw = {"requests": requests}
    if dice.random() < 0.4:
        attribute = dice.choice(("gpu.example.com/numa", "gpu.example.com/model", "common.example.com/root"))
        constraint: Raw = {"matchAttribute": attribute}
        # Kubernetes compares values that must differ only with the last device of each request.
        single = all(r.get("exactly", {}).get("count") == 1 for r in requests)
        if single and len(requests) > 1 and dice.random() < 0.5:
            constraint = {"distinctAttribute": attribute}
        if dice.random() < 0.3:
            constraint["requests"] = ["r0"]
        devices["constraints"] = [constraint]
    return _object("ResourceClaim", name, {"devices": devices})


def _held(dice: random.Random, slices: list[Raw]) -> list[Raw]:
    found = []
    for one in slices:
        spec = one["spec"]
        for device in spec.get("devices", ()):
            if dice.random() > 0.25:
                continue
            result: Raw = {
                "request": "r",
                "driver": spec["driver"],
                "pool": spec["pool"]["name"],
                "device": device["name"],
            }
            if device.get("allowMultipleAllocations"):
                result |= {
                    "shareID": f"00000000-0000-0000-0000-{len(found):012}",
                    "consumedCapacity": {"memory": "20Gi"},
                }
            elif dice.random() < 0.1:
                result["adminAccess"] = True
            status = {"allocation": {"devices": {"results": [result]}}}
            request = {"name": "r", "exactly": {"deviceClassName": "any", "count": 1}}
            found.append(
                _object("ResourceClaim", f"held{len(found)}", {"devices": {"requests": [request]}}, status=status)
            )
    return found


def build() -> Path:
    """The program around Kubernetes' allocator; built once for each version and each state of our file."""
    return go_module("device-allocator", HERE / "device_allocator.go")


def ours_of(objects: list[Raw], claims: list[str]) -> dict[str, Raw]:
    """What tierwise finds: by matching, and where it counts, whether the counts agree."""
    entries = [{"name": f"e{i}", "resourceClaimName": name} for i, name in enumerate(claims)]
    spec = {"schedulerName": "tierwise", "containers": [{"name": "c"}], "resourceClaims": entries}
    pod = _object("Pod", "p", spec, version="v1", status={"phase": "Pending"})
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
            chosen = allocate(devices.table, reach, row, [one.plan for one in ask.claims], state)
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

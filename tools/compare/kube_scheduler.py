"""Kubernetes' scheduler and tierwise on the same random clusters: which nodes take a pod, and how scores rank them.

Every cluster is drawn from its own seed, so a difference can be drawn again (`--only SEED`). Both get the same
manifests and the same KubeSchedulerConfiguration. What is compared: the nodes that pass every filter, and, where these
are the same, each plugin's score on each of them. Differences fall into classes by plugin; those that are meant stand
in `kube_scheduler_differences.toml` with their reasons, and any other is printed and makes the exit status 1.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from drawn_devices import with_devices
from drawn_volumes import with_volumes

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("TIERWISE_CACHE", Path.home() / ".cache" / "tierwise")) / "compare"
VERSION = "1.36.3"
POD = "default/p"
NOW = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"  # Kubernetes' plugins ask the clock

SELECTED = "volume.kubernetes.io/selected-node"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SCORES = (
    "ImageLocality",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "PodTopologySpread",
    "TaintToleration",
)
Raw = dict[str, Any]


def draw(seed: int) -> tuple[list[Raw], str]:
    """One cluster of up to eight nodes with running pods, and a configuration; `POD` is the pod to be placed."""
    dice = random.Random(seed)
    objects = [_namespace(dice, name) for name in ("default", "team-a", "team-b")]
    nodes = [_node(dice, f"n{i}") for i in range(dice.randint(1, 8))]
    objects += nodes
    for i in range(dice.randint(0, 10)):
        objects.append(
            _pod(dice, f"run{i}", dice.choice(("default", "default", "team-a", "team-b")), dice.choice(nodes))
        )
    objects.append(_pod(dice, "p", "default", None))
    return objects, _config(dice)


def draw_with_volumes(seed: int) -> tuple[list[Raw], str]:
    """The same with storage: most pods have volumes, and little else keeps them off nodes."""
    objects, config = _bare(seed)
    return with_volumes(random.Random(f"volumes {seed}"), objects), config


def draw_with_devices(seed: int) -> tuple[list[Raw], str]:
    """The same with devices: most pods have claims, and little else keeps them off nodes."""
    objects, config = _bare(seed)
    return with_devices(random.Random(f"devices {seed}"), objects), config


def _bare(seed: int) -> tuple[list[Raw], str]:
    objects, config = draw(seed)
    for pod in (o for o in objects if o["kind"] == "Pod"):
        for field in ("affinity", "topologySpreadConstraints", "nodeSelector", "hostNetwork"):
            pod["spec"].pop(field, None)
        pod["spec"]["containers"] = [{"name": "c0", "image": "app:v1", "resources": {"requests": {"cpu": "100m"}}}]
        pod["spec"].pop("initContainers", None)
        pod["spec"].pop("resources", None)
    for node in (o for o in objects if o["kind"] == "Node"):
        node["spec"] = {}
        node["status"]["allocatable"]["pods"] = "110"
    return objects, config


def _config(dice: random.Random) -> str:
    arguments: dict[str, Raw] = {}
    if dice.random() < 0.5:
        resources = dice.sample(
            [
                {"name": n, "weight": dice.randint(1, 5)}
                for n in ("cpu", "memory", "nvidia.com/gpu", "ephemeral-storage")
            ],
            dice.randint(1, 3),
        )
        kind = dice.choice(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
        strategy: Raw = {"type": kind, "resources": resources}
        if kind == "RequestedToCapacityRatio":
            places = sorted(dice.sample(range(0, 101, 10), dice.randint(2, 4)))
            shape = [{"utilization": place, "score": dice.randint(0, 10)} for place in places]
            strategy["requestedToCapacityRatio"] = {"shape": shape}
        arguments["NodeResourcesFit"] = {"scoringStrategy": strategy}
        arguments["NodeResourcesBalancedAllocation"] = {"resources": [{**r, "weight": 1} for r in resources]}
    if dice.random() < 0.3:
        arguments["InterPodAffinity"] = {
            "hardPodAffinityWeight": dice.choice((0, 1, 50)),
            "ignorePreferredTermsOfExistingPods": dice.random() < 0.5,
        }
    if dice.random() < 0.2:
        added: Raw = {PREFERRED: [{"weight": dice.randint(1, 9), "preference": _node_term(dice)}]}
        if dice.random() < 0.5:
            added[REQUIRED] = {"nodeSelectorTerms": [_node_term(dice)]}
        arguments["NodeAffinity"] = {"addedAffinity": added}
    profile: Raw = {"schedulerName": "default-scheduler"}
    profile["pluginConfig"] = [{"name": name, "args": args} for name, args in arguments.items()]
    version = "kubescheduler.config.k8s.io/v1"
    return json.dumps({"apiVersion": version, "kind": "KubeSchedulerConfiguration", "profiles": [profile]})


def _namespace(dice: random.Random, name: str) -> Raw:
    labels = {"env": dice.choice(("prod", "test"))} if dice.random() < 0.7 else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _node(dice: random.Random, name: str) -> Raw:
    labels = {HOST: name} if dice.random() < 0.9 else {}
    if dice.random() < 0.8:
        labels[ZONE] = dice.choice(("z0", "z1", "z2"))
    if dice.random() < 0.5:
        labels["disk"] = dice.choice(("ssd", "hdd"))
    if dice.random() < 0.3:
        labels["size"] = str(dice.randint(1, 9))
    amounts = {"cpu": dice.choice(("1", "2", "4", "3500m")), "memory": dice.choice(("2Gi", "8Gi", "7000Mi"))}
    amounts["pods"] = dice.choice(("3", "110"))
    if dice.random() < 0.5:
        amounts["nvidia.com/gpu"] = dice.choice(("1", "4"))
    if dice.random() < 0.5:
        amounts["ephemeral-storage"] = "10Gi"
    spec: Raw = {}
    if dice.random() < 0.3:
        spec["taints"] = [_taint(dice) for _ in range(dice.randint(1, 2))]
    if dice.random() < 0.1:
        spec["unschedulable"] = True
    images = [
        {"names": [image], "sizeBytes": size * 2**20}
        for image, size in (("app:v1", 700), ("db:latest", 300), ("reg.io:5000/x:v2", 90))
        if dice.random() < 0.4
    ]
    ready = dice.choice(("True", "True", "True", "False"))
    status = {"allocatable": amounts, "capacity": amounts, "images": images}
    status["conditions"] = [{"type": "Ready", "status": ready}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": status,
    }


def _taint(dice: random.Random) -> Raw:
    effect = dice.choice(("NoSchedule", "PreferNoSchedule", "PreferNoSchedule", "NoExecute"))
    return {"key": dice.choice(("a", "b")), "value": dice.choice(("", "x")), "effect": effect}


def _pod(dice: random.Random, name: str, namespace: str, node: Raw | None) -> Raw:
    containers = [_container(dice, f"c{i}") for i in range(dice.choice((1, 1, 2)))]
    spec: Raw = {"containers": containers, "schedulerName": "default-scheduler"}
    if dice.random() < 0.2:
        spec["initContainers"] = [_container(dice, "i0")]
        if dice.random() < 0.5:
            spec["initContainers"][0]["restartPolicy"] = "Always"
    if dice.random() < 0.15:
        spec["hostNetwork"] = True
    if dice.random() < 0.1:
        spec["overhead"] = {"cpu": "100m"}
    if dice.random() < 0.1:
        spec["resources"] = {"limits": {"cpu": "2", "memory": "1Gi"}}
    if dice.random() < 0.4:
        spec["tolerations"] = [_toleration(dice) for _ in range(dice.randint(1, 2))]
    if dice.random() < 0.2:
        spec["nodeSelector"] = {"disk": dice.choice(("ssd", "hdd"))}
    affinity = _affinity(dice)
    if affinity:
        spec["affinity"] = affinity
    if dice.random() < 0.4:
        pairs = [(k, w) for k in (ZONE, HOST, "disk") for w in ("DoNotSchedule", "ScheduleAnyway")]
        spec["topologySpreadConstraints"] = [_spread(dice, *pair) for pair in dice.sample(pairs, dice.randint(1, 2))]
    labels = {"app": dice.choice(("x", "y"))} if dice.random() < 0.8 else {}
    meta: Raw = {"name": name, "namespace": namespace, "labels": labels}
    status: Raw = {}
    if node is not None:
        spec["nodeName"] = node["metadata"]["name"]
        status["phase"] = "Running"
        if dice.random() < 0.15:
            meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        if dice.random() < 0.15:
            given = dice.choice(("250m", "3"))
            status["containerStatuses"] = [
                {"name": "c0", "allocatedResources": {"cpu": given}, "resources": {"requests": {"cpu": given}}}
            ]
            if dice.random() < 0.4:
                reason = dice.choice(("Infeasible", "Deferred"))
                status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def _container(dice: random.Random, name: str) -> Raw:
    requests: Raw = {}
    if dice.random() < 0.6:
        requests["cpu"] = dice.choice(("100m", "250m", "1", "0"))
    if dice.random() < 0.6:
        requests["memory"] = dice.choice(("64Mi", "512Mi", "1Gi"))
    limits: Raw = {}
    if dice.random() < 0.2:
        limits["nvidia.com/gpu"] = 1
    if dice.random() < 0.2:
        limits["cpu"] = "2"
    if dice.random() < 0.1:
        requests["ephemeral-storage"] = "1Gi"
    container: Raw = {"name": name, "image": dice.choice(("app:v1", "db", "reg.io:5000/x:v2", "none:v9"))}
    container["resources"] = {"requests": requests, "limits": limits}
    if dice.random() < 0.2:
        port: Raw = {"containerPort": dice.choice((80, 81))}
        if dice.random() < 0.4:
            port["hostPort"] = port["containerPort"]
            port["hostIP"] = dice.choice(("", "127.0.0.1", "0.0.0.0"))
        container["ports"] = [port]
    return container


def _toleration(dice: random.Random) -> Raw:
    found: Raw = {"operator": dice.choice(("Exists", "Equal"))}
    found["key"] = dice.choice(("a", "b", "node.kubernetes.io/unschedulable"))
    if found["operator"] == "Equal":
        found["value"] = dice.choice(("", "x"))
    elif dice.random() < 0.2:
        del found["key"]
    if dice.random() < 0.5:
        found["effect"] = dice.choice(("NoSchedule", "PreferNoSchedule", "NoExecute"))
    return found


def _affinity(dice: random.Random) -> Raw:
    affinity: Raw = {}
    if dice.random() < 0.25:
        node: Raw = {}
        if dice.random() < 0.5:
            node[REQUIRED] = {"nodeSelectorTerms": [_node_term(dice) for _ in range(dice.randint(1, 2))]}
        if dice.random() < 0.7:
            node[PREFERRED] = [{"weight": dice.randint(1, 100), "preference": _node_term(dice)} for _ in range(2)]
        affinity["nodeAffinity"] = node
    for side in ("podAffinity", "podAntiAffinity"):
        if dice.random() < 0.25:
            affinity[side] = {}
            if dice.random() < 0.5:
                affinity[side][REQUIRED] = [_pod_term(dice)]
            if dice.random() < 0.7:
                affinity[side][PREFERRED] = [{"weight": dice.randint(1, 100), "podAffinityTerm": _pod_term(dice)}]
    return affinity


def _node_term(dice: random.Random) -> Raw:
    if dice.random() < 0.1:
        return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"n{dice.randint(0, 7)}"]}]}
    operator = dice.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    key, values = ("size", [str(dice.randint(1, 9))]) if operator in ("Gt", "Lt") else ("disk", ["ssd"])
    found: Raw = {"key": key, "operator": operator}
    if operator not in ("Exists", "DoesNotExist"):
        found["values"] = values
    return {"matchExpressions": [found]}


def _pod_term(dice: random.Random) -> Raw:
    term: Raw = {"topologyKey": dice.choice((ZONE, HOST, "disk")), "labelSelector": _selector(dice)}
    if dice.random() < 0.3:
        term["namespaces"] = ["team-a"]
    if dice.random() < 0.3:
        operator = dice.choice(("Exists", "DoesNotExist"))
        expressions = {"matchExpressions": [{"key": "env", "operator": operator}]}
        term["namespaceSelector"] = dice.choice(({}, {"matchLabels": {"env": "prod"}}, expressions))
    return term


def _selector(dice: random.Random) -> Raw:
    return dice.choice(
        (
            {},
            {"matchLabels": {"app": "x"}},
            {"matchLabels": {"app": "y"}},
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]},
        )
    )


def _spread(dice: random.Random, key: str, when: str) -> Raw:
    found: Raw = {"maxSkew": dice.randint(1, 2), "topologyKey": key, "whenUnsatisfiable": when}
    found["labelSelector"] = _selector(dice)
    if when == "DoNotSchedule" and dice.random() < 0.2:
        found["minDomains"] = dice.randint(1, 4)
    if dice.random() < 0.2:
        found["nodeTaintsPolicy"] = "Honor"
    if dice.random() < 0.2:
        found["nodeAffinityPolicy"] = "Ignore"
    return found


def build() -> Path:
    """The program that runs Kubernetes' plugins; built once for each version and each state of our file."""
    return go_module("kube-scheduler", HERE / "kube_scheduler.go", "plugins")


def go_module(name: str, source: Path, prefix: str = "program") -> Path:
    """A program of ours around Kubernetes' packages, of the version that is compared with."""
    text = source.read_bytes()
    folder = CACHE / f"{name}-{VERSION}"
    program = folder / f"{prefix}-{hashlib.sha256(text).hexdigest()[:12]}"
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "main.go").write_bytes(text)
    print(f"building {name} in {folder} (minutes, the first time)", file=sys.stderr)
    module = f"k8s.io/kubernetes@v{VERSION}"
    found = subprocess.run(["go", "mod", "download", "-json", module], cwd=folder, capture_output=True, text=True)
    theirs = Path(json.loads(found.stdout)["GoMod"]).read_text()
    staged = re.findall(r"^\s+(k8s\.io/\S+) => \./staging", theirs, re.M)
    own = f"v0.{VERSION.partition('.')[2]}"
    lines = [f"\t{name} => {name} {own}" for name in staged]
    go = re.search(r"^go (\S+)", theirs, re.M)
    head = f"module compare\n\ngo {go.group(1) if go else '1.26.0'}\n\nrequire k8s.io/kubernetes v{VERSION}\n"
    (folder / "go.mod").write_text("\n".join([head, "replace (", *lines, ")", ""]))
    (folder / "go.sum").unlink(missing_ok=True)
    subprocess.run(["nice", "-n", "15", "go", "mod", "tidy"], cwd=folder, check=True)
    subprocess.run(["nice", "-n", "15", "go", "build", "-p", "1", "-o", program, "."], cwd=folder, check=True)
    shutil.rmtree(folder / "vendor", ignore_errors=True)
    return program


def theirs_of(program: Path, questions: list[tuple[list[Raw], str]], *, devices: bool) -> list[Raw]:
    """What Kubernetes' plugins answer, from one process for all of these."""
    lines = "".join(json.dumps({"config": c, "objects": o, "pod": POD, "bind": devices}) + "\n" for o, c in questions)
    ran = subprocess.run([program], input=lines, capture_output=True, text=True)
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    if len(answers) != len(questions):
        raise SystemExit(f"the plugins ended after {len(answers)} of {len(questions)}: {ran.stderr[-2000:]}")
    return answers


def ours_of(objects: list[Raw], config: str, folder: Path) -> Raw:
    """What tierwise answers, through the command line."""
    from click.testing import CliRunner

    from tierwise.cli.main import cli

    manifest, profile = folder / "cluster.json", folder / "profile.yaml"
    manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    profile.write_text(config)
    words = ["explain", "-f", str(manifest), "--config", str(profile), "--pod", POD, "-o", "json"]
    words += ["--now", NOW]
    ran = CliRunner().invoke(cli, words)
    if ran.exit_code not in (0, 1):
        return {"error": ran.output, "nodes": {}}
    found: Raw = json.loads(ran.stdout)
    return found


def writes_of(objects: list[Raw], node: str) -> Raw:
    """What tierwise would write for the claims of the pod on a node, were there no other."""
    from tierwise.api import codec
    from tierwise.api.meta import parse_time
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


def differences(objects: list[Raw], theirs: Raw, ours: Raw) -> list[str]:
    """The classes of what differs, with the first node that shows it."""
    if theirs.get("error") or ours.get("error"):
        return [f"failed: {str(theirs.get('error') or ours.get('error'))[:200]}"]
    fit = {name for name, node in ours["nodes"].items() if node["feasible"]}
    wrong = sorted(fit.symmetric_difference(theirs["feasible"]))
    pods = [o for o in objects if o["kind"] == "Pod"]
    leaving = {o["spec"]["nodeName"] for o in pods if o["metadata"].get("deletionTimestamp")}
    if wrong and set(wrong) <= fit & leaving:
        return ["filter, tierwise allows nodes with pods on their way out"]
    affinity = ("did not satisfy the pod affinity", "had pods nearby which the pod anti-affinity excludes")
    if (
        wrong
        and _negated(objects[-1])
        and all(w in fit or set(ours["nodes"].get(w, {"reasons": []})["reasons"]) & {*affinity} for w in wrong)
    ):
        return ["filter, negated namespace selector"]
    if wrong and _twice(objects[-1]):
        return ["filter, a claim that a pod names twice"]
    if wrong and all(_of_another_pool(name, theirs["refused"].get(name, "")) for name in wrong):
        return ["filter, all devices of a node, and a pool with counters of another"]
    if wrong and "for 256 pods already" in str(ours.get("message")):
        return ["filter, a claim that is reserved for as many pods as it can be"]
    if wrong:
        why = ours["nodes"].get(wrong[0], {"reasons": [str(ours)]})["reasons"]
        return [f"filter, tierwise {'allows' if wrong[0] in fit else 'refuses: ' + '; '.join(why)}"]
    given = theirs.get("writes", {})
    own = writes_of(objects, theirs["node"]) if theirs.get("node") else {}
    if own != given and own == {name: what for name, what in given.items() if what != "reserved for 1"}:
        return ["devices, an empty claim for extended resources"]
    if own != given:
        return ["volumes, a claim that a pod names twice" if _twice(objects[-1]) else "what claims are given"]
    found = []
    for plugin in SCORES:
        for node, scores in sorted(theirs["scores"].items()):
            own = ours["nodes"][node]["scores"].get(plugin, 0)
            # A plugin that has nothing to say of a pod is not run there, and says the same of every node here.
            if plugin in scores and abs(own - _unweighted(plugin, scores[plugin])) > 1e-6:
                negated = plugin == "InterPodAffinity" and _negated(objects[-1])
                found.append(f"score of {plugin}{', negated namespace selector' if negated else ''}")
                break
    return found


def _of_another_pool(node: str, refusal: str) -> bool:
    """Whether a node is refused for a pool of another one whose slices are not all there."""
    _, mark, pool = refusal.partition("asks for all devices, but resource pool ")
    return bool(mark) and not pool.partition("/")[2].startswith(node)


def _twice(pod: Raw) -> bool:
    """Whether two volumes of the pod are one claim."""
    claims = [
        v["persistentVolumeClaim"]["claimName"]
        for v in pod["spec"].get("volumes", ())
        if len(v) > 1 and "persistentVolumeClaim" in v
    ]
    return len(set(claims)) < len(claims)


def _negated(pod: Raw) -> bool:
    """Whether a term of the pod selects namespaces that lack something."""
    sides = [pod["spec"].get("affinity", {}).get(side, {}) for side in ("podAffinity", "podAntiAffinity")]
    terms = [wish["podAffinityTerm"] for side in sides for wish in side.get(PREFERRED, ())]
    terms += [term for side in sides for term in side.get(REQUIRED, ())]
    return any("DoesNotExist" in json.dumps(term.get("namespaceSelector", {})) for term in terms)


_WEIGHTS = {"InterPodAffinity": 2, "NodeAffinity": 2, "PodTopologySpread": 2, "TaintToleration": 3}


def _unweighted(plugin: str, score: int) -> float:
    return score / _WEIGHTS.get(plugin, 1)


def main() -> int:
    """Compare, print the table, and say whether anything stays unexplained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1, help="the first seed; cluster k is drawn from seed + k")
    parser.add_argument("--only", type=int, help="draw this one seed, and print its manifests and both answers")
    parser.add_argument("--volumes", action="store_true", help="draw storage, and pods that use it")
    parser.add_argument("--devices", action="store_true", help="draw devices, and pods that claim them")
    parser.add_argument("--show", type=int, default=3, help="seeds shown for each class")
    options = parser.parse_args()
    program = build()
    drawn = draw_with_volumes if options.volumes else draw_with_devices if options.devices else draw
    seeds = [options.only] if options.only is not None else range(options.seed, options.seed + options.clusters)
    meant = tomllib.loads((HERE / "kube_scheduler_differences.toml").read_text())["differences"]
    seen: dict[str, list[int]] = collections.defaultdict(list)
    nodes = fitting = 0
    with tempfile.TemporaryDirectory() as name:
        for begin in range(0, len(seeds), 100):
            part = seeds[begin : begin + 100]
            questions = [drawn(seed) for seed in part]
            answers = theirs_of(program, questions, devices=options.devices)
            for seed, (objects, config), theirs in zip(part, questions, answers, strict=True):
                ours = ours_of(objects, config, Path(name))
                if options.only is not None:
                    print(json.dumps({"config": json.loads(config), "objects": objects}, indent=1))
                    print("kubernetes", json.dumps(theirs), "\ntierwise  ", json.dumps(ours.get("nodes")))
                nodes += len(ours["nodes"])
                fitting += len(theirs["feasible"] or ())
                for found in differences(objects, theirs, ours) or ["same"]:
                    seen[found].append(seed)
    print(f"{len(seeds)} clusters, seeds {seeds[0]} to {seeds[-1]}: {nodes} verdicts on nodes, {fitting} nodes scored")
    unexplained = 0
    for name, found in sorted(seen.items(), key=lambda entry: -len(entry[1])):
        reason = "" if name == "same" else next((d["reason"] for d in meant if d["class"] in name), "NOT EXPLAINED")
        unexplained += len(found) if reason == "NOT EXPLAINED" else 0
        print(f"  {len(found):6}  {name}: {reason}  (seeds {', '.join(map(str, found[: options.show]))})")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())

"""Clusters of single pods, drawn at random for the comparison with Kubernetes' scheduler.

The last object is the pod to be placed. Each feature (`CHANCES`) has dice of its own and can be switched off, which
leaves the rest of the cluster as it was.
"""

from __future__ import annotations

import copy
import json
import random

import drawn_rules
from drawn import Dice
from drawn_devices import with_devices
from drawn_rules import HOST, PREFERRED, REQUIRED, ZONE, Raw
from drawn_volumes import with_volumes

POD = "default/p"
CHANCES = {
    "taints": 0.8,
    "node affinity": 0.8,
    "pod affinity": 0.7,
    "spread": 0.7,
    "minDomains": 0.5,
    "label keys": 0.4,
    "pod-level requests": 0.4,
    "init containers": 0.6,
    "host ports": 0.6,
    "resizes": 0.6,
    "leaving": 0.5,
    "nominated": 0.4,
    "priorities": 0.5,
    "overhead": 0.4,
    "arguments": 0.8,
    "claims twice": 0.3,
    "liked": 0.3,
}
PRIORITIES = (0, 10, 100)
SLOT = "example.com/slot-{}"  # one for each nominated pod, so that none takes another's


def draw(seed: int, without: tuple[str, ...] = ()) -> tuple[list[Raw], str]:
    """One cluster of up to eight nodes with running pods, and a configuration; `POD` is the pod to be placed."""
    dice = Dice(seed, CHANCES, without)
    base = dice.of("base")
    objects = [_namespace(base, name) for name in ("default", "team-a", "team-b")]
    nodes = [_node(base, dice, f"n{i}") for i in range(base.randint(1, 8))]
    objects += nodes
    for i in range(base.randint(0, 10)):
        where = base.choice(("default", "default", "team-a", "team-b"))
        objects.append(_pod(base, dice, f"run{i}", where, base.choice(nodes)))
    spread = _filled_domains(dice, nodes) if "minDomains" in dice.on else None
    objects += spread[0] if spread else []
    if "nominated" in dice.on:
        objects += _nominated(dice, nodes, [o for o in objects if o["kind"] == "Pod"])
    pod = _pod(base, dice, "p", "default", None)
    if spread:
        pod["metadata"]["labels"]["app"] = "x"
        pod["spec"]["topologySpreadConstraints"] = [spread[1]]
    config = _config(dice)
    if "liked" in dice.on:
        config = _like(dice.of("liked"), [o for o in objects if o["kind"] == "Pod"], pod, config)
    objects.append(pod)
    return objects, config


def _like(dice: random.Random, running: list[Raw], pod: Raw, config: str) -> str:
    """Let pods that run need to be near such as the pod, and say in the configuration what that is worth."""
    pod["metadata"]["labels"]["app"] = "x"
    standing = [one for one in running if one["spec"].get("nodeName")]
    for one in dice.sample(standing, min(len(standing), dice.randint(1, 2))):
        term = {"topologyKey": dice.choice((ZONE, HOST)), "labelSelector": {"matchLabels": {"app": "x"}}}
        near = one["spec"].setdefault("affinity", {}).setdefault("podAffinity", {})
        near.setdefault(REQUIRED, []).append({**term, "namespaces": ["default"]})
    whole = json.loads(config)
    arguments = whole["profiles"][0]["pluginConfig"]
    if not any(entry["name"] == "InterPodAffinity" for entry in arguments):
        arguments.append({"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": dice.choice((0, 1, 50))}})
    return json.dumps(whole)


def draw_with_volumes(seed: int, without: tuple[str, ...] = ()) -> tuple[list[Raw], str]:
    """The same with storage: most pods have volumes, and little else keeps them off nodes."""
    objects, config = _bare(seed, without)
    dice = Dice(seed, CHANCES, without)
    objects = with_volumes(random.Random(f"volumes {seed}"), objects)
    if "claims twice" in dice.on:
        _name_twice(dice.of("claims twice"), objects[-1])
    return [*_larger(dice.of("larger volumes"), objects), *objects], config


def draw_with_devices(seed: int, without: tuple[str, ...] = ()) -> tuple[list[Raw], str]:
    """The same with devices: most pods have claims, and little else keeps them off nodes."""
    objects, config = _bare(seed, without)
    return with_devices(random.Random(f"devices {seed}"), objects), config


def draw_for_preemption(
    seed: int, without: tuple[str, ...] = (), *, volumes: bool = False, devices: bool = False
) -> tuple[list[Raw], str]:
    """A crowded cluster in which a more important pod finds no room, with disruption budgets.

    With volumes or devices little else than room and these keeps pods off nodes.
    """
    alone = ("nominated", "leaving") if volumes or devices else ()
    dice = Dice(seed, CHANCES, (*without, *alone, "resizes", "minDomains"))
    base = dice.of("base")
    objects = [_namespace(base, name) for name in ("default", "team-a", "team-b")]
    nodes = [_node(base, dice, f"n{i}") for i in range(base.randint(1, 4))]
    for node in nodes:
        node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    objects += nodes
    own = dice.of("preemption")
    for i in range(base.randint(4, 14)):
        where = base.choice(("default", "default", "team-a"))
        pod = _pod(base, dice, f"run{i}", where, own.choice(nodes))
        begun = f"2026-01-01T00:{own.randint(0, 59):02d}:00Z"
        pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        pod["status"]["startTime"] = begun
        pod["spec"]["priority"] = own.choice(PRIORITIES)
        if own.random() < 0.7:
            pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": own.choice(("500m", "1", "2"))}}
        objects.append(pod)
    if "nominated" in dice.on:
        objects += _nominated(dice, nodes, [o for o in objects if o["kind"] == "Pod"])
    for number in range(own.choice((0, 0, 1, 2))):
        chosen = {"matchLabels": {"app": own.choice(("x", "y"))}}
        meta = {"name": f"pdb{number}", "namespace": own.choice(("default", "team-a"))}
        made: Raw = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta}
        objects.append({**made, "spec": {"selector": chosen}, "status": {"disruptionsAllowed": own.randint(0, 2)}})
    pod = _pod(base, dice, "p", "default", None)
    pod["spec"]["priority"] = own.choice((10, 100, 1000, 1000))
    if own.random() < 0.1:
        pod["spec"]["preemptionPolicy"] = "Never"
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": own.choice(("1", "2", "3"))}}
    pod["metadata"]["creationTimestamp"] = "2026-01-01T01:00:00Z"
    objects.append(pod)
    if volumes or devices:
        _lay_bare(objects)
    if volumes:
        objects = with_volumes(random.Random(f"volumes {seed}"), objects)
    if devices:
        objects = with_devices(random.Random(f"devices {seed}"), objects)
    return objects, json.dumps(_configuration([]))


def _bare(seed: int, without: tuple[str, ...]) -> tuple[list[Raw], str]:
    objects, config = draw(seed, (*without, "nominated"))
    _lay_bare(objects, ask={"cpu": "100m"})
    return objects, config


def _lay_bare(objects: list[Raw], ask: Raw | None = None) -> None:
    """Take away what else keeps pods off nodes; each keeps what its first container asks for, or asks for this."""
    for pod in (o for o in objects if o["kind"] == "Pod"):
        for field in ("affinity", "topologySpreadConstraints", "nodeSelector", "hostNetwork"):
            pod["spec"].pop(field, None)
        asked = ask or pod["spec"]["containers"][0]["resources"].get("requests", {})
        pod["spec"]["containers"] = [{"name": "c0", "image": "app:v1", "resources": {"requests": dict(asked)}}]
        pod["spec"].pop("initContainers", None)
        pod["spec"].pop("resources", None)
    for node in (o for o in objects if o["kind"] == "Node"):
        node["spec"] = {}
        node["status"]["allocatable"]["pods"] = "110"


def _larger(dice: random.Random, objects: list[Raw]) -> list[Raw]:
    """Larger volumes beside some that nobody has yet."""
    found = []
    for one in objects:
        if one["kind"] == "PersistentVolume" and "claimRef" not in one["spec"] and dice.random() < 0.5:
            other = copy.deepcopy(one)
            other["metadata"]["name"] += "-larger"
            other["spec"]["capacity"]["storage"] = "20Gi"
            found.append(other)
    return found


def _name_twice(dice: random.Random, pod: Raw) -> None:
    """Let a second volume of the pod be a claim that it has already."""
    mounted = pod["spec"].get("volumes", [])
    named = [one for one in mounted if "persistentVolumeClaim" in one]
    if named:
        mounted.append({**dice.choice(named), "name": "once-more"})


def _filled_domains(dice: Dice, nodes: list[Raw]) -> tuple[list[Raw], Raw] | None:
    """Pods in every zone or on every host, and a spread over these that asks for as many domains, or for one more."""
    own = dice.of("filled domains")
    key = own.choice((ZONE, HOST))
    values = sorted({node["metadata"]["labels"][key] for node in nodes if key in node["metadata"]["labels"]})
    if not values or own.random() < 0.3:
        return None
    found = []
    for value in values:
        there = [node for node in nodes if node["metadata"]["labels"].get(key) == value]
        for _ in range(own.choice((1, 1, 2))):
            pod = _plain("spread", len(found), {"cpu": "10m"}, {"app": "x", "rev": "1"})
            pod["spec"]["containers"][0]["resources"].pop("limits")
            pod["spec"]["nodeName"], pod["status"] = own.choice(there)["metadata"]["name"], {"phase": "Running"}
            found.append(pod)
    rule = {"maxSkew": own.choice((1, 2)), "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    wanted = max(1, len(values) + own.choice((-1, 0, 1, 1)))
    # Pods on nodes whose taints count are no pods of the domain.
    policy = {"nodeTaintsPolicy": "Honor"} if dice.of("honoured taints").random() < 0.5 else {}
    return found, {**rule, **policy, "labelSelector": {"matchLabels": {"app": "x"}}, "minDomains": wanted}


def _nominated(dice: Dice, nodes: list[Raw], running: list[Raw]) -> list[Raw]:
    """Waiting pods that a node is kept for, each with the pod on its way out whose slot it waits for.

    A node has the cpu that its nominated pod asks for besides, and nobody on it the host port.
    """
    own, found = dice.of("nominated"), []
    for i, node in enumerate(own.sample(nodes, min(len(nodes), own.randint(1, 3)))):
        slot = SLOT.format(i)
        node["status"]["allocatable"] |= {slot: "1", "pods": "110"}
        victim = _plain("victim", i, {slot: 1}, {})
        victim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        victim["spec"]["nodeName"], victim["status"] = node["metadata"]["name"], {"phase": "Running"}
        ask = {slot: 1, "cpu": own.choice(("100m", "500m", "1"))}
        node["status"]["allocatable"]["cpu"] = _more(node["status"]["allocatable"]["cpu"], ask["cpu"])
        taken = {
            port.get("hostPort") or port["containerPort"]
            for pod in running
            if pod["spec"]["nodeName"] == node["metadata"]["name"]
            for container in pod["spec"]["containers"]
            for port in container.get("ports", ())
        }
        # One whose turn comes after that of the pod in question is kept a place by its nomination alone.
        nominee = _plain(
            own.choice(("nominee", "waiter")), i, ask, {"app": own.choice(("x", "y")), "rev": own.choice(("1", "2"))}
        )
        nominee["spec"]["priority"] = own.choice(PRIORITIES)
        nominee["status"] = {"phase": "Pending", "nominatedNodeName": node["metadata"]["name"]}
        port = own.choice((80, 81))
        if own.random() < 0.4 and port not in taken:
            nominee["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
        found += [victim, nominee]
    return found


def _more(cpu: str, asked: str) -> str:
    millis = [int(text[:-1]) if text.endswith("m") else 1000 * int(text) for text in (cpu, asked)]
    return f"{sum(millis)}m"


def _plain(kind: str, number: int, ask: Raw, labels: Raw) -> Raw:
    container = {"name": "c0", "image": "none:v9", "resources": {"requests": ask, "limits": {SLOT.format(number): 1}}}
    spec: Raw = {"containers": [container], "schedulerName": "default-scheduler"}
    spec["tolerations"] = [{"operator": "Exists"}]
    meta: Raw = {"name": f"{kind}{number}", "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {}}


def _config(dice: Dice) -> str:
    own = dice.of("arguments")
    arguments: dict[str, Raw] = {}
    if "arguments" not in dice.on:
        return json.dumps(_configuration([]))
    if own.random() < 0.6:
        names = ("cpu", "memory", "nvidia.com/gpu", "ephemeral-storage")
        resources = own.sample([{"name": n, "weight": own.randint(1, 5)} for n in names], own.randint(1, 3))
        kind = own.choice(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
        strategy: Raw = {"type": kind, "resources": resources}
        if kind == "RequestedToCapacityRatio":
            places = sorted(own.sample(range(0, 101, 10), own.randint(2, 4)))
            shape = [{"utilization": place, "score": own.randint(0, 10)} for place in places]
            strategy["requestedToCapacityRatio"] = {"shape": shape}
        arguments["NodeResourcesFit"] = {"scoringStrategy": strategy}
        arguments["NodeResourcesBalancedAllocation"] = {"resources": [{**r, "weight": 1} for r in resources]}
    if own.random() < 0.4:
        arguments["InterPodAffinity"] = {
            "hardPodAffinityWeight": own.choice((0, 1, 50)),
            "ignorePreferredTermsOfExistingPods": own.random() < 0.5,
        }
    if own.random() < 0.25:
        added: Raw = {PREFERRED: [{"weight": own.randint(1, 9), "preference": drawn_rules.node_term(own)}]}
        if own.random() < 0.5:
            added[REQUIRED] = {"nodeSelectorTerms": [drawn_rules.node_term(own)]}
        arguments["NodeAffinity"] = {"addedAffinity": added}
    return json.dumps(_configuration([{"name": name, "args": args} for name, args in arguments.items()]))


def _configuration(arguments: list[Raw]) -> Raw:
    profile: Raw = {"schedulerName": "default-scheduler", "pluginConfig": arguments}
    version = "kubescheduler.config.k8s.io/v1"
    return {"apiVersion": version, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}


def _namespace(dice: random.Random, name: str) -> Raw:
    labels = {"env": dice.choice(("prod", "test"))} if dice.random() < 0.7 else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _node(dice: random.Random, features: Dice, name: str) -> Raw:
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
    own = features.of(f"taints {name}")
    if "taints" in features.on and own.random() < 0.35:
        spec["taints"] = [drawn_rules.taint(own) for _ in range(own.randint(1, 2))]
    if "taints" in features.on and own.random() < 0.1:
        spec["unschedulable"] = True
    images = [
        {"names": [image], "sizeBytes": size * 2**20}
        for image, size in (("app:v1", 700), ("db:latest", 300), ("reg.io:5000/x:v2", 90))
        if dice.random() < 0.4
    ]
    ready = dice.choice(("True", "True", "True", "False"))
    status = {"allocatable": amounts, "capacity": amounts, "images": images}
    status["conditions"] = [{"type": "Ready", "status": ready}]
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status}


def _pod(dice: random.Random, features: Dice, name: str, namespace: str, node: Raw | None) -> Raw:
    own = {feature: features.of(f"{feature} {name}") for feature in CHANCES}

    def drawn(feature: str, chance: float) -> bool:
        return feature in features.on and own[feature].random() < chance

    containers = [_container(dice, f"c{i}") for i in range(dice.choice((1, 1, 2)))]
    spec: Raw = {"containers": containers, "schedulerName": "default-scheduler"}
    if drawn("init containers", 0.35):
        spec["initContainers"] = [_container(own["init containers"], "i0")]
        if own["init containers"].random() < 0.5:
            spec["initContainers"][0]["restartPolicy"] = "Always"
    if drawn("host ports", 0.4):
        _open_ports(own["host ports"], spec)
    if drawn("overhead", 0.25):
        spec["overhead"] = {"cpu": "100m"}
    if drawn("pod-level requests", 0.4):
        spec["resources"] = _pod_level(own["pod-level requests"])
    if drawn("taints", 0.5):
        spec["tolerations"] = [drawn_rules.toleration(own["taints"]) for _ in range(own["taints"].randint(1, 2))]
    if drawn("node affinity", 0.25):
        spec["nodeSelector"] = {"disk": own["node affinity"].choice(("ssd", "hdd"))}
    affinity = _node_affinity(own["node affinity"]) if drawn("node affinity", 0.3) else {}
    if "pod affinity" in features.on:
        affinity |= _pod_affinity(own["pod affinity"], own["label keys"] if "label keys" in features.on else None)
    if affinity:
        spec["affinity"] = affinity
    if drawn("spread", 0.5):
        spec["topologySpreadConstraints"] = _spreads(own, features)
    if drawn("priorities", 0.7):
        spec["priority"] = own["priorities"].choice(PRIORITIES)
    labels = {"app": dice.choice(("x", "y"))} if dice.random() < 0.8 else {}
    if dice.random() < 0.7:
        labels["rev"] = dice.choice(("1", "2"))
    meta: Raw = {"name": name, "namespace": namespace, "labels": labels}
    status: Raw = {}
    if node is not None:
        spec["nodeName"] = node["metadata"]["name"]
        status["phase"] = "Running"
        if drawn("leaving", 0.3):
            meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        if drawn("resizes", 0.25):
            status |= _resize(own["resizes"])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def _resize(dice: random.Random) -> Raw:
    given = dice.choice(("250m", "3"))
    status: Raw = {
        "containerStatuses": [
            {"name": "c0", "allocatedResources": {"cpu": given}, "resources": {"requests": {"cpu": given}}}
        ]
    }
    if dice.random() < 0.4:
        reason = dice.choice(("Infeasible", "Deferred"))
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    return status


def _pod_level(dice: random.Random) -> Raw:
    """Resources of the whole pod: limits alone, requests alone, or both."""
    requests, limits = {"cpu": dice.choice(("1", "1500m")), "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}
    if dice.random() < 0.4:
        del requests["memory"]
    return dice.choice(({"limits": limits}, {"requests": requests}, {"requests": requests, "limits": limits}))


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
    return container


def _open_ports(dice: random.Random, spec: Raw) -> None:
    if dice.random() < 0.4:
        spec["hostNetwork"] = True
    for container in spec["containers"]:
        port: Raw = {"containerPort": dice.choice((80, 81))}
        if dice.random() < 0.6:
            port["hostPort"] = port["containerPort"]
            port["hostIP"] = dice.choice(("", "127.0.0.1", "0.0.0.0", "::"))
        container["ports"] = [port]


def _node_affinity(dice: random.Random) -> Raw:
    node: Raw = {}
    if dice.random() < 0.5:
        terms = [drawn_rules.node_term(dice) for _ in range(dice.randint(1, 2))]
        node[REQUIRED] = {"nodeSelectorTerms": terms}
    if dice.random() < 0.7:
        wishes = [(dice.randint(1, 100), drawn_rules.node_term(dice)) for _ in range(2)]
        node[PREFERRED] = [{"weight": weight, "preference": term} for weight, term in wishes]
    return {"nodeAffinity": node}


def _pod_affinity(dice: random.Random, keys: random.Random | None) -> Raw:
    affinity: Raw = {}
    for side in ("podAffinity", "podAntiAffinity"):
        if dice.random() < 0.35:
            affinity[side] = {}
            if dice.random() < 0.5:
                affinity[side][REQUIRED] = [_keyed(drawn_rules.pod_term(dice), keys)]
            if dice.random() < 0.7:
                term = _keyed(drawn_rules.pod_term(dice), keys)
                affinity[side][PREFERRED] = [{"weight": dice.randint(1, 100), "podAffinityTerm": term}]
    return affinity


def _keyed(term: Raw, dice: random.Random | None) -> Raw:
    """The term with keys of labels whose values the pod's own labels give."""
    if dice is not None and dice.random() < 0.6:
        term[dice.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["rev"]
    return term


def _spreads(own: dict[str, random.Random], features: Dice) -> list[Raw]:
    dice = own["spread"]
    pairs = [(k, w) for k in (ZONE, HOST, "disk") for w in ("DoNotSchedule", "ScheduleAnyway")]
    found = [drawn_rules.spread(dice, *pair) for pair in dice.sample(pairs, dice.randint(1, 2))]
    for one in found:
        if "minDomains" in features.on and one["whenUnsatisfiable"] == "DoNotSchedule":
            one["minDomains"] = own["minDomains"].randint(1, 5)
        if "label keys" in features.on and own["label keys"].random() < 0.5:
            one["matchLabelKeys"] = ["rev"]
    return found

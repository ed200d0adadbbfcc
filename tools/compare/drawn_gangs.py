"""Clusters of gangs, drawn at random for the comparison with Volcano: what stands in them, and what happens to them.

A `World` holds what both schedulers are given, as plain values that the auditor counts with; `manifests` writes it as
objects of Kubernetes and Volcano. Features are switched on and off by name (`CHANCES`). `advance` lets a cycle's answer
and the world's events happen, so that a second and third cycle can be compared.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import drawn_rules
from drawn import Dice
from drawn_rules import HOST, REQUIRED, ZONE, Raw

CHANCES = {
    "crowded": 0.75,
    "starving": 0.7,
    "topology": 0.8,
    "elastic": 0.5,
    "taints": 0.35,
    "affinity": 0.3,
    "spread": 0.25,
    "capability": 0.35,
    "guarantee": 0.2,
    "trees": 0.25,
    "sub-groups": 0.3,
    "roles": 0.35,
    "half-running": 0.4,
    "budgets": 0.3,
    "best-effort": 0.25,
    "leaving": 0.15,
}
PRIORITIES = {"low": 10, "middle": 100, "high": 1000}
ACTIONS = (
    "allocate",
    "allocate, backfill",
    "enqueue, allocate, backfill",
    "allocate, preempt, backfill",
    "allocate, reclaim, backfill",
    "allocate, gangpreempt, backfill",
    "allocate, gangreclaim, backfill",
    "allocate, preempt",
    "allocate, reclaim",
    "allocate, gangpreempt",
    "allocate, gangreclaim",
)
GROUP = "scheduling.k8s.io/group-name"


@dataclass
class Node:
    """A node; amounts in whole cpus, Gi, devices and pods."""

    amounts: dict[str, int]
    labels: dict[str, str]
    taints: list[Raw] = field(default_factory=list)
    cordoned: bool = False


@dataclass
class Queue:
    """A queue, with its place in a tree if there is one."""

    weight: int = 1
    parent: str = ""
    deserved: dict[str, int] = field(default_factory=dict)
    capability: dict[str, int] = field(default_factory=dict)
    guarantee: dict[str, int] = field(default_factory=dict)
    reclaimable: bool = True


@dataclass
class SubGroups:
    """The one policy of a gang in sub-groups."""

    size: int
    minimum: int
    limit: int | None


@dataclass
class Gang:
    """A podGroup."""

    name: str
    queue: str
    priority: str
    minimum: int
    created: int
    roles: dict[str, int] = field(default_factory=dict)
    limit: tuple[str, int] | None = None
    parts: SubGroups | None = None
    phase: str = "Inqueue"


@dataclass
class Pod:
    """A pod of a gang; `ask` is empty for a best-effort pod."""

    gang: str
    role: str
    ask: dict[str, int]
    node: str = ""
    part: str = ""
    leaving: bool = False
    protected: bool = False
    nominated: str = ""
    app: str = "x"
    tolerations: list[Raw] = field(default_factory=list)
    node_selector: dict[str, str] = field(default_factory=dict)
    node_terms: list[Raw] = field(default_factory=list)
    spread: list[Raw] = field(default_factory=list)


@dataclass
class Budget:
    """A disruption budget over the pods of one gang."""

    gang: str
    allowed: int


@dataclass
class World:
    """A drawn cluster."""

    seed: int
    actions: str
    share: str
    features: frozenset[str]
    one_tier: bool = False
    cycle: int = 0
    nodes: dict[str, Node] = field(default_factory=dict)
    domains: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)
    gangs: dict[str, Gang] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    budgets: dict[str, Budget] = field(default_factory=dict)
    budgets_bind: bool = True  # or are they a price, which is paid where nothing else makes room

    def inside(self, domain: str) -> set[str]:
        """The nodes below a domain."""
        found: set[str] = set()
        for member in self.domains[domain][1]:
            found |= {member} if member in self.nodes else self.inside(member)
        return found

    def free(self, node: str) -> dict[str, int]:
        """What nobody holds on a node; pods on their way out still hold theirs."""
        left = dict(self.nodes[node].amounts)
        for pod in self.pods.values():
            if pod.node == node:
                for resource, amount in {**pod.ask, "pods": 1}.items():
                    left[resource] = left.get(resource, 0) - amount
        return left

    def members(self, gang: str) -> list[str]:
        """The pods of a gang."""
        return [key for key, pod in self.pods.items() if pod.gang == gang]

    def config(self) -> str:
        """The configuration of both schedulers."""
        first, second = ["priority", "gang", "conformance"], ["predicates", self.share, "nodeorder"]
        first += ["pdb"] if self.budgets else []
        second.append("network-topology-aware")
        tiers = [first + second] if self.one_tier else [first, second]
        lines = [f'actions: "{self.actions}"', "tiers:"]
        for tier in tiers:
            lines.append("- plugins:")
            for name in tier:
                lines.append(f"  - name: {name}")
                if name == "capacity" and "trees" in self.features:
                    lines.append("    enableHierarchy: true")
        return "\n".join(lines) + "\n"


def draw(seed: int, without: tuple[str, ...] = ()) -> World:
    """One cluster of up to sixteen nodes below racks and spines, with running and waiting gangs."""
    dice = Dice(seed, CHANCES, without)
    base = dice.of("base")
    share = base.choice(("proportion", "capacity"))
    actions = base.choice(ACTIONS)
    if "backfill" not in actions:
        dice.on -= {"best-effort"}  # nobody would place these pods
    world = World(seed, actions, "capacity" if "trees" in dice.on else share, dice.on)
    draw_nodes(world, base)
    _draw_queues(world, dice)
    fill(world, dice, base, _draw_gang, waiting="gang", most=4, leave=0.2)
    return world


def fill(
    world: World, dice: Dice, base: random.Random, gang: Callable[..., None], *, waiting: str, most: int, leave: float
) -> None:
    """Gangs that run until no more find room, up to so many that wait, and what else happens to nodes and pods."""
    few, missed = base.randint(0, 4), 0
    for number in range(40 if "crowded" in dice.on else few):
        before = len(world.gangs)
        gang(world, dice, f"run{number}", running=True)
        missed += len(world.gangs) == before
        if missed == 4:
            break
    for number in range(base.randint(1, most)):
        gang(world, dice, f"{waiting}{number}", running=False)
    if "taints" in dice.on:
        _draw_taints(world, dice.of("taints"))
    if "budgets" in dice.on:
        _draw_budgets(world, dice.of("budgets"))
    if "leaving" in dice.on:
        leaves = dice.of("leaving")
        for pod in world.pods.values():
            pod.leaving = bool(pod.node) and leaves.random() < leave


def draw_nodes(world: World, dice: random.Random) -> None:
    """Racks of nodes, two spines above them."""
    racks = dice.choice((1, 2, 3, 4, 4))
    for rack in range(racks):
        members = []
        for number in range(dice.randint(1, 4)):
            name = f"n{rack}-{number}"
            amounts = {"cpu": dice.choice((4, 8)), "memory": 64, "nvidia.com/gpu": dice.choice((0, 4, 8))}
            amounts["pods"] = dice.choice((3, 110, 110))
            labels = {
                HOST: name,
                ZONE: f"z{rack}",
                "disk": dice.choice(("ssd", "hdd")),
                "size": str(dice.randint(1, 9)),
            }
            world.nodes[name] = Node(amounts, labels)
            members.append(name)
        world.domains[f"rack{rack}"] = (1, members)
    if racks > 1:
        half = [f"rack{i}" for i in range(racks // 2)], [f"rack{i}" for i in range(racks // 2, racks)]
        for number, below in enumerate(half):
            world.domains[f"spine{number}"] = (2, below)


def _draw_queues(world: World, dice: Dice) -> None:
    total = {r: sum(n.amounts[r] for n in world.nodes.values()) for r in ("cpu", "memory", "nvidia.com/gpu")}
    base = dice.of("queues")
    for name in ("q0", "q1"):
        world.queues[name] = Queue(weight=base.choice((1, 1, 2)))
    if "trees" in dice.on:
        world.queues["root"] = Queue()
        for name in ("q0", "q1"):
            world.queues[name].parent = "root"
        world.queues["q0-a"], world.queues["q0-b"] = Queue(parent="q0"), Queue(parent="q0")
    deserved = dice.of("deserved")
    if world.share == "capacity":
        for name, queue in world.queues.items():
            if name != "root":
                part = deserved.choice((4, 2)) * (2 if queue.parent == "q0" else 1)
                queue.deserved = {"cpu": total["cpu"] // part, "memory": total["memory"] // part}
    caps = dice.of("capability")
    for name, queue in world.queues.items():
        part = caps.choice((3, 4, 6, 8))
        if "capability" in dice.on and name != "root" and caps.random() < 0.7:
            # Below a parent with a limit of its own, a smaller one is felt.
            queue.capability = {"cpu": max(2, total["cpu"] * part // (30 if queue.parent == "q0" else 10))}
            if caps.random() < 0.3:
                queue.capability["nvidia.com/gpu"] = total["nvidia.com/gpu"] // 2
            queue.deserved = {r: min(v, queue.capability.get(r, v)) for r, v in queue.deserved.items()}
    kept = dice.of("guarantee")
    for name in ("q0", "q1"):
        if "guarantee" in dice.on and kept.random() < 0.7:
            most = world.queues[name].deserved.get("cpu", total["cpu"] // 3)
            world.queues[name].guarantee = {"cpu": min(most, max(1, total["cpu"] // kept.choice((3, 4, 8))))}
    locked = dice.of("reclaimable")
    for queue in world.queues.values():
        queue.reclaimable = locked.random() < 0.9


def _draw_gang(world: World, dice: Dice, name: str, *, running: bool, round_: int = 0) -> None:
    """A gang; each feature of it is drawn with dice of its own."""
    base = dice.of(f"{name} {round_}")
    own = {feature: dice.of(f"{feature} {name} {round_}") for feature in CHANCES}
    key = f"ns/{name}"
    gang = Gang(name, base.choice(_leaves(world)), base.choice(sorted(PRIORITIES)), 0, len(world.gangs) + 20 * round_)
    if "starving" in dice.on and own["starving"].random() < 0.8:
        _starve(world, gang, own["starving"], running=running)
    size = base.randint(1, 4) if running else base.choice((1, 2, 2, 3, 4, 6))
    asks = {"w": ask_of(base)}
    if "roles" in dice.on and own["roles"].random() < 0.6 and size > 1:
        asks = {"m": ask_of(own["roles"]), **asks}
    if "best-effort" in dice.on and own["best-effort"].random() < 0.4:
        asks[own["best-effort"].choice(sorted(asks))] = {}
    rules = rules_of(name, base, own, dice.on, spread=0.6)
    if "topology" in dice.on and not running:
        gang.limit = own["topology"].choice((None, None, ("hard", 1), ("hard", 2), ("soft", 1)))
    roles = {"m": max(1, size // 3), "w": size - max(1, size // 3)} if len(asks) > 1 else {"w": size}
    if "sub-groups" in dice.on and not running and own["sub-groups"].random() < 0.5 and "m" not in asks:
        part = own["sub-groups"].randint(1, 3)
        count = own["sub-groups"].randint(1, 3)
        tier = own["sub-groups"].choice((None, 1, 1, 2)) if "topology" in dice.on else None
        gang.parts = SubGroups(part, own["sub-groups"].choice((0, count, count)), tier)
        roles = {"w": part * count}
        if gang.limit and gang.limit[0] == "hard" and tier is not None:
            gang.parts.limit = min(tier, gang.limit[1])
    pods = []
    for role, count in sorted(roles.items()):
        for number in range(count):
            pod = copy.deepcopy(rules)
            pod.role, pod.ask = role, dict(asks[role])
            pod.part = str(number // gang.parts.size) if gang.parts else ""
            pods.append((f"ns/{name}-{role}{number}", pod))
    gang.minimum = len(pods)
    if running and "starving" in dice.on and own["starving"].random() < 0.5:
        gang.minimum = 1
    elif "elastic" in dice.on and own["elastic"].random() < 0.5:
        gang.minimum = own["elastic"].randint(1, len(pods))
    elif len(roles) > 1 and own["roles"].random() < 0.6:
        gang.roles = dict(roles)
    if gang.parts and gang.parts.minimum:
        gang.minimum = min(gang.minimum, gang.parts.minimum * gang.parts.size)
    if running:
        stay = [(k, pod) for k, pod in pods if put(world, own["crowded"], k, pod)]
        for k, _ in stay:
            del world.pods[k]
        if not stay:
            return
        half = "half-running" in dice.on and own["half-running"].random() < 0.5
        if half and len(stay) == len(pods) and len(pods) > 1:
            lost = own["half-running"].randrange(len(pods))
            pods[lost][1].node = ""
        elif not half:
            pods = stay
            gang.minimum = min(gang.minimum, len(stay))
            counts = {role: sum(p.role == role for _, p in stay) for role in roles}
            gang.roles = {role: min(n, counts[role]) for role, n in gang.roles.items() if counts[role]}
            gang.minimum = max(gang.minimum, sum(gang.roles.values()))
        gang.phase = "Running"
    world.gangs[key] = gang
    world.pods.update(pods)


def rules_of(
    name: str, base: random.Random, own: dict[str, random.Random], on: Collection[str], *, spread: float
) -> Pod:
    """Where the pods of a gang may be."""
    rules = Pod(f"ns/{name}", "w", {}, app=base.choice(("x", "y")))
    if "taints" in on and own["taints"].random() < 0.4:
        rules.tolerations = [drawn_rules.toleration(own["taints"]) for _ in range(2)]
    if "affinity" in on and own["affinity"].random() < 0.5:
        if own["affinity"].random() < 0.5:
            rules.node_selector = {"disk": own["affinity"].choice(("ssd", "hdd"))}
        else:
            rules.node_terms = [drawn_rules.node_term(own["affinity"]) for _ in range(own["affinity"].randint(1, 2))]
    if "spread" in on and own["spread"].random() < spread:
        rules.spread = [_spread_of(own["spread"], name)]
    return rules


def _starve(world: World, gang: Gang, dice: random.Random, *, running: bool) -> None:
    """Let what runs stand in the way of what waits: less important, or in a queue that has more than it deserves."""
    gang.priority = dice.choice(("low", "middle") if running else ("high", "high", "middle"))
    leaves = _leaves(world)
    if "reclaim" in world.actions:
        gang.queue = leaves[-1] if running else leaves[0]
    elif dice.random() < 0.7:
        gang.queue = leaves[0]


def _leaves(world: World) -> list[str]:
    parents = {queue.parent for queue in world.queues.values()}
    return [name for name in sorted(world.queues) if name not in parents and name != "root"]


def ask_of(dice: random.Random) -> dict[str, int]:
    """What one pod asks for."""
    ask = {"cpu": dice.choice((1, 1, 2, 2, 3, 4)), "memory": dice.randint(1, 16)}
    if dice.random() < 0.3:
        ask["nvidia.com/gpu"] = dice.choice((1, 2, 4))
    return ask


def _spread_of(dice: random.Random, name: str) -> Raw:
    """A constraint over the pods of one gang."""
    found: Raw = {"maxSkew": dice.randint(1, 2), "topologyKey": dice.choice((ZONE, HOST))}
    found |= {"whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"gang": name}}}
    if dice.random() < 0.4:
        found["minDomains"] = dice.randint(1, 4)
    return found


def put(world: World, dice: random.Random, key: str, pod: Pod) -> bool:
    """Let a pod run where there is room; running pods need not obey rules that are asked of new ones."""
    fitting = [n for n in sorted(world.nodes) if all(world.free(n)[r] >= a for r, a in {**pod.ask, "pods": 1}.items())]
    pod.node = dice.choice(fitting) if fitting else ""
    if pod.node:
        world.pods[key] = pod
    return bool(pod.node)


def _draw_taints(world: World, dice: random.Random) -> None:
    """Taints and cordons of some nodes."""
    for node in world.nodes.values():
        if dice.random() < 0.35:
            node.taints = [drawn_rules.taint(dice) for _ in range(dice.randint(1, 2))]
        node.cordoned = dice.random() < 0.05


def _draw_budgets(world: World, dice: random.Random) -> None:
    """Disruption budgets of some gangs that run."""
    for key, gang in world.gangs.items():
        running = sum(bool(world.pods[k].node) for k in world.members(key))
        if running and dice.random() < 0.5:
            world.budgets[f"pdb-{gang.name}"] = Budget(key, dice.randint(0, running))


def advance(world: World, bound: dict[str, str], nominated: dict[str, str], evicted: list[str]) -> World:
    """The world after a cycle and what happens before the next: starts, ends, failures, evictions, new gangs."""
    after = copy.deepcopy(world)
    after.cycle += 1
    dice = Dice(world.seed, CHANCES, set(CHANCES) - world.features)
    events = dice.of(f"events {after.cycle}")
    for key, pod in list(after.pods.items()):
        if pod.leaving:
            _replace(after, key)
    for key, node in bound.items():
        after.pods[key].node, after.pods[key].nominated = node, ""
        after.gangs[after.pods[key].gang].phase = "Running"
    for key, pod in after.pods.items():
        if not pod.node:
            pod.nominated = nominated.get(key, "")
    for key in evicted:
        for budget in after.budgets.values():
            budget.allowed -= budget.gang == after.pods[key].gang and budget.allowed > 0
        if events.random() < 0.5:
            after.pods[key].leaving = True
        else:
            _replace(after, key)
    for key in sorted(after.gangs):
        if any(after.pods[k].node for k in after.members(key)) and events.random() < 0.08:
            _end(after, key)
    running = [key for key, pod in sorted(after.pods.items()) if pod.node and not pod.leaving]
    if running and events.random() < 0.4:
        _replace(after, events.choice(running))
    for number in range(events.randint(0, 2)):
        _draw_gang(after, dice, f"new{after.cycle}-{number}", running=False, round_=after.cycle)
    return after


def _replace(world: World, key: str) -> None:
    """A pod is gone, and its controller makes another of a new name."""
    gone = world.pods.pop(key)
    fresh = copy.deepcopy(gone)
    fresh.node, fresh.leaving, fresh.nominated, fresh.protected = "", False, "", False
    world.pods[f"{key}-r{world.cycle}"] = fresh


def _end(world: World, gang: str) -> None:
    for key in world.members(gang):
        del world.pods[key]
    del world.gangs[gang]
    world.budgets = {name: budget for name, budget in world.budgets.items() if budget.gang != gang}


def manifests(world: World) -> list[Raw]:
    """The world as objects."""
    objects = cluster(world)
    for name, (tier, below) in world.domains.items():
        kind = "Node" if tier == 1 else "HyperNode"
        listed = [{"type": kind, "selector": {"exactMatch": {"name": m}}} for m in below]
        objects.append(
            as_object("topology.volcano.sh/v1alpha1", "HyperNode", name, spec={"tier": tier, "members": listed})
        )
    for name, queue in world.queues.items():
        spec = {"weight": queue.weight, "reclaimable": queue.reclaimable}
        if queue.parent:
            spec["parent"] = queue.parent
        for field_, amounts in (("deserved", queue.deserved), ("capability", queue.capability)):
            if amounts:
                spec[field_] = shown(amounts)
        if queue.guarantee:
            spec["guarantee"] = {"resource": shown(queue.guarantee)}
        objects.append(as_object("scheduling.volcano.sh/v1beta1", "Queue", name, spec=spec, status={"state": "Open"}))
    for name, value in PRIORITIES.items():
        objects.append({**as_object("scheduling.k8s.io/v1", "PriorityClass", name), "value": value})
    objects += budgets(world)
    objects += [_pod_group(gang) for gang in world.gangs.values()]
    objects += [_pod(world, key) for key in world.pods]
    return objects


def cluster(world: World) -> list[Raw]:
    """The namespace and the nodes."""
    objects = [as_object("v1", "Namespace", "ns")]
    for name, node in world.nodes.items():
        amounts = shown(node.amounts)
        status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        spec: Raw = {"taints": list(node.taints)} if node.taints else {}
        if node.cordoned:
            spec["unschedulable"] = True
        objects.append(as_object("v1", "Node", name, labels=node.labels, spec=spec, status=status))
    return objects


def budgets(world: World) -> list[Raw]:
    """The disruption budgets."""
    objects = []
    for name, budget in world.budgets.items():
        chosen = {"matchLabels": {"gang": world.gangs[budget.gang].name}}
        made = as_object("policy/v1", "PodDisruptionBudget", name, namespace="ns", spec={"selector": chosen})
        objects.append({**made, "status": {"disruptionsAllowed": budget.allowed}})
    return objects


def _pod_group(gang: Gang) -> Raw:
    spec: Raw = {"minMember": gang.minimum, "queue": gang.queue, "priorityClassName": gang.priority}
    if gang.roles:
        spec["minTaskMember"] = dict(gang.roles)
    if gang.limit is not None:
        spec["networkTopology"] = {"mode": gang.limit[0], "highestTierAllowed": gang.limit[1]}
    if gang.parts is not None:
        policy: Raw = {"name": "part", "subGroupSize": gang.parts.size, "matchLabelKeys": ["part"]}
        policy["labelSelector"] = {"matchLabels": {"gang": gang.name}}
        policy |= {"minSubGroups": gang.parts.minimum} if gang.parts.minimum else {}
        if gang.parts.limit is not None:
            policy["networkTopology"] = {"mode": "hard", "highestTierAllowed": gang.parts.limit}
        spec["subGroupPolicy"] = [policy]
    made = as_object("scheduling.volcano.sh/v1beta1", "PodGroup", gang.name, namespace="ns", spec=spec)
    made["metadata"]["creationTimestamp"] = as_time(gang.created)
    return {**made, "status": {"phase": gang.phase}}


def _pod(world: World, key: str) -> Raw:
    pod, name = world.pods[key], key.partition("/")[2]
    gang = world.gangs[pod.gang]
    labels = {"gang": gang.name, "app": pod.app} | ({"part": pod.part} if pod.part else {})
    notes = {GROUP: gang.name, "volcano.sh/task-spec": pod.role}
    notes |= {"volcano.sh/preemptable": "false"} if pod.protected else {}
    made = as_object("v1", "Pod", name, namespace="ns", labels=labels, annotations=notes)
    spec: Raw = {"schedulerName": "volcano", "priorityClassName": gang.priority, "priority": PRIORITIES[gang.priority]}
    return complete(made, pod, spec, gang.created)


def complete(made: Raw, pod: Pod, spec: Raw, created: int) -> Raw:
    """A pod's object with what the pod asks for, its rules, and how far it is."""
    made["metadata"]["creationTimestamp"] = as_time(created)
    resources = {"requests": shown(pod.ask), "limits": shown(pod.ask)} if pod.ask else {}
    spec["containers"] = [{"name": "main", "image": "x", "resources": resources}]
    if pod.tolerations:
        spec["tolerations"] = pod.tolerations
    if pod.node_selector:
        spec["nodeSelector"] = pod.node_selector
    if pod.node_terms:
        spec["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": pod.node_terms}}}
    if pod.spread:
        spec["topologySpreadConstraints"] = pod.spread
    status: Raw = {"phase": "Pending"}
    if pod.node:
        spec["nodeName"] = pod.node
        status = {"phase": "Running", "startTime": as_time(created)}
    elif pod.nominated:
        status["nominatedNodeName"] = pod.nominated
    if pod.leaving:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T02:00:00Z"
        made["metadata"]["finalizers"] = ["compare/kept"]
    return {**made, "spec": spec, "status": status}


def as_time(minute: int) -> str:
    """A minute of the first hours of 2026."""
    return f"2026-01-01T{minute // 60:02d}:{minute % 60:02d}:00Z"


def shown(amounts: dict[str, int]) -> dict[str, str]:
    """Amounts as Kubernetes writes them."""
    return {name: f"{amount}Gi" if name == "memory" else str(amount) for name, amount in amounts.items()}


def as_object(version: str, kind: str, name: str, **parts: Raw | str) -> Raw:
    """An object with its name, and what else is given."""
    meta: Raw = {"name": name, "uid": f"{kind}-{name}".lower()}
    for key in ("namespace", "labels", "annotations"):
        if key in parts:
            meta[key] = parts.pop(key)
    return {"apiVersion": version, "kind": kind, "metadata": meta, **parts}

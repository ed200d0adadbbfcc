"""What must hold for every cycle of the one fuzzer, judged from manifests and from what the cycle asked for.

Shares no code with the scheduler. `tierwise.audit` judges the state that a cycle leaves; here are the rules about the
step itself: what was bound beside whom (victims of the cycle are still there), who was evicted for whom, and within
which budgets. Each fault begins with the name of its rule.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

__all__ = ["RULES", "Facts", "Reserved", "Seen", "Step", "amount", "judge"]

Manifest = dict[str, Any]
Amounts = Counter[str]

_UNITS: Final[Mapping[str, Fraction | int]] = {
    "": 1,
    "m": Fraction(1, 1000),
    "k": 10**3,
    "Ki": 2**10,
    "M": 10**6,
    "Mi": 2**20,
    "G": 10**9,
    "Gi": 2**30,
}
_HELD: Final = ("NoSchedule", "NoExecute")
_QUOTA: Final = "quota.scheduling.koordinator.sh/"


@dataclass(frozen=True)
class Reserved:
    """What a job has reserved: whether others are held back for it, and whose pods end before it begins."""

    cpu: Fraction
    pods: tuple[str, ...]  # of the job
    holds: bool
    short: frozenset[str]  # groups of Volcano's


@dataclass(frozen=True)
class Step:
    """One cycle: manifests before and after, and what was asked for."""

    before: tuple[Manifest, ...]
    after: tuple[Manifest, ...]
    bound: Mapping[str, str]
    nominated: Mapping[str, str]
    evicted: tuple[tuple[str, str, str], ...]  # pod, job that it goes for, action
    gained: Mapping[str, tuple[str, ...]]  # by job: the pods that the cycle gave a place
    pending: Mapping[str, Mapping[str, Any]]
    plugins: frozenset[str]  # of the configuration
    noticed: frozenset[str]  # pods that go once their notice has run out
    awaited: dict[str, str]  # pods with a place that are bound once their volumes or devices are there
    reserved: Mapping[str, Reserved]  # by job
    now: float  # seconds since the epoch


@dataclass
class Seen:
    """How often a run has seen what its rules are about."""

    cycles: int = 0
    binds: int = 0
    nominations: int = 0
    evictions: int = 0
    plans: int = 0  # of evictions, for which a second solver was asked whether idle room would do
    reclaims: int = 0
    repairs: int = 0
    beside_victims: int = 0  # binds in a cycle that also evicts
    half_gangs: int = 0  # gangs of which a part stood when the cycle began
    ruled_cycles: int = 0  # in which a pod with a rule between pods waits
    ruled_later: int = 0  # of those, the ones in which other pods stand
    later_cycles: int = 0
    restarts: int = 0
    read_anew: int = 0  # cycles that were decided a second time by a reader that began anew
    quiet_cycles: int = 0  # in which nothing happens, at the end of each history

    def lacks(self, least: Mapping[str, int]) -> dict[str, int]:
        """What of some things a run saw less than so often, and how often that was."""
        return {name: vars(self)[name] for name, number in least.items() if vars(self)[name] < number}

    def add(self, other: Seen) -> None:
        """Count another run as well."""
        for name, number in vars(other).items():
            setattr(self, name, getattr(self, name) + number)


def amount(text: object) -> Fraction:
    """A quantity as a number."""
    said = str(text)
    digits = said.rstrip("mkKMGi")
    return Fraction(digits) * _UNITS[said[len(digits) :]]


class Pod:
    """What the rules ask of a pod."""

    def __init__(self, raw: Manifest) -> None:
        self.meta, self.spec, self.status = raw["metadata"], raw["spec"], raw.get("status") or {}
        self.space = self.meta.get("namespace") or "default"
        self.path = f"{self.space}/{self.meta['name']}"
        self.labels: Mapping[str, str] = self.meta.get("labels") or {}
        self.marks: Mapping[str, str] = self.meta.get("annotations") or {}
        self.node: str = self.spec.get("nodeName") or ""
        self.ended = self.status.get("phase") in ("Succeeded", "Failed")
        self.leaving = "deletionTimestamp" in self.meta
        self.holds = bool(self.node) and not self.ended
        self.priority: int = self.spec.get("priority") or 0
        self.ports = {
            (p.get("hostPort"), p.get("protocol", "TCP"))
            for c in self.spec["containers"]
            for p in c.get("ports", ())
            if p.get("hostPort")
        }

    @cached_property
    def need(self) -> Amounts:
        total: Amounts = Counter(pods=1)
        for box in self.spec["containers"]:
            resources = box.get("resources") or {}
            for name, text in {**resources.get("limits", {}), **resources.get("requests", {})}.items():
                total[name] += amount(text)  # type: ignore[assignment]
        return total

    def terms(self, side: str) -> list[Manifest]:
        found = (self.spec.get("affinity") or {}).get(side) or {}
        return list(found.get("requiredDuringSchedulingIgnoredDuringExecution") or ())


class Facts:
    """What the rules ask of a step."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.old = {p.path: p for p in map(Pod, _kind(step.before, "Pod"))}
        self.new = {p.path: p for p in map(Pod, _kind(step.after, "Pod"))}
        self.nodes: dict[str, Manifest] = {raw["metadata"]["name"]: raw for raw in _kind(step.before, "Node")}
        self.victims = {path for path, _, _ in step.evicted}
        self.fresh = [self.new[path] for path in step.bound if path in self.new and self.new[path].node in self.nodes]

    def label(self, node: str, key: str) -> str | None:
        raw = self.nodes.get(node)
        return (raw["metadata"].get("labels") or {}).get(key) if raw is not None else None

    def allowed(self, pod: Pod, node: str) -> bool:
        """Whether a node's labels meet what a pod requires."""
        labels = self.nodes[node]["metadata"].get("labels") or {}
        if any(labels.get(key) != value for key, value in (pod.spec.get("nodeSelector") or {}).items()):
            return False
        required = ((pod.spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        )
        return required is None or any(
            all(_holds(one, labels.get(one["key"])) for one in term.get("matchExpressions", ()))
            for term in required["nodeSelectorTerms"]
        )


def _kind(raws: Iterable[Manifest], kind: str, group: str = "") -> list[Any]:
    return [raw for raw in raws if raw["kind"] == kind and (not group or str(raw["apiVersion"]).startswith(group))]


def _holds(one: Manifest, value: str | None) -> bool:
    listed = one.get("values") or []
    return {
        "In": value in listed,
        "NotIn": value not in listed,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[one["operator"]]


def _selects(selector: Manifest | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    return all(labels.get(k) == v for k, v in (selector.get("matchLabels") or {}).items()) and all(
        _holds(one, labels.get(one["key"])) for one in selector.get("matchExpressions") or ()
    )


# -- binds


def _node(facts: Facts) -> Iterator[str]:
    """A pod is bound to a node that is open to it: no taint that it does not tolerate, no cordon, its labels."""
    for pod in facts.fresh:
        spec = facts.nodes[pod.node].get("spec") or {}
        taints = [*(spec.get("taints") or ())]
        if spec.get("unschedulable"):
            taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
        for taint in taints:
            if taint["effect"] in _HELD and not any(_tolerates(t, taint) for t in pod.spec.get("tolerations") or ()):
                yield f"taint: {pod.path} on {pod.node} with {taint['key']}"
        if not facts.allowed(pod, pod.node):
            yield f"node affinity: {pod.path} on {pod.node}"


def _windows(facts: Facts) -> Iterator[str]:
    """Nobody is bound to a node while a window closes it: these are for nobody, and say their times in UTC."""
    for window in _kind(facts.step.before, "Window"):
        spec = window["spec"]
        begin = datetime.fromisoformat(spec["start"]).timestamp()
        end = begin + int(spec["duration"].removesuffix("s"))
        for pod in facts.fresh if begin <= facts.step.now < end else ():
            if pod.node in spec["nodes"]:
                yield f"window: {pod.path} on {pod.node}, closed by {window['metadata']['name']}"


def _tolerates(one: Manifest, taint: Manifest) -> bool:
    if one.get("effect") not in (None, "", taint["effect"]) or one.get("key") not in (None, "", taint["key"]):
        return False
    return one.get("operator") == "Exists" or one.get("value", "") == taint.get("value", "")


def _room(facts: Facts) -> Iterator[str]:
    """A node that takes a pod holds all that are on it, victims included, and later all that are nominated there."""
    news = {**facts.step.nominated, **facts.step.bound}
    now: dict[str, Amounts] = {}
    later: dict[str, Amounts] = {}
    for pod in facts.new.values():
        if pod.holds:
            now.setdefault(pod.node, Counter()).update(pod.need)
        stays = pod.holds and not pod.leaving and pod.path not in facts.step.noticed
        goal = pod.node if stays else pod.status.get("nominatedNodeName") or ""
        if goal and not pod.ended:
            later.setdefault(goal, Counter()).update(pod.need)
    for when, load, concerned in (
        ("now", now, {pod.node: pod for pod in facts.fresh}),
        ("later", later, {node: facts.new[path] for path, node in news.items() if path in facts.new}),
    ):
        for node, pod in concerned.items():
            if node not in facts.nodes:
                continue
            has = {n: amount(q) for n, q in facts.nodes[node]["status"]["allocatable"].items()}
            for name in pod.need:
                if load[node][name] > has.get(name, 0):
                    yield f"oversubscribed {when}: {node} has {has.get(name, 0)} of {name} for {load[node][name]}"


def _ports(facts: Facts) -> Iterator[str]:
    """A host port has one pod on a node, one that is being evicted included."""
    for pod in facts.fresh:
        for other in facts.new.values():
            if other is not pod and other.holds and other.node == pod.node and pod.ports & other.ports:
                yield f"host port: {pod.path} beside {other.path} on {pod.node}"


def _anti_affinity(facts: Facts) -> Iterator[str]:
    """Nobody is bound beside a pod that excludes it, or that it excludes, also where that one is a victim."""
    holding = [pod for pod in facts.new.values() if pod.holds]
    for pod in facts.fresh:
        for other in holding:
            if other is pod:
                continue
            for one, two in ((pod, other), (other, pod)):
                for term in one.terms("podAntiAffinity"):
                    key = term["topologyKey"]
                    here = facts.label(pod.node, key)
                    near = here is not None and here == facts.label(other.node, key)
                    if near and one.space == two.space and _selects(term.get("labelSelector"), two.labels):
                        told = "victim " if other.path in facts.victims else ""
                        yield f"anti-affinity: {pod.path} on {pod.node} beside {told}{other.path}"


def _affinity(facts: Facts) -> Iterator[str]:
    """A pod that must be near others is, unless it is the first of them and one of them itself.

    Pods that wait for nothing but their volumes count where they will be, as in Kubernetes.
    """
    lonely: dict[tuple[str, str], str] = {}
    awaited = facts.step.awaited
    for pod in facts.fresh:
        for term in pod.terms("podAffinity"):
            key, selector = term["topologyKey"], term.get("labelSelector")
            others = [o for o in facts.new.values() if o.holds or o.path in awaited]
            others = [o for o in others if o is not pod and o.space == pod.space and _selects(selector, o.labels)]
            others = [
                o for o in others if (o.node or awaited[o.path]) in facts.nodes
            ]  # a node that is gone has no place
            here = facts.label(pod.node, key)
            if here is not None and any(facts.label(o.node or awaited[o.path], key) == here for o in others):
                continue
            first = lonely.setdefault((pod.space, repr(term)), pod.path) == pod.path
            before = any(o.path in facts.old and facts.old[o.path].holds for o in others)
            if here is None or before or not first or not _selects(selector, pod.labels):
                yield f"affinity: {pod.path} on {pod.node} is near none of {sorted(o.path for o in others)}"


def _spread(facts: Facts) -> Iterator[str]:
    """Skews hold where every pod of the cycle that counts has the same rule: later binds only raise the least.

    Pods that wait for nothing but their volumes or devices count where they will be, as in Kubernetes.
    """
    places = facts.step.awaited | {p.path: p.node for p in facts.new.values() if p.holds}
    for pod in facts.fresh:
        for rule in pod.spec.get("topologySpreadConstraints") or ():
            if rule.get("whenUnsatisfiable", "DoNotSchedule") != "DoNotSchedule":
                continue
            selector, key = rule.get("labelSelector"), rule["topologyKey"]
            counted = [
                p
                for p in facts.new.values()
                if places.get(p.path) in facts.nodes
                and p.space == pod.space
                and _selects(selector, p.labels)
                # As in Kubernetes, what was on its way out before does not count; a victim of the cycle does.
                and not (p.path in facts.old and facts.old[p.path].leaving)
            ]
            news = [p for p in counted if p.path in facts.step.bound or p.path in facts.step.awaited]
            mine = pod in counted
            same = [p for p in news if rule in (p.spec.get("topologySpreadConstraints") or ())]
            if not mine or len(same) < len(news):
                continue
            if any(facts.allowed(p, n) != facts.allowed(pod, n) for p in same for n in facts.nodes):
                continue  # whose nodes are others counts over others
            open_nodes = [n for n in facts.nodes if facts.allowed(pod, n) and facts.label(n, key) is not None]
            sums = Counter({str(facts.label(n, key)): 0 for n in open_nodes})
            sums.update(str(facts.label(places[p.path], key)) for p in counted if places[p.path] in open_nodes)
            least = min(sums.values(), default=0) if len(sums) >= (rule.get("minDomains") or 1) else 0
            here = facts.label(pod.node, key)
            if here is None or sums[here] - least > rule["maxSkew"]:
                yield f"spread: {pod.path} on {pod.node}: {dict(sums)} with a skew of {rule['maxSkew']}"


# -- evictions


def _evictions(facts: Facts) -> Iterator[str]:
    """Only who may go goes, once, and for somebody who is given a place."""
    for path, number in Counter(path for path, _, _ in facts.step.evicted).items():
        pod = facts.old.get(path)
        if number > 1 or pod is None or not pod.holds or pod.leaving:
            yield f"evicted twice: {path}"
        if path in facts.step.bound:
            yield f"bound and evicted: {path}"
    for path, by, action in facts.step.evicted:
        victim = facts.old[path]
        lost = _lost(facts, victim)
        if action == "giveback" or lost or not by:
            continue
        gainers = [facts.old[p] for p in facts.step.gained.get(by, ()) if p in facts.old]
        if not gainers and action != "repair":
            yield f"in vain: {path} for {by} by {action}"
        if any(p.spec.get("preemptionPolicy") == "Never" for p in gainers) and "preempt" in action:
            yield f"never preempts: {by} took {path} by {action}"
        if "preempt" in action and gainers and victim.priority >= max(p.priority for p in gainers):
            own = path in {p.path for p in gainers} or _group(victim) == _group(gainers[0])
            if not own:
                yield f"not less important: {path} for {by} by {action}"


def _group(pod: Pod) -> str:
    return str(pod.labels.get("gang") or pod.path)


def _lost(facts: Facts, pod: Pod) -> bool:
    """Whether the node of a pod is gone or does not answer."""
    raw = facts.nodes.get(pod.node)
    return raw is None or not _answers(raw)


def _answers(node: Manifest) -> bool:
    """Whether a node is ready: what others have is no part of the cluster that queues share."""
    return all(c["status"] == "True" for c in node["status"].get("conditions") or () if c["type"] == "Ready")


def _budgets(facts: Facts) -> Iterator[str]:
    """All actions of a cycle together keep every disruption budget; a pod whose node is lost is no loss.

    As in Kubernetes, its own preemption only prefers to keep them: profiles of its kind have no plugin for them.
    """
    for raw in _kind(facts.step.before, "PodDisruptionBudget") if "pdb" in facts.step.plugins else ():
        space = raw["metadata"]["namespace"]
        covered = [
            path
            for path in sorted(facts.victims)
            if facts.old[path].space == space
            and not _may_be_borrowed(facts, path)
            and _selects(raw["spec"]["selector"], facts.old[path].labels)
            and not _lost(facts, facts.old[path])
        ]
        if len(covered) > raw["status"]["disruptionsAllowed"]:
            yield f"budget: {space}/{raw['metadata']['name']} allows {raw['status']['disruptionsAllowed']}: {covered}"


def _may_be_borrowed(facts: Facts, path: str) -> bool:
    """Whether a pod went for another tenant, in a profile that knows what queues deserve.

    What of it was more than its queue deserves is for the property of victims to judge, in worlds without trees.
    """
    if not facts.step.plugins & {"capacity", "proportion", "elasticquota"}:
        return False
    for victim, by, action in facts.step.evicted:
        if victim == path and (
            action == "giveback" or "reclaim" in action or by.partition("/")[0] != facts.old[path].space
        ):
            return action != "repair"
    return False


def _whole_disruption(facts: Facts) -> Iterator[str]:
    """A group of Kubernetes' own that is disrupted as a whole loses all pods or none."""
    for raw in _kind(facts.step.before, "PodGroup", "scheduling.k8s.io"):
        mode = raw["spec"].get("disruptionMode")
        if mode != "PodGroup" and not (isinstance(mode, dict) and "all" in mode):
            continue
        space, name = raw["metadata"]["namespace"], raw["metadata"]["name"]
        pods = [p for p in facts.old.values() if p.space == space and p.holds and not p.leaving]
        pods = [p for p in pods if (p.spec.get("schedulingGroup") or {}).get("podGroupName") == name]
        gone = [p.path for p in pods if p.path in facts.victims and not _lost(facts, p)]
        if gone and len(gone) < len([p for p in pods if not _lost(facts, p)]):
            yield f"half disrupted: {space}/{name} loses {gone} of {len(pods)}"


def _preemptable(facts: Facts) -> Iterator[str]:
    """Nobody takes from a pod that is marked to stay, itself or by its group, but what its job has agreed to itself.

    It agrees to its restart by repair where it asks for one, and to give back spares where it borrows them.
    """
    groups = _kind(facts.step.before, "PodGroup", "scheduling.volcano.sh")
    firm = {f"{raw['metadata']['namespace']}/{raw['metadata']['name']}" for raw in groups if _stays(raw["metadata"])}
    for path, by, action in facts.step.evicted:
        pod = facts.old[path]
        marked = _stays(pod.meta) or pod.labels.get(f"{_QUOTA}preemptible") == "false" or _path_of_group(pod) in firm
        if not marked or _lost(facts, pod) or _may_be_borrowed(facts, path):
            continue
        own = _own_keys(facts, pod.space, _group(pod))
        if by:
            space, _, owner = by.partition("/")
            lender = _own_keys(facts, space, owner)
            agreed = own.get(_BORROWS) == "true" and lender.get(_SPARES, "0") != "0"
        else:
            agreed = own.get(_ON_LOSS, "replace") != "replace"
        if action != "repair" or not agreed:
            yield f"not preemptable: {path} by {action}"


_BORROWS, _SPARES, _ON_LOSS = "tierwise.io/borrows-spares", "tierwise.io/spares", "tierwise.io/on-node-loss"


def _stays(meta: Manifest) -> bool:
    """Whether an object is marked as not preemptable, in the way of Volcano's."""
    return "false" in ((meta.get(part) or {}).get("volcano.sh/preemptable") for part in ("annotations", "labels"))


def _own_keys(facts: Facts, space: str, name: str) -> dict[str, str]:
    """What the objects of a gang say in annotations; worlds name all of them after the gang."""
    found: dict[str, str] = {}
    for raw in facts.step.before:
        meta = raw["metadata"]
        same = meta["name"].partition("-")[0] == name.partition("-")[0]
        if same and (meta.get("namespace") or "default") == space:
            found |= meta.get("annotations") or {}
    return found


class Queues:
    """Queues of Volcano's as their objects declare them: a tree, each with what may be used, is owed and is kept."""

    def __init__(self, facts: Facts) -> None:
        raws = _kind(facts.step.before, "Queue", "scheduling.volcano.sh")
        self.specs: dict[str, Manifest] = {raw["metadata"]["name"]: raw["spec"] for raw in raws}
        self._groups = {
            f"{raw['metadata']['namespace']}/{raw['metadata']['name']}": raw["spec"].get("queue") or "default"
            for raw in _kind(facts.step.before, "PodGroup", "scheduling.volcano.sh")
        }
        has = [amount(raw["status"]["allocatable"]["cpu"]) for raw in facts.nodes.values() if _answers(raw)]
        self._everything = sum(has, Fraction(0))
        # Elastic quotas stand beside the outermost queues, with what they are guaranteed.
        owed = [raw["spec"].get("min") or {} for raw in _kind(facts.step.before, "ElasticQuota")]
        self._quotas = sum((amount(quota.get("cpu", 0)) for quota in owed), Fraction(0))

    def named(self, pod: Pod) -> bool:
        """Whether a pod is in a group of Volcano's, which names a queue, and has no quota of its own."""
        return _path_of_group(pod) in self._groups and f"{_QUOTA}name" not in pod.labels

    def of(self, pod: Pod) -> str:
        return self._groups.get(_path_of_group(pod), "default")

    def chain(self, name: str) -> list[str]:
        """A queue and those above it."""
        found: list[str] = []
        while name in self.specs and name not in found:
            found.append(name)
            name = self.specs[name].get("parent") or ""
        return found

    def cpu(self, name: str, part: str) -> Fraction | None:
        """What a queue declares of cpu; None where it does not."""
        spec = self.specs.get(name, {}).get(part) or {}
        said = (spec.get("resource") or {} if part == "guarantee" else spec).get("cpu")
        return None if said is None else amount(said)

    def most(self, name: str) -> Fraction:
        """What a queue may ever use: its capability, and of what is above it all but the guarantees beside it."""
        above = self.specs[name].get("parent") or ""
        outer = self.most(above) if above in self.specs else self._everything
        beside = [q for q, spec in self.specs.items() if q != name and (spec.get("parent") or "") == above]
        kept = outer - sum((self.cpu(q, "guarantee") or Fraction(0) for q in beside), Fraction(0))
        kept = max(kept - (self._quotas if above not in self.specs else 0), Fraction(0))
        own = self.cpu(name, "capability")
        return max(kept if own is None else min(own, kept), self.cpu(name, "guarantee") or Fraction(0))


def _reclaims(facts: Facts) -> Iterator[str]:
    """Reclaiming takes from other queues that allow it, and leaves them what they deserve and are guaranteed.

    At every level up to the queue that both share. Where the profile has capacity, what a queue deserves is declared;
    all that it can be said to hold counts: what comes to it in the cycle, and what is on its way out.
    """
    queues = Queues(facts)
    taken: dict[str, Fraction] = {}
    for path, by, action in facts.step.evicted:
        if "reclaim" not in action:
            continue
        victim = facts.old[path]
        mine = queues.of(victim)
        gainers = [facts.old[p] for p in facts.step.gained.get(by, ()) if p in facts.old]
        if queues.named(victim) and any(queues.named(g) and queues.of(g) == mine for g in gainers):
            yield f"reclaim: {path} for {by} of the same queue {mine}"
        if not queues.specs.get(mine, {}).get("reclaimable", True):
            yield f"reclaim: {path} of queue {mine}, which is not reclaimable"
        if "capacity" not in facts.step.plugins or not gainers:
            continue
        shared = queues.chain(queues.of(gainers[0]))
        for level, name in enumerate(queues.chain(mine)):
            if level and name in shared:
                break
            lost = taken.get(name, Fraction(0))
            taken[name] = lost + victim.need["cpu"]
            held = _held(facts, queues, name) - lost
            kept = queues.cpu(name, "guarantee")
            if kept and held - victim.need["cpu"] < kept:
                yield f"guarantee: queue {name} keeps {held - victim.need['cpu']} of its {kept} cpu, and loses {path}"
            deserved = queues.cpu(name, "deserved")
            owed = max(min(deserved or Fraction(0), queues.most(name)), kept or Fraction(0))
            if not level and owed and victim.need["cpu"] and held <= owed:
                yield f"deserved: queue {name} has {held} of the {owed} cpu that it deserves, and loses {path}"


def _held(facts: Facts, queues: Queues, name: str, *, least: bool = False) -> Fraction:
    """What of cpu a queue and those below it hold at most; `least`: for certain, once the cycle is over."""
    total = Fraction(0)
    for path in {*facts.old, *facts.new}:
        pod, old = facts.new.get(path) or facts.old[path], facts.old.get(path)
        stands = pod.holds and pod.node in facts.nodes and not pod.leaving and path not in facts.victims
        if not least:
            placed = (pod, *([old] if old else ()))
            stands = any(p.holds or (p.status.get("nominatedNodeName") and not p.ended) for p in placed)
            stands = stands or path in facts.step.nominated or path in facts.step.awaited
        if stands and name in queues.chain(queues.of(pod)) and (not least or queues.named(pod)):
            total += pod.need["cpu"]
    return total


def _guaranteed(facts: Facts) -> Iterator[str]:
    """No queue is given what others beside it, or beside one above it, are guaranteed."""
    if "capacity" not in facts.step.plugins:
        return
    queues = Queues(facts)
    asking = [pod for pod in facts.fresh if queues.named(pod) and pod.need["cpu"]]
    for name in sorted({above for pod in asking for above in queues.chain(queues.of(pod))}):
        held = _held(facts, queues, name, least=True)
        if held > queues.most(name):
            yield f"guaranteed to others: queue {name} has {held} cpu of the {queues.most(name)} that it may use"


def _reserved(facts: Facts) -> Iterator[str]:
    """What a job has reserved is charged to its queue: who comes later and stays finds that much less in it."""
    queues = Queues(facts)
    pods = {pod.path: pod for pod in facts.new.values()}
    for job, held in facts.step.reserved.items():
        owner = next((pods[path] for path in held.pods if path in pods), None)
        if owner is None or not held.holds or not queues.named(owner):
            continue
        later = [p for p in facts.fresh if queues.named(p) and queues.of(p) == queues.of(owner)]
        later = [p for p in later if p.priority < owner.priority and p.need["cpu"]]
        later = [p for p in later if _path_of_group(p) not in held.short]
        most = queues.cpu(queues.of(owner), "capability")
        used = _held(facts, queues, queues.of(owner), least=True)
        if later and most is not None and used + held.cpu > most:
            text = f"{later[0].path} is bound, so that its queue uses {used} of {most} cpu"
            yield f"reserved: {text}, and {job} has reserved {held.cpu}"


def _path_of_group(pod: Pod) -> str:
    return f"{pod.space}/{pod.marks.get('scheduling.k8s.io/group-name', '')}"


def _multiples(facts: Facts) -> Iterator[str]:
    """A domain that a gang of Koordinator's comes to holds a multiple of its pods, where the gang asks for that."""
    layered = bool(_kind(facts.step.before, "ClusterNetworkTopology")) and "coscheduling" in facts.step.plugins
    for raw in _kind(facts.step.before, "PodGroup", "scheduling.sigs.k8s.io") if layered else ():
        space, name = raw["metadata"]["namespace"], raw["metadata"]["name"]
        marks = raw["metadata"].get("annotations") or {}
        rules = json.loads(marks.get("gang.scheduling.koordinator.sh/network-topology-spec", "{}"))
        own = [p for p in facts.new.values() if p.space == space and p.labels.get(_KOORDINATOR) == name]
        news = {p.node for p in own if p.path in facts.step.bound and p.node in facts.nodes}
        for rule in rules.get("gatherStrategy", ()):
            number = rule.get("podCountMultiple") or 1
            for domain in {facts.label(node, rule["layer"]) for node in news} if number > 1 else ():
                inside = [p for p in own if p.holds and not p.leaving and facts.label(p.node, rule["layer"]) == domain]
                if len(inside) % number:
                    yield f"multiple: {space}/{name} has {len(inside)} pods in {domain}, and wants {number} at a time"


_KOORDINATOR: Final = "pod-group.scheduling.sigs.k8s.io"


# -- words


def _reasons(facts: Facts) -> Iterator[str]:
    """Every pod that waits is told why."""
    for path, pod in facts.new.items():
        if pod.node or pod.ended or pod.leaving or path in facts.step.nominated or path not in facts.old:
            continue
        told = facts.step.pending.get(path)
        if told is None:
            yield f"not listed as pending: {path}"
        elif not told["reason"] or not told["message"] or told["verdict"] not in ("never", "not-now", "not-allowed"):
            yield f"no reason: {path} {dict(told)}"


RULES: Final[tuple[Callable[[Facts], Iterator[str]], ...]] = (
    _node,
    _windows,
    _room,
    _ports,
    _anti_affinity,
    _affinity,
    _spread,
    _evictions,
    _budgets,
    _whole_disruption,
    _preemptable,
    _reclaims,
    _guaranteed,
    _reserved,
    _multiples,
    _reasons,
)


def judge(step: Step) -> list[str]:
    """Everything that is wrong with a step."""
    facts = Facts(step)
    return [fault for rule in RULES for fault in rule(facts)]

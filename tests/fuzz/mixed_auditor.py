"""Judges a cycle by the manifests before and after it: promises to every language, counted in exact numbers.

Reads plain manifests and decisions, parses amounts by itself and asks nothing of the scheduler.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import msgspec
from tests.support.evict_world import Step

__all__ = ["Cycle", "Promises", "audit", "quantity"]

Amounts = Counter[str]
Manifest = Mapping[str, Any]

_SUFFIXES = {
    **{s: Fraction(1024 ** (i + 1)) for i, s in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))},
    **{s: Fraction(10) ** (3 * (i - 3)) for i, s in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"))},
}
_GROUP, _LABEL = "scheduling.k8s.io/group-name", "pod-group.scheduling.sigs.k8s.io"
_GATHER = "gang.scheduling.koordinator.sh/network-topology-spec"
_QUOTA = "quota.scheduling.koordinator.sh/"
_WORDS = ("never", "not-now", "not-allowed")


class Promises(msgspec.Struct, frozen=True):
    """What a profile promises beyond what every profile does."""

    budgets: bool  # a disruption budget has a veto
    queues: bool  # preemption stays within a queue
    placing_first: bool  # what fits is bound before anybody is evicted
    shares: bool  # a plugin shares the cluster between queues, so that they may have less than their limits
    firm: bool  # non-preemptible pods keep within the min of their quota


class Cycle(msgspec.Struct, frozen=True):
    """One cycle: manifests before and after it, and what was decided."""

    before: tuple[Manifest, ...]
    after: tuple[Manifest, ...]
    steps: tuple[Step, ...]
    evictions: tuple[tuple[str, str, str], ...]  # pod, beneficiary, action
    pending: tuple[Mapping[str, Any], ...]
    fits: frozenset[str]  # pods that the same profile without evicting actions would have bound


def audit(cycle: Cycle, promises: Promises) -> list[str]:
    """Everything that is wrong with a cycle, each as "rule: what"."""
    facts = _Facts(cycle)
    checks = (_room, _gangs, _topology, _limits, _reasons, _verdicts, _idle_room, _evictions, _needless)
    found = [fault for check in checks for fault in check(facts, promises)]
    bound = {path for step in cycle.steps if step.bound for path in step.placed}
    found += [f"fits and is not bound: {path}" for path in sorted(cycle.fits - bound) if promises.placing_first]
    return found


def quantity(text: object) -> Fraction:
    """A quantity as an exact number."""
    word = str(text)
    digits = word.rstrip("KMGTPEikmun")
    return Fraction(digits) * _SUFFIXES[word[len(digits) :]]


def _amounts(given: Mapping[str, object]) -> Amounts:
    return Counter({name: quantity(text) for name, text in given.items()})


def path_of(raw: Manifest) -> str:
    """Namespace and name."""
    return f"{raw['metadata'].get('namespace', 'default')}/{raw['metadata']['name']}"


class _Pod:
    """A pod as its manifest has it."""

    def __init__(self, raw: Manifest) -> None:
        meta, spec = raw["metadata"], raw["spec"]
        self.path, self.labels = path_of(raw), meta.get("labels", {})
        self.space = self.path.split("/")[0]
        self.node: str = spec.get("nodeName", "")
        self.leaving = "deletionTimestamp" in meta
        self.nominated = raw.get("status", {}).get("nominatedNodeName", "")
        self.priority: int = spec.get("priority", 0)
        self.never = spec.get("preemptionPolicy") == "Never"
        self.selects = spec.get("nodeSelector", {})
        self.need: Amounts = Counter(pods=1)
        for container in spec["containers"]:
            self.need += _amounts(container.get("resources", {}).get("requests", {}))
        self.best_effort = set(self.need) == {"pods"}
        self.volcano = meta.get("annotations", {}).get(_GROUP, "")
        self.gang = self.labels.get(_LABEL, "")
        self.quota = self.labels.get(f"{_QUOTA}name", "") if not self.volcano else ""
        self.firm = self.labels.get(f"{_QUOTA}preemptible") == "false"
        self.critical = spec.get("priorityClassName", "").startswith("system-") or self.space == "kube-system"

    @property
    def stands(self) -> bool:
        return bool(self.node) and not self.leaving

    @property
    def group(self) -> tuple[str, str]:
        """The language and the key of its gang; a pod by itself is one of its own."""
        if self.volcano:
            return "Volcano", f"{self.space}/{self.volcano}"
        return ("Koordinator", f"{self.space}/{self.gang}") if self.gang else ("", self.path)


class _Facts:
    """What is to be known of a cycle."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self.old = {pod.path: pod for pod in map(_Pod, _kind(cycle.before, "Pod"))}
        self.new = {pod.path: pod for pod in map(_Pod, _kind(cycle.after, "Pod"))}
        self.bound = {p: n for step in cycle.steps if step.bound for p, n in step.placed.items()}
        self.expected = {p: n for step in cycle.steps if not step.bound for p, n in step.placed.items()}
        self.victims = {path for path, _, _ in cycle.evictions}
        self.has = {raw["metadata"]["name"]: _amounts(raw["status"]["allocatable"]) for raw in self.kind("Node")}
        self.open = {raw["metadata"]["name"] for raw in self.kind("Node") if not raw["spec"].get("unschedulable")}
        self.labels = {raw["metadata"]["name"]: raw["metadata"]["labels"] for raw in self.kind("Node")}
        self.groups = {
            (("Volcano" if "volcano" in raw["apiVersion"] else "Koordinator"), path_of(raw)): raw
            for raw in self.kind("PodGroup")
        }
        self.members: dict[tuple[str, str], list[_Pod]] = {}
        for pod in self.new.values():
            self.members.setdefault(pod.group, []).append(pod)

    def kind(self, name: str) -> list[Manifest]:
        return _kind(self.cycle.before, name)

    def places(self) -> dict[str, str]:
        """Where pods stand or are expected once everything decided has happened."""
        return {p: pod.node for p, pod in self.new.items() if pod.stands} | self.expected

    def queue(self, pod: _Pod) -> str:
        """The queue or quota in which a pod is counted."""
        group = self.groups.get(pod.group) if pod.volcano else None
        if group is not None:
            return f"queue {group['spec'].get('queue', 'default')}"
        return f"quota {pod.quota}"

    def limits(self) -> dict[str, Amounts]:
        """The limit of every queue and quota that has one."""
        found = {f"queue {raw['metadata']['name']}": raw["spec"].get("capability", {}) for raw in self.kind("Queue")}
        for raw in self.kind("ElasticQuota"):
            if raw["metadata"]["namespace"] == "koordinator-system":
                found[f"quota {raw['metadata']['name']}"] = raw["spec"]["max"]
        return {name: _amounts(limit) for name, limit in found.items()}

    def used(self, queue: str, paths: Iterable[str]) -> Amounts:
        """What these pods hold of a queue."""
        return _sum(self.new[path].need for path in paths if path in self.new and self.queue(self.new[path]) == queue)

    def domains(self, group: tuple[str, str]) -> list[set[str]] | None:
        """The sets of nodes in one of which a gang must be; None where it may be anywhere."""
        raw = self.groups.get(group)
        if raw is None:
            return None
        if group[0] == "Volcano":
            return self.hypernodes(raw["spec"].get("networkTopology"))
        noted = json.loads(raw["metadata"].get("annotations", {}).get(_GATHER, "{}") or "{}")
        must = [rule["layer"] for rule in noted.get("gatherStrategy", ()) if rule["strategy"] == "MustGather"]
        if not must:
            return None
        found: dict[tuple[str, ...], set[str]] = {}
        for node, labels in self.labels.items():
            path = [labels["SpineLayer"]]
            path += [labels.get("BlockLayer", f"only {node}")] if must[0] == "BlockLayer" else []
            found.setdefault(tuple(path), set()).add(node)  # a node without a block is a block of its own
        return list(found.values())

    def hypernodes(self, wanted: Manifest | None) -> list[set[str]] | None:
        """The hyperNodes that a hard limit allows; None where there is none."""
        tree = {raw["metadata"]["name"]: raw["spec"] for raw in self.kind("HyperNode")}
        limit = wanted["highestTierAllowed"] if wanted and wanted["mode"] == "hard" else None
        if limit is None or limit > max((spec["tier"] for spec in tree.values()), default=0):
            return None
        return [self._below(tree, name) for name, spec in tree.items() if spec["tier"] <= limit]

    def _below(self, tree: Mapping[str, Manifest], name: str) -> set[str]:
        names = [member["selector"]["exactMatch"]["name"] for member in tree[name]["members"]]
        inner = [self._below(tree, n) for n in names if n in tree]
        return set().union(*inner) | {n for n in names if n in self.has}


def _kind(raws: Iterable[Manifest], kind: str) -> list[Manifest]:
    return [raw for raw in raws if raw["kind"] == kind]


def _sum(needs: Iterable[Amounts]) -> Amounts:
    total: Amounts = Counter()
    for need in needs:
        total.update(need)
    return total


def _beyond(used: Amounts, limit: Amounts, named: Iterable[str]) -> list[str]:
    return [name for name in named if used[name] > limit[name]]


def _room(facts: _Facts, _: Promises) -> Iterator[str]:
    """A node that takes a pod has what all its pods ask for, of everything that the pod asks for."""
    for kind, given in (("now", facts.bound), ("once nominated pods have come", facts.expected)):
        places = facts.places()
        places |= {p: pod.node for p, pod in facts.new.items() if pod.node} if kind == "now" else {}
        if kind == "now":
            places = {p: n for p, n in places.items() if p not in facts.expected}
        for path, node in given.items():
            load = _sum(facts.new[other].need for other, at in places.items() if at == node)
            for name in _beyond(load, facts.has[node], facts.new[path].need):
                yield f"oversubscribed {kind}: {node} has {facts.has[node][name]} of {name} for {load[name]} ({path})"
            if node not in facts.open:
                yield f"closed node: {path} on {node}"


def _whole(facts: _Facts, group: tuple[str, str], there: Iterable[str]) -> bool:
    """Whether a gang has its minimums; pods that ask for nothing come with it, so they count."""
    raw, inside = facts.groups.get(group), set(there)
    if raw is None:
        return True
    pods = [pod for pod in facts.members.get(group, ()) if pod.path in inside or (pod.best_effort and not pod.node)]
    if len(pods) < raw["spec"]["minMember"]:
        return False
    for policy in raw["spec"].get("subGroupPolicy", ()):
        parts = Counter(pod.labels[policy["matchLabelKeys"][0]] for pod in pods)
        if sum(n >= policy["subGroupSize"] for n in parts.values()) < policy["minSubGroups"]:
            return False
    return True


def _gangs(facts: _Facts, _: Promises) -> Iterator[str]:
    """Whoever is given a place has its minimum at the end of the cycle: bound or, if it waits, nominated.

    A gang of Koordinator's that was whole once takes its pods one by one.
    """
    early = (None, "", "Pending", "PreScheduling", "Scheduling")
    before = {g for g, raw in facts.groups.items() if g[0] == "Koordinator" and _phase(raw) not in early}
    before |= {pod.group for pod in facts.old.values() if pod.node and pod.gang}
    standing = {path for path, pod in facts.new.items() if pod.stands}
    for step in facts.cycle.steps:
        for group in {facts.new[path].group for path in step.placed}:
            there = standing if step.bound else standing | facts.expected.keys()
            if group not in before and not _whole(facts, group, there):
                yield f"part of a gang: {group} by {step}"


def _topology(facts: _Facts, _: Promises) -> Iterator[str]:
    """Hard limits hold on the tree of the language in which they are written, for gangs and their sub-groups."""
    places = facts.places()
    for group in {facts.new[path].group for step in facts.cycle.steps for path in step.placed}:
        inside = [pod for pod in facts.members[group] if pod.path in places]
        allowed = facts.domains(group)
        nodes = {places[pod.path] for pod in inside}
        if allowed is not None and not any(nodes <= domain for domain in allowed):
            yield f"too wide: {group} on {sorted(nodes)}"
        raw = facts.groups.get(group)
        for policy in raw["spec"].get("subGroupPolicy", ()) if raw else ():
            allowed = facts.hypernodes(policy.get("networkTopology"))
            for part in {pod.labels["part"] for pod in inside} if allowed is not None else ():
                nodes = {places[pod.path] for pod in inside if pod.labels["part"] == part}
                if not any(nodes <= domain for domain in allowed or ()):
                    yield f"too wide: {group} part {part} on {sorted(nodes)}"


def _limits(facts: _Facts, promises: Promises) -> Iterator[str]:
    """No queue or quota that is given something is beyond its limit, and non-preemptible pods keep within min."""
    places, limits = facts.places(), facts.limits()
    placed = [facts.new[path] for path in (*facts.bound, *facts.expected)]
    for queue in sorted({facts.queue(pod) for pod in placed} & limits.keys()):
        used = facts.used(queue, places)
        given = {name for pod in placed if facts.queue(pod) == queue for name in pod.need}
        for name in _beyond(used, limits[queue], sorted(limits[queue].keys() & given)):
            yield f"beyond its limit: {queue} has {used[name]} of {name}, limit {limits[queue][name]}"
    for raw in facts.kind("ElasticQuota") if promises.firm else ():
        name, least = raw["metadata"]["name"], _amounts(raw["spec"]["min"])
        firm = [facts.new[path] for path in places if facts.new[path].firm and facts.new[path].quota == name]
        fresh = [pod for pod in firm if pod.path in facts.bound or pod.path in facts.expected]
        named = {n for pod in fresh for n in pod.need} & least.keys()
        if raw["metadata"]["namespace"] == "koordinator-system" and fresh:
            for resource in _beyond(_sum(pod.need for pod in firm), least, sorted(named)):
                yield f"beyond min: {name} of {resource}"


def _reasons(facts: _Facts, _: Promises) -> Iterator[str]:
    """Every pod without a place is listed, with a verdict, a reason and a message."""
    told = {entry["pod"]: entry for entry in facts.cycle.pending}
    for path, pod in facts.new.items():
        if pod.node or path in facts.expected:
            continue
        if path not in told:
            yield f"not listed as pending: {path}"
        elif not told[path]["reason"] or not told[path]["message"] or told[path]["verdict"] not in _WORDS:
            yield f"no reason: {path} {told[path]}"


def _verdicts(facts: _Facts, _: Promises) -> Iterator[str]:
    """A pod by itself is told never exactly where no node could hold it, were it empty."""
    for entry in facts.cycle.pending:
        pod = facts.new.get(entry["pod"])
        if pod is None or pod.group[0] or pod.selects:
            continue
        could = [node for node, has in facts.has.items() if not _beyond(pod.need, has, pod.need)]
        if entry["verdict"] == "never" and set(could) & facts.open and not pod.quota and _countable(pod.need):
            yield f"told never: {pod.path} would fit on {could}: {entry['message']}"
        if entry["verdict"] == "not-now" and not could:
            yield f"told not now: {pod.path} fits on no node: {entry['message']}"


def _idle_room(facts: _Facts, promises: Promises) -> Iterator[str]:
    """A gang of one size that fits what is idle, and that no queue or quota stands against, does not wait."""
    taken = {p: pod.node for p, pod in facts.new.items() if pod.node} | facts.expected
    idle = {node: facts.has[node].copy() for node in facts.open}
    for path, node in taken.items():
        if node in idle:
            idle[node].subtract(facts.new[path].need)
    limits, told = facts.limits(), {entry["pod"]: entry for entry in facts.cycle.pending}
    for group, pods in sorted(facts.members.items()):
        waiting = [pod for pod in pods if not pod.node and pod.path not in facts.expected]
        raw = facts.groups.get(group)
        if not waiting or any(p.selects or p.need != waiting[0].need for p in waiting) or (group[0] and raw is None):
            continue
        if raw is not None and raw["spec"].get("subGroupPolicy"):
            continue
        standing = [pod for pod in pods if pod.stands or pod.path in facts.expected]
        least = max(raw["spec"]["minMember"] if raw else 1, 1)
        if raw is not None and raw["spec"].get("minResources"):  # which must be idle in one place
            continue
        missing, queue = max(least - len(standing), 1), facts.queue(waiting[0])
        if len(waiting) < missing or promises.shares or waiting[0].quota or not _countable(waiting[0].need):
            continue
        more = facts.used(queue, taken)
        for _number in range(missing):
            more.update(waiting[0].need)
        limit = limits.get(queue, Counter())
        if _beyond(more, limit, limit.keys() & waiting[0].need.keys()):
            continue
        here = {taken[pod.path] for pod in standing}
        allowed = facts.domains(group) if facts.domains(group) is not None else [set(facts.has)]
        for domain in allowed or ():
            count = sum(_times(idle[node], waiting[0].need) for node in domain & idle.keys())
            if here <= domain and count >= missing:
                why = told.get(waiting[0].path, {}).get("message", "")
                yield f"waits for what is idle: {group} needs {missing}, {sorted(domain)} hold {count}: {why}"
                break


def _countable(need: Amounts) -> bool:
    """Whether nodes that have as much count with all of it: what a node counts with is limited (limits.md, amounts)."""
    return max(need.values()) < 2**50


def _times(idle: Amounts, need: Amounts) -> int:
    return max(min(int(idle[name] // number) for name, number in need.items() if number), 0)


def _evictions(facts: _Facts, promises: Promises) -> Iterator[str]:
    """Only who may go goes, once, for somebody who is whole afterwards, and within the budgets of all together."""
    placed = facts.bound.keys() | facts.expected.keys()
    there = {path for path, pod in facts.new.items() if pod.stands} | facts.expected.keys()
    for path, number in Counter(path for path, _, _ in facts.cycle.evictions).items():
        if number > 1 or not facts.old[path].stands:
            yield f"evicted twice: {path}"
    for path, by, action in facts.cycle.evictions:
        victim = facts.old[path]
        borrowed = promises.shares and ("reclaim" in action or action == "giveback")
        if victim.critical or (victim.firm and not borrowed):
            yield f"protected victim: {path} by {action}"
        if path in placed:
            yield f"placed and evicted: {path} by {action}"
        steps = [step for step in facts.cycle.steps if step.gang == by and step.action == action]
        gainers = [facts.old[p] for step in steps for p in step.placed]
        if not gainers:
            yield f"evicted for nobody: {path} for {by} by {action}"
            continue
        if not all(_whole(facts, pod.group, there) for pod in gainers):
            yield f"evicted in vain: {path} for {by} by {action}"
        if any(pod.never for pod in gainers):
            yield f"never preempts: {by} took {path} by {action}"
        own = action == "preempt" and victim.group == gainers[0].group
        same = facts.queue(victim) == facts.queue(gainers[0])
        if "preempt" in action and not own and victim.priority >= max(pod.priority for pod in gainers):
            yield f"not less important: {path} for {by} by {action}"
        if "preempt" in action and not same and promises.queues:
            yield f"of another queue: {path} for {by} by {action}"
        if "reclaim" in action and same:
            yield f"of the same queue: {path} for {by} by {action}"
    for raw in facts.kind("PodDisruptionBudget") if promises.budgets else ():
        labels, space = raw["spec"]["selector"].get("matchLabels", {}), raw["metadata"]["namespace"]
        covered = [
            v
            for v, _, action in facts.cycle.evictions
            if v.startswith(f"{space}/")
            and labels.items() <= facts.old[v].labels.items()
            and not (promises.shares and ("reclaim" in action or action == "giveback"))
        ]
        if len(covered) > raw["status"]["disruptionsAllowed"]:
            yield f"budget overrun: {raw['metadata']['name']} by {sorted(covered)}"


def _needless(facts: _Facts, promises: Promises) -> Iterator[str]:
    """No gang's victims could all have stayed beside everything that was placed.

    Where queues have shares, and quotas a runtime, pods of one make way for each other also where only that is short.
    A gang that loses its nodes in the cycle may have held them while another gang, served before it, needed room.
    A domain must have what minResources say, which may be more than the pods of the gang ask for.
    """
    held = {path: pod.nominated for path, pod in facts.old.items() if pod.nominated and path in facts.new}
    places, limits = held | facts.places(), facts.limits()
    bundles: dict[tuple[str, str, str], list[str]] = {}
    for path, by, action in facts.cycle.evictions:
        if action != "giveback":
            bundles.setdefault((*facts.old[path].group, by), []).append(path)
    for key, paths in sorted(bundles.items()):
        back = places | {path: facts.old[path].node for path in paths}
        nodes = {facts.old[path].node for path in paths}
        needs = {node: _sum(facts.new[p].need for p, at in back.items() if at == node) for node in nodes}
        full = any(_beyond(needs[node], facts.has[node], needs[node]) for node in nodes)
        gainers = [facts.old[p] for step in facts.cycle.steps if step.gang == key[2] for p in step.placed]
        queue = facts.queue(facts.old[paths[0]])
        shared = promises.shares or queue.startswith("quota ")
        for group in {gainer.group for gainer in gainers} & facts.groups.keys():
            least = _amounts(facts.groups[group]["spec"].get("minResources") or {})
            full = full or bool(_beyond(least, _sum(pod.need for pod in facts.members[group]), least))
        full = full or (shared and any(facts.queue(gainer) == queue for gainer in gainers))
        for queue in {facts.queue(facts.old[path]) for path in paths} & limits.keys():
            used = facts.used(queue, back)
            full = full or bool(_beyond(used, limits[queue], limits[queue]))
        if not full:
            yield f"needless: {sorted(paths)} for {key[2]}"


def _phase(raw: Manifest) -> str | None:
    return (raw.get("status") or {}).get("phase")

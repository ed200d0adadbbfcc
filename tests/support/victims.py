"""Random clusters in which pods exclude each other and some must go, and a judge for whom victims are still there.

Drawn as manifests: anti-affinity both ways, affinity, spread, host ports, claims for one pod, limits of drivers, zones
of volumes, devices, budgets, gangs that lose nodes, quotas that owe. The judge reads manifests and decisions alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from random import Random
from typing import Any

import msgspec
from tests.support import devices as dev
from tests.support import volumes as vol

from tierwise.config.profile import PluginChoice, Profile
from tierwise.framework.report import CycleReport
from tierwise.model.job import Status
from tierwise.model.snapshot import Snapshot

__all__ = ["Judged", "crowd", "judge", "profile"]

Manifest = dict[str, Any]
Places = Mapping[str, str]
"""Nodes by the names of pods; all of them are in one namespace."""

ZONE, HOST = vol.ZONE, "kubernetes.io/hostname"
_GROUP, _VOLCANO = "scheduling.k8s.io/group-name", "scheduling.volcano.sh/v1beta1"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_QUOTA, _ROOM = "quota.scheduling.koordinator.sh/name", "koordinator-system"


def profile(pick: Random) -> Profile:
    """Actions in any order, some of them twice, with and without budgets."""
    families = [("gangpreempt", "preempt"), ("gangreclaim", "reclaim"), ("jobpreempt", "podpreempt", "quotapreempt")]
    chosen = [pick.choice(family) for family in pick.sample(families, pick.randint(1, 3))]
    actions = ["allocate", "backfill", "giveback", *chosen, *pick.choices(["allocate", "backfill", *chosen], k=2)]
    pick.shuffle(actions)
    plugins = ["priority", "gang", "conformance", *(["pdb"] if pick.random() < 0.5 else [])]
    plugins += ["capacity", "predicates", "nodeorder", "network-topology-aware"]
    quotas = PluginChoice("elasticquota", {"delayEvictTime": "0s"})
    return Profile(tuple(actions), ((*map(PluginChoice, plugins), quotas),))


# -- clusters


class _Cluster(msgspec.Struct, frozen=True):
    """What does not change: nodes with their zone, cpus, devices and volumes that can be attached; volumes by claim."""

    zone: Mapping[str, str]
    cpu: Mapping[str, int]
    devices: Mapping[str, int]
    volumes: Mapping[str, int]
    reach: Mapping[str, tuple[bool, list[str]]]  # by claim: whether it is for one pod, and the zones of its volume

    def value(self, node: str, key: str) -> str:
        return node if key == HOST else self.zone[node]


def crowd(pick: Random) -> list[Manifest]:
    """A cluster: what runs has a low priority and stands as the rules allow, what waits has a high one."""
    names = [f"n{i}" for i in range(pick.randint(3, 5))]
    zones = [f"z{i}" for i in range(2)]
    cluster = _Cluster(
        {name: zones[i % len(zones)] for i, name in enumerate(names)},
        {name: pick.randint(1, 3) for name in names},
        {name: pick.choice((0, 1, 2)) for name in names},
        {name: pick.choice((1, 1, 2)) for name in names},
        {},
    )
    found = [*_nodes(pick, cluster), dev.device_class(), vol.storage_class()]
    for name in ("default", "other"):
        found.append(_object(_VOLCANO, "Queue", name, {"reclaimable": True, "deserved": {"cpu": pick.choice("0124")}}))
    found += [{**_object("scheduling.k8s.io/v1", "PriorityClass", f"p{p}", {}), "value": p} for p in (1, 9)]
    for name in "ef" if pick.random() < 0.3 else "":
        quota = {"min": {"cpu": pick.choice("013")}, "max": {"cpu": "9"}}
        found.append(_object("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", name, quota, namespace=_ROOM))
    if pick.random() < 0.4:
        spec = {"selector": {"matchLabels": {"app": pick.choice("ab")}}}
        budget = _object("policy/v1", "PodDisruptionBudget", "b", spec, namespace="default")
        found.append(budget | {"status": {"disruptionsAllowed": pick.choice((0, 1))}})
    pods: dict[str, Manifest] = {}
    places: dict[str, str] = {}
    for number in range(pick.randint(6, 10)):
        runs = number < 5
        found += _gang(pick, cluster, f"{'v' if runs else 'w'}{number}", pods, places, runs=runs)
    return found


def _nodes(pick: Random, cluster: _Cluster) -> Iterator[Manifest]:
    lost = pick.choice(sorted(cluster.zone)) if pick.random() < 0.4 else ""
    for name, zone in cluster.zone.items():
        status: Manifest = {"allocatable": {"cpu": str(cluster.cpu[name]), "memory": "64Gi", "pods": "20"}}
        status["conditions"] = [{"type": "Ready", "status": "Unknown" if name == lost else "True"}]
        labels = {HOST: name, ZONE: zone}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}
        yield vol.csi_node(name, csi_test=cluster.volumes[name])
        if cluster.devices[name]:
            yield dev.resource_slice(name, [dev.device(f"d{i}") for i in range(cluster.devices[name])])
    for zone in sorted(set(cluster.zone.values())):
        members = [n for n, z in cluster.zone.items() if z == zone]
        listed = [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in members]
        yield _object("topology.volcano.sh/v1alpha1", "HyperNode", f"r-{zone}", {"tier": 1, "members": listed})


def _gang(
    pick: Random, cluster: _Cluster, name: str, pods: dict[str, Manifest], places: dict[str, str], *, runs: bool
) -> Iterator[Manifest]:
    """Pods of one kind; those that should run and have no place are left out."""
    app, cpu = pick.choice("ab"), pick.choice(("1", "1", "1", "2", ""))
    rules, ported = _rules(pick, app, runs=runs), pick.random() < 0.15
    port = {"ports": [{"containerPort": 80, "hostPort": 8080}]} if ported else {}
    alone, quota, own = pick.random() < 0.4, pick.choice("ef"), []
    falls_as_one = runs and not alone and pick.random() < 0.25
    for i in range(pick.choice((1, 1, 2, 3))):
        asks = {"resources": {"requests": {"cpu": cpu}}} if cpu else {}
        spec: Manifest = {"schedulerName": "tierwise", "priority": 1 if runs else 9, **rules}
        spec["containers"] = [{"name": "c", "image": "x", **asks, **port}]
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": name, "controller": True}
        labels = {"app": app} | ({_QUOTA: quota} if alone else {})
        meta = {"namespace": "default", "uid": f"uid-{name}-{i}", "labels": labels, "ownerReferences": [owner]}
        raw = _object("v1", "Pod", f"{name}-{i}", spec, **meta) | {"status": {"phase": "Pending"}}
        raw["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        if falls_as_one:
            spec["schedulingGroup"] = {"podGroupName": name}
        elif not alone:
            raw["metadata"]["annotations"] = {_GROUP: name}
        storage = [*_volume(pick, cluster, raw, runs=runs), *_device(pick, raw)]
        pods[f"{name}-{i}"] = raw
        if runs and not _stand(pick, cluster, raw, storage, pods, places):
            del pods[f"{name}-{i}"]
            continue
        own.append(raw)
        yield from storage
    if own and falls_as_one:
        spec = {"schedulingPolicy": {"gang": {"minCount": pick.randint(1, len(own))}}, "disruptionMode": "PodGroup"}
        yield _object("scheduling.k8s.io/v1alpha2", "PodGroup", name, spec, namespace="default")
    elif own and not alone:
        queue, least = pick.choice(("default", "default", "other")), pick.randint(1, len(own))
        spec = {"minMember": least, "queue": queue, "priorityClassName": "p1" if runs else "p9"}
        group = _object(_VOLCANO, "PodGroup", name, spec, namespace="default") | {"status": {"phase": "Inqueue"}}
        wish = pick.choice(("replace", "restart-all", ""))
        group["metadata"]["annotations"] = {"tierwise.io/on-node-loss": wish} if runs and wish else {}
        yield group
    yield from own


def _rules(pick: Random, app: str, *, runs: bool) -> Manifest:
    """Rules between pods; pods that run have anti-affinity alone."""
    kind = pick.choice(("", "away", "away") if runs else ("away", "away", "near", "even", ""))
    key = pick.choice((ZONE, HOST))
    term = {"labelSelector": {"matchLabels": {"app": pick.choice("ab")}}, "topologyKey": key}
    if kind == "even":
        even = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
        return {"topologySpreadConstraints": [even | {"labelSelector": {"matchLabels": {"app": app}}}]}
    sides = {"away": "podAntiAffinity", "near": "podAffinity"}
    return {"affinity": {sides[kind]: {_REQUIRED: [term]}}} if kind else {}


def _volume(pick: Random, cluster: _Cluster, raw: Manifest, *, runs: bool) -> list[Manifest]:
    """A claim of its own with a volume in some zones, or one that another pod has and only one may use at a time."""
    name, kind = raw["metadata"]["name"], pick.choice(("", "", "", "own", "once", "once"))
    if not kind:
        return []
    claim, storage = f"c-{name}", list[Manifest]()
    known = [other for other, (once, _) in cluster.reach.items() if once]
    if kind == "once" and known and not runs:
        claim = pick.choice(known)
    else:
        mode = "ReadWriteOncePod" if kind == "once" else "ReadWriteOnce"
        every = sorted(set(cluster.zone.values()))
        zones = [pick.choice(every)] if pick.random() < 0.4 else every
        cluster.reach[claim] = kind == "once", zones  # type: ignore[index]
        csi: Manifest = {"csi": {"driver": "csi.test", "volumeHandle": f"h-{name}"}, "accessModes": [mode]}
        storage = [vol.claim(claim, to=f"pv-{name}", modes=(mode,))]
        storage.append(vol.volume(f"pv-{name}", of=claim, affinity=vol.within(ZONE, *zones), **csi))
    raw["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    return storage


def _device(pick: Random, raw: Manifest) -> list[Manifest]:
    if pick.random() < 0.8:
        return []
    name = f"d-{raw['metadata']['name']}"
    raw["spec"]["resourceClaims"] = [{"name": "d", "resourceClaimName": name}]
    return [dev.claim(name, dev.exactly())]


def _stand(
    pick: Random,
    cluster: _Cluster,
    raw: Manifest,
    storage: list[Manifest],
    pods: dict[str, Manifest],
    places: dict[str, str],
) -> bool:
    """Put a pod where it may be beside what stands already, if there is such a node."""
    name = raw["metadata"]["name"]
    for node in pick.sample(sorted(cluster.zone), len(cluster.zone)):
        if list(_faults(cluster, pods, places | {name: node}, {name: 0})):
            continue
        for one in storage if raw["spec"].get("resourceClaims") else ():
            if one["kind"] == "ResourceClaim":
                taken = sum(bool(pods[other]["spec"].get("resourceClaims")) for other, n in places.items() if n == node)
                status = dev.prepared(one["metadata"]["name"], name, where=node)["status"]
                result = status["allocation"]["devices"]["results"][0]  # type: ignore[index]
                status["allocation"]["devices"]["results"] = [  # type: ignore[index]
                    {"request": "gpu", "driver": result["driver"], "pool": node, "device": f"d{taken}"}
                ]
                one["status"] = status
        places[name] = raw["spec"]["nodeName"] = node
        raw["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
        if pick.random() < 0.08:
            raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:10:00Z"
        return True
    return False


def _object(version: str, kind: str, name: str, spec: Manifest, **meta: object) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **meta}, "spec": spec}


# -- the judge


class Judged(msgspec.Struct):
    """What was seen, and what is wrong."""

    evictions: int = 0
    binds: int = 0
    beside: int = 0  # binds that a rule could keep from the node or zone of a victim of the same cycle
    together: int = 0  # victims of groups that fall as one
    kinds: Counter[str] = msgspec.field(default_factory=Counter)  # of evictions, by action
    faults: list[str] = msgspec.field(default_factory=list)


def judge(manifests: list[Manifest], before: Snapshot, report: CycleReport, seen: Judged) -> None:
    """Look at every bind of a cycle with all that stood before it in place, the victims of the cycle among them."""
    cluster, pods = _cluster(manifests), {m["metadata"]["name"]: m for m in manifests if m["kind"] == "Pod"}
    tasks = [*(task for job in before.jobs for task in job.tasks), *before.others]
    there = [task for task in tasks if task.status in (Status.RUNNING, Status.RELEASING) and task.node >= 0]
    names, rows = before.nodes.names, before.nodes.rows
    places = {_name(task.key): names[rows[task.node]] for task in there}
    going = {_name(task.key) for task in there if task.status is Status.RELEASING}
    victims = [_name(eviction.task.key) for eviction in report.evictions]
    seen.evictions += len(victims)
    seen.kinds.update(eviction.action for eviction in report.evictions)
    seen.faults += [f"evicted twice: {name}" for name, n in Counter(victims).items() if n > 1 or name in going]
    seen.faults += _budgets(manifests, places, report, pods)
    seen.faults += _halves(places, going, {*victims}, pods)
    seen.together += sum("schedulingGroup" in pods[name]["spec"] for name in victims)
    new: dict[str, int] = {}  # the decision of each pod that was bound
    zones = {cluster.zone[places[victim]] for victim in victims if victim in places}
    for number, decision in enumerate(report.decisions):
        for placed in decision.placed if decision.bound else ():
            for task, row in zip(placed.tasks, placed.rows.tolist(), strict=True):
                new[_name(task.key)], places[_name(task.key)] = number, names[row]
                seen.beside += cluster.zone[names[row]] in zones
    seen.binds += len(new)
    seen.faults += _faults(cluster, pods, places, new, going)


def _name(path: str) -> str:
    return path.partition("/")[2]


def _cluster(manifests: list[Manifest]) -> _Cluster:
    zone, cpu, devices, volumes = {}, {}, {}, {}
    modes: dict[str, bool] = {}
    reach: dict[str, list[str]] = {}
    for raw in manifests:
        name = raw["metadata"]["name"]
        if raw["kind"] == "Node":
            zone[name], cpu[name] = raw["metadata"]["labels"][ZONE], int(raw["status"]["allocatable"]["cpu"])
        elif raw["kind"] == "CSINode":
            volumes[name] = raw["spec"]["drivers"][0]["allocatable"]["count"]
        elif raw["kind"] == "ResourceSlice":
            devices[raw["spec"]["nodeName"]] = len(raw["spec"]["devices"])
        elif raw["kind"] == "PersistentVolumeClaim":
            modes[name] = "ReadWriteOncePod" in raw["spec"]["accessModes"]
        elif raw["kind"] == "PersistentVolume":
            terms = raw["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
            reach[raw["spec"]["claimRef"]["name"]] = terms[0]["matchExpressions"][0]["values"]
    return _Cluster(zone, cpu, devices, volumes, {claim: (once, reach[claim]) for claim, once in modes.items()})


def _budgets(manifests: list[Manifest], places: Places, report: CycleReport, pods: Mapping[str, Any]) -> Iterator[str]:
    """What repair takes that is healthy keeps within every budget."""
    lost = {
        raw["metadata"]["name"]
        for raw in manifests
        if raw["kind"] == "Node" and raw["status"]["conditions"][0]["status"] != "True"
    }
    for raw in manifests:
        if raw["kind"] == "PodDisruptionBudget":
            app, allowed = raw["spec"]["selector"]["matchLabels"]["app"], raw["status"]["disruptionsAllowed"]
            taken = [_name(e.task.key) for e in report.evictions if e.action == "repair"]
            gone = [n for n in taken if places.get(n, "") not in lost and _app(pods[n]) == app]
            if len(gone) > allowed:
                yield f"repair breaks a budget: {gone}, {allowed} allowed"


def _halves(places: Places, going: Collection[str], victims: Collection[str], pods: Mapping[str, Any]) -> Iterator[str]:
    """Groups that fall as one and lose a part."""
    groups: dict[str, list[str]] = {}
    for name in places:
        if "schedulingGroup" in pods[name]["spec"] and name not in going:
            groups.setdefault(pods[name]["spec"]["schedulingGroup"]["podGroupName"], []).append(name)
    for group, members in groups.items():
        gone = [name for name in members if name in victims]
        if gone and len(gone) < len(members):
            yield f"{group} falls as one, and {gone} of {members} go"


def _faults(
    cluster: _Cluster,
    pods: Mapping[str, Any],
    places: Places,
    new: Mapping[str, int],
    going: Collection[str] = (),
) -> Iterator[str]:
    """Rules that are broken where some pods are `new`, everybody being in place; with the number of its decision."""
    for name in sorted(new):
        node = places[name]
        there = [other for other, n in places.items() if n == node]
        if sum(_cpu(pods[other]) for other in there) > cluster.cpu[node]:
            yield f"{name}: {node} is full"
        if _ported(pods[name]) and sum(_ported(pods[other]) for other in there) > 1:
            yield f"{name}: the port of {node} is taken"
        if sum(_has_device(pods[other]) for other in there) > cluster.devices.get(node, 0) and _has_device(pods[name]):
            yield f"{name}: {node} has too few devices"
        claims = {claim for other in there for claim in _claims(pods[other])}
        if _claims(pods[name]) and len(claims) > cluster.volumes[node]:
            yield f"{name}: {node} has too many volumes"
        for claim in _claims(pods[name]):
            once, zones = cluster.reach[claim]
            if once and sum(claim in _claims(pods[other]) for other in places) > 1:
                yield f"{name}: claim {claim} has another user"
            if cluster.zone[node] not in zones:
                yield f"{name}: {node} does not reach claim {claim}"
        yield from _between(cluster, pods, places, name, new, going)


def _between(
    cluster: _Cluster,
    pods: Mapping[str, Any],
    places: Places,
    name: str,
    new: Mapping[str, int],
    going: Collection[str],
) -> Iterator[str]:
    """Affinity, anti-affinity of one or the other, and spread, whichever of the new ones came first."""
    node, others = places[name], [other for other in places if other != name]
    for one, other in [*((name, other) for other in others), *((other, name) for other in others)]:
        for key, app in _terms(pods[one], "podAntiAffinity"):
            if _app(pods[other]) == app and cluster.value(places[one], key) == cluster.value(places[other], key):
                yield f"{name}: {one} excludes {other} in {cluster.value(node, key)}"
    for key, app in _terms(pods[name], "podAffinity"):
        met = [other for other in others if _app(pods[other]) == app]
        near = any(cluster.value(places[other], key) == cluster.value(node, key) for other in met)
        first = _app(pods[name]) == app and all(other in new for other in met)
        if not near and not first:
            yield f"{name}: nobody of {app} is near"
    for rule in pods[name]["spec"].get("topologySpreadConstraints", ()):
        key, app = rule["topologyKey"], _app(pods[name])
        numbers = Counter({cluster.value(n, key): 0 for n in cluster.zone})
        alike = [other for other in places if _app(pods[other]) == app and other not in going]
        numbers.update(cluster.value(places[other], key) for other in alike)
        later = [other for other in alike if new.get(other, new[name]) != new[name]]
        here = cluster.value(node, key)
        most = numbers[here] - sum(cluster.value(places[other], key) == here for other in later)
        if most - min(numbers.values()) > rule["maxSkew"]:
            yield f"{name}: {numbers} is uneven"


def _app(raw: Any) -> str:
    return str(raw["metadata"]["labels"]["app"])


def _cpu(raw: Any) -> int:
    return int(raw["spec"]["containers"][0].get("resources", {}).get("requests", {}).get("cpu", 0))


def _ported(raw: Any) -> bool:
    return "ports" in raw["spec"]["containers"][0]


def _has_device(raw: Any) -> bool:
    return "resourceClaims" in raw["spec"]


def _claims(raw: Any) -> list[str]:
    return [one["persistentVolumeClaim"]["claimName"] for one in raw["spec"].get("volumes", ())]


def _terms(raw: Any, side: str) -> list[tuple[str, str]]:
    found = raw["spec"].get("affinity", {}).get(side, {}).get(_REQUIRED, ())
    return [(term["topologyKey"], term["labelSelector"]["matchLabels"]["app"]) for term in found]

"""Clusters with everything in them, as plain manifests: what the one fuzzer draws, and how.

    world = World(Random(7))
    manifests = [*world.cluster(), *world.arrivals(3, low=True)]

Every kind of object, every annotation of tierwise's own and every rule for pods that scheduling reads is drawn by one
of the tables below; `test_fuzz_everything` compares them with the tables of the sources. Worlds are small and
full: a first wave of unimportant gangs asks for more than there is, so that whoever comes later starves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import pairwise
from random import Random
from typing import Any, Final

from tests.support import devices, languages, volumes

__all__ = [
    "FEATURES",
    "LANGUAGES",
    "NAMESPACES",
    "NOT_DRAWN_KEYS",
    "NOT_DRAWN_KINDS",
    "RULES",
    "SCENES",
    "Manifest",
    "World",
    "stamp",
]

Manifest = dict[str, Any]

NAMESPACES: Final = ("default", "team-b")
GPU: Final = "nvidia.com/gpu"
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
LAYERS: Final = ("BlockLayer", "SpineLayer")
_START: Final = 1_767_225_600  # 2026-01-01T00:00:00Z
_VOLCANO: Final = "scheduling.volcano.sh/v1beta1"
_QUOTA: Final = "quota.scheduling.koordinator.sh/"

NOT_DRAWN_KINDS: Final[Mapping[tuple[str, str], str]] = {
    ("", "Namespace"): "read for label selectors alone, which this drawing of pod affinity does not have",
    ("", "ConfigMap"): "written by the controllers of jobs, and not read by a cycle",
    ("", "Service"): "written by the controllers of jobs, and not read by a cycle",
    ("networking.k8s.io", "NetworkPolicy"): "written by the controllers of jobs, and not read by a cycle",
    ("bus.volcano.sh", "Command"): "read by the controllers of jobs, and not by a cycle",
    (
        "storage.k8s.io",
        "CSIStorageCapacity",
    ): "its rules have an oracle of their own (tests/properties/test_volumes.py)",
    ("scheduling.koordinator.sh", "PodGroup"): "a second name of scheduling.sigs.k8s.io",
    ("scheduling.sigs.x-k8s.io", "AppGroup"): "a second name of appgroup.diktyo.x-k8s.io",
    ("scheduling.sigs.x-k8s.io", "NetworkTopology"): "a second name of networktopology.diktyo.x-k8s.io",
    ("tierwise.io", "Window"): "its rule has a virtual clock of its own (tests/properties/test_windows.py)",
    ("scheduling.k8s.io", "Workload"): "read for the templates of its groups' status, and not by a cycle",
}
"""Kinds that no world has, and why."""

_WRITTEN: Final = """
    caught coordinates decision depends-on device-binding-failed-at diminished-since expected-start hypernode made-for
    observed-revision partial-since quota-over-since rank reservation selected-at selected-node sub-groups tier topology
    unschedulable volume-binding-failed-at
"""
_SIMULATED: Final = "start-after stop-after run-for exit-code provision-after"
NOT_DRAWN_KEYS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_WRITTEN.split(), "written by tierwise itself, so that worlds have it from their second cycle on"),
    **dict.fromkeys(_SIMULATED.split(), "read by the simulated kubelet alone"),
    "family": "on definitions of kinds",
    "hold": "a held gang does nothing: drawn and judged by fuzz_eviction",
    "amounts": "on HyperNodes: drawn and judged by tests/properties/test_amounts.py",
    "sizes": "drawn and judged by tests/properties/test_sizes.py",
    "no-group": "written on pods of workloads whose spec.scheduling is not understood, which wait",
    "job-plugins": "written on pods of Volcano Jobs with plugins that do not act, which wait",
    "unread-fields": "written on pods of workloads with fields that are not read, which wait",
}
"""Keys below tierwise.io/ that no world has, and why."""


def stamp(seconds: float) -> str:
    """A moment as Kubernetes writes it, counted from the start of all worlds."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(_START + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _object(version: str, kind: str, name: str, spec: Manifest, **rest: object) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **rest}, "spec": spec}


class World:
    """Draws one cluster, and later what comes to it.

    What it has `always` (a feature, a language that most gangs are in, or a kind of tree) is not left to chance.
    """

    def __init__(self, pick: Random, always: Collection[str] = ()) -> None:
        self.pick = pick
        self.now = 0.0
        self._serial = 0
        self._low = True  # whether an unimportant gang is drawn
        self._ports = (8080, 9090)
        self.nodes = [f"n{i}" for i in range(pick.randint(3, 5))]
        self._rack = {name: f"r{i * 3 // len(self.nodes)}" for i, name in enumerate(self.nodes)}
        # Not everything at once: what a world has is drawn first, so that every pair of things meets in some world.
        # Each by a chance of its own, so that a new feature leaves worlds without it as they are.
        # Some worlds are plain: where everything is in the way of a gang, nobody is evicted for it.
        key, chance = pick.random(), pick.choice((0.1, 0.35))
        scene = Random(f"{key} scene")
        drawn = scene.choice(sorted(SCENES)) if not always and scene.random() < 0.25 else ""
        self.scene = next((name for name in SCENES if name in always), drawn)
        sure = {*always, *SCENES.get(self.scene, ())}
        self.has = {name: name in sure or Random(f"{key} {name}").random() < chance for name in FEATURES}
        self.has["windows"] = "windows" in sure  # asked for alone: worlds without them stay as they are
        rules = Random(f"{key} rules between pods")
        if not sure and rules.random() < _RULED:
            self.has[rules.choice(RULES)] = True
        self.trees = pick.choice(("hypernodes", "hypernodes", "layers", "labels", "both"))
        self.trees = next((name for name in TREES if name in always), self.trees)
        # Gangs of one language meet each other: half of a world's are in one.
        language = pick.choice(("volcano", *sorted(LANGUAGES)))
        self.language = next((name for name in LANGUAGES if name in always), "volcano" if self.scene else language)
        self._owners = Random(f"{key} owners")
        self._sets = Random(f"{key} gangs of sets")

    # -- what is there before anybody comes

    def cluster(self) -> list[Manifest]:
        """Nodes under their trees, queues, quotas, budgets, classes, storage and devices."""
        found = [self._node(name) for name in self.nodes]
        found += self._trees()
        found += self._queues()
        found += [{**_object("scheduling.k8s.io/v1", "PriorityClass", f"p{p}", {}), "value": p} for p in range(10)]
        for raw in found[-10:]:
            del raw["spec"]
        if self.has["budgets"]:
            found += [self._budget(app, space) for app in ("a", "b") for space in NAMESPACES]
        if self.has["volumes"]:
            found += self._storage()
        if self.has["devices"]:
            found += self._devices()
        if self.has["services"]:
            found += self._services()
        if self.has["quotas"]:
            hard = {"requests.cpu": str(self.pick.randint(4, 16)), "pods": str(self.pick.randint(4, 20))}
            found.append(
                _object("v1", "ResourceQuota", "all", {"hard": hard}, namespace="team-b") | {"status": {"hard": hard}}
            )
        return found

    def _node(self, name: str) -> Manifest:
        pick = self.pick
        rack = self._rack[name]
        labels = {
            HOST: name,
            ZONE: f"z{int(rack[1:]) % 2}",
            languages.RACK: rack,
            languages.SPINE: f"s{int(rack[1:]) // 2}",
            "BlockLayer": rack,
            "SpineLayer": f"s{int(rack[1:]) // 2}",
            "disk": pick.choice(("ssd", "hdd")),
            "nvidia.com/gpu.clique": f"c{int(name[1:]) // 2}",
        }
        amounts = {
            "cpu": str(pick.choice((2, 3, 4, 4))),
            "memory": "8Gi",
            GPU: str(pick.choice((0, 2, 2))),
            "pods": "12",
        }
        amounts["cpu"] = _NODE_CPU.get(self.scene, amounts["cpu"])
        spec: Manifest = {}
        if self.has["taints"] and pick.random() < 0.4:
            spec["taints"] = [{"key": "pool", "value": "gpu", "effect": pick.choice(("NoSchedule", "NoExecute"))}]
        status: Manifest = {
            "allocatable": amounts,
            "capacity": dict(amounts),
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": stamp(0)}],
        }
        return {**_object("v1", "Node", name, spec, labels=labels), "status": status}

    def _trees(self) -> Iterator[Manifest]:
        racks: dict[str, list[str]] = {}
        for name, rack in self._rack.items():
            racks.setdefault(rack, []).append(name)
        if self.trees in ("hypernodes", "both"):
            for rack, inside in racks.items():
                yield _hypernode(rack, 1, "Node", inside, "rack")
            spines: dict[str, list[str]] = {}
            for rack in racks:
                spines.setdefault(f"s{int(rack[1:]) // 2}", []).append(rack)
            for spine, inner in spines.items():
                yield _hypernode(spine, 2, "HyperNode", inner, "spine")
        if self.has["fabrics"]:
            for i in range(0, len(self.nodes), 2):
                raw = _hypernode(f"nvl{i // 2}", 1, "Node", self.nodes[i : i + 2], "island")
                raw["metadata"]["labels"] = {"tierwise.io/fabric": "nvlink"}
                yield raw
        if self.trees in ("layers", "both"):
            chain = ("NodeTopologyLayer", *LAYERS, "")
            listed = [{"topologyLayer": n, "parentTopologyLayer": up, "labelKey": [n]} for n, up in pairwise(chain)]
            kind = "ClusterNetworkTopology"
            yield _object("scheduling.koordinator.sh/v1alpha1", kind, "default", {"networkTopologySpec": listed})
        yield languages.topology()  # KAI's
        yield languages.topology("kueue", of="kueue.x-k8s.io/v1beta1")
        yield _object("kueue.x-k8s.io/v1beta1", "ResourceFlavor", "gpus", {"topologyName": "kueue"})
        flavors = [{"name": "gpus", "resources": [{"name": "cpu", "nominalQuota": "100"}]}]
        groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
        yield _object(
            "kueue.x-k8s.io/v1beta1", "ClusterQueue", "all", {"resourceGroups": groups, "namespaceSelector": {}}
        )
        yield _object("kueue.x-k8s.io/v1beta1", "LocalQueue", "team", {"clusterQueue": "all"}, namespace="default")
        yield _object("scheduling.run.ai/v2", "Queue", "kai", {})

    def _queues(self) -> Iterator[Manifest]:
        pick = self.pick
        default: Manifest = {"weight": 1, "reclaimable": True}
        if self.has["rivals"] and self.has["capability"]:
            default["capability"] = {"cpu": str(pick.randint(3, 9))}
        if self.scene == "a queue that reserves":  # enough for one large pod on each node, and one small one
            default["capability"] = {"cpu": str(2 * len(self.nodes) + pick.choice((2, 3)))}
        yield _object(_VOLCANO, "Queue", "default", default)
        names = ("q0", "q1", "q2")
        for name in names:
            spec: Manifest = {"weight": pick.choice((1, 2)), "reclaimable": pick.random() < 0.8}
            if self.has["capability"] and pick.random() < 0.7:
                spec["capability"] = {"cpu": str(pick.randint(2, 8))}
            if pick.random() < 0.8:
                spec["deserved"] = {"cpu": str(pick.randint(1, 4))}
            if self.has["borrowing"] and name != "q0":  # one that has much, and one that is owed it
                spec["deserved"] = {"cpu": str(pick.randint(1, 6) if name == "q1" else 6)}
            if self.has["guarantee"] and pick.random() < 0.6:
                spec["guarantee"] = {"resource": {"cpu": str(pick.randint(1, 3))}}
            if self.has["queue-tree"] and name != "q0":
                spec["parent"] = "q0"
            if self.scene == "a queue with spares" and name == "q1":  # as much as half of the nodes have
                spec["capability"] = {"cpu": str(2 * len(self.nodes))}
            if self.scene == "a queue near its guarantee" and name == "q1":  # less than a pod is between it and all
                spec["deserved"], spec["guarantee"] = {"cpu": "3"}, {"resource": {"cpu": "3"}}
            yield _object(_VOLCANO, "Queue", name, spec)
        for name in ("e0", "e1") if self.has["elastic-quotas"] else ():
            quota = {"max": {"cpu": str(pick.randint(2, 6))}, "min": {"cpu": str(pick.choice((0, 1, 3)))}}
            yield _object(
                "scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", name, quota, namespace="koordinator-system"
            )

    def _budget(self, app: str, space: str) -> Manifest:
        raw = _object(
            "policy/v1",
            "PodDisruptionBudget",
            f"budget-{app}",
            {"selector": {"matchLabels": {"app": app}}},
            namespace=space,
        )
        return raw | {"status": {"disruptionsAllowed": self.pick.choice((0, 1, 1, 2))}}

    def _storage(self) -> list[Manifest]:
        found: list[Any] = [volumes.storage_class(), volumes.driver()]
        found += [volumes.csi_node(name, csi_test=self.pick.choice((1, 2))) for name in self.nodes]
        for i in range(6):
            modes = (("ReadWriteOncePod",), ("ReadWriteOnce",), ("ReadWriteMany",))[i // 2]
            csi = {"driver": "csi.test", "volumeHandle": f"h{i}"}
            found.append(volumes.claim(f"claim{i}", to=f"vol{i}", modes=modes))
            near = volumes.within(ZONE, f"z{i % 2}") if i in (1, 3) else None
            found.append(volumes.volume(f"vol{i}", of=f"claim{i}", affinity=near, csi=csi, accessModes=list(modes)))
        found += [volumes.claim(f"late{i}") for i in range(2)]
        found.append(volumes.attachment("old", of="vol2", on=self.nodes[0]))
        return found

    def _devices(self) -> list[Manifest]:
        found: list[Any] = [devices.device_class()]
        for name in self.nodes:
            made = [devices.device(f"d{i}", model=self.pick.choice(("a", "b"))) for i in range(2)]
            found.append(devices.resource_slice(name, made))
        wanted = ("", "device.attributes['gpu.example.com'].model == 'a'")
        found += [devices.claim(f"gpu{i}", devices.exactly(where=self.pick.choice(wanted))) for i in range(3)]
        found.append(devices.template("each", devices.exactly()))
        spec = {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "imex"}}}
        found.append(_object("resource.nvidia.com/v1beta1", "ComputeDomain", "nvl", spec, namespace="default"))
        return found

    def _services(self) -> list[Manifest]:
        workloads: list[Manifest] = [
            {"workload": {"kind": "Deployment", "name": f"w{i}", "selector": f"w{i}", "apiVersion": "apps/v1"}}
            for i in (1, 2)
        ]
        workloads[0]["dependencies"] = [
            {"workload": workloads[1]["workload"], "minBandwidth": "1Mi", "maxNetworkCost": 20}
        ]
        spec = {"numMembers": 2, "topologySortingAlgorithm": "KahnSort", "workloads": workloads}
        costs = [{"origin": f"z{i}", "costList": [{"destination": f"z{1 - i}", "networkCost": 30}]} for i in (0, 1)]
        weights = [{"name": "UserDefined", "topologyList": [{"topologyKey": ZONE, "originList": costs}]}]
        return [
            _object("appgroup.diktyo.x-k8s.io/v1alpha1", "AppGroup", "app", spec, namespace="default"),
            _object(
                "networktopology.diktyo.x-k8s.io/v1alpha1",
                "NetworkTopology",
                "net",
                {"configmapName": "net", "weights": weights},
                namespace="default",
            ),
        ]

    # -- what comes

    def arrivals(self, number: int, *, low: bool) -> list[Manifest]:
        """So many gangs and single pods in some language each; `low` ones are unimportant."""
        found: list[Manifest] = []
        for _ in range(number):
            chance, other = self.pick.random(), self.pick.choice(sorted(LANGUAGES))
            # Queues meet only where several gangs have them.
            queued = chance < (0.8 if self.has["borrowing"] or self.scene else 0.2)
            found += self.gang("volcano" if queued else self.language if chance < 0.7 else other, low=low)
        return found

    def gang(self, language: str, *, low: bool) -> list[Manifest]:
        """One gang, or a pod by itself, in a language."""
        pick, self._serial = self.pick, self._serial + 1
        name = f"g{self._serial}"
        self._low = low
        made: list[Any] = LANGUAGES[language](self, name)
        rivals = self.has["rivals"]
        priority = pick.choice((0, 0, 1)) if low else pick.choice((1, 1, 5, 9) if rivals else (1, 4, 5, 9))
        priority = (
            1 if self.scene == "a queue with spares" and (low or priority < 9) else priority
        )  # which equals leave alone
        space = "default" if language in _AT_HOME else pick.choice(NAMESPACES)
        app = pick.choice(("a", "a", "b") if rivals else ("", "a", "b"))
        firm = pick.random() < (0.3 if language in _ELASTIC else 0.2 if rivals else 0.08)
        # Pods of a gang mostly are of one kind.
        kinds = [self._kind(language, space, app, priority) for _ in range(pick.choice((1, 1, 1, 2)))]
        quota = pick.choice(("", "e0", "e1")) if self.has["elastic-quotas"] and language in _ELASTIC else ""
        marks = self._marks() if language not in ("plain", "pods") else {}
        for raw in made:
            meta = raw["metadata"]
            meta.setdefault("namespace", space)
            meta["creationTimestamp"] = stamp(self.now)
            meta["uid"] = f"{raw['kind']}-{meta['name']}-{int(self.now)}".lower()
            pods = [raw] if raw["kind"] == "Pod" else [t["template"] for t in raw["spec"].get("tasks", ())]
            for pod in pods:
                inner = pod.setdefault("metadata", {})
                inner["labels"] = {**inner.get("labels", {}), **({"app": app} if app else {}), "gang": name}
                if quota:
                    inner["labels"] |= {f"{_QUOTA}name": quota}
                    inner["labels"] |= {f"{_QUOTA}preemptible": "false"} if firm else {}
                self._dress(pod, pick.choice(kinds), priority)
            if raw["kind"] == "Pod" and language not in _BY_THEMSELVES and self._owners.random() < 0.8:
                made_by = {
                    "apiVersion": "apps/v1",
                    "kind": "StatefulSet",
                    "name": name,
                    "uid": name,
                    "controller": True,
                }
                meta["ownerReferences"] = [made_by]
            if raw["kind"] != "Pod":
                meta["annotations"] = {**meta.get("annotations", {}), **marks}
            if raw["kind"] in ("PodGroup", "Job") and raw["apiVersion"].split("/")[0].endswith("volcano.sh"):
                raw["spec"]["priorityClassName"] = f"p{priority}"
                if firm:
                    meta["annotations"] |= {"volcano.sh/preemptable": "false"}
        if marks and all(raw["kind"] == "Pod" for raw in made):  # languages without an object: the pods say it
            for raw in made:
                raw["metadata"]["annotations"] = {**raw["metadata"].get("annotations", {}), **marks}
        return made

    def _marks(self) -> dict[str, str]:
        """Annotations of tierwise's own that a tenant may write on a gang."""
        pick, found = self.pick, {}
        for key, values in _OWN.items():
            wanted = self.has["spares"] and key in ("spares", "on-node-loss")
            wanted |= self.has["reservations"] and key == "expected-duration"
            chance = _MARKED.get((self.scene, self._low, key), 0.5 if wanted else 0.2)
            if (self.has["own-keys"] or wanted) and pick.random() < chance:
                found[f"tierwise.io/{key}"] = pick.choice(values)
        if "tierwise.io/checkpointed-at" in found:
            found["tierwise.io/checkpointed-at"] = stamp(max(self.now - 60, 0))
        if self.has["fabrics"] and pick.random() < 0.3:
            mode, spread = pick.choice(("hard", "hard", "soft")), pick.choice(("", "", ', "spread": 2'))
            found["tierwise.io/topology-constraints"] = f'[{{"fabric": "nvlink", "tier": 1, "mode": "{mode}"{spread}}}]'
        of_sets = self.has["sets"] and not self.scene and self.trees in ("hypernodes", "both")  # scenes have no room
        if of_sets and self._sets.random() < 0.8:
            found |= self._of_a_set(found)
        return found

    def _of_a_set(self, marks: Mapping[str, str]) -> dict[str, str]:
        """The annotations of a gang that is part of a set: what it says of the other parts, and how they start."""
        pick = self._sets
        path = pick.choice(("serve", "serve/0", "serve/1", "train"))
        top = path.partition("/")[0]
        apart: Manifest = {"tier": "rack", "set": top, "apart": pick.choice((1, 1, 2, "40%"))}
        together: Manifest = {"tier": "spine", "set": path}
        rules = pick.choice(([apart], [apart], [together], [apart, together], [{**apart, "mode": "soft"}], []))
        known = json.loads(marks.get("tierwise.io/topology-constraints", "[]"))
        said = [*known, *({"fabric": "HyperNode", **rule} for rule in rules)]
        found: dict[str, str] = {"tierwise.io/set": path}
        if said:
            found["tierwise.io/topology-constraints"] = json.dumps(said)
        if pick.random() < 0.2:
            found["tierwise.io/set-start"] = "2"
        return found

    def _kind(self, language: str, space: str, app: str, priority: int) -> Manifest:
        """What the pods of one kind ask for, and which rules they have."""
        pick, spec = self.pick, dict[str, Any]()
        spec["asks"] = dict(pick.choice(_SIZES))
        if self.scene in _POD_CPU:
            spec["asks"] = {"cpu": _POD_CPU[self.scene]}
        if self.scene == "a queue that reserves" and not self._low and priority < 2:
            spec["asks"] = {"cpu": pick.choice(("500m", "1", "1"))}  # fits beside large ones, which wait for a moment
        if self.has["ports"] and pick.random() < 0.3:
            spec["port"] = pick.choice(self._ports)
        if self.has["taints"] and pick.random() < 0.6:
            spec["tolerations"] = [{"key": "pool", "operator": "Equal", "value": "gpu"}]
        if self.has["node-affinity"] and pick.random() < 0.4:
            terms = [
                {"matchExpressions": [{"key": "disk", "operator": pick.choice(("In", "NotIn")), "values": ["ssd"]}]}
            ]
            spec["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        if self.has["pod-affinity"] and pick.random() < 0.5:
            side = pick.choice(("podAntiAffinity", "podAntiAffinity", "podAffinity"))
            term = {
                "topologyKey": pick.choice((HOST, ZONE)),
                "labelSelector": {"matchLabels": {"app": pick.choice("ab")}},
            }
            spec[side] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        if self.has["spread"] and pick.random() < 0.6:
            rule: Manifest = {"maxSkew": pick.choice((1, 2)), "topologyKey": pick.choice((HOST, ZONE))}
            rule |= {"whenUnsatisfiable": pick.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"))}
            rule |= {"labelSelector": {"matchLabels": {"app": pick.choice((app or "a", "a", "b"))}}}
            if pick.random() < 0.5 and rule["whenUnsatisfiable"] == "DoNotSchedule":
                rule["minDomains"] = pick.choice((2, 3))
            spec["spread"] = [rule]
        if self.has["volumes"] and space == "default" and pick.random() < 0.6:
            spec["claims"] = [pick.choice(_CLAIMS)]
        if self.has["devices"] and space == "default" and pick.random() < 0.4:
            spec["devices"] = pick.choice(("gpu0", "gpu1", "gpu2", "each"))
        if self.has["services"] and language == "plain" and pick.random() < 0.6:
            spec["service"] = pick.choice(("w1", "w2"))
        spec["never"] = pick.random() < 0.1
        return spec

    def _dress(self, pod: Manifest, kind: Manifest, priority: int) -> None:
        """Give a pod, or the template of pods, what its kind has."""
        spec: Manifest = pod.setdefault("spec", {})
        box: Manifest = {"name": "c", "image": "i", "resources": {"requests": dict(kind["asks"])}}
        if "port" in kind:
            box["ports"] = [{"containerPort": kind["port"], "hostPort": kind["port"], "protocol": "TCP"}]
        spec |= {
            "containers": [box],
            "schedulerName": "tierwise",
            "priority": priority,
            "priorityClassName": f"p{priority}",
        }
        if pod["metadata"].get("annotations", {}).get("volcano.sh/task-spec") == "lead":
            box["resources"]["requests"]["cpu"] = "3"  # harder to place than those whom it leads
        sides = {s: kind[s] for s in ("nodeAffinity", "podAffinity", "podAntiAffinity") if s in kind}
        spec |= {"affinity": sides} if sides else {}
        spec |= {"tolerations": kind["tolerations"]} if "tolerations" in kind else {}
        spec |= {"topologySpreadConstraints": kind["spread"]} if "spread" in kind else {}
        spec |= {"preemptionPolicy": "Never"} if kind["never"] else {}
        if "claims" in kind:
            spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": name}} for name in kind["claims"]]
        if "devices" in kind:
            named = "resourceClaimTemplateName" if kind["devices"] == "each" else "resourceClaimName"
            spec["resourceClaims"] = [{"name": "d", named: kind["devices"]}]
        if "service" in kind:
            pod["metadata"]["labels"] |= {"appgroup.diktyo.x-k8s.io": "app"}
            pod["metadata"]["labels"] |= {"appgroup.diktyo.x-k8s.io.workload": kind["service"]}

    # -- languages

    def _volcano(self, name: str) -> list[Manifest]:
        pick, count = self.pick, self.pick.randint(1, 4)
        if not self._low and (self.has["borrowing"] or self.has["rivals"]):
            count = min(count, 2)
        if self.scene == "restarts" and self._low:
            count = max(count, 3)  # so that some are not on the node that is lost
        made: list[Any] = languages.volcano_gang(name, count, least=pick.choice((count, count, pick.randint(1, count))))
        spec = made[0]["spec"]
        spec["queue"] = pick.choice(("default", "q0", "q1", "q2"))
        if self.has["borrowing"] and pick.random() < 0.8:  # one queue has all before another comes
            spec["queue"], spec["minMember"] = ("q1", 1) if self._low else ("q2", count)
        elif self.scene == "a queue with spares":
            spec["queue"] = "q1" if self._low else "q2"
        elif (
            self.has["rivals"] or self.scene == "a queue that reserves"
        ):  # all in one queue, and what comes is small enough to find victims
            spec["queue"] = "default"
        if self.trees in ("hypernodes", "both") and pick.random() < 0.5:
            spec["networkTopology"] = {"mode": pick.choice(("hard", "soft")), "highestTierAllowed": pick.choice((1, 2))}
        if count == 4 and pick.random() < 0.5:
            policy: Manifest = {
                "name": "part",
                "subGroupSize": 2,
                "minSubGroups": pick.choice((1, 2)),
                "matchLabelKeys": ["part"],
            }
            policy["labelSelector"] = {"matchExpressions": [{"key": "part", "operator": "Exists"}]}
            if self.trees in ("hypernodes", "both"):
                policy["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
            spec["subGroupPolicy"] = [policy]
            for i, pod in enumerate(made[1:]):
                pod["metadata"]["labels"] = {"part": str(i // 2)}
        elif count > 1 and pick.random() < 0.3:
            spec["minTaskMember"] = {"lead": 1}
            spec["minMember"] = min(spec["minMember"], count - 1)  # the others are enough but for it
            for i, pod in enumerate(made[1:]):
                pod["metadata"]["annotations"]["volcano.sh/task-spec"] = "lead" if i == 0 else "work"
        if pick.random() < 0.2:
            spec["minResources"] = {"cpu": "1"}
        return made

    def _volcano_job(self, name: str) -> list[Manifest]:
        pick = self.pick
        tasks = [{"name": f"t{i}", "replicas": pick.randint(1, 2), "template": {}} for i in range(pick.choice((1, 2)))]
        least = sum(int(str(task["replicas"])) for task in tasks)
        spec = {
            "schedulerName": "tierwise",
            "queue": pick.choice(("default", "q1")),
            "minAvailable": least,
            "tasks": tasks,
        }
        return [_object("batch.volcano.sh/v1alpha1", "Job", name, spec)]

    def _koordinator(self, name: str) -> list[Manifest]:
        pick, count = self.pick, self.pick.randint(1, 4)
        least = pick.choice((count, pick.randint(1, count)))
        pods: list[Any] = languages.label_pods(name, count, "pod-group.scheduling.sigs.k8s.io")
        group = _object("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", name, {"minMember": least})
        if self.trees in ("layers", "both") and pick.random() < 0.5:
            strategy, multiple = pick.choice(("MustGather", "MustGather", "PreferGather")), pick.choice((1, 1, 2))
            rule = f'{{"layer": "{pick.choice(LAYERS)}", "strategy": "{strategy}", "podCountMultiple": {multiple}}}'
            key = "gang.scheduling.koordinator.sh/network-topology-spec"
            group["metadata"]["annotations"] = {key: f'{{"gatherStrategy": [{rule}]}}'}
        return [group, *pods]

    def _together(self, name: str) -> list[Manifest]:
        """Two gangs of Koordinator's that start together."""
        found: list[Manifest] = []
        for inner in (f"{name}-0", f"{name}-1"):
            group, *pods = self._koordinator(inner)
            prefix = "gang.scheduling.koordinator.sh/"
            group["metadata"]["annotations"] = {f"{prefix}groups": f'["default/{name}-0", "default/{name}-1"]'}
            found += [group, *pods]
        return found

    def _annotated(self, name: str) -> list[Manifest]:
        """A gang of Koordinator's without an object."""
        count, prefix = self.pick.randint(1, 3), "gang.scheduling.koordinator.sh/"
        marks = {f"{prefix}name": name, f"{prefix}min-available": str(count)}
        pods: list[Any] = [languages.pod(f"{name}-{i}", annotations=dict(marks)) for i in range(count)]
        return pods

    def _plugins(self, name: str) -> list[Manifest]:
        count = self.pick.randint(1, 4)
        made: list[Any] = languages.plugin_gang(name, count, least=self.pick.choice((count, max(count - 1, 1))))
        return made

    def _kubernetes(self, name: str) -> list[Manifest]:
        pick, count = self.pick, self.pick.randint(1, 4)
        key = languages.RACK if pick.random() < 0.4 else ""
        mode: Manifest = {"disruptionMode": pick.choice(({"single": {}}, {"all": {}}))} if pick.random() < 0.5 else {}
        made: list[Any] = languages.kubernetes_gang(
            name, count, least=pick.choice((count, max(count - 1, 1))), key=key, **mode
        )
        return made

    def _composite(self, name: str) -> list[Manifest]:
        outer: Any = languages.composite(name, 2)
        found = [outer]
        for i in range(2):
            inner: Any = languages.kubernetes_gang(
                f"{name}-{i}", 2, version="v1alpha3", parentCompositePodGroupName=name
            )
            found += inner
        return found

    def _kai(self, name: str) -> list[Manifest]:
        pick = self.pick
        sizes: Any = pick.choice((pick.randint(1, 4), {"a": 1, "b": 2}))
        body: Manifest = {"queue": "kai"}
        if isinstance(sizes, dict):
            body["subGroups"] = [{"name": sub, "minMember": number} for sub, number in sizes.items()]
        if pick.random() < 0.4:
            body["topologyConstraint"] = languages.near(required=pick.choice((languages.RACK, languages.SPINE)))
        made: list[Any] = languages.kai_gang(name, sizes, **body)
        return made

    def _kueue(self, name: str) -> list[Manifest]:
        asked = {"required_topology": languages.RACK} if self.pick.random() < 0.4 else {}
        made: list[Any] = languages.kueue_gang(name, self.pick.randint(1, 3), **asked)  # type: ignore[arg-type]
        return made

    def _kueue_workload(self, name: str) -> list[Manifest]:
        """Pods of a Workload that Kueue has admitted."""
        count = self.pick.randint(1, 3)
        flavor = {"name": "main", "flavors": {"cpu": "gpus"}, "count": count}
        spec = {
            "queueName": "team",
            "podSets": [{"name": "main", "count": count, "template": {"spec": {"containers": []}}}],
        }
        status = {
            "admission": {"clusterQueue": "all", "podSetAssignments": [flavor]},
            "conditions": [{"type": "Admitted", "status": "True", "reason": "Admitted", "message": ""}],
        }
        group = _object("kueue.x-k8s.io/v1beta1", "Workload", name, spec) | {"status": status}
        marks: Manifest = {
            "annotations": {"kueue.x-k8s.io/workload": name},
            "labels": {"kueue.x-k8s.io/podset": "main"},
        }
        pods: list[Any] = [languages.pod(f"{name}-{i}", **marks) for i in range(count)]
        return [group, *pods]

    def _grove(self, name: str) -> list[Manifest]:
        keys = {"a": languages.RACK} if self.pick.random() < 0.4 else {}
        made: list[Any] = languages.grove_gang(name, {"a": self.pick.randint(1, 2), "b": 1}, keys=keys)
        return made

    def _plain(self, name: str) -> list[Manifest]:
        pod: Any = languages.pod(name)
        return [pod]

    def _pods(self, name: str) -> list[Manifest]:
        """Equal pods of a service, which are served as one run."""
        owner = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": True}]
        pods: list[Any] = [languages.pod(f"{name}-{i}", ownerReferences=owner) for i in range(self.pick.randint(2, 5))]
        return pods


def _hypernode(name: str, tier: int, kind: str, inside: list[str], level: str) -> Manifest:
    members = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in inside]
    return _object(
        "topology.volcano.sh/v1alpha1", "HyperNode", name, {"tier": tier, "tierName": level, "members": members}
    )


LANGUAGES: Final[Mapping[str, Callable[[World, str], list[Manifest]]]] = {
    "volcano": World._volcano,
    "volcano job": World._volcano_job,
    "koordinator": World._koordinator,
    "koordinator by annotation": World._annotated,
    "koordinator together": World._together,
    "scheduler-plugins": World._plugins,
    "kubernetes": World._kubernetes,
    "kubernetes composite": World._composite,
    "kai": World._kai,
    "kueue": World._kueue,
    "kueue workload": World._kueue_workload,
    "grove": World._grove,
    "plain": World._plain,
    "pods": World._pods,
}
"""How gangs are declared."""

_SIZES: Final[tuple[Mapping[str, str], ...]] = (
    *({"cpu": "1"}, {"cpu": "1"}, {"cpu": "2"}, {"cpu": "2"}, {"cpu": "1", GPU: "1"}, {"cpu": "2", GPU: "1"}),
    *({"cpu": "500m"}, {"cpu": "1500m", "memory": "1Gi"}, {}),
)
"""What pods ask for; the last of them for nothing."""

_CLAIMS: Final = (*(f"claim{i}" for i in range(6)), "late0", "late1")
_BY_THEMSELVES: Final = ("kueue", "kueue workload", "plain", "pods")
"""Languages whose pods are told by their owners, or that have one."""
_AT_HOME: Final = ("kueue", "kueue workload", "kai", "koordinator together")
_ELASTIC: Final = ("koordinator", "koordinator by annotation", "plain", "pods")

_OWN: Final[Mapping[str, tuple[str, ...]]] = {
    "spares": ("1", "2", "1@rack", "9999"),
    "borrows-spares": ("true", "false"),
    "on-node-loss": ("replace", "restart-subgroup", "restart-all"),
    "expected-duration": ("5m", "2h"),
    "minimum-run-time": ("10m", "9999h"),
    "restart-cost": ("5m", "9999h"),
    "eviction-notice": ("2m", "1h"),
    "checkpointed-at": ("",),
    "topology-ladder": ("rack=10m,any", "rack=1m,spine=1h"),
    "pattern": ("dp=2,tp=2", "tp=2"),
    "ranks": ("0,1",),
    "fabric": ("nvlink", "HyperNode"),
}
"""Annotations of tierwise's own that tenants write, with values that some of them do."""

_NAMES: Final = """
    taints budgets volumes devices services quotas capability guarantee queue-tree elastic-quotas fabrics own-keys ports
    node-affinity pod-affinity spread borrowing rivals spares reservations sets windows
"""
FEATURES: Final = tuple(_NAMES.split())
"""What a world may have beside nodes, queues and gangs; some are of its configuration."""
RULES: Final = ("pod-affinity", "spread", "ports")
"""Those of them by which pods of a gang are in each other's way, or look for each other."""
_RULED: Final = 0.4
"""How many worlds surely have some of these, of those that are not about anything else."""
SCENES: Final[Mapping[str, tuple[str, ...]]] = {
    "a queue with spares": ("spares", "capability"),
    "restarts": ("spares", "budgets"),
    "a queue that reserves": ("reservations", "capability", "rivals"),
    "a queue near its guarantee": ("borrowing", "guarantee"),
}
"""What some worlds are about, each with the features that it needs; what chance alone brings together too rarely."""
_NODE_CPU: Final[Mapping[str, str]] = {"a queue with spares": "4", "a queue that reserves": "3"}
_POD_CPU: Final[Mapping[str, str]] = {
    "a queue with spares": "1",
    "a queue that reserves": "2",
    "a queue near its guarantee": "2",
}
_MARKED: Final[Mapping[tuple[str, bool, str], float]] = {
    ("a queue with spares", True, "spares"): 0.8,
    ("restarts", True, "on-node-loss"): 0.9,
    ("a queue that reserves", True, "expected-duration"): 0.9,
    ("a queue that reserves", False, "expected-duration"): 0.1,
}
"""How many of a scene's gangs, unimportant or not, have an annotation."""
TREES: Final = ("hypernodes", "layers", "labels", "both")
"""By what nodes are near each other."""

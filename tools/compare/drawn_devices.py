"""Random devices for a drawn cluster: slices of pools, classes, and claims that ask for devices or hold some."""

from __future__ import annotations

import random
from typing import Any

API = "resource.k8s.io/v1"
DRIVERS = ("gpu.example.com", "nic.example.com")
EXTENDED = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/"
Raw = dict[str, Any]


def draw(seed: int) -> tuple[list[Raw], list[str]]:
    """Nodes with devices, classes, claims that hold some of the devices, and the claims of one pod."""
    dice = random.Random(seed)
    nodes = [f"n{i}" for i in range(dice.randint(1, 3))]
    objects: list[Raw] = []
    for name in nodes:
        labels = {"zone": dice.choice("ab")}
        amounts = {"cpu": "8", "memory": "8Gi", "pods": "110"}
        objects.append(made("Node", name, {}, version="v1", labels=labels, status={"allocatable": amounts}))
    slices = [one for name in nodes for driver in DRIVERS if dice.random() < 0.7 for one in _pool(dice, name, driver)]
    if dice.random() < 0.3:
        slices += _shared_pool(dice)
    objects += slices
    for driver in DRIVERS:
        objects.append(made("DeviceClass", driver, {"selectors": [_cel(f'device.driver == "{driver}"')]}))
    objects.append(made("DeviceClass", "any", {"selectors": [_cel(_CONDITIONS[0])] if dice.random() < 0.3 else []}))
    held = _held(dice, slices)
    wanted = [_claim(dice, f"c{i}") for i in range(dice.choice((1, 1, 1, 2)))]
    return [*objects, *held, *wanted], [claim["metadata"]["name"] for claim in wanted]


def made(kind: str, name: str, spec: Raw, version: str = API, labels: Raw | None = None, **more: Any) -> Raw:
    """A manifest."""
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
        found.append(made("ResourceSlice", f"{name}-{driver}-{i}", spec))
    if partitioned:
        counters = [{"name": "card", "counters": {"memory": {"value": dice.choice(("40Gi", "80Gi"))}}}]
        spec = {"driver": driver, "nodeName": name, "pool": pool, "sharedCounters": counters}
        found.append(made("ResourceSlice", f"{name}-{driver}-counters", spec))
    if dice.random() < 0.1:
        spec = {
            "driver": driver,
            "nodeName": name,
            "pool": {**pool, "generation": 1},
            "devices": [_device(dice, "old")],
        }
        found.append(made("ResourceSlice", f"{name}-{driver}-old", spec))
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
    return [made("ResourceSlice", "shared", {"driver": driver, "pool": pool, "devices": devices, **how})]


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
    return made("ResourceClaim", name, {"devices": devices})


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
                made("ResourceClaim", f"held{len(found)}", {"devices": {"requests": [request]}}, status=status)
            )
    return found


def with_devices(dice: random.Random, objects: list[Raw]) -> list[Raw]:
    """The cluster with devices, and with claims in its pods; the last pod is the one to be placed."""
    nodes = [o for o in objects if o["kind"] == "Node"]
    for node in nodes:
        node["metadata"]["labels"]["zone"] = dice.choice("ab")
        node["status"]["allocatable"]["pods"] = "500"
        if dice.random() < 0.3:
            node["status"]["allocatable"][EXTENDED] = dice.choice(("0", "1", "4"))
    names = [node["metadata"]["name"] for node in nodes]
    slices = [one for name in names for driver in DRIVERS if dice.random() < 0.8 for one in _pool(dice, name, driver)]
    if dice.random() < 0.25:
        slices += _shared_pool(dice)
    for one in slices:
        for device in one["spec"].get("devices", ()):
            if dice.random() < 0.05:
                device["bindingConditions"], device["bindingFailureConditions"] = ["ready"], ["broken"]
                device["bindsToNode"] = dice.random() < 0.5
    pods = [o for o in objects if o["kind"] == "Pod"]
    for pod in pods:
        pod["metadata"] |= {"uid": f"uid-{pod['metadata']['name']}", "namespace": "default"}
        pod["metadata"].pop("deletionTimestamp", None)
    claims = _held(dice, slices)
    for claim in claims:
        _use(dice, claim, pods[:-1], slices)
    if claims and dice.random() < 0.04:
        objects = [*_crowd(dice.choice(claims), dice.choice((255, 256)), dice.choice(names)), *objects]
    entries, own, statuses = _wanted(dice, pods[-1], claims)
    pods[-1]["spec"]["resourceClaims"] = entries
    pods[-1]["status"]["resourceClaimStatuses"] = statuses
    _ask_for_extended(dice, pods[-1])
    for number, claim in enumerate([*claims, *own]):
        claim["metadata"] |= {"uid": f"uid-claim-{number}", "resourceVersion": "7"}
    if not entries:
        del pods[-1]["spec"]["resourceClaims"]
    return [*slices, *_classes(dice), *claims, *own, *objects]


def _classes(dice: random.Random) -> list[Raw]:
    found = []
    for i, driver in enumerate(DRIVERS):
        spec: Raw = {"selectors": [_cel(f'device.driver == "{driver}"')]}
        if dice.random() < 0.3:
            spec["config"] = [_setting(driver)]
        if dice.random() < (0.8, 0.2)[i]:
            spec["extendedResourceName"] = EXTENDED
        found.append(made("DeviceClass", driver, spec))
        found[-1]["metadata"]["creationTimestamp"] = dice.choice(("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"))
    found.append(made("DeviceClass", "any", {"selectors": [_cel(_CONDITIONS[0])] if dice.random() < 0.3 else []}))
    return [one for one in found if dice.random() < 0.97]


def _setting(driver: str) -> Raw:
    return {"opaque": {"driver": driver, "parameters": {"mode": "x"}}}


def _use(dice: random.Random, claim: Raw, pods: list[Raw], slices: list[Raw]) -> None:
    """Say who uses a claim that holds devices, and from where it can be reached."""
    status = claim["status"]
    (result,) = status["allocation"]["devices"]["results"]
    part = next(s["spec"] for s in slices if any(_is(result, s["spec"], d) for d in s["spec"].get("devices", ())))
    device = next(d for d in part["devices"] if _is(result, part, d))
    if part.get("nodeName"):
        fields = [{"key": "metadata.name", "operator": "In", "values": [part["nodeName"]]}]
        status["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": fields}]}
    if device.get("bindingConditions"):
        result |= {name: device[name] for name in ("bindingConditions", "bindingFailureConditions")}
        status["allocation"]["allocationTimestamp"] = dice.choice(("2026-01-01T00:00:00Z", "2100-01-01T00:00:00Z"))
        about = {"driver": result["driver"], "pool": result["pool"], "device": result["device"]}
        since = {"lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "x", "message": ""}
        conditions = [
            {"type": kind, "status": dice.choice(("True", "False")), **since}
            for kind in ("ready", "broken")
            if dice.random() < 0.5
        ]
        if dice.random() < 0.7:
            status["devices"] = [{**about, "conditions": conditions}]
    here = [p for p in pods if p["spec"]["nodeName"] == part.get("nodeName", p["spec"]["nodeName"])]
    users = dice.sample(here, min(len(here), dice.choice((0, 1, 1, 2))))
    status["reservedFor"] = [
        {"resource": "pods", "name": p["metadata"]["name"], "uid": p["metadata"]["uid"]} for p in users
    ]
    for pod in users:
        entries = pod["spec"].setdefault("resourceClaims", [])
        entries.append({"name": f"e{len(entries)}", "resourceClaimName": claim["metadata"]["name"]})


def _crowd(claim: Raw, number: int, node: str) -> list[Raw]:
    """So many pods that a claim is reserved for nearly as many as it can be, or for all of them."""
    found = []
    for i in range(number - len(claim["status"]["reservedFor"])):
        entry = {"name": "e0", "resourceClaimName": claim["metadata"]["name"]}
        container = {"name": "c", "image": "app:v1", "resources": {"requests": {"cpu": "0"}}}
        spec = {"nodeName": node, "schedulerName": "default-scheduler", "containers": [container]}
        pod = made("Pod", f"o{i}", {**spec, "resourceClaims": [entry]}, version="v1", status={"phase": "Running"})
        pod["metadata"]["uid"] = f"uid-o{i}"
        found.append(pod)
        claim["status"]["reservedFor"].append({"resource": "pods", "name": f"o{i}", "uid": f"uid-o{i}"})
    return found


def _is(result: Raw, part: Raw, device: Raw) -> bool:
    return (result["driver"], result["pool"], result["device"]) == (
        part["driver"],
        part["pool"]["name"],
        device["name"],
    )


def _wanted(dice: random.Random, pod: Raw, held: list[Raw]) -> tuple[list[Raw], list[Raw], list[Raw]]:
    """The entries of the pod that is placed, the claims of its own, and what its status says of them."""
    entries: list[Raw] = []
    own: list[Raw] = []
    statuses: list[Raw] = []
    for i in range(dice.choice((0, 1, 1, 1, 2))):
        entry, roll = {"name": f"e{i}"}, dice.random()
        claim = _claim(dice, f"c{i}")
        if dice.random() < 0.2:
            claim["spec"]["devices"]["config"] = [_setting("gpu.example.com")]
            if dice.random() < 0.5:
                claim["spec"]["devices"]["config"][0]["requests"] = ["r0"]
        if roll < 0.2 and held:
            entry["resourceClaimName"] = dice.choice(held)["metadata"]["name"]
        elif roll < 0.6:
            entry["resourceClaimName"] = f"c{i}" if dice.random() < 0.97 else "missing"
            own.append(claim)
        else:
            entry["resourceClaimTemplateName"] = "template"
            owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "controller": True}
            owner["uid"] = pod["metadata"]["uid"] if dice.random() < 0.95 else "other"
            if dice.random() < 0.98:
                claim["metadata"]["ownerReferences"] = [owner]
            own.append(claim)
            if dice.random() < 0.95:
                statuses.append({"name": f"e{i}", "resourceClaimName": f"c{i}"})
                if dice.random() < 0.05:
                    del statuses[-1]["resourceClaimName"]
        if dice.random() < 0.03:
            claim["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}
        entries.append(entry)
    return entries, own, statuses


def _ask_for_extended(dice: random.Random, pod: Raw) -> None:
    """Let containers ask for extended resources that classes serve, under their own names or those of classes."""
    if dice.random() < 0.6:
        return
    spec = pod["spec"]
    if dice.random() < 0.4:
        spec["initContainers"] = [{"name": "i0", "image": "app:v1", "resources": {"requests": {"cpu": "100m"}}}]
        if dice.random() < 0.4:
            spec["initContainers"][0]["restartPolicy"] = "Always"
    if dice.random() < 0.3:
        spec["containers"].append({"name": "c1", "image": "app:v1", "resources": {"requests": {"cpu": "100m"}}})
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        if dice.random() < 0.8:
            resource = dice.choice((EXTENDED, EXTENDED, f"{IMPLICIT}{DRIVERS[0]}", "other.com/none"))
            resource = EXTENDED if resource == "other.com/none" and dice.random() < 0.8 else resource
            amount = str(dice.choice((0, 1, 1, 2)))
            container["resources"]["requests"][resource] = amount
            container["resources"]["limits"] = {resource: amount}

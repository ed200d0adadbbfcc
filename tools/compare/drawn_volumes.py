"""Random storage for a drawn cluster: classes, volumes, claims, drivers, and pods that use them."""

from __future__ import annotations

import random
from typing import Any

ZONE, REGION, HOST = "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "kubernetes.io/hostname"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"
CLASSES = ("delayed", "static", "made", "immediate", "ebs")
DRIVERS = ("a.csi", "b.csi", "ebs.csi.aws.com", "pd.csi.storage.gke.io")
SIZES = ("1Gi", "2Gi", "5Gi", "1073741825", "2147483648500m")
MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
Raw = dict[str, Any]


def with_volumes(dice: random.Random, objects: list[Raw]) -> list[Raw]:
    """The cluster with storage, and with volumes in most of its pods; the last pod is the one to be placed."""
    nodes = [o for o in objects if o["kind"] == "Node"]
    for node in nodes:
        _place(dice, node)
    storage = [*_classes(dice), *_drivers(dice, nodes)]
    volumes: list[Raw] = []
    claims: dict[str, Raw] = {}
    for i in range(dice.randint(1, 7)):
        _claim(dice, f"c{i}", nodes, claims, volumes)
    for i in range(dice.randint(0, 5)):
        volumes.append(_volume(dice, f"free{i}", nodes, None))
    pods = [o for o in objects if o["kind"] == "Pod"]
    for pod in pods:
        pod["metadata"]["uid"] = f"uid-{pod['metadata']['name']}"
        pod["metadata"]["namespace"] = "default"
        wanted = pod is pods[-1]
        if wanted or dice.random() < 0.7:
            pod["spec"]["volumes"] = _mounted(dice, pod, list(claims), claims, nodes, volumes, wanted=wanted)
    attached = [
        _attachment(f"va{i}", dice.choice(volumes), dice.choice(nodes), dice)
        for i in range(dice.randint(0, 3))
        if volumes
    ]
    return [*storage, *volumes, *claims.values(), *attached, *objects]


def _place(dice: random.Random, node: Raw) -> None:
    labels = node["metadata"]["labels"]
    if dice.random() < 0.3:
        labels[REGION] = dice.choice(("r0", "r1"))
    if dice.random() < 0.2 and ZONE in labels:
        labels[OLD_ZONE] = labels.pop(ZONE)
    if dice.random() < 0.3:
        labels[EBS_ZONE] = dice.choice(("z0", "z1"))


def _classes(dice: random.Random) -> list[Raw]:
    provisioners = {
        "delayed": "a.csi",
        "static": "kubernetes.io/no-provisioner",
        "made": "b.csi",
        "immediate": "a.csi",
        "ebs": "kubernetes.io/aws-ebs",
    }
    found = []
    for name in CLASSES:
        if dice.random() < 0.08:
            continue
        one: Raw = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": provisioners[name],
            "volumeBindingMode": "Immediate" if name == "immediate" else "WaitForFirstConsumer",
        }
        if name in ("delayed", "made") and dice.random() < 0.4:
            one["allowedTopologies"] = [
                {"matchLabelExpressions": [{"key": dice.choice((ZONE, HOST)), "values": dice.sample(_VALUES, 3)}]}
                for _ in range(dice.randint(1, 2))
            ]
            if dice.random() < 0.1:
                one["allowedTopologies"] = [{}]
        found.append(one)
    return found


_VALUES = ("z0", "z1", "z2", "n0", "n1", "n2", "n3")


def _drivers(dice: random.Random, nodes: list[Raw]) -> list[Raw]:
    found: list[Raw] = []
    for name in DRIVERS[:2]:
        if dice.random() < 0.8:
            spec = {"storageCapacity": True} if dice.random() < 0.6 else {}
            found.append(
                {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name}, "spec": spec}
            )
    for i in range(dice.randint(0, 4)):
        room: Raw = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"name": f"room{i}", "namespace": "default"},
            "storageClassName": dice.choice(("delayed", "made")),
        }
        if dice.random() < 0.9:
            labels = {ZONE: dice.choice(("z0", "z1", "z2"))} if dice.random() < 0.7 else {}
            room["nodeTopology"] = {"matchLabels": labels}
            if dice.random() < 0.2:
                operator = dice.choice(("Exists", "DoesNotExist"))
                room["nodeTopology"] = {"matchExpressions": [{"key": HOST, "operator": operator}]}
        if dice.random() < 0.9:
            room["capacity"] = dice.choice(SIZES)
        if dice.random() < 0.4:
            room["maximumVolumeSize"] = dice.choice(SIZES)
        found.append(room)
    for node in nodes:
        if dice.random() < 0.8:
            drivers = [
                {"name": name, "nodeID": "x", "topologyKeys": [], **_limit(dice)}
                for name in dice.sample(DRIVERS, dice.randint(0, 3))
            ]
            meta: Raw = {"name": node["metadata"]["name"]}
            if dice.random() < 0.5:
                plugins = dice.sample(("kubernetes.io/aws-ebs", "kubernetes.io/gce-pd", "x"), dice.randint(1, 3))
                meta["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(plugins)}
            found.append(
                {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": meta, "spec": {"drivers": drivers}}
            )
    return found


def _limit(dice: random.Random) -> Raw:
    return {"allocatable": {"count": dice.randint(0, 4)}} if dice.random() < 0.8 else {}


def _affinity(dice: random.Random, nodes: list[Raw]) -> Raw:
    roll = dice.random()
    if roll < 0.1:
        name = dice.choice(nodes)["metadata"]["name"]
        term: Raw = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
        if dice.random() < 0.5:
            term["matchExpressions"] = [{"key": ZONE, "operator": "Exists"}]
    elif roll < 0.5:
        hosts = [node["metadata"]["name"] for node in dice.sample(nodes, min(len(nodes), dice.randint(1, 2)))]
        term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": hosts}]}
    else:
        key = dice.choice((ZONE, ZONE, OLD_ZONE, EBS_ZONE))
        term = {"matchExpressions": [{"key": key, "operator": "In", "values": dice.sample(("z0", "z1", "z2"), 2)}]}
    terms = [term]
    if dice.random() < 0.15:
        terms.append({"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]})
    return {"required": {"nodeSelectorTerms": terms}}


def _volume(dice: random.Random, name: str, nodes: list[Raw], claim: Raw | None) -> Raw:
    spec: Raw = {
        "capacity": {"storage": dice.choice(SIZES)},
        "accessModes": dice.sample(MODES[:3], dice.randint(1, 3)),
        "storageClassName": dice.choice(("delayed", "static", "static", "made")),
        "volumeMode": dice.choice(("Filesystem", "Filesystem", "Filesystem", "Block")),
    }
    if dice.random() < 0.7:
        spec["nodeAffinity"] = _affinity(dice, nodes)
    roll = dice.random()
    if roll < 0.5:
        spec["csi"] = {"driver": dice.choice(DRIVERS), "volumeHandle": dice.choice((name, name, "same"))}
    elif roll < 0.7:
        spec["awsElasticBlockStore"] = {"volumeID": dice.choice((f"vol-{name}", f"aws://z0/vol-{name}", "vol-same"))}
    elif roll < 0.85:
        spec["gcePersistentDisk"] = {"pdName": dice.choice((name, "pd-same"))}
    else:
        spec["hostPath"] = {"path": "/x"}
    labels: Raw = {"kind": dice.choice(("x", "y"))} if dice.random() < 0.5 else {}
    if dice.random() < 0.4:
        labels[dice.choice((ZONE, OLD_ZONE))] = dice.choice(("z0", "z1", "z0__z1", "us-a-b__us-a-c", "z0__", " z2 "))
    if dice.random() < 0.2:
        labels[dice.choice((REGION, OLD_REGION))] = dice.choice(("r0", "r0__r1"))
    meta: Raw = {"name": name, "labels": labels, "resourceVersion": "5"}
    status = {"phase": "Available"}
    if claim is not None:
        spec["claimRef"] = {"namespace": "default", "name": claim["metadata"]["name"]}
        if dice.random() < 0.5:
            spec["claimRef"]["uid"] = claim["metadata"]["uid"] if dice.random() < 0.8 else "other"
        status["phase"] = dice.choice(("Bound", "Available"))
    elif dice.random() < 0.1:
        status["phase"] = dice.choice(("Released", "Pending"))
    if dice.random() < 0.05:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        meta["finalizers"] = ["x/y"]
    if dice.random() < 0.05:
        spec["volumeAttributesClassName"] = "gold"
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec, "status": status}


def _claim(dice: random.Random, name: str, nodes: list[Raw], claims: dict[str, Raw], volumes: list[Raw]) -> Raw:
    spec: Raw = {
        "accessModes": dice.sample(MODES, 1) if dice.random() < 0.9 else ["ReadWriteOnce", "ReadOnlyMany"],
        "resources": {"requests": {"storage": dice.choice(SIZES)}},
        "storageClassName": dice.choice((*CLASSES, "delayed", "static", "static")),
    }
    if dice.random() < 0.2:
        spec["volumeMode"] = dice.choice(("Filesystem", "Block"))
    if dice.random() < 0.15:
        spec["selector"] = {"matchLabels": {"kind": "x"}}
    if dice.random() < 0.04:
        del spec["storageClassName"]
    if dice.random() < 0.05:
        spec["resources"] = {}
    if dice.random() < 0.04:
        spec["volumeAttributesClassName"] = "gold"
    meta: Raw = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": {}, "resourceVersion": "7"}
    claim: Raw = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta,
        "spec": spec,
        "status": {"phase": "Pending"},
    }
    roll = dice.random()
    if roll < 0.45:
        volume = _volume(dice, f"of-{name}", nodes, claim)
        spec["volumeName"] = f"of-{name}"
        claim["status"]["phase"] = "Bound"
        if dice.random() < 0.95:
            volumes.append(volume)
        if dice.random() < 0.95:
            meta["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
    elif roll < 0.6:
        volumes.append(_volume(dice, f"for-{name}", nodes, claim))
        volumes[-1]["spec"]["storageClassName"] = spec.get("storageClassName", "")
    elif roll < 0.72:
        meta["annotations"]["volume.kubernetes.io/selected-node"] = dice.choice((*_names(nodes), "gone"))
    if dice.random() < 0.02:
        meta["annotations"]["volume.beta.kubernetes.io/storage-class"] = dice.choice(CLASSES)
    if dice.random() < 0.03:
        claim["status"]["phase"] = "Lost"
    if dice.random() < 0.03:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        meta["finalizers"] = ["x/y"]
    claims[name] = claim
    return claim


def _names(nodes: list[Raw]) -> list[str]:
    return [node["metadata"]["name"] for node in nodes]


def _mounted(
    dice: random.Random,
    pod: Raw,
    names: list[str],
    claims: dict[str, Raw],
    nodes: list[Raw],
    volumes: list[Raw],
    *,
    wanted: bool,
) -> list[Raw]:
    mounted: list[Raw] = []
    for i in range(dice.choice((1, 1, 1, 2, 3)) if wanted else dice.choice((0, 1, 1, 2))):
        roll = dice.random()
        if roll < 0.7:
            known = dice.choice(names) if dice.random() < 0.98 else "missing"
            mounted.append({"name": f"v{i}", "persistentVolumeClaim": {"claimName": known}})
        elif roll < 0.8:
            name = f"{pod['metadata']['name']}-v{i}"
            mounted.append({"name": f"v{i}", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
            if dice.random() < 0.95:
                made = _claim(dice, name, nodes, claims, volumes)
                owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "controller": True}
                owner["uid"] = pod["metadata"]["uid"] if dice.random() < 0.95 or not wanted else "other"
                made["metadata"]["ownerReferences"] = [owner]
        else:
            mounted.append({"name": f"v{i}", **_disk(dice)})
    return mounted


def _disk(dice: random.Random) -> Raw:
    read = dice.random() < 0.5
    return dice.choice(
        (
            {"gcePersistentDisk": {"pdName": dice.choice(("pd-same", "pd-b")), "readOnly": read}},
            {"awsElasticBlockStore": {"volumeID": dice.choice(("vol-same", "aws://z0/vol-same")), "readOnly": read}},
            {"iscsi": {"targetPortal": "x", "iqn": dice.choice(("i0", "i1")), "lun": 0, "readOnly": read}},
            {
                "rbd": {
                    "monitors": dice.sample(("m0", "m1", "m2"), 2),
                    "image": "im",
                    **({"pool": dice.choice(("rbd", "p"))} if dice.random() < 0.5 else {}),
                    "readOnly": read,
                }
            },
            {"cinder": {"volumeID": "cin"}},
            {"emptyDir": {}},
        )
    )


def _attachment(name: str, volume: Raw, node: Raw, dice: random.Random) -> Raw:
    by = volume["spec"].get("csi", {}).get("driver", "a.csi") if dice.random() < 0.8 else "a.csi"
    spec = {"attacher": by, "nodeName": node["metadata"]["name"], "source": {}}
    if dice.random() < 0.95:
        spec["source"] = {"persistentVolumeName": volume["metadata"]["name"]}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name}, "spec": spec}

"""Volumes: what is placed keeps the rules, what waits has no node, and gangs agree with pods one by one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import volumes as draw
from tests.support.depth import examples
from tests.support.drawn_gang import manifest
from tests.support.kernels import every_ask, kernels_agree
from tests.support.sight import cycle, schedule, sees
from tests.support.strategies import profile
from tests.support.volume_reference import allowed

from tierwise.api.codec import Raw
from tierwise.api.core import Node, Pod
from tierwise.api.storage import PersistentVolume, PersistentVolumeClaim
from tierwise.audit import audit
from tierwise.config.profile import DEFAULT
from tierwise.framework.ledger import Pool
from tierwise.port import Create, Delete, Key, key_of_raw
from tierwise.scheduler import open_cycle
from tierwise.scheduler.effects import effects
from tierwise.sim.cluster.provisioner import provision
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import Reader, build
from tierwise.snapshot.consistency import differences

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NOW = 1_790_000_000.0


def _world(dice: random.Random, *, gang: bool = False) -> list[Raw]:
    """A few nodes and pods, with storage of every kind between them."""
    nodes = [draw.node(f"n{i}", dice.choice(("", "z1", "z2")), cpu=dice.choice(("2", "8"))) for i in range(4)]
    found = [
        *nodes,
        *(draw.csi_node(f"n{i}", csi_test=dice.randint(0, 3)) for i in range(4) if dice.random() < 0.6),
        draw.storage_class("local", "kubernetes.io/no-provisioner"),
        draw.storage_class("made", "csi.test", **_topologies(dice)),
    ]
    if dice.random() < 0.5:
        found.append(draw.driver("csi.test", storageCapacity=True))
        topologies = [{"matchLabels": {ZONE: "z1"}}, {"matchLabels": {}}]
        found += (
            draw.capacity(f"r{i}", "made", nodeTopology=dice.choice(topologies), capacity=f"{dice.randint(1, 3)}Gi")
            for i in range(dice.randint(0, 2))
        )
    for i in range(dice.randint(0, 6)):
        affinity = dice.choice((None, draw.within(HOST, f"n{dice.randint(0, 3)}"), draw.within(ZONE, "z1", "z2")))
        kind = dice.choice(("local", "local", "made"))
        size = f"{dice.randint(1, 4)}Gi"
        found.append(draw.volume(f"free{i}", size=size, affinity=affinity, storageClassName=kind, **_source(dice, i)))
    claims = [_claim(dice, f"c{i}", found) for i in range(dice.randint(1, 7))]
    for i in range(dice.randint(1, 7)):
        own = dice.sample(claims, min(len(claims), dice.choice((0, 1, 1, 1, 2))))
        disks: list[Raw] = []
        if dice.random() < 0.2:
            disk = {"pdName": dice.choice(("a", "b")), "readOnly": dice.random() < 0.5}
            disks = [{"name": "disk", "gcePersistentDisk": disk}]
        group = "g" if gang else ""
        found.append(draw.pod(f"p{i}", *own, volumes=tuple(disks), group=group))
    if gang:
        meta: Raw = {"name": "g", "namespace": "default"}
        least, status = {"minMember": dice.randint(1, 7)}, {"phase": "Inqueue"}
        found.append(manifest("scheduling.volcano.sh/v1beta1", "PodGroup", meta, spec=least, status=status))
    return found


def _topologies(dice: random.Random) -> dict[str, Any]:
    terms = [{"matchLabelExpressions": [{"key": ZONE, "values": [dice.choice(("z1", "z2"))]}]}]
    return {"allowedTopologies": terms} if dice.random() < 0.4 else {}


def _source(dice: random.Random, number: int) -> dict[str, Any]:
    return {"csi": {"driver": "csi.test", "volumeHandle": f"h{number}"}} if dice.random() < 0.5 else {"local": {}}


def _claim(dice: random.Random, name: str, found: list[Raw]) -> str:
    modes = (dice.choice(("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod")),)
    kind = dice.choice(("local", "made"))
    size = f"{dice.randint(1, 4)}Gi"
    if dice.random() < 0.3:
        labels = {ZONE: dice.choice(("z1", "z1__z2"))} if dice.random() < 0.4 else {}
        affinity = draw.within(ZONE, "z2") if dice.random() < 0.4 else None
        volume = draw.volume(f"of-{name}", name, labels=labels, affinity=affinity, **_source(dice, len(found)))
        found += [volume, draw.claim(name, f"of-{name}", modes=modes)]
    elif dice.random() < 0.95:
        found.append(draw.claim(name, size=size, modes=modes, storageClassName=kind))
    return name


@sees(binds=4, refusals=4)
@given(st.integers(0, 2**32))
def test_pods_go_where_their_volumes_allow_and_wait_only_where_none_do(seed: int) -> None:
    """Once nothing changes any more, the slow reference finds no node for whoever waits, and the auditor nothing."""
    found = schedule(draw.objects(*_world(random.Random(seed))), DEFAULT, now=NOW).cluster.read()

    assert [] == audit(found)
    pods = found.every(Pod).values()
    for pod in (pod for pod in pods if not pod.spec.node_name):
        for node in found.every(Node).values():
            used = sum(other.spec.node_name == node.metadata.name for other in pods)
            full = used >= int(node.status.allocatable["cpu"])
            assert full or not allowed(found, pod, node), (pod.metadata.name, node.metadata.name)


@sees(decisions=9, refusals=6)
@given(st.integers(0, 2**32))
def test_what_a_cycle_chooses_is_allowed_pod_after_pod(seed: int) -> None:
    """Each pod that a cycle binds or nominates may go where it goes when those before it are there."""
    world = draw.objects(*_world(random.Random(seed)))
    snapshot = build(world, NOW)
    report = cycle(snapshot, DEFAULT)
    names = snapshot.nodes.names
    order = [
        (task.key, names[row])
        for decision in report.decisions
        for placed in decision.placed
        for task, row in zip(placed.tasks, placed.rows.tolist(), strict=True)
    ]
    promised: set[str] = set()  # claims that a pod before has had a volume chosen for
    for path, where in order:
        pod, node = world.every(Pod)[path], world.every(Node)[where]
        own = _names(pod)
        if own.isdisjoint(promised):  # else the volume of another pod's claim decides, in a later cycle
            assert allowed(world, pod, node), (path, where)
        key = Key("", "Pod", *path.split("/"))
        raw: Any = world.raw(key)
        world = world.changed({key: {**raw, "spec": {**raw["spec"], "nodeName": where}}})
        for write in report.writes:
            patch: Any = write.patch
            reference = patch.get("spec", {}).get("claimRef")
            if reference and reference["name"] in own - promised:
                volume: Any = world.raw(write.key)
                assert "claimRef" not in volume["spec"]
                world = world.changed({write.key: {**volume, "spec": {**volume["spec"], "claimRef": reference}}})
        promised |= own


def _names(pod: Pod) -> set[str]:
    """The claims of a pod."""
    return {v.persistent_volume_claim.claim_name for v in pod.spec.volumes if v.persistent_volume_claim is not None}


@sees(binds=9, refusals=2)
@given(st.integers(0, 2**32))
def test_gangs_with_volumes_start_whole_or_not_at_all(seed: int) -> None:
    """Whatever becomes of their claims; and no volume has two."""
    world = draw.objects(*_world(random.Random(seed), gang=True))
    found = schedule(world, DEFAULT, now=NOW).cluster.read()

    assert [] == audit(found)
    settled = [claim.spec.volume_name for claim in found.every(PersistentVolumeClaim).values() if claim.bound]
    assert len(settled) == len(set(settled))
    for name, volume in found.every(PersistentVolume).items():
        reference = volume.spec.claim_ref
        if reference is not None and name in settled:
            assert found.every(PersistentVolumeClaim)[f"default/{reference.name}"].spec.volume_name == name


@pytest.mark.parametrize("scorers", ["binpack", "network-topology-aware", "nodeorder"])
@examples(30)
@given(st.integers(0, 2**32))
def test_kernels_fill_nodes_with_local_disks(scorers: str, seed: int) -> None:
    """Tasks that take disks of their node alone are placed node by node, as they would be one by one."""
    dice = random.Random(seed)
    found = [draw.node(f"n{i}", "z1", cpu=dice.choice(("2", "8"))) for i in range(4)]
    found.append(draw.storage_class("local", "kubernetes.io/no-provisioner"))
    shared = dice.random() < 0.2
    for i in range(dice.randint(1, 9)):
        affinity = draw.within(ZONE, "z1") if shared and not i else draw.within(HOST, f"n{dice.randint(0, 3)}")
        size = f"{dice.randint(1, 3)}Gi"
        found.append(draw.volume(f"free{i}", size=size, affinity=affinity, storageClassName="local"))
    for i in range(5):
        claims = [f"c{i}-{j}" for j in range(1 + seed % 2)]
        found += (draw.claim(name, size=f"{1 + j}Gi", storageClassName="local") for j, name in enumerate(claims))
        found.append(draw.pod(f"p{i}", *claims))
    chosen = profile("gang", "predicates", scorers)
    current = open_cycle(build(draw.objects(*found), NOW, chosen), chosen)
    for ask in every_ask(current):
        if not shared:
            assert current.pipeline.moving_own_rows(ask.shape)
        kernels_agree(current, ask, 5, slice(0, 4), Pool.IDLE)


@given(st.integers(0, 2**32))
def test_a_cycle_leaves_the_ledger_as_its_decisions_say(seed: int) -> None:
    """What is tried and undone leaves no trace in what follows volumes: a second look decides the same."""
    snapshot = build(draw.objects(*_world(random.Random(seed), gang=random.Random(seed).random() < 0.5)), NOW)
    fresh = open_cycle(snapshot, DEFAULT)
    mark, idle = fresh.ledger.mark(), fresh.ledger.idle.copy()
    for job in snapshot.jobs:
        for pod_set in job.pod_sets():
            why = fresh.pipeline.why_not_now(pod_set.shape, slice(0, len(snapshot.nodes)))
            with fresh.ledger.statement():
                for row in range(len(snapshot.nodes)):
                    fresh.ledger.place(pod_set.shape, np.array([row]), np.array([1]), pool=Pool.IDLE)
                    if row % 2:
                        fresh.ledger.place(pod_set.shape, np.array([row]), np.array([-1]), pool=Pool.IDLE)
            again = fresh.pipeline.why_not_now(pod_set.shape, slice(0, len(snapshot.nodes)))
            assert why.tolist() == again.tolist()
    assert mark == fresh.ledger.mark()
    assert idle.tolist() == fresh.ledger.idle.tolist()


@sees(decisions=8, refusals=10)
@given(st.integers(0, 2**32))
def test_following_a_cluster_reads_what_reading_it_anew_does(seed: int) -> None:
    """Claims are bound, storage and pods come and go, pods move: what was kept is what is there."""
    dice = random.Random(seed)
    manifests = _world(dice, gang=True)
    world = draw.objects(*manifests)
    cluster, reader = EmbeddedCluster(world), Reader(DEFAULT)
    reader.read(world.changed({}, [Key("", "Pod", *path.split("/")) for path in world.every(Pod)]), NOW)
    for turn in range(6):
        snapshot = reader.read(cluster.read(), NOW + turn)
        assert [] == differences(snapshot, build(cluster.read(), NOW + turn))
        cluster.apply(effects(snapshot, cycle(snapshot, DEFAULT)))
        if dice.random() < 0.5:
            cluster.apply(provision(cluster.read()).effects)
        there = {key_of_raw(raw): raw for raw in manifests if raw["kind"] != "Node"}
        for key in dice.sample(sorted(there), min(len(there), 2)):
            gone = cluster.read().record(key) is None
            cluster.apply([Create(there[key]) if gone else Delete(key)])

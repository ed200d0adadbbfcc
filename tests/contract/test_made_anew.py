"""Objects that are made anew under their names between a decision and its writes: nothing is done to the new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from tests.contract.fake_api import FakeApi, Json
from tests.contract.manifests import node, pod, pod_group
from tests.contract.turns import World
from tests.contract.waiting import eventually
from tests.support import volumes

from tierwise.kube.auth import Access
from tierwise.kube.cluster import KubeCluster
from tierwise.port import Begun, Bind, Delete, Effect, Evict, Key, Nominate, Outcome, Prepare, decided_on

POD = Key("", "Pod", "default", "p1")
CLAIM = Key("", "PersistentVolumeClaim", "default", "c1")
DEVICES = Key("resource.k8s.io", "ResourceClaim", "default", "d1")


class _Interrupted(KubeCluster):
    """A cluster in which something happens right before the next effects are carried out."""

    between: Callable[[], None] | None = None

    def apply(self, effects: Sequence[Effect]) -> list[Outcome]:
        """Carry out effects, after what happens in between."""
        self._happens(effects)
        return super().apply(effects)

    def begin(self, effects: Sequence[Effect]) -> Begun:
        """Begin effects, after what happens in between."""
        self._happens(effects)
        return super().begin(effects)

    def _happens(self, effects: Sequence[Effect]) -> None:
        happens, self.between = self.between, None if effects else self.between
        if happens is not None and effects:
            happens()


class _Disks(World):
    """Two nodes with one local disk each, and a gang of two pods with a claim of one each."""

    cluster: _Interrupted

    def claims(self) -> list[str]:
        """The claims that volumes are tied to, by their uids."""
        found = self.api.all("persistentvolumes")
        return [str(volume["spec"]["claimRef"].get("uid", "")) for volume in found if volume["spec"].get("claimRef")]

    def knows(self, key: Key, uid: str) -> bool:
        """Whether the client has heard of this very object, or that there is none."""

        def heard() -> bool:
            record = self.cluster.read().record(key)
            return (record.metadata.uid if record is not None else "") == uid

        return eventually(self.cluster, heard)

    def anew(self, plural: str, key: Key, change: Json | None = None, *, silently: bool = False) -> Callable[[], None]:
        """What makes an object anew under its name, with another uid; `silently` before the client has heard of it."""

        def make() -> None:
            old = self.api.get(plural, key.name)
            kept = {name: value for name, value in old["metadata"].items() if name != "resourceVersion"}
            new = {**old, **(change or {}), "metadata": {**kept, "uid": "another"}}
            if silently:
                self.api.silently(new)
                return
            self.api.remove(plural, key.name, "default")
            self.api.put(new)
            assert self.knows(key, "another")

        return make


def _pod(name: str, claim: str) -> Json:
    found = pod(name, group="g")
    found["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return found


def _disk(number: int, of: str = "") -> Json:
    affinity = volumes.within("kubernetes.io/hostname", f"n{number}")
    return dict(volumes.volume(f"v{number}", of, affinity=affinity))


def _world(*, settled: bool) -> Iterator[_Disks]:
    with FakeApi() as api:
        for number in range(2):
            found = node(f"n{number}")
            found["metadata"]["labels"] = {"kubernetes.io/hostname": f"n{number}"}
            claim = volumes.claim(f"c{number}", f"v{number}" if settled else "")
            api.put(
                found, _disk(number, f"c{number}" if settled else ""), dict(claim), _pod(f"p{number}", f"c{number}")
            )
        local = volumes.storage_class(provisioner="kubernetes.io/no-provisioner")
        api.put(dict(local), pod_group("g", 2))
        with _Interrupted(Access(api.url)) as cluster:
            assert cluster.synced(timeout=60)
            yield _Disks(api, cluster)


@pytest.fixture
def settled() -> Iterator[_Disks]:
    """Each claim has its disk."""
    yield from _world(settled=True)


@pytest.fixture
def unsettled() -> Iterator[_Disks]:
    """No claim has a disk yet."""
    yield from _world(settled=False)


def _nodes(world: World) -> list[str]:
    return [str(found["spec"].get("nodeName", "")) for found in world.api.all("pods")]


def test_gang_with_its_disks_is_bound(settled: _Disks) -> None:
    """Where nothing happens in between, each pod goes to its disk."""
    assert 2 == settled.turn()
    assert ["n0", "n1"] == _nodes(settled)


def test_gang_is_not_bound_where_a_claim_was_made_anew(settled: _Disks) -> None:
    """The place was chosen for the disk of the old claim: nobody is bound, and the next turn decides anew."""
    unbound = dict(volumes.claim("c1"))
    settled.cluster.between = settled.anew("persistentvolumeclaims", CLAIM, {"spec": unbound["spec"]})
    assert 0 == settled.turn()
    settled.turn()

    assert ["", ""] == _nodes(settled)


def test_gang_is_bound_again_where_the_new_claim_is_settled(settled: _Disks) -> None:
    """A claim that was made anew with a disk of its own is decided about as it is."""
    settled.cluster.between = settled.anew("persistentvolumeclaims", CLAIM)
    assert 0 == settled.turn()

    assert (2, ["n0", "n1"]) == (settled.turn(), _nodes(settled))


def test_gang_is_not_bound_where_a_claim_is_going(settled: _Disks) -> None:
    """A claim that is on its way out may be gone before its pod has begun to use it."""

    def leave() -> None:
        found = settled.api.get("persistentvolumeclaims", "c1")
        settled.api.put({**found, "metadata": {**found["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
        going = settled.api.get("persistentvolumeclaims", "c1")["metadata"]["resourceVersion"]
        assert eventually(settled.cluster, lambda: _version(settled.cluster, CLAIM) == going)

    settled.cluster.between = leave
    assert 0 == settled.turn()


def test_gang_is_not_bound_where_a_claim_is_gone(settled: _Disks) -> None:
    """A claim that was deleted takes its disk with it."""

    def go() -> None:
        settled.api.remove("persistentvolumeclaims", "c1", "default")
        assert settled.knows(CLAIM, "")

    settled.cluster.between = go
    assert 0 == settled.turn()


@pytest.mark.parametrize("silently", [False, True])
def test_pod_that_was_made_anew_is_not_bound_by_an_old_decision(settled: _Disks, silently: bool) -> None:
    """The new one may ask for something else; whether we have heard of it or not, the server refuses."""
    settled.cluster.between = settled.anew("pods", POD, silently=silently)
    settled.turn()

    assert "" == settled.api.get("pods", "p1")["spec"].get("nodeName", "")


@pytest.mark.parametrize("silently", [False, True])
def test_disk_is_not_tied_to_a_claim_that_is_gone(unsettled: _Disks, silently: bool) -> None:
    """A disk that is tied to nobody's claim would be lost for everybody; the new claim is not marked, either."""
    unsettled.cluster.between = unsettled.anew("persistentvolumeclaims", CLAIM, silently=silently)
    unsettled.turn()
    marks = unsettled.api.get("persistentvolumeclaims", "c1")["metadata"].get("annotations", {})

    assert ({}, False) == (marks, "uid-c1" in unsettled.claims())


def test_disks_are_tied_where_nothing_happens(unsettled: _Disks) -> None:
    """Each disk to its claim."""
    unsettled.turn()

    assert ["uid-c0", "uid-c1"] == sorted(unsettled.claims())


@pytest.mark.parametrize(
    "effect",
    [
        Bind(POD, "n1", gang="default/g"),
        Evict(POD, "preempted", "default/g", "preempt"),
        Nominate(POD, "n1", gang="default/g"),
        Delete(POD),
        Prepare(POD, {"status": {"nominatedNodeName": "n1"}}, status=True),
    ],
)
@pytest.mark.parametrize("silently", [False, True])
def test_nothing_is_done_to_a_pod_that_was_made_anew(settled: _Disks, effect: Effect, silently: bool) -> None:
    """Whoever decided about the old one has not decided about the new one, known to us or not."""
    asked = decided_on(settled.cluster.read(), [effect])
    settled.cluster.between = settled.anew("pods", POD, silently=silently)
    [outcome] = settled.cluster.apply(asked)
    found = settled.api.get("pods", "p1")

    assert (False, "another") == (outcome.ok, found["metadata"]["uid"])
    assert ("", "") == (found["spec"].get("nodeName", ""), found["status"].get("nominatedNodeName", ""))


def test_devices_of_a_claim_that_was_made_anew_are_nobodys(settled: _Disks) -> None:
    """Claims of devices are the same: neither written nor bound with, and the whole gang waits."""
    devices = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "d1"}, "spec": {}}
    settled.api.put({**devices, "status": {}})
    assert eventually(settled.cluster, lambda: settled.cluster.read().record(DEVICES) is not None)
    other = Key("", "Pod", "default", "p0")
    binds = [Bind(other, "n0", gang="default/g"), Bind(POD, "n1", gang="default/g", claims=((DEVICES, ""),))]
    asked = decided_on(settled.cluster.read(), [Prepare(DEVICES, {"status": {"reservedFor": []}}, status=True), *binds])
    settled.cluster.between = settled.anew("resourceclaims", DEVICES)

    assert [False] * 3 == [outcome.ok for outcome in settled.cluster.apply(asked)]
    assert [False] * 2 == [outcome.ok for outcome in settled.cluster.apply(asked[1:])]
    assert ["", ""] == _nodes(settled)


def _version(cluster: KubeCluster, key: Key) -> str:
    record = cluster.read().record(key)
    return record.metadata.resource_version if record is not None else ""

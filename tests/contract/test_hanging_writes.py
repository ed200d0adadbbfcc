"""Claims, evictions, nominations, marks and pods of one namespace that the server does not answer: the loop goes on.

No test waits for a time: a write that hangs is held until the test lets it go, and another namespace's gang must be
bound by then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace
from tests.contract.fake_api import FakeApi, Json
from tests.contract.manifests import node, pod, pod_group
from tests.contract.waiting import eventually
from tests.support import volumes

from tierwise.api.core import Pod
from tierwise.config.profile import DEFAULT
from tierwise.kube.cluster import KubeCluster
from tierwise.port import Bind, Effect, Evict, Key, Nominate, PatchStatus, Prepare, RecordEvent
from tierwise.runtime.loop import Loop
from tierwise.runtime.profile_run import SchedulerProfile

START = 1_800_000_000.0
SLOW = "slow-a"
GROUP = "scheduling.volcano.sh", "PodGroup"
CLAIM = Key("", "PersistentVolumeClaim", SLOW, "c")
SIZE = 2
PATIENCE = 60.0
"""Seconds; reached only where a test fails, so that a busy machine makes none fail."""


def _in(namespace: str, manifest: Json) -> Json:
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


def _prior(manifest: Json, priority: int) -> Json:
    return {**manifest, "spec": {**manifest["spec"], "priority": priority}}


def _pod_with_claim() -> Json:
    found = _in(SLOW, pod("s"))
    found["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    return found


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """Two nodes of eight, one of which has a disk for a claim of the namespace that will hang."""
    with FakeApi() as found:
        for number in range(2):
            one = node(f"n{number}")
            one["metadata"]["labels"] = {"kubernetes.io/hostname": f"n{number}"}
            found.put(one)
        affinity = volumes.within("kubernetes.io/hostname", "n0")
        found.put(dict(volumes.storage_class(provisioner="kubernetes.io/no-provisioner")))
        found.put(dict(volumes.volume("v", "", affinity=affinity)), _in(SLOW, dict(volumes.claim("c"))))
        yield found


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write counts as unanswered soon."""
    monkeypatch.setattr("tierwise.kube.write_slots.PROMPT", 0.05)


def _goes_on(api: FakeApi, cluster: KubeCluster, also: Callable[[], bool] = lambda: True) -> None:
    """Run a loop until a write hangs, let a gang of another namespace come, and return once it is bound."""
    profile = replace(DEFAULT, actions=("enqueue", "allocate", "gangpreempt", "backfill"))
    loop = Loop(cluster, [SchedulerProfile(frozenset({"tierwise"}), profile)], clock=lambda: START, ticks=lambda: START)
    until, ends = time.monotonic() + PATIENCE, list[bool]()
    coming = [[pod_group("h", SIZE), *(pod(f"h{i}", group="h") for i in range(SIZE))]]

    def bound() -> bool:
        if api.frozen.is_set() and coming:
            api.put(*coming.pop())
        own = [found for found in api.all("pods") if found["metadata"]["name"].startswith("h")]
        held = len(own) == SIZE and all(found["spec"].get("nodeName") for found in own) and also()
        if held or time.monotonic() > until:
            ends.append(held)
            api.thaw()  # what ends the loop waits for what hangs, for a while
        return bool(ends)

    loop.run(period=0.05, pause=0.0, stopping=bound, may=lambda: True)
    assert [True] == ends[:1]


def test_claims_that_hang(api: FakeApi, cluster: KubeCluster) -> None:
    """A claim is written before its pod is bound: that is waited for behind the loop."""
    api.fail("PATCH", f"/{SLOW}/persistentvolumeclaims/c", "freeze", times=10**6)
    api.put(_pod_with_claim())
    _goes_on(api, cluster)

    assert not api.get("pods", "s", SLOW)["spec"].get("nodeName")


@pytest.fixture
def full(api: FakeApi) -> FakeApi:
    """Room for the gang that comes later, and none for an urgent pod of another namespace but by an eviction."""
    api.put(_in(SLOW, pod("low", cpu="8", on="n0")), _in("theirs", _prior(pod("kept", cpu="4", on="n1"), 2000)))
    api.put(_in("theirs", _prior(pod("urgent", cpu="6"), 1000)))
    return api


def test_evictions_that_hang(full: FakeApi, cluster: KubeCluster) -> None:
    """Whoever asked for the room waits for its victims, and nobody else does."""
    full.fail("POST", f"/{SLOW}/.*/eviction", "freeze", times=10**6)
    _goes_on(full, cluster)

    assert full.get("pods", "low", SLOW)
    assert "nominatedNodeName" not in full.get("pods", "urgent", "theirs")["status"]


def test_nominations_that_hang(full: FakeApi, cluster: KubeCluster) -> None:
    """The victim goes, and its room is kept for the pod whose nomination has no answer."""
    full.kubelet = False  # the victim takes its time
    full.fail("PATCH", "/theirs/pods/urgent/status", "freeze", times=10**6)
    _goes_on(full, cluster)

    assert full.get("pods", "low", SLOW)["metadata"]["deletionTimestamp"]


def test_marks_that_hang(api: FakeApi, cluster: KubeCluster) -> None:
    """A part of a gang is marked before its status says that it queues again."""
    api.fail("PATCH", f"/{SLOW}/podgroups/part(?!/)", "freeze", times=10**6)
    api.put(_in(SLOW, pod_group("part", 2, {"phase": "Running"})))
    api.put(_in(SLOW, pod("part0", on="n0", group="part")), _in(SLOW, pod("part1", cpu="99", group="part")))
    assert eventually(cluster, lambda: f"{SLOW}/part1" in cluster.read().every(Pod))
    assert eventually(cluster, lambda: cluster.read().record(Key(*GROUP, SLOW, "part")) is not None)
    phases: list[str] = []

    def look() -> bool:
        phases.append(api.get("podgroups", "part", SLOW)["status"]["phase"])
        return True

    _goes_on(api, cluster, look)

    assert "Running" == phases[-1]


def _job(namespace: str) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    task = {"name": "worker", "replicas": 2, "template": {"spec": {"containers": [container]}}}
    meta = {"name": "train", "namespace": namespace, "uid": f"u-{namespace}"}
    spec = {"schedulerName": "tierwise", "minAvailable": 2, "tasks": [task]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec}


def test_pods_of_a_job_that_are_not_admitted(api: FakeApi, cluster: KubeCluster) -> None:
    """Slow admission of one namespace's pods: jobs of another namespace get theirs, and they are bound."""
    api.fail("POST", f"/{SLOW}/pods", "freeze", times=10**6)
    api.put(_job(SLOW))
    came: list[bool] = []

    def others_run() -> bool:
        if not came:
            came.append(True)
            api.put(_job("theirs"))
        own = [found for found in api.all("pods") if found["metadata"]["namespace"] == "theirs"]
        return len(own) == 2 and all(found["spec"].get("nodeName") for found in own)

    _goes_on(api, cluster, others_run)

    assert not [found for found in api.all("pods") if found["metadata"]["namespace"] == SLOW]


def test_what_is_begun_is_read_as_done(api: FakeApi, cluster: KubeCluster) -> None:
    """Cycles that follow decide on what is under way; what is refused is read as it was."""
    api.put(_in(SLOW, pod("low", on="n0")), _in(SLOW, pod("s")), _in(SLOW, pod("t")))
    assert eventually(cluster, lambda: f"{SLOW}/t" in cluster.read().every(Pod))
    for method in ("POST", "PATCH"):
        api.fail(method, f"/{SLOW}/", "freeze", times=10**6)
    pods = {name: Key("", "Pod", SLOW, name) for name in ("low", "s", "t")}
    begun = cluster.begin(
        [
            Evict(pods["low"], "why", "g", "gangpreempt"),
            Prepare(CLAIM, {"metadata": {"annotations": {"mark": "1"}}}, "h"),
            Nominate(pods["s"], "n0", "g"),
            Bind(pods["t"], "n1", gang="h"),
        ]
    )
    shown = _shown(cluster)
    assert not begun.done()

    assert (True, "1", "n0", "n1") == shown
    api.heal()
    api.fail("POST", "/eviction", 429, said={"details": {"causes": [{"reason": "DisruptionBudget"}]}})
    api.fail("PATCH", "/persistentvolumeclaims/", 403, times=9)
    api.thaw()
    assert [False] * 4 == [outcome.ok for outcome in begun()]
    assert (False, None, "", "") == _shown(cluster)


def _shown(cluster: KubeCluster) -> tuple[bool, object, str, str]:
    """Whether the victim leaves, the mark of the claim, and where the two pods are nominated and bound."""
    read = cluster.read()
    pods, raw = read.every(Pod), read.raw(CLAIM)
    assert raw is not None
    marks: Json = raw["metadata"].get("annotations", {})  # type: ignore[attr-defined]
    leaves = bool(pods[f"{SLOW}/low"].metadata.deletion_timestamp)
    nominated = pods[f"{SLOW}/s"].status.nominated_node_name
    return leaves, marks.get("mark"), nominated, pods[f"{SLOW}/t"].spec.node_name


def test_writes_of_one_claim_follow_each_other(api: FakeApi, cluster: KubeCluster) -> None:
    """What was decided while an earlier write was under way is sent after it, and not at all where that failed."""
    api.fail("PATCH", f"/{SLOW}/persistentvolumeclaims/c", "freeze")
    first = cluster.begin([Prepare(CLAIM, {"metadata": {"annotations": {"one": "1"}}}, "g")])
    assert api.frozen.wait(60)
    second = cluster.begin([Prepare(CLAIM, {"metadata": {"annotations": {"two": "2"}}}, "h")])
    read = cluster.read().raw(CLAIM)
    assert read is not None

    assert {"one": "1", "two": "2"} == read["metadata"]["annotations"]  # type: ignore[index]
    assert 1 == sum(request.startswith("PATCH") for request in api.requests)
    api.fail("PATCH", f"/{SLOW}/persistentvolumeclaims/c", 403, times=9)
    api.thaw()
    assert [False, False] == [outcome.ok for begun in (first, second) for outcome in begun()]
    assert 2 == sum(request.startswith("PATCH") for request in api.requests)


def test_a_status_that_is_being_written_is_not_written_again(api: FakeApi, cluster: KubeCluster) -> None:
    """Each cycle asks for what is not there yet; neither the status nor what people are told with it comes twice."""
    api.put(_in(SLOW, pod("s")))
    assert eventually(cluster, lambda: f"{SLOW}/s" in cluster.read().every(Pod))
    api.fail("PATCH", f"/{SLOW}/pods/s/status", "freeze")
    key = Key("", "Pod", SLOW, "s")
    asked: list[Effect] = [PatchStatus(key, {"message": "notice"}), RecordEvent(key, "Normal", "Noticed", "it will go")]
    first = cluster.begin(asked)
    assert api.frozen.wait(60)
    second = cluster.begin(asked)

    assert [(False, True)] * 2 == [(outcome.ok, outcome.withheld) for outcome in second()]
    api.thaw()
    assert [True, True] == [outcome.ok for outcome in first()]


@pytest.mark.parametrize("how", [429, "freeze"])
def test_statuses_that_are_not_taken(api: FakeApi, cluster: KubeCluster, how: int | str) -> None:
    """More statuses of one namespace than there are workers hang, or are put off; another's group has its phase."""
    many = [_in(SLOW, pod_group(f"s{i}")) for i in range(20)]
    api.put(*many, pod_group("g"))
    assert eventually(cluster, lambda: cluster.read().record(Key(*GROUP, "default", "g")) is not None)
    api.fail("PATCH", f"/{SLOW}/podgroups/.*/status", how, times=10**6, headers={"Retry-After": "20"})
    cluster.tell([PatchStatus(Key(*GROUP, SLOW, f"s{i}"), {"phase": "Running"}) for i in range(20)], "0")
    cluster.tell([PatchStatus(Key(*GROUP, "default", "g"), {"phase": "Running"})], "1")
    assert eventually(cluster, lambda: api.get("podgroups", "g")["status"]["phase"] == "Running")
    waiting = cluster.figures().behind["statuses"]

    assert 0 < waiting.number <= 20
    assert "Running" not in [api.get("podgroups", f"s{i}", SLOW)["status"]["phase"] for i in range(20)]
    api.thaw()

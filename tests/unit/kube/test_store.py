"""Any interleaving of watch events, lists, bookmarks and answers ends at the newest state, and never goes back."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from tests.support.depth import examples

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Node, Pod
from tierwise.kube.decoding import Entry
from tierwise.kube.kinds import Resource
from tierwise.kube.store import Store
from tierwise.port import Key, Version

PODS = Resource("", "v1", "Pod", "pods", namespaced=True, status=True)
NAMES = ("p0", "p1")


class _State(Struct, frozen=True):
    """A pod as the server holds it."""

    uid: str
    version: int
    node: str = ""


class _Event(Struct, frozen=True):
    version: int
    name: str
    state: _State | None  # None: deleted


def _entry(name: str, state: _State, version: int = 0) -> Entry:
    meta = {"name": name, "namespace": "default", "uid": state.uid, "resourceVersion": str(version or state.version)}
    spec = {"nodeName": state.node, "containers": []}
    found = codec.decode({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    return found, None


def _key(name: str) -> Key:
    return Key("", "Pod", "default", name)


class _World:
    """A server with its history, a store that is told of it, and what is on its way to the store."""

    def __init__(self) -> None:
        self.store = Store()
        self.version = 1
        self.pods: dict[str, _State] = {}
        self.history: list[_Event] = []
        self.watched = 0  # events that the watch has told
        self.told = 1  # the version up to which the store has been told everything
        self.seen = dict.fromkeys(NAMES, 0)  # the newest version of each pod that the store has shown
        self.late: list[Callable[[], None]] = []  # answers and lists that are under way
        self.store.listed(PODS, [], "1", since=0)

    def write(self, name: str) -> None:
        """Create a pod, or change it; the answer is under way."""
        before = self.pods.get(name)
        self._save(name, uid=before.uid if before else f"{name}-{self.version}", node=before.node if before else "")
        entry = _entry(name, self.pods[name])
        self.late.append(lambda: self.store.answered(PODS, entry))

    def bind(self, name: str) -> None:
        """Bind a pod; the yes is under way."""
        pod = self.pods.get(name)
        if pod is not None and not pod.node:
            self._save(name, uid=pod.uid, node="n0")
            self.late.append(lambda: self.store.assume(_key(name), pod.uid, node="n0"))

    def delete(self, name: str) -> None:
        pod = self.pods.pop(name, None)
        if pod is not None:
            self.version += 1
            self.history.append(_Event(self.version, name, None))

    def elsewhere(self, name: str) -> None:
        """Something of another kind changes."""
        self.version += 1

    def list(self, name: str) -> None:
        """A list beside the watch is under way."""
        entries, at = [_entry(name, pod) for name, pod in self.pods.items()], self.version
        since = self.store.told(PODS)

        def arrives() -> None:
            self.store.listed(PODS, entries, str(at), since=since)
            self.told = max(self.told, at)

        self.late.append(arrives)

    def expire(self, name: str) -> None:
        """The watch cannot go on: everything is listed, and watched from there."""
        entries = [_entry(name, pod) for name, pod in self.pods.items()]
        self.store.listed(PODS, entries, str(self.version), since=self.store.told(PODS))
        self.told, self.watched = self.version, len(self.history)

    def watch(self, name: str) -> None:
        """The watch tells of one more event, or that there is none."""
        if self.watched == len(self.history):
            self.store.marked(PODS, str(self.version))
            self.told = self.version
            return
        event = self.history[self.watched]
        self.watched += 1
        self.told = max(self.told, event.version)
        if event.state is not None:
            self.store.put(PODS, _entry(event.name, event.state))
        else:
            gone = next(e.state for e in reversed(self.history[: self.watched - 1]) if e.name == event.name)
            assert gone is not None
            self.store.delete(PODS, _entry(event.name, gone, event.version))

    def arrive(self, name: str) -> None:
        """The oldest answer or list that is under way."""
        if self.late:
            self.late.pop(0)()

    def overtake(self, name: str) -> None:
        """The youngest one."""
        if self.late:
            self.late.pop()()

    def check(self) -> None:
        """The store shows what it was told, or something younger, and never goes back."""
        shown = {pod.metadata.name: pod for pod in self.store.read().every(Pod).values()}
        for name in NAMES:
            last = next((e for e in reversed(self.history) if e.name == name and e.version <= self.told), None)
            version = int(shown[name].metadata.resource_version) if name in shown else -1
            if last is None or last.state is None:
                assert name not in shown or version > (last.version if last else 0), (name, version)
            else:
                assert version >= last.version, (name, version, last)
            gone = max((e.version for e in self.history if e.name == name and e.state is None), default=0)
            assert max(version, gone) >= self.seen[name], (name, version)
            self.seen[name] = max(self.seen[name], version)

    def end(self) -> None:
        """Everything arrives."""
        while self.late:
            self.arrive("")
        while self.told < self.version:
            self.watch("")

    def _save(self, name: str, *, uid: str, node: str) -> None:
        self.version += 1
        self.pods[name] = _State(uid, self.version, node)
        self.history.append(_Event(self.version, name, self.pods[name]))


STEPS = ("write", "bind", "delete", "elsewhere", "list", "expire", "watch", "arrive", "overtake")


@examples(300)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(NAMES)), max_size=40))
def test_every_interleaving_ends_at_the_newest_state(steps: list[tuple[str, str]]) -> None:
    """Whatever is late or overtaken: nothing older replaces what is newer, and nothing that is gone comes back."""
    world = _World()
    for step, name in steps:
        getattr(world, step)(name)
        world.check()
    world.end()
    world.check()

    shown = world.store.read().every(Pod).values()
    expected = {(name, pod.uid, pod.node) for name, pod in world.pods.items()}
    assert expected == {(pod.metadata.name, pod.metadata.uid, pod.spec.node_name) for pod in shown}
    assert 0 == len(world.store.assumed)


@pytest.fixture
def world() -> _World:
    """A pod that is known, and its answer that is still under way."""
    found = _World()
    found.write("p0")
    found.watch("")
    return found


def test_late_list_does_not_bring_a_pod_back(world: _World) -> None:
    """A list that was made before a deletion and comes after it shows a ghost, which would hold room."""
    world.list("")
    world.delete("p0")
    world.watch("")
    world.end()

    assert {} == dict(world.store.read().every(Pod))


def test_late_answer_does_not_bring_a_pod_back(world: _World) -> None:
    """So does the answer to a write."""
    world.delete("p0")
    world.watch("")
    world.arrive("")

    assert {} == dict(world.store.read().every(Pod))


def test_watch_behind_a_list_does_not_bring_a_pod_back(world: _World) -> None:
    """What the watch tells of a pod that a newer list lacked is history."""
    world.write("p0")
    world.delete("p0")
    world.list("")
    world.overtake("")
    assert {} == dict(world.store.read().every(Pod))

    world.watch("")
    assert {} == dict(world.store.read().every(Pod))


def test_old_deletion_does_not_take_the_next_pod_of_its_name(world: _World) -> None:
    """The watch tells late of a pod that went; another of its name is known by then."""
    world.delete("p0")
    world.write("p0")
    world.overtake("")
    world.watch("")

    assert ["default/p0"] == list(world.store.read().every(Pod))


def test_bookmark_behind_a_list_is_old(world: _World) -> None:
    """It says nothing about what the list has shown since, so a late answer stays a late one."""
    at = str(world.version)
    world.write("p0")
    world.delete("p0")
    world.list("")
    world.overtake("")
    world.store.marked(PODS, at)
    world.overtake("")

    assert {} == dict(world.store.read().every(Pod))


def test_bind_of_a_pod_says_nothing_about_the_next_of_its_name(world: _World) -> None:
    """The yes for a pod that is gone comes when another of its name waits: that one is not read as bound."""
    world.bind("p0")
    world.delete("p0")
    world.write("p0")
    for _ in range(3):
        world.watch("")
    world.end()

    assert [""] == [pod.spec.node_name for pod in world.store.read().every(Pod).values()]


def test_assumption_ends_with_its_pod(world: _World) -> None:
    """A pod that goes before it was shown as bound leaves nothing behind."""
    world.bind("p0")
    world.overtake("")
    assert ["n0"] == [pod.spec.node_name for pod in world.store.read().every(Pod).values()]
    assert 1 == len(world.store.assumed)
    world.delete("p0")
    world.expire("")

    assert 0 == len(world.store.assumed)


def test_bound_pod_is_not_shown_as_waiting_by_a_late_event(world: _World) -> None:
    """What the watch tells of a time before the bind leaves the pod on its node, with what it was told there."""
    world.write("p0")
    uid = world.pods["p0"].uid
    world.store.assume(_key("p0"), uid, node="n0", marks={"rank": "3"})
    world.watch("")
    [pod] = world.store.read().every(Pod).values()

    assert ("n0", "3") == (pod.spec.node_name, pod.metadata.annotations.get("rank"))
    assert str(world.version) == pod.metadata.resource_version


def test_server_that_was_restored_is_believed() -> None:
    """Versions go back: what the server no longer knows goes, and what it says from there on counts."""
    store = Store()
    store.listed(PODS, [_entry("p0", _State("a", 50))], "60", since=0)
    store.listed(PODS, [_entry("p1", _State("b", 20))], "30", since=60)
    assert ["default/p1"] == list(store.read().every(Pod))

    store.answered(PODS, _entry("p1", _State("b", 31, "n0")))
    assert "n0" == store.read().every(Pod)["default/p1"].spec.node_name


def test_a_heartbeat_wakes_nobody() -> None:
    """A node that reports what it reported before changes no object and no version; a cordon does."""
    nodes, store = Resource("", "v1", "Node", "nodes", namespaced=False, status=True), Store()

    def report(version: int, **spec: bool) -> None:
        condition: Raw = {"type": "Ready", "status": "True", "lastHeartbeatTime": f"2026-01-01T00:00:{version:02}Z"}
        meta: Raw = {"name": "n0", "resourceVersion": str(version)}
        raw: Raw = {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {**spec}}
        store.put(nodes, (codec.decode({**raw, "status": {"conditions": [condition]}}), None))

    report(1)
    first, version = store.read(), store.wait(Version(-1), 0.0)
    report(2)
    assert (first, version) == (store.read(), store.wait(Version(-1), 0.0))

    report(3, unschedulable=True)
    assert store.read().every(Node)["n0"].spec.unschedulable
    report(2)  # late: an older state never replaces a newer one
    assert store.read().every(Node)["n0"].spec.unschedulable


def test_pod_that_leaves_is_not_shown_as_staying() -> None:
    """It was evicted, and what its kubelet wrote before it heard of that comes late: it is still on its way out."""
    store = Store()
    store.put(PODS, _entry("p0", _State("u", 5, "n0")))
    store.assume(_key("p0"), "u", leaving="2026-01-01T00:00:00Z")
    store.put(PODS, _entry("p0", _State("u", 6, "n0")))
    pod = store.pod(_key("p0"))

    assert pod is not None
    assert ("6", "2026-01-01T00:00:00Z") == (pod.metadata.resource_version, pod.metadata.deletion_timestamp)
    assert 1 == len(store.assumed)


def test_what_is_assumed_already_wakes_nobody() -> None:
    """A bind is assumed when it is begun and again when it is done: the pod stays the record that it was."""
    store = Store()
    store.put(PODS, _entry("p0", _State("u", 5, "")))
    store.assume(_key("p0"), "u", node="n0", marks={"rank": "3"})
    first, version = store.read(), store.wait(Version(-1), 0.0)
    store.assume(_key("p0"), "u", node="n0", marks={"rank": "3"})
    assert (first, version) == (store.read(), store.wait(Version(-1), 0.0))

    store.assume(_key("p0"), "u", node="n0", marks={"rank": "4"})
    assert "4" == store.read().every(Pod)["default/p0"].metadata.annotations["rank"]
    store.assume(_key("p0"), "u", leaving="2026-01-01T00:00:00Z")
    assert store.read().every(Pod)["default/p0"].metadata.deletion_timestamp


def test_who_waits_is_woken_for_what_it_waits_for() -> None:
    """Two threads that wait for versions of their own, and one that waits for the time alone."""
    store, seen = Store(), SimpleQueue[tuple[int, int]]()
    last = store.wait(Version(-1), 0.0)

    def follow(ahead: int) -> None:
        for i in range(50):
            seen.put((ahead, store.wait(Version(last + i + ahead), 60.0)))

    threads = [Thread(target=follow, args=(ahead,), daemon=True) for ahead in (0, 1)]
    Thread(target=store.wait, args=(Version(2**62), 60.0), daemon=True).start()
    for thread in threads:
        thread.start()
    for i in range(51):
        store.nudge()
        if i < 50:
            assert last + i + 1 <= _of(0, seen)
    for thread in threads:
        thread.join(30.0)

    assert [False, False] == [thread.is_alive() for thread in threads]


def _of(ahead: int, seen: SimpleQueue[tuple[int, int]]) -> int:
    """What one of them saw next."""
    while True:
        who, version = seen.get(timeout=30.0)
        if who == ahead:
            return version


def test_nudge_wakes_once() -> None:
    """Who waits with the version of what it read is woken by a nudge, reads, and waits again."""
    store = Store()
    before = store.read().version
    store.nudge()
    woken = store.wait(before, 0.0)

    assert before < woken == store.read().version


GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", namespaced=True, status=True)


def _shown(resource: Resource, version: int, **more: Raw) -> Entry:
    meta = {"name": "x", "namespace": "default", "uid": "u", "resourceVersion": str(version)}
    raw: Raw = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
    return codec.decode({**raw, **more}), None


def _condition(kind: str) -> Raw:
    return {"conditions": [{"type": kind, "status": "False", "message": "no room"}]}


@pytest.mark.parametrize("way", ["put", "answered"])
@pytest.mark.parametrize(
    ("resource", "status"),
    [
        (PODS, _condition("PodScheduled")),
        (GROUPS, _condition("Unschedulable")),
        (GROUPS, {"running": 4, "succeeded": 1, "failed": 2}),
    ],
    ids=["pod", "group", "counts"],
)
def test_what_is_written_behind_a_cycle_wakes_nobody(resource: Resource, status: Raw, way: str) -> None:
    """A turn for every status that is written would find nothing to do; who reads sees it all the same."""
    store = Store()
    store.put(resource, _shown(resource, 5))
    before = store.read()
    told = _shown(resource, 6, status=status)
    getattr(store, way)(resource, told)

    assert before.version == store.wait(before.version, 0.0)
    assert told[0] == store.read().record(Key(resource.group, resource.kind, "default", "x"))


@pytest.mark.parametrize(
    ("resource", "more"),
    [
        (PODS, {"status": {"phase": "Running"}}),
        (PODS, {"status": _condition("Ready")}),
        (PODS, {"status": {"nominatedNodeName": "n0"}}),
        (PODS, {"spec": {"nodeName": "n0", "containers": []}}),
        (GROUPS, {"status": {"phase": "Inqueue"}}),
        (GROUPS, {"spec": {"minMember": 2}}),
    ],
    ids=["phase", "ready", "nominated", "bound", "let in", "spec"],
)
def test_what_somebody_decides_by_wakes(resource: Resource, more: dict[str, Raw]) -> None:
    """Controllers and the scheduler look at once, also where a status of ours came just before."""
    store = Store()
    store.put(resource, _shown(resource, 5))
    before = store.read().version
    store.put(resource, _shown(resource, 6, status=_condition("PodScheduled")))
    store.put(resource, _shown(resource, 7, **more))

    assert before < store.wait(before, 0.0)


@given(st.permutations(range(6)))
def test_events_out_of_order_lose_nothing(order: list[int]) -> None:
    """Pods that came, one that came and went, and a bookmark, however a server shuffles what it tells of them."""
    store = Store()
    store.listed(PODS, [], "10", since=0)
    told: list[Callable[[], object]] = [
        lambda: store.put(PODS, _entry("p0", _State("u0", 11))),
        lambda: store.put(PODS, _entry("p1", _State("u1", 12))),
        lambda: store.delete(PODS, _entry("p1", _State("u1", 13))),
        lambda: store.put(PODS, _entry("p2", _State("u2", 14))),
        lambda: store.put(PODS, _entry("p0", _State("u0", 15, "n0"))),
        lambda: store.marked(PODS, "16"),
    ]
    for number in order:
        told[number]()

    found = {pod.metadata.name: pod.spec.node_name for pod in store.read().every(Pod).values()}
    assert {"p0": "n0", "p2": ""} == found

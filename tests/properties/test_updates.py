"""Updates on the virtual clock: a set that is rolled comes back to its nodes, whoever waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.draw import draw
from tests.support.sight import saw, sees

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.config.profile import DEFAULT, Profile
from tierwise.port import Create, Delete, Effect, Key, Objects, Update
from tierwise.sim.cluster.controller_manager import ControllerManager
from tierwise.sim.cluster.pod_behaviour import START_AFTER
from tierwise.sim.cluster.simulation import Simulation

STOP_AFTER = "tierwise.io/stop-after"
NOW = 1_790_000_000.0
TREE = "s0[r0[n0 n1 n2] r1[n3 n4 n5]]"
KEEPS = replace(DEFAULT, action_arguments={"allocate": {"keptPlaces": "tierwise", "keptPlacesFor": "2m"}})
SET = Key("apps", "StatefulSet", "ml", "web")


class Drawn(msgspec.Struct, frozen=True):
    """A cluster whose nodes are full, rivals who wait, and how the set is updated."""

    raws: list[Raw]
    size: int
    by_hand: bool  # pods are deleted by name, several at once; else the template changes
    profile: Profile = KEEPS


def _template(draws: st.DrawFn, name: str) -> Raw:
    habits = {START_AFTER: f"{draws(st.integers(0, 5))}s", STOP_AFTER: f"{draws(st.sampled_from([0, 0, 1, 9]))}s"}
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    return {"metadata": {"labels": {"app": name}, "annotations": habits}, "spec": {"containers": [container]}}


@st.composite
def worlds(draws: st.DrawFn) -> Drawn:
    """Six nodes in two racks: a set, other pods on the other nodes, and pods of others that wait for any node."""
    size = draws(st.integers(2, 5))
    raws: list[Raw] = list(draw(TREE, node="gpu=8").manifests)
    for name, namespace, number in (("web", "ml", size), ("a-filler", "ml", 6 - size)):
        spec = {
            "replicas": number,
            "podManagementPolicy": draws(st.sampled_from(["OrderedReady", "Parallel"])),
            "selector": {"matchLabels": {"app": name}},
            "template": _template(draws, name),
        }
        meta = {"name": name, "namespace": namespace}
        raws.append({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec})
    return Drawn(raws, size, draws(st.booleans()))


class Operator:
    """Kubernetes' controllers; and somebody who lets rivals come once all runs, and then updates the set."""

    def __init__(self, drawn: Drawn, rivals: int) -> None:
        self._drawn, self._rivals, self._step = drawn, rivals, 0
        self._controllers = ControllerManager()

    def act(self, objects: Objects, now: float) -> Sequence[Effect]:
        """Rivals after a minute, the update after another one."""
        if now < NOW + 60 * (self._step + 1) or self._step > 1:
            return self._controllers.act(objects, now)
        self._step += 1
        if self._step == 1:
            return [*map(_rival, range(self._rivals))]
        if self._drawn.by_hand:
            return [Delete(Key("", "Pod", "ml", f"web-{i}")) for i in range(self._drawn.size)]
        raw: Any = objects.raw(SET)
        template = raw["spec"]["template"]
        labels = {**template["metadata"]["labels"], "version": "2"}
        newer = {**template, "metadata": {**template["metadata"], "labels": labels}}
        return [Update(SET, {**raw, "spec": {**raw["spec"], "template": newer}})]

    def due(self) -> float | None:
        """The next step, or when the controllers want to look again."""
        steps = [NOW + 60 * (self._step + 1)] if self._step <= 1 else []
        again = self._controllers.due()
        return min([*steps, *([again] if again is not None else [])], default=None)


def _rival(number: int) -> Effect:
    meta = {"name": f"rival-{number}", "namespace": "other"}
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    return Create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}})


def _rolled(drawn: Drawn, rivals: int) -> tuple[dict[str, str], dict[str, str], int]:
    """Where the pods of the set ran before the update and after it, and how many rivals run."""
    objects = Objects.of((codec.decode(raw), raw) for raw in drawn.raws)
    life = Simulation(objects, drawn.profile, start=NOW, log=False, user=Operator(drawn, rivals))
    before: dict[str, str] = {}
    made: dict[str, str] = {}
    pods: Any = {}
    for moment in life.run(900):
        pods = moment.objects.every(Pod)
        if moment.at < 110:
            own = {path: pod for path, pod in pods.items() if path.startswith("ml/web-")}
            before = {path: pod.spec.node_name for path, pod in own.items()}
            made = {path: pod.metadata.creation_timestamp for path, pod in own.items()}
    newer = {path: pod for path, pod in pods.items() if pod.metadata.creation_timestamp != made.get(path)}
    after = {path: pod.spec.node_name for path, pod in newer.items() if path in before}
    return before, after, sum(bool(pod.spec.node_name) for path, pod in pods.items() if path.startswith("other/"))


@sees(rolled=3, pods=6)
@given(drawn=worlds(), rivals=st.integers(0, 3))
def test_a_set_that_is_rolled_comes_back_to_its_nodes(drawn: Drawn, rivals: int) -> None:
    """Pod by pod, or several at once; no rival gets in between, however long pods take to stop and to start."""
    before, after, run = _rolled(drawn, rivals)

    saw(rolled=1, pods=len(after))
    assert before == after
    assert len(before) == drawn.size
    assert run == 0


@sees(lost=2)
@given(drawn=worlds())
def test_without_it_rivals_get_in_between(drawn: Drawn) -> None:
    """So the property above has something to say: whoever has waited longer takes what a pod has left."""
    before, after, run = _rolled(replace(drawn, profile=DEFAULT), 3)

    saw(lost=int(before != after and run > 0))

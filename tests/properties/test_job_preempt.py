"""Job preemption on small clusters: whoever goes had to, whoever stays may, and quotas hold."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples
from tests.support.quotas import koordinator, nodes, quota, settle, worker
from tests.support.sight import sees

from tierwise.api.codec import Raw

CARDS = 8


class Scene(msgspec.Struct, frozen=True):
    """Cards that running pods hold, with their priorities and marks, node by node; and a job of alike pods."""

    standing: tuple[tuple[tuple[int, int, bool], ...], ...]
    pods: int
    cards: int

    def manifests(self) -> list[Raw]:
        """Nodes, running pods, and the job's gang with priority 5."""
        found = nodes(" ".join(f"n{i}" for i in range(len(self.standing))), gpu=CARDS)
        for i, pods in enumerate(self.standing):
            found += [
                worker(f"v{i}-{j}", on=f"n{i}", gpu=gpu, priority=priority, firm=firm)
                for j, (gpu, priority, firm) in enumerate(pods)
            ]
        group: Raw = {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": "job", "namespace": "default"},
            "spec": {"minMember": self.pods},
        }
        return [*found, group, *(worker(f"w{i}", gpu=self.cards, priority=5, of="job") for i in range(self.pods))]

    def fits_without(self, gone: set[str]) -> bool:
        """Whether the nodes take the job once these are gone."""
        room = 0
        for i, pods in enumerate(self.standing):
            held = sum(gpu for j, (gpu, _, _) in enumerate(pods) if f"v{i}-{j}" not in gone)
            room += (CARDS - held) // self.cards
        return room >= self.pods

    def may_go(self) -> set[str]:
        """Who is less important and not marked."""
        return {
            f"v{i}-{j}"
            for i, pods in enumerate(self.standing)
            for j, (_, priority, firm) in enumerate(pods)
            if priority < 5 and not firm
        }


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """Up to three nodes, none of them overfull."""
    standing = []
    for _ in range(draw(st.integers(1, 3))):
        pods, left = [], CARDS
        while left and draw(st.booleans()):
            gpu = draw(st.integers(1, left))
            pods.append((gpu, draw(st.integers(0, 6)), draw(st.booleans()) and draw(st.booleans())))
            left -= gpu
        standing.append(tuple(pods))
    return Scene(tuple(standing), draw(st.integers(1, 4)), draw(st.integers(1, CARDS)))


@sees(evictions=2)
@given(scenes())
@examples(45)
def test_whoever_goes_had_to(scene: Scene) -> None:
    """A job is placed if and only if it can be; nobody goes in vain, nor anybody who may not."""
    outcome = settle(scene.manifests(), profile=koordinator(preempts=True, in_quota=False))
    gone = set(outcome.evicted)
    possible = scene.fits_without(scene.may_go())

    assert gone <= scene.may_go()
    assert (scene.pods if possible else 0) == len(outcome.bound)
    assert possible or not gone
    assert not gone or scene.fits_without(gone)
    assert all(not scene.fits_without(gone - {one}) for one in gone)


@sees(evictions=1)
@given(scenes(), st.integers(0, 24), st.integers(0, 24))
@examples(45)
def test_quotas_hold_whoever_goes(scene: Scene, most: int, least: int) -> None:
    """With everybody in one quota, no more than its max is used, and nobody goes for a job that it keeps out."""
    manifests = scene.manifests()
    for raw in manifests:
        if raw["kind"] == "Pod":
            raw["metadata"]["labels"]["quota.scheduling.koordinator.sh/name"] = "q"  # type: ignore[index]
    rules = [quota("q", most=max(most, least), least=least)]
    outcome = settle(manifests, rules, profile=koordinator(preempts=True, enableRuntimeQuota=False))
    before = sum(gpu for pods in scene.standing for gpu, _, _ in pods)
    gone = sum(scene.standing[int(v[1])][int(v[3:])][0] for v in outcome.evicted)

    assert not outcome.bound or before - gone + scene.pods * scene.cards <= max(most, least)
    assert outcome.bound or not outcome.evicted

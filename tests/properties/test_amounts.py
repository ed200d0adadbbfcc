"""Gangs whose domains share amounts start exactly where a brute force finds a place, and amounts are never exceeded."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from tests.support.amounts import Scene, drawn, startable
from tests.support.depth import size
from tests.support.draw import allocate

from tierwise.model.job import Verdict

SIZE = size(150, 4000, quick=40)


@pytest.mark.parametrize("kinds", [1, 2])
@pytest.mark.parametrize("packed", [False, True])
def test_starts_exactly_when_the_amounts_allow(
    kinds: int, packed: bool, record_property: Callable[[str, object], None]
) -> None:
    """No place is missed, no amount exceeded, and no gang that fits a cleared cluster is told never."""
    seen, wrong = Counter[str](), []
    for seed in range(SIZE):
        scene = drawn(random.Random(f"{kinds} {packed} {seed}"), kinds=kinds, packed=packed)
        fault = _fault(scene, seen)
        if fault:
            wrong.append((len(str(scene)), f"{seed}: {fault}\n{scene}"))
    record_property("drawn", f"{SIZE} of {kinds}, {packed=}: {dict(seen)}")

    assert [] == [text for _, text in sorted(wrong)][:1], len(wrong)
    assert seen["starts"] > SIZE // 25
    assert seen["waits for amounts"] > SIZE // 20


def _fault(scene: Scene, seen: Counter[str]) -> str:
    outcome = allocate(scene.world(), scene.gang(), profile=scene.profile())
    able, starts = startable(scene), bool(outcome.bindings)
    seen["starts"] += starts
    seen["waits for amounts"] += not able and startable(_without(scene))
    if able and not starts:
        return f"missed: {outcome.report.rejections}"
    if starts and not able:
        return f"made up: {outcome.bindings}"
    over = _exceeded(scene, outcome.bindings)
    if over:
        return over
    rejection = outcome.report.rejections.get("default/g")
    if not starts and rejection is not None and rejection.verdict is Verdict.NEVER:
        seen["never"] += 1
        if startable(scene, cleared=True):
            return f"a false never: {rejection}"
    return ""


def _without(scene: Scene) -> Scene:
    """The scene without any amount."""
    return replace(scene, by_rack=(None, None, None), whole=None, by_feed=None)


def _exceeded(scene: Scene, bindings: dict[str, str]) -> str:
    """The first domain in which pods take more than there is, where none of those that stood did so."""
    cpus: dict[str, int] = {}
    for pod in bindings:
        kind = pod.rsplit("-", 2)[1] if len(scene.kinds) > 1 else "k0"
        cpus[pod] = scene.kinds[int(kind.removeprefix("k"))][0]
    for domain in scene.domains():
        before = sum(scene.takes(node, own) for node, own in scene.standing if node in domain.nodes)
        own = [(int(node[1:]), cpus[pod]) for pod, node in bindings.items() if int(node[1:]) in domain.nodes]
        if own and before + sum(scene.takes(node, number) for node, number in own) > domain.most:
            return f"exceeded: {bindings} in {domain}"
    return ""

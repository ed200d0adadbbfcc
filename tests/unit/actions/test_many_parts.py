"""Gangs of very many parts that differ: they start, no search goes as deep as they are many, and none is told never."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace
from tests.support.depth import DEEP
from tests.support.draw import Groups, draw, gang, objects_of
from tests.support.koordinator import cluster
from tests.support.koordinator import gang as gathered
from tests.support.koordinator import objects_of as joined
from tests.support.languages import RACK, SPINE
from tests.support.nested_oracle import Leaf, Nest, Scene, kai
from tests.support.two_fabrics import fabric

from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT
from tierwise.model.job import Verdict
from tierwise.port import Objects
from tierwise.sim.cluster.rounds import schedule


def _outcome(objects: Objects, steps: int = 0) -> tuple[int, list[str], list[Verdict]]:
    """How many pods are bound, what was set aside, and what those hear who wait."""
    given = {"allocate": {"searchSteps": steps}} if steps else {}
    history = schedule(objects, replace(DEFAULT, action_arguments=given), now=0.0, cycles=1)
    assert history.report is not None
    told = [rejection.verdict for rejection in history.report.rejections.values()]
    return len(history.bindings), [fault.code for fault in history.complaints()], told


def _two_sizes(number: int) -> Objects:
    """So many sub-groups in racks of one node: half of one pod, half of two, and a sixth of the room to spare."""
    half = number // 2
    racks = " ".join(f"r{i}[n{i}]" for i in range(3 * half // 39 + 1))
    parts = (Groups(half, 1, within=1, minimum=half, name="w1"), Groups(half, 2, within=1, minimum=half, name="w2"))
    return objects_of(draw(f"s[{racks}]", node="cpu=47 pods=2000"), gang("g", groups=parts))


@pytest.mark.parametrize("number", [1040, *((900, 2000, 4000) if DEEP else ())])
def test_many_sub_groups_of_two_sizes_start(number: int) -> None:
    """Once, a thousand of them were too deep for a search that called itself for each."""
    assert (3 * number // 2, [], []) == _outcome(_two_sizes(number))


@pytest.mark.parametrize("number", [1100, *((2200,) if DEEP else ())])
def test_many_unlike_parts_of_a_nested_gang_start(number: int) -> None:
    """Two groups below one spine each, with parts of one, two and three pods in one rack each."""
    half = number // 2
    groups = (
        Nest(name, tuple(Leaf(f"{name}{i}", 1 + i % 3, RACK) for i in range(half)), half, SPINE) for name in ("a", "b")
    )
    whole = Nest("g", tuple(groups), 2)
    scene = Scene({f"n{i}": (("z", f"s{i % 2}", f"s{i % 2}r{i}"), 110) for i in range(number // 40)}, whole)
    pods = 2 * sum(1 + i % 3 for i in range(half))

    assert (pods, [], []) == _outcome(joined(scene.manifests(), kai(whole)))


def _on_feeds(parts: tuple[Groups, ...], nodes: int, cpu: int) -> Objects:
    """Racks of four nodes and feeds that cross them; each group in one rack and on one feed."""
    listed = [{"fabric": "power", "tier": 1, "subGroup": part.name} for part in parts]
    drawn = gang("g", groups=parts, marks={"tierwise.io/topology-constraints": json.dumps(listed)})
    machines: list[Raw] = list(draw(" ".join(f"n{i}" for i in range(nodes)), node=f"cpu={cpu} pods=2000").manifests)
    trees = [*fabric("r", [i // 4 for i in range(nodes)], ""), *fabric("p", [i % 4 for i in range(nodes)], "power")]
    return joined(machines, trees, drawn.manifests())


def test_many_unlike_groups_on_two_fabrics_are_not_told_never() -> None:
    """They start, or wait because the search stopped at its bound."""
    sizes = tuple(Groups(130, 1 + i % 2, within=1, minimum=130, name=f"w{i}") for i in range(8))
    bound, aside, told = _outcome(_on_feeds(sizes, 40, 47))

    assert [] == aside
    assert (1560, []) == (bound, told) or (0, [Verdict.NOT_NOW]) == (bound, told)


def _in_multiples(nodes: int, multiples: dict[str, int], sizes: tuple[int, ...] = (1, 2)) -> Objects:
    """Pods of several sizes, as many as fill the nodes of one block, in multiples."""
    group, *pods = gathered("g", len(sizes) * nodes, must="SpineLayer", multiples=multiples)
    asking = [_asking(raw, sizes[i % len(sizes)]) for i, raw in enumerate(pods)]
    names = " ".join(f"n{i}" for i in range(nodes))
    return joined(cluster({"s0": {"b0": names}}, cpu=sum(sizes)), [group, *asking])


def _asking(raw: Raw, cpu: int) -> Raw:
    spec = raw["spec"]
    assert isinstance(spec, dict)
    return {**raw, "spec": {**spec, "containers": [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}]}}


@pytest.mark.parametrize("nodes", [44, 46, 60])
def test_pods_of_two_sizes_are_gathered_in_pairs_whatever_their_number(nodes: int) -> None:
    """One more pair of nodes was once the difference between a place and the word never."""
    assert (2 * nodes, [], []) == _outcome(_in_multiples(nodes, {"NodeTopologyLayer": 2}))


@pytest.mark.parametrize("steps", [0, 1000, 1])
@pytest.mark.parametrize(
    ("multiples", "sizes"),
    [
        ({"NodeTopologyLayer": 2}, (1, 2)),
        ({"NodeTopologyLayer": 2, "BlockLayer": 4}, (1, 3)),
        ({"NodeTopologyLayer": 3}, (1, 2, 4)),
    ],
)
def test_gathered_pods_that_fit_are_never_told_never(
    multiples: dict[str, int], sizes: tuple[int, ...], steps: int
) -> None:
    """However early the search stops: what it did not prove it does not say."""
    bound, aside, told = _outcome(_in_multiples(46, multiples, sizes), steps)

    assert [] == aside
    assert (46 * len(sizes), []) == (bound, told) or (0, [Verdict.NOT_NOW]) == (bound, told)


@pytest.mark.parametrize("steps", [1000, 10, 1])
@pytest.mark.parametrize("kind", ["sub-groups", "two fabrics"])
def test_unlike_groups_that_fit_are_never_told_never(kind: str, steps: int) -> None:
    """The same for sub-groups on one tree and on two."""
    parts = tuple(Groups(12, 1 + i % 2, within=1, minimum=12, name=f"w{i}") for i in range(4))
    objects = _two_sizes(60) if kind == "sub-groups" else _on_feeds(parts, 16, 5)
    pods = 90 if kind == "sub-groups" else 72
    bound, aside, told = _outcome(objects, steps)

    assert [] == aside
    assert (pods, []) == (bound, told) or (0, [Verdict.NOT_NOW]) == (bound, told)

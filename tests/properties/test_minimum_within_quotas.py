"""Any minimum that fits its queue is found, whichever plugin limits the queue; an exhaustive search is the judge."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.depth import examples
from tests.support.draw import Gang, World, allocate, draw, gang, groups, role
from tests.support.drawn_gang import manifest
from tests.support.strategies import profile

from tierwise.api.codec import Raw
from tierwise.config.profile import Profile

_QUEUE = "scheduling.volcano.sh/v1beta1"
_KINDS = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(0, 3)), min_size=2, max_size=4)
"""Pods by kind: how many, and the cpus and cards of each."""

LIMITS = {
    "capability": profile("priority", "gang", "predicates"),
    "capacity": profile("priority", "gang", "predicates", "capacity"),
    "proportion": profile("priority", "gang", "predicates", "proportion"),
    "tree": profile("priority", "gang", "predicates", "capacity"),
    "elasticquota": profile("priority", "gang", "predicates", "elasticquota"),
}


def _limited(how: str, world: World, cpu: int, gpu: int) -> World:
    """A queue q that may have so much."""
    most: Raw = {"cpu": str(cpu), "nvidia.com/gpu": str(gpu)}
    spec: Raw = {"weight": 1, "capability": most, "deserved": most}
    queue = manifest(_QUEUE, "Queue", {"name": "q"}, spec=spec)
    if how == "tree":
        parent = manifest(_QUEUE, "Queue", {"name": "above"}, spec={**spec, "parent": "root"})
        queue = manifest(_QUEUE, "Queue", {"name": "q"}, spec={"weight": 1, "parent": "above"})
        return replace(world, manifests=(*world.manifests, manifest(_QUEUE, "Queue", {"name": "root"}), parent, queue))
    if how == "elasticquota":
        meta: Raw = {"name": "q", "namespace": "default"}
        queue = manifest("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", meta, spec={"max": most, "min": most})
    return replace(world, manifests=(*world.manifests, queue))


def _starts(how: str, asked: Gang, cpu: int, gpu: int) -> bool:
    world = _limited(how, draw("r0[n0 n1]", node="cpu=16 gpu=16"), cpu, gpu)
    limits: Profile = LIMITS[how]
    return bool(allocate(world, asked, profile=limits).bindings)


@pytest.mark.parametrize("how", LIMITS)
@examples(120)
@given(kinds=_KINDS, minimum=st.integers(1, 5), cpu=st.integers(1, 9), gpu=st.integers(1, 7))
def test_gang_starts_with_whatever_its_queue_allows(
    how: str, kinds: list[tuple[int, int, int]], minimum: int, cpu: int, gpu: int
) -> None:
    """It starts if some of its pods, as many as its minimum, ask for no more than the queue may have."""
    pods = [(c, g) for number, c, g in kinds for _ in range(number)]
    roles = tuple(role(f"k{i}", number, _asks(c, g)) for i, (number, c, g) in enumerate(kinds))
    fits = any(
        sum(c for c, _ in some) <= cpu and sum(g for _, g in some) <= gpu for some in combinations(pods, minimum)
    )

    assert fits == _starts(how, gang("g", minimum=minimum, queue="q", roles=roles), cpu, gpu)


@pytest.mark.parametrize("how", ["capability", "proportion"])
@examples(120)
@given(sizes=st.lists(st.integers(1, 4), min_size=2, max_size=4), minimum=st.integers(1, 3), cpu=st.integers(1, 9))
def test_sub_groups_that_the_queue_allows_are_chosen(how: str, sizes: list[int], minimum: int, cpu: int) -> None:
    """Of sub-groups of two that differ in what they ask for, those start that the queue may have."""
    minimum = min(minimum, len(sizes))
    parts = tuple(groups(1, 2, name=f"p{i}", each=f"cpu={size}") for i, size in enumerate(sizes))
    least = sum(sorted(2 * size for size in sizes)[:minimum])

    assert (least <= cpu) == _starts(how, gang("g", minimum=2 * minimum, queue="q", groups=parts), cpu, 1)


def test_smaller_of_two_sub_groups_starts_where_the_queue_allows_no_more() -> None:
    """Sub-groups of alike pods differ in how many they are: the queue has room for the second alone."""
    world = _limited("capability", draw("r0[n0]"), 2, 1)
    parts = (groups(1, 4, name="p0", each="cpu=1"), groups(1, 2, name="p1", each="cpu=1"))

    outcome = allocate(world, gang("g", minimum=2, queue="q", groups=parts))

    assert {"g-p1-0-0": "n0", "g-p1-0-1": "n0"} == outcome.bindings


def test_selection_that_the_queue_allows_and_that_has_room() -> None:
    """The first pods that the queue allows have no room together; the gang starts with others that have some."""
    world = _limited("capability", draw("r0[n0 n1]", nodes={"n0": "cpu=2", "n1": "cpu=1"}), 4, 0)
    roles = (role("a", 1, "cpu=5"), role("b", 2, "cpu=2"), role("c", 1, "cpu=1"))

    outcome = allocate(world, gang("g", minimum=2, queue="q", roles=roles))

    assert {"g-b-0": "n0", "g-c-0": "n1"} == outcome.bindings


def test_many_pods_of_two_sizes_share_a_queue() -> None:
    """Of 300 large and 300 small pods, as many large ones start as leave room in the queue for the rest."""
    roles = (role("large", 300, "cpu=3"), role("small", 300, "cpu=1"))
    world = _limited("capability", draw("r0[n0]", node="cpu=2000 pods=2000"), 350, 0)

    outcome = allocate(world, gang("g", minimum=300, queue="q", roles=roles))

    assert 25 == sum(name.startswith("g-large") for name in outcome.bindings)


def _asks(cpu: int, gpu: int) -> str:
    return f"cpu={cpu} gpu={gpu}" if gpu else f"cpu={cpu}"

"""Gangs of listed sizes on the virtual clock: never at a size between."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.draw import draw, gang
from tests.support.sight import saw, sees

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.sizes import SIZES
from tierwise.config.profile import DEFAULT
from tierwise.port import Objects
from tierwise.sim.cluster.pod_behaviour import RUN_FOR
from tierwise.sim.cluster.simulation import Simulation

NOW = 1_790_000_000.0
TREE = "s0[r0[n0 n1 n2] r1[n3 n4 n5]]"
PROFILES = (
    DEFAULT,
    replace(DEFAULT, action_arguments={"allocate": {"reservations": "easy"}}),
    replace(DEFAULT, actions=("enqueue", "allocate", "gangpreempt", "backfill")),
    replace(DEFAULT, actions=("enqueue", "allocate", "preempt", "backfill")),
)
Sizes = tuple[int, ...]


@st.composite
def worlds(draws: st.DrawFn) -> tuple[list[Raw], dict[str, Sizes]]:
    """Gangs of listed sizes that run for ever, and others that come first or are more important and end."""
    raws: list[Raw] = list(draw(TREE, node="gpu=4").manifests)
    sizes: dict[str, Sizes] = {}
    for number in range(draws(st.integers(2, 4))):
        elastic = number > 0 and (number == 1 or draws(st.booleans()))
        listed = sorted(draws(st.sets(st.integers(1, 8), min_size=2, max_size=5)))
        tasks = draws(st.integers(3, 10)) if elastic else draws(st.integers(2, 4))
        drawn: list[Any] = gang(
            f"g{number}",
            tasks=tasks,
            each=f"gpu={draws(st.sampled_from([1, 2, 4])) if number else 4}",
            within=draws(st.sampled_from([1, 2, 2])),
            created=number,
            priority=draws(st.sampled_from([0, 5])),
        ).manifests()
        for raw in drawn:
            if raw["kind"] == "PodGroup" and elastic:
                raw["metadata"].setdefault("annotations", {})[SIZES] = ",".join(map(str, listed))
                raw["spec"]["minMember"] = draws(st.integers(1, listed[0] + 1))
                sizes[f"g{number}"] = tuple(size for size in listed if size >= raw["spec"]["minMember"])
            if raw["kind"] == "Pod" and not elastic:
                raw["metadata"]["annotations"][RUN_FOR] = f"{draws(st.integers(10, 900))}s"
                raw["spec"]["restartPolicy"] = "Never"
        raws += drawn
    return raws, sizes


@sees(runs=5)
@given(world=worlds(), profile=st.sampled_from(PROFILES))
def test_a_gang_runs_at_one_of_its_sizes(world: tuple[list[Raw], dict[str, Sizes]], profile: Any) -> None:
    """Whoever comes, goes or is more important: after every moment each gang has no pods, or one of its sizes."""
    raws, sizes = world
    life = Simulation(Objects.of((codec.decode(raw), raw) for raw in raws), profile, start=NOW, log=False)
    before: dict[str, int] = {}
    for moment in life.run(1000):
        for name, listed in sizes.items():
            pods = [pod for path, pod in moment.objects.every(Pod).items() if path.startswith(f"default/{name}-")]
            run = sum(bool(pod.spec.node_name) and not pod.metadata.deletion_timestamp for pod in pods)
            assert run == 0 or run in listed, (name, run, listed)
            saw(runs=int(run > 0), grew=int(0 < before.get(name, 0) < run))
            before[name] = run

"""A declared pattern reaches the pods: they are told their rank, and ranks that talk stand together."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.support.draw import World, draw, gang

from tierwise.api import codec
from tierwise.api.pattern import Pattern, parse_pattern
from tierwise.api.volcano import Job
from tierwise.config.profile import DEFAULT
from tierwise.controllers.job.pods import with_rank
from tierwise.port import Bind, Objects
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import effects
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import build


def _bound(world: World, tasks: int, pattern: str) -> dict[str, tuple[str, Mapping[str, str]]]:
    """The pods of a gang with a pattern after a cycle: node and annotations."""
    group, *pods = gang("train", tasks=tasks, within=2).manifests()
    metadata = group["metadata"]
    assert isinstance(metadata, dict)
    metadata["annotations"] = {"tierwise.io/pattern": pattern}
    cluster = EmbeddedCluster(Objects.of((codec.decode(m), m) for m in (*world.manifests, group, *pods)))
    snapshot = build(cluster.read(), now=0.0)
    cluster.apply(effects(snapshot, cycle(snapshot, DEFAULT)))
    found = cluster.read().every(codec.decode(pods[0]).__class__).values()
    return {pod.metadata.name: (pod.spec.node_name, pod.metadata.annotations) for pod in found}


def test_pods_are_told_their_rank() -> None:
    """Rank, number of ranks and place in the grid are written with the node."""
    found = _bound(draw("s0: r0[n0] r1[n1]", node="cpu=4"), 8, "dp=2,tp=4")

    assert ["n0"] * 4 + ["n1"] * 4 == [found[f"train-{i}"][0] for i in range(8)]
    assert ("5", "8", "dp=1,tp=1") == tuple(
        found["train-5"][1][f"tierwise.io/{key}"] for key in ("rank", "ranks", "coordinates")
    )


def test_blocks_are_not_cut_without_need() -> None:
    """Nodes with room for three: a pair of ranks is never parted where two pairs could be whole."""
    found = _bound(draw("s0: r0[n0 n1]", node="cpu=3"), 6, "dp=3,tp=2")
    pairs = [{found[f"train-{i}"][0], found[f"train-{i + 1}"][0]} for i in (0, 2, 4)]

    assert [{"n0"}, {"n0", "n1"}, {"n1"}] == pairs


def test_of_racks_that_hold_a_gang_those_with_whole_blocks_are_chosen() -> None:
    """Any two of three racks with room for five, four and four hold eight pods: two of them, two blocks of four."""
    found = _bound(
        draw("s0: r0[n0] r1[n1] r2[n2]", nodes={"n0": "cpu=5", "n1": "cpu=4", "n2": "cpu=4"}), 8, "dp=2,tp=4"
    )

    assert [1, 1] == [len({found[f"train-{i}"][0] for i in block}) for block in (range(4), range(4, 8))]


def test_without_a_pattern_nothing_is_written() -> None:
    """Pods of other jobs hear where they stand, and of no rank."""
    world, train = draw("s0: r0[n0]"), gang("train", tasks=1)
    snapshot = build(Objects.of((codec.decode(m), m) for m in (*world.manifests, *train.manifests())), now=0.0)

    (bind,) = (effect for effect in effects(snapshot, cycle(snapshot, DEFAULT)) if isinstance(effect, Bind))
    assert {"tierwise.io/hypernode", "tierwise.io/topology"} == bind.annotations.keys()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ring", Pattern("ring")),
        ("all-to-all", Pattern("all-to-all")),
        ("dp=4, pp=8,tp=8", Pattern("grid", (("dp", 4), ("pp", 8), ("tp", 8)))),
        ("dp=4:1,tp=8:90", Pattern("grid", (("dp", 4), ("tp", 8)), (1, 90))),
        ("dp=4,tp=8:90", None),
        ("star", None),
        ("dp=0", None),
        ("dp=2,dp=2", None),
        ("", None),
    ],
)
def test_patterns_are_read(text: str, expected: Pattern | None) -> None:
    """Three forms, and nothing else."""
    assert expected == parse_pattern(text)


def test_containers_read_their_rank() -> None:
    """Every container of a job with a pattern gets the variables, unless it sets them itself."""
    raw = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "annotations": {"tierwise.io/pattern": "ring"}},
        "spec": {"tasks": []},
    }
    job = codec.decode(raw)
    assert isinstance(job, Job)
    spec = with_rank({"containers": [{"name": "a", "env": [{"name": "TIERWISE_RANK", "value": "7"}]}]}, job)
    containers = spec["containers"]
    assert isinstance(containers, list)
    env = containers[0]["env"]

    assert ["TIERWISE_RANK", "TIERWISE_COORDINATES"] == [v["name"] for v in env]
    assert "7" == env[0]["value"]
    assert "metadata.annotations['tierwise.io/coordinates']" in str(env[1])

"""Every row of the benchmark at a small size: it runs, and its row is well formed. Times are nobody's business here."""

import gc
import json
from collections.abc import Sequence

import numpy as np
import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from tests.support.depth import QUICK
from tests.support.objectives import PROFILES, ends

from tierwise.config.profile import DEFAULT
from tierwise.model.job import Job
from tierwise.model.snapshot import Snapshot
from tierwise.scheduler import cycle, open_cycle
from tierwise_lab.bench.compare import Reference, agree, compare
from tierwise_lab.bench.everyday import with_minimums
from tierwise_lab.bench.evictions import protected
from tierwise_lab.bench.lab import Lab, Size
from tierwise_lab.bench.measure import Row, at_least, at_most, decisions
from tierwise_lab.bench.rows import ROWS, chosen
from tierwise_lab.bench.worlds import (
    CLASSES,
    GPU,
    GPUS_PER_NODE,
    BenchCluster,
    GangSpec,
    cluster,
    flat_cluster,
    jobs,
    mix,
    snapshot,
)
from tierwise_lab.cli.bench import bench

SMALL = Size(
    small=600,
    large=900,
    gangs=40,
    pods=640,
    backlog=300,
    sample=8,
    gang=24,
    giant=150,
    racks=5,
    rack=8,
    crowds=3,
    crowd=20,
    handfuls=12,
    residents=60,
    everyday=50,
    replayed=60,
    weighed=40,
    repeats=2,
    imports=1,
)
LONG = (
    *("C1a", "C1b", "C3b", "C3c", "C7b", "C8a", "C8b", "C8c", "C9", "C13a", "C13b", "C13c", "C16a"),
    *(f"C16{letter}" for letter in "cdefghi"),
    *("P1", "P2", "P4", "P8", "P11", "P12", "P13", "R1a", "R1b", "R2a", "R2b", "R3a", "R3b", "R4", "S3a", "S3b"),
    *("C5f", "C9b", "C18b", "S3c"),
)
"""Rows that take most of a second or more at any size: `make properties` runs them."""
KEYS = ["id", "what", "measured", "gate", "stretch", "gate_met", "stretch_met"]


@pytest.fixture(scope="module", autouse=True)
def _light() -> None:
    """What the tests before have left is out of the collector's way, which every measurement calls."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", name="lab")
def _lab() -> Lab:
    return Lab(SMALL)


@pytest.mark.parametrize("name", [name for name in ROWS if not QUICK or name not in LONG])
def test_every_row_is_well_formed(lab: Lab, name: str) -> None:
    """A row names itself, measures something, and says how it stands to its goals."""
    row = ROWS[name](lab)
    record = row.record()

    assert KEYS == list(record)
    assert name == record["id"]
    assert row.what
    assert np.isfinite(row.measured)
    assert row.measured > 0
    assert row.goal.met(row.measured, row.goal.gate) is record["gate_met"]
    assert (row.goal.stretch is None) is (record["stretch_met"] is None)


@pytest.mark.parametrize(("load", "seed"), [(0.0, 1), (0.3, 2), (0.7, 3), (0.9, 4)])
def test_engine_and_reference_agree(load: float, seed: int) -> None:
    """Pod by pod and by counting, the same gangs fit, at the same tier; `compare` raises where they do not."""
    where = cluster(400, load=load, seed=seed)
    gangs = mix(60, top=where.top, seed=seed)

    assert compare(where, gangs, 1).ratio > 0


def test_partitioned_gangs_agree() -> None:
    """Groups confined to racks: as many as the reference finds room for, and not one more."""
    where = cluster(120, seed=5)
    gangs = [GangSpec(CLASSES[7], 16, 3, group=8) for _ in range(10)]
    snap = snapshot(where, jobs(gangs))
    report = cycle(snap, DEFAULT)

    compare(where, gangs, 1)
    assert 0 < len(report.decisions) - 1 < len(gangs)  # the lead is decided as well
    for decision in report.decisions[1:]:
        assert all(len(np.unique(snap.topology.leaf[placed.rows])) == 1 for placed in decision.placed)


def test_a_disagreement_is_an_error() -> None:
    """The comparison is worth something: neither another tier nor a refusal passes for the engine's answer."""
    snap = snapshot(cluster(100), jobs([GangSpec(CLASSES[0], 4, 1)]))
    decision = cycle(snap, DEFAULT).decisions[1]
    verdict = Reference(snap).decide(decision.job)

    assert verdict is not None
    agree(snap, decision.job, decision, verdict)
    with pytest.raises(RuntimeError, match="pod by pod says tier 2"):
        agree(snap, decision.job, decision, replace(verdict, tier=2))
    with pytest.raises(RuntimeError, match="pod by pod says tier None"):
        agree(snap, decision.job, decision, None)


def test_the_same_seed_gives_the_same_world() -> None:
    """Two draws are equal in every array, and a smaller mix begins a larger one."""
    first, second = cluster(500, load=0.4), cluster(500, load=0.4)

    assert np.array_equal(first.topology.start, second.topology.start)
    assert [(t.key, t.node) for t in first.running] == [(t.key, t.node) for t in second.running]
    assert mix(20, top=4) == mix(50, top=4)[:20]


@pytest.mark.parametrize("load", [0.2, 0.5, 0.9])
def test_the_load_is_what_was_asked_for(load: float) -> None:
    """Running tasks use about the stated share of the GPUs, and never more than a node has."""
    where = cluster(4_000, load=load)
    snap = snapshot(where, jobs([]))
    idle = open_cycle(snap, DEFAULT).ledger.idle

    assert (idle >= 0).all()
    assert load == pytest.approx(1 - idle[snap.axis.index[GPU]].mean() / GPUS_PER_NODE, abs=0.06)


@pytest.mark.parametrize("where", [cluster(2_000), flat_cluster(5, 8)], ids=["tiers", "flat"])
def test_clusters_have_the_stated_tree(where: BenchCluster) -> None:
    """Racks at the bottom, sixteen to a leaf and eight leaves to a spine, or racks alone; one root over all."""
    topology = where.topology
    sizes = [topology.end[d] - topology.start[d] for d in range(len(topology)) if topology.tier[d] == 1]

    assert not topology.problems
    assert len(where.nodes) == sum(sizes)
    assert (set(sizes) == {8}) if where.top == 2 else all(size <= 32 for size in sizes)
    assert all(len(topology.children[d]) <= 16 for d in range(len(topology)) if topology.tier[d] == 2 < where.top)


def test_refused_gangs_are_timed_beside_placed_ones() -> None:
    """One time per gang, the lead left out, whatever became of it."""
    done = decisions(snapshot(cluster(60), jobs([GangSpec(CLASSES[7], 40, 4)] * 3)), 1)

    assert [True, False, False] == done.placed.tolist()
    assert len(done.seconds) == 3
    assert 40 == done.pods


@pytest.mark.parametrize(
    ("wanted", "expected"), [((), list(ROWS)), (("p3",), ["P3a", "P3b"]), (("S1", "p3b", "S1"), ["S1", "P3b"])]
)
def test_rows_are_chosen_by_id(wanted: Sequence[str], expected: list[str]) -> None:
    """Case does not matter, a number means all rows of that number, and none means all."""
    assert expected == chosen(wanted)


def test_command_prints_json() -> None:
    """The JSON has the rows and the machine, and nothing else; the exit code is 1 for a missed gate if asked for."""
    run = CliRunner().invoke(bench, ["--quick", "-o", "json", "--row", "s1", "--check"])
    document = json.loads(run.stdout)

    assert ["rows", "machine"] == list(document)
    assert ["S1"] == [row["id"] for row in document["rows"]]
    assert KEYS == list(document["rows"][0])
    assert {"cpu", "cores", "python", "numpy"} == set(document["machine"])
    assert int(not document["rows"][0]["gate_met"]) == run.exit_code


def test_command_prints_a_table() -> None:
    """Text has one line per row with its goals, and the machine beneath; without `--check` it always succeeds."""
    run = CliRunner().invoke(bench, ["--quick", "--row", "S1"])

    assert 0 == run.exit_code
    assert "≥ 5,000" in run.stdout
    assert "NumPy" in run.stdout.splitlines()[-1]


def test_command_names_unknown_rows() -> None:
    """A row that does not exist is a usage error that lists those that do."""
    run = CliRunner().invoke(bench, ["--row", "P99"])

    assert 2 == run.exit_code
    assert "no row P99" in run.stderr


def test_goals_look_both_ways() -> None:
    """At most and at least, with and without a stretch."""
    assert at_most(20, 4).met(20, 20)
    assert at_least(500).met(500, 500)
    assert Row("S1", "a rate", 10.0, at_least(5)).stretch_met is None


def test_objectives_pull_in_different_directions() -> None:
    """Fewest domains touch fewer racks than packing, and packing leaves more racks whole: the ends are measured."""
    found = ends(300, [1])

    assert set(PROFILES) == set(found)
    assert found["fewest-domains"].racks <= found["pack"].racks
    assert all(0 < end.placed <= 1 for end in found.values())


@pytest.mark.parametrize("seed", range(4))
def test_minimums_that_controllers_write_change_nothing(seed: int) -> None:
    """A gang whose minResources and role say what its pods ask for is placed, or refused in words, as without them."""
    where = cluster(80, load=0.3, seed=seed)
    plain = jobs([replace(gang, group=0) for gang in mix(150, top=where.top, seed=seed)])
    made = [with_minimums(job) for job in plain]

    def told(workload: Sequence[Job]) -> list[object]:
        report = cycle(snapshot(where, workload), DEFAULT)
        rows = [(d.job.key, [p.rows.tolist() for p in d.placed]) for d in report.decisions]
        refused = [(key, r.stage, r.reason, r.tried, r.verdict) for key, r in report.rejections.items()]
        return [rows, refused]

    assert told(plain) == told(made)


def test_excessive_min_resources_decide() -> None:
    """A gang whose minResources name more than any rack has is refused, and plain ones like it are not."""
    where = cluster(40, seed=3)
    first, *rest = jobs([GangSpec(CLASSES[0], 2, 1)] * 4)
    greedy = [replace(job, min_resources=1_000 * job.tasks[0].shape.request) for job in rest[:2]]
    report = cycle(snapshot(where, [first, *greedy, *rest[2:]]), DEFAULT)

    assert [job.key for job in greedy] == list(report.rejections)


def test_a_vain_attempt_is_remembered_for_its_like() -> None:
    """Five alike jobs hear what one of them alone hears, word for word; one that is more important is asked anew."""
    preempting = replace(DEFAULT, actions=("allocate", "backfill", "preempt"))

    def heard(full: Snapshot) -> list[object]:
        report = cycle(full, preempting)
        return [attempt.obstacle for attempts in report.eviction_attempts.values() for attempt in attempts]

    five = protected(cluster(24), 4, 5)
    spared = replace(five.jobs[1], minimum=1, subs=(replace(five.jobs[1].subs[0], minimum=1),))
    one_loose = replace(five, jobs=(five.jobs[0], spared, *five.jobs[2:]))

    assert 5 * heard(protected(cluster(24), 4, 1)) == heard(five)
    assert cycle(one_loose, preempting).evictions or len(set(map(str, heard(one_loose)))) == 1


def test_a_line_of_the_scale_sheet() -> None:
    """One size, as a line for people and as numbers for programs."""
    said = CliRunner().invoke(bench, ["--scale", "32"])
    told = json.loads(CliRunner().invoke(bench, ["--scale", "32", "-o", "json"]).output)

    assert said.output.startswith("32 nodes, 336 pods: read ")
    assert ["nodes", "pods", "read", "cycle", "change", "pod", "memory"] == list(told)
    assert (32, 336) == (told["nodes"], told["pods"])

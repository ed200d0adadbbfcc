"""Replays of hosts of several sizes, gangs with several roles, elastic gangs and services."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.depth import examples

from tierwise.api.errors import InputError
from tierwise.config.profile import DEFAULT
from tierwise_lab.replay.engine.contenders import BUILT_IN, Contender
from tierwise_lab.replay.engine.engine import Engine
from tierwise_lab.replay.engine.rules import Rules, draw
from tierwise_lab.replay.report.outcome import outcome
from tierwise_lab.replay.report.spread import Spreads
from tierwise_lab.replay.spec import ReplaySpec, command, replay
from tierwise_lab.replay.traces.readers import read_fabric, read_trace
from tierwise_lab.replay.traces.synthetic import synthetic_fabric, synthetic_trace
from tierwise_lab.replay.traces.trace import Trace, pods_of, slots

FABRIC = synthetic_fabric("synthetic:spines=1,leaves=2,hosts=2", 8)
SMALL = "synthetic:spines=1,leaves=2,hosts=5,gpus=8"
EVERY = ("default", "tree", "kueue", "slurm", "best-fit")


def jobs(*told: tuple[float, float, int], **more: Any) -> Trace:
    """Jobs by arrival, duration and GPUs."""
    arrival, duration, gpus = (np.array(column) for column in zip(*told, strict=True))
    none = np.zeros(len(told), dtype=np.int64)
    return Trace("drawn", arrival.astype(float), duration.astype(float), gpus, none, none, **more)


def lived(trace: Trace, profile: str = "default", fabric: Any = FABRIC, **rules: Any) -> Engine:
    """A replay that has come to its end."""
    engine = Engine(fabric, trace, BUILT_IN[profile](1), Rules(period=0.0, **rules))
    for _ in engine.run():
        pass
    return engine


# Elastic gangs


@pytest.mark.parametrize("profile", EVERY)
def test_an_elastic_gang_starts_with_its_minimum_and_grows(profile: str) -> None:
    """It starts on the two hosts that are free, works half as fast there, and takes the others when they are free."""
    held = [(0.0, 100.0, 16)]
    whole = lived(jobs(*held, (10.0, 200.0, 32)), profile)
    grown = lived(jobs(*held, (10.0, 200.0, 32), least={1: 16}), profile)

    assert [100.0, 300.0] == [whole.state.first_start[1], whole.state.end[1]]
    assert [10.0, 255.0] == [grown.state.first_start[1], grown.state.end[1]]  # 45 s of its work are done at 100 s
    assert 16 * 100 + 32 * 200 == grown.state.useful == grown.state.held


def test_an_elastic_gang_gives_pods_back_and_goes_on() -> None:
    """A job of more importance takes what is beyond the minimum, and no work is lost."""
    contender = Contender("preempting", replace(DEFAULT, actions=("allocate", "preempt")))
    trace = jobs((0.0, 100.0, 32), (50.0, 10.0, 16), least={0: 16})
    trace = replace(trace, priority=np.array([0, 1]))
    engine = Engine(FABRIC, trace, contender, Rules(period=0.0))
    for _ in engine.run():
        pass

    assert [50.0, 60.0] == [engine.state.first_start[1], engine.state.end[1]]
    assert 105.0 == engine.state.end[0]
    assert (0, 0.0) == (engine.state.evictions[0], engine.state.lost[0])


@examples(12)
@given(
    name=st.sampled_from([*EVERY, "repair", "spares", "easy", "random"]),
    seed=st.integers(0, 10**6),
    failing=st.booleans(),
)
def test_gpu_hours_add_up_whatever_grows_and_fails(name: str, seed: int, failing: bool) -> None:
    """What is held is work that counts, that is lost, that is being done, or stands still; at every moment."""
    fabric = synthetic_fabric("synthetic:spines=2,leaves=2,hosts=3,gpus=8+4", 8)
    trace = synthetic_trace("synthetic:jobs=30,gap=300,mean=3000,largest=64", seed)
    trace = trace.with_roles((2, 1), 8).elastic(0.4, 8).with_services(0.1, seed)
    incidents = draw(fabric.nodes.names, trace.span, between=30_000.0 if failing else 0.0, repair=2000.0, seed=seed)
    engine = Engine(fabric, trace, BUILT_IN[name](seed), Rules(period=60.0, look_ahead=8, incidents=incidents))
    for state in engine.run():
        running = state.running.items()
        working = sum((state.clock - start) * engine.pace(job) * int(trace.gpus[job]) for job, (start, _) in running)
        known = state.useful + float(state.lost.sum()) + working + state.halted
        assert known == pytest.approx(state.held, rel=1e-9, abs=1e-3)
        assert (engine.idle >= 0).all()
        assert all(engine.enough(job, rows) for job, (_, rows) in running)
    ended = np.isfinite(trace.duration) & ~np.isin(np.arange(len(trace)), [*state.refused, *state.waiting])
    assert (state.end[ended] >= 0).all()


# Roles


@pytest.mark.parametrize("profile", EVERY)
def test_a_role_has_pods_of_another_shape(profile: str) -> None:
    """Two pods of whole hosts and two of 2 GPUs fill two hosts and half of a third, in the order of ranks."""
    engine = lived(jobs((0.0, 10.0, 20), (1.0, 10.0, 4), pods={0: (2, 8, 8, 2)}), profile)
    log = Engine(FABRIC, engine.trace, engine.contender, Rules(period=0.0))
    next(log.run())
    _, rows = log.state.running[0]

    assert [10.0, 11.0] == engine.state.end.tolist()
    assert 12 == log.idle.sum()
    assert 1 == len({rows[0], rows[3]} - {rows[1], rows[2]})


@pytest.mark.parametrize("text", ["", "2", "0x8", "2x0", "1x2+", "x", "1x2,1x3", "-1x2", "1x100", "²x2"])
def test_pods_that_cannot_be_read_are_no_pods(text: str) -> None:
    """Numbers of pods and their GPUs, and nothing else."""
    with pytest.raises(ValueError, match="is no number of pods"):
        pods_of(text)


def test_slots_that_pods_take_at_least() -> None:
    """A pod takes as many slots of a smaller size as fit in it."""
    assert ((8, 2), (3, 5)) == slots((8, 8, 3))
    assert (2, 8, 8, 8, 8) == pods_of("1x2+4x8")


# Services


@pytest.mark.parametrize("profile", EVERY)
def test_a_service_runs_on(profile: str) -> None:
    """The replay ends with the last job that ends; what waits for the room of a service waits for ever."""
    engine = lived(jobs((0.0, np.inf, 8), (1.0, 50.0, 24), (2.0, 10.0, 32)), profile)

    assert [-1.0, 51.0, -1.0] == engine.state.end.tolist()
    assert {0} == set(engine.state.running)
    assert {2} == engine.state.waiting
    assert (8 + 24) * 50 == pytest.approx(outcome(engine)["gpu_hours"]["useful"] * 3600 - 8, abs=4)  # type: ignore[index]


def test_the_load_of_services_is_that_of_their_gpus_while_they_are_there() -> None:
    """Arrivals are drawn together until services and jobs offer the share together."""
    trace = synthetic_trace("synthetic:jobs=100", 1).with_services(0.1, 1).at_load(0.9, 640)

    assert 0.9 == pytest.approx(trace.work / (trace.span * 640))
    with pytest.raises(InputError, match="--load: services alone offer as much"):
        synthetic_trace("synthetic:jobs=100", 1).with_services(0.9, 1).at_load(0.1, 64)


def test_a_service_that_is_stopped_repeats_nothing() -> None:
    """Its host fails, it waits and serves again; what it served counts."""
    trace = jobs((0.0, np.inf, 32), (400.0, 1.0, 8))
    incidents = draw(FABRIC.nodes.names, 300.0, between=300.0, repair=10.0, seed=1)
    engine = lived(trace, incidents=incidents, checkpoint_interval=60.0)

    assert engine.state.failures
    assert 0.0 == engine.state.lost.sum()


def test_the_formula_of_what_failures_cost_leaves_services_out() -> None:
    """It weighs jobs by their work, and a service has no end to its work."""
    told = [(0.0, 300.0, 8), (400.0, 1.0, 8)]
    incidents = draw(FABRIC.nodes.names, 300.0, between=300.0, repair=10.0, seed=1)
    alone, beside = (outcome(lived(jobs(*some), incidents=incidents)) for some in (told, [(0.0, np.inf, 8), *told]))

    assert alone["failures"]["lost_share_expected"]  # type: ignore[index]
    assert alone["failures"]["lost_share_expected"] == beside["failures"]["lost_share_expected"]  # type: ignore[index]


# Hosts of several sizes


@pytest.mark.parametrize("profile", EVERY)
def test_a_host_of_four_gpus_beside_hosts_of_eight(profile: str) -> None:
    """It holds what fits on it, and no pod of a whole host of 8; a gang that needs more such hosts is refused.

    So is one that has GPUs enough in the whole cluster, of which no second host can hold a pod.
    """
    fabric = synthetic_fabric("synthetic:spines=1,leaves=2,hosts=1,gpus=8+4", 8)
    trace = jobs((0.0, 10.0, 8), (1.0, 10.0, 4), (2.0, 10.0, 12), (3.0, 10.0, 16), (4.0, 10.0, 12), pods={4: (6, 6)})
    engine = lived(trace, profile, fabric)

    assert (12, [8, 4]) == (fabric.gpus, fabric.host_gpus.tolist())
    assert [10.0, 11.0, 21.0, -1.0, -1.0] == engine.state.end.tolist()
    assert [3, 4] == engine.state.refused


def test_the_fewest_leaves_are_those_of_hosts_that_hold_the_pods() -> None:
    """Leaves of small hosts are of no use to pods of whole large ones."""
    spreads = Spreads.over(synthetic_fabric("synthetic:spines=1,leaves=4,hosts=2,gpus=8+4", 8))

    assert [1, 2, 1, 2] == [spreads.fewest(sizes) for sizes in ((8, 8), (8, 8, 8), (4,) * 4, (4,) * 5)]


# As options and files


def test_tables_name_gpus_of_hosts_and_pods_and_minimums_of_jobs(tmp_path: Path) -> None:
    """Columns that are not there leave everything as it was."""
    (tmp_path / "hosts.csv").write_text("host,rack,gpus\na,r0,8\nb,r0,4\n")
    (tmp_path / "jobs.csv").write_text(
        "timestamp,duration,num_gpus,min_gpus,pods\n9,service,1,,\n5,60,32,16,\n7,60,1,,1x2+2x8\n"
    )
    fabric, trace = read_fabric(str(tmp_path / "hosts.csv"), 2), read_trace(str(tmp_path / "jobs.csv"))

    assert [8, 4] == fabric.host_gpus.tolist()
    assert [60.0, 60.0, np.inf] == trace.duration.tolist()
    assert ([32, 18, 1], {0: 16}, {1: (2, 8, 8)}) == (trace.gpus.tolist(), trace.least, trace.pods)


@pytest.mark.parametrize("setting", [{"elastic": 0.5}, {"roles": "1x2"}, {"services": 0.1}, {"topology": f"{SMALL}+4"}])
def test_each_is_a_setting_that_makes_a_difference(setting: dict[str, Any]) -> None:
    """An axis of a sweep and an option of `simulate`, which the command of a cell names."""
    base: dict[str, Any] = {"topology": SMALL, "trace": "synthetic:jobs=40", "load": 1.2}
    spec = ReplaySpec(**{**base, **setting})

    assert replay(ReplaySpec(**base)).outcomes != replay(spec).outcomes
    assert all(str(value) in command(spec) for value in setting.values())


def test_roles_that_cannot_be_read_and_elastic_gangs_with_controllers_are_bad_input() -> None:
    """In one line each."""
    base: dict[str, Any] = {"topology": "synthetic:spines=1", "trace": "synthetic:jobs=40"}

    with pytest.raises(InputError, match="--roles: 1y2 is no number of pods"):
        replay(ReplaySpec(**base, roles="1y2"))
    with pytest.raises(InputError, match="--elastic: gangs that go through controllers start whole"):
        replay(ReplaySpec(**base, elastic=0.5, through="controllers"))


def test_roles_services_and_small_hosts_go_through_controllers() -> None:
    """The same jobs end as by the cycle alone."""
    base: dict[str, Any] = {"topology": "synthetic:spines=1,leaves=2,hosts=2,gpus=8+4", "trace": "synthetic:jobs=6",
                            "roles": "1x2", "services": 0.2, "period": 1.0, "seed": 3}  # fmt: skip
    ways = [replay(ReplaySpec(**base, through=through)).outcomes[0]["jobs"] for through in ("cycle", "controllers")]

    assert ways[0] == ways[1]
    assert ways[0]["running"]

"""Where ends are as stated and nobody else comes, a job starts when it was said to start: simulated to the second."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.draw import draw, gang
from tests.support.sight import saw, sees

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Pod, format_time
from tierwise.api.eviction_terms import EXPECTED_DURATION
from tierwise.config.profile import DEFAULT
from tierwise.explain.eta import StartKind
from tierwise.port import Objects
from tierwise.sim.cluster.pod_behaviour import RUN_FOR, START_AFTER
from tierwise.sim.cluster.simulation import Simulation
from tierwise.sim.forecast.eta import etas
from tierwise.sim.what_if.runs import prepared

NOW = 1_790_000_000.0
TREE = "s0[r0[n0 n1] r1[n2 n3]]"


def _manifests(name: str, lasts: int, *, since: int = 0, **drawn: Any) -> list[Raw]:
    """A gang that says how long it runs, and does; with `since` it has run for so many seconds."""
    raws = gang(name, **drawn).manifests()
    for raw in raws:
        body: Any = raw
        marks = body["metadata"].setdefault("annotations", {})
        if raw["kind"] == "PodGroup":
            marks[EXPECTED_DURATION] = f"{lasts}s"
        else:
            marks |= {RUN_FOR: f"{lasts}s", START_AFTER: "0s"}
            body["spec"]["restartPolicy"] = "Never"
            if since:
                begun = format_time(NOW - since)
                state = {"running": {"startedAt": begun}}
                body["status"] = {
                    "phase": "Running",
                    "startTime": begun,
                    "containerStatuses": [{"name": "c", "ready": True, "state": state}],
                }
    return raws


@st.composite
def worlds(draws: st.DrawFn) -> Objects:
    """Four nodes in two racks, some of them busy for a while, and gangs of several sizes that wait."""
    raws: list[Raw] = list(draw(TREE, node="gpu=4").manifests)
    for node in range(4):
        size = draws(st.integers(0, 4))
        if size:
            since, left = draws(st.integers(1, 500)), draws(st.integers(1, 900))
            raws += _manifests(f"run{node}", since + left, since=since, tasks=1, each=f"gpu={size}", on=f"n{node}")
    for number in range(draws(st.integers(1, 5))):
        raws += _manifests(
            f"wait{number}",
            draws(st.integers(1, 900)),
            tasks=draws(st.integers(1, 4)),
            each=f"gpu={draws(st.sampled_from([1, 2, 4]))}",
            within=draws(st.sampled_from([1, 2])),
            created=number,
            priority=draws(st.sampled_from([0, 0, 5])),
        )
    return Objects.of((codec.decode(raw), raw) for raw in raws)


def _simulated(objects: Objects) -> dict[str, float]:
    """When each gang that waits has its nodes, in a cluster with kubelets and controllers."""
    waiting = {path for path, pod in objects.every(Pod).items() if not pod.spec.node_name}
    found: dict[str, float] = {}
    simulation = Simulation(objects, DEFAULT, start=NOW)
    for moment in simulation.run(20_000):
        pods = moment.objects.every(Pod)
        for path in waiting:
            if path in pods and pods[path].spec.node_name:
                found.setdefault(path.rpartition("-")[0], NOW + moment.at)
    return found


@sees(starts=3)
@given(objects=worlds())
def test_a_start_that_is_certain_comes_true(objects: Objects) -> None:
    """Every gang starts in the second that was said, and who was not expected does not start."""
    report = etas(prepared(objects, DEFAULT, NOW))
    said = {eta.job: eta.start for eta in report.jobs if eta.kind in (StartKind.NOW, StartKind.EXPECTED)}

    saw(starts=len(said))
    assert _simulated(objects) == said
    assert 1 == report.runs

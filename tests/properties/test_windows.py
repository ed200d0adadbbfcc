"""Windows on the virtual clock: nothing that is started after a window was declared runs inside it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.draw import draw, gang
from tests.support.sight import saw, sees

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Pod, format_time
from tierwise.api.eviction_terms import EXPECTED_DURATION
from tierwise.api.window import Span, Window, read_window
from tierwise.config.profile import DEFAULT, Profile
from tierwise.explain.eta import StartKind
from tierwise.port import Objects
from tierwise.sim.cluster.pod_behaviour import RUN_FOR, START_AFTER
from tierwise.sim.cluster.simulation import Simulation
from tierwise.sim.forecast.eta import etas
from tierwise.sim.what_if.runs import prepared

NOW = 1_790_000_000.0
TREE = "s0[r0[n0 n1] r1[n2 n3]]"
RACKS = {"n0": {"s0", "r0"}, "n1": {"s0", "r0"}, "n2": {"s0", "r1"}, "n3": {"s0", "r1"}}
PROFILES = (
    DEFAULT,
    replace(DEFAULT, action_arguments={"allocate": {"reservations": "easy"}}),
    replace(DEFAULT, actions=("enqueue", "allocate", "gangpreempt", "backfill")),
)
WEEK = 7 * 86_400


class Drawn(msgspec.Struct, frozen=True):
    """A cluster with windows, and how long each gang runs."""

    objects: Objects
    profile: Profile


def _gang(draws: st.DrawFn, number: int) -> list[Raw]:
    lasts = draws(st.integers(60, 3000))
    says = draws(st.sampled_from(["truth", "more", "deadline", "nothing"]))
    slow = draws(st.sampled_from([0, 0, 3]))
    raws = gang(
        f"g{number}",
        tasks=draws(st.integers(1, 4)),
        each=f"gpu={draws(st.sampled_from([1, 2, 4]))}",
        within=draws(st.sampled_from([1, 2])),
        created=number,
        priority=draws(st.sampled_from([0, 0, 5])),
    ).manifests()
    for raw in raws:
        body: Any = raw
        marks = body["metadata"].setdefault("annotations", {})
        if raw["kind"] == "PodGroup" and says in ("truth", "more"):
            marks[EXPECTED_DURATION] = f"{lasts + (says == 'more') * 500}s"
        if raw["kind"] == "Pod":
            marks |= {RUN_FOR: f"{lasts}s", START_AFTER: f"{slow}s"}
            body["spec"]["restartPolicy"] = "Never"
            if says == "deadline":
                body["spec"]["activeDeadlineSeconds"] = lasts + 100
    return raws


def _window(draws: st.DrawFn, number: int) -> Raw:
    start = datetime.fromtimestamp(NOW + draws(st.integers(-600, 4000)), UTC)
    spec: dict[str, Any] = {
        "domains": [draws(st.sampled_from(["r0", "r1", "s0"]))],
        "start": start.isoformat(),
        "duration": f"{draws(st.integers(1, 3000))}s",
        "margin": "10s",
        "overrun": draws(st.sampled_from(["Stay", "Evict"])),
        "everyDays": draws(st.sampled_from([0, 0, 1])),
    }
    return {"apiVersion": "tierwise.io/v1alpha1", "kind": "Window", "metadata": {"name": f"w{number}"}, "spec": spec}


@st.composite
def worlds(draws: st.DrawFn) -> Drawn:
    """Four nodes in two racks, gangs of several sizes, and windows on racks or on all of it."""
    raws: list[Raw] = list(draw(TREE, node="gpu=4").manifests)
    raws += [_window(draws, number) for number in range(draws(st.integers(1, 3)))]
    for number in range(draws(st.integers(2, 6))):
        raws += _gang(draws, number)
    objects = Objects.of((codec.decode(raw), raw) for raw in raws)
    return Drawn(objects, draws(st.sampled_from(PROFILES)))


def _closed(objects: Objects, until: float) -> Iterator[tuple[set[str], Span]]:
    """The nodes and times of every occurrence, by the clock and not by what the scheduler makes of it."""
    for record in objects.every(Window).values():
        schedule, time = read_window(record), NOW
        (domain,) = record.spec.domains
        nodes = {node for node, around in RACKS.items() if domain in around}
        while (span := schedule.next(time)) is not None and span.start < until:
            yield nodes, span
            time = span.end


@sees(runs=3, waited=1)
@given(drawn=worlds())
def test_nothing_runs_inside_a_window(drawn: Drawn) -> None:
    """Every pod has ended when a window begins on its node, and none starts inside it; with reservations, preemption
    and gangs that say nothing of their end.
    """
    life = Simulation(drawn.objects, drawn.profile, start=NOW, log=False)
    begun: dict[str, tuple[float, str]] = {}
    ended: dict[str, float] = {}
    for moment in life.run(WEEK):
        pods, now = moment.objects.every(Pod), NOW + moment.at
        for path in begun.keys() - ended.keys() - pods.keys():
            ended[path] = now  # it was evicted
        for path, pod in pods.items():
            if pod.spec.node_name and pod.status.phase != "Succeeded":
                begun.setdefault(path, (now, pod.spec.node_name))
            elif pod.status.phase == "Succeeded":
                ended.setdefault(path, now)
    closed = list(_closed(drawn.objects, NOW + WEEK))
    for key, (start, node) in begun.items():
        end = ended.get(key, start)
        inside = [span for nodes, span in closed if node in nodes and start < span.end and end > span.start]
        assert [] == inside, f"{key} ran on {node} from {start} to {end}"
        saw(runs=1)
        if start > NOW:
            saw(waited=1)


@sees(expected=2)
@given(drawn=worlds())
def test_expected_starts_know_windows(drawn: Drawn) -> None:
    """Where ends are as stated and nobody else comes, a gang starts in the second that was said."""
    exact: list[Any] = []
    for key in drawn.objects:
        body: Any = msgspec.to_builtins(drawn.objects.raw(key))
        if body["kind"] == "Pod":
            body["metadata"]["annotations"][START_AFTER] = "0s"
            body["spec"].pop("activeDeadlineSeconds", None)
            lasts = body["metadata"]["annotations"][RUN_FOR]
            group = body["metadata"]["annotations"]["scheduling.k8s.io/group-name"]
            exact.append((f"default/{group}", lasts, body))
        else:
            exact.append(("", "", body))
    lengths = {name: lasts for name, lasts, _ in exact if name}
    for _, _, body in exact:
        if body["kind"] == "PodGroup":
            own = lengths[f"default/{body['metadata']['name']}"]
            body["metadata"].setdefault("annotations", {})[EXPECTED_DURATION] = own
        if body["kind"] == "Window":
            body["spec"]["margin"] = "0s"
    objects = Objects.of((codec.decode(body), body) for _, _, body in exact)
    report = etas(prepared(objects, DEFAULT, NOW))
    said = {eta.job: eta.start for eta in report.jobs if eta.kind in (StartKind.NOW, StartKind.EXPECTED)}

    found: dict[str, float] = {}
    for moment in Simulation(objects, DEFAULT, start=NOW, log=False).run(WEEK):
        for path, pod in moment.objects.every(Pod).items():
            if pod.spec.node_name:
                found.setdefault(path.rpartition("-")[0], NOW + moment.at)
    for job, start in said.items():
        if start is not None and start > NOW:
            saw(expected=1)
        assert found.get(job) == start, (job, start and format_time(start))

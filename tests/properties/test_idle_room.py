"""Room that is kept idle: over any history no namespace keeps more of it than its share, and as much again, and all
namespaces of a queue together no more than four.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.depth import size
from tests.support.draw import draw, gang
from tests.support.reservations import in_namespace
from tests.support.sight import saw, sees

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.eviction_terms import EXPECTED_DURATION
from tierwise.config.profile import DEFAULT, Profile
from tierwise.framework.report import CycleReport
from tierwise.model.job import Status, namespace_of
from tierwise.model.snapshot import Snapshot
from tierwise.port import Create, Effect, Objects
from tierwise.sim.cluster.simulation import Simulation

START = 1_000_000.0
CLUSTER = draw("s0[r0[n0 n1] r1[n2 n3]]", node="gpu=4")
DAY = 86_400.0

Drawn = tuple[int, str, int, int, int, float]
"""Arrival in tens of seconds, namespace, pods, GPUs of each, duration in tens of seconds, how much of it is true."""
JOBS = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.sampled_from(["evil", "team"]),
        st.integers(1, 4),
        st.integers(1, 4),
        st.integers(1, 30),
        st.sampled_from([0.5, 1.0, 1.0, 1.05, 3.0]),
    ),
    min_size=4,
    max_size=12,
)
Owner = tuple[str, str]


class Submitter:
    """Submits gangs when their time comes; they state durations that need not be true."""

    def __init__(self, jobs: Sequence[Drawn]) -> None:
        self._ahead = sorted(((10.0 * job[0], i, job) for i, job in enumerate(jobs)), reverse=True)

    def act(self, objects: Objects, now: float) -> Sequence[Effect]:
        """What arrives now."""
        found: list[Effect] = []
        while self._ahead and START + self._ahead[-1][0] <= now:
            _, number, (_, namespace, pods, gpus, lasts, true) = self._ahead.pop()
            raws = in_namespace(namespace, gang(f"j{number}", tasks=pods, each=f"gpu={gpus}").manifests())
            found += [Create(_timed(raw, now, 10 * lasts, true)) for raw in raws]
        return found

    def due(self) -> float | None:
        """The next arrival."""
        return START + self._ahead[-1][0] if self._ahead else None


def _timed(raw: Raw, now: float, lasts: int, true: float) -> Raw:
    body: Any = raw
    marks = {
        **body["metadata"].get("annotations", {}),
        "tierwise.io/run-for": f"{int(lasts * true)}s",
        "tierwise.io/start-after": "0s",
        EXPECTED_DURATION: f"{lasts}s",
    }
    metadata = {**body["metadata"], "annotations": marks, "creationTimestamp": format_time(now)}
    more = {"restartPolicy": "Never"} if raw["kind"] == "Pod" else {}
    return {**body, "metadata": metadata, "spec": {**body["spec"], **more}}


def kept_idle(snapshot: Snapshot, report: CycleReport) -> dict[Owner, float]:
    """Nodes that reservations keep idle, by owner, one GPU after the other."""
    gpu = snapshot.axis.index["nvidia.com/gpu"]
    total = snapshot.nodes.allocatable[gpu].tolist()
    idle = list(total)
    for job in snapshot.jobs:
        for task in job.tasks:
            if task.node >= 0 and task.status is Status.RUNNING:
                idle[int(snapshot.nodes.rows[task.node])] -= int(task.shape.request[gpu])
    for decision in report.decisions:
        assert decision.bound
        for task, row in decision.places():
            idle[row] -= int(task.shape.request[gpu])
    found: dict[Owner, float] = defaultdict(float)
    for one in report.reservations:
        for shape, rows, counts in one.held if one.holds and not one.bare else ():
            for row, number in zip(rows.tolist(), counts.tolist(), strict=True):
                taken = min(number * int(shape.request[gpu]), max(idle[row], 0))
                idle[row] -= taken
                found[namespace_of(one.job.key), one.job.queue] += taken / total[row]
    return dict(found)


def _profile(mode: str, idle_room: str | float) -> Profile:
    given = {"reservations": mode, "reservationPods": 1, "trustStatedDurations": True, "idleRoom": idle_room}
    return replace(DEFAULT, action_arguments={"allocate": given})


@sees(refused=1, kept=20)
@given(jobs=JOBS, mode=st.sampled_from(["easy", "conservative"]), idle_room=st.sampled_from(["own", 0.02, 0.1, 0]))
@settings(max_examples=size(15, 200))
def test_no_more_is_kept_than_shares_allow(jobs: list[Drawn], mode: str, idle_room: str | float) -> None:
    """Node-seconds by namespace and queue: the largest share, twice, and what is paid back meanwhile."""
    _keeps_to_its_shares(jobs, mode, idle_room)


@sees(by_queue=1, kept=10)
@given(jobs=JOBS, mode=st.sampled_from(["easy", "conservative"]), idle_room=st.sampled_from([0.02, 0.02, 0.05]))
@settings(max_examples=size(8, 100))
def test_many_namespaces_keep_no_more_than_their_queue_may(
    jobs: list[Drawn], mode: str, idle_room: str | float
) -> None:
    """Each job is in a namespace of its own: node-seconds of the queue are at most four of the largest share."""
    own = [(at, f"n{i}", *rest) for i, (at, _, *rest) in enumerate(jobs)]
    _keeps_to_its_shares(own, mode, idle_room)  # type: ignore[arg-type]


def _keeps_to_its_shares(jobs: list[Drawn], mode: str, idle_room: str | float) -> None:
    seen: list[tuple[Snapshot, CycleReport]] = []
    cluster = Simulation(
        Objects.of((codec.decode(raw), raw) for raw in CLUSTER.manifests),
        _profile(mode, idle_room),
        start=START,
        user=Submitter(jobs),
        observe=lambda snapshot, report, _: seen.append((snapshot, report)),
    )
    for _ in cluster.run(100_000.0):
        pass
    shares: dict[str, float] = defaultdict(float)
    for _, namespace, pods, gpus, lasts, _ in jobs:
        own = pods * gpus / 4 * 10 * lasts
        shares[namespace] = max(shares[namespace], own if idle_room == "own" else 3600 * float(idle_room))
    spent: dict[Owner, float] = defaultdict(float)
    for i, (snapshot, report) in enumerate(seen):
        kept = kept_idle(snapshot, report)
        accounts = report.turns.idle.accounts
        assert {owner: round(nodes, 6) for owner, nodes in kept.items() if nodes} == {
            owner: round(account.nodes, 6) for owner, account in accounts.items() if account.nodes
        }
        until = seen[i + 1][0].now if i + 1 < len(seen) else snapshot.now
        for owner, nodes in kept.items():
            spent[owner] += nodes * (until - snapshot.now)
            share, passed = shares[owner[0]], until - START
            assert spent[owner] <= 2 * share + max(share, 3600.0) * passed / DAY + 4.0
        largest, passed = max(shares.values()), until - START
        assert sum(spent.values()) <= 4 * largest + max(largest, 3600.0) * passed / DAY + 4.0
        refused = [one.refused.text for one in report.reservations if one.refused is not None]
        saw(kept=bool(kept), refused=len(refused), by_queue=sum("all namespaces" in text for text in refused))

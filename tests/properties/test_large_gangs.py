"""Large gangs start: beside a stream of small jobs, with every queue plugin, within a bound and without evictions."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from msgspec.structs import replace
from tests.support.draw import draw, gang
from tests.support.drawn_gang import manifest

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.eviction_terms import EXPECTED_DURATION
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.framework.report import CycleReport
from tierwise.model.job import Rejection, Verdict
from tierwise.model.snapshot import Snapshot
from tierwise.port import Create, Effect, Objects
from tierwise.sim.cluster.simulation import Simulation

START = 1_000_000.0
AGING = 40
LASTS, EVERY, UNTIL, COMES = 60, 16, 400, 70
"""A small job comes every 16 seconds and runs for a minute, so that nodes are never free together; the gang of three of
four nodes comes when the first of them have ended.
"""


class Kind(msgspec.Struct, frozen=True):
    """What jobs ask for, whether they state how long they run, and the queues of small and large ones."""

    resource: str = "gpu"
    stated: bool = True
    queues: tuple[str, str] = ("", "")
    weights: tuple[int, int] = (1, 3)
    every: int = EVERY


class Stream:
    """Small jobs all the time, and one large gang."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._ahead = [(START + time, f"small{time}", 1) for time in range(0, UNTIL, kind.every)]
        self._ahead.append((START + COMES, "large", 3))
        self._ahead.sort(reverse=True)

    def act(self, objects: Objects, now: float) -> Sequence[Effect]:
        """What arrives now."""
        found: list[Effect] = []
        while self._ahead and self._ahead[-1][0] <= now:
            _, name, tasks = self._ahead.pop()
            made = gang(
                name,
                tasks=tasks,
                each=f"{self._kind.resource}=8",
                least=f"{self._kind.resource}={8 * tasks}",
                phase="Pending",
                queue=self._kind.queues[tasks > 1],
            )
            found += [Create(_timed(raw, now, stated=self._kind.stated)) for raw in made.manifests()]
        return found

    def due(self) -> float | None:
        """The next arrival."""
        return self._ahead[-1][0] if self._ahead else None


def _timed(raw: Raw, now: float, *, stated: bool) -> Raw:
    metadata, spec = raw["metadata"], raw["spec"]
    assert isinstance(metadata, dict)
    assert isinstance(spec, dict)
    marks = {"tierwise.io/run-for": f"{LASTS}s", "tierwise.io/start-after": "0s"}
    marks |= {EXPECTED_DURATION: f"{LASTS}s"} if stated else {}
    marks = {**metadata.get("annotations", {}), **marks}
    more = {"restartPolicy": "Never"} if raw["kind"] == "Pod" else {}
    stamped = {**metadata, "annotations": marks, "creationTimestamp": format_time(now)}
    return {**raw, "metadata": stamped, "spec": {**spec, **more}}


def profile(*plugins: str, **arguments: object) -> Profile:
    """The default one with queue plugins, and arguments of allocate."""
    first, second = DEFAULT.tiers
    more = tuple(PluginChoice(name) for name in plugins)
    return replace(DEFAULT, tiers=(first, (*second, *more)), action_arguments={"allocate": arguments})


def waited(given: Profile, kind: Kind = Kind()) -> float | Rejection | None:  # noqa: B008 - it is frozen
    """How long the large gang waits; for as long as small jobs come, why, as the last cycle says."""
    why: Rejection | None = None
    seen: list[tuple[Snapshot, CycleReport]] = []
    racks = draw("s0[r0[n0..1] r1[n2..3]]", node=f"{kind.resource}=8").manifests
    weights = {queue: {"weight": weight} for queue, weight in zip(kind.queues, kind.weights, strict=True) if queue}
    queues = (manifest("scheduling.volcano.sh/v1beta1", "Queue", {"name": q}, spec=w) for q, w in weights.items())
    objects = Objects.of((codec.decode(raw), raw) for raw in (*racks, *queues))
    life = Simulation(
        objects,
        given,
        start=START,
        user=Stream(kind),
        observe=lambda snapshot, report, _: seen.append((snapshot, report)),
    )
    for _ in life.run(UNTIL):
        for snapshot, report in seen:
            assert not report.evictions
            if any(decision.bound and decision.job.key == "default/large" for decision in report.decisions):
                return snapshot.now - START - COMES
            why = report.rejections.get("default/large", why)
        seen.clear()
    return why


@pytest.mark.parametrize("plugins", [(), ("proportion",), ("capacity",), ("drf",), ("overcommit", "proportion")])
def test_a_large_gang_starts_once_what_ran_before_it_has_ended(plugins: tuple[str, ...]) -> None:
    """With reservations it waits no longer than the longest of the small jobs runs; without them, for ever."""
    found = waited(profile(*plugins, reservations="easy"))

    assert isinstance(found, float)
    assert found <= LASTS + EVERY
    if "proportion" in plugins:
        assert not isinstance(waited(profile(*plugins)), float)


@pytest.mark.parametrize(
    ("plugin", "kind", "bound"),
    [
        ("proportion", Kind("cpu"), LASTS + EVERY),
        ("proportion", Kind(queues=("small", "large")), LASTS + EVERY),
        ("capacity", Kind(stated=False), AGING + LASTS + EVERY),
        ("proportion", Kind("cpu", stated=False, queues=("small", "large")), AGING + LASTS + EVERY),
    ],
)
def test_it_starts_within_a_bound_whatever_jobs_ask_for_and_state(plugin: str, kind: Kind, bound: float) -> None:
    """Without devices, in a queue with a share for it, and after the aging bound where others' ends are not known."""
    found = waited(profile(plugin, reservations="easy", reservationAging=f"{AGING}s"), kind)

    assert isinstance(found, float)
    assert found <= bound


@pytest.mark.parametrize("reservations", ["off", "easy"])
def test_a_share_is_what_others_leave_and_a_limit_where_they_ask_for_more(reservations: str) -> None:
    """With equal weights it starts at once beside a queue that asks for a quarter; for three quarters it is told why.

    A queue is never given more than it deserves under proportion, whoever waits and for however long.
    """
    given = profile("proportion", reservations=reservations)
    alike = Kind(queues=("small", "large"), weights=(1, 1))
    found = waited(given, alike)

    assert waited(given, replace(alike, every=LASTS)) == 0
    assert isinstance(found, Rejection)
    assert ("QueueOverDeserved", Verdict.NOT_ALLOWED) == (found.reason.code, found.verdict)
    assert "24 asked, 0 used, 16 deserved" in found.reason.text

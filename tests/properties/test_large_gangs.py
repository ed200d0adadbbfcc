"""Large gangs start: beside a stream of small jobs, with every queue plugin, within a bound and without evictions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tests.support.draw import draw, gang

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.eviction_terms import EXPECTED_DURATION
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.port import Create, Effect, Objects
from tierwise.sim.cluster.simulation import Simulation

START = 1_000_000.0
RACKS = draw("s0[r0[n0..1] r1[n2..3]]", node="gpu=8")
LASTS, EVERY, UNTIL, COMES = 60, 16, 400, 70
"""A small job comes every 16 seconds and runs for a minute, so that nodes are never free together; the gang of three of
four nodes comes when the first of them have ended.
"""


class Stream:
    """Small jobs all the time, and one large gang."""

    def __init__(self) -> None:
        self._ahead = [(START + time, f"small{time}", 1) for time in range(0, UNTIL, EVERY)]
        self._ahead.append((START + COMES, "large", 3))
        self._ahead.sort(reverse=True)

    def act(self, objects: Objects, now: float) -> Sequence[Effect]:
        """What arrives now."""
        found: list[Effect] = []
        while self._ahead and self._ahead[-1][0] <= now:
            _, name, tasks = self._ahead.pop()
            raws = gang(name, tasks=tasks, each="gpu=8", least=f"gpu={8 * tasks}", phase="Pending").manifests()
            found += [Create(_timed(raw, now)) for raw in raws]
        return found

    def due(self) -> float | None:
        """The next arrival."""
        return self._ahead[-1][0] if self._ahead else None


def _timed(raw: Raw, now: float) -> Raw:
    metadata, spec = raw["metadata"], raw["spec"]
    assert isinstance(metadata, dict)
    assert isinstance(spec, dict)
    marks = {"tierwise.io/run-for": f"{LASTS}s", "tierwise.io/start-after": "0s", EXPECTED_DURATION: f"{LASTS}s"}
    marks = {**metadata.get("annotations", {}), **marks}
    more = {"restartPolicy": "Never"} if raw["kind"] == "Pod" else {}
    stamped = {**metadata, "annotations": marks, "creationTimestamp": format_time(now)}
    return {**raw, "metadata": stamped, "spec": {**spec, **more}}


def profile(*plugins: str, **arguments: object) -> Profile:
    """The default one with queue plugins, and arguments of allocate."""
    first, second = DEFAULT.tiers
    more = tuple(PluginChoice(name) for name in plugins)
    return replace(DEFAULT, tiers=(first, (*second, *more)), action_arguments={"allocate": arguments})


def waited(given: Profile) -> float | None:
    """How long the large gang waits; None for as long as small jobs come."""
    seen: list[tuple[Snapshot, CycleReport]] = []
    objects = Objects.of((codec.decode(raw), raw) for raw in RACKS.manifests)
    life = Simulation(
        objects, given, start=START, user=Stream(), observe=lambda snapshot, report, _: seen.append((snapshot, report))
    )
    for _ in life.run(UNTIL):
        pass
    assert not any(report.evictions for _, report in seen)
    for snapshot, report in seen:
        if any(decision.bound and decision.job.key == "default/large" for decision in report.decisions):
            return snapshot.now - START - COMES
    return None


@pytest.mark.parametrize("plugins", [(), ("proportion",), ("capacity",), ("drf",), ("overcommit", "proportion")])
def test_a_large_gang_starts_once_what_ran_before_it_has_ended(plugins: tuple[str, ...]) -> None:
    """With reservations it waits no longer than the longest of the small jobs runs; without them, for ever."""
    found = waited(profile(*plugins, reservations="easy"))

    assert found is not None
    assert found <= LASTS + EVERY
    if "proportion" in plugins:
        assert waited(profile(*plugins)) is None

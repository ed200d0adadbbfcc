"""A plugin of another package that says a gang can never fit: the gang is skipped, in every action."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.draw import draw, gang, objects_of

from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import SearchSpace
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, Reason, Verdict
from tierwise.plugins import PLUGINS
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build


@takes_part(SearchSpace)
class _Banning:
    """Rules out gangs by their names."""

    def __init__(self, arguments: object, view: object) -> None:
        pass

    def never_fits(self, job: Job, need: Ints) -> Reason | None:
        return Reason("Banned", "banning", "its name is banned") if "banned" in job.key else None


@pytest.mark.parametrize("actions", ["enqueue allocate backfill", "enqueue allocate gangpreempt backfill"])
def test_a_gang_that_a_plugin_rules_out_is_skipped(actions: str) -> None:
    """Nothing of it starts although there is room, nobody goes for it, the verdict is never; others are served."""
    world = draw("r0[n0] r1[n1]", node="cpu=2", running="n0:cpu=1")
    gangs = gang("banned", tasks=2, within=1, priority=9), gang("fine", tasks=2, within=1)
    profile = Profile(tuple(actions.split()), (*DEFAULT.tiers, (PluginChoice("banning"),)))
    factories: Any = {**PLUGINS, "banning": _Banning}
    report = cycle(build(objects_of(world, *gangs), 0.0, profile), profile, plugins=factories)
    refused = report.rejections["default/banned"]

    assert ["default/fine"] == [decision.job.key for decision in report.decisions]
    assert (Verdict.NEVER, "Banned") == (refused.verdict, refused.reason.code)
    assert () == report.evictions
    assert () == report.failures

"""A plugin of another package that says a gang can never fit: the gang is skipped, in every action."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.draw import draw, gang, objects_of

from tierwise.actions.diagnosis.inspection import PodInspection, PodInspector
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.explain.page import Page
from tierwise.explain.text.explain_pod import pod_lines
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


def test_a_pod_that_is_explained_has_no_candidates_then() -> None:
    """Its hyperNodes are not scored, for nobody looks at them, and the page has the plugin's words."""
    world = draw("r0[n0] r1[n1]", node="cpu=2")
    profile = Profile(("enqueue", "allocate"), (*DEFAULT.tiers, (PluginChoice("banning"),)))
    factories: Any = {**PLUGINS, "banning": _Banning}
    seen: dict[str, PodInspection] = {}
    for name in ("banned", "fine"):
        inspector = PodInspector(f"default/{name}-0")
        snapshot = build(objects_of(world, gang(name, tasks=1, within=1)), 0.0, profile)
        report = cycle(snapshot, profile, inspect=inspector.inspect, plugins=factories)
        assert inspector.inspection is not None
        seen[name] = inspector.inspection.after(snapshot, report)
        text = "".join(line.plain for line in pod_lines(Page(120), seen[name], snapshot, report, 1))
        assert ("nothing is looked for: its name is banned" in text) == (name == "banned")

    assert (False, True) == tuple(bool(seen[name].gradients) for name in ("banned", "fine"))
    assert (False, True) == tuple(bool(seen[name].candidates.scores) for name in ("banned", "fine"))

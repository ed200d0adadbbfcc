"""The auditor and the scheduler agree: whatever a run places, it breaks no promise that was kept before."""

from __future__ import annotations

from hypothesis import given
from tests.support.depth import examples
from tests.support.draw import objects_of
from tests.support.sight import schedule, sees
from tests.support.strategies import Scene, scenes

from tierwise.audit import audit
from tierwise.config.profile import DEFAULT
from tierwise.port import Objects


def _broken(objects: Objects) -> set[tuple[str, str]]:
    return {(finding.rule, finding.subject) for finding in audit(objects)}


@sees(binds=8, refusals=4)
@examples(16, least=5)
@given(scenes())
def test_a_run_breaks_no_promise(scene: Scene) -> None:
    """What the auditor finds afterwards it would have found before."""
    before = objects_of(scene.world, *scene.gangs)
    after = schedule(before, DEFAULT, now=0.0).cluster.read()

    assert set() == _broken(after) - _broken(before)

"""Verdicts and messages beside what they speak of: the emptied cluster, the nodes, and the figures of the search."""

from __future__ import annotations

import re

from hypothesis import given
from msgspec.structs import replace
from tests.support.depth import examples
from tests.support.draw import Gang, Outcome, World, allocate
from tests.support.strategies import Scene, crowds, scenes

from tierwise.explain.message import message
from tierwise.explain.wire import pending_wire
from tierwise.model.job import Rejection, Status, Verdict

_HELD_BACK = ("QueueClosed", "QueueNotFound")
_LACKS_PODS = ("NotEnoughTasks", "NotEnoughPodsOfTask", "NotEnoughPods", "SubGroupIncomplete", "WaitsForGang")
_FITS = re.compile(r"(\d+) of (\d+) (?:pod|sub-group)s? (?:would )?fits?\b")


def _emptied(world: World) -> World:
    """The cluster without the pods of nobody."""
    return World(tuple(m for m in world.manifests if m["kind"] != "Pod"), world.drawing)


def _alone(scene: Scene, gang: Gang) -> Outcome:
    """One cycle for a gang by itself, in a queue that is open, on nodes that are empty but for its own pods."""
    kept = " ".join(where if not where.endswith("!") else "+" for where in gang.on.split())
    return allocate(_emptied(scene.world), _in_open_queue(gang, kept))


def _in_open_queue(gang: Gang, on: str) -> Gang:
    return replace(gang, queue="", on=on)


def _waiting(scene: Scene, outcome: Outcome) -> list[tuple[Gang, Rejection]]:
    """The gangs of which pods wait, nothing was placed and nothing is leaving, with their rejections."""
    found = []
    pending = {job.key for job in outcome.snapshot.jobs if any(task.status is Status.PENDING for task in job.tasks)}
    for gang in (gang for gang in scene.gangs if f"default/{gang.name}" in pending):
        rejection = outcome.report.rejections.get(f"default/{gang.name}")
        placed = any(pod.startswith(f"{gang.name}-") for pod in (*outcome.bindings, *outcome.nominations))
        if rejection is not None and not placed and "!" not in gang.on:
            found.append((gang, rejection))
    return found


def _misjudged(scene: Scene) -> list[str]:
    """Gangs whose verdict is not what the emptied cluster says; those whose own pods are missing are left out."""
    wrong = []
    for gang, rejection in _waiting(scene, allocate(scene.world, *scene.gangs)):
        alone = _alone(scene, gang)
        other = alone.report.rejections.get(f"default/{gang.name}", rejection)
        if any(r.bounded or r.reason.code in _LACKS_PODS for r in (rejection, other)):
            continue
        if bool(alone.bindings) != (rejection.verdict is not Verdict.NEVER):
            wrong.append(f"{gang.name} is told {rejection.verdict.words}: {message(rejection)}")
    return wrong


@given(scenes())
@examples(25)
def test_never_is_what_an_emptied_cluster_would_not_hold(scene: Scene) -> None:
    """A gang hears never exactly where it is not placed with all others gone."""
    assert [] == _misjudged(scene)


@given(crowds())
@examples(25)
def test_a_backlog_is_judged_as_each_of_its_gangs_would_be(scene: Scene) -> None:
    """What one gang of a kind is told speaks for others, and says of each what it would hear alone."""
    assert [] == _misjudged(scene)


@given(scenes())
@examples(25)
def test_not_allowed_is_what_a_queue_or_a_gate_refused(scene: Scene) -> None:
    """Closed queues and missing pods refuse; whatever else waits and would fit lacks room."""
    for _, rejection in _waiting(scene, allocate(scene.world, *scene.gangs)):
        if rejection.verdict is not Verdict.NEVER:
            refused = rejection.reason.code in (*_HELD_BACK, *_LACKS_PODS) and rejection.reason.code != "WaitsForGang"
            assert refused == (rejection.verdict is Verdict.NOT_ALLOWED), rejection.reason.code


def _contradictions(outcome: Outcome, rejection: Rejection) -> list[str]:
    """What a rejection says that is not so, or that it takes back."""
    topology, text = outcome.snapshot.topology, message(rejection)
    wrong = [f"{n} of {m} fit" for n, m in _FITS.findall(text) if int(n) >= int(m)]
    for tried in (t for r in (rejection, *rejection.children) for t in r.tried):
        at = topology.at_tier.get(tried.tier, ())
        span = topology.span(topology.index[tried.best])
        if tried.best not in topology.index or int(topology.tier[topology.index[tried.best]]) != tried.tier:
            wrong.append(f"{tried.best} is not of tier {tried.tier}")
        if tried.domains + tried.outside > len(at) or span.stop - span.start != tried.nodes:
            wrong.append(f"{tried.best}: {tried.domains} + {tried.outside} domains, {tried.nodes} nodes")
        if any(not 0 < nodes <= tried.nodes for _, nodes in tried.causes):
            wrong.append(f"{tried.best}: causes on more nodes than it has")
        if not tried.short and tried.fits >= tried.asked:
            wrong.append(f"{tried.best}: all {tried.asked} fit")
    return wrong


@given(scenes())
@examples(25)
def test_messages_hold_together(scene: Scene) -> None:
    """Nothing fits wholly in a message that says no, and its counts are those of the tree."""
    outcome = allocate(scene.world, *scene.gangs)
    for rejection in outcome.report.rejections.values():
        assert [] == _contradictions(outcome, rejection), message(rejection)


@given(scenes())
@examples(25)
def test_a_running_gang_is_told_of_its_own_domain(scene: Scene) -> None:
    """No hyperNode is called the best in which a gang with running pods and a limit may not be placed."""
    outcome = allocate(scene.world, *scene.gangs)
    topology = outcome.snapshot.topology
    for job in outcome.snapshot.jobs:
        rejection = outcome.report.rejections.get(job.key)
        rows = [row for sub in job.subs for row in outcome.snapshot.nodes.rows[sub.held].tolist()]
        if rejection is None or not rows or job.policies:
            continue
        here = topology.meet(*[int(topology.leaf[row]) for row in (rows[0], rows[-1])])
        for tried in rejection.tried:
            assert topology.contains(topology.index[tried.best], here), message(rejection)


@given(scenes())
@examples(25)
def test_the_question_leaves_no_trace(scene: Scene) -> None:
    """Each pod that waits has a verdict of the three, and asking for it twice gives the same answers."""
    first, second = (allocate(scene.world, *scene.gangs) for _ in range(2))
    rows = pending_wire(first.snapshot, first.report, {})

    assert rows == pending_wire(second.snapshot, second.report, {})
    assert {row["verdict"] for row in rows} <= {verdict.value for verdict in Verdict}

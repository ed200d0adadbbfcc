"""What an eviction achieves: the beneficiary whole in one domain, and no node asked for more than it has."""

from __future__ import annotations

from hypothesis import given
from tests.support.depth import examples
from tests.support.evict_facts import crowded, domains, healthy, moments, standing
from tests.support.evict_scenes import GANGS, Case, cases
from tests.support.evict_world import Scene, Told, objects, once
from tests.support.sight import sees

from tierwise.framework.cycle import Cycle
from tierwise.scheduler import open_cycle
from tierwise.scheduler.cycle import run_action
from tierwise.snapshot.builder import build


def expected(scene: Scene, told: Told) -> dict[str, str]:
    """Where pods will be once the evicted are gone and the nominated have come."""
    return {path: node for path, node in {**standing(scene), **told.placed}.items() if path not in told.victims}


@sees(evictions=4)
@given(cases())
@examples(25)
def test_no_eviction_is_wasted(case: Case) -> None:
    """P1: whoever is evicted for has every minimum bound, nominated or running in that same cycle."""
    scene, profile = case
    told = once(scene, profile)
    for entry in told.evictions:
        assert healthy(scene.gang(entry["by"]), expected(scene, told))


@sees(evictions=4, confined=3)
@given(cases(*GANGS))
@examples(25)
def test_hard_tiers_hold_and_victims_stand_inside(case: Case) -> None:
    """P2: the gang's pods and the victims' nodes lie in one hyperNode of an allowed tier."""
    scene, profile = case
    pods = scene.pods()
    for moment in moments(scene, once(scene, profile).steps):
        gang = scene.gang(moment.step.gang)
        if gang.within is not None and moment.step.evicted:
            nodes = {node for path, node in moment.after.items() if pods[path][0].key == gang.key}
            nodes |= {pods[path][1].on for path in moment.step.evicted}
            assert any(nodes <= d.nodes for d in domains(scene) if d.tier <= gang.within)


@sees(evictions=4)
@given(cases())
@examples(25)
def test_hard_tiers_of_sub_groups_hold(case: Case) -> None:
    """P2: each sub-group with a hard tier stands and is nominated in one hyperNode of that tier."""
    scene, profile = case
    places = expected(scene, once(scene, profile))
    for gang in scene.gangs:
        for part in {pod.part for pod in gang.pods} if gang.inner is not None else ():
            nodes = {places[gang.path(p)] for p in gang.pods if p.part == part and gang.path(p) in places}
            assert any(nodes <= d.nodes for d in domains(scene) if d.tier <= (gang.inner or 0))


@sees(evictions=4)
@given(cases())
@examples(25)
def test_no_node_is_oversubscribed(case: Case) -> None:
    """P17: bound pods fit beside those that are leaving, and everything expected fits once these have left."""
    scene, profile = case
    told = once(scene, profile)
    leaving = [path for path, (_, pod) in scene.pods().items() if pod.leaving]

    assert [] == crowded(scene, {**standing(scene), **told.wire["bindings"]}, leaving)
    assert [] == crowded(scene, expected(scene, told))


@sees(evictions=4)
@given(cases())
@examples(25)
def test_no_two_beneficiaries_rely_on_the_same_room(case: Case) -> None:
    """P24: after every single decision, everything expected so far fits."""
    scene, profile = case
    told = once(scene, profile)

    assert [] == [m.step for m in moments(scene, told.steps) if crowded(scene, m.after)]
    assert len(told.placed) == sum(len(step.placed) for step in told.steps)


@sees(evictions=4, binds=2)
@given(cases())
@examples(25)
def test_bound_gangs_are_whole(case: Case) -> None:
    """P1: a gang that is bound has its minimums at that moment, without counting on anybody's leaving."""
    scene, profile = case
    for moment in moments(scene, once(scene, profile).steps):
        if moment.step.bound:
            assert healthy(scene.gang(moment.step.gang), moment.after.keys() - moment.waits)


def numbers(cycle: Cycle) -> dict[str, object]:
    """Every number that a cycle keeps."""
    ledger = cycle.ledger
    arrays = {
        "idle": ledger.idle,
        "releasing": ledger.releasing,
        "pipelined": ledger.pipelined,
        "ready": ledger.ready,
        "waiting": ledger.waiting,
        "role_ready": ledger.role_ready,
        "role_waiting": ledger.role_waiting,
        "queue_used": ledger.queue_used,
        "job_used": ledger.job_used,
        "domain_idle": ledger.domain_idle,
        "domain_releasing": ledger.domain_releasing,
        "budgets": ledger.budgets,
    }
    stands = {sub.key: ledger.placed_rows(sub) for job in cycle.snapshot.jobs for sub in job.subs}
    where = {key: sorted(zip(*(a.tolist() for a in s), strict=True)) for key, s in stands.items() if s is not None}
    return {name: array.tolist() for name, array in arrays.items()} | {"stands": where}


@given(cases())
@examples(25)
def test_failed_attempts_leave_no_trace(case: Case) -> None:
    """P16: an evicting action that decides nothing leaves every number of the cycle as it was."""
    scene, profile = case
    cycle = open_cycle(build(objects(scene), 0.0), profile)
    for name in profile.actions:
        before, decided = numbers(cycle), len(cycle.report.decisions)
        run_action(name, cycle, profile)
        if "preempt" in name or "reclaim" in name:
            if len(cycle.report.decisions) > decided:
                return
            assert before == numbers(cycle)


@sees(evictions=4)
@given(cases())
@examples(25)
def test_the_ledger_says_what_counting_says(case: Case) -> None:
    """P16: after a cycle with attempts of every kind, the room that will be free is what pod by pod counting gives."""
    scene, profile = case
    cycle = open_cycle(build(objects(scene), 0.0), profile)
    for name in profile.actions:
        run_action(name, cycle, profile)
    places, pods = expected(scene, once(scene, profile)), scene.pods()
    cpu = cycle.view.axis.index["cpu"]
    for row, node in enumerate(cycle.nodes.names):
        used = sum(pods[path][1].need["cpu"] for path, where in places.items() if where == node)
        free = cycle.ledger.idle[cpu, row] + cycle.ledger.releasing[cpu, row] - cycle.ledger.pipelined[cpu, row]
        assert (scene.has(node)["cpu"] - used) * 1000 == free

"""What people see of eviction: who went, for whom and why; and where nobody went, what stood in the way, and where."""

from __future__ import annotations

from msgspec.structs import replace
from tests.support.evict_world import (
    Budget,
    Gang,
    Pod,
    Queue,
    Scene,
    Told,
    once,
    profile_of,
)

RACKS = Scene({"s0": ("r0", "r1")}, {"r0": ("n0",), "r1": ("n1",)}, dict.fromkeys(("n0", "n1"), "cpu=2"))


def gang(name: str, *nodes: str, priority: int = 0, queue: str = "default", minimum: int | None = None) -> Gang:
    """Pods of one cpu, each on a node; "" leaves one pending."""
    pods = tuple(Pod(f"{name}-{i}", on=node, priority=priority) for i, node in enumerate(nodes))
    return Gang(name, pods, len(pods) if minimum is None else minimum, queue=queue, priority=priority)


def told(
    *gangs: Gang, action: str = "gangpreempt", quota: str = "", scene: Scene = RACKS, budgets: bool = False
) -> Told:
    """One cycle over the two racks."""
    return once(replace(scene, gangs=gangs), profile_of(action, quota=quota, budgets=budgets))


def message(outcome: Told, pod: str) -> str:
    """What is said of a pod that waits."""
    return next(str(entry["message"]) for entry in outcome.wire["pending"] if entry["pod"] == f"default/{pod}")


def urgent(*nodes: str) -> Gang:
    """A gang that must be placed in one rack."""
    return replace(gang("urgent", *nodes, priority=5), within=1)


FULL = gang("low", "n0", "n0", "n1", "n1", minimum=2)


def test_an_eviction_says_for_whom_and_why() -> None:
    """Each entry of `evictions` names the pod, its gang, the beneficiary, the action and a reason."""
    outcome = told(FULL, urgent(""))

    assert [
        {
            "pod": "default/low-0",
            "podGroup": "default/low",
            "by": "default/urgent",
            "action": "gangpreempt",
            "reason": "to make room for default/urgent: it is more important",
        }
    ] == outcome.evictions


def test_a_reclaim_names_the_queue_that_uses_too_much() -> None:
    """The reason of a reclaim is the overuse of the victim's queue."""
    scene = replace(RACKS, queues=(Queue("greedy", deserved="cpu=1"), Queue("poor", deserved="cpu=3")))
    low = replace(FULL, queue="greedy")
    outcome = told(low, gang("claim", "", queue="poor"), action="gangreclaim", quota="capacity", scene=scene)

    assert [("gangreclaim", "default/claim")] == [(e["action"], e["by"]) for e in outcome.evictions]
    assert "queue greedy uses more than it deserves" in outcome.evictions[0]["reason"]


def test_classic_actions_say_so_too() -> None:
    """An eviction of a single task names its action and its beneficiary as well."""
    outcome = told(FULL, gang("urgent", "", priority=5), action="preempt")

    assert [("preempt", "default/urgent")] == [(e["action"], e["by"]) for e in outcome.evictions]
    assert "default/urgent" in outcome.evictions[0]["reason"]


def test_the_story_tells_domains_and_bundles() -> None:
    """Of a plan that was carried out: the domains weighed, the one cleared, and each bundle with what went of it."""
    outcome = told(gang("tight", "n0", "n0"), gang("loose", "n1", "n1", minimum=1), urgent(""))
    (attempt,) = outcome.report.eviction_attempts["default/urgent"]

    assert ("gangpreempt", None, ("r0", "r1"), "r1") == (
        attempt.action,
        attempt.obstacle,
        attempt.domains_considered,
        attempt.domain,
    )
    assert [("default/loose", True, 1, 1), ("default/loose", False, 1, 0)] == [
        (note.job, note.safe, note.tasks, note.taken) for note in attempt.bundles
    ]


def test_nobody_less_important() -> None:
    """Where everybody is as important, the message names each domain and says so."""
    outcome = told(gang("peer", "n0", "n0", "n1", "n1", priority=5), urgent("", ""))

    assert "in r0 none of 2 running pods is less important" in message(outcome, "urgent-0")
    assert "in r1 none of 2 running pods is less important" in message(outcome, "urgent-0")


def test_vetoes_are_named() -> None:
    """Where a filter spares the candidates, the message names the filter and how many it spares."""
    scene = replace(RACKS, budgets=(Budget("low", 0),))
    outcome = told(FULL, urgent(""), scene=scene, budgets=True)

    assert [] == outcome.evictions
    assert "in r0 2 pods could be evicted, plugin pdb protects 2, which frees too little" in message(
        outcome, "urgent-0"
    )


def test_marks_are_named() -> None:
    """Where marks stand in the way, the message does not claim that the marked pods could be evicted."""
    outcome = told(replace(FULL, kept=True), urgent(""))

    assert [] == outcome.evictions
    assert "2 pods could be evicted, 2 marked not preemptable, which frees too little" in message(outcome, "urgent-0")


def test_a_gang_that_never_preempts_says_so() -> None:
    """A minimum with pods of preemptionPolicy Never evicts nobody, and the message names the policy."""
    never = urgent("")
    outcome = told(FULL, replace(never, pods=tuple(replace(pod, never=True) for pod in never.pods)))

    assert "preemptionPolicy Never" in message(outcome, "urgent-0")


def test_a_gang_larger_than_every_rack_says_so() -> None:
    """A gang that no allowed domain could ever hold hears that eviction would not help."""
    outcome = told(FULL, urgent("", "", ""))

    assert [] == outcome.evictions
    text = (
        "needs room for its 3 pods in one hyperNode of tier 1; no hyperNode of tier 1 has room for more than 2, even if"
    )
    assert message(outcome, "urgent-0").startswith(text)


def test_a_queue_that_may_not_reclaim_says_so() -> None:
    """A queue that has its due hears that it may not take more from others."""
    scene = replace(RACKS, queues=(Queue("rich", deserved="cpu=1"), Queue("other", deserved="cpu=1")))
    waiting = replace(urgent("", ""), queue="rich")
    outcome = told(replace(FULL, queue="other"), waiting, action="gangreclaim", quota="capacity", scene=scene)

    assert "queue rich would have more than it deserves" in message(outcome, "urgent-0")


def test_both_actions_are_told() -> None:
    """Where two actions tried in vain, the message holds the obstacle of each."""
    scene = replace(RACKS, queues=(Queue("mine", deserved="cpu=4"), Queue("other", deserved="cpu=4")))
    waiting = replace(urgent("", ""), queue="mine")
    actions = "gangpreempt gangreclaim"
    outcome = told(replace(FULL, queue="other"), waiting, action=actions, quota="capacity", scene=scene)

    assert "gangpreempt: nothing was evicted" in message(outcome, "urgent-0")
    assert "gangreclaim: nothing was evicted" in message(outcome, "urgent-0")
    assert ["gangpreempt", "gangreclaim"] == [s.action for s in outcome.report.eviction_attempts["default/urgent"]]


def test_hard_topologies_are_left_to_the_gang_variant() -> None:
    """Classic preempt says that it knows no domains, and who does; also where only sub-groups are confined."""
    parts = gang("parts", "", "", priority=5)
    parts = replace(parts, size=2, whole=1, inner=1, pods=tuple(replace(pod, part="0") for pod in parts.pods))
    outcome = told(FULL, urgent(""), parts, action="preempt")

    assert [] == outcome.evictions
    assert "gangpreempt does" in message(outcome, "urgent-0")
    assert "gangpreempt does" in message(outcome, "parts-0")


def test_the_rest_of_a_nominated_gang_waits_for_it() -> None:
    """Pods beyond the minimum of a gang that was just nominated are told what they wait for."""
    outcome = told(FULL, replace(urgent("", ""), minimum=1))

    assert ["default/urgent-0"] == list(outcome.wire["nominations"])
    assert "its gang waits for room that is still being released" == message(outcome, "urgent-1")

"""eviction-cost: young pods stay, saved work is evicted first, and nobody loses more than another one gains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.commands import answer, manifests, run
from tests.support.draw import World, draw, gang
from tests.support.languages import kueue_gang

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.merge_patch import merged
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.framework.report import CycleReport
from tierwise.port import Objects, key_of_raw
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import Reader, build

NOW = 100_000.0
MINUTE, HOUR = 60.0, 3600.0
TWO = draw("s0[r0[n0] r1[n1]]", node="gpu=8", tier_names={1: "rack"})


def costed(action: str = "gangpreempt", **arguments: Any) -> Profile:
    """The default profile with an action that evicts, and a price for it."""
    choice = PluginChoice("eviction-cost", arguments)
    return replace(DEFAULT, actions=("enqueue", "allocate", action), tiers=(*DEFAULT.tiers, (choice,)))


def running(name: str, on: str, *, ago: float, marks: dict[str, str] | None = None, **settings: Any) -> list[Raw]:
    """A gang that has run for so many seconds, with annotations on its group."""
    where = on.split()
    raws = gang(name, tasks=len(where), each="gpu=8", on=on, **settings).manifests()
    for raw in raws:
        if raw["kind"] == "Pod":
            raw["status"] = {"phase": "Running", "startTime": format_time(NOW - ago)}
        else:
            metadata: Any = raw["metadata"]
            metadata["annotations"] = dict(marks or {})
    return raws


def urgent(tasks: int = 1, marks: dict[str, str] | None = None, **settings: Any) -> list[Raw]:
    """A more important gang that waits."""
    raws = gang("urgent", tasks=tasks, each="gpu=8", priority=10, **settings).manifests()
    metadata: Any = raws[0]["metadata"]
    metadata["annotations"] = dict(marks or {})
    return raws


def report(profile: Profile, *raws: list[Raw], world: World = TWO) -> CycleReport:
    """One cycle."""
    every = [*world.manifests, *(raw for found in raws for raw in found)]
    return cycle(build(Objects.of((codec.decode(raw), raw) for raw in every), NOW, profile), profile)


def evicted(found: CycleReport) -> set[str]:
    """The gangs that lose pods."""
    return {eviction.job.key.removeprefix("default/") for eviction in found.evictions}


def why(found: CycleReport) -> list[str]:
    """Why nothing was evicted for the urgent gang."""
    attempts = found.eviction_attempts.get("default/urgent", ())
    return [attempt.obstacle.code for attempt in attempts if attempt.obstacle is not None]


RUN = "tierwise.io/minimum-run-time"


@pytest.mark.parametrize(
    ("arguments", "marks", "ago", "goes"),
    [
        ({}, {RUN: "30m"}, 29 * MINUTE, False),
        ({}, {RUN: "30m"}, 31 * MINUTE, True),
        ({"minimumRunTime": "30m"}, {}, 29 * MINUTE, False),
        ({"minimumRunTime": "30m"}, {}, 31 * MINUTE, True),
        ({"minimumRunTime": "1m", "minimumRunTime.default": "30m"}, {}, 29 * MINUTE, False),
        ({"minimumRunTime": "30m", "minimumRunTime.default": "1m"}, {}, 29 * MINUTE, True),
        ({"maxMinimumRunTime": "10m"}, {RUN: "30m"}, 29 * MINUTE, True),
    ],
)
def test_young_pods_stay(arguments: dict[str, Any], marks: dict[str, str], ago: float, goes: bool) -> None:
    """The longest of what job, queue and profile say counts; a job's own word up to the profile's limit."""
    found = report(costed(**arguments), running("low", "n0 n1", ago=ago, marks=marks), urgent(tasks=2))

    assert ({"low"} if goes else set()) == evicted(found)
    if not goes:
        (attempt,) = found.eviction_attempts["default/urgent"]
        assert attempt.obstacle is not None
        assert "eviction-cost protects 2" in attempt.obstacle.text


def test_a_queue_says_how_long() -> None:
    """By an annotation of its own."""
    queue: Raw = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "team", "annotations": {RUN: "30m"}},
    }
    low, high = running("low", "n0 n1", ago=20 * MINUTE, queue="team"), urgent(queue="team")

    assert set() == evicted(report(costed(), low, high, [queue]))
    assert {"low"} == evicted(report(replace(costed(), tiers=DEFAULT.tiers), low, high, [queue]))


def kai_queue(name: str, marks: dict[str, str] | None = None, **spec: object) -> Raw:
    """A queue of KAI."""
    meta = {"name": name, "annotations": marks or {}}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": meta, "spec": spec}


@pytest.mark.parametrize(
    ("queues", "spares"),
    [
        ([kai_queue("team", {RUN: "30m"})], True),
        ([kai_queue("team", preemptMinRuntime="30m")], True),
        ([kai_queue("team", reclaimMinRuntime="30m")], False),  # who preempts is of the same queue
        ([kai_queue("team", parentQueue="all"), kai_queue("all", preemptMinRuntime="30m")], True),
        (
            [kai_queue("team", parentQueue="all", preemptMinRuntime="1m"), kai_queue("all", preemptMinRuntime="30m")],
            False,
        ),
        ([kai_queue("team", parentQueue="team")], False),  # its own ancestor
    ],
)
def test_kai_queues_say_how_long(queues: list[Raw], spares: bool) -> None:
    """By the annotation or by their own fields, else as the queue above says."""
    low, high = running("low", "n0 n1", ago=20 * MINUTE, queue="team"), urgent(queue="team")

    assert (set() if spares else {"low"}) == evicted(report(costed(), low, high, queues))


def test_reclaiming_has_a_time_of_its_own() -> None:
    """Queues of KAI tell apart who takes; those of others do not."""
    objects = Objects.of(
        (codec.decode(raw), raw)
        for raw in (
            kai_queue("one", preemptMinRuntime="1m", reclaimMinRuntime="1h"),
            kai_queue("two", {RUN: "30m"}, preemptMinRuntime="1m"),
        )
    )
    queues = build(objects, NOW).queues

    assert [(60.0, 3600.0), (1800.0, 1800.0)] == [
        (queues[name].minimum_run_time, queues[name].reclaim_run_time) for name in ("one", "two")
    ]
    assert queues["default"].reclaim_run_time is None


@pytest.mark.parametrize(
    ("local", "above", "own", "expected"),
    [("30m", "", "", 1800), ("", "30m", "", 1800), ("30m", "1h", "", 3600), ("30m", "", "2h", 7200), ("", "", "", 0)],
)
def test_kueue_queues_say_how_long(local: str, above: str, own: str, expected: int) -> None:
    """The longest of what its queue, the queue behind that and the gang itself say."""

    def queue(kind: str, name: str, text: str, **spec: object) -> Raw:
        meta = {"name": name, "annotations": {RUN: text} if text else {}}
        return {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": kind, "metadata": meta, "spec": spec}

    pods = kueue_gang("g", 2)
    if own:
        pods = [merged(raw, {"metadata": {"annotations": {RUN: own}}}) for raw in pods]
    queues = [queue("LocalQueue", "team", local, clusterQueue="all"), queue("ClusterQueue", "all", above)]
    (job,) = build(Objects.of((codec.decode(raw), raw) for raw in (*queues, *pods)), NOW).jobs

    assert expected == (job.terms.minimum_run_time if job.terms is not None else 0)


def test_elastic_quotas_say_how_long() -> None:
    """By the annotation: those of trusted namespaces without a limit, those of tenants up to the profile's."""

    def quota(namespace: str) -> Raw:
        meta = {"name": "team", "namespace": namespace, "annotations": {RUN: "5h"}}
        amounts = {"cpu": "8", "nvidia.com/gpu": "16"}
        version = "scheduling.sigs.k8s.io/v1alpha1"
        return {
            "apiVersion": version,
            "kind": "ElasticQuota",
            "metadata": meta,
            "spec": {"min": amounts, "max": amounts},
        }

    for namespace, ago, spares in (
        ("koordinator-system", 2 * HOUR, True),
        ("default", 2 * HOUR, False),
        ("default", 0.5 * HOUR, True),
    ):
        low, high = running("low", "n0 n1", ago=ago, queue="team"), urgent(queue="team")

        assert (set() if spares else {"low"}) == evicted(
            report(costed(decline=False), low, high, [quota(namespace)])
        ), namespace


SAVED = "tierwise.io/checkpointed-at"


@pytest.mark.parametrize("where", ["group", "pod", "condition"])
def test_saved_work_goes_first(where: str) -> None:
    """Of two gangs that are alike, the one with the younger checkpoint is evicted, wherever it says so."""
    for saved, other in (("a", "b"), ("b", "a")):
        told = format_time(NOW - MINUTE)
        gangs = {name: running(name, node, ago=50 * MINUTE) for name, node in (("a", "n0"), ("b", "n1"))}
        group, pod = (raw for raw in gangs[saved])
        target: Any = group if where == "group" else pod
        if where == "condition":
            target["status"]["conditions"] = [{"type": "Checkpointed", "status": "True", "lastTransitionTime": told}]
        else:
            target["metadata"]["annotations"] = {**target["metadata"].get("annotations", {}), SAVED: told}

        assert {saved} == evicted(report(costed(), *gangs.values(), urgent())), other


def test_a_restart_has_its_price() -> None:
    """Of two gangs with the same checkpoint, the one that starts again in a minute is evicted."""
    for cheap in ("a", "b"):
        gangs = [
            running(name, node, ago=MINUTE, marks={"tierwise.io/restart-cost": "1m" if name == cheap else "20m"})
            for name, node in (("a", "n0"), ("b", "n1"))
        ]

        assert {cheap} == evicted(report(costed(), *gangs, urgent()))


@pytest.mark.parametrize("action", ["gangpreempt", "preempt", "podpreempt"])
def test_what_loses_more_than_it_gains_is_declined(action: str) -> None:
    """Three hours of work are not given up for one; the reason has both in figures."""
    low = running("low", "n0 n1", ago=3 * HOUR, minimum=0 if action == "preempt" else 2)
    found = report(costed(action), low, urgent(tasks=2))

    assert set() == evicted(found)
    assert ["LosesMoreThanItGains"] == why(found)
    (attempt,) = found.eviction_attempts["default/urgent"]
    assert attempt.obstacle is not None
    assert "48.0 nvidia.com/gpu hours of default/low would be lost, for 16.0 that it gains" in attempt.obstacle.text


@pytest.mark.parametrize(
    ("arguments", "marks"),
    [
        ({"decline": False}, {}),
        ({"horizon": "4h"}, {}),
        ({"horizon": "4h"}, {"tierwise.io/expected-duration": "200m"}),
    ],
)
def test_what_gains_more_is_carried_out(arguments: dict[str, Any], marks: dict[str, str]) -> None:
    """A longer horizon, or a profile that only compares; and what is lost and gained is told."""
    found = report(costed(**arguments), running("low", "n0 n1", ago=3 * HOUR), urgent(tasks=2, marks=marks))

    assert {"low"} == evicted(found)
    (attempt,) = found.eviction_attempts["default/urgent"]
    assert "48.0 nvidia.com/gpu hours of default/low would be lost" in attempt.loss


def test_a_short_job_gains_little() -> None:
    """Ten minutes of work are no reason to throw half an hour away."""
    low = running("low", "n0 n1", ago=30 * MINUTE)

    assert {"low"} == evicted(report(costed(), low, urgent(tasks=2)))
    assert set() == evicted(report(costed(), low, urgent(tasks=2, marks={"tierwise.io/expected-duration": "10m"})))


def test_pods_that_a_gang_can_spare_lose_their_own_work_alone() -> None:
    """An elastic gang of two with a minimum of one loses three hours of one node, not of both."""
    elastic = running("low", "n0 n1", ago=100 * MINUTE, minimum=1)

    assert {"low"} == evicted(report(costed(horizon="2h"), elastic, urgent()))
    whole = running("low", "n0 n1", ago=100 * MINUTE)
    assert set() == evicted(report(costed(horizon="2h"), whole, urgent(within=1)))
    assert {"low"} == evicted(report(costed(horizon="4h"), whole, urgent(within=1)))


def test_what_cannot_be_read_keeps_a_job_waiting(tmp_path: Path) -> None:
    """A job that would be evicted too early because of a misspelt word hears of it before it starts."""
    file = manifests(tmp_path, *TWO.manifests, *urgent(marks={RUN: "soon"}))

    (pending,) = answer("schedule", "-f", file)["pending"]
    assert ("not-allowed", "InvalidEvictionTerms") == (pending["verdict"], pending["reason"])
    assert 'annotation tierwise.io/minimum-run-time: "soon" is not a duration' in pending["message"]
    refused = run("validate", "-f", file)
    assert (1, True) == (refused.exit_code, RUN in refused.stdout)


_GANG = st.tuples(st.integers(0, 240), st.integers(0, 240), st.integers(0, 60), st.integers(1, 2))


@given(gangs=st.lists(_GANG, min_size=1, max_size=4), tasks=st.integers(1, 3), horizon=st.integers(10, 180))
def test_no_plan_loses_more_than_it_gains(gangs: list[tuple[int, int, int, int]], tasks: int, horizon: int) -> None:
    """Counted anew from what was evicted: all work of broken gangs, and that of single pods elsewhere."""
    world = draw("s0[r0[n0 n1] r1[n2 n3] r2[n4 n5] r3[n6 n7]]", node="gpu=8")
    raws, lost_by = [], {}
    for index, (ago, saved, restart, least) in enumerate(gangs):
        marks = {SAVED: format_time(NOW - saved * MINUTE), "tierwise.io/restart-cost": f"{restart}m"}
        on = f"n{2 * index} n{2 * index + 1}"
        raws.append(running(f"g{index}", on, ago=ago * MINUTE, marks=marks, minimum=least))
        lost_by[f"default/g{index}"] = (min(ago, saved) + restart, least)
    found = report(costed(horizon=f"{horizon}m"), *raws, urgent(tasks=tasks, within=2), world=world)

    gone: dict[str, int] = {}
    for eviction in found.evictions:
        gone[eviction.job.key] = gone.get(eviction.job.key, 0) + 1
    lost = sum(lost_by[key][0] * (2 if 2 - number < lost_by[key][1] else number) for key, number in gone.items())

    assert lost <= tasks * horizon


def test_a_reader_follows_checkpoints() -> None:
    """What changes of a running pod on a live cluster is read: its start, and its conditions by themselves."""
    raws = [*TWO.manifests, *running("low", "n0 n1", ago=HOUR)]
    objects = Objects.of((codec.decode(raw), raw) for raw in raws)
    reader = Reader(costed())
    reader.read(objects, NOW)
    pod = next(raw for raw in raws if raw["kind"] == "Pod")
    condition = {"type": "Checkpointed", "status": "True", "lastTransitionTime": format_time(NOW - 5)}
    for started, conditions in ((NOW - HOUR, [condition]), (NOW - 10, [condition]), (NOW - 10, [])):
        status = {"phase": "Running", "startTime": format_time(started), "conditions": conditions}
        objects = objects.changed({key_of_raw(pod): {**pod, "status": status}})
        (job,) = reader.read(objects, NOW).jobs

        assert (started, NOW - 5 if conditions else 0.0) == (job.tasks[0].started, job.tasks[0].checkpointed)


# -- what a tenant says of itself


ABSURD = ["300000h", "99999999999999999999h", "1000000000000000000000000000000000000s"]


@pytest.mark.parametrize("claim", ["24h", *ABSURD])
@pytest.mark.parametrize("action", ["gangpreempt", "preempt", "jobpreempt"])
def test_a_claim_does_not_make_a_job_unevictable(action: str, claim: str) -> None:
    """What a restart is said to cost counts for half of what the preemptor gains, whatever the figure."""
    marks = {"tierwise.io/restart-cost": claim, "tierwise.io/checkpointed-at": format_time(NOW - 10)}
    found = report(costed(action), running("low", "n0 n1", ago=HOUR, marks=marks, minimum=1), urgent())

    assert {"low"} == evicted(found)


@pytest.mark.parametrize("claim", ABSURD)
@pytest.mark.parametrize("name", ["restart-cost", "minimum-run-time", "expected-duration", "eviction-notice"])
def test_an_absurd_figure_of_a_bystander_stops_no_other_eviction(name: str, claim: str) -> None:
    """Others are weighed as ever; whoever claims the most goes last."""
    absurd = running("absurd", "n0", ago=HOUR, marks={f"tierwise.io/{name}": claim})
    found = report(costed(), absurd, running("low", "n1", ago=30 * MINUTE), urgent())

    assert {"low"} == evicted(found)


def _since(raws: list[Raw], seconds: float) -> list[Raw]:
    """The same with pods that were made so long ago."""
    for raw in raws:
        if raw["kind"] == "Pod":
            metadata: Any = raw["metadata"]
            metadata["creationTimestamp"] = format_time(NOW - seconds)
    return raws


@pytest.mark.parametrize("action", ["gangpreempt", "preempt", "jobpreempt"])
@pytest.mark.parametrize(("waited", "most", "goes"), [(59, {}, False), (61, {}, True), (6, {"maxDecline": "5m"}, True)])
def test_a_plan_is_not_declined_for_ever(action: str, waited: int, most: dict[str, str], goes: bool) -> None:
    """Work of nine hours protects a job from a more important one as long as that can wait."""
    low, high = running("low", "n0 n1", ago=9 * HOUR, minimum=1), _since(urgent(), waited * MINUTE)

    assert ({"low"} if goes else set()) == evicted(report(costed(action, **most), low, high))


@pytest.mark.parametrize("action", ["gangpreempt", "preempt", "jobpreempt"])
@pytest.mark.parametrize(("waited", "goes"), [(61, True), (59, False)])
def test_a_job_waits_since_the_first_of_its_pods(action: str, waited: int, goes: bool) -> None:
    """A pod that was made anew just now does not begin the wait anew."""
    low, high = running("low", "n0 n1", ago=9 * HOUR, minimum=1), _since(urgent(2, minimum=1), waited * MINUTE)
    last: Any = high[-1]["metadata"]
    last["creationTimestamp"] = format_time(NOW)

    assert ({"low"} if goes else set()) == evicted(report(costed(action), low, high))


def test_only_so_much_of_a_claim_ranks_victims() -> None:
    """A job that lost less work goes all the same, once the other's claim is cut to what counts."""
    claims = running("claims", "n0", ago=HOUR, marks={"tierwise.io/restart-cost": "9h"})
    works = running("works", "n1", ago=4 * HOUR)
    profile, cut = costed(decline=False), costed(decline=False, maxRestartCost="2h")

    assert ({"works"}, {"claims"}) == (
        evicted(report(profile, claims, works, urgent())),
        evicted(report(cut, claims, works, urgent())),
    )

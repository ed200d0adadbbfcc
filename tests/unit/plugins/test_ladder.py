"""Ladders: a gang holds out for a rack, then for a leaf, then takes what there is; in every language, by annotation."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support import languages
from tests.support.commands import answer, manifests, run
from tests.support.draw import World, draw, gang
from tests.support.evict_world import profile_of

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.ladder import LADDER, LadderStep, parse_ladder
from tierwise.api.merge_patch import merged
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.framework.report import CycleReport
from tierwise.port import Objects
from tierwise.scheduler import cycle
from tierwise.sim.cluster.simulation import Simulation
from tierwise.snapshot.builder import build

NAMES = {1: "rack", 2: "leaf", 3: "spine"}
SPREAD = draw(
    "s0[l0[r0[n0 n1] r1[n2 n3]] l1[r2[n4 n5] r3[n6 n7]]]", node="cpu=1", running="n1:cpu=1 n3:cpu=1", tier_names=NAMES
)
"""Two leaves of two racks; the racks of one leaf have one free node each."""
SPREAD_WIDER = draw("s0[l0[r0[n0 n1]] l1[r1[n2 n3]]]", node="cpu=1", running="n1:cpu=1 n3:cpu=1", tier_names=NAMES)
"""Two free nodes, which only the spine holds together."""
SPREAD_IN_LEAF = draw("s0[l0[r0[n0 n1] r1[n2 n3]]]", node="cpu=1", running="n1:cpu=1 n3:cpu=1", tier_names=NAMES)
"""Two free nodes in two racks of one leaf."""


def marked(raws: list[Raw], text: str, *, on_pods: bool = False) -> list[Raw]:
    """The manifests of a gang with a ladder, on the object that declares it or on its pods."""
    found = []
    for raw in raws:
        meta: Any = raw["metadata"]
        here = (raw["kind"] == "Pod") == on_pods
        marks = {**meta.get("annotations", {}), **({LADDER: text} if here else {})}
        found.append({**raw, "metadata": {**meta, "annotations": marks}})
    return found


def train(text: str = "rack=10m,leaf=1h,any", **settings: Any) -> list[Raw]:
    """A gang of two nodes with a ladder."""
    return marked(gang("train", tasks=2, each="cpu=1", **settings).manifests(), text)


def objects(world: World, *raws: Raw) -> Objects:
    """A cluster and further manifests, decoded."""
    return Objects.of((codec.decode(raw), raw) for raw in (*world.manifests, *raws))


def _said(world: World, raws: list[Raw], now: float, profile: Profile = DEFAULT) -> str:
    """Where the gang goes, or why it waits."""
    snapshot = build(objects(world, *raws), now, profile)
    report = cycle(snapshot, profile)
    placed = [snapshot.topology.name[decision.domain] for decision in report.decisions]
    return placed[0] if placed else next(r.reason.text for r in report.rejections.values())


def test_each_step_has_its_time() -> None:
    """For ten minutes a rack, for another hour a leaf, then anything."""
    first, second = "1970-01-01T00:10:00Z", "1970-01-01T01:10:00Z"
    for_rack = f"waits for one rack until {first}, then for one leaf, for any place; one spine would do now"
    for_leaf = f"waits for one leaf until {second}, then for any place; one spine would do now"

    said = [_said(SPREAD_WIDER, train(), now) for now in (0.0, 599.0, 600.0, 4199.0, 4200.0)]

    assert [for_rack, for_rack, for_leaf, for_leaf, "s0"] == said
    assert ["l0", "l0"] == [_said(SPREAD_IN_LEAF, train(), now) for now in (600.0, 4200.0)]


def test_a_close_place_is_taken_at_once() -> None:
    """Nobody waits for what is there: a rack of the other leaf is free."""
    assert "r2" == _said(SPREAD, train(), 0.0)


def test_tiers_by_number() -> None:
    """A tree without names has numbers."""
    assert _said(SPREAD_IN_LEAF, train("1=10m,2=1h"), 0.0).startswith("waits for one rack until")
    assert "l0" == _said(SPREAD_IN_LEAF, train("2=10m"), 0.0)


def test_a_hard_limit_stays() -> None:
    """After its ladder a gang may go where its constraint lets it, and no farther."""
    assert "no hyperNode of tier 2 or below" in _said(SPREAD_WIDER, train(within=2), 9_999.0)


@pytest.mark.parametrize("action", ["gangpreempt", "jobpreempt", "preempt"])
def test_no_pod_is_evicted_for_a_place_that_is_declined(action: str) -> None:
    """While it holds out for a rack, two pods of two racks stay; they go once any leaf will do."""
    world = draw("s0[l0[r0[n0 n1] r1[n2 n3] r2[n4]]]", node="cpu=1", tier_names=NAMES)
    low, profile = gang("low", tasks=3, minimum=1, each="cpu=1", on="n1 n3 n4").manifests(), profile_of(action)
    high = gang("high", tasks=2, each="cpu=1", priority=9, on="n0 n2").manifests()

    def report(now: float) -> CycleReport:
        return cycle(build(objects(world, *low, *high, *train(priority=5)), now, profile), profile)

    early, late = report(0.0), report(600.0)

    assert (0, 600.0) == (len(early.evictions), early.retry_after(0.0))
    assert "waits for one rack until" in str(early.rejections["default/train"].children)
    assert (2, inf) == (len(late.evictions), late.retry_after(600.0))


def test_a_nominated_place_is_kept() -> None:
    """Others have gone for it, whatever the gang's first step is."""
    raws = train()
    for raw, node in zip((raw for raw in raws if raw["kind"] == "Pod"), ("n1", "n3"), strict=True):
        raw["status"] = {"phase": "Pending", "nominatedNodeName": node}
    high = gang("high", tasks=2, each="cpu=1", priority=9, on="n0 n2").manifests()
    world = draw("s0[l0[r0[n0 n1] r1[n2 n3]]]", node="cpu=1", tier_names=NAMES)

    assert "l0" == _said(world, [*high, *raws], 0.0)
    assert "waits for one rack" in _said(world, [*high, *train()], 0.0)


def test_the_clock_jumps_from_step_to_step() -> None:
    """A life goes on at the end of each step, though nothing else happens then."""
    life = Simulation(objects(SPREAD_WIDER, *train()), DEFAULT, start=0.0)

    assert [4200.0] == [h.at for moment in life.run(86_400) for h in moment.entries if h.reason == "Placed"]


def test_a_profile_has_a_ladder_for_large_gangs() -> None:
    """Those that ask to be close and name no steps of their own; patience's stretch is not asked then."""
    choice = PluginChoice("patience", {"ladder": "rack=1h", "fromPods": 2, "time": "9h", "stretch": 1})
    profile = replace(DEFAULT, tiers=(*DEFAULT.tiers, (choice,)))

    def waits(*raws: Raw, now: float = 0.0) -> bool:
        return bool(cycle(build(objects(SPREAD_WIDER, *raws), now), profile).rejections)

    soft = gang("train", tasks=2, each="cpu=1", soft=True).manifests()
    assert waits(*soft)
    assert not waits(*soft, now=3600.0)
    assert not waits(*gang("train", tasks=2, each="cpu=1").manifests())
    assert not waits(*train("spine=1h"))


@pytest.mark.parametrize(
    ("ladder", "ends"),
    [("rak=5m,leaf=1h,any", 3600.0), ("leaf=1h,rak=5m", 3600.0), ("rak=5m,any", 0.0), ("rak=5m,board=9h", 0.0)],
)
def test_steps_of_the_profile_that_a_tree_lacks_are_passed_over(ladder: str, ends: float) -> None:
    """With their times: the next step that it has begins at once, and where none is left nobody waits."""
    choice = PluginChoice("patience", {"ladder": ladder})
    profile = replace(DEFAULT, tiers=(*DEFAULT.tiers, (choice,)))
    soft = gang("train", tasks=2, each="cpu=1", soft=True).manifests()

    assert "s0" == _said(SPREAD_WIDER, soft, ends, profile)
    if ends:
        assert _said(SPREAD_WIDER, soft, ends - 1, profile).startswith("waits for one leaf until 1970-01-01T01:00:00Z")


def test_a_profile_need_not_list_patience() -> None:
    """The steps of a gang hold in every profile; gangs without any do not wait in this one."""
    tiers = tuple([tuple([choice for choice in tier if choice.name != "patience"]) for tier in DEFAULT.tiers])
    profile = replace(DEFAULT, tiers=tiers)
    plain = gang("train", tasks=2, each="cpu=1", soft=True).manifests()

    assert _said(SPREAD_IN_LEAF, train("rack=10m"), 0.0, profile).startswith("waits for one rack until")
    assert "l0" == _said(SPREAD_IN_LEAF, plain, 0.0, profile)


LANGUAGES: dict[str, Callable[[], list[Raw]]] = {
    "volcano": lambda: languages.volcano_gang("train", 2),
    "kubernetes": lambda: languages.kubernetes_gang("train", 2),
    "scheduler-plugins": lambda: languages.plugin_gang("train", 2),
    "kai": lambda: languages.kai_gang("train", 2),
    "grove": lambda: languages.grove_gang("train", {"w": 2}),
    "kueue": lambda: languages.kueue_gang("train", 2),
    "koordinator": lambda: [
        languages.pod(
            f"train-{i}",
            annotations={
                "gang.scheduling.koordinator.sh/name": "train",
                "gang.scheduling.koordinator.sh/min-available": "2",
            },
        )
        for i in range(2)
    ],
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_ladders(language: str) -> None:
    """On the object that declares the gang where there is one, and on its pods."""
    raws = LANGUAGES[language]()
    declared = [raw for raw in raws if raw["kind"] != "Pod"]

    for on_pods in (True, False) if declared else (True,):
        laddered = marked(raws, "rack=10m", on_pods=on_pods)
        assert _said(SPREAD_IN_LEAF, laddered, 0.0).startswith("waits for one rack until"), on_pods
        assert "l0" == _said(SPREAD_IN_LEAF, laddered, 600.0)


@pytest.mark.parametrize("text", ["rack", "rack=10", "rack=10m,any,leaf=1h", "rack=-1m", "=1m", "", "rack=0s"])
def test_what_cannot_be_read_waits_and_is_refused(text: str, tmp_path: Path) -> None:
    """The gang is not placed as if it had said nothing, and validate says where the mistake is."""
    file = manifests(tmp_path, *SPREAD.manifests, *train(text))

    assert {"InvalidLadder"} == {p["reason"] for p in answer("schedule", "-f", file)["pending"]}
    refused = run("validate", "-f", file)
    assert 1 == refused.exit_code
    assert LADDER in refused.stdout


def test_a_tier_that_does_not_exist_is_named(tmp_path: Path) -> None:
    """Nobody could say what is waited for."""
    (pending, _) = answer("schedule", "-f", manifests(tmp_path, *SPREAD.manifests, *train("rak=10m")))["pending"]

    assert ("not-allowed", "InvalidLadder") == (pending["verdict"], pending["reason"])
    assert 'names the tier "rak", which its tree does not have' in pending["message"]


def test_the_ladder_is_explained(tmp_path: Path) -> None:
    """The steps with their ends, for people and for programs."""
    file = manifests(tmp_path, *SPREAD_WIDER.manifests, *train())
    words = ("explain", "-f", file, "--job", "train", "--now", "1970-01-01T00:05:00Z")

    assert "rack until 1970-01-01T00:10:00Z, leaf until 1970-01-01T01:10:00Z, then any" in " ".join(
        run(*words, width=160).stdout.split()
    )
    steps = [{"tier": "rack", "until": "1970-01-01T00:10:00Z"}, {"tier": "leaf", "until": "1970-01-01T01:10:00Z"}]
    assert steps == answer(*words)["ladder"]


@given(
    free=st.sets(st.integers(0, 7), min_size=2),
    times=st.lists(st.integers(1, 50), min_size=1, max_size=3),
    now=st.integers(0, 200),
)
def test_no_place_is_wider_than_the_step(free: set[int], times: list[int], now: int) -> None:
    """Whatever is free, the gang starts in a domain of the present step or tighter, and starts in the end."""
    busy = " ".join(f"n{i}:cpu=1" for i in range(8) if i not in free)
    tree = "s0[l0[r0[n0 n1] r1[n2 n3]] l1[r2[n4 n5] r3[n6 n7]]]"
    world = draw(tree, node="cpu=1", running=busy, tier_names=NAMES)
    steps = list(zip(NAMES.values(), times, strict=False))
    raws = train(",".join(f"{tier}={time}s" for tier, time in steps))
    ends = [sum(times[: i + 1]) for i in range(len(steps))]
    limit = next((tier for tier, end in zip(NAMES, ends, strict=False) if now < end), 4)

    snapshot = build(objects(world, *raws), float(now))
    report = cycle(snapshot, DEFAULT)

    tightest = min(
        next(t for t, size in ((1, 2), (2, 4), (3, 8)) if a // size == b // size) for a in free for b in free if a != b
    )
    assert (tightest <= limit) == bool(report.decisions)
    assert all(int(snapshot.topology.tier[d.domain]) == tightest for d in report.decisions)


def test_reading_steps() -> None:
    """Blanks do not matter, `any` at the end changes nothing, and names may have dots and slashes."""
    expected = (LadderStep("example.com/rack", 90.0), LadderStep("2", 3600.0))

    assert expected == parse_ladder("example.com/rack = 1m30s , 2=1h,any") == parse_ladder("example.com/rack=90s,2=60m")


def test_a_gang_in_a_file_comes_when_the_run_begins(tmp_path: Path) -> None:
    """Without a creation time it is on its first step; as a Volcano job makes its group, too."""
    now = ("--now", "2026-01-01T00:00:00Z")
    timeless = [merged(raw, {"metadata": {"creationTimestamp": None}}) for raw in train()]
    waits = answer("schedule", "-f", manifests(tmp_path, *SPREAD_WIDER.manifests, *timeless), *now)
    job: Raw = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "annotations": {LADDER: "rack=10m"}},
        "spec": {"tasks": [{"name": "w", "replicas": 2, "template": timeless[1]}], "minAvailable": 2},
    }
    folder = tmp_path / "job"
    folder.mkdir()
    waits_too = answer("schedule", "-f", manifests(folder, *SPREAD_WIDER.manifests, job), *now)
    life = Simulation(objects(SPREAD_WIDER, *timeless), DEFAULT, start=1.8e9)

    assert ["WaitsForCloserPlace"] * 4 == [pod["reason"] for found in (waits, waits_too) for pod in found["pending"]]
    assert [4200.0] == [h.at for moment in life.run(86_400) for h in moment.entries if h.reason == "Placed"]

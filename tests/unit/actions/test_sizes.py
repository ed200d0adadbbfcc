"""Gangs of listed sizes: the largest that has room, then the next one, and never a number between."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.draw import draw
from tests.support.reservations import NOW, in_namespace, job, running

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.sizes import SIZES, parse_sizes
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.framework.report import CycleReport
from tierwise.model.job import Verdict
from tierwise.port import Objects
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build

RACKS = draw("s0[r0[n0 n1 n2] r1[n3 n4 n5 n6]]", node="gpu=8")


def report(*parts: list[Raw], profile: Profile = DEFAULT) -> CycleReport:
    """One cycle in two racks of three and four nodes."""
    raws = [*RACKS.manifests, *(raw for part in parts for raw in part)]
    return cycle(build(Objects.of((codec.decode(raw), raw) for raw in raws), NOW, profile), profile)


def train(tasks: int, sizes: str, *, least: int = 1, on: str = "", **settings: Any) -> list[Raw]:
    """A gang of whole nodes with such sizes, some of whose pods run."""
    raws = job("train", tasks, on=on, marks={SIZES: sizes}, **settings)
    for raw in raws:
        body: Any = raw
        if raw["kind"] == "PodGroup":
            body["spec"]["minMember"] = least
        elif "nodeName" in body["spec"]:
            body["status"] = {"phase": "Running"}
    return raws


def started(found: CycleReport) -> list[str]:
    """The nodes on which its pods start."""
    placed = (row for one in found.decisions if one.job.key == "default/train" and one.bound for _, row in one.places())
    return sorted(f"n{row}" for row in placed)


@pytest.mark.parametrize(
    ("tasks", "sizes", "least", "expected"),
    [
        (7, "1,2,4", 1, 4),
        (3, "1,2,4", 1, 2),
        (7, "2,6", 1, 6),
        (7, "3, 5", 4, 5),
        (7, "7", 1, 7),
        (4, "8", 1, 0),
        (7, "8", 1, 0),
    ],
)
def test_the_largest_size_that_has_room(tasks: int, sizes: str, least: int, expected: int) -> None:
    """For which there are pods; sizes below the minimum do not count."""
    assert expected == len(started(report(train(tasks, sizes, least=least))))


def test_the_rack_is_chosen_by_the_largest_size() -> None:
    """The first rack would do for two pods; the other one holds four."""
    assert ["n3", "n4", "n5", "n6"] == started(report(train(4, "2,4", within=1)))
    busy = running("busy", "n3 n4 n5")
    assert 2 == len(started(report(busy, train(4, "2,4", within=1))))


def test_it_grows_to_the_next_size_or_stays() -> None:
    """One more node does not help a gang of two whose next size is four; two more do."""
    both = "n3 n4"
    waits = report(running("busy", "n5"), train(4, "2,4", on=both, within=1))

    assert ["n5", "n6"] == started(report(train(4, "2,4", on=both, within=1)))
    assert [] == started(waits)
    rejection = waits.rejections["default/train"]
    text = "its next size is 4: it runs with 2 pods, and starts 2 more together"
    assert (Verdict.NOT_NOW, "BetweenSizes", text) == (
        rejection.verdict,
        rejection.reason.code,
        rejection.reason.text,
    )


def test_what_was_lost_comes_back_first() -> None:
    """Three of four run: the fourth makes a size again."""
    assert 1 == len(started(report(train(4, "2,4", on="n3 n4 n5"))))


def test_quotas_allow_whole_sizes() -> None:
    """Room for three pods in the queue lets two start."""
    queue: Raw = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "ml"},
        "spec": {"capability": {"nvidia.com/gpu": "24"}},
    }
    limited = replace(DEFAULT, tiers=((*DEFAULT.tiers[0], PluginChoice("capacity")), *DEFAULT.tiers[1:]))

    assert 2 == len(started(report([queue], train(4, "1,2,4", queue="ml"), profile=limited)))


@pytest.mark.parametrize("actions", [("gangpreempt",), ("preempt",)])
def test_it_is_evicted_whole(actions: tuple[str, ...]) -> None:
    """A more important pod needs one node: all pods go, or none."""
    evicts = replace(DEFAULT, actions=("enqueue", "allocate", *actions))
    urgent = in_namespace("other", job("urgent", 1, priority=9))
    full = running("busy", "n0 n1 n2", priority=9)

    elastic = report(full, train(4, "1,2,3,4", on="n3 n4 n5 n6"), urgent, profile=evicts)
    assert len(elastic.evictions) in (0, 4)


@pytest.mark.parametrize(
    "text", ["", "4,", "four", "0", "-1", "4;8", "1.5", "²", "100001", ",".join(map(str, range(1, 34)))]
)
def test_what_cannot_be_meant_as_sizes_waits(text: str) -> None:
    """With one line that names the annotation."""
    problem = parse_sizes(text)
    found = report(train(4, text))

    assert isinstance(problem, str)
    assert problem.startswith(f"annotation {SIZES}: ")
    assert "InvalidSizes" == found.rejections["default/train"].reason.code
    assert not started(found)


def test_sizes_below_the_minimum_and_minimums_of_roles_wait() -> None:
    """What the object says besides contradicts it."""
    below = report(train(4, "1,2", least=3))
    roles: Any = train(4, "2,4", least=4)
    roles[0]["spec"]["minTaskMember"] = {"worker": 4}

    assert "InvalidSizes" == below.rejections["default/train"].reason.code
    assert "NotSupported" == report(roles).rejections["default/train"].reason.code

"""Volcano's pod groups that start together by Koordinator's annotation."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from tests.support.drawn_gang import Gang
from tests.support.koordinator import objects_of
from tests.support.sets import fabric, stand

from tierwise.admission import validate
from tierwise.api.codec import Raw

GROUPS = "gang.scheduling.koordinator.sh/groups"
TWO = fabric({"s0": "r0 r1"})


def gang(name: str, tasks: int, partners: Sequence[str], **more: object) -> list[Raw]:
    """A gang in one rack that names the gangs which start with it."""
    marks = {GROUPS: json.dumps([path if "/" in path else f"default/{path}" for path in partners])}
    return Gang(name, tasks=tasks, within="rack", marks=marks, **more).manifests()  # type: ignore[arg-type]


def test_they_start_together_or_not_at_all() -> None:
    """Two pods fit in each rack: two gangs of two start, three do not."""
    assert {"a": "r0", "b": "r1"} == stand(TWO, gang("a", 2, "ab"), gang("b", 2, "ab"))[0]

    racks, why = stand(TWO, *[gang(name, 2, "abc") for name in "abc"])

    assert {} == racks
    assert "SetWaits: set a+b+c starts together, and c has no place together with the other gangs" == why["c"]


def test_one_that_does_not_exist_yet_is_waited_for() -> None:
    """As in Koordinator."""
    racks, why = stand(TWO, gang("a", 1, "ab"))

    assert ({}, {"a": "SetIncomplete: set a+b starts with 2 gangs, and 1 exists: a"}) == (racks, why)


def test_a_claim_that_is_not_returned_binds_nobody() -> None:
    """B exists and names others, or none: a starts by itself, and `validate` says so."""
    for returned in (["b", "c"], []):
        others = gang("b", 9, returned) if returned else Gang("b", tasks=9, within="rack").manifests()
        assert "a" in stand(TWO, gang("a", 1, "ab"), others)[0]

    findings = [str(finding) for finding in validate(objects_of(TWO, gang("a", 1, "ab"), gang("b", 1, "bc"))).warnings]
    assert any("podGroup default/b does not name the same ones: default/a starts by itself" in f for f in findings)


def test_gangs_of_other_namespaces_are_passed_over() -> None:
    """A set is of one namespace: nobody waits for, or holds up, a gang elsewhere."""
    assert {"a": "r0"} == stand(TWO, gang("a", 1, ["a", "elsewhere/b"]))[0]


def test_once_they_have_started_each_goes_on_by_itself() -> None:
    """A gang that comes back is placed alone."""
    running = Gang("a", tasks=1, within="rack", on="r0n0", marks={GROUPS: '["default/a","default/b"]'}).manifests()

    assert "b" in stand(TWO, running, gang("b", 2, "ab"))[0]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[", "Input data was truncated"),
        ('["a"]', '"a" is not of the form namespace/name'),
        (json.dumps([f"default/g{i}" for i in range(300)]), "301 gangs are more than the 256 that a set may have"),
    ],
)
def test_what_cannot_be_read_waits(text: str, fault: str) -> None:
    """And `validate` says what is wrong."""
    bad = Gang("a", tasks=1, marks={GROUPS: text}).manifests()

    assert stand(TWO, bad)[1]["a"] == f"InvalidGroup: annotation {GROUPS}: {fault}"
    assert any(fault in str(finding) for finding in validate(objects_of(TWO, bad)).errors)


def test_a_long_list_has_a_short_name() -> None:
    """What people read of the set is not all of the annotation."""
    names = [f"replica-of-a-service-{i}" for i in range(40)]

    text = stand(TWO, gang(names[0], 1, names))[1][names[0]]

    assert text.startswith("SetIncomplete: set replica-of-a-service-0+replica-of-a-service-1+38 more (")

"""Sets of gangs in `explain`, `why`, `what-if` and on the page: where parts stand, and what closes a domain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.boards import scheduled
from tests.support.commands import answer, manifests, run
from tests.support.drawn_gang import Gang
from tests.support.sets import apart, fabric, part, together

from tierwise.api.codec import Raw
from tierwise.cli.inputs import load
from tierwise.explain.board import Board

FOUR = {"s0": "r0 r1:3", "s1": "r2:1"}


def _serving(name: str, on: str = "", *, tasks: int = 2, rule: Raw | None = None) -> list[Raw]:
    phase = "Running" if on else ""
    return part(name, tasks, "serve", rule or apart("serve"), within="rack", on=on, phase=phase)


def _scene(folder: Path, *gangs: Sequence[Raw], racks: dict[str, str] | None = None) -> Path:
    return manifests(folder, *fabric(racks or FOUR), *(raw for gang in gangs for raw in gang))


def _apart(folder: Path) -> Path:
    """Two replicas run in a rack each, and a third fits into neither rack that is left."""
    return _scene(folder, _serving("a", "r0n0 r0n1"), _serving("b", "r1n0 r1n1"), _serving("c"))


@pytest.mark.parametrize("verb", [("explain", "--job", "c"), ("explain", "c-0"), ("why", "c-0")])
def test_each_domain_says_who_stands_there_and_whether_it_is_open(verb: Sequence[str], tmp_path: Path) -> None:
    """Closed ones name the rule, open ones how much of the gang they have room for."""
    told: Any = answer(*verb, "-f", _apart(tmp_path))["sets"]

    assert [("serve", "at most 1 part in one rack", "rack", True, ["c"])] == [
        (rule["set"], rule["rule"], rule["tier"], rule["hard"], rule["waiting"]) for rule in told
    ]
    most = "closed: 1 part stands there, which is the most"
    assert [
        {"hyperNode": "r0", "parts": ["a"], "open": False, "message": most},
        {"hyperNode": "r1", "parts": ["b"], "open": False, "message": most},
        {"hyperNode": "r2", "parts": [], "open": True, "message": "open, and 1 of 2 pods fits"},
    ] == told[0]["domains"]


def test_a_set_that_stays_together_runs_in_one_domain(tmp_path: Path) -> None:
    """All others are closed, and the one in which it runs says how much of the gang fits."""
    rule = together("serve")
    file = _scene(tmp_path, _serving("a", "r0n0", tasks=1, rule=rule), _serving("b", rule=rule))

    (told,) = answer("explain", "-f", file, "--job", "b")["sets"]

    assert "all parts in one rack" == told["rule"]
    assert {"r0": "open, and 1 of 2 pods fits", "r1": "closed: the set runs elsewhere"}.items() <= {
        domain["hyperNode"]: domain["message"] for domain in told["domains"]
    }.items()


def test_parts_that_are_sets_are_named_so(tmp_path: Path) -> None:
    """A replica of two gangs is one part of the set around it."""
    gangs = [
        part(name, 1, "serve/0", apart("serve"), within="rack", on=node, phase="Running")
        for name, node in (("prefill", "r0n0"), ("decode", "r0n1"))
    ]
    other = part("next", 1, "serve/1", apart("serve"), within="rack")

    (told,) = answer("explain", "-f", _scene(tmp_path, *gangs, other), "--job", "next")["sets"]

    assert ["set serve/0"] == told["domains"][0]["parts"]
    assert ["set serve/1"] == told["domains"][1]["parts"]


def test_people_read_it(tmp_path: Path) -> None:
    """A table in `explain`, a line in `why`."""
    file = _apart(tmp_path)

    table = run("explain", "--job", "c", "-f", file).stdout
    line = " ".join(run("why", "c-0", "-f", file).stdout.split())

    assert "Sets\n  set serve: at most 1 part in one rack\n" in table
    assert "  r0    a      closed: 1 part stands there, which is the most\n" in table
    assert "set serve (at most 1 part in one rack): a in r0 and b in r1; r2 open, and 1 of 2 pods fits" in line


def test_gangs_without_rules_say_nothing_of_sets(tmp_path: Path) -> None:
    """Neither in JSON nor in text."""
    file = _scene(tmp_path, part("free", 1, "serve", within="rack"))

    assert "sets" not in answer("explain", "-f", file, "--job", "free")
    assert "Sets" not in run("explain", "-f", file, "--job", "free").stdout


def test_closed_domains_do_not_hold_the_gang(tmp_path: Path) -> None:
    """Of three racks with room two hold the second replica, and one the third."""
    file = _scene(tmp_path, *map(_serving, "abc"), racks={"s0": "r0 r1 r2"})

    said = [run("explain", "--job", name, "-f", file).stdout for name in "abc"]

    assert "3 hyperNodes hold the gang" in said[0]
    assert "2 hyperNodes hold the gang" in said[1]
    assert "only r2 holds the gang" in said[2]


# What if.


def test_a_rule_that_is_soft_starts_the_gang(tmp_path: Path) -> None:
    """`--start` finds that by itself, and `--loosen` shows it."""
    file = _scene(tmp_path, _serving("a", "r0n0", tasks=1), _serving("b", tasks=1), racks={"s0": "r0"})

    ways: Any = answer("what-if", "-f", file, "--start", "b")["ways"]
    changed: Any = answer("what-if", "-f", file, "--loosen", "b=serve")

    assert ("loosen", 1, ["serve"]) == next((w["way"], w["number"], w["subjects"]) for w in ways if w["way"] != "evict")
    assert {"default/b": "starts"} == {job["podGroup"]: job["effect"] for job in changed["jobs"]}


def test_the_least_may_be_a_part_that_moves(tmp_path: Path) -> None:
    """The rack of three nodes is the only one for the gang of three, and the part in it fits elsewhere."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "u", "controller": True}
    small = [
        {**raw, "metadata": {**raw["metadata"], "ownerReferences": [owner]}}  # type: ignore[dict-item]
        for raw in _serving("a", "r1n0", tasks=1)
    ]
    file = _scene(tmp_path, small, _serving("c", tasks=3))

    ways: Any = answer("what-if", "-f", file, "--start", "c")["ways"]

    moved = next(way for way in ways if way["way"] == "move")
    assert ["default/a-0"] == moved["subjects"]
    assert not moved["nodes"]["default/a-0"].startswith("r1")


def test_a_part_more_comes_with_the_rules_of_the_first(tmp_path: Path) -> None:
    """Of two more replicas one finds a rack."""
    file = _scene(tmp_path, _serving("a", "r0n0 r0n1"))

    told: Any = answer("what-if", "-f", file, "--add-parts", "2=a")["jobs"]

    assert {"default/a-new-1": "starts", "default/a-new-2": "waits"} == {job["podGroup"]: job["effect"] for job in told}
    assert {"default/a-0-new-1", "default/a-1-new-1"} == set(told[0]["after"]["pods"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("--loosen", "a=srv"), "it has no hard rule about set srv (did you mean serve?)"),
        (("--loosen", "free"), "it has no hard rule about sets"),
        (("--add-parts", "1=alone"), "it is in no set"),
        (("--add-parts", "257=a"), "257 is not between 1 and 256"),
        (("--add-parts", "a"), "is not N=JOB"),
        (("--loosen", "=serve"), "is not JOB[=SET]"),
    ],
)
def test_what_makes_no_sense_is_told(change: Sequence[str], said: str, tmp_path: Path) -> None:
    """With the exit status of bad input."""
    alone = Gang("alone", tasks=1).manifests()
    file = _scene(tmp_path, _serving("a"), part("free", 1, "serve"), alone)

    result = run("what-if", "-f", file, *change)

    assert 2 == result.exit_code
    assert said in result.stderr


# The page.


def test_the_story_of_a_part_has_its_set_and_every_domain(tmp_path: Path) -> None:
    """The domains by their numbers in the tree, and the gangs of each part, to which the page links."""
    board = Board(scheduled(load([str(_apart(tmp_path))])))
    story: Any = board.job("default/c")

    (rule,) = story["sets"]
    names = board.wire()["fabrics"][0]["name"]  # type: ignore[index]
    assert ["r0", "r1", "r2"] == [names[domain["index"]] for domain in rule["domains"]]
    assert {"a": ["default/a"], "b": ["default/b"], "c": ["default/c"]} == rule["gangs"]
    assert (0, 0) == (rule["fabric"], rule["more"])

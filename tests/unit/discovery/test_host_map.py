"""Host maps in CSV and JSON."""

import pytest

from tierwise.discovery.host_map import parse_csv, parse_json
from tierwise.discovery.tree import Discovered, PathElement

PLACES = {"n0": (PathElement(2, "s0"), PathElement(1, "r0")), "n1": (PathElement(2, "s0"), PathElement(1, "r1"))}


def _csv(text: str, host: str = "", *tiers: str) -> Discovered:
    return parse_csv(text, "f.csv", host, tiers)


@pytest.mark.parametrize(
    "text",
    [
        "host,rack,spine\nn0,r0,s0\nn1,r1,s0\n",
        "spine;rack;hostname\ns0;r0;n0\ns0;r1;n1\n",
        "\ufeffNode Name\tSpine\tRack\n\nn0\ts0\tr0\r\nn1\ts0\tr1",
        'ip,DSW,ASW\n"n0","s0","r0"\nn1, s0 , r1\n',
        "box,outer,inner\nn0,s0,r0\nn1,s0,r1\nn2,,\n",
    ],
)
def test_titles_and_values_tell_the_columns(text: str) -> None:
    """By well-known words in any order and case; else hosts are distinct and inner tiers have more values."""
    assert PLACES == _csv(text, *(["box"] if text.startswith("box") else [])).tree.places


def test_columns_that_are_named_are_taken() -> None:
    """And the others are left alone, which is said."""
    found = _csv("a,b,c,d\nn0,s0,r0,x\nn1,s0,r1,y\n", "a", "c", "b")

    assert PLACES == found.tree.places
    assert {1: "c", 2: "b"} == found.tree.tier_names
    assert ["f.csv: column d is not read"] == list(map(str, found.remarks))


def test_one_name_in_two_places_is_two_domains_and_no_problem() -> None:
    """A domain's identity is its path."""
    found = _csv("host,rack,spine\nn0,r0,s0\nn1,r0,s1\n")

    assert 4 == len(found.tree)
    assert () == found.remarks


def test_an_empty_cell_passes_a_tier_over() -> None:
    """The node hangs on the next tier that is known."""
    assert (PathElement(2, "s0"),) == _csv("host,rack,spine\nn0,,s0\nn1,r1,s0\n").tree.places["n0"]


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("", "f.csv: lists no host"),
        ("host,rack\n", "f.csv: lists no host"),
        ("host,rack\nn0\n", "f.csv: line 2 has 1 cells, the titles are 2"),
        ("host,rack,rack\nn0,a,b\n", "f.csv: two columns have the same title"),
        ("host,rack\n,r0\n", "f.csv:2: host is empty"),
        ("host,rack\nn0,r0\nn0,r1\n", "f.csv:3: host n0 is listed twice, first at f.csv:2, in another place"),
        ("a,b\nx,y\nx,z\nw,z\n", "f.csv: no column is known to name the hosts: say which (host column)"),
        ("host\nn0\n", "f.csv: there is no column for a tier"),
        ("host,x,y\nn0,a,b\nn1,c,d\n", "f.csv: the order of x, y cannot be told: say it (tiers, innermost first)"),
        ('host,rack\nn0,"r0\n', "f.csv: unexpected end of data"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_discovered(text: str, remark: str) -> None:
    """With the line where there is one."""
    found = _csv(text)

    assert remark in list(map(str, found.errors))
    assert {} == found.tree.places


def test_a_host_listed_twice_in_one_place_is_a_warning() -> None:
    """It does no harm."""
    found = _csv("host,rack\nn0,r0\nn0,r0\n")

    assert (["f.csv:3: host n0 is listed twice, first at f.csv:2"], 1) == (
        list(map(str, found.warnings)),
        len(found.tree.places),
    )


def test_an_unknown_column_is_refused_with_those_that_there_are() -> None:
    """Whoever misspells it sees the right spelling."""
    found = _csv("host,rack\nn0,r0\n", "hots")

    assert ['f.csv: there is no column "hots": it has host, rack (did you mean host?)'] == list(map(str, found.errors))


@pytest.mark.parametrize(
    "data",
    [
        [{"node": "n0", "rack": "r0", "spine": "s0"}, {"node": "n1", "rack": "r1", "spine": "s0", "ips": ["::1"]}],
        {"n0": {"rack": "r0", "spine": "s0"}, "n1": {"rack": "r1", "spine": "s0"}},
    ],
)
def test_json_is_a_list_or_an_object_by_host(data: object) -> None:
    """What is no text or number is no tier."""
    found = parse_json(data, "f.json")

    assert (PLACES, ()) == (found.tree.places, found.remarks)


@pytest.mark.parametrize(
    ("data", "remark"),
    [
        (3, "f.json: expected a list of hosts, or an object by host"),
        ([1], "f.json: [0]: expected an object with the tiers of a host"),
        ({"n0": "r0"}, "f.json: n0: expected an object with the tiers of a host"),
        ([], "f.json: lists no host"),
    ],
)
def test_json_of_another_shape_is_refused(data: object, remark: str) -> None:
    """With the place."""
    assert [remark] == list(map(str, parse_json(data, "f.json").errors))

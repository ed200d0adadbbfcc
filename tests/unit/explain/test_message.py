"""What a rejection says in one line: nothing that people need is left out, and the numbers add up."""

from __future__ import annotations

from tierwise.explain.message import decisive, message, tried_line
from tierwise.explain.ranges import compact, numbers
from tierwise.model.job import Reason, Rejection, Tried

NO_PLACE = Reason("NoPlace", "gang", "it finds no place")


def test_search_that_stopped_says_so() -> None:
    """A no that is not proven must not look like one that is."""
    rejection = Rejection("place", "default/g", NO_PLACE)
    bounded = Rejection("place", "default/g", NO_PLACE, bounded=True)

    assert "it finds no place" == message(rejection)
    assert "it finds no place; the search stopped at its bound, so a place may exist" == message(bounded)


def test_causes_add_up() -> None:
    """The first three are told, and how many more there are."""
    causes = tuple((Reason(f"R{i}", "p", f"were bad {i}"), 1 + i) for i in range(5))
    tried = Tried(1, 1, "r0", fits=0, asked=2, causes=causes)

    told = "1 node was bad 0; 2 nodes were bad 1; 3 nodes were bad 2; and 2 other reasons"
    assert f"tier 1: in r0, the only hyperNode: 0 of 2 pods fit ({told})" == tried_line(tried)


def test_domains_out_of_the_search_are_told() -> None:
    """Where running pods confine a gang, people hear that the other domains were not looked at."""
    tried = Tried(1, 1, "r0", fits=1, asked=2, here=True, outside=3)

    line = "tier 1: in r0, where its running pods are: 1 of 2 pods fits, and 3 other hyperNodes of this tier are"
    assert f"{line} not searched" == tried_line(tried)


def test_numbers_that_are_left_out_are_counted() -> None:
    """Of seven runs five are shown, and the rest is counted number by number."""
    values = [0, 1, 3, 5, 7, 9, 11, 12, 13, 20]

    assert "0-1,3,5,7,9 and 4 more" == numbers(values)


def test_names_with_leading_zeros_stay_as_they_are() -> None:
    """Folding them would show a name that does not exist."""
    assert "node-007 and node-008" == compact(["node-008", "node-007"])
    assert "node-[7-8]" == compact(["node-8", "node-7"])


def test_the_widest_tier_decides() -> None:
    """Of all that was tried, the shortest sentence tells how far the widest domain came."""
    tried = (Tried(1, 2, "r0", fits=1, asked=4), Tried(2, 1, "s0", fits=3, asked=4))

    assert "3 of 4 pods fit in s0" == decisive(Rejection("place", "default/g", NO_PLACE, tried=tried))

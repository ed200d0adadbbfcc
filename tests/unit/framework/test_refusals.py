"""The book of refusals: a page forgets what depends on something that has changed, and nothing else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tierwise.framework.refusals import INPUTS, Input, Refusals, SmallestRefused, What
from tierwise.framework.steps import StepAccount
from tierwise.model.arrays import EMPTY, Ints


class World(msgspec.Struct):
    """The numbers of all inputs, as ledger, report and nominations show them."""

    releases: int = 0
    written: int = 0
    decisions: list[str] = []
    evictions: list[str] = []
    nominated: list[str] = []
    steps: StepAccount = msgspec.field(default_factory=StepAccount)

    def mark(self) -> int:
        return self.written

    def room(self) -> Ints:
        return EMPTY

    def change(self, one: Input) -> None:
        match one:
            case Input.RELEASES:
                self.releases += 1
            case Input.MOMENT:
                self.written += 1
            case Input.DECISIONS:
                self.decisions.append("decision")
            case Input.EVICTIONS:
                self.evictions.append("eviction")
            case Input.NOMINATIONS:
                self.nominated.append("nomination")


def book(world: Any) -> Refusals:
    """The book of a cycle over such a world."""
    return Refusals(world, world, world.nominated)


@pytest.mark.parametrize("what", What)
@pytest.mark.parametrize("changed", Input)
def test_a_page_forgets_what_depends_on_what_has_changed(what: What, changed: Input) -> None:
    """Each kind of refusal, after each of the inputs that there are."""
    world = World()
    page = book(world).page(what)
    page.add("gang", "no")
    world.change(changed)

    assert (changed in INPUTS[what]) == (page.entries() == {})


def test_what_is_written_later_is_kept() -> None:
    """A page that has forgotten keeps what comes after the change."""
    world = World()
    page = book(world).page(What.MINIMUM)
    world.change(Input.RELEASES)
    page.add("gang", "no")

    assert {"gang": "no"} == page.entries()


def test_whoever_must_hear_of_it_is_told_before_a_page_forgets() -> None:
    """Once for each change, and not where nothing has changed."""
    world, told = World(), list[str]()
    page = book(world).page(What.MINIMUM, lambda: told.append("forgotten"))
    page.add("gang", "no")
    page.entries()
    world.change(Input.RELEASES)
    page.entries()
    page.entries()

    assert ["forgotten"] == told


def test_a_refusal_speaks_for_as_much_and_more_within_a_limit_as_narrow() -> None:
    """Not for less, not for a wider limit, and not for another family."""
    refused: SmallestRefused[str] = SmallestRefused(book(World()).page(What.MINIMUM))
    refused.add("gpus", 4, 2.0, "no")

    assert "no" == refused.speaks_for(("gpus",), 4, 2.0) == refused.speaks_for(("cpus", "gpus"), 9, 1.0)
    assert None is refused.speaks_for(("gpus",), 3, 2.0)
    assert None is refused.speaks_for(("gpus",), 4, 3.0)
    assert None is refused.speaks_for(("cpus",), 4, 2.0)


def test_the_least_that_was_refused_is_remembered() -> None:
    """A refusal of more says nothing that one of less has not said."""
    refused: SmallestRefused[str] = SmallestRefused(book(World()).page(What.MINIMUM))
    refused.add("gpus", 4, 2.0, "four")
    refused.add("gpus", 6, 2.0, "six")
    refused.add("gpus", 2, 2.0, "two")

    assert "two" == refused.speaks_for(("gpus",), 5, 2.0)

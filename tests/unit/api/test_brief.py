"""Long values are cut in every message: of admission, of the scheduler, of statuses and of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.documented_fields import documented_keys
from tests.support.field_pairs import PAIRS
from tests.support.field_scenes import SCENES, outcome
from tests.support.koordinator import objects_of
from tests.unit.dialects.test_every_mark_counts import marked, ways

from tierwise.admission import validate
from tierwise.api.brief import LONG, LONGEST, brief
from tierwise.api.errors import InputError
from tierwise.model.job import Reason
from tierwise.model.snapshot import Fault

VALUES = {"one word": "x" * 150_000, "words": "x y, " * 30_000}
PLACES = [(row.key, row.places[0]) for row in documented_keys()]


def test_short_messages_are_as_they_were() -> None:
    """Also long ones, where no value in them is long; two quotations are not one."""
    pieces = " ".join(f'"name-{i}" is not known, and none of the words beside it is either' for i in range(99))

    assert 'queue "q" is not open' == brief('queue "q" is not open')
    assert pieces == brief(pieces)
    assert len(pieces) > LONG


def test_long_values_are_cut_and_said_to_be() -> None:
    """A word, and what is quoted; the end of a message that is long for other reasons."""
    assert f'"{"x" * 159}…" (5000 characters) is no ladder' == brief(f'"{"x" * 5000}" is no ladder')
    many = "x" * 5000
    assert f"its queue {many[:160]}… (5000 characters) does not exist" == brief(f"its queue {many} does not exist")
    assert len(brief("a b " * LONGEST)) <= LONGEST


@pytest.mark.parametrize("made", [Reason("C", "p", "y" * 9999), Fault("s", "C", "y" * 9999), InputError("y" * 9999)])
def test_whatever_tells_of_a_fault_cuts_it(made: Any) -> None:
    """Reasons, what is set aside, and bad input."""
    assert len(made.message if isinstance(made, InputError) else made.text) < LONG


def _messages(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, str):
        yield from [value] if name in ("message", "text", "path") else ()
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _messages(inner, key)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _messages(inner, name)
    elif hasattr(value, "__struct_fields__"):
        for field in value.__struct_fields__:
            yield from _messages(getattr(value, field), field)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize(("key", "place"), PLACES, ids=lambda text: text.replace("/", "."))
def test_no_message_has_all_of_a_mark(key: str, place: str, value: str) -> None:
    """Of 150 KB in any label or annotation: why pods wait, what admission says, conditions, and refusals of files."""
    row = next(row for row in documented_keys() if row.key == key)
    form, way = row.forms[0].partition(" on a ")[0], ways(place, PAIRS[key])[0]
    made = SCENES[PAIRS[key].scene](way)
    manifests = marked(made.manifests, (key, place, form, way), value)
    try:
        found = outcome(made, manifests)
        told = [*_messages(found.told), *_messages([raw.get("status") for raw in found.objects.values()])]
    except InputError as error:
        told = [str(error)]
    told += _messages(validate(objects_of(manifests)))

    most = LONGEST + LONG  # names that have spaces are no names, and cut as the whole message is
    assert [] == [text[:300] for text in told if len(text) > most or "x" * LONG in text]

"""The page about the shape of a gang names every field, and its examples are true."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import msgspec
import pytest

from tierwise.model.gang import GangShape, Leaf, ShapeGroup, Slot, Wishes

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "gang-shape.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("struct", [GangShape, ShapeGroup, Leaf, Slot, Wishes], ids=lambda struct: struct.__name__)
def test_every_field_has_a_row(struct: type[msgspec.Struct]) -> None:
    """No field of a shape is left out, and none is named that does not exist."""
    _, _, rest = PAGE.partition(f"\n`{struct.__name__}`:\n")
    table = rest.strip().split("\n\n")[0]

    rows = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)

    assert set(struct.__struct_fields__) == set(rows)
    assert len(set(rows)) == len(rows)


def test_examples_of_the_page_are_true() -> None:
    """What each shape lacks is what the page shows."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    examples = doctest.DocTestParser().get_doctest(code, {}, "gang-shape.md", None, 0)

    outcome = doctest.DocTestRunner().run(examples)

    assert 0 == outcome.failed
    assert outcome.attempted > 8

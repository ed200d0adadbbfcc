"""The list of mutations stays true: what `make mutants` would change is there, and so are the tests that it runs."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def listed() -> list[dict[str, object]]:
    """Every mutation of every list, with the layer that it is listed in."""
    folder = ROOT / "tests" / "mutations"
    return [
        {"layer": path.stem, **entry}
        for path in sorted(folder.glob("*.toml"))
        for entry in tomllib.loads(path.read_text())["mutation"]
    ]


def test_every_text_is_found_once() -> None:
    """A text that was changed, or stands twice, is no mutation any more."""
    sources = {str(m["file"]): (ROOT / str(m["file"])).read_text() for m in listed()}
    lost = [f"{m['layer']}/{m['name']}" for m in listed() if sources[str(m["file"])].count(str(m["find"])) != 1]

    assert [] == lost


def test_every_mutation_changes_something() -> None:
    """What is put in place of a text is another text."""
    assert [] == [m["name"] for m in listed() if m["find"] == m["replace"]]


def test_every_test_exists() -> None:
    """Files are there, and a test that is named stands in its file."""
    missing = []
    for mutation in listed():
        tests = mutation["tests"]
        assert isinstance(tests, list)
        for test in tests:
            path, _, name = str(test).partition("::")
            function = name.partition("[")[0]
            there = (ROOT / path).exists() and (not function or f"def {function}(" in (ROOT / path).read_text())
            missing += [] if tests and there else [f"{mutation['name']}: {test}"]

    assert [] == missing


def test_names_stand_once() -> None:
    """`--only` chooses by layer and name."""
    counts = Counter((m["layer"], m["name"]) for m in listed())

    assert [] == [name for name, number in counts.items() if number > 1]

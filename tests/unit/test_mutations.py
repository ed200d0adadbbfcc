"""The list of mutations stays true: what `make mutants` would change is there, and so are the tests that it runs."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from tools import mutants

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


def mutation(name: str, survives: str = "") -> mutants.Mutation:
    """A mutation of the ledger that is not on any list."""
    return mutants.Mutation("framework", name, "src/tierwise/framework/ledger.py", "a", "b", ("t",), "harm", survives)


@pytest.mark.parametrize(
    ("what", "survives", "status"),
    [
        (mutants.NOTICED, "", 0),
        (mutants.SURVIVED, "", 1),
        (mutants.SURVIVED, "both give the same answer", 0),
        (mutants.NOTICED, "both give the same answer", 1),
        (mutants.ENDLESS, "", 1),
        (mutants.ENDLESS, "both give the same answer", 1),
    ],
)
def test_only_what_is_noticed_or_explained_passes(
    what: str, survives: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Survivors without an explanation, explanations that do not hold, and tests that do not end fail a run."""
    assert status == mutants.report([mutation("one", survives)], {"framework/one": what}, 60)
    assert f"framework        {int(what == mutants.NOTICED)} of 1" in capsys.readouterr().out


def test_results_of_other_sources_are_not_taken_over(tmp_path: Path) -> None:
    """A run goes on where it was stopped, but only with the same sources and tests."""
    results = tmp_path / "mutants.jsonl"
    rows = [("now", "framework/one", mutants.NOTICED), ("before", "framework/two", mutants.NOTICED)]
    results.write_text(
        "".join(json.dumps(dict(zip(("state", "mutation", "outcome"), row, strict=True))) + "\n" for row in rows)
    )

    assert {"framework/one": mutants.NOTICED} == mutants.earlier(results, "now")
    assert {} == mutants.earlier(tmp_path / "none.jsonl", "now")


def test_a_change_that_leaves_no_python_is_refused(tmp_path: Path) -> None:
    """Every test notices that a file cannot be loaded, and nothing was learned."""
    file = tmp_path / mutation("x").file
    file.parent.mkdir(parents=True)
    file.write_text("a = 1\n")

    with pytest.raises(ValueError, match="is no Python"):
        replace(mutation("x"), replace="(").apply(tmp_path)
    mutation("x").apply(tmp_path)
    assert "b = 1\n" == file.read_text()

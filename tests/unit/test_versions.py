"""What earlier versions have saved is read: by the same rules, at the time at which it was saved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tierwise import __version__
from tierwise.cli.main import cli

VERSIONS = Path(__file__).parents[1] / "versions"
SAVED = sorted(VERSIONS.glob("*/cluster.jsonl"))


def _run(*words: str) -> str:
    done = CliRunner().invoke(cli, words)
    assert 0 == done.exit_code, done.output
    return done.stdout


def test_every_version_leaves_something() -> None:
    """Whoever makes a version keeps what it saves."""
    made = __version__.partition("rc")[0]
    assert made in {file.parent.name for file in SAVED}


@pytest.mark.parametrize("file", SAVED, ids=lambda file: file.parent.name)
def test_saved_states_are_read(file: Path) -> None:
    """Whoever runs stays where they are, whoever waits waits for the same reason, and every promise is kept."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    kept = {p["metadata"]["name"] for p in lines if p["kind"] == "Pod" and p["spec"].get("nodeName")}
    waiting = {p["metadata"]["name"] for p in lines if p["kind"] == "Pod"} - kept
    placed = {
        g["metadata"]["name"]: g["metadata"]["annotations"]["tierwise.io/hypernode"]
        for g in lines
        if g["kind"] == "PodGroup" and "tierwise.io/hypernode" in g["metadata"].get("annotations", {})
    }
    found = json.loads(_run("schedule", "-f", str(file), "-o", "json"))
    told = {entry["pod"].partition("/")[2]: entry["reason"] for entry in found["pending"]}

    assert file.parent.name == lines[0]["data"]["version"]
    assert kept
    assert waiting == set(told)
    assert {"LargerThanAnyDomain"} == set(told.values())
    assert ({}, []) == (found["bindings"], found["evictions"])
    groups = {name.partition("/")[2]: group for name, group in found["podGroups"].items()}
    assert placed == {name: groups[name]["hyperNode"] for name in placed}
    assert [] == json.loads(_run("audit", "-f", str(file), "-o", "json"))["findings"]


@pytest.mark.parametrize("folder", sorted(VERSIONS.glob("*/journal")), ids=lambda folder: folder.parent.name)
def test_journals_are_read(folder: Path) -> None:
    """Every cycle can be listed, repeated, and looked at by other verbs."""
    cycles = json.loads(_run("replay", str(folder), "--all", "-o", "json"))["cycles"]
    placed = [cycle["cycle"] for cycle in cycles if cycle["effects"].get("Bind")]

    assert placed
    for number in placed:
        done = CliRunner().invoke(cli, ["replay", str(folder), "--cycle", str(number), "-o", "json"])
        assert done.exit_code in (0, 1), done.output  # a later version may decide otherwise
        found = json.loads(_run("schedule", "-f", f"journal:{folder}@{number}", "-o", "json"))
        assert found["podGroups"]


@pytest.mark.parametrize("file", SAVED, ids=lambda file: file.parent.name)
def test_later_writers_do_not_disturb_earlier_readers(file: Path) -> None:
    """A field and an annotation of a later version change no decision, and the unknown annotation is reported."""
    text = file.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    lines[0]["data"]["invented"] = "later"
    for line in lines:
        line["metadata"].setdefault("annotations", {})["tierwise.io/invented-later"] = "x"
    later = "\n".join(map(json.dumps, lines))
    runner = CliRunner()
    before, after = (runner.invoke(cli, ["schedule", "-f", "-", "-o", "json"], input=said) for said in (text, later))

    assert (0, 0) == (before.exit_code, after.exit_code)
    first, second = json.loads(before.stdout), json.loads(after.stdout)
    assert {"NotRead"} == {problem["code"] for problem in second.pop("problems")}
    assert [] == first.pop("problems")
    assert first == second

"""The examples do what their READMEs say: every command is run, and every line of output that is shown is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import msgspec
import pytest
from tests.support.commands import EXAMPLES, ROOT, run

READMES = sorted(EXAMPLES.glob("*/README.md"))
_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
_GAP = "[...]"


class Step(msgspec.Struct, frozen=True):
    """A command of a README, the lines shown below it, and whether it is expected to fail."""

    readme: Path
    words: tuple[str, ...]
    shown: tuple[str, ...]
    fails: bool


def _steps() -> list[Step]:
    steps = []
    for readme in READMES:
        for block in _BLOCK.findall(readme.read_text(encoding="utf-8")):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, *shown = part.rstrip("\n").split("\n")
                command, _, otherwise = command.partition(" || ")
                kept = shown[:-1] if otherwise else shown  # what `echo` after a failure prints
                steps.append(Step(readme, tuple(shlex.split(command)), tuple(kept), bool(otherwise)))
    return steps


@pytest.mark.parametrize("step", _steps(), ids=lambda step: " ".join(step.words))
def test_readme(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command ends as its README says, and prints what is shown there; [...] stands for any lines."""
    monkeypatch.chdir(ROOT)

    result = run(*step.words[1:])

    assert "tierwise" == step.words[0]
    assert step.fails == (result.exit_code != 0), result.stderr
    assert _as_shown(step.shown, result.stdout.splitlines())


def test_every_example_has_a_readme() -> None:
    """An example without a README explains nothing."""
    assert sorted(folder for folder in EXAMPLES.iterdir() if folder.is_dir()) == [readme.parent for readme in READMES]


def _as_shown(shown: tuple[str, ...], actual: list[str]) -> bool:
    pattern = "".join(r"(?:.*\n)*?" if line == _GAP else re.escape(line) + r"\n" for line in shown)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in actual)) is not None

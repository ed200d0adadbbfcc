"""Runs comparisons on sources in which one rule is broken on purpose: the proof that they guard that rule.

    python tools/compare/broken.py [WORD ...] [--search N]

`breaks.toml` lists the breaks: a file, the text to find in it (once), what to put there, and the comparison that shows
it on one seed, where tierwise as it is agrees with the other project's code or has a known cause. The sources on disk
stay as they are. A break that the comparison does not notice makes the exit status 1. With `--search` so many seeds are
compared, and all that is said of them is printed, for whoever adds a break.
"""

from __future__ import annotations

import argparse
import importlib
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import go_programs
from tests.fuzz.broken import Change

BREAKS = Path(__file__).with_name("breaks.toml")


@dataclass(frozen=True)
class Break:
    """One rule, broken, and the comparison that notices."""

    name: str
    change: Change
    comparison: str  # the program, and its options
    seed: int

    def words(self, number: int) -> list[str]:
        """The program and all its options for so many seeds."""
        many = "--selectors" if self.comparison.startswith("device_selectors") else "--clusters"
        return [*shlex.split(self.comparison), "--seed", str(self.seed), many, str(number)]


def breaks() -> list[Break]:
    """All of them, in the order of the file."""
    return [
        Break(one["name"], Change(one["file"], one["find"], one["replace"]), one["comparison"], one["seed"])
        for one in tomllib.loads(BREAKS.read_text())["break"]
    ]


def main() -> int:
    """Run the comparisons of all breaks, or of those whose names hold a word that is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="parts of names")
    parser.add_argument("--search", type=int, default=1, metavar="N", help="compare so many seeds from its own on")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        return _run(next(one for one in breaks() if one.name == options.run), options.search)
    unseen = 0
    for one in breaks():
        if options.words and not any(word in one.name for word in options.words):
            continue
        words = [sys.executable, str(Path(__file__)), "--run", one.name, "--search", str(options.search)]
        ran = subprocess.run(words, capture_output=True, text=True)
        if ran.returncode == go_programs.SKIPPED:
            print(f"  skipped: {ran.stderr.strip()}")
            return go_programs.SKIPPED
        lines = [line.strip() for line in ran.stdout.splitlines() if line.strip()]
        noticed = ran.returncode == 1 and bool(lines)  # a failure of its own says nothing there
        unseen += not noticed
        print(
            f"  {'noticed' if noticed else 'NOT NOTICED':12} {one.name}: {one.comparison}, seed {one.seed}", flush=True
        )
        print(f"  {'':12} {lines[-1][:150] if noticed else (ran.stderr.splitlines() or [''])[-1]}", flush=True)
        if options.search > 1:
            print(ran.stdout)
    return 1 if unseen else 0


def _run(one: Break, number: int) -> int:
    """The comparison, with the rule broken."""
    program, *options = one.words(number)
    one.change.make()
    sys.argv = [program, *options]
    found: int = importlib.import_module(program).main()
    return found


if __name__ == "__main__":
    sys.exit(main())

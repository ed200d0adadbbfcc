"""Would the tests notice? Apply each curated mutation to a copy of the sources, and run the tests that should fail.

    make mutants [ARGS="--only lease --jobs 2"]

`tests/mutations/*.toml` lists the mutations by layer: a file, the text to find in it (once), what to put there, the
tests that should notice, and what a user would meet if they did not. A mutation that no test notices survives. One
that is known to survive says why (`survives = "…"`) and counts against the share all the same. Exit status 1 where
fewer than 95 in 100 are noticed, or one is noticed that says it is not.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GOAL = 0.95
LONGEST = 1200  # seconds that the tests of one mutation may take


@dataclass(frozen=True)
class Mutation:
    """One small change of the sources that some test should notice."""

    layer: str
    name: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]
    meets: str
    survives: str = ""

    def apply(self, root: Path) -> None:
        """Change the file below `root`; ValueError where the text is not there exactly once."""
        path = root / self.file
        text = path.read_text()
        if text.count(self.find) != 1:
            raise ValueError(f"{self.layer}/{self.name}: {self.file} holds its text {text.count(self.find)} times")
        path.write_text(text.replace(self.find, self.replace))


def mutations(folder: Path = ROOT / "tests" / "mutations") -> Iterator[Mutation]:
    """All mutations, layer by layer."""
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text())["mutation"]:
            tests = tuple(entry.pop("tests"))
            yield Mutation(layer=path.stem, tests=tests, **entry)


def noticed(mutation: Mutation) -> bool:
    """Whether some of its tests fail, or never end, once the sources are changed."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        copy = Path(name)
        shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
        mutation.apply(copy)
        environment = {
            **os.environ,
            "PYTHONPATH": str(copy / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HYPOTHESIS_PROFILE": "thorough",
        }
        words = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *mutation.tests]
        try:
            ran = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LONGEST)
        except subprocess.TimeoutExpired:
            return True  # what never ends would be noticed
        if ran.returncode not in (0, 1):  # no test ran: a wrong name would count as noticed
            raise SystemExit(f"{mutation.layer}/{mutation.name}: {ran.stdout[-800:]}{ran.stderr[-800:]}")
        return ran.returncode == 1


def main() -> int:
    """Run them, name the survivors, and say how many were noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="mutations whose layer/name contains this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    chosen = [m for m in mutations() if options.only in f"{m.layer}/{m.name}"]
    killed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    wrong = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for mutation, dead in zip(chosen, pool.map(noticed, chosen), strict=True):
            total[mutation.layer] += 1
            killed[mutation.layer] += dead
            if not dead:
                print(f"survived  {mutation.layer}/{mutation.name}: {mutation.survives or mutation.meets}", flush=True)
            elif mutation.survives:
                wrong += 1
                print(f"noticed after all: {mutation.layer}/{mutation.name}", flush=True)
    for layer in sorted(total):
        print(f"  {layer:16} {killed[layer]} of {total[layer]}")
    share = killed.total() / max(total.total(), 1)
    print(f"{killed.total()} of {total.total()} mutations noticed ({share:.0%}; goal {GOAL:.0%})")
    return 1 if share < GOAL or wrong else 0


if __name__ == "__main__":
    sys.exit(main())

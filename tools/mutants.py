"""Would the tests notice? Apply each listed mutation to a copy of the sources, and run the tests that should fail.

    make mutants [ARGS="--only lease --jobs 2"]

`tests/mutations/*.toml` lists the mutations: a file, the text to find in it (once), what to put there, the tests that
should notice, and what a user would meet if they did not. There are two rounds: with the examples of a plain run, and
for mutations that no test notices then, with those of `make properties`. Before a round its tests run once without any
mutation: one that fails by itself notices nothing. A mutation that no test notices in either survives; one whose tests
do not end in time is not noticed either. Each result is written as it comes, so that a run that was stopped goes on
where it was, unless sources or tests have changed.

Exit status 1 where a mutation survives that does not say why (`survives = "…"`), where one is noticed that says it is
not, or where the tests do not end; 2 where the tests fail without a mutation.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "mutants.jsonl"
LONGEST = 600  # seconds that the tests of one mutation may take
PROFILES = ("", "thorough")  # of Hypothesis: few examples first, because most mutations need no more
NOTICED, SURVIVED, ENDLESS = "noticed", "survived", "did not end"


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

    @property
    def title(self) -> str:
        """What `--only` looks in."""
        return f"{self.layer}/{self.name}"

    @property
    def room(self) -> str:
        """The room of the house that it changes."""
        return Path(self.file).parts[2].removesuffix(".py")  # below src and the package

    def apply(self, root: Path) -> None:
        """Change the file below `root`; ValueError where the text is not there exactly once, or no Python is left."""
        path = root / self.file
        text = path.read_text()
        if text.count(self.find) != 1:
            raise ValueError(f"{self.title}: {self.file} holds its text {text.count(self.find)} times")
        changed = text.replace(self.find, self.replace)
        try:
            compile(changed, self.file, "exec", dont_inherit=True)
        except SyntaxError as error:  # any test would notice that
            raise ValueError(f"{self.title}: {self.file} is no Python with {self.replace!r}: {error}") from None
        path.write_text(changed)


def mutations(folder: Path = ROOT / "tests" / "mutations") -> Iterator[Mutation]:
    """All mutations, list by list."""
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text())["mutation"]:
            tests = tuple(entry.pop("tests"))
            yield Mutation(layer=path.stem, tests=tests, **entry)


def fingerprint() -> str:
    """What sources and tests are now: results of others are no results of theirs."""
    digest = hashlib.sha256()
    for path in sorted([*(ROOT / "src").rglob("*"), *(ROOT / "tests").rglob("*")]):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def run_tests(
    tests: Iterable[str], profile: str, words: Iterable[str], seconds: float | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run them from the project's root, with few or many examples; TimeoutExpired where they take longer than that."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "MUTANT": "1", **more}
    environment.pop("HYPOTHESIS_PROFILE", None)
    if profile:
        environment["HYPOTHESIS_PROFILE"] = profile
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *words, *tests]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds)


def outcome(mutation: Mutation, profile: str) -> str:
    """Whether some of its tests fail once the sources are changed."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        copy = Path(name)
        shutil.copytree(ROOT / "src", copy / "src")  # with byte code: only the changed file is compiled again
        mutation.apply(copy)
        try:
            ran = run_tests(mutation.tests, profile, ["-n", "0"], LONGEST, PYTHONPATH=str(copy / "src"))
        except subprocess.TimeoutExpired:
            return ENDLESS
    if ran.returncode not in (0, 1):  # no test ran: a wrong name would count as noticed
        raise SystemExit(f"{mutation.title}: {ran.stdout[-800:]}{ran.stderr[-800:]}")
    return NOTICED if ran.returncode else SURVIVED


def outcomes(left: list[Mutation], profile: str, jobs: int) -> Iterator[tuple[Mutation, str]]:
    """One round, as each ends; SystemExit with 2 where the tests fail without a mutation."""
    tests = sorted({test for mutation in left for test in mutation.tests})
    ran = run_tests(tests, profile, ["-n", str(jobs), "--dist", "worksteal"])
    if ran.returncode:
        print(f"the tests fail without a mutation:\n{ran.stdout[-2000:]}{ran.stderr[-800:]}")
        raise SystemExit(2)
    with ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(outcome, mutation, profile): mutation for mutation in left}
        for ended in as_completed(running):
            yield running[ended], ended.result()


def earlier(results: Path, state: str) -> dict[str, str]:
    """What an earlier run of the same sources and tests found, by title."""
    if not results.exists():
        return {}
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    return {row["mutation"]: row["outcome"] for row in rows if row["state"] == state}


def main() -> int:
    """Run them, name the survivors, and say how many were noticed in each room."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="mutations whose list/name contains this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--results", type=Path, default=RESULTS, help="where each result is written as it comes")
    options = parser.parse_args()
    chosen = [m for m in mutations() if options.only in m.title]
    state = fingerprint()
    found = earlier(options.results, state)
    left = [m for m in chosen if m.title not in found]
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(ROOT / "src")], check=True)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    with options.results.open("a") as file:
        for profile in PROFILES:
            if not left:
                break
            passed = []
            for mutation, what in outcomes(left, profile, options.jobs):
                if what == SURVIVED and profile != PROFILES[-1]:
                    passed.append(mutation)
                    continue
                found[mutation.title] = what
                file.write(json.dumps({"state": state, "mutation": mutation.title, "outcome": what}) + "\n")
                file.flush()
            left = passed
    return report(chosen, found, time.monotonic() - began)


def report(chosen: list[Mutation], found: dict[str, str], seconds: float) -> int:
    """Print what was not noticed, and a line for each room; 1 where something is not explained."""
    wrong = 0
    for mutation in chosen:
        what = found[mutation.title]
        explained = bool(mutation.survives) and what == SURVIVED
        wrong += not (explained or (what == NOTICED and not mutation.survives))
        if what != NOTICED:
            print(f"{what}: {mutation.title}: {mutation.survives or mutation.meets}")
        elif mutation.survives:
            print(f"noticed after all: {mutation.title}")
    total = Counter(m.room for m in chosen)
    noticed = Counter(m.room for m in chosen if found[m.title] == NOTICED)
    for room in sorted(total):
        print(f"  {room:16} {noticed[room]} of {total[room]}")
    share = noticed.total() / max(total.total(), 1)
    print(f"{noticed.total()} of {total.total()} mutations noticed ({share:.0%}) in {seconds / 60:.0f} minutes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

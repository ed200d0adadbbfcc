"""Runs the fuzzer on sources in which one rule is broken on purpose: the proof that the fuzzer guards that rule.

    python -m tests.fuzz.broken                              every break, with the rule that noticed it
    python -m tests.fuzz.broken "taints are ignored"         one of them
    python -m tests.fuzz.broken "taints are ignored" --search 100   the quickest of so many seeds, for a new break

`tests/fuzz/breaks.toml` lists the breaks: a file, the text to find in it (once), what to put there, the seed of a
history that shows it, and the word that the fault begins with. The sources on disk stay as they are: each break is made
in a process of its own, by giving the functions of the loaded module the code that the changed text has.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import sys
import time
import tomllib
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from tests.fuzz.fuzz_everything import Fault, Total, history, minimised

__all__ = ["BREAKS", "Break", "Change", "breaks", "noticed"]

ROOT = Path(__file__).resolve().parent.parent.parent
BREAKS = Path(__file__).with_name("breaks.toml")
_PLAIN = (int, float, str, tuple, frozenset)


@dataclass(frozen=True)
class Change:
    """Another text in one file."""

    file: str  # below src/tierwise
    find: str
    replace: str

    @property
    def path(self) -> Path:
        return ROOT / "src" / "tierwise" / self.file

    def source(self) -> str:
        """The file with the text changed; ValueError where it is not there exactly once."""
        text = self.path.read_text()
        if text.count(self.find) != 1:
            raise ValueError(f"{self.file} holds {self.find!r} {text.count(self.find)} times")
        return text.replace(self.find, self.replace)

    def make(self) -> None:
        """Change it in this process; ValueError where nothing is another thing then."""
        name = "tierwise." + self.file.removesuffix(".py").replace("/", ".")
        module, other = importlib.import_module(name), ModuleType(name)
        other.__file__ = str(self.path)
        exec(compile(self.source(), str(self.path), "exec"), other.__dict__)
        theirs = dict(_functions(other.__dict__, name))
        changed = 0
        for path, function in _functions(module.__dict__, name):
            if path in theirs and function.__code__ != theirs[path].__code__:
                function.__code__ = theirs[path].__code__
                changed += 1
        for constant, value in other.__dict__.items():
            if isinstance(value, _PLAIN) and not constant.startswith("__") and module.__dict__.get(constant) != value:
                module.__dict__[constant] = value
                changed += 1
        if not changed:
            raise ValueError(f"no function of {self.file} is another one with {self.replace!r}")


@dataclass(frozen=True)
class Break:
    """One rule, broken: in each place that guards it."""

    name: str
    changes: tuple[Change, ...]
    fault: str  # what the fault that shows it begins with
    seed: int
    always: tuple[str, ...]  # what the world of its history has

    def make(self) -> None:
        """Break the rule in this process."""
        for change in self.changes:
            change.make()

    def shown(self, seed: int) -> Fault | None:
        """The fault with which a history shows it."""
        total = Total()
        history(seed, total, self.always)
        return next((fault for fault in total.faults if fault.text.startswith(self.fault)), None)


def _functions(names: dict[str, Any], module: str, prefix: str = "") -> Iterator[tuple[str, FunctionType]]:
    """Functions that a module or a class of it defines, however they are wrapped, by name."""
    for name, value in list(names.items()):
        if isinstance(value, type) and value.__module__ == module:
            yield from _functions(dict(vars(value)), module, f"{prefix}{name}.")
        inner: Any = getattr(value, "fget", None) or getattr(value, "func", None) or getattr(value, "__func__", value)
        while hasattr(inner, "__wrapped__"):
            inner = inner.__wrapped__
        if isinstance(inner, FunctionType) and inner.__module__ == module:
            yield f"{prefix}{name}", inner


def breaks() -> list[Break]:
    """All of them, in the order of the file."""
    return [
        Break(
            entry["name"],
            tuple(Change(one["file"], one["find"], one["replace"]) for one in (entry, *entry.get("also", ()))),
            entry["fault"],
            entry["seed"],
            tuple(entry.get("always", ())),
        )
        for entry in tomllib.loads(BREAKS.read_text())["break"]
    ]


def noticed(broken: Break) -> tuple[bool, str]:
    """Whether the fuzzer notices a break, in a process of its own, and what it says."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            broken.make()
            fault = broken.shown(broken.seed)
            told = ("1" if fault is not None else "0") + (str(fault) if fault is not None else "no fault")
        except BaseException:  # noqa: BLE001 - the parent tells it
            told = "0" + traceback.format_exc()
        os.write(writing, told[:4000].encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        told = stream.read().decode()
    os.waitpid(child, 0)
    return told[:1] == "1", told[1:]


_FAMILIAR = (1, 2, 3)
"""Histories in which most of what cycles need is imported."""


def main(given: Sequence[str] | None = None) -> int:
    """Break rules, and say who noticed; 1 where nobody did."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", help="of one break; all of them where none is given")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="only each Nth of them, from the Ith on")
    parser.add_argument("--search", type=int, default=0, metavar="N", help="try so many seeds, and tell the quickest")
    parser.add_argument("--objects", action="store_true", help="also print how many objects show it, and how few")
    options = parser.parse_args(given)
    first, step = map(int, options.part.split("/"))
    chosen = [one for one in breaks() if options.name in (None, one.name)][first - 1 :: step]
    if options.search or options.objects:
        return _search(chosen[0], options.search, objects=options.objects)
    for seed in _FAMILIAR if len(chosen) > 1 else ():
        history(seed, Total())  # what is imported only when it is needed is there for all of them
    gc.freeze()  # and is not copied because somebody looks for garbage in it
    missed = 0
    for one in chosen:
        started = time.monotonic()
        found, told = noticed(one)
        missed += not found
        told = f"{_who(one)} at {told[:240]}" if found else f"NOT NOTICED: {told[-600:]}"
        print(f"{one.name}: {told} ({time.monotonic() - started:.1f} s)", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} breaks are noticed")
    if options.name is None and step == 1:
        for entry in tomllib.loads(BREAKS.read_text()).get("open", ()):
            print(f"known not to be noticed yet: {entry['name']}")
    return 1 if missed else 0


def _who(broken: Break) -> str:
    """Whose rule names the fault."""
    if broken.fault.startswith("spares"):
        return "tests/fuzz/fuzz_everything.py"
    return "tierwise.audit" if broken.fault.startswith("audit ") else "tests/fuzz/rules.py"


def _search(chosen: Break, number: int, *, objects: bool) -> int:
    chosen.make()
    found: list[tuple[float, int, Fault]] = []
    for seed in range(chosen.seed, chosen.seed + number) if number else (chosen.seed,):
        started = time.process_time()
        fault = chosen.shown(seed)
        if fault is not None:
            found.append((time.process_time() - started, seed, fault))
    if not found:
        return 1
    took, seed, fault = min(found, key=lambda one: one[0])
    print(f"{len(found)} seeds show it; the quickest is {seed}, after {took:.2f} s: {fault}"[:500])
    if objects:
        print(len(fault.manifests), len(minimised(fault).manifests))
    return 0


if __name__ == "__main__":
    sys.exit(main())

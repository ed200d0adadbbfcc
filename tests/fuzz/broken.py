"""Runs the fuzzer on sources in which one rule is broken on purpose: the proof that the fuzzer guards that rule.

    python -m tests.fuzz.broken "taints are ignored" [--search 400]

`tests/fuzz/breaks.toml` lists the breaks: a file, the text to find in it (once), what to put there, the seed of a
history that shows it, and the word that the fault begins with. With `--search` further seeds are tried, for whoever
adds a break. The sources on disk stay as they are: the changed module is handed to the importer.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import sys
import tomllib
from dataclasses import dataclass
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

__all__ = ["BREAKS", "Break", "breaks"]

ROOT = Path(__file__).resolve().parent.parent.parent
BREAKS = Path(__file__).with_name("breaks.toml")


@dataclass(frozen=True)
class Break:
    """One rule, broken."""

    name: str
    file: str  # below src/tierwise
    find: str
    replace: str
    fault: str  # what the fault that shows it begins with
    seed: int
    always: tuple[str, ...] = ()  # what the world of its history has

    @property
    def module(self) -> str:
        return "tierwise." + self.file.removesuffix(".py").replace("/", ".")

    def source(self) -> str:
        """The file with the rule broken; ValueError where the text is not there exactly once."""
        text = (ROOT / "src" / "tierwise" / self.file).read_text()
        if text.count(self.find) != 1:
            raise ValueError(f"{self.name}: {self.file} holds its text {text.count(self.find)} times")
        return text.replace(self.find, self.replace)


def breaks() -> list[Break]:
    """All of them, in the order of the file."""
    entries = tomllib.loads(BREAKS.read_text())["break"]
    return [Break(**{**entry, "always": tuple(entry.get("always", ()))}) for entry in entries]


class _Broken(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):  # type: ignore[misc]
    """Hands one changed module to the importer."""

    def __init__(self, broken: Break) -> None:
        self._module, self._text = broken.module, broken.source()
        self._path = str(ROOT / "src" / "tierwise" / broken.file)

    def find_spec(
        self, fullname: str, path: object, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return spec_from_file_location(fullname, self._path, loader=self) if fullname == self._module else None

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: str | bytes) -> bytes:
        return self._text.encode()

    def path_stats(self, path: str) -> dict[str, int]:
        raise OSError  # so that no compiled file is read or written


def main() -> int:
    """Break one rule, and say which seed shows it; 1 where none does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--search", type=int, default=0, metavar="N", help="try so many seeds from its own on")
    parser.add_argument("--objects", action="store_true", help="also print how many objects show it, and how few")
    given = parser.parse_args()
    chosen = next(one for one in breaks() if one.name == given.name)
    assert not any(name.startswith("tierwise") for name in sys.modules), "the sources are loaded already"
    sys.meta_path.insert(0, _Broken(chosen))
    from tests.fuzz.fuzz_everything import Total, history, minimised  # only now, so that they meet the broken rule

    for seed in range(chosen.seed, chosen.seed + max(given.search, 1)):
        total = Total()
        history(seed, total, chosen.always)
        shown = [fault for fault in total.faults if fault.text.startswith(chosen.fault)]
        if shown:
            print(shown[0])
            if given.objects:
                print(len(shown[0].manifests), len(minimised(shown[0]).manifests))
            return 0
        for fault in total.faults if given.search else ():
            print(f"   {fault}"[:200])
    return 1


if __name__ == "__main__":
    sys.exit(main())

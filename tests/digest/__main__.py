"""A digest of all decisions: what cycles decide in drawn scenes, one line for each, to compare two commits by.

    python -m tests.digest --out before.txt                  some 1,500 drawn scenes and every conformance case
    python -m tests.digest --scenes 6000 --out before.txt    more of them, the first ones unchanged
    python -m tests.digest --compare before.txt              what has changed since, by kind: better, worse, moved
    python -m tests.digest --compare before.txt --with after.txt     the same of two files
    python -m tests.digest --only nested-unlike/3 --write DIR        one scene again, and its manifests

Exits with 1 where a scene got worse.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from tests.digest.decisions import Change, Line, changes, decided, read_lines
from tests.digest.scenes import Case, cases, conformance

_USUAL = 1500
_SHOWN = 6
"""Changes of one kind and verdict that are shown; --all shows every one."""


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=_USUAL, help="how many are drawn")
    parser.add_argument("--only", action="append", default=[], help="a scene, or what the names of scenes begin with")
    parser.add_argument("--out", type=Path, help="a file for the lines; else they are printed")
    parser.add_argument("--write", type=Path, help="a folder for the manifests of the scenes")
    parser.add_argument("--compare", type=Path, help="a file of lines to compare with")
    parser.add_argument("--with", type=Path, dest="other", help="compare with this file, and run nothing")
    parser.add_argument("--all", action="store_true", help="show all changes")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)  # binds that fail are what some scenes are about
    lines = read_lines(given.other.open()) if given.other else list(_run(given.scenes, given.only, given.write))
    if given.out is not None:
        given.out.write_text("".join(f"{line}\n" for line in lines))
    if given.compare is not None:
        before = [line for line in read_lines(given.compare.open()) if _chosen(line.name, given.only)]
        return _compare(before, lines, everything=given.all)
    if given.out is None:
        for line in lines:
            print(line)
    return 0


def _chosen(name: str, only: Sequence[str]) -> bool:
    return not only or any(
        name == word or (("/" not in word or word.endswith("/")) and name.startswith(word)) for word in only
    )


def _run(number: int, only: Sequence[str], folder: Path | None) -> Iterator[Line]:
    if any("/" in word and word.rpartition("/")[2].isdigit() for word in only):
        number = max(number, 100 * _USUAL)  # a scene of a larger digest is found by its name
    started, count, kinds = time.process_time(), 0, Counter[str]()
    for name, make in chain(cases(number), conformance()):
        if _chosen(name, only):
            if folder is not None:
                _write(name, make, folder)
            line = decided(name, make)
            yield line
            count += 1
            kinds[line.kind] += 1
    told = ", ".join(f"{kind} {n}" for kind, n in sorted(kinds.items()))
    print(f"{count} scenes in {time.process_time() - started:.0f} s of cpu: {told}", file=sys.stderr)


def _write(name: str, make: Callable[[], Case], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    case = make()
    file = folder / f"{name.replace('/', '-')}.json"
    items = [case.objects.raw(key) for key in case.objects]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1))
    print(f"{file}: actions {' '.join(case.profile.actions)}", file=sys.stderr)


def _compare(before: Sequence[Line], after: Sequence[Line], *, everything: bool) -> int:
    found = changes(before, after)
    missing = {line.name for line in before} ^ {line.name for line in after}
    by: dict[tuple[str, str], list[Change]] = {}
    for change in found:
        by.setdefault((change.kind, change.verdict), []).append(change)
    for (kind, verdict), some in sorted(by.items()):
        print(f"{kind}: {len(some)} {verdict}")
        for change in some if everything else some[:_SHOWN]:
            print(f"  {change.name} {change.why}")
            print(f"    - {change.before.decision[:400]}\n    + {change.after.decision[:400]}")
        if len(some) > _SHOWN and not everything:
            print(f"  and {len(some) - _SHOWN} more")
    verdicts = Counter(change.verdict for change in found)
    told = ", ".join(f"{number} {verdict}" for verdict, number in sorted(verdicts.items())) or "none"
    both = len({line.name for line in before} & {line.name for line in after})
    print(f"{both} scenes compared; changed: {told}; in one of the two alone: {len(missing)}")
    return 1 if verdicts["worse"] or verdicts["mixed"] else 0


if __name__ == "__main__":
    sys.exit(main())

"""Measure how heavy and how plain the sources are, and hold some of the figures to recorded ceilings.

    python tools/house.py [--rooms] [--worst N] [--ceilings FILE [--record]] [SOURCES ...]

Without SOURCES all packages in src are measured. With `--ceilings tools/house.toml` the exit status is 1 where a figure
is above its ceiling, and `--record` lowers every ceiling to its figure; it raises none.

Tokens count what is written and not how it is broken into lines; docstrings, comments, blank lines and indentation
count nothing. Branches of a function are its conditions, loops, cases and exceptional operands, those of comprehensions
included. A vague name is one that says nothing of what it holds, such as `found` or `rest`.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

try:
    from tools.forms_of_gangs import conditions_by_file
except ImportError:  # run as a script
    from forms_of_gangs import conditions_by_file  # type: ignore[import-not-found, no-redef, unused-ignore]

__all__ = ["MANY_BRANCHES", "Measure", "branches", "exceeded", "figures", "lowered", "measure"]

SOURCES = Path(__file__).resolve().parents[1] / "src"
MANY_BRANCHES = 15
"""A function with more branches is counted as one that is hard to follow."""

_FREE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
_BRANCHES = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.match_case)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_VAGUE = frozenset(
    (
        *("asked", "chosen", "found", "given", "held", "kept", "known", "left", "made", "said", "stands", "standing"),
        *("taken", "told", "wanted"),  # verbs in place of what they led to
        *("each", "first", "last", "least", "more", "most", "one", "other", "others", "own", "read", "rest", "same"),
        *("again", "here", "now", "some", "there", "way", "ways", "whole"),
    )
)


@dataclass
class Measure:
    """What was counted in some source files."""

    tokens: int = 0
    lines: int = 0  # that hold a token
    comprehensions: int = 0
    chained: int = 0  # conditional expressions whose last operand is one
    names: Counter[str] = field(default_factory=Counter)  # of variables and parameters, by how often they are set
    openings: Counter[str] = field(default_factory=Counter)  # of docstrings
    docstrings: int = 0
    functions: list[tuple[int, str]] = field(default_factory=list)  # branches, and where
    rooms: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0]))  # files, lines, tokens

    @property
    def vague(self) -> int:
        return sum(count for name, count in self.names.items() if name in _VAGUE)

    @property
    def many_branches(self) -> int:
        return sum(count > MANY_BRANCHES for count, _ in self.functions)


def measure(packages: Iterable[Path]) -> Measure:
    """Count what the Python files below some packages hold."""
    total = Measure()
    for package in packages:
        for path in sorted(package.rglob("*.py")):
            folders = path.relative_to(package).parts[:-1]
            _count_file(total, path, "/".join((package.name, *folders[:1])))
    return total


def _count_file(total: Measure, path: Path, room: str) -> None:
    text = path.read_text(encoding="utf-8")
    docstring_lines: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstring_lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        _count_node(total, node, path)
    tokens, lines = _tokens(text, docstring_lines)
    total.tokens += tokens
    total.lines += lines
    for place, number in enumerate((1, lines, tokens)):
        total.rooms[room][place] += number


def _count_node(total: Measure, node: ast.AST, path: Path) -> None:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        total.names[node.id.strip("_")] += 1
    elif isinstance(node, ast.arg):
        total.names[node.arg.strip("_")] += 1
    elif isinstance(node, _COMPREHENSIONS):
        total.comprehensions += 1
    elif isinstance(node, ast.IfExp):
        total.chained += isinstance(node.orelse, ast.IfExp)
    elif isinstance(node, _DOCUMENTED):
        if not isinstance(node, ast.ClassDef):
            total.functions.append((branches(node), f"{path}:{node.lineno} {node.name}"))
        docstring = ast.get_docstring(node)
        if docstring:
            total.docstrings += 1
            total.openings["The same"] += docstring.startswith("The same")
            total.openings["What"] += docstring.startswith("What ")


def branches(function: ast.AST) -> int:
    """One, and one more for each branch of a function, of its comprehensions and of its conditions' operands."""
    number = 1
    for node in ast.walk(function):
        if isinstance(node, _BRANCHES):
            number += 1
        elif isinstance(node, ast.comprehension):
            number += 1 + len(node.ifs)
        elif isinstance(node, ast.BoolOp):
            number += len(node.values) - 1
    return number


def _tokens(text: str, docstring_lines: set[int]) -> tuple[int, int]:
    """How many tokens a source text has outside its docstrings, and on how many lines they are."""
    number = 0
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _FREE and token.start[0] not in docstring_lines:
            number += 1
            lines.update(range(token.start[0], token.end[0] + 1))
    return number, len(lines)


def figures(total: Measure) -> dict[str, float]:
    """The figures that ceilings hold. Conditions on forms of gangs are held by file, in a test."""
    return {
        "tokens-per-line": round(total.tokens / max(1, total.lines), 2),
        "functions-with-many-branches": total.many_branches,
        "chained-conditionals": total.chained,
        "vague-names-percent": round(100 * total.vague / max(1, total.names.total()), 2),
        "docstrings-that-begin-the-same": total.openings["The same"],
        "docstrings-that-begin-what": total.openings["What"],
    }


def exceeded(numbers: dict[str, float], ceilings: dict[str, float]) -> list[str]:
    """A sentence for each figure that is above its ceiling."""
    return [
        f"{name} is {numbers[name]:g}, and may be {ceiling:g} at most"
        for name, ceiling in ceilings.items()
        if numbers[name] > ceiling
    ]


def lowered(numbers: dict[str, float], ceilings: dict[str, float]) -> dict[str, float]:
    """The ceilings, each lowered to its figure; none is raised."""
    return {name: min(ceiling, numbers[name]) for name, ceiling in ceilings.items()}


def _write(file: Path, ceilings: dict[str, float]) -> None:
    """Write ceilings below the comments that a file begins with."""
    heading = [line for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    lines = [f"{name} = {number:g}" for name, number in ceilings.items()]
    file.write_text("\n".join([*heading, *lines, ""]), encoding="utf-8")


def _text(total: Measure, conditions: int) -> list[str]:
    """The figures as lines to read, with those of other projects beside them where they were measured alike."""
    functions, names = len(total.functions), total.names.total()
    files = sum(room[0] for room in total.rooms.values())
    lines = max(1, total.lines)
    hard = 100 * total.many_branches / max(1, functions)
    comprehensions = 1000 * total.comprehensions / lines
    vague = 100 * total.vague / max(1, names)
    said = f"{total.openings['What']} begin 'What', {total.openings['The same']} 'The same'"
    return [
        f"tokens {total.tokens:,} in {files} files, {total.lines:,} lines of code",
        f"tokens for each line of code {total.tokens / lines:.2f} (distributed 6.2, KAI 6.3, Kueue 7.1)",
        f"functions above {MANY_BRANCHES} branches {total.many_branches} of {functions}, {hard:.1f} % (KAI 0.3)",
        f"comprehensions for 1,000 lines {comprehensions:.0f} (httpx 10, distributed 17)",
        f"chained conditionals {total.chained}",
        f"vague names {vague:.2f} % of {names:,} (others 0.2 to 1.1)",
        f"conditions on how a gang was declared {conditions}",
        f"docstrings {total.docstrings:,}: {said}",
    ]


def main(words: Sequence[str] | None = None) -> int:
    """Print the figures; 1 where one is above its ceiling."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sources", nargs="*", type=Path, help="packages; without any all in src")
    parser.add_argument("--rooms", action="store_true", help="files, lines and tokens of each folder")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="the N functions with the most branches")
    parser.add_argument("--ceilings", type=Path, help="what the figures may be at most, as TOML")
    parser.add_argument("--record", action="store_true", help="lower the ceilings to the figures")
    options = parser.parse_args(words)

    packages = options.sources or sorted(path.parent for path in SOURCES.glob("*/__init__.py"))
    total = measure(packages)
    conditions = sum(sum(conditions_by_file(package).values()) for package in packages)
    print("\n".join(_text(total, conditions)))
    if options.rooms:
        for name, (files, lines, tokens) in sorted(total.rooms.items(), key=lambda item: -item[1][2]):
            print(f"{files:5} files {lines:7} lines {tokens:8} tokens {tokens / max(1, lines):5.1f}  {name}")
    for number, where in sorted(total.functions, reverse=True)[: options.worst]:
        print(f"{number:5}  {where}")
    if options.ceilings is None:
        return 0

    numbers, ceilings = figures(total), tomllib.loads(options.ceilings.read_text(encoding="utf-8"))
    faults = exceeded(numbers, ceilings)
    for fault in faults:
        print(f"{options.ceilings}: {fault}", file=sys.stderr)
    if options.record:
        _write(options.ceilings, lowered(numbers, ceilings))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

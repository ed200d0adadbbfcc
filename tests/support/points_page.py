"""The tables of the page about extension points, made from the points and from the table of rules.

`python -m tests.support.points_page` writes them; `tests/unit/test_docs.py` holds the page against them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from tests.support.commands import ROOT

from tierwise.framework.boundary import RULES, AnyRule
from tierwise.framework.declaration import MARKS, METHODS, POINTS
from tierwise.framework.extension import MOVED, SEAM, Part
from tierwise.framework.pipeline import Pipeline

__all__ = ["PAGE", "page"]

PAGE: Final = ROOT / "docs" / "reference" / "extension-points.md"

_WHY: Final = "Why it exists: "
_PARTS: Final = {
    Part.REQUIRED: "required",
    Part.EITHER: "one of these at least",
    Part.OPTIONAL: "optional",
    Part.HINT: "hint",
}


def _text(function: Callable[..., object]) -> str:
    """What a function says of itself, as a phrase in a table."""
    said = (function.__doc__ or "").strip().partition("\n")[0].removesuffix(".")
    return said[:1].lower() + said[1:] if not said.startswith(("A ScoreEffect", "A Delay", "A Preparation")) else said


def _table(*rows: Iterable[str]) -> str:
    head, *others = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([head, "|---" * head.count(" | ") + "|---|", *others, ""])


def _why(point: type) -> str:
    text = " ".join((point.__doc__ or "").partition(_WHY)[2].split())
    return text[:1].upper() + text[1:]


def _methods(point: type) -> str:
    own: dict[Part, list[str]] = {}
    for method, of in METHODS.items():
        mark = MARKS[method]
        pair = MARKS[mark.beside].beside == method if mark.beside else False  # both or none
        if of is point and not (pair and mark.part is Part.OPTIONAL):
            own.setdefault(mark.part, []).append(f"`{method}` with `{mark.beside}`" if pair else f"`{method}`")
    groups = [(f"{_PARTS[part]}: " if part is not Part.REQUIRED else "", own[part]) for part in Part if part in own]
    attributes = [f"`{name}`" for name in getattr(point, "__annotations__", {})]
    return "; ".join(f"{told}{', '.join((*attributes, *names) if not told else names)}" for told, names in groups)


def _rule(rule: AnyRule) -> tuple[str, ...]:
    switches = ", ".join(f"`{switch}`" for switch in MARKS[rule.method].switches)
    told = _text(rule.combine), _text(rule.failure), _text(rule.check)
    return f"`{rule.method}`", rule.point.__name__, switches, rule.whose.value, *told


def page() -> str:
    """The page as it is, with its three tables made anew."""
    assert Pipeline.__mro__, "which fills the table"
    order = {method: number for number, method in enumerate(METHODS)}
    rules = sorted(RULES.values(), key=lambda rule: order[rule.method])
    head = "Method", "Point", "Switch", "Asked", "Combination", "A failure means", "An answer is"
    tables = iter(
        (
            _table(("Point", "Why it exists", "Methods"), *((n, _why(p), _methods(p)) for n, p in POINTS.items())),
            _table(head, *map(_rule, rules)),
            _table(("Version 1", f"Version {SEAM}"), *((f"`{old}`", f"`{new}`") for old, new in sorted(MOVED.items()))),
        )
    )
    return re.sub(r"(?m)(?:^\|.*\n)+", lambda _: next(tables), PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

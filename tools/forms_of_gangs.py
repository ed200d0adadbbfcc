"""Count the conditions that ask in which form a gang was declared, by file.

    python tools/forms_of_gangs.py [--list]

A gang may be declared with policies, inner groups, roles, a wish to be gathered, or constraints on several trees. Code
that asks which of these it has, instead of asking for the gang's shape, has to be changed for each further form.
A condition is the test of `if`, `while`, `assert` or a conditional expression, a filter of a comprehension, or an
operand list of `and` and `or`. Readers of workloads are left out: their manifests have roles of their own.
`tests/unit/test_forms_of_gangs.py` holds each file to its number.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

__all__ = ["SOURCES", "conditions_by_file"]

SOURCES = Path(__file__).resolve().parents[1] / "src" / "tierwise"
_WORKLOADS = "dialects/workloads/"
_FORM = re.compile(
    r"\.policies\b|inner_group|\broles?\b|role_|\.gather\b|gather_options|\.gathered|on_several_trees|\.further\b"
)


def conditions_by_file(sources: Path = SOURCES) -> dict[str, int]:
    """How many conditions of each file ask for the form of a gang; files without any are left out."""
    numbers = {}
    for path in sorted(sources.rglob("*.py")):
        name, text = path.relative_to(sources).as_posix(), path.read_text()
        number = _conditions(text) if _FORM.search(text) and not name.startswith(_WORKLOADS) else 0
        if number:
            numbers[name] = number
    return numbers


def _conditions(text: str) -> int:
    """Each condition counts once, at the place where it begins."""
    places: set[tuple[int, int]] = set()
    for node in ast.walk(ast.parse(text)):
        conditions: list[ast.expr] = []
        if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
            conditions.append(node.test)
        elif isinstance(node, ast.comprehension):
            conditions += node.ifs
        elif isinstance(node, ast.BoolOp):
            conditions.append(node)
        places |= {(c.lineno, c.col_offset) for c in conditions if _FORM.search(ast.unparse(c))}
    return len(places)


def main() -> None:
    """Print the figures."""
    numbers = conditions_by_file()
    print(f"{sum(numbers.values())} conditions on the form of a gang in {len(numbers)} files")
    if "--list" in sys.argv:
        for name, number in sorted(numbers.items(), key=lambda item: (-item[1], item[0])):
            print(f"  {number:4} {name}")


if __name__ == "__main__":
    main()

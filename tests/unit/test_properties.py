"""Properties about cycles say how much they must have seen: one that drew nothing to judge fails."""

from __future__ import annotations

import ast
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "properties"
RUNS = frozenset(("cycle", "lived", "many", "once", "play", "schedule", "settle"))
"""What runs cycles, by the names under which properties call it."""


def _called(node: ast.AST) -> set[str]:
    calls = (call.func for call in ast.walk(node) if isinstance(call, ast.Call))
    return {func.id if isinstance(func, ast.Name) else getattr(func, "attr", "") for func in calls}


def _reached(functions: dict[str, ast.FunctionDef], name: str) -> set[str]:
    """What a function of a module calls, itself or through others of the module."""
    found, ahead = set[str](), [name]
    while ahead:
        fresh = _called(functions[ahead.pop()]) - found
        found |= fresh
        ahead += [called for called in fresh if called in functions]
    return found


def test_properties_that_run_cycles_say_what_they_must_see() -> None:
    """Each has `sees` above its `given`."""
    silent, counted = [], 0
    for path in sorted(FOLDER.glob("test_*.py")):
        body = ast.parse(path.read_text()).body
        functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
        for name, node in functions.items():
            marks = set().union(*(_called(decorator) for decorator in node.decorator_list))
            if "given" in marks and _reached(functions, name) & RUNS:
                counted += 1
                silent += [] if "sees" in marks else [f"{path.name}::{name}"]

    assert [] == silent
    assert counted > 60

"""Templates of kubectl's kind (`-o jsonpath=...`) over the JSON of an answer: paths, literals and ranges.

A path is `{.jobs[0].start}`, with `[*]` for every element and `['key']` for keys with dots; `{range .jobs[*]}` up to
`{end}` repeats what is between; a text in quotes is printed as it is. Filters are not known: `jq` has them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from tierwise.api.errors import InputError

__all__ = ["filled"]

_PART: Final = re.compile(r"\{([^{}]*)\}|([^{}]+)")
_STEP: Final = re.compile(r"\.([\w./-]+?)(?=[.\[]|$)|\[(\*|-?[0-9]+)\]|\['([^']*)'\]|\.(?=\[)|^\.$")
_ESCAPES: Final = {"n": "\n", "t": "\t"}


def filled(template: str, data: object) -> str:
    """The template with what it names; InputError where it cannot be read."""
    parts = list(_parts(template if "{" in template else f"{{{template}}}"))
    text, end = _render(parts, 0, data, nested=False)
    assert end == len(parts)
    return text


def _parts(template: str) -> Iterator[tuple[bool, str]]:
    """Expressions and texts, in order."""
    at = 0
    for match in _PART.finditer(template):
        if match.start() != at:
            break
        at = match.end()
        yield (True, match[1].strip()) if match[1] is not None else (False, match[2])
    if at != len(template):
        raise InputError(f"a brace is not closed, or not opened, at {at + 1}", field="jsonpath")


def _render(parts: list[tuple[bool, str]], at: int, data: object, *, nested: bool) -> tuple[str, int]:
    out: list[str] = []
    while at < len(parts):
        expression, text = parts[at]
        at += 1
        if not expression:
            out.append(text)
        elif text == "end":
            if not nested:
                raise InputError("{end} without {range}", field="jsonpath")
            return "".join(out), at
        elif text.startswith("range "):
            items = list(_found(text.removeprefix("range ").strip(), data))
            end = at
            for item in items or [None]:
                inner, end = _render(parts, at, item, nested=True)
                out.append(inner if items else "")
            at = end
        elif text[:1] in ("'", '"'):
            out.append(re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text[1:-1]))
        else:
            out.append(" ".join(_shown(value) for value in _found(text, data)))
    if nested:
        raise InputError("{range} without {end}", field="jsonpath")
    return "".join(out), at


def _found(path: str, data: object) -> Iterator[object]:
    """The values at a path; those that are not there are left out, as kubectl does with allowMissing."""
    path = path.removeprefix("$").removeprefix("@")
    path = path if path.startswith((".", "[")) else f".{path}"
    values = [data]
    at = 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None or step.end() == at:
            raise InputError(f'"{path}" is no path such as .jobs[0].start', field="jsonpath")
        at = step.end()
        values = _stepped(values, step[3] if step[3] is not None else step[1], step[2])
    yield from values


def _stepped(values: list[object], name: str | None, index: str | None) -> list[object]:
    """Entries of some values under a name, at an index, or all of them for "*"; values without them are left out."""
    entries: list[object] = []
    for value in values:
        if name is not None:
            entries += [value[name]] if isinstance(value, dict) and name in value else []
        elif index == "*":
            entries += _elements(value)
        elif index is None:
            entries.append(value)
        elif isinstance(value, list | tuple) and -len(value) <= int(index) < len(value):
            entries.append(value[int(index)])
    return entries


def _elements(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple):
        return list(value)
    return []


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value)

"""Type errors in manifests, in words.

Called by the codec where msgspec refuses a manifest: turns its message into an InputError with the field's path, and
names the key where a map holds something other than texts. Knows the nearest word to a misspelt one. Judges nothing
itself.
"""

import re
from collections.abc import Collection, Iterator
from typing import Final

from msgspec import ValidationError

from tierwise.api.errors import InputError

__all__ = ["explain", "said", "suggestion"]

_AT: Final = re.compile(r"(?P<what>.*?)(?: - at (?P<key>`key` in )?`(?P<path>[^`]*)`)?", re.DOTALL)
_EXPECTED: Final = re.compile(r"Expected `(?P<wanted>[^`]*)`(?:, got `(?P<given>[^`]*)`)?(?P<rest>.*)", re.DOTALL)
_STEP: Final = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\.\.\.|[0-9]+)\]")
_WORDS: Final = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "a boolean",
    "object": "an object",
    "array": "a list",
}


def explain(error: ValidationError, raw: object) -> InputError:
    """What msgspec found wrong in `raw`, as one line with the path of the field: "spec.tier", "spec.members[0].type".

    Where msgspec leaves open which entry of a map it means, the first that cannot be right is named.
    """
    found = _AT.fullmatch(str(error))
    if found is None:
        return InputError(str(error))
    path, message = found["path"] or "$", _in_words(found["what"])
    if found["key"]:
        message = f"{message} as a key (quote it)"
    elif path.endswith("[...]"):
        path, hint = _culprit(raw, path.removesuffix("[...]"), found["what"])
        message += hint
    field = path.removeprefix("$").replace("[...]", "[]").removeprefix(".")
    return InputError(message, field=field or None)


def said(value: object) -> str:
    """What kind of thing a value is, in the words of a manifest's author."""
    if isinstance(value, bool):
        return "a boolean"
    for known, word in ((str, "str"), (int, "int"), (float, "float"), (dict, "object"), (list, "array")):
        if isinstance(value, known):
            return _WORDS[word]
    return "null" if value is None else "something else"


def _in_words(what: str) -> str:
    found = _EXPECTED.fullmatch(what)
    if found is None:
        return what.replace("`", '"')
    given = f", got {_words(found['given'])}" if found["given"] else ""
    return f"expected {_words(found['wanted'])}{given}{found['rest']}".replace("`", '"')


def _words(types: str) -> str:
    wanted = [_WORDS.get(part, part) for part in types.split(" | ") if part != "null" or types == "null"]
    return " or ".join(wanted)


def _culprit(raw: object, path: str, what: str) -> tuple[str, str]:
    """The path of the entry that is meant, and a hint where quotes are missing: YAML's unquoted `yes` and `1`."""
    texts = what.startswith("Expected `str`")
    right = str if texts else (str, int, float)
    for holder in _at(raw, path):
        for name, value in holder.items() if isinstance(holder, dict) else ():
            if not isinstance(value, right) or (isinstance(value, bool) and not texts):
                quotable = texts and isinstance(value, bool | int | float)
                return f"{path}.{name}", " (quote it)" if quotable else ""
    return f"{path}[]", ""


def _at(raw: object, path: str) -> Iterator[object]:
    """Every value that a path of msgspec's could mean; "[...]" stands for any entry of a list or map."""
    values = [raw]
    for step in _STEP.finditer(path.removeprefix("$")):
        inner: list[object] = []
        for value in values:
            if step["name"] is not None:
                inner += [value[step["name"]]] if isinstance(value, dict) and step["name"] in value else []
            elif isinstance(value, dict):
                inner += value.values()
            elif isinstance(value, list):
                inner += value
        values = inner
    yield from values


def suggestion(word: str, known: Collection[str]) -> str:
    """The known word that is nearest to a misspelt one, as the end of a message; nothing where none is near."""
    from difflib import get_close_matches  # only mistakes pay for it

    by_lower = {name.lower(): name for name in sorted(known, reverse=True)}
    near = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f" (did you mean {by_lower[near[0]]}?)" if near else ""

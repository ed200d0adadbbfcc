"""Fields that no API server would know: misspelt ones, told by kind and depth.

Called by admission, for people who write manifests. The names are in `field_names.txt`, which
`tools/field_names.py` makes from the definitions of the kinds: those of Kubernetes, of the projects whose kinds are
read, and of tierwise. Says nothing about kinds that are not listed there, and judges no values.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pkgutil import get_data  # importlib.resources brings archives and temporary files with it: too slow to start
from typing import Final

from tierwise.api.errors import suggestion

__all__ = ["fields", "table", "unheard", "unheard_in"]

_COMING: Final = {f"{kind} spec.scheduling" for kind in ("apps/StatefulSet", "jobset.x-k8s.io/JobSet")}
"""Fields that kinds are to get, and that are read already."""
_ANYTHING: Final = "*"
"""Any value as a type, and any name as a field."""


def unheard(raw: Mapping[str, object], group: str, kind: str) -> Iterator[tuple[str, str]]:
    """Every field of a manifest that its kind does not have, in the order in which they are written.

    Each with its place, and a message with the name that was probably meant.
    """
    root = table()[0].get(f"{group}/{kind}")
    for path, message in _within(raw, root, "") if root is not None else ():
        if f"{group}/{kind} {path}" in _COMING:
            text = (
                f'{kind}s of today have no field "scheduling", and API servers drop it; it is read here as that of Jobs'
            )
            yield path, text
        else:
            yield path, message


def unheard_in(value: object, name: str, path: str) -> Iterator[tuple[str, str]]:
    """Every field of a value that its type `name` does not have, with its place below `path` and a message."""
    return _within(value, name, path)


def _within(value: object, name: str, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from _within(item, name, f"{path}[{i}]")
    elif isinstance(value, dict):
        known_fields = fields(name)
        for key, inner in value.items():
            within = known_fields.get(key, known_fields.get(_ANYTHING))
            place = f"{path}.{key}" if path else str(key)
            if within is None:
                yield place, f'unknown field "{key}"{suggestion(str(key), known_fields)}'
            elif within and within != _ANYTHING:
                yield from _within(inner, within, place)


@cache
def fields(name: str) -> Mapping[str, str]:
    """A map from each field name of the named type to the name of that field's own type, "" where the field holds a
    plain value. An unknown type name raises KeyError.
    """
    return {field: within for field, _, within in (entry.partition(">") for entry in table()[1][name].split())}


@cache
def table() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The type of each group and kind, and the fields of each type as they are written: most are never asked for."""
    kinds: dict[str, str] = {}
    types: dict[str, str] = {}
    text = get_data("tierwise.api", "field_names.txt")
    assert text is not None  # it is part of the package
    for line in text.decode("ascii").splitlines():
        name, colon, listed = line.partition(": ")
        if colon or line.endswith(":"):
            types[name.removesuffix(":")] = listed
        else:
            key, _, kinds[key] = line.partition(" ")
    return kinds, types

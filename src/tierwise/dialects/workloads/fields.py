"""Manifests of workloads field by field: the controllers' own defaults, and one line for what cannot be meant."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tierwise.api.codec import Raw, said
from tierwise.api.errors import InputError
from tierwise.api.limits import PODS

__all__ = ["Fields", "few"]


class Fields(msgspec.Struct, frozen=True):
    """A map of a manifest, and its path. Every reader raises InputError for a value of the wrong type."""

    raw: Raw
    path: str = ""

    def __bool__(self) -> bool:
        return bool(self.raw)

    def at(self, *names: str) -> Fields:
        """A map further inside; an empty one where there is none."""
        fields = self
        for name in names:
            value = fields.raw.get(name)
            if not isinstance(value, dict | None):
                raise fields.wrong(name, f"expected an object, got {said(value)}")
            fields = Fields(value or {}, fields.where(name))
        return fields

    def each(self, name: str) -> Iterator[Fields]:
        """The maps of a list."""
        value = self.raw.get(name)
        if not isinstance(value, list | None):
            raise self.wrong(name, f"expected a list, got {said(value)}")
        for index, item in enumerate(value or ()):
            if not isinstance(item, dict):
                raise self.wrong(f"{name}[{index}]", f"expected an object, got {said(item)}")
            yield Fields(item, f"{self.where(name)}[{index}]")

    def text(self, name: str, default: str = "") -> str:
        value = self.raw.get(name)
        if not isinstance(value, str | None):
            raise self.wrong(name, f"expected a string, got {said(value)}")
        return value or default

    def flag(self, name: str) -> bool:
        value = self.raw.get(name)
        if not isinstance(value, bool | None):
            raise self.wrong(name, f"expected a boolean, got {said(value)}")
        return bool(value)

    def texts(self, name: str) -> dict[str, str]:
        """A map of texts, such as labels; null is the empty text."""
        fields = self.at(name)
        for key, value in fields.raw.items():
            if not isinstance(value, str | None):
                raise fields.wrong(key, f"expected a string, got {said(value)} (quote it)")
        return {key: str(value or "") for key, value in fields.raw.items()}

    def number(self, name: str, default: int) -> int:
        """A number that counts something, so at least zero."""
        value = self.raw.get(name)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(name, f"expected an integer, got {said(value)}")
        if value < 0:
            raise self.wrong(name, f"{value} is negative")
        return value

    def count(self, name: str, default: int) -> int:
        """Number of pods or groups in a field. Raises if it is more than one object may have."""
        return few(self, name, self.number(name, default))

    def where(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def wrong(self, name: str, text: str) -> InputError:
        return InputError(text, field=self.where(name))


def few(fields: Fields, name: str, total: int) -> int:
    """So many pods, unless they are more than one object may have."""
    if total > PODS:
        raise fields.wrong(name, f"makes {total} pods, more than the {PODS} that one object may have")
    return total

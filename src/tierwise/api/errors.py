"""The one exception for bad input, and the word that was probably meant.

Raised by everything that reads what a user wrote (manifests, configuration, traces) and turned by the command line
into one line on standard error and exit status 2. Never raised for a defect of tierwise itself.
"""

from collections.abc import Collection
from typing import Self

from tierwise.api.brief import brief

__all__ = ["InputError", "MayNotListError", "suggestion"]


class InputError(Exception):
    """Input that cannot be used, and its place.

    `file` is a path (with line and column where known), `obj` reads like "Pod default/p1", `field` like
    "status.allocatable.cpu". What is not known is None and is left out of the text.
    """

    def __init__(
        self, message: str, *, file: str | None = None, obj: str | None = None, field: str | None = None
    ) -> None:
        message = brief(message)
        obj = brief(obj) if obj is not None else None
        super().__init__(message, file, obj, field)
        self.message = message
        self.file = file
        self.obj = obj
        self.field = field

    def __str__(self) -> str:
        parts = (self.file, self.obj, self.field, self.message)
        return " ".join(": ".join(part for part in parts if part is not None).split())

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.message, self.file, self.obj, self.field)

    def inside(self, *, file: str | None = None, obj: str | None = None) -> Self:
        """A copy in which a missing file or object is filled in; what is known already stays."""
        return type(self)(
            self.message,
            file=file if self.file is None else self.file,
            obj=obj if self.obj is None else self.obj,
            field=self.field,
        )


class MayNotListError(InputError):
    """The user may not list nodes and pods of all namespaces, which reading a whole cluster needs."""


def _rebuild(message: str, file: str | None, obj: str | None, field: str | None) -> InputError:
    return InputError(message, file=file, obj=obj, field=field)


def suggestion(word: str, names: Collection[str]) -> str:
    """The known word that is nearest to a misspelt one, as the end of a message; nothing where none is near."""
    from difflib import get_close_matches  # only mistakes pay for it

    # What a namespace or a prefix makes alike says nothing about the name.
    by_name: dict[str, dict[str, str]] = {}
    for name in sorted(names, reverse=True):
        by_name.setdefault(name.lower().rpartition("/")[2], {})[name.lower()] = name
    near = get_close_matches(word.lower().rpartition("/")[2], by_name, n=1, cutoff=0.6)
    if not near:
        return ""
    alike = by_name[near[0]]
    return f" (did you mean {alike[get_close_matches(word.lower(), alike, n=1, cutoff=0.0)[0]]}?)"

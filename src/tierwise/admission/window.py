"""Checks of windows: what the reading of an object lets pass because nothing is said in it."""

from __future__ import annotations

from collections.abc import Iterator

from tierwise.admission.findings import Issue, error
from tierwise.admission.names import dns_subdomain
from tierwise.api.errors import InputError
from tierwise.api.window import Window, read_window

__all__ = ["check_window"]


def check_window(window: Window) -> Iterator[Issue]:
    """Yield the errors of one Window object: a name that is no DNS subdomain, and the first field that `read_window`
    cannot read. It yields nothing where the window is good.
    """
    yield from dns_subdomain("metadata.name", window.metadata.name)
    try:
        read_window(window)
    except InputError as wrong:
        yield error(wrong.field or "spec", wrong.message)

"""Utilisation as a bar: what was used before, what came on top, what is free."""

from __future__ import annotations

from rich.text import Text

from tierwise.explain.page import Glyphs

__all__ = ["bar", "meter"]

_USED = "blue"
_NEW = "green"
_FREE = "bright_black"
_OVER = "red"


def bar(glyphs: Glyphs, width: int, *, before: int, after: int, total: int) -> Text:
    """A bar of so many cells. Something new is always visible, and only what is full looks full."""
    if total <= 0 or width <= 0:
        return Text(" " * max(width, 0))
    old = min(before, after)
    filled = _cells(after, total, width)
    kept = min(_cells(old, total, width), filled)
    if after > old and kept == filled:
        kept, filled = (kept - 1, filled) if kept and (filled == width or after >= total) else (kept, filled + 1)
    style = _OVER if after > total else _USED
    return Text.assemble(
        (glyphs.used * kept, style),
        (glyphs.new * (filled - kept), _NEW),
        (glyphs.free * (width - filled), _FREE),
    )


def meter(glyphs: Glyphs, width: int, share: float) -> Text:
    """A bar for one share between 0 and 1."""
    return bar(glyphs, width, before=round(1000 * share), after=round(1000 * share), total=1000)


def _cells(amount: int, total: int, width: int) -> int:
    """Rounded, but none only for nothing, and all only for everything."""
    if amount >= total:
        return width
    if amount <= 0:
        return 0
    return min(max(1, round(width * amount / total)), max(1, width - 1))

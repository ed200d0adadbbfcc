"""Many names in short form: "worker 0-15", "rack-[0-3,7]"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tierwise.api.natural import natural
from tierwise.explain.page import joined

__all__ = ["compact", "numbers", "pods"]

_NUMBERED = re.compile(r"(?P<stem>.*?)(?P<number>0|[1-9][0-9]{0,8})", re.DOTALL)
_MOST = 6


def numbers(values: Iterable[int]) -> str:
    """Runs of numbers, "0-3,8,10-12"; where that takes too many pieces, the first and how many more there are."""
    ordered = sorted(set(values))
    runs: list[tuple[int, int]] = []
    for value in ordered:
        if runs and runs[-1][1] == value - 1:
            runs[-1] = (runs[-1][0], value)
        else:
            runs.append((value, value))
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in runs]
    if len(shown) <= _MOST:
        return ",".join(shown)
    shown_numbers = sum(b - a + 1 for a, b in runs[: _MOST - 1])
    return f"{','.join(shown[: _MOST - 1])} and {len(ordered) - shown_numbers} more"


def compact(names: Iterable[str], limit: int = 3) -> str:
    """Names that differ in their last number folded into one: "rack-[0-3,7], spare"; of many the first ones."""
    shown = [(_folded(stem, last_numbers), max(1, len(last_numbers))) for stem, last_numbers in _stems(names).items()]
    if len(shown) <= limit:
        return joined([text for text, _ in shown], limit)
    hidden = sum(number for _, number in shown[limit - 1 :])
    return f"{', '.join(text for text, _ in shown[: limit - 1])} and {hidden} more"


def _folded(stem: str, last_numbers: Sequence[int]) -> str:
    if len(last_numbers) > 1:
        return f"{stem}[{numbers(last_numbers)}]"
    return f"{stem}{last_numbers[0]}" if last_numbers else stem


def pods(job: str, names: Sequence[str], role: str = "") -> str:
    """Pods of a job by what tells them apart: "worker 0-15" for train-worker-0 to train-worker-15."""
    title_by_stem = {f"{job}-{role}-": role} if role else {f"{job}-": "pods"}
    stems = _stems(names)
    shown = []
    for stem, last_numbers in stems.items():
        if last_numbers and stem in title_by_stem:
            shown.append(f"{title_by_stem[stem] if len(last_numbers) > 1 or role else 'pod'} {numbers(last_numbers)}")
        else:
            shown.append(_folded(stem, last_numbers))
    return joined(shown)


def _stems(names: Iterable[str]) -> dict[str, list[int]]:
    """Names in natural order, by what precedes their last number; whole names where there is none."""
    stems: dict[str, list[int]] = {}
    for name in sorted(set(names), key=natural):
        form = _NUMBERED.fullmatch(name)
        if form is None or form["stem"].endswith(tuple("0123456789")):
            stems.setdefault(name, [])
        else:
            stems.setdefault(form["stem"], []).append(int(form["number"]))
    return stems

"""tierwise with a wall clock that can be set: `python -m tests.e2e.jumping FILE VERB …` is `tierwise VERB …`.

The file holds by how many seconds the wall clock is wrong, and is read whenever somebody asks for the time. Clocks that
never jump are left alone, as in a machine whose time is set.
"""

from __future__ import annotations

import datetime as dt
import sys
import time
from pathlib import Path
from typing import Self

__all__: list[str] = []

_FILE = Path(sys.argv.pop(1))
_TRUE_TIME = time.time


def _wrong_by() -> float:
    return float(_FILE.read_text() or 0)


class _Jumping(dt.datetime):
    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Self:
        return super().now(tz) + dt.timedelta(seconds=_wrong_by())


time.time = lambda: _TRUE_TIME() + _wrong_by()
dt.datetime = _Jumping  # type: ignore[misc]

from tierwise.cli.main import main  # noqa: E402 - with the clocks as they are now

main()

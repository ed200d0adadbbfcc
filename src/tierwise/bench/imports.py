"""How long imports take: each in a fresh process, timed inside it, so that starting Python is not counted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

__all__ = ["import_seconds"]


def import_seconds(modules: Sequence[str], repeats: int) -> tuple[float, ...]:
    """The shortest import of each module; they take turns, so that a noisy moment hits all of them alike."""
    for module in modules:
        _once(module)  # compiles and warms the file cache
    runs = [[_once(module) for module in modules] for _ in range(repeats)]
    return tuple(min(times) for times in zip(*runs, strict=True))


def _once(module: str) -> float:
    code = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(done.stdout)

"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import numpy as np

__all__ = ["facts"]


def facts() -> dict[str, str | int]:
    """The processor, how many cores this process may use, and the versions of Python and NumPy."""
    return {
        "cpu": _cpu(),
        "cores": _cores(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()

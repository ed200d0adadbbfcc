"""How long imports take: each in a fresh process, timed inside it, so that starting Python is not counted.

Processor time is counted, not time on the wall: an import has nothing to wait for but other processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

__all__ = ["import_seconds"]


def import_seconds(modules: Sequence[str], repeats: int) -> tuple[float, ...]:
    """The shortest import of each module; they take turns, so that a noisy moment hits all of them alike.

    All of them are byte-compiled beforehand, as installed packages are, whatever the environment says about that.
    """
    with tempfile.TemporaryDirectory() as cache:
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment = inherited | {"PYTHONPYCACHEPREFIX": cache}
        for module in modules:
            _once(module, environment)
        runs = [[_once(module, environment) for module in modules] for _ in range(repeats)]
    return tuple(min(times) for times in zip(*runs, strict=True))


def _once(module: str, environment: Mapping[str, str]) -> float:
    code = f"import time; start = time.process_time(); import {module}; print(time.process_time() - start)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout)

"""A replay that was interrupted, as a file: what is done, and where the contender at work stood.

The file names its inputs by a digest; a replay of other inputs does not go on from it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tierwise.api.errors import InputError
from tierwise.replay.contenders import Contender
from tierwise.replay.fabric import Fabric
from tierwise.replay.figures import Data
from tierwise.replay.rules import Rules
from tierwise.replay.state import Sample, State
from tierwise.replay.trace import Trace

__all__ = ["Checkpoint", "digest", "load", "save"]

_ARRAYS = ("remaining", "first_start", "end", "ready_since", "waited", "evictions", "lost", "figures")
_FORMAT = 2


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Outcomes of the contenders that are through, and the state of the next one where it has begun."""

    digest: str
    done: list[Data]
    state: State | None


def digest(fabric: Fabric, trace: Trace, contenders: Sequence[Contender], rules: Rules) -> str:
    """One word for the inputs of a run."""
    total = hashlib.sha256()
    for column in (trace.arrival, trace.duration, trace.gpus, trace.priority, trace.queue, fabric.topology.leaf):
        total.update(np.ascontiguousarray(column).tobytes())
    total.update(repr((trace.queues, fabric.nodes.names, fabric.topology.name, fabric.gpus_per_host)).encode())
    total.update(repr((contenders, rules)).encode())
    return total.hexdigest()


def save(file: str, point: Checkpoint) -> None:
    """Write the file whole or not at all."""
    state: dict[str, Any] | None = None
    if point.state is not None:
        state = asdict(point.state)
        state |= {name: state[name].tolist() for name in _ARRAYS}
        state |= {"waiting": sorted(point.state.waiting), "down": sorted(point.state.down)}
    text = json.dumps({"format": _FORMAT, "digest": point.digest, "done": point.done, "state": state})
    beside = Path(f"{file}.part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)


def load(file: str, expected: str) -> Checkpoint | None:
    """The checkpoint in a file; None where there is no file, InputError where it is of another run."""
    try:
        raw = json.loads(Path(file).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"no checkpoint: {error}", file=file) from None
    if not isinstance(raw, dict) or raw.get("format") != _FORMAT:
        raise InputError("no checkpoint of this version", file=file)
    if raw["digest"] != expected:
        raise InputError("a checkpoint of other inputs: remove it, or name another file", file=file)
    return Checkpoint(raw["digest"], raw["done"], _state(raw["state"]) if raw["state"] is not None else None)


def _state(raw: dict[str, Any]) -> State:
    arrays = {name: np.array(raw[name], dtype=np.float64) for name in _ARRAYS}
    samples = [
        Sample(**{**s, "fragmentation": tuple(s["fragmentation"]), "leaves": tuple(s["leaves"])})
        for s in raw["samples"]
    ]
    running = {int(job): (start, tuple(rows)) for job, (start, rows) in raw["running"].items()}
    sets = {name: set(raw[name]) for name in ("waiting", "down")}
    return State(**{**raw, **arrays, **sets, "samples": samples, "running": running})

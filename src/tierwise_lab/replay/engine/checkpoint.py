"""An interrupted run as a file: what is finished, and the state of the contender that was running.

The file contains a digest of its inputs; a run with other inputs, or with a changed file, does not resume from it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from tierwise.api.errors import InputError
from tierwise_lab.replay.report.outcome import Data

__all__ = ["Checkpoint", "digest", "load", "save"]

_FORMAT = 8


class Checkpoint(msgspec.Struct, frozen=True):
    """Outcomes of the contenders that are through, and the state of the next one where it has begun, as JSON data."""

    digest: str
    done: list[Data]
    state: Data | None


def digest(columns: list[NDArray[np.generic]], *parts: object) -> str:
    """One word for the inputs of a run: arrays, and whatever else tells them apart when it is written out."""
    total = hashlib.sha256()
    for column in columns:
        total.update(np.ascontiguousarray(column).tobytes())
    total.update(repr(parts).encode())
    return total.hexdigest()


def save(file: str, point: Checkpoint) -> None:
    """Write the file whole or not at all."""
    content = json.loads(
        json.dumps({"digest": point.digest, "done": point.done, "state": point.state})
    )  # as it is read
    text = json.dumps({"format": _FORMAT, "checksum": _checksum(content), **content})
    beside = Path(f"{file}.part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)


def load(file: str, expected: str) -> Checkpoint | None:
    """The checkpoint in a file; None where there is no file, InputError where it is of another run, or was changed."""
    try:
        raw = json.loads(Path(file).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"no checkpoint: {error}", file=file) from None
    if not isinstance(raw, dict) or raw.get("format") != _FORMAT:
        raise InputError("no checkpoint of this version", file=file)
    content = {field: raw.get(field) for field in ("digest", "done", "state")}
    if raw.get("checksum") != _checksum(content):
        raise InputError("the checkpoint was changed since it was written: remove it, or name another file", file=file)
    if raw["digest"] != expected:
        raise InputError("a checkpoint of other inputs: remove it, or name another file", file=file)
    return Checkpoint(raw["digest"], raw["done"], raw["state"])


def _checksum(content: Mapping[str, object]) -> str:
    """One word for all that is kept: a file that was changed is not resumed from."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

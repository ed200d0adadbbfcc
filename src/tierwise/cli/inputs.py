"""What a verb works on: objects from manifests, a profile from a configuration file, and the time of the run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tierwise.api.errors import InputError
from tierwise.api.meta import parse_time

if TYPE_CHECKING:
    from tierwise.config.profile import Profile
    from tierwise.port import Objects

__all__ = ["load", "moment", "profile_of"]

_EPOCH: Final = "2026-01-01T00:00:00Z"


def load(filenames: Sequence[str]) -> Objects:
    """The objects of all manifests, or of the live cluster where none are given; InputError where they are no use."""
    if not filenames:
        from tierwise.cli.connected import live_objects

        return live_objects()
    from tierwise.cli.progress import patience
    from tierwise.port import Objects
    from tierwise.sim.manifests import read

    with patience("reading manifests") as progress:
        loaded = read(filenames, sys.stdin, progress=progress)
        return Objects.of((entry.record, entry.raw) for entry in loaded)


def moment(objects: Objects, given: float | None) -> float:
    """The time of the run: as given, else of the look at the objects, else the newest in them, else a fixed one."""
    from tierwise.sim.saved import saved_at

    told = given if given is not None else saved_at(objects)
    if told is not None:
        return told
    metas = (record.metadata for key in objects if (record := objects.record(key)) is not None)
    times = {time for meta in metas for time in (meta.creation_timestamp, meta.deletion_timestamp) if time}
    return max(map(parse_time, times or {_EPOCH}))


def profile_of(file: str | None) -> Profile:
    """The profile in a configuration file, or the default one."""
    from tierwise.config.kube import KIND, read_kube
    from tierwise.config.profile import DEFAULT
    from tierwise.config.volcano import read_volcano
    from tierwise.scheduler import check_profile

    if file is None:
        return DEFAULT
    raw = _configuration(file)
    read = read_kube if isinstance(raw, dict) and raw.get("kind") == KIND else read_volcano
    return check_profile(read(raw, file), file)


def _configuration(file: str) -> object:
    from pathlib import Path

    from tierwise.api.yaml_text import documents

    try:
        data = Path(file).read_bytes()
    except OSError as error:
        raise InputError(error.strerror or str(error), file=file) from None
    found = [document for document, _ in documents(data, file=file) if document is not None]
    if len(found) > 1:
        raise InputError(f"one configuration is expected, not {len(found)} documents", file=file)
    return found[0] if found else None

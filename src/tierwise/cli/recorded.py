"""What a recorded cycle saw, and its profile, for verbs that are given `journal:DIR@CYCLE` instead of files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tierwise.api.errors import InputError

if TYPE_CHECKING:
    from tierwise.api.codec import Raw
    from tierwise.config.profile import Profile
    from tierwise.port import Objects
    from tierwise.runtime.journal import RecordedCycle

__all__ = ["recorded_objects", "recorded_profile"]


def recorded_objects(place: str) -> Objects:
    """What the cycle of `DIR@CYCLE` saw, with its time, for verbs that take manifests."""
    from tierwise.api import codec
    from tierwise.manifests.saved import saved, served
    from tierwise.port import Objects
    from tierwise.snapshot.builder import SCHEDULER_NAMES

    found = _recorded(place)
    every = (raw for key in found.objects if (raw := found.objects.raw(key)) is not None)
    known = SCHEDULER_NAMES.union(found.scheduler.profile.schedulers)
    raws = [_ours(raw, known) for raw in served(every, found.scheduler.schedulers)]
    return Objects.of((codec.decode(raw), raw) for raw in saved(raws, found.now))


def _ours(raw: Raw, known: frozenset[str]) -> Raw:
    """A waiting pod under a name that every verb serves: it was served under its own."""
    spec = raw.get("spec")
    if raw.get("kind") != "Pod" or not isinstance(spec, dict) or spec.get("schedulerName", "") in known:
        return raw
    return {**raw, "spec": {**spec, "schedulerName": "tierwise"}} if not spec.get("nodeName") else raw


def recorded_profile(place: str) -> Profile:
    """The profile of the cycle of `DIR@CYCLE`."""
    return _recorded(place).scheduler.profile


def _recorded(place: str) -> RecordedCycle:
    from tierwise.runtime.journal import Journal

    folder, _, number = place.rpartition("@")
    if not folder or not number.isdecimal():
        raise InputError(f'"journal:{place}" is not journal:DIR@CYCLE')
    return Journal(Path(folder)).cycle(int(number))

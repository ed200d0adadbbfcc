"""Rows about reading a cluster: what following its changes costs against reading everything, and against decoding."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import cycle
from time import process_time

from tierwise.api import codec
from tierwise.api.core import Pod
from tierwise.bench.lab import Lab, Measured, row
from tierwise.bench.manifests import GANG, full_of_gangs, pod
from tierwise.bench.measure import at_least, at_most, best_of, compared, in_turns
from tierwise.port import Objects, key_of_raw
from tierwise.snapshot.builder import Reader, build

__all__ = []

_EVENTS = 1_000
_OFTEN = 10


@row("P7", at_least(20, 100))
def _p7(lab: Lab) -> Measured:
    """A snapshot of everything, against one that follows a gang's worth of changes."""
    objects = full_of_gangs(lab.size.pods)
    whole = best_of(3, lambda: build(objects, 0.0), clock=process_time)
    change = best_of(2 * lab.size.repeats, _following(objects, GANG), clock=process_time)
    what = f"reading {lab.size.pods:,} pods on {lab.size.pods // 8:,} nodes anew ÷ following a change of {GANG} of them"
    return compared(what, whole, change)


@row("P8", at_most(0.5, 0.1))
def _p8(lab: Lab) -> Measured:
    """What a changed pod costs the next snapshot, against decoding the event that tells of it.

    The cluster is small, so that looking for what has changed takes little beside taking the changes over. Both take
    milliseconds, so they are repeated often: busy cores disturb them.
    """
    text = json.dumps(pod(1, 1)).encode()
    # A cluster for each: of two histories of one, the second would be compared object by object.
    following = (_following(full_of_gangs(2 * _EVENTS), pods) for pods in (1, _EVENTS + 1))
    whole, few, many = in_turns(_OFTEN * lab.size.repeats, lambda: _decode(text), *following)
    decoding, applying = whole / _EVENTS, max(many - few, 0.0) / _EVENTS
    what = (
        f"following one more changed pod ÷ decoding its event ({applying * 1e6:.1f} µs ÷ {decoding * 1e6:.1f} µs,"
        f" {_EVENTS:,} pods in {_EVENTS // GANG} gangs)"
    )
    return what, applying / decoding


def _decode(text: bytes) -> None:
    for _ in range(_EVENTS):
        codec.decode_json(text, Pod)


def _following(objects: Objects, pods: int) -> Callable[[], object]:
    """Read two states alternately that differ in so many pods, gang after gang."""
    ended = [{**pod(i // GANG, i % GANG), "status": {"phase": "Succeeded"}} for i in range(pods)]
    other = objects.changed({key_of_raw(raw): raw for raw in ended})  # decoded again, as an event is
    reader, states = Reader(), cycle((other, objects))
    reader.read(objects, 0.0)
    return lambda: reader.read(next(states), 0.0)

"""The record of a defragmentation that is carried out: a ConfigMap that its executor writes and the scheduler reads.

It holds all that is known of the execution, so that another process can go on with it, and the places that the
scheduler keeps meanwhile: for the job that is being moved, and for no job where room is being opened. The scheduler
answers with an annotation that names the last revision which its cycles respect.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from tierwise.api.codec import Raw
from tierwise.api.core import ConfigMap
from tierwise.api.manifest import manifest

__all__ = [
    "OBSERVED",
    "RECORD_NAME",
    "DefragRecord",
    "FinishedMove",
    "HeldPods",
    "MovePhase",
    "MovedPod",
    "PlannedMove",
    "observed",
    "read_record",
    "record_manifest",
]

RECORD_NAME: Final = "tierwise-defrag"
OBSERVED: Final = "tierwise.io/observed-revision"
"""On the ConfigMap: the revision of the record that the scheduler respects."""
_ENTRY: Final = "record"


class MovePhase(enum.StrEnum):
    """The status of an execution."""

    RESERVING = "Reserving"  # places are held, and the scheduler has not said yet that it respects them
    MOVING = "Moving"  # pods are evicted, and start again at their new places
    RETURNING = "Returning"  # the move failed: the job gets its old places back
    DONE = "Done"
    STOPPED = "Stopped"


class MovedPod(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A pod that is to go, as it was when its place was found."""

    uid: str
    node: str
    target: str
    requests: Mapping[str, int]


class PlannedMove(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Pods of one job that are evicted together."""

    job: str  # its key; for a pod by itself that of the pod
    name: str  # as people call it
    pods: Mapping[str, MovedPod]  # by namespace/name
    running: int  # pods that it had when the move was planned, or its owner where it is a pod by itself
    minimum: int = 0
    owner: str = ""  # the uid of the owner of a pod by itself
    queue: str = ""
    notice: float = 0.0  # seconds that its pods are told before
    declared: bool = False  # an object of its name declares it
    hours: float = 0.0  # of work that are lost
    staying: tuple[str, ...] = ()  # pods of it that are not evicted


class FinishedMove(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A move that is over."""

    name: str
    pods: int
    at: float
    hours: float = 0.0
    note: str = ""


class HeldPods(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Places on a node that are held for pods of one job; those already on the node are part of the number."""

    job: str
    node: str
    pods: int
    requests: Mapping[str, int]
    owner: str = ""
    queue: str = ""


class DefragRecord(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An execution; times are seconds since the epoch."""

    room: str  # as it was asked for: SHAPExPODS@TIER
    phase: MovePhase
    revision: int = 1  # grows with what is held
    by: str = ""  # who carries it out
    step_seconds: float = 600.0  # that a move may take
    started: float = 0.0
    deadline: float = 0.0  # until which the present phase may last
    expires: float = 0.0  # until which places are held for the job in hand, whatever becomes of its executor
    title: str = ""  # the domain where room is opened, for people
    nodes: Mapping[str, int] = {}  # pods of the gang to come, by node
    moves: tuple[PlannedMove, ...] = ()  # that are not over; the first one is in hand
    finished: tuple[FinishedMove, ...] = ()
    kept: Mapping[str, Mapping[str, int]] = {}  # by node, amounts that no pod gets until the deadline
    held: tuple[HeldPods, ...] = ()
    plans: int = 1  # how often the rest of the moves was planned
    message: str = ""
    earlier: tuple[FinishedMove, ...] = ()  # of executions before this one, within the last hour

    @property
    def over(self) -> bool:
        return self.phase in (MovePhase.DONE, MovePhase.STOPPED)


def record_manifest(record: DefragRecord, namespace: str) -> Raw:
    """The ConfigMap of a record."""
    data = {
        "phase": str(record.phase),
        "message": record.message,
        _ENTRY: msgspec.json.encode(record, order="deterministic").decode(),
    }
    return manifest("v1", "ConfigMap", RECORD_NAME, namespace, data=data)


def read_record(config: ConfigMap) -> DefragRecord:
    """The record in a ConfigMap; ValueError where it is not one of ours."""
    try:
        return msgspec.json.decode(config.data[_ENTRY], type=DefragRecord)
    except (KeyError, msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"it is not the record of a defragmentation: {error}") from None


def observed(config: ConfigMap) -> int:
    """The last revision that the scheduler respects; 0 for none."""
    text = config.metadata.annotations.get(OBSERVED, "")
    if text.isdecimal() and len(text) < 18:
        return int(text)
    return 0

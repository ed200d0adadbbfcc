"""Jobs that are over are deleted after a while, where they ask for it (`ttlSecondsAfterFinished`)."""

from __future__ import annotations

from collections.abc import Iterable

from tierwise.api.codec import Object
from tierwise.api.meta import parse_time
from tierwise.api.volcano import Job
from tierwise.controllers.job.phases import FINISHED
from tierwise.port import Delete, Effect, key_of

__all__ = ["expires", "remove"]


def expires(job: Job) -> float | None:
    """When a job is to be deleted; None where it is not over, or does not ask for it."""
    ttl, state = job.spec.ttl_seconds_after_finished, job.status.state
    if ttl is None or state.phase not in FINISHED:
        return None
    try:
        return parse_time(state.last_transition_time) + ttl
    except ValueError:
        return None


def remove(job: Job, made: Iterable[Object]) -> list[Effect]:
    """Delete what a job made and the job itself: where nobody collects what lost its owner, nothing stays behind."""
    return [Delete(key_of(record)) for record in (*made, job) if not record.metadata.deletion_timestamp]

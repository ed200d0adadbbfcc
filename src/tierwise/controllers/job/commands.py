"""Commands: actions that users request with a Command object, as `vcctl job suspend` does.

A command is executed once: the resulting phase change is written together with a mark of the command, and only then is
the object deleted. The mark stays until the object is gone, so a lost deletion is retried without another phase change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tierwise.api.natural import natural
from tierwise.api.volcano import Command, Job

__all__ = ["done", "in_order", "is_done", "job_of", "remembered"]

_PREFIX: Final = "command/"


def job_of(command: Command) -> str | None:
    """The job that a command is for by its key; those on their way out are over."""
    target = command.target
    meta = command.metadata
    if target is None or target.kind != "Job" or meta.deletion_timestamp:
        return None
    return f"{meta.namespace or 'default'}/{target.name}"


def in_order(present: Iterable[Command]) -> list[Command]:
    """The commands for a job, the oldest first."""
    return sorted(present, key=lambda c: (c.metadata.creation_timestamp, natural(c.metadata.name)))


def is_done(job: Job, command: Command) -> bool:
    """Whether a job has already done what a command asks."""
    return _mark(command) in job.status.controlled_resources


def done(command: Command) -> dict[str, str]:
    """Memory of a command that was carried out, for the status of its job."""
    return {_mark(command): command.action}


def remembered(memory: Mapping[str, str], present: Sequence[Command]) -> dict[str, str]:
    """The memory, without the marks of commands that are gone."""
    marks = {_mark(command) for command in present} if present else ()
    return {key: value for key, value in memory.items() if not key.startswith(_PREFIX) or key in marks}


def _mark(command: Command) -> str:
    return f"{_PREFIX}{command.metadata.uid or command.metadata.name}"

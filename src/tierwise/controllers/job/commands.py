"""Commands: actions that users request with a Command object, as `vcctl job suspend` does.

A command is executed once: the resulting phase change is written together with a mark of the command, and only then is
the object deleted. The mark stays until the object is gone, so a lost deletion is retried without another phase change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tierwise.api.natural import natural
from tierwise.api.volcano import Command, Job

__all__ = ["by_job", "done", "is_done", "remembered"]

_PREFIX: Final = "command/"


def by_job(commands: Mapping[str, Command]) -> dict[str, list[Command]]:
    """The commands for each job by the job's key, the oldest first; those on their way out are over."""
    found: dict[str, list[Command]] = {}
    for path, command in commands.items():
        target = command.target
        if target is not None and target.kind == "Job" and not command.metadata.deletion_timestamp:
            found.setdefault(f"{path.partition('/')[0]}/{target.name}", []).append(command)
    for waiting in found.values():
        waiting.sort(key=lambda c: (c.metadata.creation_timestamp, natural(c.metadata.name)))
    return found


def is_done(job: Job, command: Command) -> bool:
    """Whether a job has already done what a command asks."""
    return _mark(command) in job.status.controlled_resources


def done(command: Command) -> dict[str, str]:
    """What is remembered of a command that was carried out."""
    return {_mark(command): command.action}


def remembered(memory: Mapping[str, str], present: Iterable[Command]) -> dict[str, str]:
    """The memory, without the marks of commands that are gone."""
    known = {_mark(command) for command in present}
    return {key: value for key, value in memory.items() if not key.startswith(_PREFIX) or key in known}


def _mark(command: Command) -> str:
    return f"{_PREFIX}{command.metadata.uid or command.metadata.name}"

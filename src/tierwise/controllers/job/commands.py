"""Commands: what users ask of a job by putting an object beside it, such as `vcctl job suspend` does.

A command is carried out once: the turn it leads to is written down with the command's mark, and only then is the
object deleted. The mark stays until the object is gone, so a deletion that is lost is asked for again, not the turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tierwise.api.natural import natural
from tierwise.api.volcano import Command, Job
from tierwise.controllers.job.memory import COMMAND

__all__ = ["by_job", "is_done", "mark", "remembered"]


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


def mark(command: Command) -> str:
    """What tells a command from all others."""
    return command.metadata.uid or command.metadata.name


def is_done(job: Job, command: Command) -> bool:
    """Whether a job has already done what a command asks."""
    return job.status.controlled_resources.get(COMMAND) == mark(command)


def remembered(memory: Mapping[str, str], present: Iterable[Command]) -> dict[str, str]:
    """The memory, without the mark of a command that is gone."""
    known = {mark(command) for command in present}
    return {key: value for key, value in memory.items() if key != COMMAND or value in known}

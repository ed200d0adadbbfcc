"""Commands: whether one can be carried out at all."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tierwise.admission.findings import Issue, error, one_of, warning
from tierwise.admission.policy import ACTIONS
from tierwise.api.volcano import Command

__all__ = ["check"]

_QUEUE_ACTIONS = frozenset({"OpenQueue", "CloseQueue"})
_OF_PARTS = frozenset({"RestartTask", "RestartPod", "RestartPartition"})


def check(command: Command, jobs: Collection[str]) -> Iterator[Issue]:
    """Issues of a command; `jobs` are the keys of all jobs that are given."""
    target = command.target
    if target is None or not target.name:
        yield error("target", "target.name is missing: a command needs a job to act on")
        return
    if target.kind != "Job":
        yield from one_of("action", command.action, ACTIONS | _QUEUE_ACTIONS)
        return
    yield from one_of("action", command.action, ACTIONS)
    if command.action in _OF_PARTS:
        yield warning("action", f"{command.action} does nothing: a command names no part of a job")
    path = f"{command.metadata.namespace or 'default'}/{target.name}"
    if jobs and path not in jobs:
        yield warning("target.name", f'job "{path}" does not exist')

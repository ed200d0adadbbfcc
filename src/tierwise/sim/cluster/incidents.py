"""Failures to inject into a simulated cluster: pods that fail, machines that are lost and come back.

Written on the command line as `POD=EXIT@TIME` and `NODE@TIME`; times count from the start of the run.
"""

from __future__ import annotations

import math

import msgspec

from tierwise.api.duration import seconds
from tierwise.api.meta import read_number

__all__ = ["Incident", "NodeBack", "NodeLost", "PodFails", "node_back", "node_lost", "pod_fails"]


class PodFails(msgspec.Struct, frozen=True):
    """The containers of a pod end with a code."""

    after: int
    pod: str  # namespace/name
    exit_code: int


class NodeLost(msgspec.Struct, frozen=True):
    """A machine falls silent."""

    after: int
    node: str


class NodeBack(msgspec.Struct, frozen=True):
    """A machine that was lost is there again."""

    after: int
    node: str


Incident = PodFails | NodeLost | NodeBack


def pod_fails(text: str) -> PodFails:
    """`train-worker-3=137@90s`; ValueError where it reads otherwise."""
    what, after = _timed(text, "POD=EXIT@TIME, as in train-worker-3=137@90s")
    pod, separator, code = what.rpartition("=")
    status = read_number(code)
    if not separator or not pod or status is None or not 0 < status <= 255:
        raise ValueError(f'"{text}" is not POD=EXIT@TIME with an exit code from 1 to 255')
    return PodFails(after, pod if "/" in pod else f"default/{pod}", status)


def node_lost(text: str) -> NodeLost:
    """`node-7@2m`; ValueError where it reads otherwise."""
    node, after = _timed(text, "NODE@TIME, as in node-7@2m")
    return NodeLost(after, node)


def node_back(text: str) -> NodeBack:
    """The same for a machine that comes back."""
    node, after = _timed(text, "NODE@TIME, as in node-7@20m")
    return NodeBack(after, node)


def _timed(text: str, form: str) -> tuple[str, int]:
    what, _, time = text.rpartition("@")
    after = seconds(time)
    if not what or after is None or after < 0:
        raise ValueError(f'"{text}" is not {form}')
    return what, math.ceil(after)

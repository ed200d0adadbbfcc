"""Waiting for what a client of an API server comes to know."""

from __future__ import annotations

import time
from collections.abc import Callable

from tierwise.kube.cluster import KubeCluster

__all__ = ["eventually"]

_PATIENCE = 60.0  # seconds; reached only where a test fails, so that a busy machine makes none fail


def eventually(cluster: KubeCluster, holds: Callable[[], bool]) -> bool:
    """Whether something comes to hold; waits for changes, not for time."""
    until = time.monotonic() + _PATIENCE
    while not holds() and time.monotonic() < until:
        cluster.wait(cluster.read().version, 0.05)
    return holds()

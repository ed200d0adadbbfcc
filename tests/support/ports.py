"""Ports for servers that a test starts: free now, and not such as the kernel hands out meanwhile.

A port asked of the kernel (port 0) and given back may be taken by the next outgoing connection, of which the tests
make thousands. So they are drawn from below the kernel's own range.
"""

from __future__ import annotations

import random
import socket

__all__ = ["HOST", "free_port", "free_ports"]

HOST = "127.0.0.1"
_LOWEST, _BELOW = 15_000, 32_000
_chance = random.SystemRandom()  # two runs beside each other must not draw the same ports


def free_port() -> int:
    """One port on which nobody listens."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """As many different ones."""
    found: list[int] = []
    for port in _chance.sample(range(_LOWEST, _BELOW), k=_BELOW - _LOWEST):
        if len(found) == count:
            break
        if _is_free(port):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True

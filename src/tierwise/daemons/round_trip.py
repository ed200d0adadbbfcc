"""Measure round-trip times over one TCP connection, and answer the measurements of other nodes.

Traffic is bounded on both sides: a measurement sends a fixed number of 16-byte messages and stops at its deadline, and
the answering side closes a connection that sends more than a measurement would, or is silent for too long.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from contextlib import suppress

import msgspec

__all__ = ["SIZE", "Answerer", "measure"]

SIZE = 16
_FORM = struct.Struct("!8sQ")
_MARK = b"tierwise"
_WARM_UP = 3  # messages that are not counted: the first ones find cold caches
_MOST_MESSAGES = 10_000
_MOST_CONNECTIONS = 64
_IDLE_SECONDS = 10.0


def measure(host: str, port: int, *, count: int, timeout: float) -> list[float]:
    """The seconds that each of count round trips took.

    All together, with connecting and some round trips to warm up, may last timeout seconds; OSError where the other
    side takes longer, cannot be reached, or does not answer as a probe does.
    """
    deadline = time.monotonic() + timeout
    times: list[float] = []
    with socket.create_connection((host, port), timeout=timeout) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in range(-_WARM_UP, count):
            message = _FORM.pack(_MARK, number % 2**64)
            start = time.perf_counter()
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            connection.sendall(message)
            if _receive(connection) != message:
                raise ConnectionError(f"{host}:{port} does not answer as a probe does")
            if number >= 0:
                times.append(time.perf_counter() - start)
    return times


def _receive(connection: socket.socket) -> bytes:
    data = b""
    while len(data) < SIZE:
        received = connection.recv(SIZE - len(data))
        if not received:
            raise ConnectionError("the other side closed the connection")
        data += received
    return data


class _Peer(msgspec.Struct):
    """A connection that is answered."""

    bytes: int
    heard: float


class Answerer:
    """Sends every message back to where it came from."""

    def __init__(self, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=_MOST_CONNECTIONS)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._guests: dict[socket.socket, _Peer] = {}
        self._closed = False

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def run(self) -> None:
        """Answer until closed."""
        while not self._closed:
            self.turn(0.2)
        for guest in list(self._guests):
            self._dismiss(guest)
        self._selector.close()
        self._listener.close()

    def close(self) -> None:
        """Let `run` come to an end."""
        self._closed = True

    def turn(self, seconds: float) -> None:
        """Answer whoever speaks within so many seconds."""
        for key, _ in self._selector.select(seconds):
            if key.fileobj is self._listener:
                self._welcome()
            else:
                assert isinstance(key.fileobj, socket.socket)
                self._echo(key.fileobj)
        idle = time.monotonic() - _IDLE_SECONDS
        for guest in [guest for guest, guest_state in self._guests.items() if guest_state.heard < idle]:
            self._dismiss(guest)

    def _welcome(self) -> None:
        with suppress(OSError):
            guest, _ = self._listener.accept()
            if len(self._guests) >= _MOST_CONNECTIONS:
                guest.close()
                return
            guest.settimeout(1.0)
            guest.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._guests[guest] = _Peer(0, time.monotonic())
            self._selector.register(guest, selectors.EVENT_READ)

    def _echo(self, guest: socket.socket) -> None:
        guest_state = self._guests[guest]
        try:
            data = guest.recv(SIZE)
            guest.sendall(data)
        except OSError:
            data = b""
        guest_state.bytes += len(data)
        guest_state.heard = time.monotonic()
        if not data or guest_state.bytes > SIZE * _MOST_MESSAGES:
            self._dismiss(guest)

    def _dismiss(self, guest: socket.socket) -> None:
        self._selector.unregister(guest)
        del self._guests[guest]
        guest.close()

"""Round trips on loopback: they are timed, answered and bounded."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.commands import run
from tests.support.ports import HOST, free_port
from tests.support.services import node

from tierwise.daemons import round_trip
from tierwise.daemons.round_trip import SIZE, Answerer, measure


@pytest.fixture(name="port")
def _port() -> Iterator[int]:
    """Somebody who answers."""
    answerer = Answerer(HOST, 0)
    thread = threading.Thread(target=answerer.run)
    thread.start()
    yield answerer.port
    answerer.close()
    thread.join()


def test_every_round_trip_is_timed(port: int) -> None:
    """As many as asked for, each longer than nothing; the first few are not counted."""
    times = measure(HOST, port, count=20, timeout=60.0)

    assert 20 == len(times)
    assert all(time > 0 for time in times)


def test_who_does_not_answer_as_a_probe_is_refused() -> None:
    """A server that speaks first, one that hangs up, and none at all."""
    with socket.create_server((HOST, 0)) as other:
        port = other.getsockname()[1]

        def speak() -> None:
            guest, _ = other.accept()
            guest.sendall(b"220 mail.example ready")
            guest.close()

        thread = threading.Thread(target=speak)
        thread.start()
        with pytest.raises(OSError, match=r"as a probe does|reset|closed"):
            measure(HOST, port, count=1, timeout=60.0)
        thread.join()
    with pytest.raises(OSError, match="refused"):
        measure(HOST, port, count=1, timeout=1.0)


def test_silence_ends_at_the_deadline() -> None:
    """Somebody who listens and never answers."""
    with socket.create_server((HOST, 0)) as other, pytest.raises(TimeoutError):
        measure(HOST, other.getsockname()[1], count=1, timeout=0.2)


def test_a_guest_who_sends_too_much_is_shown_out(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can use it to make traffic."""
    monkeypatch.setattr(round_trip, "_MOST_MESSAGES", 5)
    echoed = 0
    with socket.create_connection((HOST, port), timeout=60.0) as guest, suppress(ConnectionError):
        while echoed < 100 * SIZE:
            guest.sendall(b"x" * SIZE)
            data = guest.recv(SIZE)
            if not data:
                break
            echoed += len(data)
    assert echoed <= 6 * SIZE


def _file(tmp_path: Path, *names: str) -> Path:
    nodes = []
    for name, zone in zip(names, ("z1", "z2", "z3"), strict=False):
        made = node(name, f"r/{zone}")
        made["status"]["addresses"] = [{"type": "InternalIP", "address": HOST}]
        nodes.append(made)
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
    return file


def test_the_command_measures_and_prints_a_config_map(port: int, tmp_path: Path) -> None:
    """Three percentiles of every pair in which the node comes first."""
    file = _file(tmp_path, "n1", "n2", "n3")
    result = run("probe", "-f", file, "--node", "n1", "--port", port, "--count", 10, "--once", "--print")
    found = json.loads(result.stdout)

    assert 0 == result.exit_code, result.stderr
    assert ("ConfigMap", "netperf-metrics") == (found["kind"], found["metadata"]["name"])
    prefix = "netperf.p{}.latency.milliseconds.origin.n1.destination.{}"
    assert {prefix.format(p, n) for p in (50, 90, 99) for n in ("n2", "n3")} == set(found["data"])
    assert all(float(time) >= 0 for time in found["data"].values())


def test_a_node_that_does_not_answer_is_named(tmp_path: Path) -> None:
    """What was not measured has no entry."""
    result = run("probe", "-f", _file(tmp_path, "n1", "n2"), "--node", "n1", "--port", free_port(), "--once", "--print")

    assert 0 == result.exit_code
    assert {} == json.loads(result.stdout)["data"]
    assert "node n2 does not answer" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--print"], "Give the nodes with -f, or --answer"),
        (["-f", "FILE", "--print"], "Name the node"),
        (["-f", "FILE", "--node", "n1"], "or add --print"),
        (["-f", "FILE", "--node", "nosuch", "--once", "--print"], "Node nosuch: there is no such node"),
    ],
)
def test_mistakes_are_named(words: list[str], said: str, tmp_path: Path) -> None:
    """One line, exit status 2."""
    file = str(_file(tmp_path, "n1"))
    result = run("probe", *(file if word == "FILE" else word for word in words))

    assert 2 == result.exit_code
    assert said in result.stderr


def test_a_port_that_is_taken_is_named() -> None:
    """Not a page of traceback."""
    with socket.create_server((HOST, 0)) as taken:
        result = run("probe", "--answer", "--host", HOST, "--port", taken.getsockname()[1])

    assert 2 == result.exit_code
    assert "cannot answer on" in result.stderr

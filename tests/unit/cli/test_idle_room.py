"""Room that is kept idle, where people look: `top`, the JSON of `schedule`, the queues of the page, and metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from tests.support.boards import scheduled
from tests.support.commands import answer, manifests, run
from tests.support.draw import draw
from tests.support.reservations import HOUR, NOW, in_namespace, job, profile, running, stopped

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.explain.board.board import Board
from tierwise.port import Objects
from tierwise.runtime.metrics import Metrics
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build

EVIL = stopped(in_namespace("evil", running("tiny", "n0", ends_in=20 * HOUR)), 80_000)
WAITS: list[Raw] = [
    *draw("r0[n0 n1 n2 n3]", node="gpu=8").manifests,
    *EVIL,
    *in_namespace("evil", job("big", 4, turn=1)),
]
CONFIG = """
actions: "enqueue, allocate, backfill"
configurations:
- name: allocate
  arguments: {reservations: easy}
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: network-topology-aware}]
"""


@pytest.fixture
def files(tmp_path: Path) -> list[object]:
    """The options that name a cluster in which three nodes are kept idle."""
    config = tmp_path / "easy.conf"
    config.write_text(CONFIG)
    return ["-f", manifests(tmp_path, *WAITS), "--config", config, "--now", format_time(NOW)]


def test_top_says_for_whom_nodes_are_kept(files: list[object]) -> None:
    """By namespace and queue; and nothing where nothing is kept."""
    kept: Any = answer("top", *files)["idleRoom"]
    text = run("top", *files).stdout

    assert [{"namespace": "evil", "queue": "default", "nodes": 3.0}] == kept
    assert "Kept idle for jobs" in text
    assert "evil       default      3" in text
    assert "idleRoom" not in answer("top", *files[:2])


def test_schedule_says_it_in_its_json(files: list[object]) -> None:
    """With the node-hours that are used."""
    found: Any = answer("schedule", *files)["idleRoom"]

    assert [("evil", "default", 3.0)] == [(one["namespace"], one["queue"], one["nodes"]) for one in found]


def test_the_page_says_it_of_each_queue() -> None:
    """Beside what the queue uses."""
    objects = Objects.of((codec.decode(raw), raw) for raw in WAITS)
    wire: Any = Board(scheduled(objects, profile(), now=NOW)).wire()

    assert {"default": [("evil", 3.0)]} == {
        queue["name"]: [(one["namespace"], one["nodes"]) for one in queue["idle"]] for queue in wire["queues"]
    }


def test_it_is_measured() -> None:
    """Gauges of nodes and node-hours, which are gone when nothing is kept any more."""
    registry = CollectorRegistry()
    metrics, owner = Metrics(registry), {"namespace": "evil", "queue": "default"}
    given, seen = (
        profile(),
        [build(Objects.of((codec.decode(r), r) for r in raws), NOW, profile()) for raws in (WAITS, EVIL)],
    )
    metrics.observe(seen[0], cycle(seen[0], given), {})

    assert 3.0 == registry.get_sample_value("tierwise_idle_room_nodes", owner)
    assert 0.0 == registry.get_sample_value("tierwise_idle_room_node_hours", owner)

    metrics.observe(seen[1], cycle(seen[1], given), {})
    assert registry.get_sample_value("tierwise_idle_room_nodes", owner) is None

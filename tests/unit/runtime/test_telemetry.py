"""Telemetry of a loop on the embedded cluster, and the server that shows it."""

from __future__ import annotations

import json
import logging
import socket
import urllib.request

import pytest
from tests.support.draw import draw, gang, objects_of
from tests.support.ports import free_ports

from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.config.profile import DEFAULT
from tierwise.kube.cluster import ConnectionFigures
from tierwise.port import Key, Update
from tierwise.runtime.listener import listening, place
from tierwise.runtime.loop import Loop
from tierwise.runtime.metrics import registry
from tierwise.runtime.probes import debug, probes
from tierwise.runtime.profile_run import SchedulerProfile
from tierwise.runtime.telemetry import Telemetry
from tierwise.scheduler.guard import Crash
from tierwise.sim.cluster.store import EmbeddedCluster

WORLD = objects_of(
    draw("r0[n0 n1]", node="gpu=4"),
    gang("fits", tasks=1, each="gpu=4", within=1),
    gang("waits", tasks=4, each="gpu=4", within=1),
)


class Connection:
    def figures(self) -> ConnectionFigures:
        return ConnectionFigures(leading=True, binds=2, lag={"Pod": 0.5}, missed={"Pod": 0}, losses=2)


def _loop(telemetry: Telemetry) -> Loop:
    names = frozenset({"tierwise", "volcano", "default-scheduler", ""})
    moments = iter(range(100))
    return Loop(
        EmbeddedCluster(WORLD),
        [SchedulerProfile(names, DEFAULT)],
        clock=lambda: float(next(moments)),
        ticks=lambda: 0.0,
        observers=[telemetry],
    )


def test_turns_are_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """A gang that keeps waiting for the same reason is logged once, and counted every time."""
    found = registry()
    loop = _loop(Telemetry(found, Connection()))

    with caplog.at_level(logging.INFO, "tierwise.runtime.telemetry"):
        loop.run_once()
        loop.run_once()
        loop.run_once()

    lines = [record for record in caplog.records if record.name == "tierwise.runtime.telemetry"]
    told = [(record.getMessage(), getattr(record, "fields", {})["job"]) for record in lines]
    assert 1 == told.count(("bound", "default/fits"))
    assert told.count(("waiting", "default/waits")) < 3
    assert 3 == found.get_sample_value("tierwise_cycles_total")
    assert 1 == found.get_sample_value("tierwise_effects_total", {"effect": "Bind", "ok": "true"})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [({"unschedulable": True}, [1, 0]), ({"taints": [{"key": "dedicated", "effect": "PreferNoSchedule"}]}, [0, 0])],
    ids=["another reason", "the same reason, found anew"],
)
def test_another_reason_is_news(caplog: pytest.LogCaptureFixture, spec: Raw, expected: list[int]) -> None:
    """A gang that waits is logged again, and once, where it waits for something else than before a node changed."""
    cluster, telemetry = EmbeddedCluster(WORLD), Telemetry(registry(), Connection())
    scheduler = SchedulerProfile(frozenset({"tierwise", "volcano", "default-scheduler", ""}), DEFAULT)
    loop = Loop(cluster, [scheduler], clock=lambda: 0.0, ticks=lambda: 0.0, observers=[telemetry])

    def told() -> int:
        caplog.clear()
        with caplog.at_level(logging.INFO, "tierwise.runtime.telemetry"):
            loop.run_once()
        return [record.getMessage() for record in caplog.records].count("waiting")

    told()
    assert 0 == [told() for _ in range(3)][-1]
    node = cluster.read().raw(Key("", "Node", "", "n0"))
    assert node is not None
    cluster.apply([Update(Key("", "Node", "", "n0"), {**node, "spec": spec})])
    assert expected == [told(), told()]


def test_crashes_are_counted_by_stage_and_kind() -> None:
    """An alert can tell that objects are set aside, and where."""
    found = registry()
    telemetry = Telemetry(found, Connection())
    for key in (Key("", "Pod", "default", "evil"), None):
        telemetry.crashed(Crash("scheduling", key, "ValueError", ""))

    for kind in ("Pod", ""):
        assert 1 == found.get_sample_value("tierwise_crashes_total", {"stage": "scheduling", "kind": kind})


def test_the_pages_show_the_turn_and_the_connection() -> None:
    """Over HTTP, from a thread of its own: the last cycle, and figures as they are now."""
    found = registry()
    telemetry = Telemetry(found, Connection())
    _loop(telemetry).run_once()
    app = probes(found, live=lambda: "", ready=lambda: "", refresh=telemetry.refresh)
    port, apart = free_ports(2)

    with listening(app, "127.0.0.1", port), listening(debug(telemetry.last), "127.0.0.1", apart):
        cycle = json.loads(_get(apart, "/debug/cycle"))
        metrics = _get(port, "/metrics").decode()

    assert ["default/fits"] == [decision["job"] for decision in cycle["decisions"]]
    assert "tierwise_binds_in_flight 2.0" in metrics
    assert 'tierwise_watch_lag_seconds{kind="Pod"} 0.5' in metrics
    assert "tierwise_leader 1.0" in metrics
    assert "tierwise_lease_losses_total 2.0" in metrics
    assert "_created" not in metrics


def test_a_place_that_is_taken_is_bad_input() -> None:
    """One line says where, and nothing is left running."""
    app = probes(registry(), live=lambda: "", ready=lambda: "")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1:{port}"), listening(app, "127.0.0.1", port):
            pass


@pytest.mark.parametrize(
    ("text", "expected"),
    [(":8080", ("0.0.0.0", 8080)), ("127.0.0.1:1", ("127.0.0.1", 1)), ("[::1]:9", ("::1", 9))],
)
def test_places(text: str, expected: tuple[str, int]) -> None:
    """Host and port, the host left out where it is every one."""
    assert expected == place(text)


@pytest.mark.parametrize("text", ["8080", "a:b", "a:70000", ""])
def test_what_is_no_place(text: str) -> None:
    """Anything else is refused."""
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        place(text)


def _get(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        found: bytes = answer.read()
        return found


def test_uses_queues_and_attention_are_counted_when_metrics_are_asked_for() -> None:
    """By the last cycle: what is used of what there is, by queue, which jobs wait, and what there is to look at."""
    metrics = registry()
    telemetry = Telemetry(metrics, Connection())
    telemetry.review()  # before any cycle there is nothing to tell
    loop = _loop(telemetry)
    loop.run_once()
    loop.run_once()
    telemetry.review()

    def value(name: str, **labels: str) -> float | None:
        return metrics.get_sample_value(name, labels)

    gpu = "nvidia.com/gpu"
    assert (8.0, 4.0) == tuple(value("tierwise_resource_units", resource=gpu, state=s) for s in ("total", "used"))
    assert 4.0 == value("tierwise_queue_units", queue="default", state="used")
    assert 1.0 == value("tierwise_queue_jobs_waiting", queue="default")
    assert 0.0 == value("tierwise_attention", kind="Overdue")

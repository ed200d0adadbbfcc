"""Metrics of a real cycle, and the page and the dashboard that speak of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry
from tests.support import devices, volumes
from tests.support.draw import Gang, World, draw, gang, objects_of

from tierwise.config.profile import DEFAULT
from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.runtime.metrics import AdmissionMetrics, Metrics, registry, tell_features
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/reference/metrics.md"
DASHBOARD = ROOT / "deploy/grafana/tierwise.json"
WORLD = draw("s0: r0[n0 n1] r1[n2 n3]", node="gpu=4", running="n0:gpu=3")
FITS = gang("fits", tasks=2, each="gpu=4", within=1)
WAITS = gang("waits", tasks=4, each="gpu=4", within=1)


def _cycle(world: World, *gangs: Gang) -> tuple[Snapshot, CycleReport]:
    snapshot = build(objects_of(world, *gangs), 7.5)
    return snapshot, cycle(snapshot, DEFAULT)


def _undone() -> tuple[Snapshot, CycleReport]:
    """A cycle that takes back a choice of volumes which has come to nothing."""
    marks = {"tierwise.io/selected-node": "n0", "tierwise.io/selected-at": "1970-01-01T00:00:00Z"}
    world = volumes.objects(
        volumes.node("n0"), volumes.storage_class(), volumes.claim("c", annotations=marks), volumes.pod("p", "c")
    )
    snapshot = build(world, 700.0)
    return snapshot, cycle(snapshot, DEFAULT)


def _all() -> CollectorRegistry:
    """A registry in which every metric has been used."""
    found = registry()
    metrics, admission = Metrics(found), AdmissionMetrics(found)
    tell_features(found, [])
    metrics.observe(*_undone(), {})
    snapshot, report = _cycle(WORLD, FITS, WAITS)
    metrics.observe(snapshot, report, {"decide": 0.01})
    metrics.uses(snapshot)
    metrics.set("tierwise_attention", 1, "Overdue")
    metrics.set("tierwise_binds_in_flight", 3)
    metrics.slow_writes({"default": (2, 3.0)})
    for name in ("tierwise_idle_room_nodes", "tierwise_idle_room_node_hours"):
        metrics.set(name, 3, "default", "default")
    for name in ("tierwise_queue_used_ratio", "tierwise_queue_used_share"):
        metrics.set(name, 1, "default")
    metrics.set("tierwise_told_later", 2, "events")
    metrics.set("tierwise_told_later_seconds", 3.0, "events")
    metrics.count("tierwise_effects_total", "Bind", "true")
    metrics.set("tierwise_watch_lag_seconds", 0.5, "Pod")
    metrics.set("tierwise_cache_drift_objects", 0, "Pod")
    metrics.set("tierwise_leader", 1)
    metrics.count("tierwise_crashes_total", "scheduling", "Pod")
    metrics.count("tierwise_plugin_failures_total", "rack-cooling", "Scorer")
    admission.reviewed("validate", "Queue", allowed=True, seconds=0.01)
    admission.set("tierwise_certificate_expiry_timestamp_seconds", 1e9)
    return found


def _described(found: CollectorRegistry) -> set[tuple[str, str, str, str]]:
    """Name, type, labels and help of every metric, as a row of the page has them."""
    rows = set()
    for metric in found.collect():
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        labels = {label for sample in metric.samples for label in sample.labels if label != "le"}
        shown = ", ".join(f"`{label}`" for label in sorted(labels))
        rows.add((name, metric.type, shown, metric.documentation))
    return rows


def test_a_cycle_is_counted() -> None:
    """Outcomes by reason, pods, domains and tiers are those of the report."""
    found = CollectorRegistry()
    snapshot, report = _cycle(WORLD, FITS, WAITS)
    metrics = Metrics(found, gangs=(1, 8))

    metrics.observe(snapshot, report, {"decide": 0.25})
    metrics.observe(snapshot, report, {"decide": 0.75})

    value = found.get_sample_value
    reason = report.rejections["default/waits"].reason.code
    assert 2 == value("tierwise_cycles_total")
    assert 2 == value("tierwise_gangs_total", {"outcome": "bound", "reason": ""})
    assert 2 == value("tierwise_gangs_total", {"outcome": "waiting", "reason": reason})
    assert 1 == value("tierwise_gangs_waiting", {"reason": reason})
    assert 4 == value("tierwise_pods_total", {"outcome": "bound"})
    assert 2 == value("tierwise_gang_tier_total", {"tier": "1"})
    assert 2 * report.search_counts.domains == value("tierwise_domains_evaluated_total")
    assert 1.0 == value("tierwise_stage_duration_seconds_sum", {"stage": "decide"})


def test_a_reason_that_nobody_waits_for_any_more_is_gone() -> None:
    """A gauge of the last cycle shows nothing of the one before."""
    found = CollectorRegistry()
    metrics = Metrics(found)
    snapshot, report = _cycle(WORLD, WAITS)

    metrics.observe(snapshot, report, {})
    metrics.observe(*_cycle(WORLD), {})

    reason = report.rejections["default/waits"].reason.code
    assert found.get_sample_value("tierwise_gangs_waiting", {"reason": reason}) is None


def test_claims_that_wait_and_choices_that_are_undone_are_counted() -> None:
    """The claim still has its mark in the cycle that takes it back."""
    found = registry()
    Metrics(found).observe(*_undone(), {})

    kind = {"kind": "PersistentVolumeClaim"}
    assert 1 == found.get_sample_value("tierwise_claims_waiting", kind)
    assert 1 == found.get_sample_value("tierwise_claims_undone_total", kind | {"reason": "VolumeBindingFailed"})


def test_devices_that_are_not_ready_in_time_are_counted() -> None:
    """In the same metrics as volumes, by the kind of their claims."""
    world = devices.objects(
        devices.node("n0"),
        devices.device_class(),
        devices.prepared("c", since="1970-01-01T00:00:01Z"),
        devices.pod("p", "c"),
    )
    found = registry()
    metrics = Metrics(found)
    for now in (100.0, 700.0):
        snapshot = build(world, now)
        metrics.observe(snapshot, cycle(snapshot, DEFAULT), {})

    kind = {"kind": "ResourceClaim"}
    assert 1 == found.get_sample_value("tierwise_claims_waiting", kind)
    assert 1 == found.get_sample_value("tierwise_claims_undone_total", kind | {"reason": "DeviceBindingTimedOut"})


def test_the_page_lists_every_metric() -> None:
    """Name, type, labels and meaning on the page are those of the code."""
    rows = re.findall(r"^\| `(tierwise_\w+)` \| (\w+) \| (.*?) ?\| (.+?) \|$", PAGE.read_text(), re.MULTILINE)

    assert _described(_all()) == set(rows)


def test_the_dashboard_asks_only_for_metrics_that_exist() -> None:
    """Every name in a query is one that Prometheus gets, with labels that it has."""
    given_names = {sample.name for metric in _all().collect() for sample in metric.samples}

    asked = {name for query in _queries() for name in re.findall(r"\btierwise_\w+", query)}

    assert set() == asked - given_names
    assert len(asked) >= 12


def test_the_alerts_ask_only_for_metrics_that_exist() -> None:
    """A rule on a metric that nobody exports would never fire."""
    given_names = {sample.name for metric in _all().collect() for sample in metric.samples}
    rules = (ROOT / "deploy/kustomize/components/monitoring/rules.yaml").read_text()

    assert set() == set(re.findall(r"\btierwise_\w+", rules)) - given_names


def test_the_page_says_what_to_do_about_every_alert() -> None:
    """No more and no fewer; and every metric that it names exists."""
    rules = (ROOT / "deploy/kustomize/components/monitoring/rules.yaml").read_text()
    page = (ROOT / "docs/guides/operations.md").read_text()
    given_names = {sample.name for metric in _all().collect() for sample in metric.samples}
    given_names |= {name.removesuffix("_bucket") for name in given_names}

    assert set(re.findall(r"alert: (\w+)", rules)) == set(re.findall(r"^\| `(Tierwise\w+)` \|", page, re.MULTILINE))
    assert set() == set(re.findall(r"\btierwise_\w+", page)) - given_names


def _queries() -> Iterator[str]:
    board = json.loads(DASHBOARD.read_text())
    for panel in board["panels"]:
        assert panel.get("title")
        for target in panel.get("targets", ()):
            yield target["expr"]

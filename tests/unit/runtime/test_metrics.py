"""Metrics of a real cycle, and the page and the dashboard that speak of them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from tests.draw import Gang, World, draw, gang, objects_of

from tierwise.config.profile import DEFAULT
from tierwise.dialects.build import build
from tierwise.explain.slots import TierSlots, slots_by_tier
from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.runtime.metrics import STAGES, AdmissionMetrics, Metrics, registry
from tierwise.scheduler import cycle

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/reference/metrics.md"
DASHBOARD = ROOT / "deploy/grafana/tierwise.json"
WORLD = draw("s0: r0[n0 n1] r1[n2 n3]", node="gpu=4", running="n0:gpu=3")
FITS = gang("fits", tasks=2, each="gpu=4", within=1)
WAITS = gang("waits", tasks=4, each="gpu=4", within=1)


def _cycle(world: World, *gangs: Gang) -> tuple[Snapshot, CycleReport]:
    snapshot = build(objects_of(world, *gangs), 7.5)
    return snapshot, cycle(snapshot, DEFAULT)


def _all() -> CollectorRegistry:
    """A registry in which every metric has been used."""
    found = registry()
    metrics, admission = Metrics(found), AdmissionMetrics(found)
    metrics.observe(*_cycle(WORLD, FITS, WAITS), dict.fromkeys(STAGES, 0.01))
    metrics.binds_in_flight(3)
    metrics.effect("Bind", ok=True)
    metrics.watch_lag("Pod", 0.5)
    metrics.cache_drift("Pod", 0)
    metrics.leads(yes=True)
    admission.reviewed("validate", "Queue", allowed=True, seconds=0.01)
    admission.certificate(1e9)
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
    assert 2 * report.work.domains == value("tierwise_domains_evaluated_total")
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


def test_free_slots_are_those_that_a_gang_can_use() -> None:
    """Thirteen devices are idle; gangs of four find three whole nodes, gangs of eight one rack, or the spine once."""
    snapshot, _ = _cycle(WORLD)

    found = slots_by_tier(snapshot, gangs=(1, 4, 8))

    assert [TierSlots(1, 1, 13, 13), TierSlots(1, 4, 13, 12), TierSlots(1, 8, 13, 8)] == found[:3]
    assert TierSlots(2, 8, 13, 8) in found
    assert 1 - 8 / 13 == found[2].fragmentation


def test_a_slot_may_be_a_whole_node() -> None:
    """With a slot of four devices, the node that has one left counts for nothing."""
    snapshot, _ = _cycle(WORLD)

    assert TierSlots(1, 2, 3, 2) == slots_by_tier(snapshot, {"nvidia.com/gpu": 4}, gangs=(2,))[0]


@given(st.lists(st.integers(0, 4), min_size=4, max_size=4), st.integers(1, 9))
def test_slots_agree_with_counting_node_by_node(used: list[int], size: int) -> None:
    """The arrays give what adding up nodes rack by rack gives."""
    running = " ".join(f"n{n}:gpu={number}" for n, number in enumerate(used) if number)
    snapshot, _ = _cycle(draw("s0: r0[n0 n1] r1[n2 n3]", node="gpu=4", running=running))
    rooms = Counter({rack: sum(4 - used[n] for n in rows) for rack, rows in enumerate(((0, 1), (2, 3)))})

    expected = TierSlots(1, size, rooms.total(), sum(room // size * size for room in rooms.values()))

    assert expected == slots_by_tier(snapshot, {"nvidia.com/gpu": 1}, gangs=(size,))[0]


def test_a_cordoned_node_has_no_slots() -> None:
    """Room that nobody may use is not free."""
    snapshot, _ = _cycle(draw("r0[n0 n1]", node="gpu=4", cordoned="n1"))

    assert 4 == slots_by_tier(snapshot, gangs=(1,))[0].free


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


def _queries() -> Iterator[str]:
    board = json.loads(DASHBOARD.read_text())
    for panel in board["panels"]:
        assert panel.get("title")
        for target in panel.get("targets", ()):
            yield target["expr"]

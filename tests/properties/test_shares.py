"""Shares that remember: from any start long-run shares come to the weights, and nobody gains by tricks."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.shares import HOUR, Demand, SharedSite, remembers
from tests.support.sight import saw, sees

PLUGINS = st.sampled_from([("proportion",), ("capacity",), ("drf",), ()])
WEIGHTS = st.lists(st.integers(1, 4), min_size=2, max_size=4)
STEP = HOUR / 4


def _site(plugins: tuple[str, ...], queues: dict[str, Demand], **settings: Any) -> SharedSite:
    arguments = {"half_life": "8h", **settings}
    return SharedSite(remembers(*plugins, **arguments), queues, nodes=8, step=STEP)


@sees(moved=1)
@settings(max_examples=5)
@given(plugins=PLUGINS, weights=WEIGHTS, alone=st.integers(0, 24))
def test_long_run_shares_come_to_the_weights(plugins: tuple[str, ...], weights: list[int], alone: int) -> None:
    """The first queue had the site for itself for some hours; three half-lives later a day is shared by weight."""
    queues = {
        f"q{i}": Demand(weight=weight, lasts=STEP, begins=0.0 if not i else float(alone))
        for i, weight in enumerate(weights)
    }
    site = _site(plugins, queues)
    site.run(alone + 24)
    site.forget()
    site.run(24)

    saw(moved=int(alone > 8))
    for i, weight in enumerate(weights):
        assert abs(site.share(f"q{i}") - weight / sum(weights)) < 0.08


@settings(max_examples=5)
@given(plugins=PLUGINS, alone=st.integers(16, 40))
def test_an_idle_queue_regains_its_place_in_about_a_half_life(plugins: tuple[str, ...], alone: int) -> None:
    """The other had everything: within two half-lives both have used the same, as far as it counts."""
    queues = {"a": Demand(lasts=STEP), "b": Demand(lasts=STEP, begins=float(alone))}
    site = _site(plugins, queues)
    site.run(alone)
    before = site.last.turns.usage.standings["a"].used
    site.run(4)
    early = site.last.turns.usage.standings["b"].used
    site.run(12)
    late = site.last.turns.usage.standings["b"].used

    assert before > 0.99
    assert 0.1 < early < 0.55
    assert 0.4 < late < 0.6


@settings(max_examples=5)
@given(plugins=PLUGINS, parts=st.integers(2, 4))
def test_nobody_gains_by_splitting_jobs(plugins: tuple[str, ...], parts: int) -> None:
    """One queue runs jobs of several nodes, the other the same in single ones."""
    queues = {
        "plain": Demand(nodes=parts, lasts=STEP, waiting=8),
        "split": Demand(nodes=1, lasts=STEP, waiting=8 * parts),
    }
    site = _site(plugins, queues, entry="5m")
    site.run(8)
    site.forget()
    site.run(24)

    assert site.share("split") < 0.5 + 0.1


@settings(max_examples=5)
@given(plugins=PLUGINS)
def test_nobody_gains_by_other_names(plugins: tuple[str, ...]) -> None:
    """Names that sort first, and a new one for each job."""
    names = {"a": "zzz", "b": "000"}
    queues = {queue: Demand(lasts=STEP) for queue in names}
    profile = remembers(*plugins, half_life="8h")
    site = SharedSite(profile, queues, step=STEP, names=lambda queue, number: f"{names[queue]}-{number}")
    site.run(8)
    site.forget()
    site.run(24)

    assert abs(site.share("b") - 0.5) < 0.05


@settings(max_examples=5)
@given(plugins=PLUGINS)
def test_nobody_gains_by_cancelling(plugins: tuple[str, ...]) -> None:
    """One cancels and submits again in every cycle, the other runs its jobs to the end."""
    queues = {"steady": Demand(lasts=4 * STEP), "churns": Demand(lasts=STEP / 2)}
    site = _site(plugins, queues, entry="5m")
    site.run(8)
    site.forget()
    site.run(24)

    assert site.share("churns") < 0.5 + 0.05


@settings(max_examples=5)
@given(plugins=PLUGINS, nodes=st.integers(2, 3))
def test_a_wide_gang_starts_within_its_bound(plugins: tuple[str, ...], nodes: int) -> None:
    """At a load above one, with reservations: a gang that waits beside a stream of single pods."""
    queues = {"a": Demand(lasts=STEP, waiting=12), "b": Demand(lasts=STEP, waiting=12)}
    actions = {"allocate": {"reservations": "conservative", "reservationAging": "1h"}}
    site = SharedSite(remembers(*plugins, half_life="8h", aging="4h", actions=actions), queues, nodes=8, step=STEP)
    site.run(2)
    site.submit("a", "wide", nodes, HOUR)
    site.run(8)

    assert "wide" in site.starts
    made, started = site.starts["wide"]
    assert started - made <= 6 * HOUR

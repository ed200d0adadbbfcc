"""Sparing victims by keeping count gives what asking anew for every trial gives."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples

from tierwise.actions.eviction.feasibility import fewest_by_trial, fits_in, needed_by_trial
from tierwise.actions.placement.demand import demand
from tierwise.bench.evictions import EVICTING, scattered
from tierwise.bench.worlds import flat_cluster
from tierwise.framework.bundle import Bundles
from tierwise.framework.extension import Preemptor, Purpose
from tierwise.model.topology import ROOT
from tierwise.scheduler import open_cycle


@given(pick=st.randoms(use_true_random=False))
@examples(45)
def test_counting_equals_asking(pick: Random) -> None:
    """Whatever is spared in whatever stretches, and whoever might suffice is not passed over."""
    full = scattered(flat_cluster(2, 6), 1, need=pick.randrange(1, 5), tier=2)
    cycle = open_cycle(full, EVICTING)
    job = full.jobs[-1]
    preemptor = Preemptor(Purpose.PREEMPT, job, job.subs[0].request, gang=True, running=cycle.running)
    fits = fits_in(cycle, preemptor, demand(cycle, job), ROOT)
    tasks = np.array(pick.sample(range(len(cycle.running)), pick.randrange(40, len(cycle.running))))
    parts = np.split(tasks, sorted(pick.sample(range(1, len(tasks)), pick.randrange(4, 40))))
    fixed, parts = np.sort(parts[0]), [np.sort(part) for part in parts[1:]]
    victims, start = np.concatenate(parts), np.concatenate(([0], np.cumsum([len(part) for part in parts])))

    assert fewest_by_trial(fits, victims, start) == fits.fewest(victims, start)
    assert needed_by_trial(fits, victims, start, fixed) == fits.needed(victims, start, fixed)

    count = len(parts)
    nothing, costs = np.zeros(count, dtype=np.int64), np.zeros(count)
    bundles = Bundles(victims, start, nothing, np.ones(count, dtype=bool), costs, costs, nothing)
    enough = fits.may_suffice(bundles, fits.room_without(fixed)).tolist()
    for part, may in zip(parts, enough, strict=True):
        assert may or not fits.without(np.concatenate([fixed, part]))

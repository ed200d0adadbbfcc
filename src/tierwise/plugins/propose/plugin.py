"""propose: recommends the domain and the split of a gang's units that serve an objective best.

Asked gradient by gradient, so only the tightest tier that holds the gang is weighed. Within a bound on its work the
answer is exact; beyond it a greedy split is used, or the plugin abstains. docs/plugins/propose.md states objectives,
arguments and measured differences. `sortBySize` lets larger gangs of equal priority go first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tierwise.config.arguments import flag, number
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Abstained, Arguments, CycleView, JobOrder, Proposal, Proposer, Units
from tierwise.model.arrays import Ints
from tierwise.model.job import Job
from tierwise.model.topology import ROOT
from tierwise.plugins.propose import objectives
from tierwise.plugins.propose.min_cost_cover import CoverCosts, Split, cells, cover, greedy
from tierwise.plugins.propose.objectives import WaitingSizes, damage_cells, least_damage

__all__ = ["Propose"]

_NAME = "propose"
_OBJECTIVES = ("fewest-domains", "pack", "least-damage")
_CELLS = 2_000_000
_GREEDY = 8
"""How many candidates are split greedily where the exact programme is too dear."""


@takes_part(JobOrder, Proposer, rises_with_use=True)
class Propose:
    """Weighs the candidates of a gradient, cheapest bound first, until no other can be better."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._topology = view.topology
        self._ledger = view.ledger
        objective = str(arguments.get("objective", ""))
        self._objective = objective if objective in _OBJECTIVES else _OBJECTIVES[0]
        self._cells = int(number(arguments, "cells", _CELLS))
        self._by_size = flag(arguments, "sortBySize", default=False)
        self._sizes = WaitingSizes(view)

    # -- order

    def job_key(self, job: Job) -> tuple[float, ...]:
        """Larger first: by the largest share of the cluster that its pending tasks ask for."""
        if not self._by_size:
            return ()
        total = np.maximum(self._ledger.domain_allocatable[:, ROOT], 1)
        requested = sum(
            (pod_set.shape.request * len(pod_set.tasks) for pod_set in job.pod_sets()), np.zeros_like(total)
        )
        return (-float((requested / total).max()),)

    # -- proposals

    def propose(self, units: Units, candidates: Ints) -> Proposal | Abstained | None:
        """The candidate and the split with the lowest price under the objective."""
        holding = np.sort(candidates[units.held[candidates] >= units.count])
        if not len(holding):
            return None
        if self._objective == "least-damage":
            return self._damage(units, holding)
        if self._objective == "pack":
            table = objectives.pack(self._topology, units)
            return self._weighed(units, holding, table, table.touch[holding], table.touch)
        fewest = objectives.fewest_domains(self._topology, units)
        if fewest is None:
            return Abstained(_NAME, "the tree has too many tiers and domains to count them in one number")
        bound = objectives.fewest_bound(self._topology, units, fewest, holding)
        return self._weighed(units, holding, fewest, bound, np.zeros(len(self._topology), dtype=np.int64))

    def _damage(self, units: Units, holding: Ints) -> Proposal | Abstained:
        if units.shape is None:
            return Abstained(_NAME, "the gang has pods of several kinds, and least-damage counts one")
        sizes = self._sizes.of(units)
        bound = np.zeros(len(holding), dtype=np.int64)
        work = damage_cells(self._topology, units)[holding]

        def solve(d: int) -> Split:
            return least_damage(self._topology, units, sizes, d)

        return self._cheapest(units, holding, bound, work, solve)

    def _weighed(self, units: Units, holding: Ints, table: CoverCosts, bound: Ints, base: Ints) -> Proposal | Abstained:
        """`base` is what choosing a candidate costs, besides what is touched below it."""
        if units.shape is None:
            return self._greedy(units, holding, table, bound)
        work = cells(self._topology, units)[holding]

        def solve(d: int) -> Split:
            split = cover(self._topology, units, table, d)
            return Split(split.price + int(base[d]), split.pieces, split.counts)

        proposal = self._cheapest(units, holding, bound, work, solve)
        if isinstance(proposal, Proposal) or self._objective == "pack":
            return proposal
        return self._greedy(units, holding, table, bound)

    def _cheapest(
        self, units: Units, holding: Ints, bound: Ints, work: Ints, solve: Callable[[int], Split]
    ) -> Proposal | Abstained:
        """Solve candidate after candidate, until the bounds of the others are no lower or the cells are used up."""
        best: tuple[int, Split] | None = None
        spent = 0
        how = "exact"
        for weighed, i in enumerate(self._in_order(units, holding, bound)):
            if best is not None and bound[i] >= best[1].price:
                break
            spent += int(work[i])
            if spent > self._cells:
                how = f"best of the {weighed} that {self._cells:,} cells allow"
                break
            offer = solve(int(holding[i]))
            if best is None or offer.price < best[1].price:
                best = (int(holding[i]), offer)
        if best is None:
            return Abstained(_NAME, f"{self._objective} would take more than {self._cells:,} cells")
        return self._proposal(*best, how, len(holding))

    def _greedy(self, units: Units, holding: Ints, table: CoverCosts, bound: Ints) -> Proposal | Abstained:
        best: tuple[int, Split] | None = None
        for i in self._in_order(units, holding, bound)[:_GREEDY]:
            split = greedy(self._topology, units, table, int(holding[i]))
            if split is not None and (best is None or split.price < best[1].price):
                best = (int(holding[i]), split)
        if best is None:
            return Abstained(_NAME, "the rooms of its kinds of pods do not add up in any domain")
        kind = "an estimate over its kinds of pods" if units.shape is None else "greedy, too large to be exact"
        return self._proposal(*best, kind, len(holding))

    def _in_order(self, units: Units, holding: Ints, bound: Ints) -> list[int]:
        """Cheapest bound first, then the fullest, then by name."""
        order: list[int] = np.lexsort((self._topology.rank[holding], units.held[holding], bound)).tolist()
        return order

    def _proposal(self, domain: int, split: Split, how: str, holding: int) -> Proposal:
        candidates_text = f"one of {holding} that hold it" if holding > 1 else "the only one that holds it"
        return Proposal(domain, split.pieces, split.counts, _NAME, f"{self._objective}, {how}; {candidates_text}")

"""coscheduling: gangs that start as one group, gathered in the network as they ask.

Koordinator's plugin of that name. `gang` counts minimums and the core finds places; this plugin rejects gang groups
that are incomplete, limits how far a gathered gang may spread, and gives the gather options, best first.
docs/plugins/coscheduling.md states arguments and order.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tierwise.config.arguments import flag
from tierwise.framework import extension as points
from tierwise.framework.declaration import takes_part
from tierwise.model.arrays import Bools, Floats, Ints, Rows
from tierwise.model.job import Gather, Job, Reason, SubJob
from tierwise.model.topology import LAYERS, ROOT

__all__ = ["Coscheduling"]

_NAME = "coscheduling"


@takes_part(points.Gate, points.Scorer, points.SearchSpace, ignores_names=True, scores_by_shape=True)
class Coscheduling:
    """Gates gang groups, and gathers gangs that ask for it if `awareNetworkTopology` is set."""

    def __init__(self, arguments: points.Arguments, view: points.CycleView) -> None:
        self._alternate = view.snapshot.alternate_topologies.get(LAYERS)
        self._topology = view.topology if self._alternate is None else self._alternate.topology
        self._rank = view.nodes.rank
        self._jobs = view.jobs
        self._aware = flag(arguments, "awareNetworkTopology", default=False)
        self._exists = len(self._topology) > 1 or bool(self._topology.tier_names)
        self._root_tier = int(self._topology.tier[ROOT])
        self._faults = [fault.text for fault in view.snapshot.faults if fault.code == "BrokenLayers"]

    # -- gates

    def admit(self, job: Job) -> Reason | None:
        """The layers that a gang names must exist in the network."""
        if not self._aware or job.gather is None:
            return None
        return self._unreadable(job.gather) or self._without_tree(job.gather) or self._unknown_layer(job.gather)

    def _unreadable(self, gather: Gather) -> Reason | None:
        if not gather.fault:
            return None
        return Reason("UnreadableGather", _NAME, f"its network constraints cannot be read: {gather.fault}")

    def _without_tree(self, gather: Gather) -> Reason | None:
        if self._exists or not _asks(gather):
            return None
        why = self._faults[0] if self._faults else 'there is no ClusterNetworkTopology named "default"'
        return Reason("NoTopology", _NAME, f"its pods must be gathered, and the cluster has no network topology: {why}")

    def _unknown_layer(self, gather: Gather) -> Reason | None:
        """A layer that limits must exist; one that is only preferred may not."""
        names = (*gather.within, *(name for name, _ in gather.multiples))
        unknown = next((name for name in names if name not in self._topology.tier_names), None)
        if unknown is None:
            return None
        layer_names = ", ".join(sorted(self._topology.tier_names, key=self._topology.tier_names.__getitem__))
        listed = f"whose layers are {layer_names}" if layer_names else "whose layers have no names"
        text = f'layer "{unknown}" is not in the network topology, {listed}'
        return Reason("UnknownLayer", _NAME, text)

    # -- search space

    def limit(self, gang: Job | SubJob) -> int | None:
        """The tightest layer that a gathered gang must not cross; the whole cluster if it names none.

        None if the layers are not the tree that rows follow: there only the gather options limit the gang.
        """
        gather = self._gather(gang if isinstance(gang, Job) else self._jobs[gang.job_number])
        if gather is None or self._alternate is not None:
            return None
        return self._limit(gather)

    def gradients(self, gang: Job | SubJob, within: int, *, evicting: bool = False) -> points.Gradients:
        """Candidate domains by tier, tightest first; used by the evicting actions."""
        limit = self.limit(gang)
        if limit is None:
            return (np.array([within]),)
        return self._topology.by_tier(within, limit)

    def _limit(self, gather: Gather) -> int:
        tiers = (self._topology.tier_names[name] for name in gather.within if name in self._topology.tier_names)
        return min(tiers, default=self._root_tier)

    def _gather(self, job: Job) -> Gather | None:
        """What a gang asks for and gets; a pod of no gang is scored instead."""
        gather = job.gather if job.declared and self._aware and self._exists else None
        if gather is not None and not gather.fault:
            return gather
        return None

    # -- gather options

    def gather_options(self, job: Job, count: int) -> tuple[points.GatherOption, ...]:
        """The options for gathering so many tasks of a job, best first; none if it does not ask for it."""
        gather = self._gather(job)
        if gather is None:
            return ()
        tiers = self._topology.tier_names
        multiples = tuple((tiers[name], number) for name, number in gather.multiples if name in tiers)
        prefer = tuple(tiers[name] for name in gather.prefer if name in tiers)
        outwards = [tier for tier in (0, *self._topology.at_tier) if tier <= self._limit(gather)]
        if not gather.parallel:
            return tuple(points.GatherOption(tier, multiples, prefer) for tier in outwards)
        pipeline = gather.pipeline if count % gather.pipeline == 0 else 1
        return tuple(_in_pipelines(outwards[1:] or outwards, multiples, prefer, pipeline))

    # -- nodes

    def effect(self, ask: points.Ask) -> points.ScoreEffect:
        return points.ScoreEffect.FIXED

    def stale(self, ask: points.Ask, row: int) -> slice:
        return slice(row, row)

    def score(self, ask: points.Ask, span: slice, fits: Bools) -> Floats | None:
        """A pod outside any gang is drawn to the pods of its selector: 100 for the nearest node, 0 for the farthest."""
        gather = ask.job.gather
        if gather is None or ask.job.declared or not self._aware:
            return None
        scores = np.zeros(len(self._rank))
        rows = self._by_nearness(gather, span, fits)
        scores[rows] = 100.0 - 100.0 * np.arange(len(rows)) / max(1, len(rows) - 1)
        return scores[span]

    def score_rows(self, ask: points.Ask, rows: Rows) -> float | None:
        """No node is preferred for a pod that no selector draws near others."""
        return 0.0 if ask.job.gather is None else None

    def _by_nearness(self, gather: Gather, span: slice, fits: Bools) -> Ints:
        """Rows of the network that fit: near those pods, then where few fit around them, then by name."""
        topology = self._topology
        nodes = len(self._rank)
        order = np.arange(nodes) if self._alternate is None else self._alternate.rows
        room = np.zeros(nodes, dtype=np.int64)
        room[span] = fits
        room = np.where((topology.leaf != ROOT) | (len(topology) == 1), room[order], 0)
        drawn = np.bincount(gather.drawn, minlength=nodes)[order]
        rows = np.flatnonzero(room)
        around = topology.around(topology.leaf[rows]).values()
        keys = [-drawn[rows], *(-topology.totals(drawn)[domains] for domains in around)]
        keys += [*(topology.totals(room)[domains] for domains in around), self._rank[order[rows]]]
        nearest: Ints = order[rows[np.lexsort(keys[::-1])]]
        return nearest


def _in_pipelines(
    tiers: list[int], multiples: tuple[tuple[int, int], ...], prefer: tuple[int, ...], pipeline: int
) -> Iterator[points.GatherOption]:
    """Outwards: each pipeline in one domain of a lower tier, the lowest first, and then wherever the job has room.

    Ranks are in their order; in multiples any order comes last, which tasks of several shapes may need.
    """
    for i, tier in enumerate(tiers):
        for lower in tiers[:i] if pipeline > 1 else ():
            yield points.GatherOption(tier, (*multiples, (lower, pipeline)), prefer, pipeline, by_name=True)
        for together in (pipeline, 1) if pipeline > 1 and multiples else (pipeline,):
            yield points.GatherOption(tier, multiples, prefer, together, by_name=True)


def _asks(gather: Gather) -> bool:
    """Whether more is asked than to stand near other pods, which comes to nothing where there is no tree."""
    return bool(gather.within or gather.prefer or gather.multiples or gather.parallel)

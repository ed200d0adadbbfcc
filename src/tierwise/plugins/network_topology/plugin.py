"""network-topology-aware: where a gang may be searched for, and which domains and nodes suit it best.

Arguments, formulas and defaults are Volcano's, with `unknownTierName: reject` added; how many domains an eviction may
weigh is an argument of the evicting actions here. docs/plugins/network-topology-aware.md states them all.
A soft constraint is a hard one whose limit is the virtual root (or, for a sub-job, its job's own limit).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import numpy as np

from tierwise.api.fabric import FABRIC
from tierwise.config.arguments import flag, number, words
from tierwise.framework import extension as points
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import CycleView
from tierwise.framework.ledger import Ledger
from tierwise.model.arrays import CPU, MEMORY, Bools, Floats, Ints, Rows, least_amounts, of_rows
from tierwise.model.job import Constraint, Gather, InnerGroup, Job, Policy, Reason, SubJob
from tierwise.model.topology import HYPERNODES, LABELS, ROOT, Topology, fabric_title, is_fabric

__all__ = ["NetworkTopologyAware"]

# Scores for pods without a topology of their own: fuller domains first, inner tiers weighing more than outer ones.
#
# Part of network-topology-aware. A tier t weighs fading^(t-1); a node that is in no domain of a tier counts as
# if that domain were full, so that pods which do not care leave the domains to gangs that do.


# How full domains would be with a request added: the bin-packing measure of network-topology-aware.
#
# Per weighted resource that is asked for: (used + request) / allocatable, averaged by weight; 0 where it would not
# fit. Whole columns are cheaper than picking from them, unless few are picked.


_MANY = 4
"""Where more than one domain in so many is asked about, all of them are measured at once."""


class DomainUsage:
    """Weighted fullness of the domains of a cycle; pipelined tasks count as used."""

    def __init__(self, view: CycleView, weights: dict[str, float]) -> None:
        self._ledger = view.ledger
        self._index = np.array([i for i, name in enumerate(view.axis.names) if name in weights], dtype=np.int64)
        self._weights = np.array([weights[view.axis.names[i]] for i in self._index])
        self._shares: dict[bytes, tuple[Ints, Ints, Floats]] = {}

    def weighs(self, request: Ints) -> bool:
        """Whether a request asks for anything that is weighed; else no domain is ever fuller than empty."""
        return bool((request[self._index] > 0).any())

    def of(self, request: Ints, domains: Rows) -> Floats:
        """Some domains, with one request added."""
        counted, allocatable, share = self._shares_of(request)
        many = not isinstance(domains, slice) and _MANY * len(domains) > share.shape[1]
        which = slice(None) if many else domains
        requested = request[counted, None]
        idle = of_rows(self._ledger.domain_idle, counted, which)
        ratio: Floats = np.add.reduce(share[:, which] * (allocatable[:, which] - idle + requested), axis=0)
        ratio[np.logical_or.reduce(idle < requested, axis=0)] = 0.0
        return ratio[domains] if many else ratio

    def sums(self, request: Ints, domains: Ints, copies: Ints) -> Floats:
        """Some domains, with so many requests added one after the other: the sum of the fullness after each."""
        counted, _, shares = self._shares_of(request)
        total = np.zeros(len(domains))
        over = np.zeros(len(domains), dtype=bool)
        for r, share in zip(counted.tolist(), shares, strict=True):
            requested = int(request[r])
            idle = self._ledger.domain_idle[r][domains]
            used = self._ledger.domain_allocatable[r][domains] - idle
            total += share[domains] * (copies * used + requested * (copies * (copies + 1) // 2))
            over |= idle < requested * copies
        total[over] = 0.0
        return total

    def _shares_of(self, request: Ints) -> tuple[Ints, Ints, Floats]:
        """The weighted resources that are asked for, what domains have of them, and what one unit adds to fullness."""
        asks = request[self._index] > 0
        key = asks.tobytes()
        shares = self._shares.get(key)
        if shares is None:
            counted = self._index[asks]
            weights = self._weights[asks]
            allocatable = self._ledger.domain_allocatable[counted]
            share = weights[:, None] / np.maximum(allocatable, 1) / max(float(weights.sum()), 1e-9)
            shares = self._shares[key] = counted, allocatable, share
        return shares


class TierDecay:
    """The tier-weighted fullness of the domains above each node."""

    def __init__(self, view: CycleView, fullness: DomainUsage, fading: float) -> None:
        self._topology = view.topology
        self._fullness = fullness
        self._fading = fading

    # Found when first asked for: gangs with a topology never do.

    @cached_property
    def _tier_weight(self) -> Floats:
        weight: Floats = np.power(self._fading, np.maximum(self._topology.tier - 1, 0).astype(float))
        return weight

    @cached_property
    def _sum(self) -> float:
        return _geometric(self._fading, int(self._topology.tier.min()), int(self._topology.tier.max()))

    @cached_property
    def _levels(self) -> list[tuple[Ints, Ints]]:
        """Domains below the root by their depth, outermost first, and their parents."""
        parent = self._topology.parent
        return [(level, parent[level]) for level in _levels(parent)[1:]]

    def score(self, request: Ints) -> Floats:
        """Between 0 and 1 for the nodes of each domain."""
        if not self._sum:
            return np.zeros(len(self._topology))
        share = self._tier_weight * (self._fullness.of(request, slice(None)) - 1.0)
        for level, parents in self._levels:
            share[level] += share[parents]
        result: Floats = 1.0 + share / self._sum
        return result


def _geometric(fading: float, lowest: int, highest: int) -> float:
    """The sum of fading^(t-1) over every whole tier from the lowest to the highest, gaps included."""
    exponent = max(lowest - 1, 0)
    count = highest - lowest + 1
    if fading == 1.0:
        return float(count)
    if fading == 0.0:
        return 1.0 if exponent == 0 else 0.0
    with np.errstate(over="ignore"):
        total = np.power(fading, float(exponent)) * (1 - np.power(fading, float(count))) / (1 - fading)
    return float(total) if np.isfinite(total) else 0.0


def _levels(parent: Ints) -> list[Ints]:
    """Domains by their depth: the root, its children, and so on."""
    levels = [np.array([0])]
    while True:
        below = np.flatnonzero(np.isin(parent, levels[-1]))
        if not len(below):
            return levels
        levels.append(below)


_PREFIX = "hypernode.binpack."


@takes_part(
    points.DomainScorer, points.Gate, points.Scorer, points.SearchSpace, ignores_names=True, scores_by_shape=True
)
class NetworkTopologyAware:
    """Gradients from the tightest tier outwards, bin-packing scores for domains, and nodes near the gang's own."""

    def __init__(self, arguments: points.Arguments, view: points.CycleView) -> None:
        self._topology = view.topology
        self._ledger: Ledger = view.ledger
        self._jobs = view.jobs
        self._snapshot = view.snapshot
        self._broken = [fault.text for fault in view.snapshot.faults if fault.code == "BrokenLayers"]
        self._scale = 100.0 * number(arguments, "weight", 1)
        self._reject_unknown = str(arguments.get("unknownTierName", "")).lower() == "reject"
        self._root_tier = int(view.topology.tier[ROOT])
        self._lowest = int(view.topology.tier.min())
        self._fullness = DomainUsage(view, _weights(arguments))
        self._fading = TierDecay(view, self._fullness, number(arguments, f"{_PREFIX}normal-pod.fading", 0.8))
        self._pack_normal = flag(arguments, f"{_PREFIX}normal-pod.enable", default=True)

    # -- constraints

    def admit(self, job: Job) -> Reason | None:
        """To Volcano's groups an unknown tier is no limit, unless the profile rejects it; to others it must exist."""
        if job.gather is not None and job.constraint is not None:
            return self._unknown_layer(job.gather, self._tree(job.constraint).tier_names)
        objection = self._objection if job.declared_by is None else self._missing
        for constraint in job.constraints():
            reason = objection(constraint)
            if reason is not None:
                return reason
        parts: tuple[Job | Policy | InnerGroup, ...] = (job, *job.policies, *job.inner_groups)
        listed = [constraint for part in parts for constraint in part.further]
        listed += (rule.constraint for policy in job.policies for rule in policy.apart)
        further = (self._missing(constraint) or self._above_all(constraint) for constraint in listed)
        return next((reason for reason in further if reason is not None), None)

    def _objection(self, constraint: Constraint) -> Reason | None:
        """What is wrong with a limit of a group of Volcano's or Koordinator's: its tree, or tier, does not exist."""
        name = constraint.tier_name
        if constraint.kind == HYPERNODES and not constraint.must_exist:
            fabrics = [fabric_title(kind) for kind in self._snapshot.kinds if is_fabric(kind)]
            if constraint.hard and fabrics and self._snapshot.kind != HYPERNODES:
                text = f"every hyperNode belongs to a fabric ({', '.join(fabrics)}), and the group names none of them"
                return Reason("NoTopology", "network-topology-aware", f"{text}: annotation {FABRIC}")
            if not self._reject_unknown or not name or name in self._topology.tier_names:
                return None
            text = f"highestTierName {name} is not the tierName of any hyperNode"
            return Reason("UnknownTierName", "network-topology-aware", text)
        return self._missing(constraint)

    def _missing(self, constraint: Constraint) -> Reason | None:
        """What a hard limit lacks, of a language that knows no limit which means nothing."""
        if not constraint.hard or (constraint.tier is None and not constraint.tier_name):
            return None
        name = constraint.tier_name or f"tier {constraint.tier}"
        if is_fabric(constraint.kind) or constraint.kind == HYPERNODES:
            return self._missing_fabric(constraint)
        if constraint.kind == LABELS and name not in self._tree(constraint).tier_names:
            text = f'its pods must be on nodes of one "{name}", and no tree has this label: most likely no node does'
            return Reason("UnknownLayer", "network-topology-aware", text)
        if not self._snapshot.knows(constraint):
            text = f"its pods must be in {constraint.where()}, and the cluster has no {constraint.kind}"
            return Reason("NoTopology", "network-topology-aware", text)
        if name not in self._tree(constraint).tier_names:
            text = f'"{name}" is not among the levels of {constraint.kind}'
            return Reason("UnknownLayer", "network-topology-aware", text)
        if len(self._tree(constraint)) == 1:
            text = f'its pods must be on nodes of one "{name}", and no node has this label'
            return Reason("NoTopology", "network-topology-aware", text)
        return None

    def _missing_fabric(self, constraint: Constraint) -> Reason | None:
        """Why no tree of hyperNodes serves a constraint: none has its fabric or its tier, or all that do are broken."""
        place_text = f"{constraint.where()} or more" if constraint.spread else constraint.where()
        if not self._snapshot.knows(constraint):
            text = f"its pods must be in {place_text}, and the cluster has no {constraint.kind}"
            return Reason("NoTopology", "network-topology-aware", text)
        tree = self._tree(constraint)
        tier = constraint.tier if constraint.tier is not None else tree.tier_names.get(constraint.tier_name)
        if tier is None:
            text = f'"{constraint.tier_name}" is not the tierName of any hyperNode of {constraint.kind}'
            return Reason("UnknownLayer", "network-topology-aware", text)
        if len(tree) == 1 or tier < min(tree.at_tier):
            broken = f": set aside for errors are {', '.join(tree.set_aside[:3])}" if tree.set_aside else ""
            text = f"its pods must be in {place_text}, and {constraint.kind} has none in use{broken}"
            return Reason("NoTopology", "network-topology-aware", text)
        return None

    def _above_all(self, constraint: Constraint) -> Reason | None:
        """A listed constraint names a tier, not the highest one allowed: a number above all tiers is a mistake."""
        highest = int(self._tree(constraint).tier[ROOT + 1 :].max(initial=0))
        if not constraint.hard or constraint.tier is None or constraint.tier <= highest:
            return None
        text = f"its pods must be in {constraint.where()}, and the highest tier of {constraint.kind} is {highest}"
        return Reason("UnknownLayer", "network-topology-aware", text)

    def _unknown_layer(self, gather: Gather, names: Mapping[str, int]) -> Reason | None:
        """A layer that limits must exist: Koordinator knows no limit that means nothing."""
        unknown = next((name for name in gather.within if name not in names), None)
        if unknown is None:
            return None
        if self._broken:
            why = f"the ClusterNetworkTopology is broken: {self._broken[0]}"
        elif not names:
            why = 'there is no ClusterNetworkTopology named "default"'
        else:
            why = f"the layers are {', '.join(sorted(names, key=names.__getitem__))}"
        text = f'layer "{unknown}" is not in the network topology: {why}'
        return Reason("UnknownLayer", "network-topology-aware", text)

    def _tree(self, constraint: Constraint) -> Topology:
        """The tree that a constraint is about."""
        alternate = self._snapshot.alternate_topology(constraint)
        return self._topology if alternate is None else alternate.topology

    def never_fits(self, job: Job, need: Ints) -> Reason | None:
        """A gang larger than every domain that it may use cannot be placed by any eviction.

        Of what it does not ask for, a domain may have less than nothing: volumes that are attached beyond a limit.
        """
        limit = self.limit(job)
        is_requested = need > 0
        groups = (np.array([ROOT]),) if limit is None else tuple(self._topology.by_tier(ROOT, limit))
        for group in reversed(groups):
            if (self._ledger.domain_allocatable[:, group] >= need[:, None])[is_requested].all(axis=0).any():
                return None
        where = "the cluster" if limit is None else f"every hyperNode within tier {limit}"
        return Reason("LargerThanAnyDomain", "network-topology-aware", f"its minimum is larger than {where}")

    def limit(self, gang: Job | SubJob) -> int | None:
        limits = (self._own_limit(gang), self._limit_of_sets(gang))
        return min((limit for limit in limits if limit is not None), default=None)

    def _limit_of_sets(self, gang: Job | SubJob) -> int | None:
        """The tightest tier in one domain of which a set of the gang stays together, on the tree that rows follow."""
        if isinstance(gang, SubJob):
            if gang.policy >= 0:
                return None  # it is searched for inside the domain of its gang
            gang = self._jobs[gang.job_number]
        limits = [
            tier
            for rule in (gang.member.rules if gang.member is not None else ())
            if not rule.apart and rule.constraint.hard
            if self._snapshot.alternate_topology(rule.constraint) is None and self._snapshot.knows(rule.constraint)
            if (tier := self._tier(rule.constraint)) is not None
        ]
        return min(limits, default=None)

    def _own_limit(self, gang: Job | SubJob) -> int | None:
        constraint = gang.constraint
        if constraint is None or self._snapshot.alternate_topology(constraint) is not None:
            return None  # the tree of another kind: its ways confine the gang
        if constraint.hard and constraint.kind == HYPERNODES and self._snapshot.kind != HYPERNODES:
            return self._root_tier  # without any hyperNode Volcano has a virtual root around all nodes
        if constraint.hard:
            return self._tier(constraint)
        outer = None if isinstance(gang, Job) else self.limit(self._jobs[gang.job_number])
        return self._root_tier if outer is None else outer

    def _tier(self, constraint: Constraint) -> int | None:
        return constraint.tier if constraint.tier is not None else self._topology.tier_names.get(constraint.tier_name)

    def gather_options(self, job: Job, count: int) -> tuple[points.GatherOption, ...]:
        """A gang on a tree that rows do not follow is gathered there, from the tightest tier outwards."""
        alternate = self._snapshot.alternate_topology(job.constraint)
        constraint = job.constraint
        if alternate is None or constraint is None or not job.declared:
            return ()
        names = alternate.topology.tier_names
        top = int(alternate.topology.tier[ROOT])
        stated = (constraint.tier_name,) if constraint.hard else ()
        within = job.gather.within if job.gather is not None else stated
        limit = min((names[name] for name in within if name in names), default=top)
        if constraint.hard and constraint.tier is not None:
            limit = min(constraint.tier, top)
        stated_multiples = job.gather.multiples if job.gather is not None else ()
        multiples = tuple((names[name], number) for name, number in stated_multiples if name in names)
        return tuple(points.GatherOption(tier, multiples) for tier in (0, *alternate.topology.at_tier) if tier <= limit)

    # -- search space

    def gradients(self, gang: Job | SubJob, within: int, *, evicting: bool = False) -> points.Gradients:
        """Candidate domains by tier, tightest first; around the placed tasks of a gang that has any."""
        limit = self.limit(gang)
        if limit is None:
            return (np.array([within]),)
        placed = self._stands(gang)
        if placed is None:
            return self._with_room(gang, self._topology.by_tier(within, limit), evicting=evicting)
        top = self._topology.highest(placed, limit)
        if top is None:
            return ()
        if self._topology.contains(top, within):
            return self._topology.by_tier(within, limit)
        return self._topology.by_tier(top, limit) if self._topology.contains(within, top) else ()

    def _stands(self, gang: Job | SubJob) -> int | None:
        """The innermost domain that holds what the gang has placed."""
        span = self._ledger.placed_span(gang)
        return self._topology.meet_span(*span) if span is not None else None

    def _with_room(self, gang: Job | SubJob, gradients: Iterable[Ints], *, evicting: bool) -> Iterator[Ints]:
        """Keep the domains whose idle or soon-idle sums (or, evicting, whose totals) cover the gang's minimum."""
        minimum = gang.min_resources if isinstance(gang, Job) and gang.min_resources is not None else self._least(gang)
        resources = minimum.nonzero()[0]
        free = self._ledger.domain_allocatable[resources] if evicting else self._ledger.domain_idle[resources]
        if self._ledger.any_releasing and not evicting:
            free = free + self._ledger.domain_releasing[resources]
        enough = np.logical_and.reduce(free >= minimum[resources, None], axis=0)
        for group in gradients:
            domains_with_room = group[enough[group]]
            if len(domains_with_room):
                yield domains_with_room

    def _least(self, gang: Job | SubJob) -> Ints:
        """Per resource, the sum of the smallest pending requests that the minimum still needs."""
        subs = gang.subs if isinstance(gang, Job) else (gang,)
        missing = max(0, gang.minimum - sum(int(self._ledger.ready[s.number]) for s in subs))
        pod_sets = [pod_set for sub in subs for pod_set in sub.pod_sets]
        if len(pod_sets) == 1:
            return pod_sets[0].shape.request * min(missing, len(pod_sets[0].tasks))
        if not pod_sets or not missing:
            return np.zeros(self._ledger.idle.shape[0], dtype=np.int64)
        requests = np.stack([pod_set.shape.request for pod_set in pod_sets])
        counts = np.array([len(pod_set.tasks) for pod_set in pod_sets])
        return least_amounts(requests, counts, missing)

    # -- domains

    def score_domains(self, sub: SubJob, domains: Ints, copies: Ints | None = None) -> Floats:
        """How full a domain would be with the whole sub-job in it; ties prefer domains with more of its placed tasks.

        With `copies`, the sum over that many equal sub-jobs placed in the domain one after the other.
        """
        if copies is not None:
            return self._scale * self._fullness.sums(sub.request, domains, copies)
        raw = self._fullness.of(sub.request, domains)
        placed = self._ledger.placed_rows(sub)
        if placed is not None and len(domains) > 1:
            best = raw == raw.max()
            if int(best.sum()) > 1:
                raw[best] += self._topology.spread(*placed)[domains[best]] / max(1, sub.total)
        return self._scale * raw

    # -- nodes

    def effect(self, ask: points.Ask) -> points.ScoreEffect:
        if ask.distance_decided:
            return points.ScoreEffect.FIXED
        if ask.sub.constraint is not None:
            return points.ScoreEffect.FREE
        return points.ScoreEffect.DOMAIN if self._packs(ask) else points.ScoreEffect.FIXED

    def _packs(self, ask: points.Ask) -> bool:
        """Whether tasks without a topology fill up domains: they ask for something that is weighed."""
        return self._pack_normal and self._fullness.weighs(ask.shape.request)

    def stale(self, ask: points.Ask, row: int) -> slice:
        moves = not ask.distance_decided and (ask.sub.constraint is not None or self._packs(ask))
        return slice(0, len(self._topology.leaf)) if moves else slice(row, row)

    def score(self, ask: points.Ask, span: slice, fits: Bools) -> Floats | None:
        if ask.distance_decided:
            return None
        if ask.sub.constraint is not None:
            return self._scale * self._nearness(ask.sub, span, fits)
        if self._pack_normal:
            return self._scale * self._fading.score(ask.shape.request)[self._topology.leaf[span]]
        return None

    def score_leaves(self, ask: points.Ask) -> Floats | None:
        """Where a gang's own tasks do not matter, nodes of one domain are alike."""
        if ask.sub.constraint is not None and not ask.distance_decided:
            return None
        if self._pack_normal and not ask.distance_decided:
            return self._scale * self._fading.score(ask.shape.request)
        return np.zeros(len(self._topology))

    def _nearness(self, sub: SubJob, span: slice, fits: Bools) -> Floats:
        """1 in the domain that the sub-job is in, falling with the tier at which a node meets it."""
        placed = self._ledger.placed_rows(sub)
        if placed is None:
            return np.zeros(span.stop - span.start)
        placed_domain = self._topology.meet_rows(placed[0])
        width = self._root_tier - self._lowest
        meeting = self._topology.meeting_tiers(placed_domain)
        per_domain = (self._root_tier - meeting) / width if width else np.ones(len(meeting))
        per_domain[placed_domain] = 1.0 if placed_domain != ROOT or not width else 0.0
        leaf = self._topology.leaf[span]
        near: Floats = per_domain[leaf]
        if fits.any():
            best = fits & (near == near[fits].max())
            if int(best.sum()) > 1:
                near[best] += self._topology.spread(*placed)[leaf[best]] / max(1, sub.total)
        return near


def _weights(arguments: points.Arguments) -> dict[str, float]:
    weights = {CPU: number(arguments, f"{_PREFIX}cpu", 1), MEMORY: number(arguments, f"{_PREFIX}memory", 1)}
    for name in words(arguments, f"{_PREFIX}resources"):
        weights[name] = number(arguments, f"{_PREFIX}resources.{name}", 1)
    return weights

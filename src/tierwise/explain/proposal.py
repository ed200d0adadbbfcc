"""The proposal for a job, whether it was used, and how its ranks are placed: as text and as JSON."""

from __future__ import annotations

import numpy as np

from tierwise.api.codec import Raw
from tierwise.explain.naming import tier_title
from tierwise.explain.page import Text, count, joined
from tierwise.explain.ranges import compact
from tierwise.framework.extension import Abstained, Proposal
from tierwise.framework.report import Decision
from tierwise.model.ranks import crossing, spreads
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT

__all__ = ["pattern_lines", "proposal_lines", "proposal_wire"]

_SHARES = 6


def proposal_lines(snapshot: Snapshot, decision: Decision) -> list[Text]:
    """One line on the recommendation; none where none was asked for."""
    recommendation = decision.proposed
    if recommendation is None:
        return []
    if isinstance(recommendation, Abstained):
        return [Text(f"{recommendation.plugin} recommends nothing: {recommendation.why}")]
    where = _name(snapshot, recommendation.domain)
    split = (
        ""
        if recommendation.pieces.tolist() == [recommendation.domain]
        else f": {joined(_shares(snapshot, decision, recommendation), _SHARES)}"
    )
    followed = "" if _followed(snapshot, decision, recommendation) else "; it did not work out"
    return [Text(f"{recommendation.plugin} recommends {where}{split} ({recommendation.why}){followed}")]


def _shares(snapshot: Snapshot, decision: Decision, proposal: Proposal) -> list[str]:
    """How many units go where, those with equal shares together."""
    what = decision.job.joint_word() if decision.job.shape.parted else "pod"
    places: dict[int, list[str]] = {}
    for piece, number in zip(proposal.pieces.tolist(), proposal.counts.tolist(), strict=True):
        places.setdefault(number, []).append(_name(snapshot, piece))
    return [
        f"{count(number, what)} {'each ' if len(names) > 1 else ''}in {compact(names)}"
        for number, names in places.items()
    ]


def _followed(snapshot: Snapshot, decision: Decision, proposal: Proposal) -> bool:
    return snapshot.topology.contains(proposal.domain, decision.domain)


def _name(snapshot: Snapshot, domain: int) -> str:
    return "the whole cluster" if domain == ROOT else snapshot.topology.name[domain]


def pattern_lines(snapshot: Snapshot, decision: Decision) -> list[Text]:
    """How often the pattern of a job's ranks crosses each tier, where all of its ranks were placed at once."""
    job, topology = decision.job, snapshot.topology
    rows = {task.key: row for task, row in decision.places()}
    if job.pattern is None or set(rows) != set(job.ranks):
        return []
    if job.pattern.grid and not job.pattern.coordinates(0, len(rows)):
        return [Text(f"pattern: the grid has another number of places than there are pods, {len(rows)}")]
    ordered = np.array([rows[key] for key in sorted(rows, key=job.ranks.__getitem__)], dtype=np.int64)
    cuts = [
        f"{crossing(topology, ordered, job.pattern, tier)} between {tier_title(topology, tier)} hyperNodes"
        for tier in topology.at_tier
        if tier < topology.tier[decision.domain]
    ]
    name = job.pattern.name if not job.pattern.grid else ",".join(f"{n}={size}" for n, size in job.pattern.grid)
    lines = [Text(f"pattern {name}: edges that cross: {', '.join(cuts) or 'none'}")]
    if cuts and len(job.pattern.grid) > 1:
        widest = [
            f"{n} {domain_word} ({crossed} in several)"
            for n, domain_word, crossed in spreads(topology, ordered, job.pattern)
        ]
        lines.append(Text(f"innermost hyperNodes of the widest group: {', '.join(widest)}"))
    return lines


def proposal_wire(snapshot: Snapshot, decision: Decision) -> Raw | None:
    """The recommendation for a decision as JSON; None where no plugin was asked."""
    recommendation = decision.proposed
    if recommendation is None:
        return None
    if isinstance(recommendation, Abstained):
        return {
            "plugin": recommendation.plugin,
            "why": recommendation.why,
            "hyperNode": "",
            "split": {},
            "followed": False,
        }
    names = snapshot.topology.name
    split: Raw = {
        names[p]: n for p, n in zip(recommendation.pieces.tolist(), recommendation.counts.tolist(), strict=True)
    }
    followed = _followed(snapshot, decision, recommendation)
    return {
        "plugin": recommendation.plugin,
        "why": recommendation.why,
        "hyperNode": names[recommendation.domain],
        "split": split,
        "followed": followed,
    }

"""A rejection as one line that a person can act on.

"no tier-1 hyperNode holds the gang: best of 6 (r3): 12 of 16 pods fit; 13 nodes short of nvidia.com/gpu"
"""

from __future__ import annotations

from collections.abc import Sequence

from tierwise.model.reason import Reason, Rejection, Tried
from tierwise.model.topology import ROOT_NAME

__all__ = ["message", "tried_line"]

_CAUSES = 3


def message(rejection: Rejection) -> str:
    """All that a rejection says, in one line."""
    parts = [rejection.reason.text]
    parts += [tried_line(t) for t in _telling(rejection.tried)]
    parts += [_part(rejection, child) for child in rejection.children]
    if rejection.bounded:
        parts.append("the search stopped at its bound, so a place may exist")
    return "; ".join(parts)


def tried_line(tried: Tried, tier: str = "") -> str:
    """How far the best domain of one tier came, and what kept the rest out; `tier` is how the tier is called."""
    tier = tried.layer or tier or f"tier {tried.tier}"
    domain = "domain" if tried.layer else "hyperNode"
    fits = f"{tried.fits} of {tried.asked} pods fit"
    if tried.best == ROOT_NAME:
        line = f"in the whole cluster ({tried.nodes} nodes): {fits}"
    elif tried.domains == 1:
        line = f"{tier}: in {tried.best}, the only {domain}: {fits}"
    else:
        line = f"{tier}: best of {tried.domains} {domain}s is {tried.best}: {fits}"
    causes = _causes(tried.causes)
    return f"{line} ({causes})" if causes else line


def _telling(tried: Sequence[Tried]) -> Sequence[Tried]:
    """The widest tier says most; tighter ones only where they differ from it."""
    return tried[-2:] if len(tried) > 2 else tried


def _causes(causes: Sequence[tuple[Reason, int]]) -> str:
    shown = [f"{count} nodes {reason.text}" if count != 1 else _of_one(reason) for reason, count in causes[:_CAUSES]]
    if len(causes) > _CAUSES:
        shown.append(f"and {len(causes) - _CAUSES} other reasons")
    return ", ".join(shown)


def _of_one(reason: Reason) -> str:
    """Reasons speak of nodes as Kubernetes does, in the plural: "were unschedulable"."""
    return f"1 node was {reason.text[5:]}" if reason.text.startswith("were ") else f"1 node {reason.text}"


def _part(whole: Rejection, child: Rejection) -> str:
    """A cause of the same subject stands for itself; one of a sub-group names it."""
    if child.subject == whole.subject:
        return f"{child.reason.plugin}: {message(child)}"
    return f"sub-group {child.subject.rpartition('/')[2]}: {message(child)}"

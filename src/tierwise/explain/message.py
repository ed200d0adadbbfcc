"""A rejection as one line that a person can act on, the sentence that decides first.

"no hyperNode of tier 1 or below has a place now for its 16 pods; tier 1: best of 6 hyperNodes is r3: 12 of 16 pods fit
(3 nodes short of nvidia.com/gpu: 8 asked, at most 4 free)"
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2s

from tierwise.api.brief import brief
from tierwise.api.plurals import count, of, verb
from tierwise.framework.report import CycleReport
from tierwise.model.job import Job, Phase, Reason, Rejection, Tried, Verdict, told
from tierwise.model.topology import ROOT_NAME

__all__ = ["DECISION", "decision_id", "decisive", "message", "on_nodes", "part_title", "refusal", "tried_line"]


# The identity of a decision: the same in the log, in the event that users see, and in the last cycle's report.


DECISION = "tierwise.io/decision"
"""The annotation of an event that holds the id of the decision it tells of."""


def decision_id(now: float, job: str) -> str:
    """Ten hexadecimal digits for what the cycle of this moment decided about a job: replaying it gives them again."""
    return blake2s(f"{now!r} {job}".encode(), digest_size=5).hexdigest()


_CAUSES = 3


def refusal(job: Job, report: CycleReport) -> Rejection | None:
    """Why a job waits; a job that no action speaks of because none of its pods exists waits for these."""
    rejection = report.rejections.get(job.key)
    if rejection is not None or job.tasks or not job.minimum or job.phase not in (Phase.PENDING, Phase.INQUEUE):
        return rejection
    text = f"none of its pods exists yet, and its minimum is {job.minimum}"
    return Rejection("gate", job.key, Reason("NotEnoughTasks", "gang", text), verdict=Verdict.NOT_ALLOWED)


def message(rejection: Rejection, reader: str | None = None) -> str:
    """All that a rejection says, in one line: to those of a namespace without objects of others, else to operators."""
    return brief(told(_whole(rejection), rejection.names(), reader))


def _whole(rejection: Rejection) -> str:
    parts = [rejection.reason.text]
    never = rejection.verdict is Verdict.NEVER
    parts += [tried_line(t, never=never) for t in _telling(rejection.tried)]
    parts += [_part(rejection, child) for child in rejection.children]
    if rejection.bounded:
        parts.append("the search stopped at its bound, so a place may exist")
    return "; ".join(parts)


def decisive(rejection: Rejection) -> str:
    """The shortest sentence that decides: how far the best domain of the widest tier came, else the reason itself.

    Of a job that is larger than any domain the reason says it better: what it needs, and what there is.
    """
    if not rejection.tried or rejection.reason.code == "LargerThanAnyDomain":
        return rejection.reason.text
    tried = rejection.tried[-1]
    if tried.short and tried.layer:
        return f"{tried.layer}: {tried.short}"
    fits = tried.short or _fits(tried, never=rejection.verdict is Verdict.NEVER)
    where = "in the whole cluster" if tried.best == ROOT_NAME else f"in {tried.best}"
    causes = on_nodes(*tried.causes[0]) if tried.causes and not tried.short else ""
    if rejection.reason.code == "NoFeasibleNode" and causes:
        return f"{rejection.reason.text}: {causes}"
    return f"{fits} {where}; {causes}" if causes else f"{fits} {where}"


def tried_line(tried: Tried, tier: str = "", *, never: bool = False) -> str:
    """How far the best domain of one tier came, and what kept the rest out; `tier` is how the tier is called.

    `never` says that this is told of cleared nodes.
    """
    tier = tried.layer or tier or f"tier {tried.tier}"
    domain = "domain" if tried.layer else "hyperNode"
    fits = tried.short or _fits(tried, never=never)
    if tried.best == ROOT_NAME:
        line = f"in the whole cluster ({count(tried.nodes, 'node')}): {fits}"
    elif tried.here:
        line = f"{tier}: in {tried.best}, where its running pods are: {fits}"
    elif tried.domains == 1:
        line = f"{tier}: in {tried.best}, the only {domain}: {fits}"
    else:
        line = f"{tier}: best of {tried.domains} {domain}s is {tried.best}: {fits}"
    causes = _causes(tried.causes) if not tried.short else ""
    line = f"{line} ({causes})" if causes else line
    if not tried.outside:
        return line
    other_domains = f"{count(tried.outside, f'other {domain}')} of this tier {verb(tried.outside, 'is', 'are')}"
    return f"{line}, and {other_domains} not searched"


def _fits(tried: Tried, *, never: bool) -> str:
    """How many of the pods, or of the sub-groups, fit."""
    part, total, word = tried.fits, tried.asked, "pod"
    if tried.whole:
        part, total, word = part // tried.whole, total // tried.whole, tried.part or "sub-group"
    text = of(part, total, word, *(("would fit", "would fit") if never else ("fits", "fit")))
    each_text = " each" if total > 1 else ""
    return f"{text} (of {count(tried.whole, 'pod')}{each_text})" if tried.whole > 1 else text


def _telling(tried: Sequence[Tried]) -> Sequence[Tried]:
    """The widest tier says most; tighter ones only where they differ from it."""
    return tried[-2:] if len(tried) > 2 else tried


def _causes(causes: Sequence[tuple[Reason, int]]) -> str:
    shown = [on_nodes(reason, nodes) for reason, nodes in causes[:_CAUSES]]
    if len(causes) > _CAUSES:
        shown.append(f"and {count(len(causes) - _CAUSES, 'other reason')}")
    return "; ".join(shown)


def on_nodes(reason: Reason, nodes: int) -> str:
    """Reasons speak of nodes as Kubernetes does, in the plural: "were unschedulable"."""
    text = f"was {reason.text[5:]}" if nodes == 1 and reason.text.startswith("were ") else reason.text
    return f"{count(nodes, 'node')} {text}"


def _part(parent: Rejection, child: Rejection) -> str:
    """A cause of the same subject names its plugin, one of a sub-group names the sub-group."""
    if child.stage == "reservation":
        return child.reason.text
    if child.subject == parent.subject:
        return f"{child.reason.plugin}: {_whole(child)}"
    return f"{part_title(parent, child)}: {_whole(child)}"


def part_title(parent: Rejection, child: Rejection) -> str:
    """A part of a gang as its language calls it, with its name."""
    return f"{child.part or 'sub-group'} {child.subject.removeprefix(f'{parent.subject}/')}"

"""What `schedule` did, in words: the headline, why each job was placed where it is, and why the others wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tierwise.api.plurals import of, several
from tierwise.explain.decision_basis import DecisionBasis, GroupCounts
from tierwise.explain.message import part_title, tried_line
from tierwise.explain.naming import ObjectNames, decision_title, gather_text, limit_text, sub_id, tier_title
from tierwise.explain.page import Page, Text, count, joined, wrapped
from tierwise.explain.proposal import proposal_lines
from tierwise.explain.ranges import compact
from tierwise.explain.terms import because
from tierwise.framework.report import Decision, Term
from tierwise.model.job import Constraint, Job, Rejection, Verdict
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT, ROOT_NAME, Topology

__all__ = ["limits_line", "looked_at", "rejection_lines", "tier_domains", "why_here"]

_WHOLE = "the whole cluster"
_SCORES = 3
_CHILDREN = 4


def why_here(
    page: Page, names: ObjectNames, snapshot: Snapshot, *, decisions: Sequence[Decision], basis: DecisionBasis | None
) -> list[Text]:
    """A job's placement: where, under which limits, and what was looked at on the way."""
    job = decisions[-1].job
    # Pods come one after the other where tasks wait for others, and the same pod may be placed twice.
    bound = len({task.key for decision in decisions for task, _ in decision.places()})
    number_of_tasks = len({task.key for decision in decisions for task in decision.job.tasks})
    where = decision_title(snapshot, decisions[-1])
    title = Text.assemble(
        (names.of(job), f"bold {names.style(job)}"),
        f"  {of(bound, number_of_tasks, 'pod')} in {where}",
        "" if decisions[-1].bound else "; the nodes are kept until resources are released",
    )
    lines = wrapped(title, page.width, first="  ", rest="      ")
    paragraphs = [Text(limits_line(snapshot, job))]
    if basis is not None:
        paragraphs += looked_at(snapshot, basis) + proposal_lines(snapshot, basis.decision)
    paragraphs += sub_group_places(snapshot, decisions) + fabric_places(snapshot, decisions)
    return lines + [line for text in paragraphs for line in wrapped(text, page.width, first="    ", rest="      ")]


def limits_line(snapshot: Snapshot, job: Job) -> str:
    """The limits of a job and of its parts, which are called as its language calls them."""
    topology = snapshot.topology
    if job.gather is not None:
        return f"gathered: {gather_text(job.gather)}"
    own_limit = limit_text(topology, job.constraint)
    inner: dict[str, dict[str, None]] = {}  # by the word for the parts, their limits
    for policy in job.policies:
        word = job.part_names.of(policy.name, policy.name)
        for constraint in (policy.constraint, *policy.further):
            if constraint is not None:
                inner.setdefault(word, {})[limit_text(topology, constraint)] = None
    text = own_limit if job.constraint is None else f"networkTopology {own_limit}"
    if job.further:
        further = "; ".join(limit_text(topology, constraint) for constraint in job.further)
        text = further if job.constraint is None else f"{text}; {further}"
    around: dict[str, list[str]] = {}
    for group in job.inner_groups[1:]:
        if group.constraint is not None:
            around.setdefault(limit_text(topology, group.constraint), []).append(group.path)
    text += "".join(f"; {compact(paths)} {limit}" for limit, paths in around.items())
    return text + "".join(f"; each {word} {', '.join(limits)}" for word, limits in inner.items())


def looked_at(snapshot: Snapshot, basis: DecisionBasis) -> list[Text]:
    """Gradient by gradient: tighter tiers and how far they came, then the one that holds the gang."""
    topology = snapshot.topology
    if basis.job.constraint is None:
        return []
    best_domain = topology.index.get(next(iter(basis.candidates.scores), ""), basis.decision.domain)
    if best_domain == ROOT and basis.candidates.scores and all(tried.best == ROOT_NAME for tried in basis.tried):
        return [Text(f"looked for in {_WHOLE}")]  # nothing limits it
    chosen_tier = int(topology.tier[best_domain])
    name = topology.name[best_domain]
    if best_domain == ROOT:  # it has no tier that means anything to people, and no name
        name, title = _WHOLE, ""
    else:
        title = f"{tier_title(topology, chosen_tier)}: "
    lines = [
        tried_line(t, tier_title(topology, t.tier)) for t in basis.tried if t.tier < chosen_tier and t.fits < t.asked
    ]
    word = basis.job.joint_word()
    part = word if basis.job.shape.parted else "gang"
    lines += [_too_small(topology, groups, word) for groups in basis.groups if groups.tier < chosen_tier]
    for groups in basis.groups:
        if groups.tier == chosen_tier:
            every = sum(sub.policy >= 0 for sub in basis.job.subs)
            groups_text = f"all {several(word)}" if groups.asked == every else f"{count(groups.asked, word)} of {every}"
            holding = of(groups.holding, groups.domains, "hyperNode", "holds", "hold")
            what = f"{holding} {groups_text}; {name} is chosen"
            only = f"only {name} holds {groups_text}"
            why = because(name, basis.decision.terms, part)
            lines.append(f"{title}{what if groups.holding > 1 else only}{f'; {why}' if why else ''}")
    if Term.NOMINATED in basis.decision.terms:
        lines.append(f"{title}{name} was kept for it (nominated)")
    elif basis.candidates.scores:
        scores = {_WHOLE if domain == ROOT_NAME else domain: score for domain, score in basis.candidates.scores.items()}
        lines.append(f"{title}{score_line(scores, basis.candidates.decided, part)}")
    return [Text(line) for line in lines]


def _too_small(topology: Topology, groups: GroupCounts, word: str) -> str:
    where = "hyperNode" if groups.domains == 1 else f"best of {groups.domains} hyperNodes is"
    fits = of(groups.fits, groups.asked, word, "fits", "fit")
    return f"{tier_title(topology, groups.tier)}: {where} {groups.best}: {fits}"


def score_line(scores: Mapping[str, float], decided: Sequence[Term], word: str) -> str:
    """Which domains hold the gang, in the order of the search, their scores, and why the first comes before the others
    where the scores do not show it. `word` is how its parts are called.
    """
    shown = [f"{name} ({score:.4g})" for name, score in scores.items()]
    best_name = next(iter(scores))
    if len(shown) == 1:
        return f"only {best_name} holds the gang"
    why = because(best_name, decided, word)
    return f"{len(shown)} hyperNodes hold the gang; scores: {joined(shown, _SCORES)}{f'; {why}' if why else ''}"


def sub_group_places(snapshot: Snapshot, decisions: Sequence[Decision]) -> list[Text]:
    """Which sub-groups stand in which domain."""
    topology = snapshot.topology
    rows: dict[str, list[int]] = {}
    for decision in decisions:
        for placed in decision.placed:
            if placed.sub.policy >= 0:
                rows.setdefault(sub_id(placed.sub), []).extend(placed.rows.tolist())
    homes: dict[int, list[str]] = {}
    for sub, sub_rows in rows.items():
        homes.setdefault(topology.meet_span(min(sub_rows), max(sub_rows)), []).append(sub)
    if not homes:
        return []
    where = {home: topology.name[home] if home else _WHOLE for home in homes}
    shown = [f"{compact(subs)} in {where[home]}" for home, subs in homes.items()]
    title = count(len(rows), decisions[-1].job.joint_word())
    return [Text(f"{title}: {joined(shown, 8)}")]


def fabric_places(snapshot: Snapshot, decisions: Sequence[Decision]) -> list[Text]:
    """On every further tree that a job has a constraint on: the domains that it, or each of its sub-groups, is in."""
    job = decisions[-1].job
    job_constraints = [constraint for constraint in (job.constraint, *job.further) if constraint is not None]
    inner = [c for policy in job.policies for c in (policy.constraint, *policy.further) if c is not None]
    lines = []
    for constraint in dict.fromkeys((*job_constraints, *inner)):
        alternate = snapshot.alternate_topology(constraint)
        if alternate is None:
            continue
        homes: dict[str, set[int]] = {}
        for decision in decisions:
            for placed in decision.placed:
                whose = sub_id(placed.sub) if constraint in inner else ""
                rows = alternate.positions[placed.rows]
                homes.setdefault(whose, set()).update(tier_domains(alternate.topology, constraint, rows.tolist()))
        shown = [
            f"{whose + ' in ' if whose else ''}{_names(alternate.topology, domains)}"
            for whose, domains in homes.items()
            if domains != {ROOT}  # which says nothing
        ]
        if shown:
            lines.append(Text(f"{constraint.kind}: {joined(shown, 8)}"))
    return lines


def tier_domains(topology: Topology, constraint: Constraint, rows: Sequence[int]) -> set[int]:
    """The domains of a constraint's tier that these rows of a tree are in."""
    tier = constraint.tier if constraint.tier is not None else topology.tier_names.get(constraint.tier_name)
    limit = int(topology.tier[ROOT]) if tier is None else tier
    domains = (topology.highest(int(topology.leaf[row]), limit) for row in rows)
    return {domain for domain in domains if domain is not None}


def _names(topology: Topology, domains: set[int]) -> str:
    names = (topology.name[domain] if domain != ROOT else _WHOLE for domain in sorted(domains))
    return " and ".join(compact([name]) for name in names) or "no domain"


def rejection_lines(page: Page, topology: Topology, rejection: Rejection, *, indent: int = 4) -> list[Text]:
    """Why a gang waits: the reason, then tier by tier how far it came, then its sub-groups."""
    lead = " " * indent
    never = rejection.verdict is Verdict.NEVER
    tier_lines = (tried_line(t, tier_title(topology, t.tier), never=never) for t in rejection.tried)
    texts = [rejection.reason.text, *tier_lines]
    lines = [line for text in texts for line in wrapped(Text(text), page.width, first=lead, rest=lead + "  ")]
    reserved = next((child.reason.text for child in rejection.children if child.stage == "reservation"), "")
    if reserved:
        lines += wrapped(Text(reserved, style="cyan"), page.width, first=lead, rest=lead + "  ")
    for child in [child for child in rejection.children if child.stage != "reservation"][:_CHILDREN]:
        is_same_subject = child.subject == rejection.subject  # a further cause, not a part of the job
        title = f"{child.reason.plugin}:" if is_same_subject else f"{part_title(rejection, child)}:"
        lines += wrapped(Text(title), page.width, first=lead)
        lines += rejection_lines(page, topology, child, indent=indent + 2)
    if rejection.bounded:
        lines += wrapped(Text("the search stopped at its bound, so a place may exist"), page.width, first=lead)
    return lines

"""Names in output: jobs without the uid in their pod group's name, tiers with their names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import numpy as np

from tierwise.api.core import format_time
from tierwise.framework.report import Decision
from tierwise.model.arrays import Ints
from tierwise.model.job import Constraint, Gather, Job, SubJob
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import HYPERNODES, ROOT, Topology
from tierwise.port import gang_path

__all__ = [
    "ObjectNames",
    "belongs_to",
    "decision_title",
    "domain_title",
    "full_name",
    "gather_text",
    "ladder_text",
    "limit_text",
    "name_of_pod",
    "rows_title",
    "sub_id",
    "tier_label",
    "tier_title",
]

_UID = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
_MADE = "podgroup"
"""What is left of the name of a podGroup that was made for a pod or its owner."""

_PALETTE = ("cyan", "magenta", "bright_blue", "bright_cyan", "bright_magenta", "bright_yellow")


class ObjectNames:
    """Short names of jobs; a name that two jobs would share keeps as much as tells them apart."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        job_by_key = {job.key: job for job in jobs}
        self._short: dict[str, str] = {}
        for shorten in (_bare, full_name):
            shared = Counter(shorten(job) for job in job_by_key.values())
            for key, job in job_by_key.items():
                if shared[shorten(job)] == 1:
                    self._short.setdefault(key, shorten(job))
        self._place = {key: i for i, key in enumerate(job_by_key)}

    def of(self, job: Job) -> str:
        return self._short.get(job.key, job.key)

    def style(self, job: Job) -> str:
        """A colour for the job, the same wherever it is named."""
        return _PALETTE[self._place.get(job.key, 0) % len(_PALETTE)]

    @staticmethod
    def stem(job: Job) -> str:
        """The name of the job without its namespace, with which the names of its pods begin."""
        return _bare(job).rpartition("/")[2]


def full_name(job: Job) -> str:
    """A podGroup without the uid in its name; where nothing else is in it, the object that it was made for.

    Gangs that start as one job are joined.
    """
    return " + ".join(_of_group(job, key) for key in job.key.split(","))


def _of_group(job: Job, key: str) -> str:
    namespace, _, name = gang_path(key).rpartition("/")
    bare = _UID.sub("", name)
    return f"{namespace}/{job.owner if job.owner and bare == _MADE else bare}"


def _bare(job: Job) -> str:
    """Name of a job without the namespace "default"."""
    return " + ".join(name.removeprefix("default/") for name in full_name(job).split(" + "))


def belongs_to(job: Job, name: str) -> bool:
    """Whether a job is the one that people call so: by its podGroup, or by the job that the podGroup was made for."""
    return name in (job.key, full_name(job), *job.gangs)


def sub_id(sub: SubJob) -> str:
    """A sub-group's id within its job: policy and label value, or its path; "" for the tasks that no policy takes."""
    if sub.policy >= 0:
        return sub.path or sub.key.rpartition("/")[2]
    return ""


def name_of_pod(key: str) -> str:
    """The name in "namespace/name"."""
    return key.partition("/")[2] or key


def tier_label(topology: Topology, tier: int) -> str:
    """The number with the name, "1 rack", or the number alone."""
    name = next((name for name, number in topology.tier_names.items() if number == tier), "")
    return f"{tier} {name}" if name else str(tier)


def tier_title(topology: Topology, tier: int) -> str:
    """A tier as it reads in a sentence: "tier 1 (rack)"."""
    number, _, name = tier_label(topology, tier).partition(" ")
    if name:
        return f"tier {number} ({name})"
    return f"tier {number}"


def domain_title(topology: Topology, domain: int) -> str:
    """A hyperNode with its tier; the virtual root has no name that means anything to people."""
    if domain == ROOT:
        return "the whole cluster"
    return f"{topology.name[domain]}, {tier_title(topology, int(topology.tier[domain]))}"


def rows_title(snapshot: Snapshot, job: Job, rows: Ints) -> str:
    """The innermost domain that holds pods of a job; if only the root does, that of the tree of its constraint."""
    outer = snapshot.topology.meet_rows(rows)
    alternate = snapshot.alternate_topology(job.constraint)
    if outer != ROOT or alternate is None or job.constraint is None:
        return domain_title(snapshot.topology, outer)
    home = alternate.topology.meet_rows(alternate.positions[rows])
    title = domain_title(alternate.topology, home)
    if home == ROOT:
        return title
    return f"{title} of {job.constraint.kind}"


def decision_title(snapshot: Snapshot, decision: Decision) -> str:
    """Where a decision puts the pods of its job, likewise; on the tree that rows follow, the domain that was chosen."""
    if decision.domain != ROOT or snapshot.alternate_topology(decision.job.constraint) is None:
        return domain_title(snapshot.topology, decision.domain)
    return rows_title(snapshot, decision.job, np.concatenate([placed.rows for placed in decision.placed]))


def limit_text(topology: Topology, constraint: Constraint | None) -> str:
    """A networkTopology in the words of the API."""
    if constraint is None:
        return "no networkTopology"
    text = _limit(topology, constraint)
    if constraint.preferred:
        return f"{text}, preferably one {constraint.preferred}"
    return text


def _limit(topology: Topology, constraint: Constraint) -> str:
    mode = "hard" if constraint.hard else "soft"
    if constraint.kind != HYPERNODES or constraint.spread:
        return f"{mode}, {'in' if constraint.spread else 'within'} {constraint.words()}"
    if constraint.tier is not None:
        label = tier_label(topology, constraint.tier).partition(" ")[2]
        return f"{mode}, highestTierAllowed {constraint.tier}{f' ({label})' if label else ''}"
    if constraint.tier_name:
        tier = topology.tier_names.get(constraint.tier_name)
        meaning = f"tier {tier}" if tier is not None else "no hyperNode has this tierName"
        return f"{mode}, highestTierName {constraint.tier_name} ({meaning})"
    return mode


def ladder_text(job: Job) -> str:
    """For how long a gang holds out for which tier: "rack until 2026-01-01T00:10:00Z, then any place"."""
    until = job.created
    steps = []
    for step in job.ladder:
        until += step.seconds
        steps.append(f"{step.tier} until {format_time(until)}")
    return ", ".join([*steps, "then any place"])


def gather_text(gather: Gather) -> str:
    """Network constraints of a gathered job, in the words of the API."""
    terms = [f"MustGather {name}" for name in gather.within] + [f"PreferGather {name}" for name in gather.prefer]
    terms += [f"podCountMultiple {number} in {name}" for name, number in gather.multiples]
    if gather.parallel:
        terms.append(f"pipelines of {gather.pipeline}")
    if len(gather.drawn):
        terms.append(f"drawn to {len(gather.drawn)} running pods")
    return ", ".join(terms) or "near the pods of its selector"

"""The board as a whole, and the two details that are requested one at a time: nodes of a domain, and a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

from tierwise.api.codec import Raw
from tierwise.explain.board.job import job_page
from tierwise.explain.board.jobs import by_job, job_lines, jobs_wire
from tierwise.explain.board.pods import BoardPod, board_pods
from tierwise.explain.board.queues import queues_wire
from tierwise.explain.board.tree import BoardTree
from tierwise.explain.free_slots import slots_wire
from tierwise.explain.message import decision_id
from tierwise.explain.naming import belongs_to
from tierwise.explain.text.schedule import Run, headline
from tierwise.explain.wire import problem_wire
from tierwise.framework.report import CycleReport, Eviction
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT

__all__ = ["Board", "cycle_entry", "telling"]


# One cycle in a few lines: who was placed where, who had to go for whom, how many wait, and what it took.


_MOST: Final = 200
"""Decisions, and groups of evictions, that are told of; the numbers count all."""


def cycle_entry(snapshot: Snapshot, report: CycleReport, number: int, seconds: Mapping[str, float]) -> Raw:
    """A cycle for the board; `seconds` are those of its stages, where somebody took the time."""
    names, tiers = snapshot.topology.name, snapshot.topology.tier
    return {
        "number": number,
        "now": snapshot.now,
        "seconds": {stage: round(value, 6) for stage, value in seconds.items()},
        "work": {"trials": report.search_counts.trials, "domains": report.search_counts.domains},
        "placed": len(report.decisions),
        "pods": sum(decision.count() for decision in report.decisions if decision.bound),
        "evicted": len(report.evictions),
        "waiting": len(report.rejections),
        "decisions": [
            {
                "id": decision_id(snapshot.now, decision.job.key),
                "job": decision.job.key,
                "action": decision.action,
                "bound": decision.bound,
                "pods": decision.count(),
                "hyperNode": names[decision.domain] if decision.domain != ROOT else "",
                "tier": int(tiers[decision.domain]),
            }
            for decision in report.decisions[:_MOST]
        ],
        "evictions": _evictions(report.evictions)[:_MOST],
    }


def _evictions(evictions: Sequence[Eviction]) -> list[Raw]:
    """The victims of one job, grouped by preemptor and reason."""
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    for e in evictions:
        groups.setdefault((e.job.key, e.by.key if e.by is not None else "", e.action, e.reason), []).append(e.task.key)
    return [
        {"job": job, "by": by, "action": action, "reason": reason, "pods": pods}
        for (job, by, action, reason), pods in groups.items()
    ]


def telling(entry: Raw) -> bool:
    """Whether anything was decided in a cycle."""
    return bool(entry["placed"] or entry["evicted"])


_CYCLES: Final = 20


class Board:
    """What a page shows of one run.

    `cycles` are told instead of the run's own where somebody kept them; `carried_out` is False where the run only asks
    what a cycle would decide.
    """

    def __init__(self, run: Run, cycles: Sequence[Raw] | None = None, *, carried_out: bool = True) -> None:
        self._run = run
        self._cycles = cycles
        self._standing = board_pods(run, carried_out=carried_out)

    @cached_property
    def _fabric(self) -> BoardTree:
        return BoardTree(self._run.after, self._standing)

    @cached_property
    def _by_job(self) -> dict[str, list[BoardPod]]:
        return by_job(self._standing)

    def wire(self) -> Raw:
        """All of it."""
        run, fabric = self._run, self._fabric
        jobs = job_lines(run, self._by_job, fabric.resources)
        return {
            "now": run.after.now,
            "outcome": headline(run).plain,
            "resources": list(fabric.resources),
            "fabric": fabric.wire(),
            "jobs": jobs_wire(jobs),
            "queues": queues_wire(run, jobs, fabric.resources),
            "slots": slots_wire(run.after),
            "cycles": self._told(),
            "problems": self._problems(),
        }

    def _told(self) -> list[Raw]:
        """The last cycles that decided something, the newest first, and the very last in any case."""
        reports = enumerate(self._run.reports, start=1)
        every = self._cycles
        if every is None:
            every = [cycle_entry(snapshot, report, number, {}) for number, (snapshot, report) in reports]
        shown = [entry for entry in every if telling(entry) or entry is every[-1]]
        return shown[-_CYCLES:][::-1]

    def _problems(self) -> list[Raw]:
        after = self._run.after
        found = [problem_wire(problem) for problem in after.topology.problems]
        found += [
            {"object": f.subject, "code": f.code, "message": f.text, "severity": "warning"}
            for f in (*after.faults, *self._run.complaints)
        ]
        return found + [
            {
                "object": f"PodGroup {group}",
                "code": "PodGroupNotFound",
                "message": f"does not exist, and {number} pending pods name it",
                "severity": "error",
            }
            for group, number in Counter(after.orphans.values()).items()
        ]

    def nodes(self, domain: str) -> Raw | None:
        """The nodes below a domain, "cluster" for all; None where there is none of this name."""
        topology = self._run.after.topology
        number = 0 if domain == "cluster" else topology.index.get(domain)
        return self._fabric.nodes(number) if number is not None else None

    def job(self, name: str) -> Raw | None:
        """The story of the job with this key, or of the one that people call so; None where there is none."""
        jobs = self._run.after.jobs
        exact = [job for job in jobs if job.key == name]
        found = exact or [job for job in jobs if belongs_to(job, name)]
        return job_page(self._run, found[0], self._by_job.get(found[0].key, [])) if found else None

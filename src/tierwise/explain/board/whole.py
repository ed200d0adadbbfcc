"""The board as a whole, and the two things that are asked of it one at a time: nodes of a domain, a job's story."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Final

from tierwise.api.codec import Raw
from tierwise.explain.board.cycles import cycle_entry, telling
from tierwise.explain.board.fabric import Fabric
from tierwise.explain.board.job import job_page
from tierwise.explain.board.jobs import by_job, job_lines, jobs_wire
from tierwise.explain.board.queues import queues_wire
from tierwise.explain.board.standing import Stand, stands
from tierwise.explain.free_slots import slots_wire
from tierwise.explain.naming import belongs_to
from tierwise.explain.summary import Run, headline
from tierwise.explain.wire import problem_wire

__all__ = ["Board"]

_CYCLES: Final = 20


class Board:
    """What a page shows of one run.

    `cycles` are told instead of the run's own where somebody kept them; `carried_out` is False where the run only asks
    what a cycle would decide.
    """

    def __init__(self, run: Run, cycles: Sequence[Raw] | None = None, *, carried_out: bool = True) -> None:
        self._run = run
        self._cycles = cycles
        self._standing = stands(run, carried_out=carried_out)

    @cached_property
    def _fabric(self) -> Fabric:
        return Fabric(self._run.after, self._standing)

    @cached_property
    def _by_job(self) -> dict[str, list[Stand]]:
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

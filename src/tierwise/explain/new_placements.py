"""The pods that a run placed, by job, with ranks as ranges."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

import msgspec

from tierwise.api.plurals import several
from tierwise.explain.naming import ObjectNames, name_of_pod, sub_id
from tierwise.explain.page import Text, count
from tierwise.explain.ranges import compact, pods
from tierwise.framework.report import CycleReport
from tierwise.model.job import Job
from tierwise.model.snapshot import Snapshot

__all__ = ["NewPlacements", "newly_placed", "placement_texts"]

_JOBS = 4


class NewlyPlaced(msgspec.Struct, frozen=True):
    """One pod on its new node."""

    row: int
    job: Job
    sub: str
    role: str
    pod: str
    bound: bool  # False: the node is only kept for it


class NewPlacements:
    """All pods with a new place, by row."""

    def __init__(self, placements: Iterable[NewlyPlaced]) -> None:
        self._found = sorted(placements, key=attrgetter("row"))
        self._rows = [entry.row for entry in self._found]

    def __len__(self) -> int:
        return len(self._found)

    def within(self, span: slice) -> Sequence[NewlyPlaced]:
        return self._found[bisect_left(self._rows, span.start) : bisect_left(self._rows, span.stop)]


def newly_placed(reports: Iterable[tuple[Snapshot, CycleReport]], after: Snapshot) -> Iterator[NewlyPlaced]:
    """What these cycles placed, on the rows of the last snapshot; nodes that are only kept count in the last cycle."""
    cycles = list(reports)
    for number, (snapshot, report) in enumerate(cycles, start=1):
        for decision in report.decisions:
            if not decision.bound and number < len(cycles):
                continue
            for placed in decision.placed:
                for task, row in zip(placed.tasks, placed.rows.tolist(), strict=True):
                    row_after = after.nodes.row.get(snapshot.nodes.names[row])
                    if row_after is not None:
                        pod = name_of_pod(task.key)
                        yield NewlyPlaced(row_after, decision.job, sub_id(placed.sub), task.role, pod, decision.bound)


def placement_texts(names: ObjectNames, placements: Sequence[NewlyPlaced]) -> list[Text]:
    """One line per job: which of its pods these are. Many jobs share one line."""
    jobs: dict[str, list[NewlyPlaced]] = {}
    for entry in placements:
        jobs.setdefault("" if entry.job.lone else entry.job.key, []).append(entry)
    if len(jobs) <= _JOBS:
        return [_of_job(names, key, entries) for key, entries in jobs.items()]
    lone = jobs.pop("", [])
    shown = compact((names.of(entries[0].job) for entries in jobs.values()), limit=5)
    number = sum(map(len, jobs.values()))
    line = Text.assemble(shown, (f"  {count(number, 'pod')} of {count(len(jobs), 'job')}", "dim"))
    return [line, _of_job(names, "", lone)] if lone else [line]


def _of_job(names: ObjectNames, key: str, placements: Sequence[NewlyPlaced]) -> Text:
    if not key:
        return Text.assemble(compact(entry.pod for entry in placements), (f"  {_number(placements)}", "dim"))
    job = placements[0].job
    roles: dict[str, list[str]] = {}
    for entry in placements:
        roles.setdefault(entry.role, []).append(entry.pod)
    stem = names.stem(job)
    which = ", ".join(pods(stem, members, role) for role, members in roles.items())
    groups = sorted({entry.sub for entry in placements} - {""})
    details = [_number(placements)]
    if groups:
        word = job.joint_word()
        details.append(f"{word if len(groups) == 1 else several(word)} {compact(groups)}")
    return Text.assemble((names.of(job), names.style(job)), f" {which}", (f"  {', '.join(details)}", "dim"))


def _number(placements: Sequence[NewlyPlaced]) -> str:
    nominated = sum(not entry.bound for entry in placements)
    number = count(len(placements), "pod")
    if not nominated:
        return number
    nodes = "node" if nominated == 1 else "nodes"
    return f"{number}, {nodes} kept" if nominated == len(placements) else f"{number}, {nodes} kept for {nominated}"

"""What `submit` says: a frame of the live view, the summary at the end, and the same for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from rich.text import Text

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.controllers.stamp import stamp
from tierwise.explain.job_status import JobProgress, job_lines, job_progress, jobs_wire, partition_lines
from tierwise.explain.naming import ObjectNames
from tierwise.explain.page import Page, count, section, wrapped
from tierwise.explain.text.tree import topology_tree
from tierwise.explain.text.waiting import waiting, waiting_lines
from tierwise.explain.timeline import TimelineEntry, lasted, timeline_lines
from tierwise.explain.wire import pending_wire, pod_groups_wire
from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.port import Objects

__all__ = ["View", "frame", "life_wire", "outcome_lines"]

_RECENT: Final = 8
_TREE: Final = 7
_HEADING: Final = 2
_JOBS: Final = 12
_DONE: Final = ("Completed", "Failed", "Aborted", "Terminated")


def frame(page: Page, view: View, height: int, note: str = "") -> list[Text]:
    """One picture of the live view: clock, jobs, partitions, the tree with its use, and the latest news."""
    found = job_progress(view.objects, view.snapshot, view.places)
    head = Text.assemble(("tierwise  ", "bold"), (f"{lasted(view.at):<10}", "bold cyan"), _tally(found))
    if note:
        head.append(f"  {note}", style="bright_black")
    top = wrapped(head, page.width) + section("Jobs", job_lines(page, view.snapshot.topology, found[:_JOBS]))
    top += section("Partitions", partition_lines(page, view.objects, view.snapshot, found)[: 1 + _JOBS])
    tree = section("Topology", topology_tree(page, view.snapshot))
    # On a low terminal the latest three things and the top of the tree stay.
    latest = min(max(height - len(top) - _HEADING - _TREE, 3), _RECENT)
    bottom = section("Recent", timeline_lines(page, view.recent, brief=True)[-latest:])
    room = max(0, height - len(top) - len(bottom))
    if len(tree) > room:
        tree = [*tree[: max(0, room - 1)], Text("  ...", style="bright_black")][:room]
    return [*top, *tree, *bottom][:height]


def outcome_lines(page: Page, view: View) -> list[Text]:
    """What became of everything."""
    found = job_progress(view.objects, view.snapshot, view.places)
    title = Text.assemble(_tally(found), f" after {lasted(view.at)}; {count(view.cycles, 'cycle')}")
    if view.unfinished:
        title.append("; more would happen after that", style="yellow")
    idle = waiting(view.snapshot, view.report, ())
    names = ObjectNames(view.snapshot.jobs)
    lines = [Text(""), *wrapped(title, page.width)]
    lines += [Text(""), *job_lines(page, view.snapshot.topology, found)] if found else []
    lines += section("Partitions", partition_lines(page, view.objects, view.snapshot, found))
    return lines + section("Waiting", waiting_lines(page, names, view.snapshot, idle))


def _tally(found: Sequence[JobProgress]) -> Text:
    """How many jobs are where: the ended first, then those on their way."""
    jobs = [progress for progress in found if not progress.lone]
    lone = len(found) - len(jobs)
    phases = Counter(progress.phase for progress in jobs)
    order = [*(phase for phase in _DONE if phases[phase]), *sorted(phase for phase in phases if phase not in _DONE)]
    parts = [f"{phases[phase]} {phase.lower()}" for phase in order]
    text = Text(count(len(jobs), "job"), style="bold")
    if parts:
        text.append(f": {', '.join(parts)}", style="not bold")
    if lone:
        text.append(f"{' and ' if parts else ', '}{count(lone, 'single pod')}", style="not bold")
    return text


class View(msgspec.Struct, frozen=True):
    """A cluster at one moment, and what has happened shortly before."""

    at: float
    objects: Objects
    snapshot: Snapshot
    report: CycleReport
    recent: Sequence[TimelineEntry]
    places: Mapping[str, str]  # the hyperNode where each podGroup was last placed
    cycles: int = 0
    unfinished: bool = False


def life_wire(view: View, start: float) -> Raw:
    """Everything but the timeline."""
    return {
        "start": stamp(start),
        "end": stamp(start + view.at),
        "elapsed": int(view.at),
        "cycles": view.cycles,
        "unfinished": view.unfinished,
        "jobs": jobs_wire(job_progress(view.objects, view.snapshot, view.places)),
        "podGroups": pod_groups_wire(view.snapshot),
        "pods": {path: _pod(pod) for path, pod in view.objects.every(Pod).items()},
        "pending": pending_wire(view.snapshot, view.report, {}),
    }


def _pod(pod: Pod) -> Raw:
    """Where a pod is, what it is doing, and how its containers last ended."""
    first = next(iter(pod.status.container_statuses), None)
    ended = (first.state.terminated or first.last_state.terminated) if first is not None else None
    return {
        "phase": pod.status.phase or "Pending",
        "node": pod.spec.node_name,
        "exitCode": ended.exit_code if ended is not None else None,
        "restarts": first.restart_count if first is not None else 0,
    }

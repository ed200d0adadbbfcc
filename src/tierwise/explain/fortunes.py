"""How jobs fare at one moment: phase, retries, pods and place, and the same for their partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from tierwise.api.codec import Raw
from tierwise.api.volcano import Job as BatchJob
from tierwise.api.volcano import PodGroup
from tierwise.dialects.volcano_job import defaulted, pod_group_name
from tierwise.explain.naming import Names, domain_title, sub_id
from tierwise.explain.page import Page, count
from tierwise.explain.status import DOMAIN_ANNOTATION
from tierwise.explain.tables import Cell, Column, table
from tierwise.explain.whereabouts import Place, whereabouts
from tierwise.model.job import Job, Status, Task
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import Topology
from tierwise.port import Objects

__all__ = ["Fortune", "fortunes", "job_lines", "jobs_wire", "partition_lines"]

_WORDS: Final = {
    Status.RUNNING: "running",
    Status.PENDING: "waiting",
    Status.GATED: "gated",
    Status.RELEASING: "stopping",
    Status.SUCCEEDED: "succeeded",
    Status.FAILED: "failed",
}
_STYLES: Final = {
    "Running": "green",
    "Completed": "bold green",
    "Failed": "bold red",
    "Aborted": "red",
    "Terminated": "red",
    "Unknown": "yellow",
    "Pending": "yellow",
    "Inqueue": "yellow",
    "Restarting": "yellow",
}


@dataclass(frozen=True, slots=True)
class Fortune:
    """One job: a Volcano Job, or a podGroup that stands for itself."""

    path: str
    name: str
    phase: str
    retries: int
    most: int | None  # None: nobody restarts it
    job: Job | None  # None: its podGroup is not there yet
    place: Place | None
    last: str = ""  # the hyperNode where it last stood, for one that stands nowhere
    lone: bool = False


def fortunes(objects: Objects, snapshot: Snapshot) -> list[Fortune]:
    """Every job, Volcano's first; pods by themselves last."""
    known, groups = {job.key: job for job in snapshot.jobs}, objects.every(PodGroup)
    names = Names(snapshot.jobs)
    found: list[Fortune] = []
    for path, batch in objects.every(BatchJob).items():
        job = known.pop(f"{path.partition('/')[0]}/{pod_group_name(batch)}", None)
        whole = defaulted(batch)
        phase = batch.status.state.phase or "Pending"
        name, last = path.removeprefix("default/"), _last(groups, job)
        retries, most = batch.status.retry_count, whole.spec.max_retry
        found.append(Fortune(path, name, phase, retries, most, job, _place(snapshot, job), last))
    for key, job in known.items():
        phase = (groups[key].status.phase if key in groups else job.phase.value) or "Pending"
        place, last = _place(snapshot, job), _last(groups, job)
        found.append(Fortune(key, names.of(job), phase, 0, None, job, place, last, job.lone))
    return sorted(found, key=lambda fortune: fortune.lone)


def _place(snapshot: Snapshot, job: Job | None) -> Place | None:
    return whereabouts(snapshot.topology, job).whole if job is not None else None


def _last(groups: Mapping[str, PodGroup], job: Job | None) -> str:
    group = groups.get(job.key) if job is not None else None
    return group.metadata.annotations.get(DOMAIN_ANNOTATION, "") if group is not None else ""


def job_lines(page: Page, topology: Topology, found: Sequence[Fortune]) -> list[Text]:
    """A table of jobs."""
    rows: list[list[Cell]] = [
        [
            Text(fortune.name, style="bold"),
            Text(fortune.phase, style=_STYLES.get(fortune.phase, "")),
            f"{fortune.retries} of {fortune.most}" if fortune.most is not None else "",
            _pods(fortune.job.tasks if fortune.job is not None else ()),
            _where(topology, fortune.place) or (f"was in {fortune.last}" if fortune.last else ""),
        ]
        for fortune in found
    ]
    columns = (
        Column("job", least=12),
        Column("phase"),
        Column("retries"),
        Column("pods", least=16, wraps=True),
        Column("where", least=14),
    )
    return table(page, columns, rows)


def partition_lines(page: Page, snapshot: Snapshot, found: Sequence[Fortune]) -> list[Text]:
    """A table of the sub-groups of all jobs that have any."""
    rows: list[list[Cell]] = []
    for fortune in found:
        if fortune.job is None or not fortune.job.policies:
            continue
        places = whereabouts(snapshot.topology, fortune.job).subs
        for sub in sorted(fortune.job.subs, key=lambda sub: (sub.policy, sub.match_index, sub.order)):
            if sub.policy >= 0:
                place = places[sub_id(sub)]
                rows.append([f"{fortune.name} {sub_id(sub)}", _pods(sub.tasks), _where(snapshot.topology, place)])
    return table(
        page, (Column("partition", least=16), Column("pods", least=16, wraps=True), Column("where", least=14)), rows
    )


def jobs_wire(found: Sequence[Fortune]) -> Raw:
    """The same for programs; pods by themselves are no jobs."""
    return {fortune.path: dict(_wire(fortune)) for fortune in found if not fortune.lone}


def _wire(fortune: Fortune) -> Iterator[tuple[str, object]]:
    yield "phase", fortune.phase
    yield "retryCount", fortune.retries
    yield "hyperNode", fortune.place.name if fortune.place is not None else ""
    yield "tier", fortune.place.tier if fortune.place is not None else None
    counts = Counter(task.status for task in (fortune.job.tasks if fortune.job is not None else ()))
    yield "pods", {word: counts[status] for status, word in _WORDS.items() if counts[status]}


def _pods(tasks: Sequence[Task]) -> str:
    counts = Counter(task.status for task in tasks)
    parts = [f"{counts[status]} {word}" for status, word in _WORDS.items() if counts[status]]
    return ", ".join(parts) if parts else count(0, "pod")


def _where(topology: Topology, place: Place | None) -> str:
    return domain_title(topology, place.domain) if place is not None else ""

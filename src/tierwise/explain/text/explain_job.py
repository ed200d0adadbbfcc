"""What `explain --job` says: a job's limits, what its search saw, and where its sub-groups and pods went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, islice

import numpy as np

from tierwise.actions.diagnosis.inspection import Candidates, chosen
from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.explain.decision_basis import DecisionBasis, decision_bases
from tierwise.explain.message import refusal
from tierwise.explain.naming import ObjectNames, decision_title, rows_title
from tierwise.explain.new_placements import newly_placed
from tierwise.explain.obstacles import obstacle_lines, obstacles_of, obstacles_wire
from tierwise.explain.page import Page, Text, count, heading, section, wrapped
from tierwise.explain.proposal import pattern_lines, proposal_lines, proposal_wire
from tierwise.explain.ranges import compact, pods
from tierwise.explain.rejection_wire import FORMAT, eviction_wire, rejection_wire, tried_wire
from tierwise.explain.sets import set_lines, sets_of, sets_wire
from tierwise.explain.tables import Cell, pairs, table
from tierwise.explain.text.evictions import different, eviction_lines
from tierwise.explain.text.explain_pod import job_facts
from tierwise.explain.text.narrative import limits_line, looked_at, rejection_lines
from tierwise.explain.text.schedule import Run
from tierwise.explain.text.waiting import STYLES
from tierwise.explain.wire import candidates_wire, pod_group_wire, reservation_wire, why_waiting
from tierwise.framework.report import CycleReport, Decision
from tierwise.model.job import Job, Status
from tierwise.model.snapshot import Ground, Snapshot

__all__ = ["job_lines", "job_wire", "search_texts"]

_PLACES = 40


def job_lines(page: Page, run: Run, job: Job) -> list[Text]:
    """The story of one job over all cycles of a run."""
    names = ObjectNames(run.after.jobs)
    decided = run.decisions().get(job.key, [])
    lines = [Text.assemble(("podGroup ", "bold"), (names.of(job), f"bold {names.style(job)}"))]
    lines += pairs(page, job_facts(run.after, job))
    lines += [*heading("Search"), *_search(page, run, job)]
    lines += section("Sets", set_lines(page, sets_of(*run.reports[-1], run.profile, job)))
    attempts = [attempt for _, report in run.reports for attempt in report.eviction_attempts.get(job.key, ())]
    if attempts:
        lines += [*heading("Eviction"), *eviction_lines(page, attempts)]
    if decided:
        lines += [*heading("Placed"), *_places(page, run, job)]
    return [*lines, *heading("Verdict"), *_verdict(page, run, job, decided)]


def search_texts(run: Run, job: Job) -> list[Text]:
    """The steps of the search that found the place of a job; none where no cycle of the run placed it."""
    number, snapshot, basis = _first_basis(run, job)
    if basis is None:
        return []
    anywhere = job.constraint is None and job.shape.wishes.gather is None
    limits_text = "looked for in the whole cluster" if anywhere else limits_line(snapshot, job)
    texts = looked_at(snapshot, basis) or [Text(limits_text)]
    texts += proposal_lines(snapshot, basis.decision) + pattern_lines(snapshot, basis.decision)
    return [*texts, Text(f"cycle {number} found {decision_title(snapshot, basis.decision)}")]


def _first_basis(run: Run, job: Job) -> tuple[int, Snapshot, DecisionBasis | None]:
    """The number of the cycle that found a place for a job, what it saw, and what it compared; None where none did."""
    for number, (snapshot, report) in enumerate(run.reports, start=1):
        basis = decision_bases(snapshot, report, run.profile, {job.key}).get(job.key)
        if basis is not None:
            return number, snapshot, basis
    return 0, run.after, None


def _search(page: Page, run: Run, job: Job) -> list[Text]:
    texts = search_texts(run, job)
    if texts:
        return [line for text in texts for line in wrapped(text, page.width, first="  ", rest="    ")]
    rejection = refusal(job, run.last)
    if rejection is None:
        return [Text("  no cycle searched a place for it")]
    obstacles = obstacles_of(*run.reports[-1], run.profile, job)
    return [
        *rejection_lines(page, run.after.topology, rejection, indent=2),
        *obstacle_lines(page, obstacles, indent=2),
    ]


def _places(page: Page, run: Run, job: Job) -> list[Text]:
    """A table of hyperNodes with the pods that went there."""
    topology, nodes = run.after.topology, run.after.nodes
    homes: dict[int, dict[tuple[str, str], list[tuple[str, str]]]] = {}
    for entry in newly_placed(run.reports, run.after):
        if entry.job.key == job.key:
            groups = homes.setdefault(int(topology.leaf[entry.row]), {})
            groups.setdefault((entry.sub, entry.role), []).append((entry.pod, nodes.names[entry.row]))
    stem = ObjectNames.stem(job)
    rows: list[list[Cell]] = []
    for home, groups in homes.items():
        for (sub, role), pods_and_nodes in groups.items():
            title = topology.name[home] if home else "no hyperNode"
            which = pods(stem, [pod for pod, _ in pods_and_nodes], role)
            rows.append([sub, title, which, compact((node for _, node in pods_and_nodes), limit=2)])
    shown = rows if page.everything else rows[:_PLACES]
    word = job.joint_word()
    columns = [f"{word}:{len(word)}", "hyperNode:12", "pods~16", "nodes~16"]
    if not any(row[0] for row in rows):
        columns, shown = columns[1:], [row[1:] for row in shown]
    lines = table(page, columns, shown)
    return [*lines, Text(f"  and {len(rows) - len(shown)} more; --all shows them")] if len(rows) > len(shown) else lines


def _verdict(page: Page, run: Run, job: Job, decided: list[Decision]) -> list[Text]:
    idle = [entry for entry in run.waiting() if entry.job.key == job.key]
    texts: list[Text] = []
    if decided:
        number = sum(decision.count() for decision in decided)
        bound = decided[-1].bound
        what = "bound" if bound else "held until resources are released"
        verdict_text = (f"{count(number, 'pod')} {what}", "green" if bound else "yellow")
        texts.append(Text.assemble(verdict_text, _span(run, job)))
    for entry in idle:
        verdict, code, _ = why_waiting(job, entry.rejection)
        words = (verdict.words, STYLES[verdict])
        texts.append(Text.assemble(f"{count(entry.number, 'pod')} waiting, ", words, ": ", (code, "yellow")))
    if not texts:
        texts.append(Text("nothing of it is pending"))
    return [line for text in texts for line in wrapped(text, page.width, first="  ")]


def _span(run: Run, job: Job) -> str:
    rows = [entry.row for entry in newly_placed(run.reports, run.after) if entry.job.key == job.key]
    where = rows_title(run.after, job, np.array(rows, dtype=np.int64))
    return f", across {where}" if where == "the whole cluster" else f", all within {where}"


def job_wire(run: Run, job: Job, bindings: Mapping[str, str]) -> Raw:
    """The podGroup as `schedule` lists it, with its pods, what was compared, and why the rest waits."""
    after, reports = run.after, run.reports
    _, seen, basis = _first_basis(run, job)
    rejection = refusal(job, reports[-1][1])
    mine = {task.key for task in job.tasks}
    return {
        "formatVersion": FORMAT,
        "podGroup": job.key,
        **pod_group_wire(after, job, job.key),
        "bindings": {pod: node for pod, node in bindings.items() if pod in mine},
        "pending": [task.key for task in job.tasks if task.status is Status.PENDING],
        **rejection_wire(rejection),
        **obstacles_wire(obstacles_of(*reports[-1], run.profile, job)),
        **sets_wire(sets_of(*reports[-1], run.profile, job)),
        "eviction": eviction_wire(different(s for _, r in reports for s in r.eviction_attempts.get(job.key, ()))),
        "proposal": _proposal(job, reports),
        **candidates_wire(_candidates(seen, basis)),
        "ladder": _ladder(job),
        "tried": [tried_wire(tried) for tried in rejection.tried] if rejection is not None else [],
        **_reservation(job, *reports[-1]),
    }


def _candidates(snapshot: Snapshot, basis: DecisionBasis | None) -> Candidates:
    """The domains that were compared, or the one that was chosen where places are counted."""
    if basis is None:
        return Candidates()
    gathered = snapshot.ground(basis.job) is Ground.GATHERED
    return chosen(snapshot, basis.job, basis.decision) if gathered else basis.candidates


def _reservation(job: Job, snapshot: Snapshot, report: CycleReport) -> Raw:
    """The reservation of the job, where it has one."""
    own_reservation = next((reservation for reservation in report.reservations if reservation.job.key == job.key), None)
    return {"reservation": reservation_wire(snapshot, own_reservation)} if own_reservation is not None else {}


def _proposal(job: Job, reports: Sequence[tuple[Snapshot, CycleReport]]) -> Raw | None:
    """The recommendation for the minimum of the job as JSON; None without one."""
    minimum_decisions = (
        (snapshot, d) for snapshot, report in reports for d in report.decisions if d.job.key == job.key
    )
    return next((wire for snapshot, d in minimum_decisions if (wire := proposal_wire(snapshot, d)) is not None), None)


def _ladder(job: Job) -> list[Raw]:
    """For how long the job holds out for which tier."""
    ends = accumulate((step.seconds for step in job.ladder), initial=job.created)
    return [
        {"tier": s.tier, "until": format_time(end)} for s, end in zip(job.ladder, islice(ends, 1, None), strict=True)
    ]

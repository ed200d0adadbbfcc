"""The answers that users of one namespace get, as text for people."""

from __future__ import annotations

from collections.abc import Sequence

from tierwise.explain.page import Page, Text, count, wrapped
from tierwise.explain.tables import Cell, pairs, table
from tierwise.explain.tenant import (
    DryRunAnswer,
    FitsAnswer,
    HelpAnswer,
    HistoryAnswer,
    JobAnswer,
    JobsAnswer,
    PositionAnswer,
    QueuesAnswer,
    StartAnswer,
    coarse_text,
)

__all__ = ["TenantAnswer", "tenant_lines"]

TenantAnswer = (
    DryRunAnswer
    | FitsAnswer
    | HelpAnswer
    | HistoryAnswer
    | JobAnswer
    | JobsAnswer
    | PositionAnswer
    | QueuesAnswer
    | StartAnswer
)
"""Any answer of the API."""


def tenant_lines(page: Page, answer: TenantAnswer) -> list[Text]:
    """An answer for people, with the moment that it is about."""
    return [*_lines(page, answer), Text(f"as of {answer.as_of}", style="dim")]


def _lines(page: Page, answer: TenantAnswer) -> list[Text]:
    match answer:
        case JobsAnswer():
            return _jobs(page, answer)
        case JobAnswer():
            return _job(page, answer)
        case StartAnswer():
            return _start(page, answer)
        case PositionAnswer():
            among_own = f"number {answer.own_position} of the jobs of this namespace there"
            return [Text(f"{answer.name}: {answer.text}, {among_own}")]
        case HelpAnswer():
            return _help(page, answer)
        case HistoryAnswer():
            rows: list[Sequence[Cell]] = [(entry.at, entry.text or entry.event) for entry in answer.entries]
            return table(page, ("at", "what~20"), rows) if rows else [Text("its objects tell nothing of its past")]
        case QueuesAnswer():
            return _queues(page, answer)
        case FitsAnswer():
            return _fits(page, answer)
        case DryRunAnswer():
            return _dry_run(page, answer)


def _jobs(page: Page, answer: JobsAnswer) -> list[Text]:
    if not answer.jobs:
        return [Text(f"no job of namespace {answer.namespace} is waiting or running")]
    rows: list[Sequence[Cell]] = []
    for job in answer.jobs:
        why = f"{job.verdict.replace('-', ' ')}: {job.reason}" if job.verdict else ""
        rows.append((job.name, job.state, str(job.pods_running), str(job.pods_waiting), job.queue, why))
    return table(page, ("job:12", "state", "running>", "waiting>", "queue:8", "why it waits~20"), rows)


def _job(page: Page, answer: JobAnswer) -> list[Text]:
    title = Text.assemble((answer.name, "bold"), f" is {answer.state}: ")
    title.append(f"{count(answer.pods_running, 'pod')} running, {answer.pods_waiting} waiting")
    rows: list[tuple[str, Cell]] = []
    if answer.domain:
        rows.append(("in", answer.domain))
    if answer.verdict:
        rows.append((answer.verdict.replace("-", " "), f"{answer.reason}: {answer.message}"))
    if answer.cure:
        rows.append(("what to do", answer.cure))
    if answer.cluster_says:
        rows.append(("the cluster says", answer.cluster_says))
    return [*wrapped(title, page.width), *(pairs(page, rows) if rows else [])]


def _start(page: Page, answer: StartAnswer) -> list[Text]:
    awaited = list(answer.after)
    if answer.after_others:
        awaited.append("jobs of other namespaces")
    after = f", when {', '.join(awaited)} end" if awaited else ""
    return wrapped(Text(f"{answer.name}: {answer.text}{after}"), page.width)


def _help(page: Page, answer: HelpAnswer) -> list[Text]:
    if answer.starts:
        return [Text(f"{answer.name}: the next cycle starts it anyway")]
    lines = [
        Text(f"{answer.name} would start now with one of these:" if answer.ways else f"{answer.name}: no way found")
    ]
    for way in answer.ways:
        lines += wrapped(Text(way.text), page.width, first="  - ", rest="    ")
    if answer.stopped:
        lines += wrapped(Text(answer.stopped, style="dim"), page.width)
    return lines


def _queues(page: Page, answer: QueuesAnswer) -> list[Text]:
    if not answer.queues:
        return [Text(f"no job of namespace {answer.namespace} is in a queue")]
    rows: list[Sequence[Cell]] = []
    for queue in answer.queues:
        limit = f" of {queue.limit}" if queue.limit else ""
        used = f"{queue.used}{limit}" if queue.used else "not shown to you"
        used_here = f"{queue.used_here} {queue.resource}"
        rows.append((queue.name, used_here, used, str(queue.jobs_running), str(queue.jobs_waiting)))
    return table(page, ("queue:8", "used here", "used by all", "running>", "waiting>"), rows)


def _fits(page: Page, answer: FitsAnswer) -> list[Text]:
    free = [slot for slot in answer.slots if slot.gangs.at_most != 0]
    if not free:
        return [Text(f"no {answer.resource} is free")]
    rows: list[Sequence[Cell]] = [(slot.tier, str(slot.size), coarse_text(slot.gangs)) for slot in free]
    return table(page, ("inside one", f"gang of so many {answer.resource}>", "fit now"), rows)


def _dry_run(page: Page, answer: DryRunAnswer) -> list[Text]:
    if not answer.jobs:
        return [Text("no job is in it")]
    lines: list[Text] = []
    for job in answer.jobs:
        end = "would start" if job.starts else f"would wait, {job.verdict.replace('-', ' ')}: {job.message}"
        lines += wrapped(Text(f"{job.name} ({count(job.pods, 'pod')}) {end}"), page.width, rest="    ")
        if job.cure:
            lines += wrapped(Text(f"what to do: {job.cure}"), page.width, first="    ", rest="    ")
    for text in answer.warnings:
        lines += wrapped(Text(text, style="yellow"), page.width)
    return lines

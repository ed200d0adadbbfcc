"""The page of `what-if`: the changes, the cluster before and after in figures, and the jobs that they matter to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from tierwise.api.plurals import of, verb
from tierwise.explain.comparison import Answer, Comparison, Effect, JobChange, JobState, LeastChange
from tierwise.explain.disruption import Loss, lost_text
from tierwise.explain.page import Page, Text, count, heading, joined, wrapped
from tierwise.explain.ranges import compact
from tierwise.explain.tables import folded

__all__ = ["Restarts", "first_answer_lines", "least_change_lines", "what_if_lines"]

_TITLES: Final = {
    Effect.STARTS: ("Starts", "bold green"),
    Effect.STOPS: ("Stops", "bold red"),
    Effect.WAITS_LONGER: ("Waits longer", "bold yellow"),
    Effect.MOVES: ("Moves", "bold cyan"),
    Effect.GROWS: ("Runs more pods", "green"),
    Effect.SHRINKS: ("Runs fewer pods", "yellow"),
    Effect.WAITS: ("Comes and waits", "yellow"),
    Effect.ANOTHER_REASON: ("Waits in any case, for another reason", "yellow"),
    Effect.ENDS: ("Is gone", "red"),
}
_HOPELESS: Final = {
    "uncordon": "uncordoning nodes",
    "relax": "a wider limit",
    "loosen": "soft rules about its sets",
    "quota": "more quota",
    "evict": "evicting pods",
    "add-nodes": "more nodes like the present ones",
    "wait": "waiting (no end that is known starts it)",
}
_UNSETTLED: Final = {"wait": "waiting"}
_MOST: Final = 10
_ABSENT: Final = JobState(started=False, pods={}, total=0)


class Restarts(msgspec.Struct, frozen=True):
    """The jobs whose running pods changes stop."""

    losses: Sequence[Loss]
    unit: str
    back: Mapping[str, str]  # by job: for how long it is below a minimum


def what_if_lines(
    page: Page, changes: Sequence[str], comparison: Comparison, notes: Sequence[str], restarts: Restarts
) -> list[Text]:
    """Everything that `what-if` tells people."""
    lines: list[Text] = []
    for number, change in enumerate(changes):
        lines += wrapped(Text(change, style="bold"), page.width, first="what if  " if not number else "         ")
    lines.append(Text(""))
    for title, totals in (("before   ", comparison.before), ("after    ", comparison.after)):
        lines += wrapped(Text(totals.text), page.width, first=title)
    for note in notes:
        lines += wrapped(Text(note), page.width, first="note     ")
    lines += _restart_lines(page, restarts)
    planned = [job for job in comparison.jobs if job.effect is Effect.MOVES and not job.ran]
    lines += _jobs_lines(page, "Plans another place (does not run yet)", "cyan", planned)
    for effect, (title, style) in _TITLES.items():
        jobs = [job for job in comparison.jobs if job.effect is effect and job not in planned]
        lines += _jobs_lines(page, title, style, jobs)
    if not comparison.jobs:
        lines += [Text(""), Text("no job starts, moves or waits for another reason")]
    elif comparison.same:
        unchanged_text = f"{count(comparison.same, 'other job')} as before"
        lines += [Text(""), Text(unchanged_text, style="dim")]
    return lines


def _jobs_lines(page: Page, title: str, style: str, jobs: Sequence[JobChange]) -> list[Text]:
    lines = list(heading(title)) if jobs else []
    for job in jobs if page.everything else jobs[:_MOST]:
        job_text = Text.assemble((job.name, style), f"  {_told(page, job)}")
        lines += wrapped(job_text, page.width, first="  ", rest="      ")
    return [*lines, *folded(0 if page.everything else max(0, len(jobs) - _MOST), "more job")]


def _restart_lines(page: Page, restarts: Restarts) -> list[Text]:
    """How many running pods stop, which gangs fall below a minimum, and for how long."""
    losses = restarts.losses
    if not losses:
        return []
    pods = count(sum(loss.pods for loss in losses), "running pod")
    lines = heading(f"Stops {pods} of {count(len(losses), 'job')}: {lost_text(losses, restarts.unit)}")
    for loss in losses if page.everything else losses[:_MOST]:
        gang = loss.running > 1 or loss.minimum > 1
        number = of(loss.pods, loss.running, "pod") if gang else "a pod by itself"
        after = f"keeps its minimum of {loss.minimum}" if gang else ""
        if loss.below:
            below = f"below its minimum of {loss.minimum} " if gang else "stopped "
            after = f"{below}{restarts.back.get(loss.job, '')}".rstrip()
        loss_text = Text.assemble((loss.name, "bold red" if loss.below else "bold"), f"  {number}; {after}")
        lines += wrapped(loss_text, page.width, first="  ", rest="      ")
    return [*lines, *folded(0 if page.everything else max(0, len(losses) - _MOST), "more job")]


def _told(page: Page, change: JobChange) -> str:
    before, after = change.before or _ABSENT, change.after or _ABSENT
    match change.effect:
        case Effect.STARTS:
            waited = f"; without the change: {before.message}" if before.message else ""
            return f"{_pods(after)}{waited}"
        case Effect.STOPS:
            return f"{_pods(before)} now; {_waits(after)}"
        case Effect.WAITS_LONGER:
            return f"{_pods(before)} without the change; {_waits(after)}"
        case Effect.MOVES:
            moved = [pod for pod, node in before.pods.items() if after.pods.get(pod, node) != node]
            old, new = (compact(dict.fromkeys(side.pods[pod] for pod in moved)) for side in (before, after))
            does = ("restarts", "restart") if change.ran else ("goes", "go")
            pods = f"{of(len(moved), len(before.pods), 'pod')} {verb(len(moved), *does)}"
            return f"{pods} {'on' if change.ran else 'to'} {new} instead of {old}{_where(page, before, after)}"
        case Effect.GROWS | Effect.SHRINKS:
            message_text = f": {after.message}" if after.message and change.effect is Effect.SHRINKS else ""
            return f"{of(len(after.pods), after.total, 'pod')} instead of {len(before.pods)}{message_text}"
        case Effect.WAITS:
            return f"{count(after.total, 'pod')}; {_waits(after)}"
        case Effect.ANOTHER_REASON:
            return f"{after.message or after.reason}; without the change: {before.message or before.reason}"
        case _:
            return f"{_pods(before)} now" if before.pods else "it waits now"


def _pods(state: JobState) -> str:
    total = count(state.total, "pod")
    number = total if len(state.pods) == state.total else f"{len(state.pods)} of {total}"
    return f"{number} in {state.place}" if state.place else number


def _waits(state: JobState) -> str:
    return f"then it waits: {state.message or state.reason}" if state.message or state.reason else "then it waits"


def _where(page: Page, before: JobState, after: JobState) -> str:
    return f" ({before.place} {page.glyphs.arrow} {after.place})" if before.place != after.place else ""


def first_answer_lines(page: Page, least_change: LeastChange) -> list[Text]:
    """Ways that should make a job start by counting alone, told while they are tried."""
    headline = "by counting alone, any one of these should make it start now; they are being tried"
    if not least_change.answers:
        headline = "by counting alone nothing is known to stand in its way; it is being tried"
    lines = wrapped(Text.assemble((least_change.name, "bold"), f": {headline}"), page.width)
    for answer in least_change.answers:
        lines += wrapped(Text(answer.text), page.width, first=f"  {page.glyphs.bullet} ")
    return lines


def _answer_lines(page: Page, answer: Answer, *, alone: bool) -> list[Text]:
    """One way, and how sure it is."""
    proof = "" if answer.exact else "; perhaps less will do, for not all choices were tried"
    if answer.counted:
        proof = "; by counting alone, not tried"
    opening = "or " if answer.way == "wait" and not alone else ""
    return wrapped(Text(f"{opening}{answer.text}{proof}"), page.width, first=f"  {page.glyphs.bullet} ")


def least_change_lines(page: Page, least_change: LeastChange) -> list[Text]:
    """What makes a job start now, way by way."""
    own_lines = (
        wrapped(Text(least_change.own.text, style="dim"), page.width, first="  ", rest="    ")
        if least_change.own.text
        else []
    )
    if least_change.starts:
        text = Text.assemble((least_change.name, "bold"), ": starts now, and no change is needed")
        return wrapped(text, page.width) + (own_lines if least_change.own.pods else [])
    if not least_change.answers:
        lines = wrapped(
            Text.assemble((least_change.name, "bold"), ": nothing that was tried makes it start now"), page.width
        )
    else:
        lines = wrapped(Text.assemble((least_change.name, "bold"), ": any one of these makes it start now"), page.width)
    for answer in least_change.answers:
        lines += _answer_lines(page, answer, alone=len(least_change.answers) == 1)
    if least_change.stopped:
        lines += wrapped(Text(least_change.stopped), page.width, first="  ", rest="    ")
    if least_change.unsettled:
        way_texts = joined(
            [_UNSETTLED.get(kind, _HOPELESS[kind]) for kind in least_change.unsettled], limit=len(_HOPELESS)
        )
        unsettled_text = f"not settled, because the runs that one way may take were used up: {way_texts}"
        lines += wrapped(Text(unsettled_text, style="yellow"), page.width, first="  ", rest="    ")
    if least_change.hopeless:
        way_texts = joined([_HOPELESS[kind] for kind in least_change.hopeless], limit=len(_HOPELESS))
        lines += wrapped(Text(f"no help: {way_texts}", style="dim"), page.width, first="  ", rest="    ")
    return lines + own_lines

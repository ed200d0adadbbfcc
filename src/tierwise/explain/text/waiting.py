"""The jobs that wait and why; jobs with the same reason are listed together."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from tierwise.api.plurals import of
from tierwise.explain.message import refusal
from tierwise.explain.naming import ObjectNames, name_of_pod
from tierwise.explain.page import Page, Text, count, joined, wrapped
from tierwise.explain.ranges import compact
from tierwise.explain.text.narrative import rejection_lines
from tierwise.framework.report import CycleReport
from tierwise.model.job import Job, Rejection, Status, Verdict
from tierwise.model.snapshot import Snapshot

__all__ = ["STYLES", "Waiting", "not_allowed", "waiting", "waiting_lines"]

_GROUPS = 6
STYLES = {Verdict.NEVER: "bold red", Verdict.NOT_NOW: "yellow", Verdict.NOT_ALLOWED: "magenta"}
"""How each verdict is shown."""


class Waiting(msgspec.Struct, frozen=True):
    """A job with pods that have no place, or none yet."""

    job: Job
    pods: tuple[str, ...]
    rejection: Rejection | None

    @property
    def number(self) -> int:
        """How many pods wait; a job whose pods are not made yet waits with its minimum."""
        return len(self.pods) or self.job.minimum


def waiting(after: Snapshot, report: CycleReport, nominated: Collection[str]) -> list[Waiting]:
    """Every job that is not wholly placed, in order; pods by themselves come last."""
    entries = []
    for job in sorted(after.jobs, key=lambda job: (job.lone, job.order)):
        pods = tuple(t.key for t in job.tasks if t.status is Status.PENDING and t.key not in nominated)
        rejection = refusal(job, report)
        if pods or (rejection is not None and not job.tasks):
            entries.append(Waiting(job, pods, rejection))
    return entries


def waiting_lines(page: Page, names: ObjectNames, after: Snapshot, entries: Iterable[Waiting]) -> list[Text]:
    """The waiting jobs, with their full reasons."""
    groups: dict[tuple[str, ...], list[Waiting]] = {}
    reasons: dict[tuple[str, ...], list[Text]] = {}
    for entry in entries:
        lines = _reason(page, after, entry)
        key = tuple(line.plain for line in lines)
        groups.setdefault(key, []).append(entry)
        reasons[key] = lines
    result: list[Text] = []
    shown = list(groups) if page.everything else list(groups)[:_GROUPS]
    for key in shown:
        result += wrapped(_title(names, groups[key]), page.width, first="  ", rest="      ")
        result += reasons[key]
    hidden = [entry for key in list(groups)[len(shown) :] for entry in groups[key]]
    if hidden:
        pods = sum(entry.number for entry in hidden)
        text = f"and {count(len(hidden), 'more gang')} with {count(pods, 'pod')}; --all shows them"
        result.append(Text(f"  {text}", style="dim"))
    return result + _others(page, after)


def _reason(page: Page, after: Snapshot, entry: Waiting) -> list[Text]:
    if entry.rejection is None:
        return [Text("    no cycle has looked for a place yet")]
    return rejection_lines(page, after.topology, entry.rejection)


def _title(names: ObjectNames, entries: list[Waiting]) -> Text:
    gangs = [entry for entry in entries if not entry.job.lone]
    shown = [names.of(entry.job) for entry in gangs]
    lone = []
    for entry in entries:
        if entry.job.lone:
            for pod in entry.pods:
                lone.append(name_of_pod(pod))
    if lone:
        shown.append(compact(lone))
    rejection = entries[0].rejection
    code = rejection.reason.code if rejection is not None else "NotTried"
    verdict = rejection.verdict if rejection is not None else Verdict.NOT_NOW
    number = sum(entry.number for entry in entries)
    total = sum(len(entry.job.tasks) or entry.job.minimum for entry in entries)
    plural = "wait together" if len(gangs) > 1 else "wait"
    verb = "waits" if number == 1 else plural
    pods = f"{of(number, total, 'pod')} {verb}"
    return Text.assemble(
        (joined(shown), "bold yellow"), f"  {pods}  ", (verdict.words, STYLES[verdict]), ": ", (code, "yellow")
    )


def not_allowed(after: Snapshot) -> int:
    """Pods that wait for something other than room."""
    return sum(t.status is Status.GATED for job in after.jobs for t in job.tasks) + len(after.orphans)


def _others(page: Page, after: Snapshot) -> list[Text]:
    """Pods that wait for something other than room."""
    refused = Verdict.NOT_ALLOWED.words
    gated = []
    for job in after.jobs:
        for t in job.tasks:
            if t.status is Status.GATED:
                gated.append(name_of_pod(t.key))
    texts = []
    if gated:
        texts.append(Text(f"{count(len(gated), 'pod')} behind scheduling gates, {refused}: {compact(gated)}"))
    reasons: dict[str, list[str]] = {}
    for pod, orphan in after.orphans.items():
        reasons.setdefault(orphan.text, []).append(name_of_pod(pod))
    for text, pods in list(reasons.items())[:_GROUPS]:
        texts.append(Text(f"{compact(pods)}: {refused}, {text}"))
    return [line for text in texts for line in wrapped(text, page.width, first="  ", rest="      ")]

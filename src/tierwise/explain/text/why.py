"""The answer of `why`: in a few lines, where a pod runs, where it would run now, or what it waits for.

The short form of the page in `explain_pod`: one look at the current state, and what the cluster itself last reported.
"""

from __future__ import annotations

import msgspec

from tierwise.api.codec import Raw
from tierwise.api.volcano import PodGroup
from tierwise.explain.fair_shares import share_line
from tierwise.explain.naming import ObjectNames, decision_title
from tierwise.explain.obstacles import Obstacle, obstacle_lines, obstacles_wire
from tierwise.explain.page import Page, Text, count, wrapped
from tierwise.explain.reasons import advice_lines, advice_wire
from tierwise.explain.rejection_wire import FORMAT, rejection_wire
from tierwise.explain.sets import SetRuleView, sets_wire, short_lines
from tierwise.explain.text.narrative import rejection_lines
from tierwise.explain.text.waiting import STYLES
from tierwise.framework.report import CycleReport, Decision
from tierwise.model.job import Job
from tierwise.model.snapshot import Snapshot
from tierwise.port import Objects

__all__ = ["PodExplanation", "already_placed", "why_lines", "why_wire"]


class PodExplanation(msgspec.Struct, frozen=True):
    """A pod, the job that it belongs to, and what a cycle made of the two; without a job, `text` says all there is."""

    pod: str
    job: Job | None
    snapshot: Snapshot
    report: CycleReport
    text: str = ""
    said: str = ""  # by the cluster itself, in the status of the pod's group
    obstacles: tuple[Obstacle, ...] = ()
    sets: tuple[SetRuleView, ...] = ()

    def place(self) -> tuple[Decision, str] | None:
        """The decision that gave the pod a place, and the node."""
        names = self.snapshot.nodes.names
        decisions_and_rows = (
            (d, row) for d in self.report.decisions for task, row in d.places() if task.key == self.pod
        )
        return next(((decision, names[row]) for decision, row in decisions_and_rows), None)


def already_placed(objects: Objects, job: Job | None) -> str:
    """The newest condition of the podGroup of a job, as "TYPE: MESSAGE"; "" without one."""
    group = objects.every(PodGroup).get(job.key) if job is not None and job.declared else None
    lines = group.status.conditions if group is not None else ()
    return f"{lines[-1].type}: {lines[-1].message}" if lines else ""


def why_lines(page: Page, answer: PodExplanation) -> list[Text]:
    """The answer for people."""
    job, place = answer.job, answer.place()
    if job is None or answer.text:
        return wrapped(Text.assemble((answer.pod, "bold"), f": {answer.text}"), page.width)
    title = Text.assemble((answer.pod, "bold"), _of_job(answer, job))
    rejection = answer.report.rejections.get(job.key)
    body: list[Text] = []
    if place is not None:
        decision, node = place
        other_pods = f", with {count(decision.count(), 'pod')} of its job in " if job.declared else " in "
        title.append(" goes to " if decision.bound else " is kept a place on ").append(node, style="green")
        title.append(other_pods + decision_title(answer.snapshot, decision))
    elif rejection is not None:
        title.append(" waits  ").append(rejection.verdict.words, style=STYLES[rejection.verdict])
        title.append(": ").append(rejection.reason.code, style="yellow")
        body = rejection_lines(page, answer.snapshot.topology, rejection)
        body += obstacle_lines(page, answer.obstacles)
        body += short_lines(page, answer.sets)
        body += advice_lines(page, rejection.reason.code)
        line = share_line(answer.report, job)
        body += wrapped(Text(line), page.width, first="    ", rest="      ") if line else []
    else:
        title.append(" waits; no cycle has looked for a place yet")
    lines = [*wrapped(title, page.width, rest="    "), *body]
    if answer.said:
        lines += wrapped(Text(f"the cluster says: {answer.said}", style="dim"), page.width, first="    ", rest="      ")
    return lines


def _of_job(answer: PodExplanation, job: Job) -> str:
    return f" of {ObjectNames(answer.snapshot.jobs).of(job)}" if job.declared else ""


def why_wire(answer: PodExplanation) -> Raw:
    """The answer for programs."""
    job, place = answer.job, answer.place()
    rejection = answer.report.rejections.get(job.key) if job is not None else None
    state = "placed" if place is not None else "waiting"
    state = "settled" if answer.text else state
    names = answer.snapshot.topology.name
    waits = rejection if state == "waiting" else None
    return {
        "formatVersion": FORMAT,
        "pod": answer.pod,
        "podGroup": job.key if job is not None and job.declared else "",
        "state": state,
        "node": place[1] if place is not None else "",
        "hyperNode": names[place[0].domain] if place is not None else "",
        **rejection_wire(waits),
        **obstacles_wire(answer.obstacles),
        **sets_wire(answer.sets),
        **({"share": line} if job is not None and (line := share_line(answer.report, job)) else {}),
        **(advice_wire(waits.reason.code) if waits is not None else {}),
        **({"message": answer.text} if answer.text else {}),
        "clusterSays": answer.said,
    }

"""The page of `schedule`: headline, tree, why jobs were placed where they are, which jobs wait, and problems."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tierwise.config.profile import Profile
from tierwise.explain.decision_basis import DecisionBasis, decision_bases
from tierwise.explain.naming import ObjectNames, name_of_pod
from tierwise.explain.new_placements import NewPlacements, newly_placed
from tierwise.explain.page import Page, Text, count, section, wrapped
from tierwise.explain.problems import GOES_IN_CIRCLES, problem_lines
from tierwise.explain.ranges import compact
from tierwise.explain.tables import folded
from tierwise.explain.text.narrative import why_here
from tierwise.explain.text.tree import schedule_tree
from tierwise.explain.text.waiting import Waiting, not_allowed, waiting, waiting_lines
from tierwise.framework.report import CycleReport, Decision, Eviction
from tierwise.model.job import Verdict
from tierwise.model.snapshot import Fault, Snapshot

__all__ = ["Run", "headline", "schedule_lines"]

_JOBS = 6


class Run(msgspec.Struct, frozen=True):
    """All cycles of a run: what each saw and decided, and how the cluster stood in the end."""

    reports: Sequence[tuple[Snapshot, CycleReport]]
    after: Snapshot
    profile: Profile
    evictions: Sequence[Eviction] = ()
    complaints: Sequence[Fault] = ()

    @property
    def last(self) -> CycleReport:
        return self.reports[-1][1]

    def decisions(self) -> dict[str, list[Decision]]:
        """What was decided for each job; room that is kept counts only where the last cycle keeps it."""
        decisions_by_job: dict[str, list[Decision]] = {}
        for _, report in self.reports:
            for decision in report.decisions:
                if decision.bound or report is self.last:
                    decisions_by_job.setdefault(decision.job.key, []).append(decision)
        return decisions_by_job

    def waiting(self) -> list[Waiting]:
        """The jobs that wait; one that lost all its pods to an eviction of this run is told of there."""
        evicted = {eviction.job.key for eviction in self.evictions}
        entries = waiting(self.after, self.last, self.nominated())
        return [entry for entry in entries if entry.pods or entry.job.key not in evicted]

    def nominated(self) -> set[str]:
        return {task.key for decision in self.last.decisions if not decision.bound for task, _ in decision.places()}


def schedule_lines(page: Page, run: Run) -> list[Text]:
    """Everything that `schedule` tells people."""
    names = ObjectNames(job for snapshot, _ in run.reports for job in snapshot.jobs)
    idle = run.waiting()
    landings = NewPlacements(newly_placed(run.reports, run.after))
    lines = wrapped(headline(run), page.width)
    lines += [Text(""), *schedule_tree(page, run.reports[0][0], run.after, landings, names)]
    lines += section("Placed", _placed(page, names, run))
    lines += section("Waiting", waiting_lines(page, names, run.after, idle))
    lines += section("Evicted", _evicted(page, run.evictions))
    return lines + section("Problems", problem_lines(page, run.after, run.complaints))


def headline(run: Run) -> Text:
    """The result of a run, in one line."""
    idle = run.waiting()
    decided = [decisions for decisions in run.decisions().values() if any(d.bound for d in decisions)]
    bound = sum(d.count() for decisions in decided for d in decisions if d.bound)
    gangs = sum(not decisions[0].job.lone for decisions in decided)
    lone = len(decided) - gangs
    parts = [count(gangs, "gang")] if gangs or not lone else []
    parts += [count(lone, "single pod")] if lone else []
    refused = not_allowed(run.after)
    if not bound and not idle and not run.nominated() and not refused:
        return Text(f"nothing to schedule; {count(len(run.reports), 'cycle')}")
    text = Text.assemble((f"{count(bound, 'pod')} bound", "bold green" if bound else "bold"))
    if bound and lone == bound:
        text = Text.assemble((f"{count(bound, 'single pod')} bound", "bold green"))
    else:
        text.append(f" in {' and '.join(parts)}" if bound else "")
    nominated = len(run.nominated())
    if nominated:
        text.append(f", nodes kept for {count(nominated, 'pod')}")
    pods = sum(entry.number for entry in idle)
    if pods:
        gangs = sum(not entry.job.lone for entry in idle)
        who = f" in {count(gangs, 'gang')}" if gangs else ""
        text.append(", ").append(f"{count(pods, 'pod')}{who} waiting", style="bold yellow")
    if refused:
        text.append(", ").append(f"{count(refused, 'pod')} {Verdict.NOT_ALLOWED.words}", style="bold yellow")
    if run.evictions:
        text.append(f", {count(len(run.evictions), 'pod')} evicted", style="red")
    text.append(f"; {count(len(run.reports), 'cycle')}")
    if any(fault.code == GOES_IN_CIRCLES for fault in run.complaints):
        text.append("; stopped, because the cluster goes in circles", style="bold red")
    return text


def _placed(page: Page, names: ObjectNames, run: Run) -> list[Text]:
    decided = run.decisions()
    gangs = [key for key, decisions in decided.items() if not decisions[0].job.lone]
    shown = gangs if page.everything else gangs[:_JOBS]
    bases: dict[str, DecisionBasis] = {}
    for snapshot, report in run.reports:
        bases = {**decision_bases(snapshot, report, run.profile, set(shown) - set(bases)), **bases}
    seen = {d.job.key: snapshot for snapshot, report in reversed(run.reports) for d in report.decisions}
    lines: list[Text] = []
    for key in shown:
        lines += why_here(page, names, seen[key], decisions=decided[key], basis=bases.get(key))
    hidden_gangs = gangs[len(shown) :]
    if hidden_gangs:
        pods = sum(d.count() for key in hidden_gangs for d in decided[key])
        lines.append(
            Text(f"  and {count(len(hidden_gangs), 'more gang')} with {count(pods, 'pod')}; --all shows them", "dim")
        )
    lone = []
    for found in decided.values():
        if found[0].job.lone:
            lone.append(names.of(found[0].job))
    if lone:
        lone_text = Text(f"{compact(lone)}: {count(len(lone), 'pod')} without a podGroup")
        lines += wrapped(lone_text, page.width, first="  ", rest="      ")
    return lines


def _evicted(page: Page, evictions: Sequence[Eviction]) -> list[Text]:
    """Who had to go, and why; pods that went for one reason together."""
    groups: dict[tuple[str, str], list[str]] = {}
    for evicted in evictions:
        groups.setdefault((evicted.action, evicted.reason), []).append(name_of_pod(evicted.task.key))
    shown = list(groups.items()) if page.everything else list(groups.items())[:_JOBS]
    lines: list[Text] = []
    for (action, reason), pods in shown:
        text = Text.assemble((compact(pods), "red"), f"  {count(len(pods), 'pod')} by {action}: {reason}")
        lines += wrapped(text, page.width, first="  ", rest="      ")
    return [*lines, *folded(len(evictions) - sum(len(pods) for _, pods in shown), "more pod")]

"""What stands in the way of a gang: the wishes of its own without which it would have a place, windows, kept places.

Found out for `explain` and `why` alone: each wish is left out by itself by the integer program, on the nodes as the
cycle left them, or cleared of all others where the gang can never start; then what holds for a time is left out. Equal
snapshot, report and profile give equal answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

import msgspec

from tierwise.actions.placement.demand import demand
from tierwise.actions.placement.exact import LimitOf, Wish, obstacles, part_name, statable
from tierwise.actions.placement.problem import SearchResult
from tierwise.actions.placement.program import Wanted
from tierwise.actions.placement.solve import search_minimum
from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.plurals import count
from tierwise.config.profile import Profile
from tierwise.explain.decision_basis import after_decisions
from tierwise.explain.page import Page, Text, wrapped
from tierwise.framework.cycle import Cycle
from tierwise.framework.pod_rules import RuleKind, WrittenRule
from tierwise.framework.report import CycleReport
from tierwise.model.held import rows_by_shape
from tierwise.model.held_places import HeldPlace
from tierwise.model.job import Job, Reason, Status, Verdict
from tierwise.model.snapshot import Snapshot

__all__ = ["Obstacle", "obstacle_lines", "obstacles_of", "obstacles_wire"]

_NAMED = 3
"""Kept places that are named; of more their number is told."""
_PLACES = {
    "kubernetes.io/hostname": "hosts",
    "topology.kubernetes.io/zone": "zones",
    "topology.kubernetes.io/region": "regions",
}
_WORDS = {
    RuleKind.ANTI_AFFINITY: "anti-affinity",
    RuleKind.AFFINITY: "affinity",
    RuleKind.SPREAD: "spread",
}


class Obstacle(msgspec.Struct, frozen=True):
    """Wishes that are left out together, in words, and whether the gang would start now then, or only ever."""

    wishes: tuple[str, ...]
    now: bool

    def text(self) -> str:
        """Something like: without the spread of workers over zones it fits."""
        *first_wishes, last_wish = self.wishes
        together = f"{', '.join(first_wishes)} and {last_wish} together" if first_wishes else last_wish
        return f"without {together} {'it fits' if self.now else 'it would fit if the cluster were empty'}"


def obstacles_of(snapshot: Snapshot, report: CycleReport, profile: Profile, job: Job) -> tuple[Obstacle, ...]:
    """Rules and limits without which a waiting job would fit; none where it waits for something else than a place."""
    rejection = report.rejections.get(job.key)
    seen = next((any_job for any_job in snapshot.jobs if any_job.key == job.key), None)
    if rejection is None or seen is None or rejection.stage not in ("fit", "space"):
        return ()
    cycle = after_decisions(snapshot, report, profile)
    now = rejection.verdict is not Verdict.NEVER
    every = cycle.attempt(seen, lambda job: _look(cycle, job, cleared=not now))
    for_a_time = cycle.attempt(seen, lambda job: _for_a_time(cycle, job)) if now else ()
    obstacles_found = [] if isinstance(for_a_time, Reason) else [Obstacle(names, now) for names in for_a_time]
    if not isinstance(every, Reason):
        obstacles_found += [Obstacle(tuple(_words(seen, wish) for wish in wishes), now) for wishes in every]
    return tuple(obstacles_found)


def _for_a_time(cycle: Cycle, job: Job) -> Sequence[tuple[str, ...]]:
    """Windows, and places that are kept for successors: they pass by themselves, and without them a job would start."""
    names_of_obstacles: list[tuple[str, ...]] = []
    names = cycle.windows.closing(job) if cycle.windows is not None else ()
    if cycle.windows is not None and names:
        cycle.windows.serve(None)
        if _fits(cycle, job):
            names_of_obstacles.append(tuple(names))
        cycle.windows.serve(job)
    with cycle.ledger.statement():
        places = cycle.nominations.open_places()
        if places and _fits(cycle, job):
            names_of_obstacles.append(tuple(_kept(cycle, places)))
    return names_of_obstacles


def _fits(cycle: Cycle, job: Job) -> bool:
    job_demand = demand(cycle, job)
    with cycle.ledger.statement():
        return bool(job_demand.task_groups) and isinstance(search_minimum(cycle, job, job_demand), SearchResult)


def _kept(cycle: Cycle, places: Sequence[HeldPlace]) -> Iterator[str]:
    """The places that are kept, the first of them by name."""
    for place in places[:_NAMED]:
        until = f" until {format_time(place.until)}" if place.until < inf else ""
        yield f"the place on {cycle.nodes.names[place.row]} that is kept{until} for the successor of {place.after}"
    if len(places) > _NAMED:
        yield f"{count(len(places) - _NAMED, 'more place')}"


def _look(cycle: Cycle, job: Job, *, cleared: bool) -> Sequence[tuple[Wish, ...]]:
    stated_demand = statable(cycle, job)
    if stated_demand is None:
        return ()
    if cleared:
        running = rows_by_shape(cycle.nodes, job.tasks, Status.RUNNING)
        cycle.ledger.clear([(cycle.snapshot.shapes[number], rows) for number, rows in running.items()])
    return obstacles(cycle, job, stated_demand, alone=cleared)


def _words(job: Job, wish: Wish) -> str:
    if isinstance(wish, Wanted):
        names: dict[object, str] = dict(job.role_names.items())
        return f"the minimum of {count(wish.least, 'pod')} of {names.get(wish.role, 'a role')}"
    if isinstance(wish, LimitOf):
        places = " and ".join(constraint.words() for constraint in wish.constraints)
        return f"the limit{f' of {wish.part}' if wish.part else ''} to {places}"
    if wish.kind is RuleKind.AMOUNT:
        name, tier = wish.labels
        return f"the amount of {name} in each {tier}"
    over = " and ".join(_PLACES.get(label, f"values of {label}") for label in wish.labels)
    if wish.kind is RuleKind.OTHERS:
        return f"the anti-affinity of other pods over {over}"
    return f"the {_WORDS[wish.kind]}{_carriers(job, wish)} over {over}"


def _carriers(job: Job, wish: WrittenRule) -> str:
    """Which pods of the job have a rule, by their roles or sub-groups; "" where these have no names."""
    names: dict[str, bool] = {}
    for sub in job.subs:
        part = part_name(job, sub)
        for pod_set in sub.pod_sets:
            name = next(filter(None, (pod_set.role, part)), "")
            names[name] = names.get(name, True) and pod_set.shape.number in wish.shapes
    having = [name for name, every in names.items() if every and name]
    return f" of {' and '.join(having)}" if having else ""


def obstacle_lines(page: Page, every: Sequence[Obstacle], *, indent: int = 4) -> list[Text]:
    """A line for each, for people."""
    lead = " " * indent
    texts = (Text(obstacle.text(), style="cyan") for obstacle in every)
    return [line for text in texts for line in wrapped(text, page.width, first=lead, rest=lead + "  ")]


def obstacles_wire(every: Sequence[Obstacle]) -> Raw:
    """For programs: only where there are any."""
    wires: list[Raw] = [{"without": list(o.wishes), "fitsNow": o.now, "message": o.text()} for o in every]
    return {"obstacles": wires} if wires else {}

"""Which nodes or domains can be drained at what cost, each by itself and several of them together.

The one function behind `tierwise drainable` and the pages. What runs there is counted for every one of them; whether
it finds a place elsewhere is tried by running the scheduler, the cheapest first, as long as that is affordable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf

from msgspec.structs import replace

from tierwise.actions.eviction.repair import repaired
from tierwise.api.core import Pod, format_time
from tierwise.api.errors import InputError, suggestion
from tierwise.api.natural import natural
from tierwise.api.window import Span
from tierwise.dialects.languages import whose
from tierwise.explain.comparison import started
from tierwise.explain.disruption import Drain, Drainable, DrainTime, Loss, Losses, broken
from tierwise.explain.naming import full_name
from tierwise.model.expected_ends import ExpectedEnds
from tierwise.model.job import Status
from tierwise.model.lost_nodes import LostNodes
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT
from tierwise.sim.what_if.changes import Scenario, drain
from tierwise.sim.what_if.least_change import THOROUGH, Effort
from tierwise.sim.what_if.runs import outcome_of

__all__ = ["drainable"]


def drainable(
    scenario: Scenario,
    tier: str = "",
    names: Sequence[str] = (),
    *,
    together: int = 0,
    effort: Effort = THOROUGH,
    report_progress: Callable[[Drainable], None] = lambda found: None,
) -> Drainable:
    """Nodes (tier "node"), or the domains of a tier by its number or name; InputError where there is no such thing.

    `told` hears what is known: when all are counted, and after each that was tried.
    """
    snapshot = scenario.snapshot()
    kind, inside = _candidates(snapshot, tier)
    for name in names:
        if name not in inside:
            raise InputError(f"there is no {kind} {name}{suggestion(name, inside)}")
    work = _Work(scenario, snapshot, effort)
    drains = sorted((work.of((name,), inside) for name in names or inside), key=lambda drain: drain.measure)
    for number, candidate in enumerate(drains):
        report_progress(Drainable(kind, work.losses.unit, scenario.now, tuple(drains), None, together))
        drains[number] = work.tried(candidate)
    tried = sorted(drains, key=lambda drain: (drain.waits is None, drain.measure))
    joint = _together(work, tried, inside, together) if together else None
    return Drainable(kind, work.losses.unit, scenario.now, tuple(tried), joint, together)


def _no_such_tier(level_name: str, tiers: Sequence[int], titles: Mapping[int, str]) -> InputError:
    """The error for a name that is no tier, with the tiers that there are."""
    shown = ", ".join(f"{tier} ({titles[tier]})" if tier in titles else str(tier) for tier in tiers)
    near = suggestion(level_name, ("nodes", *titles.values()))
    return InputError(
        f"{level_name} is none of the tiers: {shown or 'there are none'}, and nodes{near}", field="--tier"
    )


def _candidates(snapshot: Snapshot, level_name: str) -> tuple[str, dict[str, list[str]]]:
    """Name of the candidates' kind, and the nodes of each candidate."""
    topology = snapshot.topology
    names = snapshot.nodes.names
    titles = {tier: name for name, tier in topology.tier_names.items()}
    tiers = [tier for tier in topology.at_tier if tier != int(topology.tier[ROOT])]
    if level_name in ("node", "nodes") or (not level_name and not tiers):
        return "node", {name: [name] for name in names}
    tier_found = next((t for t in tiers if not level_name or level_name in (str(t), titles.get(t, ""))), None)
    if tier_found is None:
        raise _no_such_tier(level_name, tiers, titles)
    domains = topology.at_tier[tier_found].tolist()
    return titles.get(tier_found) or f"tier {tier_found}", {
        topology.name[d]: list(names[topology.span(d)]) for d in domains
    }


_MOMENTS = 64
"""Times at which a drain is weighed; of more ends some are left out."""


class _Work:
    """Counts and attempts on one cluster."""

    def __init__(self, scenario: Scenario, snapshot: Snapshot, effort: Effort) -> None:
        self._scenario, self._reader = scenario, scenario.reader()
        self.losses = Losses(snapshot)
        self._running = {job.key: job for job in snapshot.jobs if started(snapshot, job)}
        self._owner = {task.key: job for job in snapshot.jobs for task in job.tasks}
        self._ends = ExpectedEnds(snapshot)
        self._snapshot = snapshot
        self._pods: dict[str, list[str]] = {}
        self._unowned: set[str] = set()
        gone = self._evicted_anyway(snapshot)
        for path, pod in scenario.objects.every(Pod).items():
            owners = pod.metadata.owner_references
            stays = not pod.status.ended and path not in gone
            if pod.spec.node_name and stays and not any(o.kind in ("DaemonSet", "Node") for o in owners):
                self._pods.setdefault(pod.spec.node_name, []).append(path)
                if not (owners or whose(pod)):
                    self._unowned.add(path)
        self.left = effort.trials(len(scenario.objects))

    def _evicted_anyway(self, snapshot: Snapshot) -> set[str]:
        """Pods on nodes that are lost to them, which repair evicts whether or not these are drained."""
        lost = LostNodes(snapshot.nodes)
        repaired_keys = repaired(snapshot, self._scenario.profile)
        jobs = [job for job in snapshot.jobs if job.key in repaired_keys]
        tasks = (task for job in jobs for task in job.tasks if not task.unowned)
        return {task.key for task in tasks if task.status is Status.RUNNING and lost.why(task)}

    def of(self, names: tuple[str, ...], inside: Mapping[str, Sequence[str]]) -> Drain:
        """Estimated cost of draining these domains."""
        nodes = list(dict.fromkeys(node for name in names for node in inside[name]))
        pods: list[str] = []
        for node in nodes:
            pods.extend(self._pods.get(node, ()))
        end_by_job = {job.key: self._ends.of(job) for pod in pods if (job := self._owner.get(pod)) is not None}
        ends = [end.safe if end.known else None for end in end_by_job.values()]
        ends += [None for pod in pods if pod not in self._owner]
        at = max((end for end in ends if end is not None), default=None)
        gone = tuple(pod for pod in pods if pod in self._unowned)
        empty = at if at is not None and None not in ends else None
        losses = self.losses.of(pods)
        windows = list(self._windows(nodes))
        ends_by_key = {key: end.safe for key, end in end_by_job.items() if end.known}
        return Drain(
            names,
            len(nodes),
            len(pods),
            losses,
            gone,
            empty,
            cheapest=_cheapest(losses, ends_by_key, windows, self._snapshot.now),
            windows=tuple(
                f"{name} from {format_time(span.start)} until {format_time(span.end)}" for name, span, _ in windows
            ),
        )

    def _windows(self, nodes: Sequence[str]) -> Iterator[tuple[str, Span, bool]]:
        """The windows that close some of these nodes now or next, and whether all of them to everybody."""
        snapshot = self._snapshot
        rows = [snapshot.nodes.row[node] for node in nodes]
        for window in snapshot.windows:
            closed = window.rows[rows]
            span = window.schedule.next(snapshot.now) if closed.any() else None
            if span is not None:
                yield window.name, span, bool(closed.all()) and not window.queues

    def tried(self, one: Drain) -> Drain:
        """The drain with the jobs that would not find a place again; unchanged where no run of a cycle is left."""
        if not one.pods:
            return replace(one, waits=())
        if self.left <= 0:
            return one
        self.left -= 1
        changed = self._scenario
        for name in one.names:
            changed = drain(name).apply(changed)
        history, outcome = outcome_of(changed, reader=self._reader)
        self._reader = history.reader or self._scenario.reader()
        after = {job.key for job in outcome.snapshot.jobs if started(outcome.snapshot, job)}
        after |= {job.key for job, _ in outcome.lone}
        gone = {self._owner[pod].key for pod in one.gone if pod in self._owner}
        waits = []
        for key, job in self._running.items():
            if key not in after and key not in gone:
                waits.append(full_name(job))
        return replace(one, waits=tuple(sorted(waits, key=natural)))


def _cheapest(
    losses: Sequence[Loss], ends: Mapping[str, float], windows: Sequence[tuple[str, Span, bool]], moment: float
) -> DrainTime | None:
    """The time at which least would be left to break, if nobody starts there before; None where that is now.

    Jobs with a known end are gone after it, the others run on and lose more. Times are those ends and the begins of
    windows, in which nobody starts.
    """
    begins = {span.start: name for name, span, whole in reversed(windows) if whole and span.start > moment}
    moments = sorted({moment, *begins, *(end for end in ends.values() if end > moment)})
    every = max(1, -(-len(moments) // _MOMENTS))
    weighed = {*moments[::every], *begins, moments[0], moments[-1]}
    times: list[DrainTime] = []
    for at in sorted(weighed):
        losses_then = [loss for loss in losses if ends.get(loss.job, inf) > at or at == moment]
        hours = sum(loss.seconds + loss.growth * (at - moment) for loss in losses_then) / 3600
        pods = sum(loss.pods for loss in losses_then)
        times.append(DrainTime(at, pods, broken(losses_then), hours, begins.get(at, "")))
    best = min(times, key=lambda time: time.measure)
    return best if best.at > moment else None


def _together(work: _Work, drains: Sequence[Drain], inside: Mapping[str, Sequence[str]], number: int) -> Drain | None:
    """A set of so many that costs little and leaves every job a place: the cheapest next one, as long as there is one.

    Gangs that run in two of them break once, so each set is counted by itself.
    """
    best: Drain | None = None
    open_names = [drain.names[0] for drain in drains if not drain.waits]
    while best is None or len(best.names) < number:
        have = best.names if best is not None else ()
        further = []
        for name in open_names:
            if name not in have:
                further.append(work.of((*have, name), inside))
        further.sort(key=lambda drain: drain.measure)
        success = next((drain for drain in map(work.tried, further) if drain.waits == ()), None)
        if success is None:
            if best is not None and len(best.names) == number:
                return best
            return None
        best = success
    return best

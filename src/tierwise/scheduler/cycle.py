"""One deterministic pass: snapshot and profile in, report out.

The command line, the simulator and the live scheduler all call `cycle`. It does no I/O, reads no clock, and the
same input gives the same report.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping
from contextlib import nullcontext
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from tierwise.actions.allocate import Preempt, allocate
from tierwise.actions.backfill import backfill
from tierwise.actions.enqueue import enqueue, promote
from tierwise.api.errors import InputError, suggestion
from tierwise.config.actions import ACTIONS, EVICTING, EVICTING_BY_POD, PLACING, Family
from tierwise.config.arguments import flag
from tierwise.config.idle_room import idle_room
from tierwise.config.profile import PluginChoice, Profile
from tierwise.config.searches import SearchBudget, cycle_steps, search_steps
from tierwise.framework.cycle import Cycle, FitCounts, Nominations, Stopwatch
from tierwise.framework.declined import DeclinedPlaces, Held
from tierwise.framework.extension import CycleView, Factory, Purpose
from tierwise.framework.idle_room import IdleRoom
from tierwise.framework.ledger import Ledger
from tierwise.framework.pipeline import Pipeline
from tierwise.framework.refusals import Refusals
from tierwise.framework.registry import extended
from tierwise.framework.report import CycleReport, Decision, ReportBuilder
from tierwise.framework.room_ahead import RoomAhead
from tierwise.framework.steps import StepAccount
from tierwise.model.job import Job, Phase, Reason, ReasonBook, Rejection, Status
from tierwise.model.snapshot import Snapshot
from tierwise.plugins import IMPLIED, PLUGINS

if TYPE_CHECKING:
    from tierwise.actions.eviction.repair import Rehearse, Replacements
    from tierwise.api.repair import OnNodeLoss
    from tierwise.config.reservations import ReservationRules
    from tierwise.framework.usage import FairUsage

__all__ = ["check_profile", "cycle", "nothing_is_left", "nothing_waits", "open_cycle", "run_action"]

Watch = Callable[[Job, Decision | Rejection], None]

_REPAIR = "repair"
_REPAIR_OF, _LADDER_OF, _VOLUMES_OF, _CAPABILITY_OF = map(attrgetter, ("repair", "ladder", "volumes", "capability"))
_MARKED_OF = attrgetter("not_preemptable")
_WAITING = (Status.PENDING, Status.GATED)


def _implied(snapshot: Snapshot, profile: Profile) -> Iterator[PluginChoice]:
    """The plugins that a cycle has for what its snapshot holds, although its profile does not list them.

    Queues are held to their capabilities. A pod that is bound against the rules of its volumes could not start; Volcano
    gives the time for which volumes are waited for to its predicates, and of several profiles the first counts.
    Disruption budgets hold wherever anything is evicted, but for Kubernetes' preemption, which only prefers to; marks
    hold everywhere. Both as far as protection reaches (`framework.protection`). What is repaired is kept off nodes from
    which repair would evict it. Amounts that hyperNodes give are kept.
    """
    listed = {choice.name for choice in profile.plugins()}
    if any(map(_CAPABILITY_OF, snapshot.queues.values())):
        yield PluginChoice("capability", {"elastic": "elasticquota" not in listed})
    if "patience" not in listed and any(map(_LADDER_OF, snapshot.jobs)):
        yield PluginChoice("patience")
    yield from _amounts(snapshot, listed)
    if "volumes" not in listed and any(map(_VOLUMES_OF, snapshot.shapes)):
        yield _volumes(profile)
    evicts = not EVICTING.isdisjoint(profile.actions) and EVICTING_BY_POD.isdisjoint(profile.actions)
    if snapshot.budgets and evicts and "pdb" not in listed:
        yield PluginChoice("pdb")
    if not EVICTING.isdisjoint(profile.actions) and _some_marked(snapshot):
        yield PluginChoice("marks")
    if _wishes(snapshot, profile):
        yield from _lost_nodes(snapshot, profile)


def _amounts(snapshot: Snapshot, listed: Collection[str]) -> Iterator[PluginChoice]:
    others = snapshot.alternate_topologies.values()
    if "amounts" not in listed and (snapshot.topology.amounts or any(tree.topology.amounts for tree in others)):
        yield PluginChoice("amounts")


def _volumes(profile: Profile) -> PluginChoice:
    timeouts = (choice.arguments.get("volumebinding.bindTimeoutSeconds") for choice in profile.plugins())
    timeout = next((seconds for seconds in timeouts if seconds is not None), None)
    return PluginChoice("volumes", {"bindTimeoutSeconds": timeout} if timeout is not None else {})


def _lost_nodes(snapshot: Snapshot, profile: Profile) -> Iterator[PluginChoice]:
    from tierwise.model.lost_nodes import LostNodes

    if LostNodes(snapshot.nodes).any:
        usual = profile.listed(_REPAIR, "onNodeLoss")
        yield PluginChoice("lost-nodes", {"onNodeLoss": usual[0]} if usual else {})


def _some_marked(snapshot: Snapshot) -> bool:
    """Whether some job, or some task of one, is marked as not preemptable."""
    return any(job.not_preemptable or any(map(_MARKED_OF, job.tasks)) for job in snapshot.jobs)


def _reservations(profile: Profile) -> ReservationRules | None:
    """Which waiting jobs get a reservation; None where none do."""
    if "allocate" not in profile.action_arguments:
        return None
    from tierwise.config.reservations import OFF, reservation_rules  # few profiles reserve

    rules = reservation_rules(profile)
    return rules if rules.mode != OFF else None


def _preempt(current: Cycle, profile: Profile) -> Preempt | None:
    """What makes room for a job as soon as it is refused; None where that is for later actions."""
    names = [name for name in profile.actions if name in EVICTING_BY_POD] if profile.immediate_preemption else []
    if not names:
        return None
    from tierwise.actions.eviction.gang import preempting_at_once

    return preempting_at_once(current, names, profile.preempt_actions)


def run_action(name: str, current: Cycle, profile: Profile, repair: Replacements | None = None) -> None:
    """Run an action of a profile.

    Where gangs are repaired, `allocate` gives room to those that have lost nodes before pods are evicted for others.
    """
    action = ACTIONS[name]
    given = profile.action_arguments.get(name, {})
    current.steps.action = name
    match action.family:
        case Family.ENQUEUE:
            enqueue(current, heads=current.view.reserves)
        case Family.ALLOCATE:
            allocate(current, preempt=_preempt(current, profile), repair=repair, reservations=_reservations(profile))
        case Family.BACKFILL:
            backfill(current)
        case Family.CLASSIC:
            from tierwise.actions.eviction.classic import classic_evict  # most profiles never evict

            by_node = flag(given, "enableTopologyAwarePreemption", default=False)
            classic_evict(current, Purpose(action.purpose), name, by_node=by_node)
        case Family.GANG:
            from tierwise.actions.eviction.gang import EvictionOptions, gang_evict

            gang_evict(current, Purpose(action.purpose), EvictionOptions.of(name, given))
        case Family.GIVE_BACK:
            from tierwise.actions.eviction.giveback import give_back

            give_back(current, enabled=flag(given, "enabled", default=True))


_FAIRSHARE = "fairshare"
_SHARING = ("proportion", "capacity")
"""Plugins that order queues by what they have."""
_NO_ALLOCATE = Reason(
    "NoAllocateAction", "profile", "no action of the profile looks for a place for it (allocate does)"
)
_NO_BACKFILL = Reason(
    "NoBackfillAction",
    "profile",
    "no action of the profile looks for a place for pods that ask for nothing (backfill does)",
)
_CONDITIONS = frozenset(
    f"node.kubernetes.io/{name}"
    for name in ("not-ready", "unreachable", "memory-pressure", "disk-pressure", "pid-pressure", "network-unavailable")
)
"""Keys of taints that stand for a node's condition and go when it passes."""


def check_profile(profile: Profile, file: str | None = None) -> Profile:
    """The profile with every action by its own name; InputError where an action or plugin does not exist or fit.

    The classic and the gang variant of one action would undo each other's plans: one profile has one of them.
    """
    from tierwise.config.volcano import IDLE_PLUGINS, spelled  # only where a profile is read

    arguments = {spelled(name): given for name, given in profile.action_arguments.items()}
    actions = tuple(spelled(name) if spelled(name) in ACTIONS else name for name in profile.actions)
    profile = replace(profile, actions=actions, action_arguments=arguments)
    for classic in ("preempt", "reclaim"):
        if classic in actions and f"gang{classic}" in actions:
            text = f"{classic} and gang{classic} cannot be in one profile: choose one of them"
            raise InputError(text, file=file, field="actions")
    for name in profile.actions:
        if name not in ACTIONS:
            known = ", ".join(sorted(ACTIONS))
            text = f"unknown action {name}{suggestion(name, ACTIONS) or f' (there are {known})'}"
            raise InputError(text, file=file, field="actions")
    from tierwise.config.failed_starts import failed_start_rules
    from tierwise.config.kept_places import kept_place_rules
    from tierwise.config.reservations import reservation_rules
    from tierwise.config.spares import spare_rules
    from tierwise.config.usage import usage_rules

    try:
        records = (failed_start_rules, kept_place_rules)
        for read in (search_steps, cycle_steps, idle_room, reservation_rules, spare_rules, usage_rules, *records):
            read(profile)
    except InputError as error:
        raise error.inside(file=file) from None
    for text in profile.listed(_REPAIR, "onNodeLoss"):
        wrong = _wrong_wish(text)
        if wrong:
            raise InputError(f"plugin {_REPAIR}: onNodeLoss: {wrong}", file=file, field="tiers.plugins")
    for plugin in profile.plugins():
        if plugin.name not in PLUGINS:
            known = ", ".join(sorted(PLUGINS))
            text = (
                f"unknown plugin {plugin.name}{suggestion(plugin.name, (*PLUGINS, *IDLE_PLUGINS))} (there are {known})"
            )
            raise InputError(text, file=file, field="tiers.plugins")
        _check_plugin(plugin, file)
    return profile


def _wrong_wish(text: str) -> str:
    """Why a text is nothing that jobs could want when they lose nodes; "" where it is."""
    from tierwise.api.repair import parse_on_node_loss

    read = parse_on_node_loss(text)
    return read if isinstance(read, str) else ""


def _check_plugin(choice: PluginChoice, file: str | None) -> None:
    """A plugin can be imported, is what it declares, and knows its arguments."""
    try:
        declaration = PLUGINS.declaration(choice.name)
    except InputError as error:
        raise InputError(error.message, file=file, field="tiers.plugins") from None
    wrong = declaration.wrong_argument(choice.arguments) if choice.name not in PLUGINS.built_in else None
    if wrong is not None:
        raise InputError(f"plugin {choice.name}: {wrong[0]}: {wrong[1]}", file=file, field="tiers.plugins")


def cycle(
    snapshot: Snapshot,
    profile: Profile,
    *,
    inspect: Callable[[Cycle, Job], None] | None = None,
    watch: Watch | None = None,
    plugins: Mapping[str, Factory] = PLUGINS,
    most_pods: int | None = None,
    stopwatch: Stopwatch | None = None,
) -> CycleReport:
    """Run the profile's actions once over a snapshot; `plugins` says what its names of plugins mean.

    Where `most_pods` are given, no further job is served after so many pods were bound, and no later action runs: the
    report is unfinished, and the next cycle goes on where this one ended. Where shares order queues they do not count.
    """
    opened = open_cycle(snapshot, profile, inspect=inspect, watch=watch, plugins=plugins)
    current, repair = _prepared(replace(opened, most_pods=most_pods, stopwatch=stopwatch), profile, plugins)
    if snapshot.turns.room is not None and current.refusals.standing.begin():
        current.steps.begin()
    _Actions(current, profile, repair).run_all()
    current.open_to(None)
    _reject_unserved(current, profile)
    if current.report.evictions:
        from tierwise.scheduler.notice import give_notice  # most profiles never evict

        give_notice(current)
    if current.report.rejections:
        from tierwise.actions.diagnosis.verdicts import give_verdicts  # slow to import, and not every cycle rejects

        give_verdicts(current, lambda: _recovered(snapshot, profile, plugins))
    if current.pipeline.before_bind:
        from tierwise.scheduler.prebind import prepare  # most clusters have neither volumes nor devices

        prepare(current)
    complaints = repair.complaints() if repair is not None else ()
    current.report.complaints = (*current.pipeline.complaints(), *complaints)
    current.report.failures = current.pipeline.failures
    _settle_accounts(current)
    return current.report.build()


def _prepared(current: Cycle, profile: Profile, plugins: Mapping[str, Factory]) -> tuple[Cycle, Replacements | None]:
    """The cycle as its actions find it, and what makes room for replacements; None where no job is repaired.

    Jobs are let in where the profile has no action for it, what windows end and what lost nodes leave is evicted.
    """
    if "enqueue" not in profile.actions:
        promote(current)
    if current.snapshot.windows:
        from tierwise.actions.eviction.windows import evict_overrun  # few clusters have windows

        evict_overrun(current)
    repair: Replacements | None = None
    wishes = _wishes(current.snapshot, profile)
    if wishes:
        current, repair = _repair(current, profile, wishes, lambda other: open_cycle(other, profile, plugins=plugins))
    if current.spares is None:
        built_in = plugins is PLUGINS and all(plugin.name in PLUGINS.built_in for plugin in profile.plugins())
        usual = built_in and not current.pipeline.failures  # one that could not be made keeps its jobs out
        current = replace(current, refusals=_refusals(current, profile if usual else None))
    return current, repair


class _Actions:
    """The actions of a profile, run one after the other on a cycle."""

    def __init__(self, current: Cycle, profile: Profile, repair: Replacements | None) -> None:
        self._current = current
        self._profile = profile
        self._repair = repair
        self._done: dict[str, tuple[int, int] | None] = {}  # that have run; with the news of then if they ran early
        self._filled = 0  # decisions that backfill has seen

    def run_all(self) -> None:
        """Run the actions in order, and what must come before those that evict; stop where the rest must wait."""
        for name in self._profile.actions:
            if self._unfinished():
                return
            if self._profile.immediate_preemption and name in EVICTING_BY_POD:
                continue
            self._run_ahead(name)
            if self._unfinished():
                return
            self._run_in_turn(name)
        if not self._unfinished():
            self._follow()

    def _unfinished(self) -> bool:
        """True if what remains is left to the next cycle."""
        return self._current.report.unfinished

    def _run_ahead(self, name: str) -> None:
        """Run what places pods before an action that evicts."""
        for ahead in _due_before(name, self._profile, self._done):
            self._run(ahead)
            self._done[ahead] = _news(self._current)

    def _run_in_turn(self, name: str) -> None:
        """Run an action, unless it ran early and nothing has changed since."""
        if name in EVICTING:
            self._follow()
        if self._done.get(name) is None or self._done[name] != _news(self._current):
            self._run(name)
            self._done[name] = None

    def _run(self, action: str) -> None:
        report = self._current.report
        evicted = len(report.evictions)
        stopwatch = self._current.stopwatch
        with stopwatch.action(action) if stopwatch is not None else nullcontext():
            run_action(action, self._current, self._profile, self._repair)
        if len(report.evictions) > evicted:
            from tierwise.actions.eviction.review import review  # most profiles never evict

            review(self._current, evicted)
        if action == "backfill":
            self._filled = len(report.decisions)

    def _follow(self) -> None:
        """Run backfill again for best-effort pods of gangs that were bound since: they wait for no other cycle."""
        if "backfill" in self._done and any(one.bound for one in self._current.report.decisions[self._filled :]):
            self._run("backfill")


def _reject_unserved(current: Cycle, profile: Profile) -> None:
    """Reject the jobs that no action of the profile looks at."""
    report = current.report
    if _nobody_allocates(profile):
        for job in current.snapshot.jobs:
            if job.key not in report.rejections and current.backlog.open(job):
                report.reject(job, Rejection("gate", job.key, _NO_ALLOCATE))
    if not profile.backfills or "backfill" in profile.actions or report.unfinished:
        return
    for job in current.snapshot.waiting:
        waits = any(current.backlog.left(pod_set) for _, pod_set in job.best_effort_pod_sets)
        if waits and job.key not in report.rejections:
            report.reject(job, Rejection("gate", job.key, _NO_BACKFILL))


def _settle_accounts(current: Cycle) -> None:
    """Report the steps that were taken, whose turn is next, what stays idle and when a window opens."""
    report = current.report
    steps = current.ledger.steps
    report.search_counts.steps = steps.taken
    turns = current.refusals.standing.hand_on(report.rejections)
    places = current.nominations.places_after_others
    idle, report.idle_until = current.idle_room.after(_kept_idle(current), places)
    if report.rejections:
        report.opens = min((place.until for place in places), default=inf)
    if current.windows is not None:
        waiting = (job for job in current.snapshot.waiting if job.key in report.rejections)
        report.opens = min(report.opens, current.windows.empties(), *map(current.windows.opens, waiting))
    if current.view.usage is not None:
        begun = ((decision.job, decision.held) for decision in report.decisions if decision.bound)
        evicted = ((eviction.job, eviction.task.shape) for eviction in report.evictions)
        turns = replace(turns, usage=current.view.usage.after(begun, evicted, _kept_idle(current)))
    report.turns = turns if idle is turns.idle else replace(turns, idle=idle)


def _kept_idle(current: Cycle) -> Iterator[tuple[Job, Held]]:
    """What is kept for jobs that do not use it yet; a reservation that binds its own namespace alone does not count."""
    for decision in current.report.decisions:
        if not decision.bound:
            yield decision.job, decision.held
    yield from current.nominations.kept_for()
    yield from current.declined.kept_for()
    if current.spares is not None:
        yield from current.spares.kept_for()
    for held in current.report.reservations:
        if held.holds and not held.bare:
            yield held.job, held.held


def _refusals(current: Cycle, by: Profile | None) -> Refusals:
    """The book of a cycle that knows what the last one has found out by the same profile."""
    snapshot = current.snapshot
    return Refusals(current.ledger, current.report, current.nominations, snapshot=snapshot, by=by)


def _wishes(snapshot: Snapshot, profile: Profile) -> Mapping[str, OnNodeLoss]:
    """What jobs want when they lose nodes, by key."""
    if not any(map(_REPAIR_OF, snapshot.jobs)) and not profile.listed(_REPAIR, "onNodeLoss"):
        return {}
    from tierwise.actions.eviction.repair import repaired  # most jobs say nothing of it

    return repaired(snapshot, profile)


def _repair(
    current: Cycle, profile: Profile, wishes: Mapping[str, OnNodeLoss], rehearse: Rehearse
) -> tuple[Cycle, Replacements]:
    """Evict what was lost: the cycle in which spares are kept from then on, and what makes room for replacements."""
    from tierwise.actions.eviction.repair import Replacements, evict_lost
    from tierwise.actions.placement.spares import Spares
    from tierwise.config.spares import spare_rules

    evict_lost(current, wishes)
    spares = Spares(current, spare_rules(profile))
    current = replace(current, spares=spares)
    return current, Replacements(current, spares, wishes, rehearse)


def _some_lost(snapshot: Snapshot, profile: Profile) -> bool:
    """Whether a job that is repaired has a task on a node that may be lost."""
    wishes = _wishes(snapshot, profile)
    if not wishes:
        return False
    from tierwise.model.lost_nodes import LostNodes

    lost = LostNodes(snapshot.nodes)
    running = (t for job in snapshot.jobs if job.key in wishes for t in job.tasks if t.status is Status.RUNNING)
    return any(task.node < 0 or lost.why(task) or lost.unhealthy(task) for task in running)


def nothing_waits(snapshot: Snapshot, profile: Profile) -> bool:
    """Whether a cycle would certainly decide nothing: every task has its place, and no action of the profile moves any.

    False wherever that takes more than a look, as where volumes or devices may have to be given back, and where the
    last cycle has kept room for jobs that may be gone.
    """
    kept = any(account.nodes for account in snapshot.turns.idle.accounts.values())
    if _remembers(profile):
        return False  # what is held has to be counted
    return (not kept and _nothing_moves(snapshot, profile)) and all(
        job.phase is not Phase.PENDING and all(task.status not in _WAITING for task in job.tasks)
        for job in snapshot.unsettled
    )


def _nothing_moves(snapshot: Snapshot, profile: Profile) -> bool:
    """Whether no action looks at tasks that have their place, and nothing of theirs may have to be given back."""
    if not EVICTING.isdisjoint(profile.actions) or snapshot.devices is not None:
        return False
    if any(window.schedule.evicts for window in snapshot.windows):
        return False
    return not any(map(_VOLUMES_OF, snapshot.shapes)) and not _some_lost(snapshot, profile)


def nothing_is_left(snapshot: Snapshot, profile: Profile, report: CycleReport) -> bool:
    """Whether nothing waits once what a cycle has decided is done, as `nothing_waits` would say of the cluster then."""
    if not _nothing_moves(snapshot, profile) or report.rejections or report.delays or report.unfinished:
        return False
    bound = set()
    for decision in report.decisions:
        if decision.bound:
            for p in decision.placed:
                for t in p.tasks:
                    bound.add(t.key)
    return all(
        report.phases.get(job.key, job.phase) is not Phase.PENDING
        and all(task.status not in _WAITING or task.key in bound for task in job.tasks)
        for job in snapshot.unsettled
    )


def _due_before(name: str, profile: Profile, done: Container[str]) -> tuple[str, ...]:
    """What runs before an action that evicts although it comes later, or is left out: none is evicted for what fits."""
    if name not in EVICTING:
        return ()
    listed = [action for action in PLACING if action == "allocate" or action in profile.actions]
    return tuple(action for action in listed if action not in done)


def _nobody_allocates(profile: Profile) -> bool:
    """Whether pods that ask for anything find no action that would look for a place for them."""
    return "allocate" not in profile.actions and EVICTING.isdisjoint(profile.actions)


def _recovered(snapshot: Snapshot, profile: Profile, plugins: Mapping[str, Factory]) -> Cycle | None:
    """A cycle over the same cluster with every node ready and no taint for a condition; None where it is the same."""
    nodes = snapshot.nodes
    taints = tuple(tuple(t for t in taints if t.key not in _CONDITIONS) for taints in nodes.taints)
    if taints == nodes.taints and nodes.ready.all():
        return None
    well = replace(nodes, taints=taints, ready=np.ones(len(nodes), dtype=bool))
    return open_cycle(replace(snapshot, nodes=well), profile, plugins=plugins)


def _news(current: Cycle) -> tuple[int, int]:
    """What may let more be placed than a moment ago: jobs that were let in, and tasks that go."""
    return len(current.report.phases), len(current.report.evictions)


def open_cycle(
    snapshot: Snapshot,
    profile: Profile,
    *,
    inspect: Callable[[Cycle, Job], None] | None = None,
    watch: Watch | None = None,
    plugins: Mapping[str, Factory] = PLUGINS,
) -> Cycle:
    """A cycle with nothing done yet: plugins constructed, tasks standing on their nodes."""
    steps = StepAccount(cycle_steps(profile), snapshot)
    ledger = Ledger(snapshot, steps)
    view = CycleView(
        axis=snapshot.axis,
        nodes=snapshot.nodes,
        topology=snapshot.topology,
        jobs=snapshot.jobs,
        queues=snapshot.queues,
        snapshot=snapshot,
        ledger=ledger,
        reasons=ReasonBook(),
        budget=SearchBudget.of(search_steps(profile)),
        ahead=RoomAhead(snapshot, ledger),
        reserves=_reservations(profile) is not None,
        usage=_usage(snapshot, ledger, profile),
    )
    implied = list(_implied(snapshot, profile))
    if implied:
        profile = replace(profile, tiers=(*profile.tiers, *((choice,) for choice in implied)))
        plugins = extended(plugins, {choice.name: IMPLIED[choice.name] for choice in implied})
    pipeline = Pipeline(profile, view, plugins)
    fit_counts = FitCounts(ledger, snapshot.topology, pipeline.why_not)
    room = IdleRoom(snapshot, ledger, view.ahead, idle_room(profile))
    nominations = Nominations(snapshot, ledger, room)
    report = ReportBuilder(watch=watch)
    declined = DeclinedPlaces(ledger, view.ahead)
    book = Refusals(ledger, report, nominations)
    opened = Cycle(
        *(snapshot, view, ledger, pipeline, fit_counts, nominations, report, declined, room, book), inspect=inspect
    )
    if snapshot.windows:
        from tierwise.framework.windows import Windows  # few clusters have windows

        opened = replace(opened, windows=Windows(snapshot, fit_counts, view))
    opened = _with_rows_in_turn(opened)
    if not any(True for job in snapshot.jobs if job.member is not None) and not _has_terms(snapshot):
        return opened
    from tierwise.actions.placement.sets import Sets  # few clusters have sets

    return replace(opened, sets=Sets(opened))


def _remembers(profile: Profile) -> bool:
    """Whether a profile remembers usage."""
    return any(choice.name == _FAIRSHARE for choice in profile.plugins())


def _usage(snapshot: Snapshot, ledger: Ledger, profile: Profile) -> FairUsage | None:
    """The usage of everybody; None where the profile remembers nothing."""
    if not _remembers(profile):
        return None
    from tierwise.config.usage import usage_rules
    from tierwise.framework.usage import FairUsage  # few profiles remember

    rules = usage_rules(profile)
    if rules is None:
        return None
    others = any(choice.name in _SHARING and choice.enabled("QueueOrder") for choice in profile.plugins())
    if "drf" in {choice.name for choice in profile.plugins()} and not others:
        others = any(queue.hierarchy for queue in snapshot.queues.values())
    return FairUsage(snapshot, ledger, rules, orders_queues=rules.between_queues and not others)


def _with_rows_in_turn(opened: Cycle) -> Cycle:
    """A cycle that knows which nodes jobs are to have first, or last."""
    snapshot = opened.snapshot
    view = opened.view
    if snapshot.start_memory is not None:
        from tierwise.actions.placement.known_nodes import KnownNodes  # few profiles remember

        opened = replace(opened, known=KnownNodes(snapshot, view))
    if snapshot.place_memory is None and not any(job.predecessor for job in snapshot.waiting):
        return opened
    from tierwise.actions.placement.own_places import OwnPlaces  # few gangs come after others

    own_places = OwnPlaces(snapshot, view)
    return replace(opened, own_places=own_places) if own_places else opened


def _has_terms(snapshot: Snapshot) -> bool:
    """Whether a pod would stand beside others, or rather not."""
    for shape in snapshot.shapes:  # a loop: there may be thousands
        terms = shape.affinity
        if terms is not None and (terms.pod_affinity is not None or terms.pod_anti_affinity is not None):
            return True
    return False

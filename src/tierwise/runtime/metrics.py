"""What Prometheus sees: metrics of cycles, of the way to the API server, and of admission.

Plain data goes in: a snapshot, a report and the seconds of each stage from the loop, single figures from the cluster
and the webhook. Reads no clock and no cluster. Each process has one registry; docs/reference/metrics.md lists all
metrics, and a test holds the list against this file.
"""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from tierwise import __version__
from tierwise.api.defrag_record import MovePhase
from tierwise.config.features import FEATURES
from tierwise.config.profile import DEFAULT, Profile
from tierwise.explain.free_slots import one_slot, slots_now
from tierwise.explain.usage import held, scarce
from tierwise.framework.report import CycleReport
from tierwise.model.job import Status
from tierwise.model.slots import SIZES
from tierwise.model.snapshot import Snapshot

__all__ = ["AdmissionMetrics", "Metrics", "registry", "tell_features", "text"]

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


def registry() -> CollectorRegistry:
    """A registry that knows which version it is of."""
    # Else there is a further series for each counter that says when it began to count.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    collectors = CollectorRegistry(auto_describe=True)
    info = Gauge(
        "tierwise_build_info", "Always 1; the label is the version that runs.", ["version"], registry=collectors
    )
    info.labels(__version__).set(1)
    return collectors


def tell_features(to: CollectorRegistry, profiles: Sequence[Profile]) -> None:
    """Which features are on; of several profiles each must have one on. The form is that of Kubernetes' components."""
    meaning = "1 for a feature that is on, by its stage."
    gauge = Gauge("tierwise_feature_enabled", meaning, ["name", "stage"], registry=to)
    for name, feature in FEATURES.items():
        gauge.labels(name, feature.stage.name).set(all(profile.feature(name) for profile in profiles or (DEFAULT,)))


def text(metrics: CollectorRegistry) -> bytes:
    """All metrics in Prometheus' text format."""
    return generate_latest(metrics)


M = TypeVar("M", Counter, Gauge, Histogram)

_TYPES: Final[Mapping[str, Callable[..., Counter | Gauge | Histogram]]] = {
    "counter": Counter,
    "gauge": Gauge,
    "histogram": partial(Histogram, buckets=_SECONDS),
}

_SCHEDULER: Final[Mapping[str, str]] = {
    "histogram tierwise_stage_duration_seconds stage": "Time that one stage of a cycle took.",
    "gauge tierwise_defrag_phase phase": "1 for the phase of the present or last defragmentation.",
    "gauge tierwise_defrag_moves": "Jobs moved by the present or last defragmentation.",
    "gauge tierwise_defrag_lost_hours": "Hours of work that these moves have lost.",
    "counter tierwise_cycles_total": "Cycles that were run.",
    "counter tierwise_gangs_total outcome reason": (
        "Outcomes of gangs, cycle by cycle: bound, nominated or waiting, the latter with a reason."
    ),
    "gauge tierwise_gangs_waiting reason": "Gangs that the last cycle could not place.",
    "counter tierwise_pods_total outcome": "Pods bound, nominated or evicted.",
    "counter tierwise_gang_tier_total tier": "Gangs bound, by the tier of the domain that holds them.",
    "counter tierwise_domains_evaluated_total": "Domains that searches looked at.",
    "counter tierwise_trials_total": "Placements that were tried in a domain.",
    "gauge tierwise_free_slots tier gang": (
        "Free slots that gangs of a size can fill when each must fit inside one domain of the tier."
    ),
    "gauge tierwise_fragmentation_ratio tier gang": (
        "Share of the free slots of a tier that gangs of a size cannot use."
    ),
    "gauge tierwise_idle_room_nodes namespace queue": (
        "Nodes that are kept idle for jobs of a namespace in a queue: reserved, declined, spare or nominated ones."
    ),
    "gauge tierwise_idle_room_node_hours namespace queue": (
        "Node-hours that were kept idle for them, less what has been paid back of their share."
    ),
    "gauge tierwise_queue_used_ratio queue": (
        "Usage of a queue that is remembered, divided by its share: above 1 it goes after others."
    ),
    "gauge tierwise_queue_used_share queue": "Its part of what it and its siblings have used of late.",
    "gauge tierwise_suspected_nodes": (
        "Nodes that all jobs use last, as pods of several namespaces have failed to start there."
    ),
    "gauge tierwise_kept_places": "Places that are kept for the successors of pods that are leaving or gone.",
    "gauge tierwise_claims_waiting kind": (
        "Claims of pods that have a place: a volume is being bound or made, or devices are being prepared."
    ),
    "counter tierwise_claims_undone_total kind reason": (
        "Claims whose volume or devices were taken back: they could not be had, or not in time."
    ),
    "gauge tierwise_binds_in_flight": "Binds that await their answer.",
    "gauge tierwise_slow_writes namespace": (
        "Writes that have had no answer for more than a second, by the namespace that they are about."
    ),
    "gauge tierwise_slow_writes_seconds namespace": "Seconds that the oldest of these has waited for its answer.",
    "gauge tierwise_told_later what": "Events and statuses that wait to be written behind binds.",
    "gauge tierwise_told_later_seconds what": "Seconds that the oldest of these writes has waited.",
    "counter tierwise_effects_total effect ok": "Changes asked of the cluster.",
    "gauge tierwise_watch_lag_seconds kind": "Time since the watch of a kind last had news.",
    "gauge tierwise_cache_drift_objects kind": (
        "Objects in which the cache differed from the cluster when the kind was last listed again,"
        " or the kept snapshot (kind Snapshot) from one of everything."
    ),
    "counter tierwise_crashes_total stage kind": (
        "Stages of an iteration that raised, by the kind of the object that was set aside for it."
    ),
    "counter tierwise_plugin_failures_total plugin point": (
        "Calls into plugins that raised or were answered wrongly, by extension point."
    ),
    "gauge tierwise_resource_units resource state": (
        "Units of the scarce resource: all that nodes have (total), and what pods ask for (used)."
    ),
    "gauge tierwise_queue_units queue state": (
        "Units of it that pods of a queue hold (used), and that the queue declares to deserve (deserved)."
    ),
    "gauge tierwise_queue_jobs_waiting queue": "Jobs of a queue of which some pods have no place.",
    "gauge tierwise_attention kind": (
        "Things that deserve attention: overdue jobs, jobs evicted several times, queues over their share while others"
        " wait, domains with several bad nodes, namespaces with slow searches or writes."
    ),
    "gauge tierwise_leader": "1 while this replica decides, 0 while it stands by.",
    "counter tierwise_lease_losses_total": (
        "Times that this replica lost the lease because it did not renew it in time."
    ),
}
"""Metrics of the scheduler: the type, name and labels of each, and what it means."""

_ADMISSION: Final[Mapping[str, str]] = {
    "counter tierwise_admission_reviews_total path kind allowed": "Reviews answered.",
    "histogram tierwise_admission_duration_seconds path": "Time that a review took.",
    "gauge tierwise_certificate_expiry_timestamp_seconds": "When the certificate in use expires.",
}
"""Metrics of the webhook."""


_MOST_QUEUES: Final = 200
"""Queues that have series of their own: those that use most, then those with most that waits."""


class DeclaredMetrics:
    """Metrics of a table, by name; the labels of a figure are in the table's order."""

    def __init__(self, table: Mapping[str, str], to: CollectorRegistry) -> None:
        self._metrics: dict[str, Counter | Gauge | Histogram] = {}
        for declared, meaning in table.items():
            kind, name, *labels = declared.split()
            self._metrics[name] = _TYPES[kind](name, meaning, labels, registry=to)

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        """So many more."""
        self._of(Counter, name, labels).inc(by)

    def set(self, name: str, value: float, *labels: str) -> None:
        """So many at the moment."""
        self._of(Gauge, name, labels).set(value)

    def clear(self, name: str) -> None:
        """Forget the figures of all labels."""
        self._of(Gauge, name, ()).clear()

    def time(self, name: str, seconds: float, *labels: str) -> None:
        """Something has taken so long."""
        self._of(Histogram, name, labels).observe(seconds)

    def _of(self, kind: type[M], name: str, labels: tuple[str, ...]) -> M:
        metric = self._metrics[name]
        assert isinstance(metric, kind)
        return metric.labels(*labels) if labels else metric


class Metrics(DeclaredMetrics):
    """Metrics of the scheduler."""

    def __init__(self, to: CollectorRegistry, *, gangs: Sequence[int] = (1, *SIZES)):
        """`gangs` are the sizes for which free slots are counted."""
        super().__init__(_SCHEDULER, to)
        self._gangs = tuple(gangs)
        self._lost = 0  # leases that are counted so far
        self._defrag_phase("")

    def observe(self, snapshot: Snapshot, report: CycleReport, stages: Mapping[str, float]) -> None:
        """One cycle: what it saw and decided, and how many seconds each stage took."""
        self.count("tierwise_cycles_total")
        for stage, seconds in stages.items():
            self.time("tierwise_stage_duration_seconds", seconds, stage)
        self.count("tierwise_domains_evaluated_total", by=report.search_counts.domains)
        self.count("tierwise_trials_total", by=report.search_counts.trials)
        self._decisions(snapshot, report)
        self._rejections(snapshot, report)
        self._idle_room(report)
        self._kept_records(snapshot)
        self._shares(report)
        self._waiting_claims(snapshot, report)
        for failure in report.failures:
            self.count("tierwise_plugin_failures_total", failure.plugin, failure.point, by=failure.times)
        for entry in slots_now(snapshot, self._gangs):
            labels = (str(entry.tier), str(entry.size))
            self.set("tierwise_free_slots", entry.usable, *labels)
            self.set("tierwise_fragmentation_ratio", entry.fragmentation, *labels)

    def _decisions(self, snapshot: Snapshot, report: CycleReport) -> None:
        for decision in report.decisions:
            outcome = "bound" if decision.bound else "nominated"
            self.count("tierwise_pods_total", outcome, by=decision.count())
            if decision.job.declared:
                self.count("tierwise_gangs_total", outcome, "")
                if decision.bound:
                    self.count("tierwise_gang_tier_total", str(int(snapshot.topology.tier[decision.domain])))
        self.count("tierwise_pods_total", "evicted", by=len(report.evictions))

    def _rejections(self, snapshot: Snapshot, report: CycleReport) -> None:
        gangs = (job.key for job in snapshot.jobs if job.declared and job.key in report.rejections)
        counts = Count(report.rejections[key].reason.code for key in gangs)
        self.clear("tierwise_gangs_waiting")  # a reason for which no gang waits any more must not stay behind
        for reason, number in counts.items():
            self.count("tierwise_gangs_total", "waiting", reason, by=number)
            self.set("tierwise_gangs_waiting", number, reason)

    def _idle_room(self, report: CycleReport) -> None:
        for name in ("tierwise_idle_room_nodes", "tierwise_idle_room_node_hours"):
            self.clear(name)
        for owner, account in report.turns.idle.accounts.items():
            self.set("tierwise_idle_room_nodes", account.nodes, *owner)
            self.set("tierwise_idle_room_node_hours", account.spent / 3600, *owner)

    def _shares(self, report: CycleReport) -> None:
        """How queues stand beside their siblings, where the profile remembers usage."""
        for name in ("tierwise_queue_used_ratio", "tierwise_queue_used_share"):
            self.clear(name)
        for queue, queue_standing in report.turns.usage.standings.items():
            self.set("tierwise_queue_used_ratio", queue_standing.ratio, queue)
            self.set("tierwise_queue_used_share", queue_standing.used, queue)

    def _kept_records(self, snapshot: Snapshot) -> None:
        """Figures of what is remembered of pods that are gone, where the profile has it remembered."""
        memory = snapshot.start_memory
        now = snapshot.now
        if memory is not None:
            self.set("tierwise_suspected_nodes", len(memory.at(snapshot.jobs, now).suspected))
        if snapshot.place_memory is not None:
            places = (place for place in snapshot.held_places.places if place.after and now < place.until)
            self.set("tierwise_kept_places", sum(place.count for place in places))

    def _waiting_claims(self, snapshot: Snapshot, report: CycleReport) -> None:
        tasks = []
        for job in snapshot.jobs:
            for task in job.tasks:
                if task.status is Status.PENDING:
                    tasks.append(task)
        volumes = {claim.key for task in tasks for claim in task.volume_claims if claim.chosen}
        devices: set[str] = set()
        for task in tasks:
            if task.shape.devices is not None:
                devices.update(task.shape.devices.binding)
        self.set("tierwise_claims_waiting", len(volumes), "PersistentVolumeClaim")
        self.set("tierwise_claims_waiting", len(devices), "ResourceClaim")
        for claim, reason in report.undone.items():
            self.count("tierwise_claims_undone_total", claim.kind, reason)

    def defrag(self, phase: str, *, moves: int, hours: float) -> None:
        """A defragmentation is in a phase; "" where there was none."""
        self._defrag_phase(phase)
        self.set("tierwise_defrag_moves", moves)
        self.set("tierwise_defrag_lost_hours", hours)

    def _defrag_phase(self, phase: str) -> None:
        for known_phase in map(str, MovePhase):
            self.set("tierwise_defrag_phase", known_phase == phase, known_phase)

    def slow_writes(self, writes: Mapping[str, tuple[int, float]]) -> None:
        """Writes without an answer, and the seconds since the oldest was sent, by namespace."""
        for name in ("tierwise_slow_writes", "tierwise_slow_writes_seconds"):
            self.clear(name)
        for namespace, (number, seconds) in writes.items():
            self.set("tierwise_slow_writes", number, namespace)
            self.set("tierwise_slow_writes_seconds", seconds, namespace)

    def uses(self, snapshot: Snapshot) -> None:
        """Use of the scarce resource, in all and by the queues that use most of it."""
        resource = scarce(snapshot)
        index = snapshot.axis.index.get(resource)
        unit = one_slot(snapshot)[1]
        total = int(snapshot.nodes.allocatable[index].sum()) if index is not None else 0
        self.set("tierwise_resource_units", total // unit, resource, "total")
        self.set("tierwise_resource_units", int(held(snapshot, resource).sum()) // unit, resource, "used")
        used: Count[str] = Count()
        waiting: Count[str] = Count()
        for job in snapshot.jobs:
            waits = False
            for task in job.tasks:
                waits |= task.status is Status.PENDING
                if index is not None and task.status is Status.RUNNING:
                    used[job.queue] += int(task.shape.request[index])
            waiting[job.queue] += waits
        self.clear("tierwise_queue_units")  # a queue that is gone must not stay behind
        self.clear("tierwise_queue_jobs_waiting")
        names = sorted(snapshot.queues, key=lambda name: (-used[name], -waiting[name], name))
        for name in names[:_MOST_QUEUES]:
            self.set("tierwise_queue_units", used[name] // unit, name, "used")
            self.set("tierwise_queue_jobs_waiting", waiting[name], name)
            deserved = snapshot.queues[name].deserved.get(resource)
            if deserved is not None:
                self.set("tierwise_queue_units", deserved // unit, name, "deserved")

    def lease_losses(self, number: int) -> None:
        """The lease was lost so many times since the process began."""
        self.count("tierwise_lease_losses_total", by=number - self._lost)
        self._lost = number


class AdmissionMetrics(DeclaredMetrics):
    """Metrics of the webhook."""

    def __init__(self, to: CollectorRegistry) -> None:
        super().__init__(_ADMISSION, to)

    def reviewed(self, path: str, kind: str, *, allowed: bool, seconds: float) -> None:
        """One review was answered."""
        self.count("tierwise_admission_reviews_total", path, kind, "true" if allowed else "false")
        self.time("tierwise_admission_duration_seconds", seconds, path)

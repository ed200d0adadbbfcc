"""What Prometheus sees: metrics of cycles, of the way to the API server, and of admission.

Plain data goes in: a snapshot, a report and the seconds of each stage from the loop, single figures from the cluster
and the webhook. Reads no clock and no cluster. Each process has one registry; docs/reference/metrics.md lists all
metrics, and a test holds the list against this file.
"""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from tierwise import __version__
from tierwise.api.defrag_record import MovePhase
from tierwise.explain.free_slots import slots_now
from tierwise.framework.report import CycleReport
from tierwise.model.job import Status
from tierwise.model.slots import SIZES
from tierwise.model.snapshot import Snapshot

__all__ = ["DEFRAG_PHASES", "STAGES", "AdmissionMetrics", "Metrics", "registry", "text"]

STAGES: Final = ("read", "build", "decide", "apply", "publish")
"""The stages of one turn of the loop, in order."""

DEFRAG_PHASES: Final = tuple(map(str, MovePhase))

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


def registry() -> CollectorRegistry:
    """A registry that knows which version it is of."""
    # Else there is a further series for each counter that says when it began to count.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    found = CollectorRegistry(auto_describe=True)
    info = Gauge("tierwise_build_info", "Always 1; the label is the version that runs.", ["version"], registry=found)
    info.labels(__version__).set(1)
    return found


def text(metrics: CollectorRegistry) -> bytes:
    """All metrics in Prometheus' text format."""
    return generate_latest(metrics)


class Metrics:
    """Metrics of the scheduler."""

    def __init__(self, to: CollectorRegistry, *, gangs: Sequence[int] = (1, *SIZES)):
        """`gangs` are the sizes for which free slots are counted."""
        self._gangs = tuple(gangs)
        self._stage = Histogram(
            "tierwise_stage_duration_seconds",
            "Time that one stage of a cycle took.",
            ["stage"],
            buckets=_SECONDS,
            registry=to,
        )
        self._defrag_phase = Gauge(
            "tierwise_defrag_phase", "1 for the phase of the present or last defragmentation.", ["phase"], registry=to
        )
        for phase in DEFRAG_PHASES:
            self._defrag_phase.labels(phase).set(0)
        self._defrag_moves = Gauge(
            "tierwise_defrag_moves", "Jobs moved by the present or last defragmentation.", registry=to
        )
        self._defrag_hours = Gauge(
            "tierwise_defrag_lost_hours", "Hours of work that these moves have lost.", registry=to
        )
        self._cycles = Counter("tierwise_cycles_total", "Cycles that were run.", registry=to)
        self._gangs_total = Counter(
            "tierwise_gangs_total",
            "Outcomes of gangs, cycle by cycle: bound, nominated or waiting, the latter with a reason.",
            ["outcome", "reason"],
            registry=to,
        )
        self._waiting = Gauge(
            "tierwise_gangs_waiting", "Gangs that the last cycle could not place.", ["reason"], registry=to
        )
        self._pods = Counter("tierwise_pods_total", "Pods bound, nominated or evicted.", ["outcome"], registry=to)
        self._tiers = Counter(
            "tierwise_gang_tier_total", "Gangs bound, by the tier of the domain that holds them.", ["tier"], registry=to
        )
        self._domains = Counter("tierwise_domains_evaluated_total", "Domains that searches looked at.", registry=to)
        self._trials = Counter("tierwise_trials_total", "Placements that were tried in a domain.", registry=to)
        self._free = Gauge(
            "tierwise_free_slots",
            "Free slots that gangs of a size can fill when each must fit inside one domain of the tier.",
            ["tier", "gang"],
            registry=to,
        )
        self._fragmentation = Gauge(
            "tierwise_fragmentation_ratio",
            "Share of the free slots of a tier that gangs of a size cannot use.",
            ["tier", "gang"],
            registry=to,
        )
        self._claims = Gauge(
            "tierwise_claims_waiting",
            "Claims of pods that have a place: a volume is being bound or made, or devices are being prepared.",
            ["kind"],
            registry=to,
        )
        self._undone = Counter(
            "tierwise_claims_undone_total",
            "Claims whose volume or devices were taken back: they could not be had, or not in time.",
            ["kind", "reason"],
            registry=to,
        )
        self._in_flight = Gauge("tierwise_binds_in_flight", "Binds that await their answer.", registry=to)
        self._effects = Counter(
            "tierwise_effects_total",
            "Changes asked of the cluster.",
            ["effect", "ok"],
            registry=to,
        )
        self._lag = Gauge(
            "tierwise_watch_lag_seconds",
            "Time since the watch of a kind last had news.",
            ["kind"],
            registry=to,
        )
        self._drift = Gauge(
            "tierwise_cache_drift_objects",
            "Objects in which the cache differed from the cluster when the kind was last listed anew,"
            " or the kept snapshot (kind Snapshot) from one of everything.",
            ["kind"],
            registry=to,
        )
        self._crashes = Counter(
            "tierwise_crashes_total",
            "Stages of a turn that raised, by the kind of the object that was set aside for it.",
            ["stage", "kind"],
            registry=to,
        )
        self._failures = Counter(
            "tierwise_plugin_failures_total",
            "Calls into plugins that raised or were answered wrongly, by extension point.",
            ["plugin", "point"],
            registry=to,
        )
        self._leads = Gauge("tierwise_leader", "1 while this replica decides, 0 while it stands by.", registry=to)
        self._losses = Counter(
            "tierwise_lease_losses_total",
            "Times that this replica lost the lease because it did not renew it in time.",
            registry=to,
        )
        self._lost = 0  # of them counted so far

    def observe(self, snapshot: Snapshot, report: CycleReport, stages: Mapping[str, float]) -> None:
        """One cycle: what it saw and decided, and how many seconds each stage took."""
        self._cycles.inc()
        for stage, seconds in stages.items():
            self._stage.labels(stage).observe(seconds)
        self._domains.inc(report.search_counts.domains)
        self._trials.inc(report.search_counts.trials)
        self._decisions(snapshot, report)
        self._rejections(snapshot, report)
        self._waiting_claims(snapshot, report)
        for failure in report.failures:
            self.plugin_failure(failure.plugin, failure.point, failure.times)
        for entry in slots_now(snapshot, self._gangs):
            labels = (str(entry.tier), str(entry.size))
            self._free.labels(*labels).set(entry.usable)
            self._fragmentation.labels(*labels).set(entry.fragmentation)

    def _decisions(self, snapshot: Snapshot, report: CycleReport) -> None:
        for decision in report.decisions:
            outcome = "bound" if decision.bound else "nominated"
            self._pods.labels(outcome).inc(decision.count())
            if decision.job.declared:
                self._gangs_total.labels(outcome, "").inc()
                if decision.bound:
                    self._tiers.labels(str(int(snapshot.topology.tier[decision.domain]))).inc()
        self._pods.labels("evicted").inc(len(report.evictions))

    def _rejections(self, snapshot: Snapshot, report: CycleReport) -> None:
        gangs = (job.key for job in snapshot.jobs if job.declared and job.key in report.rejections)
        counts = Count(report.rejections[key].reason.code for key in gangs)
        self._waiting.clear()  # a reason that nobody waits for any more must not stay behind
        for reason, number in counts.items():
            self._gangs_total.labels("waiting", reason).inc(number)
            self._waiting.labels(reason).set(number)

    def _waiting_claims(self, snapshot: Snapshot, report: CycleReport) -> None:
        tasks = [task for job in snapshot.jobs for task in job.tasks if task.status is Status.PENDING]
        volumes = {claim.key for task in tasks for claim in task.volume_claims if claim.chosen}
        devices = {path for task in tasks if task.shape.devices is not None for path in task.shape.devices.binding}
        self._claims.labels("PersistentVolumeClaim").set(len(volumes))
        self._claims.labels("ResourceClaim").set(len(devices))
        for claim, reason in report.undone.items():
            self._undone.labels(claim.kind, reason).inc()

    def defrag(self, phase: str, *, moves: int, hours: float) -> None:
        """A defragmentation stands so; phase "" where there was none."""
        for known in DEFRAG_PHASES:
            self._defrag_phase.labels(known).set(1 if known == phase else 0)
        self._defrag_moves.set(moves)
        self._defrag_hours.set(hours)

    def binds_in_flight(self, number: int) -> None:
        """So many binds await their answer now."""
        self._in_flight.set(number)

    def effect(self, kind: str, *, ok: bool, number: int = 1) -> None:
        """So many effects of a kind ("Bind", "PatchStatus", ...) were carried out, or were not."""
        self._effects.labels(kind, "true" if ok else "false").inc(number)

    def watch_lag(self, kind: str, seconds: float) -> None:
        """The watch of a kind was last heard of so long ago."""
        self._lag.labels(kind).set(seconds)

    def cache_drift(self, kind: str, objects: int) -> None:
        """Listing a kind again found so many objects that the cache had wrong, or not at all."""
        self._drift.labels(kind).set(objects)

    def crash(self, stage: str, kind: str) -> None:
        """A stage has raised, because of an object of a kind; "" where none is to blame."""
        self._crashes.labels(stage, kind).inc()

    def plugin_failure(self, plugin: str, point: str, times: int) -> None:
        """Calls into a plugin have failed at a point; "" where it could not be made."""
        self._failures.labels(plugin, point).inc(times)

    def leads(self, *, yes: bool) -> None:
        """Whether this replica decides."""
        self._leads.set(1 if yes else 0)

    def lease_losses(self, number: int) -> None:
        """The lease was lost so many times since the process began."""
        self._losses.inc(number - self._lost)
        self._lost = number


class AdmissionMetrics:
    """Metrics of the webhook."""

    def __init__(self, to: CollectorRegistry) -> None:
        self._reviews = Counter(
            "tierwise_admission_reviews_total", "Reviews answered.", ["path", "kind", "allowed"], registry=to
        )
        self._seconds = Histogram(
            "tierwise_admission_duration_seconds", "Time that a review took.", ["path"], buckets=_SECONDS, registry=to
        )
        self._expiry = Gauge(
            "tierwise_certificate_expiry_timestamp_seconds", "When the certificate in use expires.", registry=to
        )

    def reviewed(self, path: str, kind: str, *, allowed: bool, seconds: float) -> None:
        """One review was answered."""
        self._reviews.labels(path, kind, "true" if allowed else "false").inc()
        self._seconds.labels(path).observe(seconds)

    def certificate(self, expires: float) -> None:
        """The certificate that is shown ends then, in seconds since the epoch."""
        self._expiry.set(expires)

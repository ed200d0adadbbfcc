"""The one fuzzer: clusters with everything in them, many cycles with events and restarts between them.

    python -m tests.fuzz.fuzz_everything --cycles 100000 --seed 1 --keep build/fuzz

A history is one drawn world under one drawn configuration. Unimportant gangs fill the cluster, others come and starve;
pods end, fail and are resized, nodes are lost and come back, and the scheduler restarts between any two cycles. Every
cycle is judged by `rules`, the state that it leaves by `tierwise.audit`, and its decision is compared with that of a
reader which has read everything anew, in another order. Every history ends with twenty cycles in which nothing happens
(`quiet_end`). A fault is minimised to files that `tierwise schedule` runs.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import yaml
from tests.fuzz import quiet_end
from tests.fuzz.drawn_world import World, stamp
from tests.fuzz.rules import Facts, Reserved, Seen, Step, amount, judge

from tierwise.api import codec
from tierwise.audit import audit
from tierwise.config.kube import read_kube
from tierwise.config.profile import Profile
from tierwise.config.volcano import read_volcano
from tierwise.explain.idle_plans import PlansSeen, look_at_plans
from tierwise.explain.wire import pending_wire
from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.port import Bind, Create, Effect, Key, Nominate, Objects, Prepare, Update, key_of_raw
from tierwise.scheduler import check_profile, cycle
from tierwise.scheduler.effects import effects
from tierwise.sim.cluster.driver import all_controllers, reconcile
from tierwise.sim.cluster.provisioner import provision
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import Reader, build
from tierwise.status.pod_group import statuses

__all__ = ["CYCLES", "Fault", "Total", "configuration", "fuzz", "history", "minimised", "ruled"]

Manifest = dict[str, Any]
CYCLES = 5
_START = 1_767_225_600.0


@dataclass(frozen=True)
class Fault:
    """What went wrong, and the cluster and configuration with which it does."""

    seed: int
    cycle: int
    text: str
    config: Manifest
    now: float
    manifests: tuple[Manifest, ...]

    @property
    def rule(self) -> str:
        return self.text.split(":")[0]

    def __str__(self) -> str:
        return f"seed {self.seed} cycle {self.cycle}: {self.text}"


@dataclass
class Total:
    """What came of histories."""

    seen: Seen = field(default_factory=Seen)
    faults: list[Fault] = field(default_factory=list)


# -- configurations


def configuration(pick: Random, has: Mapping[str, bool], scene: str = "") -> Manifest:
    """A configuration file in one of the formats, with actions in any order; for a world that `has` some features."""
    if pick.random() < 0.2 and not any(has[name] for name in ("borrowing", "spares", "reservations")):
        return _kube(pick)
    evicting = pick.choice([text for text in _EVICTING if "reclaim" in text or not has["borrowing"]]).split()
    if scene == "a queue that reserves" and pick.random() < 0.7:
        evicting = []  # whoever is made room for waits for no moment
    later = ["allocate", "backfill", *evicting]
    if pick.random() < 0.5:
        pick.shuffle(later)
    if pick.random() < 0.2:
        later.append("allocate")
    actions: list[Manifest] = []
    if has["reservations"]:
        arguments: Manifest = {"reservations": pick.choice(("easy", "conservative"))}
        if scene == "a queue that reserves":  # for rivals of every namespace
            arguments["trustStatedDurations"] = True
        actions.append({"name": "allocate", "arguments": arguments})
    shares = pick.choice([text for text in _SHARES if text == "elasticquota" or not has["elastic-quotas"]])
    if has["guarantee"]:
        shares = "capacity"
    if any("reclaim" in action for action in evicting):
        shares = pick.choice(("capacity", "capacity", "proportion"))
    first: list[Manifest] = [{"name": name} for name in ("priority", "gang", "conformance", "pdb")]
    first.append({"name": "coscheduling", "arguments": {"awareNetworkTopology": True}})
    second: list[Manifest] = [
        {"name": name} for name in (*shares.split(), "predicates", "nodeorder", "network-topology-aware")
    ]
    for name, chance in (
        ("eviction-cost", 0.3),
        ("repair", 0.4),
        ("patience", 0.1),
        ("resourcequota", 0.3),
        ("sla", 0.1),
    ):
        if pick.random() < chance or (name == "repair" and has["spares"]):
            wish = Random(repr(later)).choice(("replace", "replace", "restart-subgroup", "restart-all"))
            replacing: Manifest = {"onNodeLoss": wish} | ({"maxSpares": 4} if has["spares"] else {})
            second.append({"name": name, "arguments": replacing} if name == "repair" else {"name": name})
    found: Manifest = {"actions": ", ".join(["enqueue", *later]), "tiers": [{"plugins": first}, {"plugins": second}]}
    return found | ({"configurations": actions} if actions else {})


_EVICTING = (
    "preempt",
    "gangpreempt",
    "preempt reclaim",
    "gangpreempt gangreclaim",
    "gangpreempt reclaim",
    "jobpreempt",
    "quotapreempt giveback",
    "podpreempt",
    "giveback",
    "",
)
_SHARES = ("", "capacity", "proportion", "elasticquota", "elasticquota", "drf")


def _kube(pick: Random) -> Manifest:
    """Kubernetes' own format: kube-scheduler's defaults, or Koordinator's plugins."""
    profile: Manifest = {"schedulerName": "tierwise"}
    if pick.random() < 0.4:
        on = pick.random() < 0.6
        names = ["Coscheduling", "ElasticQuota"]
        profile["pluginConfig"] = [{"name": names[0], "args": {"enablePreemption": on, "awareNetworkTopology": True}}]
        profile["plugins"] = {
            "preFilter": {"enabled": [{"name": name} for name in names]},
            "postFilter": {"disabled": [{"name": "*"}], "enabled": [{"name": name} for name in names]},
        }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


def _profile(config: Manifest) -> Profile:
    return check_profile(read_kube(config) if "profiles" in config else read_volcano(config))


# -- one cycle


@dataclass(frozen=True)
class _Decided:
    snapshot: Snapshot
    report: CycleReport
    asked: Sequence[Effect]

    def told(self) -> str:
        """What a cycle says and asks for, as bytes that two ways of coming to it must share."""
        placed = {e.pod.path: e.node for e in self.asked if isinstance(e, Nominate) and e.node}
        waiting = pending_wire(self.snapshot, self.report, placed)
        return json.dumps([[repr(effect) for effect in self.asked], waiting], sort_keys=True, default=str)


def _decide(snapshot: Snapshot, profile: Profile) -> _Decided:
    report = cycle(snapshot, profile)
    return _Decided(snapshot, report, effects(snapshot, report))


def _objects(raws: Iterable[Manifest]) -> Objects:
    return Objects.of((codec.decode(raw), raw) for raw in raws)


def _manifests(objects: Objects) -> list[Any]:
    """What a cluster holds; nobody changes these but in a copy."""
    return [objects.raw(key) for key in objects]


def _step(before: Sequence[Manifest], cluster: EmbeddedCluster, decided: _Decided, profile: Profile) -> Step:
    """Carry out what a cycle asked for."""
    asked = decided.asked
    cluster.apply(asked)
    cluster.apply(provision(cluster.read()).effects)
    after = tuple(_manifests(cluster.read()))
    gained: dict[str, tuple[str, ...]] = {}
    awaited: dict[str, str] = {}
    preparing = {effect.gang for effect in asked if isinstance(effect, Prepare)}
    names = decided.snapshot.nodes.names
    for decision in decided.report.decisions:
        places = {t.key: names[row] for p in decision.placed for t, row in zip(p.tasks, p.rows.tolist(), strict=True)}
        key = decision.job.key
        gained[key] = (*gained.get(key, ()), *places)
        awaited |= places if decision.bound or key in preparing else {}
    bound = {e.pod.path: e.node for e in asked if isinstance(e, Bind)}
    nominated = {e.pod.path: e.node for e in asked if isinstance(e, Nominate) and e.node}
    return Step(
        tuple(before),
        after,
        bound,
        nominated,
        tuple((e.task.key, e.by.key if e.by else "", e.action) for e in decided.report.evictions),
        gained,
        {str(entry["pod"]): entry for entry in pending_wire(decided.snapshot, decided.report, nominated)},
        frozenset(choice.name for choice in profile.plugins()),
        frozenset(notice.task.key for notice in decided.report.notices),
        {path: node for path, node in awaited.items() if path not in bound and not _tied(path, node, before, asked)},
        _reserved(before, decided),
        decided.snapshot.now,
    )


def _tied(path: str, node: str, before: Sequence[Manifest], asked: Sequence[Effect]) -> bool:
    """Whether a volume of a pod is made for another node than its own: it may have to go elsewhere."""
    writes = [e for e in asked if isinstance(e, Prepare) and e.key.kind == "PersistentVolumeClaim"]
    marks: Any = {write.key.path: write.patch["metadata"] for write in writes}
    pod = next((raw for raw in before if writes and raw["kind"] == "Pod" and _path(raw) == path), None)
    space = path.partition("/")[0]
    for volume in pod["spec"].get("volumes", ()) if pod is not None else ():
        claim = f"{space}/{volume.get('persistentVolumeClaim', {}).get('claimName', '')}"
        if marks.get(claim, {}).get("annotations", {}).get("tierwise.io/selected-node", node) != node:
            return True
    return False


def _reserved(before: Sequence[Manifest], decided: _Decided) -> dict[str, Reserved]:
    short = {
        _path(raw)
        for raw in before
        if raw["kind"] == "PodGroup" and "tierwise.io/expected-duration" in (raw["metadata"].get("annotations") or {})
    }
    found = {}
    cpu = decided.snapshot.axis.index["cpu"]
    for held in decided.report.reservations:
        units = sum(int(shape.request[cpu]) * int(counts.sum()) for shape, _, counts in held.held)
        paths = tuple(task.key for task in held.job.tasks)
        found[held.job.key] = Reserved(Fraction(units, 1000), paths, held.holds, frozenset(short))
    return found


def _needless(plans: PlansSeen) -> list[str]:
    return [f"audit needless: {job} by {action}" for job, action in plans.needless]


def _judged(before: Sequence[Manifest], now: float, profile: Profile) -> list[str]:
    """What is wrong with a cycle on these objects, read anew: what a minimised file must show again."""
    cluster = EmbeddedCluster(_objects(before), clock=now)
    try:
        objects = cluster.read()
        decided = _decide(build(objects, now, profile), profile)
        step = _step(before, cluster, decided, profile)
        found = [*judge(step), *_audited(cluster.read(), objects, step), *_spared(step, now, profile)]
        return [*found, *_needless(look_at_plans(decided.snapshot, decided.report, profile))]
    except Exception as error:  # noqa: BLE001 - whatever is raised is a finding
        return [f"raised {type(error).__name__}: {error}"]


def _audited(after: Objects, before: Objects, step: Step) -> list[str]:
    """What the auditor finds after a step and did not find before it; it looks at that only where it finds something.

    A gang that lost pods in the step may stand by a part, or in fewer domains, until it has them again: whether it may
    lose them is a rule about the step.
    """
    fresh = audit(after)
    known = {(one.rule, one.subject) for one in (audit(before) if fresh else ())}
    fresh = [one for one in fresh if (one.rule, one.subject) not in known]
    robbed = {path.partition("/")[2] for path, _, _ in step.evicted}
    fresh = [one for one in fresh if one.rule not in _OF_GANGS or not any(_of(pod, one.subject) for pod in robbed)]
    if "elasticquota" not in step.plugins:  # which alone knows of pods that may not be preempted within min
        fresh = [one for one in fresh if one.rule != "over-min"]
    return [f"audit {one.rule}: {one}" for one in fresh]


_OF_GANGS = ("part-of-gang", "too-wide")


def _of(pod: str, subject: str) -> bool:
    """Whether a pod is of the gang that a finding is about; worlds name pods and groups after their gangs."""
    return pod.partition("-")[0] == subject.rpartition("/")[2].partition("-")[0]


# -- spares


def _spared(step: Step, now: float, profile: Profile) -> list[str]:
    """What spares keep from others: nothing from who is more important, and nothing that their queue cannot pay for.

    Judged by running the cycle once more without them: who is bound then beside all who are bound with them, on the
    nodes that those have, waits for the spares.
    """
    owners = [raw for raw in step.before if _keeps_spares(raw)]
    if not owners:
        return []
    faults = []
    classes = [str(raw["spec"].get("priorityClassName", "p9")) for raw in owners]
    most = max(int(name[1:]) for name in classes)
    priorities = {_path(raw): raw["spec"].get("priority", 0) for raw in step.before if raw["kind"] == "Pod"}
    placed = {*step.bound, *step.nominated, *step.awaited}
    waiting = {path for path in step.pending if path in priorities} - placed
    if any(priorities[path] > most for path in waiting):
        for path in sorted(_more_without(step, owners, now, profile) - placed):
            if priorities[path] > most:
                faults.append(f"spares: {path} of priority {priorities[path]} waits for those of {most}")
    poor = [raw for raw in owners if _at_its_capability(step, raw)]
    if poor and waiting:
        lost = _more_without(step, poor, now, profile) - placed
        faults += [f"spares: {path} waits for those of a queue at its capability" for path in sorted(lost)]
    return faults


def _keeps_spares(raw: Manifest) -> bool:
    marks = raw["metadata"]
    volcano = str(raw["apiVersion"]).startswith("scheduling.volcano.sh") and raw["kind"] == "PodGroup"
    return volcano and (marks.get("annotations") or {}).get("tierwise.io/spares", "0") != "0"


def _path(raw: Manifest) -> str:
    meta = raw["metadata"]
    return f"{meta.get('namespace') or 'default'}/{meta['name']}"


def _more_without(step: Step, owners: Sequence[Manifest], now: float, profile: Profile) -> set[str]:
    """The pods that the cycle binds, beside all that it did, where these owners have no spares.

    They still want lost pods replaced. None where the cycle takes another course: that says nothing of the spares.
    """
    changed: list[Any] = []
    for raw in step.before:
        if raw in owners:
            raw = copy.deepcopy(raw)
            marks: Any = raw["metadata"]
            marks["annotations"] = {"tierwise.io/on-node-loss": "replace", **marks["annotations"]}
            del marks["annotations"]["tierwise.io/spares"]
        changed.append(raw)
    decided = _decide(build(_objects(changed), now, profile), profile)
    bound = {effect.pod.path: effect.node for effect in decided.asked if isinstance(effect, Bind)}
    gone = {eviction.task.key for eviction in decided.report.evictions}
    same = step.bound.items() <= bound.items() and gone == {path for path, _, _ in step.evicted}
    return set(bound) if same else set()


def _at_its_capability(step: Step, group: Manifest) -> bool:
    """Whether the queue of a group has no cpu left for one more of its pods, once all who are evicted have left."""
    facts = Facts(step)
    spec = group["spec"]
    queue = next(
        (raw for raw in step.before if raw["kind"] == "Queue" and raw["metadata"]["name"] == spec["queue"]), None
    )
    most = (queue["spec"].get("capability") or {}).get("cpu") if queue is not None else None
    if most is None:
        return False
    groups = {
        _path(raw) for raw in step.before if raw["kind"] == "PodGroup" and raw["spec"].get("queue") == spec["queue"]
    }
    pods = [p for p in facts.old.values() if f"{p.space}/{p.marks.get('scheduling.k8s.io/group-name')}" in groups]
    stay = [p for p in pods if p.holds and not p.leaving and p.node in facts.nodes and p.path not in facts.victims]
    used = sum(p.need["cpu"] for p in stay)
    own = [
        p for p in pods if f"{p.space}/{p.marks.get('scheduling.k8s.io/group-name')}" == _path(group) and p.need["cpu"]
    ]
    return bool(own) and used + min(p.need["cpu"] for p in own) > amount(most)


# -- histories


class _History:
    """One world and its scheduler."""

    def __init__(self, seed: int, total: Total, always: Collection[str] = ()) -> None:
        self.seed, self.total = seed, total
        self.pick = Random(seed)
        self.world = World(self.pick, always)
        self.config = configuration(self.pick, self.world.has, self.world.scene)
        self.profile = _profile(self.config)
        crowd = [*self.world.cluster(), *self.world.arrivals(self.pick.randint(4, 8), low=True)]
        self.cluster = EmbeddedCluster(_objects(crowd), clock=_START)
        self.controllers = all_controllers(self.profile)
        self.reader: Reader | None = None
        self._lost: dict[str, Any] = {}

    @property
    def now(self) -> float:
        return _START + self.world.now

    def run(self) -> None:
        for number in range(CYCLES):
            before: list[Any] = []
            try:
                faults = self._one(number, before)
            except Exception as error:  # noqa: BLE001 - whatever is raised is a finding, and the next history goes on
                faults = [f"raised {type(error).__name__}: {error}"]
            made = (Fault(self.seed, number, text, self.config, self.now, tuple(before)) for text in faults)
            self.total.faults += made
            if faults:
                return  # what follows from a fault is none of its own
            self._between()
        self._come_to_rest()

    def _come_to_rest(self) -> None:
        """Nothing happens any more: the cluster settles, and nobody is left who could run."""
        self.world.now += quiet_end.AFTER
        for number in range(1, quiet_end.QUIET + 1):
            before: list[Any] = []
            try:
                faults = self._quiet(number, before)
            except Exception as error:  # noqa: BLE001 - as in `run`
                faults = [f"raised {type(error).__name__}: {error}"]
            made = (Fault(self.seed, CYCLES + number, text, self.config, self.now, tuple(before)) for text in faults)
            self.total.faults += made
            if faults:
                return

    def _quiet(self, number: int, before: list[Any]) -> list[str]:
        """One cycle in which pods start and leave as they were told, and nothing else changes."""
        self.world.now += 60
        self.cluster.clock = self.now
        for raw in _manifests(self.cluster.read()):
            if raw["kind"] == "Pod":
                self._obey(raw)
        reconcile(self.cluster, self.now, self.profile, None, self.controllers)
        self.cluster.apply(provision(self.cluster.read()).effects)
        objects = self.cluster.read()
        before += _manifests(objects)
        if self.reader is None:
            self.reader = Reader(self.profile)
        decided = _decide(self.reader.read(objects, self.now), self.profile)
        step = _step(before, self.cluster, decided, self.profile)
        self.cluster.apply(statuses(self.cluster.read(), decided.snapshot, decided.report))
        self.total.seen.quiet_cycles += 1
        faults = quiet_end.circles(number, [path for path, _, _ in step.evicted], [*step.bound])
        if number < quiet_end.QUIET or faults:
            return faults

        hasty = _profile(quiet_end.without_promises(self.config))
        again = _decide(build(_objects(quiet_end.ladderless(before)), self.now, hasty), hasty)
        bound = [effect.pod.path for effect in again.asked if isinstance(effect, Bind)]
        return [*quiet_end.waits_for_ever(step.pending), *quiet_end.left_behind(step.pending, bound)]

    def _obey(self, raw: Manifest) -> None:
        """A pod that was bound runs, and one that was told to leave is made anew."""
        key, status = key_of_raw(raw), raw.get("status") or {}
        if "deletionTimestamp" in raw["metadata"]:
            self.cluster.remove([key])
            self._again(copy.deepcopy(raw))
        elif "nodeName" in raw["spec"] and status.get("phase", "") in ("", "Pending"):
            started = {**status, "phase": "Running", "startTime": stamp(self.world.now)}
            self.cluster.apply([Update(key, raw | {"status": started})])

    def _one(self, number: int, before: list[Any]) -> list[str]:
        """One cycle, carried out; what is wrong with it. `before` becomes the objects that it sees."""
        seen = self.total.seen
        reconcile(self.cluster, self.now, self.profile, None, self.controllers)
        self.cluster.apply(provision(self.cluster.read()).effects)
        objects = self.cluster.read()
        before += _manifests(objects)
        if self.reader is None or self.pick.random() < 0.3:
            seen.restarts += self.reader is not None
            self.reader = Reader(self.profile)
        decided = _decide(self.reader.read(objects, self.now), self.profile)
        aside = Random(f"{self.seed} {number}")  # how often this is looked at changes no world
        faults = self._read_anew(before, decided, aside) if aside.random() < 0.25 else []
        step = _step(before, self.cluster, decided, self.profile)
        faults += [*judge(step), *_audited(self.cluster.read(), objects, step), *_spared(step, self.now, self.profile)]
        faults += self._needless(decided)
        self.cluster.apply(statuses(self.cluster.read(), decided.snapshot, decided.report))
        seen.cycles += 1
        seen.binds += len(step.bound)
        seen.nominations += len(step.nominated)
        seen.evictions += len(step.evicted)
        seen.reclaims += sum("reclaim" in action for _, _, action in step.evicted)
        seen.repairs += sum(action == "repair" for _, _, action in step.evicted)
        seen.beside_victims += len(step.bound) if step.evicted else 0
        seen.half_gangs += _half_gangs(before)
        seen.ruled_cycles += any(map(ruled, before))
        seen.ruled_later += any(map(ruled, before)) and any(map(_stands, before))
        seen.later_cycles += number > 0
        return faults

    def _needless(self, decided: _Decided) -> list[str]:
        """Plans of evictions for gangs that idle room might have held, as a second solver says."""
        if not decided.report.evictions or decided.snapshot.windows:  # the solver knows no windows
            return []
        plans = look_at_plans(decided.snapshot, decided.report, self.profile)
        self.total.seen.plans += plans.looked
        return _needless(plans)

    def _read_anew(self, before: Sequence[Manifest], decided: _Decided, pick: Random) -> list[str]:
        """What differs where a scheduler that starts now reads everything in another order; costs a second cycle."""
        shuffled = list(before)
        pick.shuffle(shuffled)
        self.total.seen.read_anew += 1
        anew = _decide(build(_objects(shuffled), self.now, self.profile), self.profile)
        if decided.told() == anew.told():
            return []
        return [f"restart: reading anew in another order gives another decision: {_difference(decided, anew)}"]

    # -- what happens between two cycles

    def _between(self) -> None:
        self.world.now += self.pick.choice((1, 5, 30, 200, 900))
        self.cluster.clock = self.now
        for raw in _manifests(self.cluster.read()):
            if raw["kind"] == "Pod":
                self._live(raw)
        for _ in range(self.pick.choice((0, 1, 1, 2))):
            self.pick.choice(self._events())()
        if self.world.has["windows"]:
            self._window()
        coming = self.world.arrivals(self.pick.choice((0, 1, 1, 2)), low=False)
        self.cluster.apply([Create(raw) for raw in coming])

    def _live(self, raw: Manifest) -> None:
        """A pod runs, ends, fails, leaves or comes back."""
        pick, key = self.pick, key_of_raw(raw)
        bound = "nodeName" in raw["spec"]
        if "deletionTimestamp" in raw["metadata"]:
            if pick.random() < 0.7:
                self.cluster.remove([key])
                if pick.random() < 0.6:
                    self._again(copy.deepcopy(raw))
            return
        phase = (raw.get("status") or {}).get("phase", "")
        if bound and phase in ("", "Pending"):
            status = {**(raw.get("status") or {}), "phase": "Running", "startTime": stamp(self.world.now)}
            self.cluster.apply([Update(key, raw | {"status": status})])
        elif bound and phase == "Running" and pick.random() < 0.06:
            end = pick.choice(("Succeeded", "Failed", "gone", "resized"))
            if end == "gone":
                self.cluster.remove([key])
                self._again(copy.deepcopy(raw))
            elif end == "resized":
                raw = copy.deepcopy(raw)
                raw["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1500m"}}
                self.cluster.apply([Update(key, raw)])
            else:
                self.cluster.apply([Update(key, raw | {"status": {**raw["status"], "phase": end}})])

    def _again(self, raw: Manifest) -> None:
        """The same pod, made anew by whoever owns it."""
        owners = raw["metadata"].get("ownerReferences") or ()
        if any(owner["kind"] == "Job" for owner in owners):
            return  # its controller does
        for name in ("nodeName",):
            raw["spec"].pop(name, None)
        raw["metadata"].pop("deletionTimestamp", None)
        raw["metadata"]["creationTimestamp"] = stamp(self.world.now)
        raw["metadata"]["uid"] = f"{raw['metadata']['name']}-{int(self.world.now)}"
        for key in ("tierwise.io/hypernode", "tierwise.io/topology", "tierwise.io/decision"):
            (raw["metadata"].get("annotations") or {}).pop(key, None)
        self.cluster.apply([Create(raw | {"status": {"phase": "Pending"}})])

    def _events(self) -> list[Callable[[], None]]:
        return [
            *[self._node_lost] * (4 if self.world.has["spares"] else 1),
            self._node_back,
            self._node_cordoned,
            self._checkpoint,
            self._budget,
            self._gang_deleted,
        ]

    def _change(self, kind: str, change: Callable[[Manifest], None]) -> None:
        raws = [raw for raw in _manifests(self.cluster.read()) if raw["kind"] == kind]
        if raws:
            raw = copy.deepcopy(self.pick.choice(raws))
            change(raw)
            self.cluster.apply([Update(key_of_raw(raw), raw)])

    def _node_lost(self) -> None:
        """A node does not answer, or is gone for good."""
        if self.pick.random() < 0.3:
            raws = [raw for raw in _manifests(self.cluster.read()) if raw["kind"] == "Node"]
            if len(raws) > 2:
                raw = self.pick.choice(raws)
                self._lost[raw["metadata"]["name"]] = raw
                self.cluster.remove([key_of_raw(raw)])
            return

        def away(raw: Manifest) -> None:
            told = {"type": "Ready", "status": "Unknown", "lastTransitionTime": stamp(self.world.now)}
            raw["status"]["conditions"] = [told]
            taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": stamp(self.world.now)}
            raw["spec"]["taints"] = [*(raw["spec"].get("taints") or ()), taint]

        self._change("Node", away)

    def _window(self) -> None:
        """An operator closes some nodes for a time, at once or soon, or does so no more; worlds stay as they were."""
        pick = Random(f"{self.seed} window {self.world.now}")
        key = Key("tierwise.io", "Window", "", "w")
        present = self.cluster.read().raw(key) is not None
        if pick.random() < 0.6:
            return
        self.cluster.remove([key] if present else [])
        if present and pick.random() < 0.3:
            return
        spec = {
            "nodes": pick.sample(self.world.nodes, pick.randint(1, len(self.world.nodes) - 1)),
            "start": stamp(self.world.now + pick.choice((-60, 0, 60, 600, 3600))),
            "duration": f"{pick.choice((120, 900, 3600))}s",
            "unknownEnds": pick.choice(("Wait", "Start", "10m")),
            "margin": "0s",
        }
        metadata = {"name": "w"}
        raw: Manifest = {"apiVersion": "tierwise.io/v1alpha1", "kind": "Window", "metadata": metadata, "spec": spec}
        self.cluster.apply([Create(raw)])

    def _node_back(self) -> None:
        if self._lost:
            name = self.pick.choice(sorted(self._lost))
            self.cluster.apply([Create(self._lost.pop(name))])

    def _node_cordoned(self) -> None:
        self._change("Node", lambda raw: raw["spec"].update(unschedulable=not raw["spec"].get("unschedulable", False)))

    def _checkpoint(self) -> None:
        def write(raw: Manifest) -> None:
            marks = raw["metadata"].setdefault("annotations", {})
            marks["tierwise.io/checkpointed-at"] = stamp(self.world.now)

        self._change("PodGroup", write)

    def _budget(self) -> None:
        self._change(
            "PodDisruptionBudget", lambda raw: raw["status"].update(disruptionsAllowed=self.pick.choice((0, 1, 2)))
        )

    def _gang_deleted(self) -> None:
        raws = [raw for raw in _manifests(self.cluster.read()) if raw["kind"] == "PodGroup"]
        if raws and self.pick.random() < 0.5:
            self.cluster.remove([key_of_raw(self.pick.choice(raws))])


def _difference(one: _Decided, other: _Decided) -> str:
    ours, theirs = ([repr(effect) for effect in each.asked] for each in (one, other))
    return str([e for e in ours if e not in theirs][:2] + [e for e in theirs if e not in ours][:2])[:600]


def _half_gangs(raws: Sequence[Manifest]) -> int:
    """Gangs of which some pods stand and some wait."""
    states: dict[str, set[bool]] = {}
    for raw in raws:
        name = (raw["metadata"].get("labels") or {}).get("gang") if raw["kind"] == "Pod" else None
        if name:
            states.setdefault(name, set()).add("nodeName" in raw["spec"])
    return sum(len(state) == 2 for state in states.values())


def ruled(raw: Manifest) -> bool:
    """Whether an object is a pod that waits and has a rule between pods, which placing another may break."""
    if raw["kind"] != "Pod" or "nodeName" in raw["spec"]:
        return False
    spec = raw["spec"]
    spreads = (rule["whenUnsatisfiable"] for rule in spec.get("topologySpreadConstraints", ()))
    ports = (port.get("hostPort") for box in spec["containers"] for port in box.get("ports", ()))
    sides = spec.get("affinity") or {}
    return "DoNotSchedule" in spreads or any(ports) or "podAffinity" in sides or "podAntiAffinity" in sides


def _stands(raw: Manifest) -> bool:
    return raw["kind"] == "Pod" and "nodeName" in raw["spec"]


def history(seed: int, total: Total, always: Collection[str] = ()) -> None:
    """One history; nothing of it is random but by its seed. What its world has `always` is not left to chance."""
    _History(seed, total, always).run()


_FORCED: Mapping[int, tuple[str, ...]] = {0: ("borrowing",), 1: ("rivals",)}
"""What every fifth history has for certain, so that each run sees evictions of both kinds."""


def fuzz(
    cycles: int,
    seed: int,
    *,
    say: Callable[[Fault], None] | None = None,
    least: Mapping[str, int] | None = None,
) -> Total:
    """Histories from a seed on until there are so many cycles, and up to three times as many where too little was seen.

    `least` says of what how much: another rotation of seeds may begin with histories in which little happens.
    """
    total = Total()
    wanted = least or {}
    while total.seen.cycles < cycles or (total.seen.cycles < 3 * cycles and total.seen.lacks(wanted)):
        told = len(total.faults)
        history(seed, total, _FORCED.get(seed % 5, ()))
        seed += 1
        for fault in total.faults[told:] if say is not None else ():
            say(fault)  # type: ignore[misc]
    return total


# -- smaller


def minimised(fault: Fault) -> Fault:
    """The same fault with as few objects as it needs, by leaving out halves, quarters, and at last single objects."""
    profile = _profile(fault.config)

    def shows(raws: Sequence[Manifest]) -> str:
        texts = _judged(raws, fault.now, profile)
        return next((text for text in texts if text.split(":")[0] == fault.rule), "")

    kept = list(fault.manifests)
    if not shows(kept):
        return fault
    size = max(len(kept) // 2, 1)
    while size:
        start, smaller = 0, False
        while start < len(kept):
            fewer = kept[:start] + kept[start + size :]
            if shows(fewer):
                kept, smaller = fewer, True
            else:
                start += size
        size = size if smaller and size == 1 else size // 2
    return Fault(fault.seed, fault.cycle, shows(kept), fault.config, fault.now, tuple(kept))


def keep(fault: Fault, folder: Path) -> str:
    """Write a fault as files that `tierwise schedule` runs; the command."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{fault.rule.replace(' ', '-')}-{fault.seed}"
    world, config = folder / f"{name}.json", folder / f"{name}.conf"
    world.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(fault.manifests)}, indent=1))
    config.write_text(yaml.safe_dump(fault.config, sort_keys=False))
    return f"tierwise schedule -f {world} --config {config} --cycles 1 --now {stamp(fault.now - _START)} -o json"


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for files of minimised faults, the first two of each rule")
    given = parser.parse_args()
    started, kept = time.monotonic(), Counter[str]()

    def say(fault: Fault) -> None:
        print(str(fault)[:400], flush=True)
        kept[fault.rule] += 1
        if given.keep is not None and kept[fault.rule] <= 2:
            print("   ", keep(minimised(fault), given.keep), flush=True)

    total = fuzz(given.cycles, given.seed, say=say)
    took = f"{time.monotonic() - started:.0f} s"
    print(f"seed {given.seed}: {vars(total.seen)}, {len(total.faults)} faults {dict(kept)}, {took}")
    return 1 if total.faults else 0


if __name__ == "__main__":
    sys.exit(main())

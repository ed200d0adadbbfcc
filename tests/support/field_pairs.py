"""By label or annotation: the scene in which it decides, or is told of, and the value that does.

A row for each one of `docs/reference/annotations.md`; `tests/unit/dialects/test_every_mark_counts.py` plays it on each
object, in each form and in each language where that page says that it counts.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

import tests.support.field_scenes_of_languages
import tests.support.field_scenes_of_others
import tests.support.field_scenes_of_workloads  # noqa: F401

from tierwise.api.keys import spelled

__all__ = ["PAIRS", "Pair", "Proof"]


class Proof(enum.Enum):
    """What a pair of clusters shows."""

    DECIDES = "decides"  # who is bound, evicted or nominated, and where
    SHOWS = "shows"  # what is written or said besides the mark itself
    WRITES = "writes"  # the mark is there afterwards, and in another cluster it is not, or is another one


class Pair(NamedTuple):
    """A scene, and a value that changes what comes of it; of what is written another scene, where it is not so."""

    scene: str
    value: str
    proof: Proof = Proof.DECIDES


def _shows(scene: str, value: str) -> Pair:
    return Pair(scene, value, Proof.SHOWS)


def _writes(scene: str, unlike: str) -> Pair:
    return Pair(scene, unlike, Proof.WRITES)


_KUEUE: Final = "kueue.x-k8s.io"
_GANG: Final = "gang.scheduling.koordinator.sh"
_QUOTA: Final = "quota.scheduling.koordinator.sh"
_RACK: Final = "example.com/rack"
_SPREADING: Final = (
    '{"workloadLabelSelectors":[{"key":"app","operator":"In","values":["main"]}],'
    '"rules":[{"topologyKey":"example.com/rack","maxShareAllowingPlacement":"0.5"}]}'
)
_NO_POWER: Final = '[{"name": "power", "amount": 0, "charges": [{"resource": "pods", "each": 1}]}]'
_GATHER: Final = '{"gatherStrategy":[{"layer":"BlockLayer","strategy":"MustGather"}]}'
_LONG_AGO: Final = "2025-12-31T23:00:00Z"
_JUST_NOW: Final = "2025-12-31T23:59:59Z"

PAIRS: Final[Mapping[str, Pair]] = {
    spelled(key): pair
    for key, pair in {
        "/spares": Pair("neighbour", "1"),
        "/borrows-spares": Pair("borrower", "true"),
        "/on-node-loss": Pair("lost node", "restart-all"),
        "/expected-duration": Pair("before a reservation", "10m"),
        "/hold": Pair("alone", "until Monday"),
        "/minimum-run-time": Pair("evicted", "30m"),
        "/restart-cost": Pair("evicted first", "5h"),
        "/eviction-notice": Pair("evicted", "2m"),
        "/checkpointed-at": Pair("evicted last", "2025-12-31T23:59:50Z"),
        "/topology-ladder": Pair("torn", "1=2h,any"),
        "/sizes": Pair("alone", "4"),
        "/fabric": Pair("two fabrics", "nvlink"),
        "/fabric.*": Pair("two fabrics of a part", "nvlink"),
        "/topology-constraints": Pair("torn", '[{"tier": 1}]'),
        "/set": Pair("rule about a set", "serve"),
        "/set-start": Pair("alone", "2"),
        "/pattern": Pair("alone", "ring"),
        "/rank": Pair("ranked", "7"),
        "/ranks": Pair("ranked", "9"),
        "/coordinates": _writes("patterned", "alone"),
        "/hypernode": _writes("near", "far"),
        "/sub-groups": _writes("near", "far"),
        "/tier": _writes("near", "far"),
        "/topology": _writes("near", "far"),
        "/reservation": Pair("two reservations", '{"domain": "r1", "from": "2026-01-01T01:00:00Z"}'),
        "/expected-start": _writes("forecast", "forecast of a running gang"),
        "/unschedulable": _writes("without room", "alone"),
        "/decision": _writes("an event", "an event without a decision"),
        "/quota-over-since": Pair("a quota that owes", _LONG_AGO),
        "/made-for": _shows("deserted", "Deployment v"),
        "/depends-on": _shows("a role is missing", '{"worker": ["server"]}'),
        "/partial-since": _shows("half running for long", _LONG_AGO),
        "/diminished-since": _shows("half running for long", _LONG_AGO),
        "/selected-node": Pair("a claim", "n1"),
        "/selected-at": Pair("a claim that was given a node", _JUST_NOW),
        "/volume-binding-failed-at": Pair("a claim", _JUST_NOW),
        "/device-binding-failed-at": Pair("a device", _JUST_NOW),
        "/no-group": _shows("without its group", "Job default/v: spec.scheduling.x: unknown field"),
        "/job-plugins": Pair("alone", "ssh"),
        "/unread-fields": Pair("alone", "spec.failover"),
        "/caught": _writes("a lease with a note", "a lease without a note"),
        "/observed-revision": _writes("a defragmentation", "a cluster at rest"),
        "/family": _writes("definitions", "definitions of another family"),
        "/start-after": Pair("a life", "9s"),
        "/run-for": Pair("a life", "5s"),
        "/exit-code": Pair("a short life", "1"),
        "/stop-after": Pair("a life that is ended", "9s"),
        "/provision-after": Pair("a volume to be made", "9s"),
        "scheduling.k8s.io/group-name": Pair("beside its volcano group", "v"),
        "scheduling.volcano.sh/queue-name": Pair("beside a closed queue", "v"),
        "scheduling.volcano.sh/group-min-member": Pair("workload without room", "2"),
        "volcano.sh/queue-name": Pair("workload beside a closed queue", "v"),
        "volcano.sh/task-spec": Pair("a task of two", "worker"),
        "volcano.sh/task-index": Pair("first of its gang", "1"),
        "volcano.sh/partition-id": Pair("partitions", "0"),
        "volcano.sh/job-name": _writes("volcano job", "lone pod"),
        "volcano.sh/job-namespace": _writes("volcano job", "lone pod"),
        "volcano.sh/job-version": _writes("volcano job", "lone pod"),
        "volcano.sh/job-retry-count": _writes("volcano job", "lone pod"),
        "volcano.sh/template-uid": _writes("volcano job", "lone pod"),
        "volcano.sh/preemptable": Pair("evicted", "false"),
        "volcano.sh/cooldown-time": _shows("volcano job", "10m"),
        "volcano.sh/revocable-zone": _shows("volcano job", "*"),
        "volcano.sh/jdb-min-available": _shows("volcano job", "50%"),
        "volcano.sh/jdb-max-unavailable": _shows("volcano job", "1"),
        "volcano.sh/sla-waiting-time": Pair("due", "1s"),
        "sla-waiting-time": Pair("due", "1s"),
        "volcano.sh/hierarchy": Pair("queues in a tree", "root/one/v"),
        "volcano.sh/hierarchy-weights": Pair("queues of one weight", "1/1/4"),
        "volcano.sh/network-topology-mode": Pair("workload over two racks", "soft"),
        "volcano.sh/network-topology-highest-tier": Pair("workload anywhere", "1"),
        "volcano.sh/network-topology-highest-tier-allowed": Pair("workload anywhere", "1"),
        "volcano.sh/network-topology-source": _shows("a hypernode of nobody", "label"),
        "tierwise.io/amounts": Pair("rack called v", _NO_POWER),
        "volcano.sh/nodegroup-name": Pair("groups of nodes", "batch"),
        "pod-group.scheduling.sigs.k8s.io": Pair("beside its koordinator gang", "v"),
        "pod-group.scheduling.sigs.k8s.io/name": Pair("beside its koordinator gang", "v"),
        "scheduling.x-k8s.io/pod-group": Pair("beside its plugin group", "v"),
        f"{_GANG}/name": Pair("a gang by pods without a name", "v"),
        f"{_GANG}/min-available": Pair("a gang by pods without a minimum", "2"),
        f"{_GANG}/total-number": _shows("half running", "many"),
        f"{_GANG}/mode": _shows("half running", "Sometimes"),
        f"{_GANG}/match-policy": Pair("half running", "only-waiting"),
        f"{_GANG}/groups": Pair("partners", '["default/a","default/v"]'),
        f"{_GANG}/network-topology-spec": Pair("over two blocks", _GATHER),
        f"{_GANG}/networkTopologyAware": Pair("over two blocks", _GATHER),
        f"{_GANG}/network-topology-index": Pair("order in a gang", "0"),
        "scheduling.koordinator.sh/network-topology-selector": Pair("drawn to each other", "session-1"),
        "scheduling.koordinator.sh/questioned-object-key": Pair("owners", "team-c/x"),
        "scheduling.koordinator.sh/disable-preemptible": Pair("evicted", "true"),
        f"{_QUOTA}/name": Pair("beside a quota", "v"),
        f"{_QUOTA}/preemptible": Pair("evicted", "false"),
        f"{_QUOTA}/can-preempible": Pair("preemptor", "false"),
        f"{_QUOTA}/parent": Pair("a quota below", "root"),
        f"{_QUOTA}/is-parent": _shows("a quota with another below", "true"),
        f"{_QUOTA}/is-root": Pair("the root of no tree", "true"),
        f"{_QUOTA}/tree-id": Pair("a root without a tree", "gpu"),
        f"{_QUOTA}/ignore-default-tree": Pair("the root of a tree", "true"),
        f"{_QUOTA}/allow-lent-resource": Pair("an idle quota", "false"),
        f"{_QUOTA}/allow-force-update": _shows("too large children", "true"),
        f"{_QUOTA}/shared-weight": Pair("quotas that share", '{"nvidia.com/gpu":"10"}'),
        f"{_QUOTA}/namespaces": Pair("a quota for nobody", '["team-a"]'),
        f"{_QUOTA}/total-resource": Pair("a root without a total", '{"nvidia.com/gpu":"4"}'),
        f"{_QUOTA}/max-strict-check-resource-keys": _shows("a quota that shrank", '["nvidia.com/gpu"]'),
        f"{_QUOTA}/runtime": _writes("quotas that share", "a quota alone"),
        f"{_QUOTA}/request": _writes("quotas that share", "a quota alone"),
        f"{_QUOTA}/child-request": _writes("quotas that share", "a quota alone"),
        f"{_QUOTA}/guaranteed": _writes("quotas that share", "a quota alone"),
        f"{_QUOTA}/allocated": _writes("quotas that share", "a quota alone"),
        f"{_QUOTA}/non-preemptible-request": _writes("a quota with firm pods", "a quota alone"),
        f"{_QUOTA}/non-preemptible-used": _writes("a quota with firm pods", "a quota alone"),
        f"{_KUEUE}/queue-name": Pair("workload beside a held queue", "v"),
        f"{_KUEUE}/job-min-parallelism": Pair("queued job without room", "1"),
        f"{_KUEUE}/pod-group-name": Pair("kueue without a name", "v"),
        f"{_KUEUE}/pod-group-total-count": Pair("kueue without a count", "2"),
        f"{_KUEUE}/pod-group-pod-index": Pair("kueue slice by index", "0"),
        f"{_KUEUE}/pod-group-pod-index-label": Pair("kueue slice by own label", "example.com/place"),
        f"{_KUEUE}/podset": Pair("kueue without its set", "leader"),
        f"{_KUEUE}/podset-group-name": Pair("kueue sets", "all"),
        f"{_KUEUE}/podset-required-topology": Pair("kueue over two racks", _RACK),
        f"{_KUEUE}/podset-topology-spreading": Pair("kueue beside another", _SPREADING),
        f"{_KUEUE}/podset-preferred-topology": Pair("kueue nearer", _RACK),
        f"{_KUEUE}/podset-slice-required-topology": Pair("kueue slices without a level", _RACK),
        f"{_KUEUE}/podset-slice-size": Pair("kueue slices without a size", "1"),
        f"{_KUEUE}/podset-slice-required-topology-constraints": Pair(
            "kueue over two racks", f'[{{"topology":"{_RACK}","size":2}}]'
        ),
        f"{_KUEUE}/workload": Pair("beside its workload", "v"),
        f"{_KUEUE}/managed": Pair("kueue managed", "true"),
        "pod-group-name": Pair("beside its kai group", "v"),
        "kai.scheduler/queue": Pair("workload beside a closed queue", "v"),
        "kai.scheduler/subgroup-name": Pair("a kai sub group", "decode"),
        "kai.scheduler/last-start-timestamp": _writes("kai started", "kai waiting"),
        "grove.io/podgang": Pair("beside its podgang", "v"),
        "grove.io/podcliqueset-replica-index": Pair("beside its replica", "0"),
        "app.kubernetes.io/part-of": Pair("beside its set", "serve"),
        "grove.io/podclique": Pair("beside its podclique", "w"),
        "rbg.workloads.x-k8s.io/role-name": _shows("nodes too small", "decode"),
        "leaderworkerset.sigs.k8s.io/group-index": _shows("nodes too small", "1"),
        "leaderworkerset.sigs.k8s.io/worker-index": Pair("first of its gang", "1"),
        "training.kubeflow.org/replica-index": Pair("first of its gang", "1"),
        "jobset.sigs.k8s.io/job-index": Pair("a job of a set", "1"),
        "jobset.sigs.k8s.io/replicatedjob-name": _shows("nodes too small", "workers"),
        "jobset.sigs.k8s.io/replicatedjob-replicas": Pair("kueue without its replicas", "1"),
        "batch.kubernetes.io/job-completion-index": Pair("kueue slice by completion", "0"),
        "apps.kubernetes.io/pod-index": Pair("first of its gang", "1"),
    }.items()
}

"""One node: what it has, who runs there; and what all nodes say to the pods of a job that waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tierwise.actions.diagnosis.inspection import NodeInspection, PodInspector
from tierwise.api.codec import Raw
from tierwise.api.core import Taint
from tierwise.api.natural import natural
from tierwise.explain.board.pods import BoardPod
from tierwise.explain.board.tree import BoardTree
from tierwise.explain.ranges import compact
from tierwise.explain.text.schedule import Run
from tierwise.model.job import Job, Status
from tierwise.model.snapshot import Snapshot
from tierwise.scheduler import open_cycle

__all__ = ["node_page", "nodes_for_job", "pods_of_node"]

_MOST: Final = 200
"""Pods of one node that are listed."""

_BEST: Final = 20
_REASONS: Final = 12


def node_page(snapshot: Snapshot, tree: BoardTree, standing: Sequence[BoardPod], row: int) -> Raw:
    """Amounts of every shown resource, labels, taints, and the pods of jobs that stand there."""
    nodes = snapshot.nodes
    return {
        **tree.node(row),
        "labels": dict(sorted(nodes.labels.of(row).items())),
        "taints": [_taint(taint) for taint in nodes.taints[nodes.taint_set[row]]],
        **pods_of_node(standing),
    }


def pods_of_node(standing: Sequence[BoardPod]) -> Raw:
    """How many pods of jobs stand on a node, and the first."""
    pods = [{"pod": pod.task.key, "job": pod.job.key, "how": pod.how.value} for pod in standing[:_MOST]]
    return {"count": len(standing), "pods": pods}


def _taint(taint: Taint) -> str:
    """As kubectl writes it."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def nodes_for_job(run: Run, job: Job) -> Raw | None:
    """Which nodes would take a pod of the job as the cluster is now and how they score, and why the others would not.

    Asked of the first pod without a place, as `explain` asks of the pod that it is told; None where all have one.
    """
    pending = next((task for task in job.tasks if task.status is Status.PENDING), None)
    if pending is None:
        return None
    inspector = PodInspector(pending.key)
    inspector.inspect(open_cycle(run.after, run.profile), job)
    seen = inspector.inspection
    if seen is None:
        return None
    taking = sorted((n for n in seen.nodes if n.feasible), key=lambda n: (-n.total, natural(n.name)))
    plugins = [name for name in (taking[0].scores if taking else ()) if any(n.scores[name] for n in taking)]
    reasons: dict[str, list[str]] = {}
    for node in seen.nodes:
        if not node.feasible:
            reasons.setdefault("; ".join(node.reasons) or "no room", []).append(node.name)
    ranked = sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0]))
    return {
        "pod": pending.key,
        "count": len(seen.nodes),
        "taking": len(taking),
        "plugins": plugins,
        "best": [_scored(node, plugins) for node in taking[:_BEST]],
        "reasons": [
            {"reason": reason, "count": len(names), "nodes": compact(names, most=3), "first": names[0]}
            for reason, names in ranked[:_REASONS]
        ],
        "otherReasons": max(0, len(ranked) - _REASONS),
    }


def _scored(node: NodeInspection, plugins: Sequence[str]) -> Raw:
    return {"node": node.name, "total": round(node.total, 4), "scores": [round(node.scores[p], 4) for p in plugins]}

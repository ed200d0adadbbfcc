"""Simulated kubelets: the status of a pod on its node as time passes, written as real kubelets write it.

The status is a function of the pod and the time, and no other state is kept. So equal inputs give equal runs, and a run
can be resumed.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tierwise.api.codec import Raw
from tierwise.api.core import ContainerStateTerminated, ContainerStatus, Pod, parse_time
from tierwise.controllers.stamp import stamp
from tierwise.port import Effect, PatchStatus, RecordEvent, key_of
from tierwise.sim.cluster.pod_behaviour import PodBehaviour, PodSpeed, behaviour
from tierwise.sim.cluster.store import grace

__all__ = ["PodSync", "is_ready", "killed", "sync_pod"]

_OWN_TIMING: Final = PodSpeed()
_BACK_OFF: Final = 10
_LONGEST_BACK_OFF: Final = 300


class PodSync(msgspec.Struct, frozen=True):
    """Effects of a kubelet on a pod now, and the time of its next look (None: none by itself)."""

    effects: tuple[Effect, ...] = ()
    gone: bool = False
    wake: float | None = None


def sync_pod(pod: Pod, now: float, timing: PodSpeed = _OWN_TIMING) -> PodSync:
    """A pod on a living node, at a time."""
    pod_behaviour = behaviour(pod.metadata.annotations).timed(
        timing, ends=pod.spec.restart_policy in ("Never", "OnFailure")
    )
    if pod.metadata.deletion_timestamp:
        return _leaving(pod, pod_behaviour, now)
    if pod.status.ended:
        return PodSync()
    if pod.status.phase != "Running":
        return _starting(pod, pod_behaviour, now)
    return _running(pod, pod_behaviour, now)


def killed(pod: Pod, now: float, exit_code: int, reason: str = "") -> tuple[Effect, ...]:
    """The containers of a running pod end with a code: the pod with them, unless it restarts them."""
    state = _first(pod)
    since = state.state.running.started_at if state is not None and state.state.running is not None else ""
    reason = reason or ("Error" if exit_code else "Completed")
    ended: Raw = {"exitCode": exit_code, "reason": reason, "startedAt": since, "finishedAt": stamp(now)}
    if _restarts(pod, exit_code):
        text = f"exit code {exit_code} ({reason}); its containers start again"
        down: Raw = {"ready": False, "restartCount": _restarts_so_far(pod) + 1, "lastState": {"terminated": ended}}
        down["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
        return _written(pod, "Running", down, now), _event(pod, "Warning", "BackOff", text)
    phase = "Failed" if exit_code else "Succeeded"
    over: Raw = {"ready": False, "restartCount": _restarts_so_far(pod), "state": {"terminated": ended}}
    kind, word = ("Warning", "Failed") if exit_code else ("Normal", "Completed")
    return _written(pod, phase, over, now), _event(pod, kind, word, f"exit code {exit_code} ({reason})")


def is_ready(pod: Pod) -> bool:
    """Whether the kubelet says that its containers serve."""
    return any((condition.type, condition.status) == ("Ready", "True") for condition in pod.status.conditions)


def _leaving(pod: Pod, pod_behaviour: PodBehaviour, now: float) -> PodSync:
    """A container stops when it likes, and is stopped when its grace is over."""
    asked_at = parse_time(pod.metadata.deletion_timestamp) - grace(pod)
    stops = asked_at + min(pod_behaviour.stop, grace(pod))
    if pod.status.ended or now >= stops:
        return PodSync((_event(pod, "Normal", "Gone", f"stopped on node {pod.spec.node_name}"),), gone=True)
    return PodSync(wake=stops)


def _starting(pod: Pod, pod_behaviour: PodBehaviour, now: float) -> PodSync:
    since = pod.status.start_time
    if not since and pod_behaviour.start:
        waiting: Raw = {"ready": False, "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}
        patch = _written(pod, "Pending", waiting, now, startTime=stamp(now))
        return PodSync((patch,), wake=now + pod_behaviour.start)
    due = parse_time(since) + pod_behaviour.start if since else now
    if now < due:
        return PodSync(wake=due)
    started = _event(pod, "Normal", "Started", f"on node {pod.spec.node_name}")
    return PodSync((_up(pod, now, since or stamp(now)), started), wake=_end(pod_behaviour, now))


def _running(pod: Pod, pod_behaviour: PodBehaviour, now: float) -> PodSync:
    status = _first(pod)
    if status is None or (status.state.running is None and status.state.waiting is None):
        # Someone else says that it runs: what is left of its life is counted from now on.
        return PodSync((_up(pod, now, pod.status.start_time or stamp(now)),), wake=_end(pod_behaviour, now))
    if status.state.running is not None:
        end = _end(pod_behaviour, parse_time(status.state.running.started_at))
        if end is None or now < end:
            return PodSync(wake=end)
        return PodSync(killed(pod, now, pod_behaviour.exit_code), wake=now)
    terminated = status.last_state.terminated
    due = now if terminated is None else _back(terminated, status.restart_count)
    if now < due:
        return PodSync(wake=due)
    restart_event = _event(pod, "Normal", "Restarted", f"on node {pod.spec.node_name}, restart {status.restart_count}")
    return PodSync((_up(pod, now, pod.status.start_time), restart_event), wake=_end(pod_behaviour, now))


def _end(pod_behaviour: PodBehaviour, since: float) -> float | None:
    if pod_behaviour.run is None:
        return None
    return since + pod_behaviour.run


def _back(terminated: ContainerStateTerminated, restarts: int) -> float:
    """When a container that ended starts again: at once the first time, then after ever longer, up to five minutes."""
    pause = min(_BACK_OFF * 2 ** min(restarts - 2, 16), _LONGEST_BACK_OFF) if restarts > 1 else 0
    return parse_time(terminated.finished_at) + pause


def _restarts(pod: Pod, exit_code: int) -> bool:
    """By the pod's restart policy; a pod without one is not restarted."""
    policy = pod.spec.restart_policy
    return bool(pod.spec.containers) and (policy == "Always" or (policy == "OnFailure" and exit_code != 0))


def _first(pod: Pod) -> ContainerStatus | None:
    """All containers of a simulated pod are alike, so the first speaks for them."""
    return next(iter(pod.status.container_statuses), None)


def _restarts_so_far(pod: Pod) -> int:
    status = _first(pod)
    return status.restart_count if status is not None else 0


def _up(pod: Pod, now: float, since: str) -> Effect:
    status = _first(pod)
    container: Raw = {
        "ready": True,
        "restartCount": _restarts_so_far(pod),
        "state": {"running": {"startedAt": stamp(now)}},
    }
    if status is not None and status.last_state.terminated is not None:
        terminated = status.last_state.terminated
        shown = {"exitCode": terminated.exit_code, "reason": terminated.reason}
        container["lastState"] = {
            "terminated": shown | {"startedAt": terminated.started_at, "finishedAt": terminated.finished_at}
        }
    return _written(pod, "Running", container, now, startTime=since)


def _written(pod: Pod, phase: str, container: Raw, now: float, **fields: str) -> Effect:
    """The status of a pod in this phase, all of whose containers are in this state."""
    ready = "True" if container["ready"] else "False"
    conditions: list[Raw] = [
        {"type": kind, "status": ready, "lastTransitionTime": stamp(now)} for kind in ("Ready", "ContainersReady")
    ]
    statuses = [
        {"name": container_spec.name, "image": container_spec.image, "imageID": container_spec.image, **container}
        for container_spec in pod.spec.containers
    ]
    status: Raw = {"phase": phase, **fields, "conditions": conditions, "containerStatuses": statuses}
    return PatchStatus(key_of(pod), status)


def _event(pod: Pod, kind: str, reason: str, text: str) -> RecordEvent:
    return RecordEvent(key_of(pod), kind, reason, text)

"""Namespaces in which more pods wait than the profile lets wait: the jobs there that are not looked at for now.

Their first jobs are served as everywhere, whatever the size of the very first one. What is behind them costs no search
and no turn; it comes as those before it start, end or are taken away. So a cycle costs no more for a namespace that
piles up pods than for one that has as many as it may.
"""

from __future__ import annotations

from collections.abc import Iterable

from tierwise.api.limits import TOO_MANY_WAITING
from tierwise.model.job import Job, Reason, namespace_of

__all__ = ["crowded"]


def crowded(waiting: Iterable[Job], max_pods: int) -> dict[str, Reason]:
    """By key, why jobs are not looked at: `max_pods` pods of their namespace wait before them. 0 for no such number.

    Who stands in part comes first, then who is more important, then who is older.
    """
    if not max_pods:
        return {}
    numbers: dict[str, int] = {}
    jobs = [(job, namespace_of(job.key), _pending(job)) for job in waiting if job.refusal is None]
    for _, namespace, pods in jobs:
        numbers[namespace] = numbers.get(namespace, 0) + pods
    full = {namespace for namespace, pods in numbers.items() if pods > max_pods}
    reasons: dict[str, Reason] = {}
    before = dict.fromkeys(full, 0)
    inside = [entry for entry in jobs if entry[1] in full]
    for job, namespace, pods in sorted(inside, key=lambda entry: _turn(entry[0])):
        if before[namespace] >= max_pods:
            reasons[job.key] = _reason(namespace, numbers[namespace], max_pods)
        before[namespace] += pods
    return reasons


def _pending(job: Job) -> int:
    return sum([sub.pending for sub in job.subs]) + sum([len(pod_set.tasks) for _, pod_set in job.best_effort_pod_sets])


def _turn(job: Job) -> tuple[object, ...]:
    return not any(sub.ready for sub in job.subs), -job.priority, job.created, job.number


def _reason(namespace: str, pods: int, max_pods: int) -> Reason:
    text = f"{pods} pods of namespace {namespace} wait, and the first {max_pods} of them are looked at (maxWaitingPods)"
    return Reason(TOO_MANY_WAITING, "namespace", text)

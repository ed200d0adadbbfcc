"""The questions of the API: one row for each, with its path, its answer and what it is for.

Routes, the published schema, the command line and the tools for agents follow from this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from tierwise.explain.tenant import (
    ANSWER_VERSION,
    DryRunAnswer,
    FitsAnswer,
    HelpAnswer,
    HistoryAnswer,
    JobAnswer,
    JobsAnswer,
    PositionAnswer,
    QueuesAnswer,
    StartAnswer,
)

__all__ = ["QUESTIONS", "TenantQuestion"]

_NAMESPACE: Final = f"/{ANSWER_VERSION}/namespaces/{{namespace}}"
_JOB: Final = f"{_NAMESPACE}/jobs/{{job}}"


class TenantQuestion(msgspec.Struct, frozen=True):
    """One question: its name, how it is asked over HTTP, the record of its answer, and what it is for."""

    name: str
    path: str
    answer: type[msgspec.Struct]
    summary: str
    method: str = "GET"
    query: Mapping[str, str] = {}
    is_costly: bool = False  # worked out for the one who asks, and limited more tightly


QUESTIONS: Final = (
    TenantQuestion(
        "jobs",
        f"{_NAMESPACE}/jobs",
        JobsAnswer,
        "List the jobs of a namespace, how they stand, and why they wait.",
        query={
            "offset": "So many jobs are passed over.",
            "limit": "So many jobs at most; 100 by default, 500 at most.",
        },
    ),
    TenantQuestion("why", _JOB, JobAnswer, "Say how a job stands, and why it waits."),
    TenantQuestion(
        "why-pod", f"{_NAMESPACE}/pods/{{pod}}", JobAnswer, "Say how the job of a pod stands, and why it waits."
    ),
    TenantQuestion("start", f"{_JOB}/start", StartAnswer, "Say when a waiting job is expected to start."),
    TenantQuestion("position", f"{_JOB}/position", PositionAnswer, "Say which place a waiting job has in its queue."),
    TenantQuestion("help", f"{_JOB}/help", HelpAnswer, "Say what would start a waiting job now.", is_costly=True),
    TenantQuestion("history", f"{_JOB}/history", HistoryAnswer, "Say what happened to a job so far."),
    TenantQuestion("queues", f"{_NAMESPACE}/queues", QueuesAnswer, "List the queues of a namespace's jobs."),
    TenantQuestion(
        "fits",
        f"{_NAMESPACE}/fits",
        FitsAnswer,
        "Say how many gangs of which size would find room now, tier by tier.",
        query={"size": "Only for gangs of so many accelerators (or cores), or the next size that is told."},
    ),
    TenantQuestion(
        "dry-run",
        f"{_NAMESPACE}/dry-run",
        DryRunAnswer,
        "Say what would become of new manifests, without applying them.",
        method="POST",
        is_costly=True,
    ),
)
"""All questions that users of one namespace can ask."""

"""The containers of a job with a pattern are told their place in it: the downward API reads what the binding wrote."""

from __future__ import annotations

from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.pattern import COORDINATES, PATTERN, RANK
from tierwise.api.volcano import Job
from tierwise.controllers.job.containers import with_environment

__all__ = ["furnish"]

_VARIABLES: Final = {"TIERWISE_RANK": RANK, "TIERWISE_COORDINATES": COORDINATES}


def furnish(spec: Raw, job: Job) -> Raw:
    """A pod's spec with the variable, where its job declares a pattern; `worker` adds those that all jobs have."""
    if PATTERN not in job.metadata.annotations:
        return spec
    path = f"metadata.annotations['{COORDINATES}']"
    return with_environment(spec, [{"name": _VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": path}}}])

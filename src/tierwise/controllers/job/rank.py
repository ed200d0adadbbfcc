"""The containers of a job with a pattern are told their rank, by the downward API: it is written with the node."""

from __future__ import annotations

from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.pattern import COORDINATES, PATTERN, RANK
from tierwise.api.volcano import Job
from tierwise.controllers.job.containers import with_environment

__all__ = ["furnish"]

_VARIABLES: Final = {"TIERWISE_RANK": RANK, "TIERWISE_COORDINATES": COORDINATES}


def furnish(spec: Raw, job: Job) -> Raw:
    """A pod's spec with the variables, where its job declares a pattern."""
    if PATTERN not in job.metadata.annotations:
        return spec
    return with_environment(spec, [_variable(name, annotation) for name, annotation in _VARIABLES.items()])


def _variable(name: str, annotation: str) -> Raw:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}}}

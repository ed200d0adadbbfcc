"""Nothing stands that was not understood: no pod that tierwise bound names what it cannot honour."""

from __future__ import annotations

from collections.abc import Iterator

from tierwise.api.core import Pod
from tierwise.api.unsupported import unsupported
from tierwise.audit.pods import Finding, stands
from tierwise.port import HYPERNODE_ANNOTATION, PATH_ANNOTATION, Objects

__all__ = ["support"]


def support(objects: Objects) -> Iterator[Finding]:
    """Pods of the scheduler tierwise, or with its marks, that should still wait."""
    for path, pod in objects.every(Pod).items():
        marks = pod.metadata.annotations
        ours = pod.spec.scheduler_name == "tierwise" or HYPERNODE_ANNOTATION in marks or PATH_ANNOTATION in marks
        found = unsupported(pod) if ours and pod.spec.node_name and stands(pod) else None
        if found is not None:
            yield Finding("not-supported", f"Pod {path}", f"was bound although {found}")

"""The pods of a cluster as they come, go and move, and the templates that they follow."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from tierwise.api.core import Pod
from tierwise.api.pattern import COORDINATES, RANK, RANKS
from tierwise.dialects.elastic_quota import firm
from tierwise.dialects.kubernetes.requests import counted
from tierwise.port import HYPERNODE_ANNOTATION, PATH_ANNOTATION
from tierwise.snapshot.devices import has_extended
from tierwise.snapshot.templates import Template, Templates

__all__ = ["FollowedPods", "PodFollower"]

_TOLD = frozenset((HYPERNODE_ANNOTATION, PATH_ANNOTATION, RANK, RANKS, COORDINATES))
"""What a bind writes on its pod."""


class PodFollower:
    """All pods with their templates."""

    def __init__(self) -> None:
        self.templates = Templates()
        self.pods: dict[str, tuple[Pod, Template]] = {}
        self.firm = 0  # how many of them are non-preemptible
        self.claiming: set[str] = set()  # those that have claims of devices

    def follow(self, latest: Mapping[str, Pod | None], served: Mapping[str, str]) -> FollowedPods:
        """Take note of pods that have come, gone or become others.

        A pod with claims is read again whatever becomes of it: what it asks of devices depends on its state as well.
        `served` are the resources that classes of devices serve.
        """
        followed = FollowedPods(self, {}, {}, set())
        pods = self.pods
        claiming = self.claiming
        moved = followed.moved
        for path, pod in latest.items():
            before = pods.get(path)
            claims = pod is not None and _has_claims(pod, served)
            if (
                before is not None
                and pod is not None
                and not claims
                and path not in claiming
                and _alike(before[0], pod)
            ):
                template = before[1]
                if pod.spec.node_name and not before[0].spec.node_name:
                    template = followed.placed[path] = self.templates.join(pod)
                    self.templates.leave(before[1])
                pods[path] = pod, template
                moved[path] = pod
                continue
            followed.changed.add(path)
            (claiming.add if claims else claiming.discard)(path)
            if before is not None:
                self.templates.leave(before[1])
                self.firm -= firm(before[0].metadata)
                del pods[path]
            if pod is not None:
                pods[path] = pod, self.templates.join(pod)
                self.firm += firm(pod.metadata)
        return followed


class FollowedPods(msgspec.Struct, eq=False):
    """All pods, and what has become of some since the reading before."""

    of: PodFollower
    moved: dict[str, Pod]  # to another node or state alone, as most do all their life
    placed: dict[str, Template]  # those of them that have got a node, by the template that they follow since
    changed: set[str]  # all others, which are read again


def _alike(before: Pod, pod: Pod) -> bool:
    """Whether all that is read of a pod is as it was, but for its node and its state.

    With its node it is told where that is, and its rank: jobs with ranks are built again when a pod of theirs moves.
    """
    old = before.metadata
    new = pod.metadata
    spec = counted(pod)
    spec_before = counted(before)
    if spec_before != spec:
        if spec_before.node_name and not spec.node_name:
            return False  # it was read without its rules about nodes
        if replace(spec_before, node_name=spec.node_name, scheduling_gates=spec.scheduling_gates) != spec:
            return False
    if old.annotations != new.annotations:
        placed = spec.node_name and not spec_before.node_name
        if not placed or _untold(old.annotations) != _untold(new.annotations):
            return False
    return (
        old.labels == new.labels
        and old.creation_timestamp == new.creation_timestamp
        and old.owner_references == new.owner_references
    )


def _untold(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations but for what comes with a node."""
    return {key: value for key, value in annotations.items() if key not in _TOLD}


def _has_claims(pod: Pod, served: Mapping[str, str]) -> bool:
    """Whether a pod has claims for devices: of its own, or for extended resources that device classes serve."""
    if pod.spec.resource_claims or pod.status.extended_resource_claim_status:
        return True
    return bool(served) and has_extended(pod, served)

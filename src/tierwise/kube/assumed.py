"""What was accepted, or may have been, before the watch has shown it: pods that were bound, pods that were evicted.

A node name never changes once it is set, and a pod that is leaving never stays. So a pod of the same uid that is shown
without them is shown as it was earlier, and the assumption stands; it ends when the pod is shown as assumed, under
another uid, or not at all. A bind whose outcome nobody knows is assumed as well, until it has been looked up.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from tierwise.api.core import Pod
from tierwise.port import Key

__all__ = ["Assumed"]


class _Assumption(msgspec.Struct):
    seen: Pod  # as the server last showed it
    node: str = ""
    leaving: str = ""  # since when; "" for a pod that stays
    marks: Mapping[str, str] = {}  # annotations that come with the node

    def shown(self, pod: Pod) -> bool:
        """Whether the server shows what was assumed."""
        bound = not self.node or bool(pod.spec.node_name)
        return bound and (not self.leaving or bool(pod.metadata.deletion_timestamp))

    def over(self, pod: Pod) -> Pod:
        """The pod as it is to be read; what was nominated for one with a node no longer matters."""
        if self.node and not pod.spec.node_name:
            spec, status = replace(pod.spec, node_name=self.node), replace(pod.status, nominated_node_name="")
            marked = replace(pod.metadata, annotations={**pod.metadata.annotations, **self.marks})
            pod = replace(pod, metadata=marked, spec=spec, status=status)
        if self.leaving and not pod.metadata.deletion_timestamp:
            pod = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=self.leaving))
        return pod


class Assumed:
    """What lies over the pods that the watch has shown. Not safe for threads: the store locks."""

    def __init__(self) -> None:
        self._all: dict[Key, _Assumption] = {}

    def __len__(self) -> int:
        return len(self._all)

    def begin(self, key: Key, pod: Pod, *, node: str, leaving: str, marks: Mapping[str, str]) -> Pod:
        """Assume a pod to be on a node, or on its way out; the pod as it is to be read."""
        assumption = self._all.setdefault(key, _Assumption(pod))
        assumption.node, assumption.leaving = node or assumption.node, leaving or assumption.leaving
        assumption.marks = marks or assumption.marks
        return self.over(key, assumption.seen)

    def over(self, key: Key, shown: Pod) -> Pod:
        """A pod that the server shows, as it is to be read."""
        assumption = self._all.get(key)
        if assumption is None:
            return shown
        if shown.metadata.uid != assumption.seen.metadata.uid or assumption.shown(shown):
            del self._all[key]
            return shown
        assumption.seen = shown
        return assumption.over(shown)

    def end(self, key: Key) -> Pod | None:
        """Assume nothing any more; the pod as it was last shown, None where nothing was assumed."""
        assumption = self._all.pop(key, None)
        return assumption.seen if assumption is not None else None

"""What lies over the objects that the watch has shown: our own writes, from the moment at which they are begun.

A cycle decides while writes of earlier ones have no answer yet, so it must read their results: pods that are being
bound, evicted or nominated are read so, and claims that are being written are read as they will be. Where a write
fails, the object is read again as the server shows it.

Nothing here is safe for threads: the store locks.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Literal

import msgspec
from msgspec.structs import replace

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.merge_patch import merged
from tierwise.kube.decoding import Entry
from tierwise.port import Key

__all__ = ["Aspect", "AssumedPatches", "AssumedPods"]


# Pods that are bound, evicted or nominated.
#
# A node name never changes once it is set, and a pod that is leaving never stays. So a pod of the same uid that is
# shown without them is shown as it was earlier, and the assumption holds; it ends when the pod is shown as assumed,
# under another uid, or not at all. A bind whose outcome is not known is assumed as well, until it has been looked up.
# A nomination may change: it is assumed until its own write has ended.


Aspect = Literal["node", "leaving", "nominated"]
"""What may be assumed of a pod, each by itself."""


class _Assumption(msgspec.Struct):
    seen: Pod  # as the server last showed it
    node: str = ""
    leaving: str = ""  # since when; "" for a pod that stays
    marks: Mapping[str, str] = {}  # annotations that come with the node
    nominated: str | None = None  # the node; "" for a nomination that is taken back, None where nothing is assumed
    nominations: int = 0  # that are under way

    @property
    def empty(self) -> bool:
        return not self.node and not self.leaving and self.nominated is None

    def shown(self, pod: Pod) -> bool:
        """Whether the server shows what was assumed."""
        bound = not self.node or bool(pod.spec.node_name)
        leaves = not self.leaving or bool(pod.metadata.deletion_timestamp)
        return bound and leaves and self.nominated is None

    def over(self, pod: Pod) -> Pod:
        """The pod as it is to be read; what was nominated for one with a node no longer matters."""
        if self.nominated is not None and not pod.spec.node_name:
            pod = replace(pod, status=replace(pod.status, nominated_node_name=self.nominated))
        if self.node and not pod.spec.node_name:
            spec = replace(pod.spec, node_name=self.node)
            status = replace(pod.status, nominated_node_name="")
            marked = replace(pod.metadata, annotations={**pod.metadata.annotations, **self.marks})
            pod = replace(pod, metadata=marked, spec=spec, status=status)
        if self.leaving and not pod.metadata.deletion_timestamp:
            pod = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=self.leaving))
        return pod


class AssumedPods:
    """Changes of pods that are assumed until the server confirms them."""

    def __init__(self) -> None:
        self._all: dict[Key, _Assumption] = {}

    def __len__(self) -> int:
        return len(self._all)

    def begin(self, key: Key, pod: Pod, *, node: str, leaving: str, marks: Mapping[str, str]) -> Pod:
        """Assume a pod to be on a node, or on its way out; the pod as it is to be read."""
        assumption = self._all.setdefault(key, _Assumption(pod))
        assumption.node = node or assumption.node
        assumption.leaving = leaving or assumption.leaving
        assumption.marks = marks or assumption.marks
        return self.over(key, assumption.seen)

    def nominate(self, key: Key, pod: Pod, node: str) -> Pod:
        """Assume a pod to be nominated for a node, or for none ("") any more; the pod as it is to be read."""
        assumption = self._all.setdefault(key, _Assumption(pod))
        assumption.nominated = node
        assumption.nominations += 1
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

    def end(self, key: Key, aspect: Aspect) -> Pod | None:
        """Assume this of the pod no more; the pod as it is to be read, None where that stays as it is.

        A nomination is assumed until as many have ended as were begun, since the last of them counts.
        """
        assumption = self._all.get(key)
        if assumption is None:
            return None
        if aspect == "nominated":
            assumption.nominations -= 1
            if assumption.nominations:
                return None
            assumption.nominated = None
        elif aspect == "leaving":
            assumption.leaving = ""
        else:
            assumption.node = ""
            assumption.marks = {}
        if assumption.empty:
            del self._all[key]
        return self.over(key, assumption.seen)

    def drop(self, key: Key) -> None:
        """The pod is gone, and with it all that was assumed of it."""
        self._all.pop(key, None)


# Other objects that are being written: claims of volumes and devices, and volumes.


class _Patched(msgspec.Struct):
    seen: Entry | None  # as the server last showed it; None where the object is only being made
    patches: dict[int, Raw] = {}  # that are under way, the oldest first

    def read(self) -> Entry | None:
        """The object as it is to be read; None for one that does not exist."""
        raw = self.seen[1] if self.seen is not None else {}
        if raw is None or not self.patches:
            return self.seen
        for patch in self.patches.values():
            raw = merged(raw, patch)
        return codec.decode(raw), raw


class AssumedPatches:
    """Patches that are under way, over the objects that they are about. An object without a manifest takes none."""

    def __init__(self) -> None:
        self._all: dict[Key, _Patched] = {}
        self._numbers = count(1)

    def begin(self, key: Key, entry: Entry | None, patch: Raw) -> tuple[int, Entry | None]:
        """Assume a patch to be done; its number, and the object as it is to be read. `entry` is what is read now."""
        patched = self._all.get(key)
        if patched is None:
            patched = self._all[key] = _Patched(entry)
        number = next(self._numbers)
        patched.patches[number] = patch
        return number, patched.read()

    def over(self, key: Key, entry: Entry) -> Entry:
        """An object that the server shows, as it is to be read."""
        patched = self._all.get(key)
        if patched is None:
            return entry
        patched.seen = entry
        return patched.read() or entry

    def end(self, key: Key, number: int) -> tuple[bool, Entry | None]:
        """Assume a patch no more: whether it was assumed, and the object as it is to be read, None where it is gone."""
        patched = self._all.get(key)
        if patched is None or patched.patches.pop(number, None) is None:
            return False, None
        if not patched.patches:
            del self._all[key]
        return True, patched.read()

    def drop(self, key: Key) -> None:
        """The object is gone, and with it all that was assumed of it."""
        self._all.pop(key, None)

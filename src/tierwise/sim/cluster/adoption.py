"""Which controller looks after a pod or ReplicaSet: Kubernetes' controllers adopt and release by their selectors.

What nobody controls is adopted by the workload whose selector matches its labels, as after `kubectl delete
--cascade=orphan` and a second `kubectl apply`. What no longer matches, because somebody changed its labels, is
released: it stays as it is, and the workload makes another in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from tierwise.api.codec import Object, Raw
from tierwise.api.core import LabelSelector, Pod
from tierwise.api.selector import matches, selects_nothing
from tierwise.dialects.workloads.children import Owner, controller_of, reference
from tierwise.dialects.workloads.fields import Fields
from tierwise.port import Key, Objects, Update, key_of

__all__ = ["adoptions"]

_BELOW: Final[Mapping[tuple[str, str], tuple[str, str]]] = {
    ("apps", "Deployment"): ("apps", "ReplicaSet"),
    ("apps", "ReplicaSet"): ("", "Pod"),
    ("", "ReplicationController"): ("", "Pod"),
    ("apps", "StatefulSet"): ("", "Pod"),
    ("apps", "DaemonSet"): ("", "Pod"),
}
"""What each kind of workload may adopt."""


def adoptions(objects: Objects) -> Iterator[Update]:
    """Pods and ReplicaSets with another owner than before: a workload whose selector matches, or none."""
    strays: dict[tuple[str, str], _Strays] = {}
    for kind, below in _BELOW.items():
        for path, record in objects.of_kind(*kind).items():
            if record.metadata.deletion_timestamp:
                continue
            raw = objects.raw(Key(*kind, *path.rpartition("/")[::2]))
            selector = _selector(raw) if raw is not None else None
            if raw is None or selector is None or selects_nothing(selector):
                continue
            if below not in strays:
                strays[below] = _Strays.of(objects, below)
            owner = Owner(raw)
            free = strays[below]
            yield from _released(objects, owner, selector, free)
            yield from _adopted(objects, owner, selector, free)


class _Strays(msgspec.Struct):
    """Objects of one kind without a controller, and those that each workload controls."""

    free: dict[tuple[str, str, str], list[Object]]
    """By namespace and one label, so that a selector looks at few of them; all of a namespace under an empty label."""
    owned: dict[tuple[str, str, str], list[Object]]
    """By kind, namespace and name of the workload."""
    taken: set[Key]

    @classmethod
    def of(cls, objects: Objects, kind: tuple[str, str]) -> _Strays:
        adoption = cls({}, {}, set())
        for record in objects.of_kind(*kind).values():
            meta = record.metadata
            namespace = meta.namespace or "default"
            if meta.deletion_timestamp or (isinstance(record, Pod) and record.status.ended):
                continue
            controller = controller_of(meta)
            if controller is not None:
                adoption.owned.setdefault((controller.kind, namespace, controller.name), []).append(record)
                continue
            for key, value in (("", ""), *meta.labels.items()):
                adoption.free.setdefault((namespace, key, value), []).append(record)
        return adoption


def _released(objects: Objects, owner: Owner, selector: LabelSelector, strays: _Strays) -> Iterator[Update]:
    """Updates that remove the workload from the owners of objects that its selector no longer matches."""
    for record in strays.owned.get((owner.kind, owner.namespace, owner.name), ()):
        controller = controller_of(record.metadata)
        is_controller = controller is not None and controller.uid in ("", owner.uid)
        if is_controller and not matches(selector, record.metadata.labels):
            yield from _with_owners(objects, record, lambda reference: reference.get("uid") != owner.uid)


def _adopted(objects: Objects, owner: Owner, selector: LabelSelector, strays: _Strays) -> Iterator[Update]:
    """Updates that make the workload own unowned objects that its selector matches."""
    label = next(iter(selector.match_labels.items()), ("", ""))
    for record in strays.free.get((owner.namespace, *label), ()):
        key = key_of(record)
        if key in strays.taken or not matches(selector, record.metadata.labels) or not _fits(owner, record):
            continue
        strays.taken.add(key)
        yield from _with_owners(objects, record, lambda reference: True, reference(owner))


def _fits(owner: Owner, record: Object) -> bool:
    """Whether a name is one that the workload would give: a StatefulSet's pods are numbered."""
    if owner.kind != "StatefulSet":
        return True
    stem, _, number = record.metadata.name.rpartition("-")
    return stem == owner.name and number.isdecimal()


def _with_owners(objects: Objects, record: Object, stays: Callable[[Raw], bool], *added: Raw) -> Iterator[Update]:
    """The object with those of its owners that stay, and with more."""
    raw = objects.raw(key_of(record))
    if raw is not None:
        meta = Fields(raw).at("metadata")
        owners = [*(reference.raw for reference in meta.each("ownerReferences") if stays(reference.raw)), *added]
        yield Update(key_of(record), {**raw, "metadata": {**meta.raw, "ownerReferences": owners}})


def _selector(raw: Raw) -> LabelSelector | None:
    """The selector of a workload; a ReplicationController's is a plain map. None where it cannot be read."""
    spec = raw.get("spec")
    raw_selector = spec.get("selector") if isinstance(spec, dict) else None
    if raw.get("kind") == "ReplicationController":
        raw_selector = {"matchLabels": raw_selector}
    try:
        return msgspec.convert(raw_selector, LabelSelector)
    except msgspec.ValidationError:
        return None  # `workloads` says what is wrong with it

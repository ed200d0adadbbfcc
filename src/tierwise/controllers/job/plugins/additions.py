"""An object that a job plugin wants beside the pods of its job."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from tierwise.api.codec import Raw

__all__ = ["OwnedObject", "with_environment", "with_volume"]


# Additions to the containers of a pod that is about to be made; init containers get the same.


def with_environment(spec: Raw, variables: Sequence[Raw]) -> Raw:
    """A pod's spec with further variables; one that a container sets itself is left as it is."""

    def extended(container: Raw) -> Raw:
        own = _listed(container, "env")
        names = {entry.get("name") for entry in own}
        return {**container, "env": [*own, *(entry for entry in variables if entry["name"] not in names)]}

    return _each(spec, extended)


def with_volume(spec: Raw, volume: Raw, path: str) -> Raw:
    """A pod's spec with a further volume, mounted at a path."""

    def extended(container: Raw) -> Raw:
        mount: Raw = {"name": volume["name"], "mountPath": path}
        return {**container, "volumeMounts": [*_listed(container, "volumeMounts"), mount]}

    return _each({**spec, "volumes": [*_listed(spec, "volumes"), volume]}, extended)


def _each(spec: Raw, change: Callable[[Raw], Raw]) -> Raw:
    kinds = {field: [change(c) for c in _listed(spec, field)] for field in ("initContainers", "containers")}
    return {**spec, **{field: changed for field, changed in kinds.items() if changed}}


def _listed(raw: Raw, field: str) -> list[Raw]:
    found = raw.get(field)
    return found if isinstance(found, list) else []


class OwnedObject(msgspec.Struct, frozen=True):
    """A manifest, and which of its fields follow the job for as long as it lives."""

    raw: Raw
    follows: tuple[str, ...] = ()

"""Objects of the API that are made here, as the API writes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["Manifest", "manifest", "members"]

Manifest = dict[str, Any]


def manifest(
    version: str,
    kind: str,
    name: str,
    namespace: str = "",
    *,
    labels: object = None,
    marks: object = None,
    **body: object,
) -> Manifest:
    """An object; `marks` are its annotations."""
    meta = {"name": name, "namespace": namespace, "labels": labels, "annotations": marks}
    stated = {key: value for key, value in meta.items() if value}
    return {"apiVersion": version, "kind": kind, "metadata": stated, **body}


def members(kind: str, names: Iterable[str]) -> list[Manifest]:
    """Members of a hyperNode by their names; the kind is Node or HyperNode."""
    return [{"type": kind, "selector": {"exactMatch": {"name": name}}} for name in names]

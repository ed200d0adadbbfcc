"""Objects of the API that are made here, as the API writes them."""

from __future__ import annotations

from typing import Any

__all__ = ["Manifest", "manifest"]

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
    given = {key: value for key, value in meta.items() if value}
    return {"apiVersion": version, "kind": kind, "metadata": given, **body}

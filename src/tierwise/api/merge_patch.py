"""Merge patches of manifests, as an API server applies them."""

from __future__ import annotations

from tierwise.api.codec import Raw

__all__ = ["merged"]


def merged(raw: Raw, patch: Raw) -> Raw:
    """A merge patch: mappings merge, None removes, anything else replaces; empty mappings add nothing.

    Mappings in which nothing becomes another text stay the same objects, so that they need not be decoded again.
    """
    changes: Raw = {}
    for key, value in patch.items():
        current = raw.get(key)
        if value is None:
            if key in raw:
                changes[key] = None
        elif isinstance(value, dict):
            inner = merged(current if isinstance(current, dict) else {}, value)
            if inner is not current and (inner or key in raw):
                changes[key] = inner
        elif not isinstance(value, str) or current != value:
            changes[key] = value
    if not changes:
        return raw
    return {key: value for key, value in {**raw, **changes}.items() if value is not None or key not in patch}

"""Templates of pods that a workload changes: with further marks, patches of its own, and a domain for itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.merge_keys import merge_key
from tierwise.dialects.workloads.fields import Fields

__all__ = ["has_directives", "in_own_domain", "patched", "with_marks"]

_MARK: Final = "$"


def with_marks(
    template: Raw, labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None
) -> Raw:
    """A template whose pods have these marks, too; they come before those of the same name."""
    meta = Fields(template).at("metadata")
    added = {"labels": labels or {}, "annotations": annotations or {}}
    marks = {field: {**meta.texts(field), **values} for field, values in added.items()}
    return {**template, "metadata": {**meta.raw, **marks}}


def patched(raw: Raw, patch: Raw) -> Raw:
    """A strategic merge patch without directives: maps merge, null removes, and items of lists merge by their key."""
    result = dict(raw)
    for name, value in patch.items():
        current = result.get(name)
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = patched(current if isinstance(current, dict) else {}, value)
        elif isinstance(value, list):
            result[name] = _merged(name, current if isinstance(current, list) else [], value)
        else:
            result[name] = value
    return result


def _merged(field: str, current: list[object], patch: list[object]) -> list[object]:
    key = merge_key(field, [*current, *patch])
    if not key or any(not isinstance(item, dict) for item in (*current, *patch)):
        return patch
    by_name: dict[str, Raw] = {}
    for item in (*current, *patch):
        assert isinstance(item, dict)
        place = str(item.get(key))
        by_name[place] = patched(by_name.get(place, {}), item)
    return list(by_name.values())


def has_directives(patch: object) -> bool:
    """Whether a patch says more than what is merged, such as that a container is replaced."""
    if isinstance(patch, list):
        return any(map(has_directives, patch))
    return isinstance(patch, dict) and any(
        str(name).startswith(_MARK) or has_directives(inner) for name, inner in patch.items()
    )


def in_own_domain(raw: Raw, label: str, value: str, topology: str) -> Raw:
    """A pod's spec that keeps pods of one value of a label in a domain, and those of others out of it."""
    affinity = Fields(raw).at("affinity")
    same_group = {"matchExpressions": [{"key": label, "operator": "In", "values": [value]}]}
    other_groups = [{"key": label, "operator": "Exists"}, {"key": label, "operator": "NotIn", "values": [value]}]
    added = {"podAffinity": same_group, "podAntiAffinity": {"matchExpressions": other_groups}}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms: Raw = {}
    for field, selector in added.items():
        terms_before = affinity.at(field)
        term = {"labelSelector": selector, "topologyKey": topology}
        terms[field] = {**terms_before.raw, required: [*(entry.raw for entry in terms_before.each(required)), term]}
    return {**raw, "affinity": {**affinity.raw, **terms}}

"""What a conformance case expects of a command's answer; FORMAT.md of the cases describes every key.

`faults` lists what is wrong, so that a failing test shows everything at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tierwise.api.natural import natural

__all__ = ["faults"]

Answer = Mapping[str, Any]
Check = Callable[[Any, Answer], Iterator[str]]


def faults(verb: str, expected: Mapping[str, Any], answer: Answer) -> list[str]:
    """Every expectation that the answer misses, in words."""
    checks = _CHECKS[verb]
    return [f"{key}: {fault}" for key, wanted in expected.items() for fault in checks[key](wanted, answer)]


def _same(wanted: object, got: object) -> Iterator[str]:
    if wanted != got:
        yield f"got {got!r}, wanted {wanted!r}"


def _matches(pattern: str, text: str) -> Iterator[str]:
    if re.search(pattern, text) is None:
        yield f"{text!r} lacks /{pattern}/"


def _close(wanted: float, got: float | None) -> bool:
    return got is not None and abs(got - wanted) <= 1e-6 * max(1.0, abs(wanted))


def _placed(field: str) -> dict[str, Check]:
    """The checks of a map from pods to nodes: what was bound, or nominated."""

    def exactly(wanted: Any, answer: Answer) -> Iterator[str]:
        yield from _same(wanted or {}, answer[field])

    def include(wanted: Any, answer: Answer) -> Iterator[str]:
        yield from _same(wanted, {pod: answer[field].get(pod) for pod in wanted})

    def count(wanted: Any, answer: Answer) -> Iterator[str]:
        yield from _same(wanted, len(answer[field]))

    def within(wanted: Any, answer: Answer) -> Iterator[str]:
        for entry in wanted:
            used = {answer[field][pod] for pod in entry["pods"] if pod in answer[field]}
            if not any(used <= set(nodes) for nodes in entry["oneOf"]):
                yield f"{sorted(used)} lie in none of {entry['oneOf']}"

    word = {"bindings": "bound", "nominations": "nominated"}[field]
    return {field: exactly, f"{field}Include": include, f"{word}Count": count, f"{word}Within": within}


def _bound_pods(wanted: Any, answer: Answer) -> Iterator[str]:
    yield from _same(sorted(wanted), sorted(answer["bindings"]))


def _bound_apart(wanted: Any, answer: Answer) -> Iterator[str]:
    for entry in wanted:
        seen: set[str] = set()
        for group in entry["groups"]:
            used = {answer["bindings"][pod] for pod in group if pod in answer["bindings"]}
            if used & seen:
                yield f"{sorted(used & seen)} used by two groups"
            seen |= used


def _evicted(answer: Answer) -> list[str]:
    return sorted(entry["pod"] for entry in answer["evictions"])


def _pending(field: str, *, whole: bool = False) -> Check:
    """What is said of pods that wait; `whole` has the pattern match all of it."""

    def check(wanted: Any, answer: Answer) -> Iterator[str]:
        said = {entry["pod"]: entry[field] for entry in answer["pending"]}
        for pod, pattern in wanted.items():
            yield from _matches(f"^(?:{pattern})$" if whole else pattern, said.get(pod, ""))

    return check


def _pending_groups(wanted: Any, answer: Answer) -> Iterator[str]:
    for group, pattern in wanted.items():
        said = " ".join(entry["message"] for entry in answer["pending"] if entry["podGroup"] == group)
        yield from _matches(pattern, said)


def _waiting(answer: Answer) -> list[str]:
    return sorted(entry["pod"] for entry in answer["pending"] if entry["pod"])


def _pod_groups(wanted: Any, answer: Answer) -> Iterator[str]:
    for name, fields in wanted.items():
        shown = answer["podGroups"].get(name, {})
        yield from _same(fields, {field: shown.get(field) for field in fields})


_SCHEDULE: dict[str, Check] = {
    **_placed("bindings"),
    **_placed("nominations"),
    "boundPods": _bound_pods,
    "boundApart": _bound_apart,
    "evictions": lambda wanted, answer: _same(sorted(wanted or []), _evicted(answer)),
    "evictedCount": lambda wanted, answer: _same(wanted, len(_evicted(answer))),
    "evictedWithin": lambda wanted, answer: _same([], sorted(set(_evicted(answer)) - set(wanted))),
    "evictedJobs": lambda wanted, answer: _same(sorted(wanted), sorted({e["podGroup"] for e in answer["evictions"]})),
    "pendingPods": lambda wanted, answer: _same(sorted(wanted), _waiting(answer)),
    "pendingMessage": _pending("message"),
    "pendingReason": _pending("reason", whole=True),
    "pendingVerdict": _pending("verdict", whole=True),
    "pendingGroups": _pending_groups,
    "podGroups": _pod_groups,
}


def _feasible(answer: Answer) -> list[str]:
    nodes = answer["nodes"]
    return sorted((n for n in nodes if nodes[n]["feasible"]), key=lambda n: (-nodes[n]["total"], natural(n)))


def _scores(wanted: Any, answer: Answer) -> Iterator[str]:
    for plugin, scores in wanted.items():
        for node, score in scores.items():
            got = answer["nodes"].get(node, {}).get("scores", {}).get(plugin)
            if not _close(score, got):
                yield f"{plugin} gives {node} {got}, wanted {score}"


def _domain_scores(wanted: Any, answer: Answer) -> Iterator[str]:
    for name, score in wanted.items():
        got = answer["hyperNodeScores"].get(name)
        if not _close(score, got):
            yield f"{name} has {got}, wanted {score}"


def _reasons(wanted: Any, answer: Answer) -> Iterator[str]:
    for node, pattern in wanted.items():
        yield from _matches(pattern, "; ".join(answer["nodes"].get(node, {}).get("reasons", [])))


_EXPLAIN: dict[str, Check] = {
    "feasible": lambda wanted, answer: _same(sorted(wanted), sorted(_feasible(answer))),
    "nodeOrder": lambda wanted, answer: _same(wanted, _feasible(answer)[: len(wanted)]),
    "gradients": lambda wanted, answer: _same([sorted(g) for g in wanted], [sorted(g) for g in answer["gradients"]]),
    "scores": _scores,
    "hyperNodeScores": _domain_scores,
    "reasons": _reasons,
}


def _objects(wanted: Any, answer: Answer) -> Iterator[str]:
    for entry in wanted:
        found = [raw for raw in answer["objects"] if _meant(entry, raw)]
        title = f"{entry['kind']} {entry.get('name') or entry.get('namePattern')}"
        if entry.get("absent"):
            yield from _same([], [raw["metadata"]["name"] for raw in found])
        elif not found:
            yield f"{title} is not among the changed objects"
        else:
            for path, value in entry.get("fields", {}).items():
                yield from (f"{title} {path}: {fault}" for fault in _subset(value, _dig(found[0], path)))


def _meant(entry: Mapping[str, Any], raw: Mapping[str, Any]) -> bool:
    meta = raw["metadata"]
    return (
        raw["kind"] == entry["kind"]
        and entry.get("name", meta["name"]) == meta["name"]
        and re.search(entry.get("namePattern", ""), meta["name"]) is not None
        and entry.get("namespace", meta.get("namespace", "default")) == meta.get("namespace", "default")
    )


def _dig(value: Any, path: str) -> Any:
    for word in re.findall(r'"[^"]+"|[^.\[\]"]+', path):
        step = word.strip('"')
        if isinstance(value, list):
            value = value[int(step)] if step.lstrip("-").isdigit() and int(step) < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def _subset(wanted: Any, got: Any) -> Iterator[str]:
    """Maps may hold more than is wanted; lists match entry by entry; scalars match as text."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        for key, value in wanted.items():
            yield from _subset(value, got.get(key))
    elif isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
        for value, present in zip(wanted, got, strict=True):
            yield from _subset(value, present)
    elif wanted != got and str(wanted) != str(got):
        yield f"got {got!r}, wanted {wanted!r}"


def _count(wanted: Any, answer: Answer) -> Iterator[str]:
    yield from _same(wanted, {kind: sum(raw["kind"] == kind for raw in answer["objects"]) for kind in wanted})


def _message(wanted: Any, answer: Answer) -> Iterator[str]:
    yield from _matches(wanted, "\n".join(f"{e['path']}: {e['message']}" for e in answer["errors"]))


def _tree(wanted: Any, answer: Answer) -> Iterator[str]:
    for name, fields in wanted.items():
        shown = answer["hyperNodes"].get(answer["root"] if name == "root" else name, {})
        for field, value in fields.items():
            got = shown.get(field)
            lists = isinstance(value, list)
            yield from (
                f"{name}.{field}: {f}"
                for f in (_same(sorted(value), sorted(got or [])) if lists else _same(value, got))
            )


_CHECKS: dict[str, dict[str, Check]] = {
    "schedule": _SCHEDULE,
    "explain": _EXPLAIN,
    "reconcile": {"objects": _objects, "count": _count},
    "validate": {
        "valid": lambda wanted, answer: _same(wanted, answer["valid"]),
        "message": _message,
        "warning": lambda wanted, answer: _matches(wanted, "\n".join(w["message"] for w in answer["warnings"])),
    },
    "topology": {
        "tree": _tree,
        "absent": lambda wanted, answer: _same([], sorted(set(wanted) & set(answer["hyperNodes"]))),
        "problems": lambda wanted, answer: _matches(wanted, "; ".join(map(str, answer["problems"]))),
    },
}

"""Every language has every part: what is read is admitted, told, audited, given up by half, allowed and described."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support import koordinator
from tests.support.languages import (
    grove_gang,
    kai_gang,
    kubernetes_gang,
    kueue_gang,
    nodes,
    objects_of,
    plugin_gang,
    volcano_gang,
)

from tierwise.api.codec import KINDS_OF, Raw
from tierwise.api.core import Pod
from tierwise.apiserver.kinds import KINDS as SERVED
from tierwise.audit import audit
from tierwise.config.profile import DEFAULT
from tierwise.dialects.language import Language, NotOurs, kinds, loaded
from tierwise.dialects.languages import LANGUAGES
from tierwise.port import Objects, PatchStatus
from tierwise.scheduler.cycle import cycle
from tierwise.scheduler.partial_gangs import PARTIAL, release
from tierwise.snapshot.builder import build
from tierwise.status.pod_group import statuses

ROOT = Path(__file__).parents[3]
BASE = ROOT / "deploy" / "kustomize" / "base"
PLURAL = {(served.group, served.kind): served.plural for served in SERVED}
Cell = str | NotOurs
"""What a language has there, "" where it lacks it."""


def _documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]


def _resources(rules: list[dict[str, Any]], verb: str = "") -> set[tuple[str, str]]:
    mine = [rule for rule in rules if not verb or verb in rule["verbs"]]
    return {(group, resource) for rule in mine for group in rule["apiGroups"] for resource in rule["resources"]}


def _rights(role: str, verb: str) -> set[tuple[str, str]]:
    rules = [d["rules"] for d in _documents(BASE / "rbac" / f"{role}.yaml") if d["kind"] == "ClusterRole"]
    return _resources([rule for own in rules for rule in own], verb)


def _reviewed() -> set[tuple[str, str]]:
    (hook,) = (d["webhooks"][0] for d in _documents(BASE / "admission.yaml") if d["kind"].startswith("Validating"))
    return _resources(hook["rules"])


def _function(name: str | NotOurs) -> Cell:
    return name if isinstance(name, NotOurs) else loaded(name).__name__


def _read(language: Language) -> Cell:
    return ", ".join(record.__name__ for record in language.declares if record in language.reads)


def _admit(language: Language) -> Cell:
    """A function, and the webhook is asked about everything that it judges."""
    if isinstance(language.admit, NotOurs):
        return language.admit
    unasked = {(group, PLURAL[group, kind]) for group, kind in kinds(language.declares)} - _reviewed()
    return _function(language.admit) if not unasked else ""


def _status(language: Language) -> Cell:
    return _function(language.status)


def _audit(language: Language) -> Cell:
    return _function(language.check)


def _partial(language: Language) -> Cell:
    if isinstance(language.marks, NotOurs):
        return language.marks
    return ", ".join(f"mark on {record.__name__}" for record in language.marks if record in language.declares)


def _allowed(language: Language) -> Cell:
    """What is read may be read, and what is written may be written."""
    read = {(group, PLURAL[group, kind]) for group, kind in kinds(tuple(r for r in language.reads if r in KINDS_OF))}
    written = language.marks if not isinstance(language.status, NotOurs) else ()
    asked = {(g, PLURAL[g, k]) for g, k in kinds(written)} if not isinstance(written, NotOurs) else set()
    asked |= {(group, f"{plural}/status") for group, plural in asked}
    lacks = (read - _rights("read", "list")) | (asked - _rights("scheduler", "patch"))
    return ("read, patch" if asked else "read") if not lacks else ""


def _page(language: Language) -> Cell:
    return language.page if (ROOT / "docs" / language.page).is_file() else ""


PARTS: dict[str, Callable[[Language], Cell]] = {
    "read": _read,
    "admit": _admit,
    "status": _status,
    "audit": _audit,
    "partial gangs": _partial,
    "RBAC": _allowed,
    "page": _page,
}


def table() -> dict[str, dict[str, Cell]]:
    """By language and part, what there is."""
    return {name: {part: of(language) for part, of in PARTS.items()} for name, language in LANGUAGES.items()}


def test_every_language_has_every_part() -> None:
    """What a language lacks is named; that something is not for us to do is said with a reason, and is no lack."""
    found = table()
    for name, cells in found.items():
        print(f"\n{name}")
        for part, cell in cells.items():
            print(f"  {part:14} {f'not ours: {cell.reason}' if isinstance(cell, NotOurs) else cell or 'MISSING'}")

    assert [] == [(name, part) for name, cells in found.items() for part, cell in cells.items() if cell == ""]
    reasons = [cell.reason for cells in found.values() for cell in cells.values() if isinstance(cell, NotOurs)]
    assert all(reasons)


HALVES: dict[str, list[Raw]] = {
    "scheduling.volcano.sh": volcano_gang("g", 2, on={0: "n0"}),
    "scheduling.sigs.k8s.io": koordinator.gang("g", 2, running={0: "n0"}),
    "scheduling.k8s.io": kubernetes_gang("g", 2, on={0: "n0"}),
    "scheduling.x-k8s.io": plugin_gang("g", 2, on={0: "n0"}),
    "scheduling.run.ai": kai_gang("g", 2, on={"g-0": "n0"}),
    "scheduler.grove.io": grove_gang("g", {"a": 2}, on={"g-a-0": "n0"}),
    "kueue.x-k8s.io": kueue_gang("g", 2, on={0: "n0"}),
}
"""In each language a gang of two pods of which one stands, on a node that has no room for the other."""


def _half(language: str) -> Objects:
    found = objects_of(nodes({"s": {"r": "n0"}}), HALVES[language])
    assert ["n0"] == [pod.spec.node_name for pod in found.every(Pod).values() if pod.spec.node_name]
    return found


def test_every_language_has_an_example() -> None:
    """Or the tests below would pass over it."""
    assert list(LANGUAGES) == list(HALVES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_half_a_gang_is_found(language: str) -> None:
    """By the audit, whatever language it is declared in."""
    assert ["part-of-gang"] == [finding.rule for finding in audit(_half(language))]


@pytest.mark.parametrize("language", LANGUAGES)
def test_half_a_gang_is_marked(language: str) -> None:
    """On the object that declares it, where one keeps such marks."""
    objects = _half(language)
    snapshot = build(objects, 0.0)
    effects = release(objects, snapshot, cycle(snapshot, DEFAULT), lambda job: job)

    kept = not isinstance(LANGUAGES[language].marks, NotOurs)
    assert [PARTIAL] * kept == [mark for e in effects if isinstance(e, PatchStatus) for mark in e.annotations]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_gang_that_waits_is_told_so(language: str) -> None:
    """On the object that declares it, where its status is for us to write."""
    objects = _half(language)
    snapshot = build(objects, 0.0)
    told = [e for e in statuses(objects, snapshot, cycle(snapshot, DEFAULT)) if isinstance(e, PatchStatus)]

    assert isinstance(LANGUAGES[language].status, NotOurs) is not bool(told)

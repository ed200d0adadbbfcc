"""A rule between pods that concerns nobody changes no placement, verdict or victim, in any scene of the digest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

import pytest
from msgspec.structs import replace
from tests.digest.decisions import decided
from tests.digest.scenes import KINDS, Case, cases
from tests.support.depth import size

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.port import Objects

_ONE: Final = "test.tierwise.io/building"
"""A label that all nodes of a scene are given, with one value."""

_HOST: Final = "kubernetes.io/hostname"
_NOBODY: Final[Raw] = {"matchLabels": {"test.tierwise.io/role": "nobody"}}
_ALL: Final[Raw] = {}

_Rule = Callable[[Any], None]
"""Adds a rule to the spec of a pod."""


def _affinity(side: str, term: Raw) -> _Rule:
    def add(spec: Any) -> None:
        terms = spec.setdefault("affinity", {}).setdefault(side, {})
        terms.setdefault("requiredDuringSchedulingIgnoredDuringExecution", []).append(term)

    return add


def _spread(constraint: Raw) -> _Rule:
    def add(spec: Any) -> None:
        spec.setdefault("topologySpreadConstraints", []).append(
            {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **constraint}
        )

    return add


RULES: Final[dict[str, _Rule]] = {
    "anti-affinity to nobody": _affinity("podAntiAffinity", {"labelSelector": _NOBODY, "topologyKey": _HOST}),
    "spread of nobody": _spread({"labelSelector": _NOBODY, "topologyKey": _ONE}),
    "spread over one place": _spread({"labelSelector": _ALL, "topologyKey": _ONE}),
    "affinity to all in one place": _affinity("podAffinity", {"labelSelector": _ALL, "topologyKey": _ONE}),
}


def _made_with(make: Callable[[], Case], rules: Sequence[_Rule]) -> Case:
    """The same scene with rules on every pod, and one label more on every node."""
    case = make()
    raws: list[Any] = [case.objects.raw(key) for key in case.objects]
    changed = []
    for raw in raws:
        raw = _copied(raw)
        if raw["kind"] == "Pod":
            for add in rules:
                add(raw["spec"])
        if raw["kind"] == "Node":
            raw["metadata"].setdefault("labels", {})[_ONE] = "b"
        changed.append(raw)
    return replace(case, objects=Objects.of((codec.decode(raw), raw) for raw in changed))


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return [_copied(one) for one in value] if isinstance(value, list) else value


_WEAKER: Final = {
    "everything/27": "a gang gathered in pipelines and multiples is counted, which is no proof where a filter moves",
}
"""Scenes in which a rule of no concern takes the proof from a *never*: the gang waits either way."""


def _changed(names: Sequence[str], scenes: Iterator[tuple[str, Callable[[], Case]]]) -> list[str]:
    """The scenes that are decided otherwise with some rules, with both decisions."""
    changed = []
    for name, make in scenes:
        plain = decided(name, make).decision
        with_rules = decided(name, partial(_made_with, make, [RULES[rule] for rule in names])).decision
        if name in _WEAKER:
            plain = plain.replace(":never:CannotGather", ":not-now:CannotGather")
            with_rules = with_rules.replace(":never:CannotGather", ":not-now:CannotGather")
        if plain != with_rules:
            changed.append(f"{name}\n  {plain[:300]}\n  {with_rules[:300]}")
    return changed


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_concerns_nobody_changes_nothing(rule: str) -> None:
    """The same pods on the same nodes, the same victims and the same verdicts."""
    assert [] == _changed([rule], cases(size(2 * len(KINDS), 1500)))


@pytest.mark.parametrize("part", range(4))
def test_all_such_rules_together_change_nothing_in_any_scene(part: int) -> None:
    """Every scene of the digest again, in four parts."""
    assert [] == _changed([*RULES], islice(cases(size(1500, 6000)), part, None, 4))

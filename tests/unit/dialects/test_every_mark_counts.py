"""Every label and annotation counts wherever the reference says so, in every language: a pair of clusters shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import pytest
from tests.support.documented_fields import documented_keys
from tests.support.field_pairs import PAIRS, Pair, Proof
from tests.support.field_scenes import SCENES, WAYS, Outcome, on_job, on_pods, outcome
from tests.support.marked_gangs import DECLARES, LANGUAGE_OF, QUEUES, with_mark
from tests.support.workloads_of_v import WORKLOADS, in_templates

from tierwise.api.codec import Raw

_GROUPS: Final = tuple(way for way, kind in DECLARES.items() if kind in ("PodGroup", "PodGang") and "," not in way)
_LANGUAGES: Final = {
    "Volcano": "volcano",
    "Koordinator": "koordinator",
    "scheduler-plugins": "scheduler-plugins",
    "KAI": "kai",
}
_KINDS: Final = {"node": "Node"}
_MANY: Final[Mapping[str, Sequence[str]]] = {
    "job": tuple(LANGUAGE_OF),
    "queue": tuple(QUEUES),
    "workload": WORKLOADS,
    "template": WORKLOADS,
    "group": _GROUPS,
    "PodGang": ("grove",),
    "CompositePodGroup": ("kubernetes, composite",),
}

_OF_THE_WHOLE: Final = frozenset({("tierwise.io/set", "kubernetes, part of a composite")})
"""Marks that a composite says for all groups below it: with them alone a group waits, with and without others."""


def ways(place: str, pair: Pair) -> Sequence[str]:
    """The languages, kinds of queues or kinds of workloads for which a row counts on this object."""
    language = _LANGUAGES.get(place.partition(" of ")[2], "")
    if place == "pod":
        return WAYS[pair.scene] or tuple(LANGUAGE_OF)
    return _MANY.get(place) or ((place,) if place in WORKLOADS else (language,))


def _cases() -> Iterator[tuple[str, str, str, str]]:
    for row in documented_keys():
        for place in row.places:
            for form in row.forms:
                if " on a " in form:
                    form, _, only = form.partition(" on a ")
                    if only != place:
                        continue
                for way in ways(place, PAIRS[row.key]):
                    if (row.key, way) not in _OF_THE_WHOLE:
                        yield row.key, place, form, way


def _named(key: str) -> str:
    return key.replace("*", "worker")


def marked(manifests: list[Raw], case: tuple[str, str, str, str], value: str) -> list[Raw]:
    """The same objects, the mark on those that a row names: key, place, form and way."""
    key, place, form, way = case
    if place == "pod":
        return on_pods(manifests, form, _named(key), value)
    if place == "template":
        return in_templates(manifests, form, key, value)
    if place == "job":
        return on_job(manifests, way, form, key, value)
    kind = QUEUES.get(way) or _kind(place, way)
    return with_mark(manifests, kind, form, _named(key), value, "v")


def _kind(place: str, way: str) -> str:
    if place in ("workload", *WORKLOADS):
        return way
    return DECLARES[way] if place == "group" else _KINDS.get(place, place.partition(" of ")[0])


@cache
def _unmarked(scene: str, way: str) -> Outcome:
    made = SCENES[scene](way)
    return outcome(made, made.manifests)


def _told(found: Outcome, case: tuple[str, str, str, str]) -> str:
    """All that is written and said, but for the mark on the object that it was put on."""
    key, place, form, way = case
    objects = json.loads(json.dumps(found.objects))
    for raw in objects.values():
        meta, kind = raw["metadata"], "Pod" if place == "pod" else QUEUES.get(way) or _kind(place, way)
        if raw["kind"] == kind and (meta["name"] == "v" or (kind == "Pod" and meta["name"].startswith("v-"))):
            meta.get(f"{form}s", {}).pop(key, None)
    return f"{json.dumps(objects, sort_keys=True)} {found.told}"


def _written(found: Outcome, case: tuple[str, str, str, str]) -> set[str]:
    """The mark as it stands on the objects in question."""
    key, place, form, way = case
    kind = "Pod" if place == "pod" else _kind(place, way)
    metas: list[Any] = [raw["metadata"] for raw in found.objects.values() if raw["kind"] == kind]
    return {meta[f"{form}s"][key] for meta in metas if key in (meta.get(f"{form}s") or {})}


def test_every_row_has_a_pair() -> None:
    """And every pair a row."""
    assert {row.key for row in documented_keys()} == PAIRS.keys()


@pytest.mark.parametrize("case", [*_cases()], ids=lambda case: " ".join(case).replace("/", "."))
def test_a_mark_counts(case: tuple[str, str, str, str]) -> None:
    """The same cluster with and without it: something else is decided, or told; what is written is not always so."""
    pair, way = PAIRS[case[0]], case[3]
    before = _unmarked(pair.scene, way)
    if pair.proof is Proof.WRITES:
        assert _written(before, case)
        assert _written(before, case) != _written(_unmarked(pair.value, way), case)
        return
    made = SCENES[pair.scene](way)
    after = outcome(made, marked(made.manifests, case, pair.value))
    if pair.proof is Proof.DECIDES:
        assert before.decision != after.decision
    else:
        assert _told(before, case) != _told(after, case)


@pytest.mark.parametrize("scene", SCENES)
def test_a_mark_that_nobody_reads_decides_nothing(scene: str) -> None:
    """So what differs is due to the mark."""
    pairs = {key: pair for key, pair in PAIRS.items() if scene in pair[:2]}
    cases = {case[1:]: case for case in _cases() if case[0] in pairs and pairs[case[0]].scene == scene}
    assert pairs
    for _, place, form, way in cases.values():
        made, case = SCENES[scene](way), ("example.com/mark", place, form, way)
        after = outcome(made, marked(made.manifests, case, "1"))
        assert _unmarked(scene, way).decision == after.decision


def test_gangs_that_start_together_say_one_thing_of_fabrics() -> None:
    """Two that say the same are placed, and two that have different values wait."""
    way = "koordinator, second gang"
    second = on_job(SCENES["alone"](way).manifests, way, "annotation", "tierwise.io/topology-constraints", "[]")
    both = {
        text: with_mark(second, "PodGroup", "annotation", "tierwise.io/topology-constraints", text, "a-v")
        for text in ("[]", '[{"tier": 1}]')
    }
    bound = {text: outcome(SCENES["alone"](way), manifests).decision[0] for text, manifests in both.items()}

    assert {"[]": 2, '[{"tier": 1}]': 0} == {text: len(pods) for text, pods in bound.items()}

"""Every label and annotation counts wherever the reference says so, in every language: a pair of clusters shows it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from tests.support.field_pairs import PAIRS
from tests.support.field_scenes import SCENES, Outcome, on_job, on_pods, outcome
from tests.support.marked_gangs import LANGUAGE_OF, with_mark

from tierwise.api.keys import known_keys

PLACES = {"job": on_job, "pod": lambda manifests, way, *mark: on_pods(manifests, *mark)}


def _cases() -> Iterator[tuple[str, str, str, str]]:
    for key in known_keys():
        for place in key.on.split(", ") if key.name in PAIRS else ():
            for form in key.form.split(", ") if place in PLACES else ():
                if form in ("annotation", "label"):
                    yield from ((key.name, place, form, way) for way in LANGUAGE_OF)


@cache
def _unmarked(scene: str, way: str) -> Outcome:
    made = SCENES[scene](way)
    return outcome(made, made.manifests)


@pytest.mark.parametrize(("key", "place", "form", "way"), [*_cases()], ids=lambda value: value.rpartition("/")[2])
def test_a_mark_decides(key: str, place: str, form: str, way: str) -> None:
    """The same cluster with and without it: who is bound, evicted or nominated differs."""
    pair = PAIRS[key]
    made = SCENES[pair.scene](way)

    marked = outcome(made, PLACES[place](made.manifests, way, form, key, pair.value))

    assert _unmarked(pair.scene, way).decision != marked.decision


@pytest.mark.parametrize("way", LANGUAGE_OF)
@pytest.mark.parametrize("scene", SCENES)
def test_a_mark_that_nobody_reads_decides_nothing(scene: str, way: str) -> None:
    """So what differs is due to the mark."""
    made = SCENES[scene](way)
    marked = on_pods(on_job(made.manifests, way, "annotation", "example.com/mark", "1"), "label", "mark", "1")

    assert _unmarked(scene, way).decision == outcome(made, marked).decision


def test_gangs_that_start_together_say_one_thing_of_fabrics() -> None:
    """Two that say the same are placed, and two that say different things wait."""
    way = "koordinator, second gang"
    second = on_job(SCENES["alone"](way).manifests, way, "annotation", "tierwise.io/topology-constraints", "[]")
    both = {
        text: with_mark(second, "PodGroup", "annotation", "tierwise.io/topology-constraints", text, "a-v")
        for text in ("[]", '[{"tier": 1}]')
    }
    bound = {text: outcome(SCENES["alone"](way), manifests).decision[0] for text, manifests in both.items()}

    assert {"[]": 2, '[{"tier": 1}]': 0} == {text: len(pods) for text, pods in bound.items()}

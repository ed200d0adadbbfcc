"""`volcano.sh/preemptable` in every language: as label and as annotation, on what declares a gang and on its pods."""

from __future__ import annotations

import pytest
from tests.support.evict_world import profile_of
from tests.support.languages import nodes, objects_of, volcano_gang
from tests.support.marked_gangs import BY_PODS, DECLARES, LANGUAGE_OF, gang_in, with_mark, with_priority
from tests.support.sight import schedule

from tierwise.api.codec import Raw
from tierwise.dialects.languages import LANGUAGES

MARK = "volcano.sh/preemptable"
FORMS = ("annotation", "label")
WORLD = nodes({"s0": {"r0": "n0"}}, cpu=2)
URGENT = with_priority(volcano_gang("urgent", 2), 9)


def test_every_language_is_tried() -> None:
    """A language that is added is one of them."""
    assert set(LANGUAGES) == set(LANGUAGE_OF.values())


def _running(way: str) -> list[Raw]:
    return with_priority(gang_in(way, "v", 2, {0: "n0", 1: "n0"}), 1)


def _victims(*manifests: list[Raw]) -> set[str]:
    history = schedule(objects_of(WORLD, URGENT, *manifests), profile_of("gangpreempt"), now=0.0, cycles=1)
    return {eviction.task.key for eviction in history.evictions}


@pytest.mark.parametrize("way", LANGUAGE_OF)
def test_a_gang_without_a_mark_is_evicted(way: str) -> None:
    """Whoever declares it: the scene is one in which a mark decides."""
    assert {"default/v-0", "default/v-1"} == _victims(_running(way))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", DECLARES)
def test_a_marked_group_is_not_evicted(way: str, form: str) -> None:
    """The object that declares the gang has the mark, by label or by annotation; one that says yes shields nobody."""
    name = "v-part" if "part" in way else "v"
    marked = [with_mark(_running(way), DECLARES[way], form, MARK, word, name) for word in ("false", "true")]

    assert [set(), {"default/v-0", "default/v-1"}] == [_victims(manifests) for manifests in marked]


@pytest.mark.parametrize("way", DECLARES)
def test_the_annotation_of_a_group_counts_before_its_label(way: str) -> None:
    """As on pods."""
    name = "v-part" if "part" in way else "v"
    labelled = with_mark(_running(way), DECLARES[way], "label", MARK, "true", name)

    assert set() == _victims(with_mark(labelled, DECLARES[way], "annotation", MARK, "false", name))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", LANGUAGE_OF)
def test_marked_pods_are_not_evicted(way: str, form: str) -> None:
    """All pods of the gang have the mark."""
    assert set() == _victims(with_mark(_running(way), "Pod", form, MARK, "false"))


@pytest.mark.parametrize("way", [*BY_PODS, "volcano", "kai", "kubernetes"])
def test_a_marked_pod_is_not_evicted(way: str) -> None:
    """One pod of the gang has the mark: that pod at least stays."""
    assert "default/v-1" not in _victims(with_mark(_running(way), "Pod", "label", MARK, "false", "v-1"))


def test_a_marked_group_whose_composite_is_gone_is_not_evicted() -> None:
    """A group that has to wait for its composite keeps the mark for the pods that run."""
    manifests = [raw for raw in _running("kubernetes, composite") if raw["kind"] != "CompositePodGroup"]

    assert {"default/v-0", "default/v-1"} == _victims(manifests)
    assert set() == _victims(with_mark(manifests, "PodGroup", "label", MARK, "false", "v-part"))

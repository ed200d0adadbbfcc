"""The marks by which groups name fabrics: what they mean, and what is wrong with them."""

from __future__ import annotations

import json

import pytest
from tests.support.koordinator import run

from tierwise.api.codec import Raw
from tierwise.api.core import ObjectMeta
from tierwise.api.fabric import CONSTRAINTS, FABRIC, parse_constraints
from tierwise.dialects.fabrics import read_marks
from tierwise.dialects.groups import group_marks
from tierwise.model.job import Constraint
from tierwise.model.topology import HYPERNODES, LAYERS


def test_own_constraints_are_about_the_fabric_that_a_group_names() -> None:
    """By label before annotation; without either they stay on the tree of their language."""
    own = Constraint(hard=True, tier=1)
    both = ObjectMeta(name="g", labels={FABRIC: "nvlink"}, annotations={FABRIC: "roce"})

    assert "fabric nvlink" == getattr(read_marks(both, HYPERNODES).own(own), "kind", None)
    assert "fabric roce" == getattr(read_marks({FABRIC: "roce"}, HYPERNODES).own(own), "kind", None)
    assert LAYERS == getattr(read_marks({FABRIC: LAYERS}, HYPERNODES).own(own), "kind", None)
    assert own is read_marks(ObjectMeta(name="g"), HYPERNODES).own(own)
    assert "nvlink" == group_marks(both)[FABRIC]


def test_listed_constraints_are_about_their_fabric_or_that_of_the_group() -> None:
    """By tier or name, hard unless they say otherwise, for the whole group or for each sub-group of a name."""
    power = {"fabric": "power", "tier": "feed", "spread": 2, "mode": "Soft"}
    text = json.dumps([{"tier": 2}, power, {"tier": 1, "subGroup": "s"}])
    marks = read_marks({FABRIC: "nvlink", CONSTRAINTS: text}, HYPERNODES, ["s"])

    assert (
        Constraint(hard=True, tier=2, kind="fabric nvlink"),
        Constraint(hard=False, tier_name="feed", kind="fabric power", spread=2),
    ) == marks.whole
    assert (Constraint(hard=True, tier=1, kind="fabric nvlink"),) == marks.of("s")
    assert HYPERNODES == read_marks({CONSTRAINTS: '[{"tier": 2}]'}, HYPERNODES).whole[0].kind


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("x", "it must be a JSON list"),
        ("{}", "it must be a JSON list"),
        ('[{"fabric": "a"}]', "missing required field `tier`"),
        ('[{"tier": "a", "mode": "firm"}]', '[0].mode: "firm" is neither hard nor soft'),
        ('[{"tier": ""}]', "[0].tier: the tier is empty"),
        ('[{"tier": 1, "spread": 1}]', "[0].spread: 1 is not between 2 and 1000"),
        ('[{"tier": 1, "spread": 0}]', "[0].spread: 0 is not between 2 and 1000"),
        ('[{"tier": NaN}]', ": JSON is malformed"),
        ('[{"tier": 1, "spread": -3}]', "[0].spread: -3 is not between 2 and 1000"),
        ('[{"tier": 1, "fabric": "*"}]', '[0].fabric: "*" cannot be the name of a fabric'),
        (json.dumps([{"tier": 1}] * 17), "17 constraints are more than the 16"),
    ],
)
def test_what_cannot_be_read_is_told(text: str, fault: str) -> None:
    """One sentence, with the place in the list."""
    found = parse_constraints(text)

    assert isinstance(found, str)
    assert fault in found


def test_a_group_of_any_language_with_marks_that_cannot_be_read_waits() -> None:
    """Here one of scheduler-plugins: what nobody understood must not pass."""
    meta: Raw = {"name": "g", "annotations": {CONSTRAINTS: "spine"}}
    group: Raw = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": meta,
        "spec": {"minMember": 1},
    }
    pod: Raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"scheduling.x-k8s.io/pod-group": "g"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    }
    node: Raw = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    node["status"] = {"allocatable": {"cpu": "1", "pods": "10"}}
    bound, why = run([node, group, pod])

    assert {} == bound
    assert why["p"].startswith(f"InvalidGroup: annotation {CONSTRAINTS}")

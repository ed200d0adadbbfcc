"""Volcano's draft `spec.topologyAffinity`: read behind its gate as rules apart, and passed over without it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.support.drawn_gang import Gang, Groups
from tests.support.sets import fabric, stand

from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT

GATE = replace(DEFAULT, feature_gates={"VolcanoTopologyAffinity": True})
SERVING = {"podGroupSelector": {"matchLabels": {"app": "serve"}}, "topologyTierName": "rack"}


def _with(raws: list[Raw], affinity: Raw, labels: dict[str, str] | None = None) -> list[Raw]:
    """Manifests of a gang whose podGroup says so."""
    found: list[Raw] = []
    for raw in raws:
        spec, metadata = raw["spec"], raw["metadata"]
        assert isinstance(spec, dict)
        assert isinstance(metadata, dict)
        if raw["kind"] == "PodGroup":
            raw = {
                **raw,
                "metadata": {**metadata, "labels": labels or {}},
                "spec": {**spec, "topologyAffinity": affinity},
            }
        found.append(raw)
    return found


def _serving(name: str, app: str = "serve", *, term: Raw | None = None) -> list[Raw]:
    affinity: Raw = {"podGroupAntiAffinity": {"required": [{**SERVING, **(term or {})}]}}
    return _with(Gang(name, tasks=1, within="rack").manifests(), affinity, {"app": app})


def test_pod_groups_keep_apart_from_those_that_labels_select() -> None:
    """One in each rack; by the number of the tier as well; of other labels nobody minds."""
    world = fabric({"s0": "r0 r1"})
    racks, why = stand(world, *(_serving(name) for name in "abc"), profile=GATE)
    assert {"a": "r0", "b": "r1"} == racks
    text = "all 2 racks that hold it have 1 part of set app In serve, which is the most"
    assert {"c": f"NotApart: {text}"} == why

    by_number: Raw = {"topologyTierName": "", "topologyTier": 1}
    assert {"a": "r0", "b": "r1"} == stand(world, *(_serving(name, term=by_number) for name in "ab"), profile=GATE)[0]
    assert {"a": "r0", "b": "r0"} == stand(world, _serving("a", "other"), _serving("b"), profile=GATE)[0]


def test_without_the_gate_the_draft_is_passed_over() -> None:
    """As it is where Volcano does not serve it."""
    assert {"a": "r0", "b": "r0"} == stand(fabric({"s0": "r0 r1"}), *(_serving(name) for name in "ab"))[0]


def _parted(affinity: Raw) -> list[Raw]:
    groups = (Groups(count=2, size=1, within="rack"),)
    return _with(Gang("g", groups=groups, minimum=2).manifests(), affinity)


def test_sub_groups_of_a_policy_keep_apart() -> None:
    """Both would fit into the first rack."""
    affinity: Raw = {"subGroupAntiAffinity": {"required": [{"subGroups": ["part"], "topologyTierName": "rack"}]}}

    racks = set(stand(fabric({"s0": "r0 r1"}), _parted(affinity), profile=GATE)[0].values())

    assert {"r0", "r1"} == {rack for names in racks for rack in names.split()}
    assert {"r0"} == {*stand(fabric({"s0": "r0 r1"}), _parted({}), profile=GATE)[0].values()}


@pytest.mark.parametrize(
    ("affinity", "said"),
    [
        ({"subGroupAffinity": {"required": [{"subGroups": ["part"], "topologyTier": 1}]}}, "NotSupported"),
        (
            {"subGroupAntiAffinity": {"required": [{"subGroups": ["part", "x"], "topologyTier": 1}]}},
            'subGroupPolicy "x"',
        ),
        ({"subGroupAntiAffinity": {"required": [{"subGroups": [], "topologyTier": 1}]}}, "NotSupported"),
        ({"subGroupAntiAffinity": {"required": [{"subGroups": ["part"]}]}}, "either topologyTier or topologyTierName"),
        ({"podGroupAntiAffinity": {"required": [{"topologyTier": 1}]}}, "no podGroupSelector"),
        ({"podGroupAntiAffinity": {"required": [{**SERVING, "namespaceSelector": {}}]}}, "do not cross namespaces"),
        ({"podGroupAntiAffinity": {"required": [SERVING] * 9}}, "9 terms are more than 8"),
        (
            {
                "podGroupAntiAffinity": {
                    "required": [{**SERVING, "podGroupSelector": {"matchLabels": {"a": "b" * 1024}}}]
                }
            },
            "more than 1024 characters",
        ),
    ],
)
def test_what_cannot_be_kept_waits(affinity: Raw, said: str) -> None:
    """And names the field."""
    racks, why = stand(fabric({"s0": "r0 r1"}), _parted(affinity), profile=GATE)

    assert {} == racks
    assert all(said in text and "spec.topologyAffinity" in text for text in why.values())
    assert why


def test_preferred_terms_keep_nobody_waiting() -> None:
    """They are passed over."""
    preferred: Raw = {"podGroupAntiAffinity": {"preferred": [{"weight": 1, "podGroupAffinityTerm": SERVING}]}}

    assert stand(fabric({"s0": "r0 r1"}), _parted(preferred), profile=GATE)[0]

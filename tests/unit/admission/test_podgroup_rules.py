"""What a pod group may ask for."""

import pytest
from tests.support.manifests import (
    discovery,
    hypernode,
    node,
    nodes,
    pod,
    pod_group,
    queue,
    tier,
)
from tests.support.verdicts import errors, warnings

from tierwise.admission.defaults import complete
from tierwise.api.codec import Raw

RACKS = [
    *(node(f"n{i}", "cpu=4 pods=10") for i in range(4)),
    hypernode("r0", 1, nodes("n0", "n1"), tier_name="rack"),
    hypernode("r1", 1, nodes("n2"), tier_name="rack"),
]
BOTH = {"highestTierAllowed": 1, "highestTierName": "rack"}


def _policy(name: str = "t0", **fields: object) -> Raw:
    return {"name": name, "matchLabelKeys": ["partition"], **fields}


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        ({"minMember": -1}, "spec.minMember", "minMember is -1, it must be at least 0"),
        ({"minTaskMember": {"w": -1}}, "spec.minTaskMember.w", "w is -1, it must be at least 0"),
        (
            {"networkTopology": {"mode": "firm", "highestTierAllowed": 1}},
            "spec.networkTopology.mode",
            'mode "firm" is not known: it must be one of hard, soft',
        ),
        (
            {"networkTopology": tier(-1)},
            "spec.networkTopology.highestTierAllowed",
            "highestTierAllowed is -1, it must be at least 0",
        ),
        (
            {"networkTopology": BOTH},
            "spec.networkTopology",
            "highestTierAllowed and highestTierName exclude each other",
        ),
        (
            {"subGroupPolicy": [_policy(networkTopology=BOTH)]},
            "spec.subGroupPolicy[0].networkTopology",
            'subGroupPolicy "t0": highestTierAllowed and highestTierName exclude each other',
        ),
        (
            {"subGroupPolicy": [_policy(subGroupSize=0)]},
            "spec.subGroupPolicy[0].subGroupSize",
            'subGroupPolicy "t0": subGroupSize is 0, it must be at least 1',
        ),
        (
            {"subGroupPolicy": [_policy(minSubGroups=-1)]},
            "spec.subGroupPolicy[0].minSubGroups",
            'subGroupPolicy "t0": minSubGroups is -1, it must be at least 0',
        ),
        ({"subGroupPolicy": [_policy("")]}, "spec.subGroupPolicy[0].name", 'subGroupPolicy "": the name is empty'),
        (
            {"subGroupPolicy": [_policy(), _policy()]},
            "spec.subGroupPolicy[1].name",
            'there are two subGroupPolicies of the name "t0"',
        ),
        (
            {"networkTopology": tier(1), "subGroupPolicy": [_policy(networkTopology=tier(2))]},
            "spec.subGroupPolicy[0]",
            'subGroupPolicy "t0": tier 2 is above tier 1, the highest that the whole may use',
        ),
    ],
)
def test_a_field_out_of_range_is_an_error(spec: Raw, path: str, message: str) -> None:
    """Numbers have minimums, words are known words, and the tier is given in one way only."""
    assert [(path, message)] == errors(pod_group("pg") | {"spec": spec})


def test_an_unknown_phase_is_an_error() -> None:
    """Status is judged as well: a phase that nobody knows would be read as none."""
    assert ["status.phase"] == [path for path, _ in errors(pod_group("pg", phase="Waiting"))]


@pytest.mark.parametrize(
    ("name", "queues", "expected"),
    [
        ("q1", [queue("q1")], []),
        ("q1", [queue("q1", "")], []),
        ("", [queue("q1")], []),
        ("default", [queue("q1")], []),
        ("q2", [], []),
        ("q2", [queue("q1")], [("spec.queue", 'queue "q2" does not exist')]),
        ("q1", [queue("q1", "Closed")], [("spec.queue", 'queue "q1" is Closed, not Open')]),
        ("", [queue("default", "Closing")], [("spec.queue", 'queue "default" is Closing, not Open')]),
    ],
)
def test_the_queue_must_be_open(name: str, queues: list[Raw], expected: list[tuple[str, str]]) -> None:
    """A missing queue counts only where queues are given; the default queue always exists."""
    assert expected == errors(pod_group("pg", queue=name), *queues)


def test_an_unknown_tier_name_is_a_warning() -> None:
    """The scheduler reads it as no limit, which is hardly what was meant."""
    found = warnings(*RACKS, pod_group("pg", networkTopology=tier("rakc")))

    message = 'no hyperNode has the tierName "rakc": it sets no limit'
    assert [("spec.networkTopology.highestTierName", message)] == found
    assert [] == warnings(*RACKS, pod_group("pg", networkTopology=tier("rack")))


def test_tiers_that_discovery_will_make_have_names() -> None:
    """The names of discovered hyperNodes are known before these are there."""
    config = discovery("a3: example.com/rack kubernetes.io/hostname")

    assert [] == warnings(config, pod_group("pg", networkTopology=tier("example.com/rack")))


def test_hard_mode_without_a_tier_is_a_warning() -> None:
    """It sets no limit, and says hard all the same."""
    assert ["spec.networkTopology"] == [path for path, _ in warnings(pod_group("pg", networkTopology={"mode": "hard"}))]


def test_minimums_of_tasks_that_are_ignored_are_a_warning() -> None:
    """Where they add up to more than minMember the scheduler passes over them."""
    found = warnings(pod_group("pg", minMember=2, minTaskMember={"a": 2, "b": 1}))

    assert ["spec.minTaskMember"] == [path for path, _ in found]


@pytest.mark.parametrize(
    ("minimum", "topology", "message"),
    [
        (4, tier(1), None),
        (5, tier(1), "no domain up to tier 1 can ever hold the minimum of 5 pods"),
        (5, tier(1, "soft"), None),
        (8, None, None),
        (9, None, "no domain can ever hold the minimum of 9 pods"),
    ],
)
def test_a_minimum_that_fits_nowhere_is_a_warning(minimum: int, topology: Raw | None, message: str | None) -> None:
    """Pods of 2 CPUs on nodes of 4: a rack of two nodes holds four of them, the cluster eight."""
    pods = [pod(f"p{i}", "cpu=2", group="pg") for i in range(minimum)]
    group = pod_group("pg", minMember=minimum, networkTopology=topology)

    assert ([] if message is None else [("spec.minMember", message)]) == warnings(*RACKS, group, *pods)


def test_minimum_resources_count_as_well() -> None:
    """A pod group whose pods are not there yet is judged by what it says it needs."""
    small = pod_group("pg", minMember=1, networkTopology=tier("rack"), minResources={"cpu": "8"})
    large = pod_group("pg", minMember=1, networkTopology=tier("rack"), minResources={"cpu": "8001m"})

    assert ([], ["spec.minMember"]) == (warnings(*RACKS, small), [path for path, _ in warnings(*RACKS, large)])


def test_a_sub_group_that_fits_nowhere_is_a_warning() -> None:
    """The message names the policy."""
    policy = _policy(subGroupSize=3, networkTopology=tier(1))
    pods = [pod(f"p{i}", "cpu=3", group="pg") for i in range(3)]
    [found] = warnings(*RACKS, pod_group("pg", minMember=1, subGroupPolicy=[policy]), *pods)

    message = 'subGroupPolicy "t0": no domain up to tier 1 can ever hold the 3 pods of a sub-group'
    assert ("spec.subGroupPolicy[0].subGroupSize", message) == found


@pytest.mark.parametrize("mode", ["Hard", "HARD", "hard", "Soft"])
def test_the_mode_is_read_in_any_case_and_written_in_one(mode: str) -> None:
    """`schedule` reads it so too; what is no mode in any case stays as it is, and is an error."""
    topology = {"mode": mode, "highestTierAllowed": 1}
    group = pod_group("g", networkTopology=topology, subGroupPolicy=[_policy(networkTopology=topology)])

    assert [] == errors(group)
    written = complete(group)["spec"]
    assert isinstance(written, dict)
    assert mode.lower() == written["networkTopology"]["mode"] == written["subGroupPolicy"][0]["networkTopology"]["mode"]


@pytest.mark.parametrize(("minimum", "expected"), [(100_000, []), (100_001, ["spec.minMember"])])
def test_a_minimum_is_bounded(minimum: int, expected: list[str]) -> None:
    """A gang has no more pods than a job may have."""
    assert expected == [path for path, _ in errors(pod_group("g", minMember=minimum))]


@pytest.mark.parametrize(("number", "expected"), [(64, []), (65, ["spec.subGroupPolicy"])])
def test_policies_are_bounded(number: int, expected: list[str]) -> None:
    """The number that the reference states passes, and one more does not."""
    policies = [_policy(f"t{i}") for i in range(number)]
    assert expected == [path for path, _ in errors(pod_group("g", minMember=1, subGroupPolicy=policies))]


def test_a_draft_behind_a_gate_is_told() -> None:
    """Without the gate it is passed over, and nobody should learn that from where the pods go."""
    term = {"podGroupSelector": {"matchLabels": {"app": "x"}}, "topologyTierName": "rack"}
    draft = pod_group("pg", topologyAffinity={"podGroupAntiAffinity": {"required": [term]}})

    assert ["spec.topologyAffinity"] == [path for path, _ in warnings(*RACKS, draft)]

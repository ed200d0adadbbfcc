"""What the status of a hyperNode says."""

import pytest
from tests.support.manifests import (
    NOW,
    STAMP,
    children,
    hypernode,
    labelled,
    node,
    nodes,
    objects,
    regex,
    settled,
    status,
)

from tierwise.api.codec import Raw
from tierwise.controllers import run
from tierwise.controllers.discovery.hypernode_status import HyperNodeStatus
from tierwise.port import Objects, PatchStatus, key_of_raw

CLUSTER = [node(f"n{i}", role="worker") for i in range(4)]


def _counts(world: Objects) -> dict[str, object]:
    return {key.name: status(world, "HyperNode", key.name)["nodeCount"] for key in world if key.kind == "HyperNode"}


def _conditions(world: Objects, name: str) -> list[tuple[object, ...]]:
    listed = status(world, "HyperNode", name).get("conditions", [])
    assert isinstance(listed, list)
    return [(c["type"], c["status"], c["reason"], c["message"]) for c in listed]


def test_every_level_counts_distinct_nodes() -> None:
    """A hyperNode of hyperNodes counts the nodes below them, a node named twice once."""
    world = settled(
        objects(
            *CLUSTER,
            hypernode("r0", 1, [*nodes("n0", "n1"), *regex("n1")]),
            hypernode("r1", 1, nodes("n2")),
            hypernode("s", 2, [*children("r0", "r1"), *nodes("n3")]),
        )
    )

    assert {"r0": 2, "r1": 1, "s": 4} == _counts(world)


def test_a_selector_without_match_counts_zero_and_says_so() -> None:
    """The count is written down even where it is zero, next to the reason for it."""
    world = settled(objects(*CLUSTER, hypernode("r0", 1, labelled({"matchLabels": {"role": "x"}}))))

    assert {"r0": 0} == _counts(world)
    message = "members[0]: no node has the labels role=x"
    assert [("Ready", "True", "EmptyMember", message), ("EmptyMember", "True", "EmptyMember", message)] == _conditions(
        world, "r0"
    )


def test_a_sound_hypernode_has_no_conditions() -> None:
    """Conditions are there for problems only."""
    world = settled(objects(*CLUSTER, hypernode("r0", 1, nodes("n0"))))

    assert {"nodeCount": 1} == status(world, "HyperNode", "r0")


def test_a_cycle_is_reported_by_each_of_its_members() -> None:
    """A broken hyperNode still counts the nodes that it would hold."""
    world = settled(
        objects(*CLUSTER, hypernode("a", 2, [*children("b"), *nodes("n0")]), hypernode("b", 3, children("a")))
    )

    for name in ("a", "b"):
        assert [("Ready", "False", "Cycle"), ("Cycle", "True", "Cycle")] == [c[:3] for c in _conditions(world, name)][
            :2
        ]
    assert {"a": 1, "b": 1} == _counts(world)


def test_an_error_breaks_what_contains_it() -> None:
    """The hyperNode above an overlap says that it is broken below; one beside it is sound."""
    racks = [hypernode("r0", 1, nodes("n0")), hypernode("r1", 1, nodes("n0")), hypernode("r2", 1, nodes("n2"))]
    world = settled(objects(*CLUSTER, *racks, hypernode("s", 2, children("r0"))))

    text = "a hyperNode below it is broken"
    assert [("Ready", "False", "BrokenMember", text), ("BrokenMember", "True", "BrokenMember", text)] == _conditions(
        world, "s"
    )
    assert ("Ready", "False", "Overlap") == _conditions(world, "r0")[0][:3]
    assert [] == _conditions(world, "r2")


def test_conditions_go_when_the_problem_goes() -> None:
    """A mended hyperNode is shown without conditions again; conditions of others stay."""
    foreign: Raw = {"type": "Drained", "status": "False"}
    own: Raw = {"type": "Ready", "status": "True", "reason": "EmptyMember", "message": "old"}
    mended = hypernode("r0", 1, nodes("n0"))
    mended["status"] = {"nodeCount": 1, "conditions": [foreign, own]}
    world = settled(objects(*CLUSTER, mended))

    assert [foreign] == status(world, "HyperNode", "r0")["conditions"]


def test_a_condition_keeps_the_time_at_which_its_status_changed() -> None:
    """A new message alone is no transition."""
    world = settled(objects(*CLUSTER, hypernode("r0", 1, nodes("gone"))))
    [key] = [key for key in world if key.kind == "HyperNode"]
    changed = hypernode("r0", 1, nodes("lost")) | {"status": status(world, "HyperNode", "r0")}
    later = settled(world.changed({key: changed}), NOW + 60)

    conditions = status(later, "HyperNode", "r0")["conditions"]
    assert isinstance(conditions, list)
    assert [STAMP] * 2 == [condition["lastTransitionTime"] for condition in conditions]
    assert ['members[0]: node "lost" does not exist'] * 2 == [condition["message"] for condition in conditions]


def test_nothing_is_written_where_nothing_changed() -> None:
    """A second run over its own result asks for nothing."""
    world = settled(objects(*CLUSTER, hypernode("r0", 1, nodes("n0")), hypernode("r1", 1, nodes("gone"))))

    assert [] == run(world, NOW + 3600)


WRONG = {
    "Cycle": [hypernode("a", 2, children("a"))],
    "TwoParents": [hypernode("r", 1, nodes("n0")), *(hypernode(name, 2, children("r")) for name in "ab")],
    "TierOrder": [hypernode("r", 2, nodes("n0")), hypernode("a", 2, children("r"))],
    "Overlap": [hypernode("a", 1, nodes("n0", "n1")), hypernode("b", 1, nodes("n1", "n2"))],
    "BrokenMember": [
        hypernode("r", 1, nodes("n0", "n1")),
        hypernode("s", 1, nodes("n1", "n2")),
        hypernode("a", 2, children("r")),
    ],
    "MissingNode": [hypernode("a", 1, nodes("gone"))],
    "MissingMember": [hypernode("a", 2, [*children("gone"), *nodes("n0")])],
    "BadPattern": [hypernode("a", 1, regex("("))],
    "EmptyMember": [hypernode("a", 1, regex("^x$"))],
    "IgnoredMember": [hypernode("a", 1, [*nodes("n0"), *regex("r.*", "HyperNode")])],
    "ImpliedMember": [hypernode("r", 1, nodes("n0")), hypernode("a", 2, nodes("n0", "n1"))],
    "TierNameConflict": [hypernode("a", 2, nodes("n0"), tier_name="t"), hypernode("0", 1, nodes("n1"), tier_name="t")],
}


@pytest.mark.parametrize("code", WRONG)
def test_each_problem_has_a_condition_that_goes_with_it(code: str) -> None:
    """The type of the condition is the problem's code; once the hyperNode is sound, none of them is left."""
    world = settled(objects(*CLUSTER, *WRONG[code]))
    assert code in [condition[0] for condition in _conditions(world, "a")]

    sound = hypernode("a", 4, nodes("n3")) | {"status": status(world, "HyperNode", "a")}
    mended = settled(objects(*CLUSTER, sound))
    assert [] == _conditions(mended, "a")


def test_what_nodes_report_is_looked_at_where_it_matters() -> None:
    """A heartbeat changes no count; a label does, and so does a node that is gone."""
    rack = hypernode("r0", 1, labelled({"matchLabels": {"role": "worker"}}))
    world = settled(objects(*CLUSTER, rack))
    keeper = HyperNodeStatus()
    reported = {**CLUSTER[0], "status": {"conditions": [{"type": "Ready", "status": "True"}]}}

    assert [] == keeper.reconcile(world, NOW)
    assert [] == keeper.reconcile(world.changed({key_of_raw(reported): reported}), NOW)
    moved = world.changed({key_of_raw(CLUSTER[0]): node("n0", role="other")})
    assert [3] == [e.status["nodeCount"] for e in keeper.reconcile(moved, NOW) if isinstance(e, PatchStatus)]
    gone = world.changed({}, [key_of_raw(CLUSTER[0]), key_of_raw(CLUSTER[1])])
    assert [2] == [e.status["nodeCount"] for e in keeper.reconcile(gone, NOW) if isinstance(e, PatchStatus)]

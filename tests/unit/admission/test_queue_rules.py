"""What a queue may say, and what queues may say together."""

from collections.abc import Iterator

import pytest
from tests.support.manifests import objects, queue
from tests.support.verdicts import errors, warnings

from tierwise.admission.queue import check
from tierwise.api.codec import Raw
from tierwise.api.volcano import Queue


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (queue("q", weight=1, capability={"cpu": "8"}, deserved={"cpu": "8"}), []),
        (queue("q", weight=0), ["spec.weight"]),
        (queue("q", priority=-1), ["spec.priority"]),
        (queue("q", "Shut"), ["status.state"]),
        (queue("q", capability={"cpu": "8"}, deserved={"cpu": "8001m"}), ["spec.deserved.cpu"]),
        (queue("q", deserved={"cpu": "2"}, guarantee={"resource": {"cpu": "3"}}), ["spec.guarantee.resource.cpu"]),
        (queue("q", capability={"cpu": "2"}, guarantee={"resource": {"cpu": "3"}}), ["spec.guarantee.resource.cpu"]),
        (queue("q", capability={"cpu": "2"}, guarantee={"resource": {"memory": "3Gi"}}), []),
        (queue("q", capability={"cpu": "10"}, deserved={"cpu": "9"}, guarantee={"resource": {"cpu": "9000m"}}), []),
        (queue("q", parent="gone"), ["spec.parent"]),
        (queue("q", parent="root"), []),
        (queue("root", parent="q"), ["spec.parent"]),
        (queue("q", parent="q"), ["spec.parent"]),
        (queue("Q"), ["metadata.name"]),
    ],
)
def test_a_queue_by_itself(raw: Raw, expected: list[str]) -> None:
    """Weights, priorities and states in range, and a guarantee within what is deserved within what is allowed."""
    assert expected == [path for path, _ in errors(raw)]


def test_queues_may_not_go_in_circles() -> None:
    """Each queue of a circle is told; one that hangs below it is not."""
    found = errors(queue("a", parent="b"), queue("b", parent="a"), queue("c", parent="a"))

    assert [
        ("spec.parent", "cyclic dependency: a -> b -> a"),
        ("spec.parent", "cyclic dependency: b -> a -> b"),
    ] == found


def test_a_parent_must_be_able_to_keep_its_word() -> None:
    """Guarantees below add up to no more than their parent's, and no child may use more than its parent."""
    parent = queue("p", capability={"cpu": "8"}, guarantee={"resource": {"cpu": "4"}}, deserved={"cpu": "6"})
    below = [
        queue(name, parent="p", capability={"cpu": "9"}, guarantee={"resource": {"cpu": "3"}}, deserved={"cpu": "4"})
        for name in ("a", "b")
    ]

    assert [
        ("spec.capability.cpu", '9 of queue "a" below is more than the capability of 8'),
        ("spec.capability.cpu", '9 of queue "b" below is more than the capability of 8'),
        ("spec.guarantee.resource.cpu", "the queues below ask for 6 cpu in all, more than the 4 of this queue"),
    ] == errors(parent, *below)
    deserved = "the queues below ask for 8 cpu in all, more than the 6 of this queue"
    assert [("spec.deserved.cpu", deserved)] == warnings(parent, *below)


class _Unlisted(dict[str, Queue]):
    """Queues that can be looked up by name; whoever goes through all of them fails."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError

    def values(self) -> Iterator[Queue]:  # type: ignore[override]
        raise AssertionError


def test_a_queue_is_checked_with_its_parents_and_children_alone() -> None:
    """So that all queues together cost no more than their number."""
    known = _Unlisted(objects(queue("p", capability={"cpu": "8"}), queue("c", parent="p")).every(Queue).items())
    below = {"p": [known["c"]], "c": []}

    assert [] == [issue for name in ("p", "c") for issue in check(known[name], known, below[name])]

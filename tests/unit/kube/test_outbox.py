"""What waits to be written: of one object the newest, of the namespaces one after the other, and never too much."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from tierwise.kube.outbox import Outbox


def _all(outbox: Outbox[str, int]) -> Iterator[tuple[str, int]]:
    while outbox:
        yield outbox.take()[1:]


def test_the_newest_counts_and_keeps_its_place() -> None:
    """What is said anew is not written twice, nor does it wait longer for it."""
    outbox: Outbox[str, int] = Outbox()
    for key, value in (("a", 1), ("b", 2), ("a", 3)):
        outbox.put("here", key, value)

    assert [("a", 3), ("b", 2)] == list(_all(outbox))


def test_namespaces_take_turns() -> None:
    """However many one of them has, another's next is the next but one."""
    outbox: Outbox[str, int] = Outbox()
    for number in range(1000):
        outbox.put("noisy", f"n{number}", number)
    outbox.put("calm", "c0", 0)
    outbox.put("calm", "c1", 1)
    first = [outbox.take()[1] for _ in range(5)]

    assert ["n0", "c0", "n1", "c1", "n2"] == first


def test_too_much_is_at_the_cost_of_who_has_most() -> None:
    """Its oldest goes, and nobody else's."""
    outbox: Outbox[str, int] = Outbox(capacity=4)
    outbox.put("calm", "c", 0)
    for number in range(9):
        outbox.put("noisy", f"n{number}", number)

    assert ["c", "n6", "n7", "n8"] == sorted(key for key, _ in _all(outbox))


_STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "drop", "take"]), st.sampled_from("xyz"), st.integers(0, 5)), max_size=60
)


@given(_STEPS)
def test_nothing_is_lost_and_nobody_is_overtaken_twice(steps: list[tuple[str, str, int]]) -> None:
    """Whatever comes and goes: what is taken was put and not dropped, and no namespace is served again before all that
    waited then have been.
    """
    outbox: Outbox[str, int] = Outbox()
    waits: dict[tuple[str, str], int] = {}
    served: dict[str, set[str]] = {}  # by a namespace that waits, those that were served since it began to
    for number, (what, space, name) in enumerate(steps):
        key = f"{space}{name}"
        if what == "put":
            outbox.put(space, key, number)
            waits[space, key] = number
            served.setdefault(space, set())
        elif what == "drop":
            outbox.drop(space, key)
            waits.pop((space, key), None)
        elif waits:
            namespace, taken, value = outbox.take()
            assert (namespace, value) == (taken[0], waits.pop((namespace, taken)))
            for other, seen in served.items():
                assert other == taken[0] or taken[0] not in seen
                seen.add(taken[0])
            served[taken[0]] = set()
        waiting = {space for space, _ in waits}
        served = {space: seen for space, seen in served.items() if space in waiting}

    assert len(waits) == len(outbox)


def test_some_namespaces_are_passed_over() -> None:
    """Those that are slow keep what is theirs; how long the others have waited is known without them."""
    outbox: Outbox[str, int] = Outbox()
    outbox.put("slow", "s", 1, at=3.0)
    outbox.put("calm", "c", 2, at=5.0)
    outbox.put("calm", "c", 3, at=9.0)  # said anew

    assert (3.0, 5.0, None) == (outbox.since(), outbox.since({"slow"}), outbox.since({"slow", "calm"}))
    assert ("calm", "c", 3) == outbox.take({"slow"})
    assert (True, False) == (outbox.waits(), outbox.waits({"slow"}))

"""What a merge patch makes of a manifest in the embedded cluster."""

from __future__ import annotations

from tierwise.api.codec import Raw
from tierwise.api.merge_patch import merged

GROUP: Raw = {"metadata": {"name": "g", "annotations": {"tier": "1"}}, "spec": {"minMember": 2}, "ready": 1}


def test_what_is_there_already_stays_the_same_object() -> None:
    """So nothing of it has to be decoded again."""
    assert merged(GROUP, {"metadata": {"annotations": {"tier": "1"}}}) is GROUP
    assert merged(GROUP, {"status": {}, "metadata": {"labels": None}}) is GROUP


def test_another_text_copies_what_is_around_it() -> None:
    """The manifest that was there is not touched, and the rest of it is shared."""
    found = merged(GROUP, {"metadata": {"annotations": {"tier": "2", "rack": "r"}}})

    assert {"name": "g", "annotations": {"tier": "2", "rack": "r"}} == found["metadata"]
    assert found["spec"] is GROUP["spec"]
    assert {"name": "g", "annotations": {"tier": "1"}} == GROUP["metadata"]


def test_nothing_removes_and_other_types_replace() -> None:
    """What Python takes for equal is not equal in JSON."""
    assert {"spec", "ready"} == merged(GROUP, {"metadata": None}).keys()
    assert merged(GROUP, {"ready": True})["ready"] is True

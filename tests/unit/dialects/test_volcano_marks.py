"""Marks on pods and podGroups: whether they may be evicted."""

from __future__ import annotations

import pytest

from tierwise.api.core import ObjectMeta
from tierwise.dialects.pod_marks import not_preemptable

MARK = "volcano.sh/preemptable"


@pytest.mark.parametrize("word", ["true", "True", "TRUE", "t", "1"])
def test_a_mark_that_says_yes_shields_nobody(word: str) -> None:
    """As Go reads a truth value."""
    assert not not_preemptable(ObjectMeta(annotations={MARK: word}))


@pytest.mark.parametrize("word", ["false", "False", "0", "no", "yes", "flase", ""])
def test_any_other_mark_shields(word: str) -> None:
    """Whoever writes a mark and misspells it means to be spared: an eviction cannot be taken back."""
    assert not_preemptable(ObjectMeta(annotations={MARK: word}))


def test_without_a_mark_nobody_is_shielded() -> None:
    """Whatever else an object is marked with."""
    assert not not_preemptable(ObjectMeta(annotations={"other": "false"}, labels={"other": "false"}))


@pytest.mark.parametrize(("annotation", "label", "shielded"), [("true", "false", False), ("false", "true", True)])
def test_the_annotation_counts_before_the_label(annotation: str, label: str, shielded: bool) -> None:
    """Where both are there."""
    assert shielded == not_preemptable(ObjectMeta(annotations={MARK: annotation}, labels={MARK: label}))
    assert (label == "false") == not_preemptable(ObjectMeta(labels={MARK: label}))

"""What people see, byte for byte, at 80 and 160 columns; and the JSON beside it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.cells import cell_len
from tests.support.commands import EXAMPLES, run

PAGES = {
    "what-if": ("what-if", "-f", EXAMPLES / "02-why-not", "--uncordon", "a3", "--drain", "c1"),
    "what-if-start": ("what-if", "-f", EXAMPLES / "02-why-not", "--start", "train"),
    "eta": ("eta", "-f", EXAMPLES / "18-expected-start", "--now", "2026-01-01T12:00:00Z"),
    "eta-jobs": (
        *("eta", "-f", EXAMPLES / "18-expected-start", "--now", "2026-01-01T12:00:00Z"),
        *("ml/train-b", "ml/train-c"),
    ),
    "defrag": (
        *("defrag", "-f", EXAMPLES / "15-defragmentation", "--for", "nvidia.com/gpu=8x4@rack"),
        *("--now", "2026-01-01T12:00:00Z"),
    ),
    "schedule-llm-training": ("schedule", "-f", EXAMPLES / "01-llm-training"),
    "schedule-why-not": ("schedule", "-f", EXAMPLES / "02-why-not"),
    "schedule-broken-topology": ("schedule", "-f", EXAMPLES / "03-broken-topology"),
    "explain-pod-placed": ("explain", "-f", EXAMPLES / "01-llm-training", "embed-worker-3"),
    "explain-pod-waiting": ("explain", "-f", EXAMPLES / "02-why-not", "train-0"),
    "explain-job-placed": ("explain", "-f", EXAMPLES / "01-llm-training", "--job", "llm-train"),
    "explain-job-waiting": ("explain", "-f", EXAMPLES / "01-llm-training", "--job", "pretrain"),
    "topology-llm-training": ("topology", "show", "-f", EXAMPLES / "01-llm-training"),
    "topology-broken": ("topology", "show", "-f", EXAMPLES / "03-broken-topology"),
    "validate-broken": ("validate", "-f", EXAMPLES / "03-broken-topology"),
    "reconcile-llm-training": ("reconcile", "-f", EXAMPLES / "01-llm-training"),
}
Golden = Callable[[str, str], str]


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("name", PAGES)
def test_page(name: str, width: int, golden: Golden) -> None:
    """A page is what it was, and no line of it is wider than the terminal."""
    actual = run(*PAGES[name], width=width).stdout

    assert golden(f"{name}.{width}.txt", actual) == actual
    assert width >= max(map(cell_len, actual.splitlines()))


@pytest.mark.parametrize(
    "name",
    [
        *("schedule-why-not", "explain-pod-waiting", "validate-broken", "explain-job-waiting"),
        *("what-if", "what-if-start", "defrag", "eta-jobs"),
    ],
)
def test_json(name: str, golden: Golden) -> None:
    """The answer for programs is what it was."""
    actual = run(*PAGES[name], "-o", "json").stdout

    assert golden(f"{name}.json", actual) == actual


def test_ascii_page(golden: Golden) -> None:
    """Where the encoding has no box drawing, the page is drawn in ASCII."""
    actual = run(*PAGES["schedule-broken-topology"], charset="ascii").stdout

    assert golden("schedule-broken-topology.ascii.txt", actual) == actual
    assert actual.isascii()

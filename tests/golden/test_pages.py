"""What people see, byte for byte, at 80 and 160 columns; and the JSON beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from rich.cells import cell_len
from tests.support.commands import EXAMPLES, ROOT, run

from tierwise.cli.main import cli

DISCOVERED = EXAMPLES / "04-topology-discovery"
SLURM = DISCOVERED.relative_to(ROOT)  # pages name it
PAGES = {
    "what-if": ("what-if", "-f", EXAMPLES / "02-why-not", "--uncordon", "a3", "--drain", "c1"),
    "what-if-start": ("what-if", "-f", EXAMPLES / "02-why-not", "--start", "train"),
    "drainable": (
        *("drainable", "-f", EXAMPLES / "15-defragmentation", "--together", 1),
        *("--now", "2026-01-01T12:00:00Z"),
    ),
    "nodes": ("nodes", "-f", EXAMPLES / "02-why-not"),
    "queue": ("queue", "-f", EXAMPLES / "18-expected-start", "--now", "2026-01-01T12:00:00Z"),
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
    "why": ("why", "-f", EXAMPLES / "02-why-not", "train-0"),
    "attention": (
        *("attention", "-f", Path(__file__).parent / "attention.yaml", "--now", "2026-01-01T12:00:00Z"),
        *("--config", Path(__file__).parent / "attention.conf"),
    ),
    "top": ("top", "-f", EXAMPLES / "15-defragmentation"),
    "audit": ("audit", "-f", EXAMPLES / "02-why-not"),
    "topology-diff": ("topology", "diff", "-f", DISCOVERED / "cluster.yaml", "--from", f"slurm:{SLURM}"),
    "features": ("features",),
    "config-validate": ("config", "validate", EXAMPLES.relative_to(ROOT) / "16-reservations" / "reservations.conf"),
    "simulate": (
        *("simulate", "--topology", "synthetic:spines=2", "--trace", "synthetic:jobs=40"),
        *("--profile", "default", "--profile", "best-fit"),
    ),
    "sweep": ("sweep", "-f", Path(__file__).parent / "sweep.yaml", "-j", 1),
}
FILES = {
    "topology-generate": ("topology", "generate", "--from", f"slurm:{SLURM}"),
    "topology-export": ("topology", "export", "-f", EXAMPLES / "02-why-not"),
    "hold": ("hold", "-f", EXAMPLES / "18-expected-start", "ml/train-b", "--reason", "wrong data"),
    "release": ("release", "-f", EXAMPLES / "18-expected-start", "ml/train-b"),
    "forgive": ("forgive", "-f", EXAMPLES / "16-reservations", "a0"),
    "forget": ("forget", "-f", EXAMPLES / "16-reservations", "default"),
    "windows": ("windows", "--from-slurm", Path(__file__).parent / "reservations.slurm"),
    "topology-import": ("topology", "import", Path(__file__).parent / "topology-export.txt"),
    "crds": ("crds", "--family", "scheduler-plugins"),
    "config-convert": ("config", "convert", EXAMPLES / "06-koordinator-gather" / "scheduler.yaml"),
    "config-show-defaults": ("config", "show-defaults"),
}
"""What is printed for other programs: no page, whatever the width."""
NO_PAGE = {
    "config schema": "its text is docs/reference/scheduler-profile.schema.json: tests/unit/config",
    "bench": "figures of a machine",
    "completion": "a script of click's",
    "plugins": "lists what is installed: tests/unit/cli/test_plugins",
    "version": "a line that every version changes",
    "submit": "its pages are in test_life_pages",
    "serve": "a server: tests/unit/web",
    "ask": "asks a server: tests/unit/answers",
    "up": "a server: tests/unit/apiserver",
    "run": "a live cluster: tests/contract",
    "controllers": "a live cluster: tests/contract",
    "webhook": "a server: tests/unit/runtime",
    "snapshot": "a live cluster: tests/contract",
    "probe": "measures a network",
    "advertise-bandwidth": "measures a node",
    "replay": "a journal of a run: tests/unit/runtime",
}
Golden = Callable[[str, str], str]


def _commands() -> Iterator[tuple[str, click.Command]]:
    """Every verb with its words, those below a group one by one."""
    above = click.Context(cli)
    for verb in cli.list_commands(above):
        command = cli.get_command(above, verb)
        assert command is not None
        if isinstance(command, click.Group):
            yield from ((f"{verb} {name}", own) for name, own in command.commands.items())
        else:
            yield verb, command


def test_every_verb_has_golden_output() -> None:
    """Byte for byte, or a reason why that cannot be; and no reason is left over."""
    shown = {" ".join(map(str, words[:n])) for words in (*PAGES.values(), *FILES.values()) for n in (1, 2)}
    verbs = {name for name, _ in _commands()}

    assert set() == verbs - shown - NO_PAGE.keys()
    assert set() == NO_PAGE.keys() - verbs


def test_every_verb_has_examples_and_a_section_of_the_reference() -> None:
    """What `--help` shows ends with commands to try, which begin with the verb; the reference page tells the rest."""
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    sections = [line[3:].split() for line in page.splitlines() if line.startswith("## ")]

    for name, command in _commands():
        assert f"tierwise {name}" in (command.epilog or ""), name
        assert any(set(name.split()) <= set(section) for section in sections), name


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths are those of the repository, wherever the tests are started."""
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("name", PAGES)
def test_page(name: str, width: int, golden: Golden) -> None:
    """A page is what it was, and no line of it is wider than the terminal."""
    actual = run(*PAGES[name], width=width).stdout

    assert golden(f"{name}.{width}.txt", actual) == actual
    assert width >= max(map(cell_len, actual.splitlines()))


@pytest.mark.parametrize("name", FILES)
def test_file(name: str, golden: Golden) -> None:
    """What other programs read is what it was, and nothing else is printed beside it."""
    result = run(*FILES[name])

    assert (0, golden(f"{name}.txt", result.stdout)) == (result.exit_code, result.stdout)


@pytest.mark.parametrize(
    "name",
    [
        *("schedule-why-not", "explain-pod-waiting", "validate-broken", "explain-job-waiting"),
        *(
            "what-if",
            "what-if-start",
            "defrag",
            "eta-jobs",
            "why",
            "attention",
            "top",
            "audit",
            "topology-diff",
            "features",
        ),
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

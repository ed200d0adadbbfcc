"""Recordings on the command line: what --serve and --journal open, and what they refuse."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.support.commands import EXAMPLES, run
from tests.support.ports import HOST, free_port

LIFE = EXAMPLES / "05-a-jobs-life"


def test_a_submitted_run_is_played_and_nothing_is_left(tmp_path: Path) -> None:
    """The outcome is printed as ever, then the page is open with every moment of it, until Ctrl-C."""
    port = free_port()
    words = [sys.executable, "-m", "tierwise", "submit", "-f", str(LIFE), "--serve", "--listen", f"{HOST}:{port}"]
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert process.stderr is not None
    assert process.stdout is not None
    try:
        told = process.stderr.readline()
        with urllib.request.urlopen(f"http://{HOST}:{port}/api/history", timeout=60) as answer:
            history = json.load(answer)
        kept = list(tmp_path.iterdir())
        process.send_signal(signal.SIGINT)
        printed = process.stdout.read()
        status = process.wait(60)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()

    assert f"http://{HOST}:{port}/ is open; Ctrl-C ends it\n" == told
    assert len(history["moments"]) > 3
    assert (history["recorded"], history["whole"]) == (True, True)
    assert "Completed" in printed
    assert (0, 1, []) == (status, len(kept), list(tmp_path.iterdir()))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("serve", "--journal", "{0}"), "holds no journal"),
        (("serve", "--journal", "{0}/none"), "none: No such file"),
        (("serve", "--journal", "{0}", "-f", "x.yaml"), "give --journal alone"),
        (
            ("simulate", "--topology", "synthetic:", "--trace", "synthetic:jobs=2", "--serve", "--checkpoint", "{0}/c"),
            "--serve",
        ),
        (("serve", "--listen", "nowhere"), "is not HOST:PORT"),
    ],
)
def test_what_cannot_be_played_is_said(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    """One line, exit status 2."""
    result = run(*(word.format(tmp_path) for word in words))

    assert 2 == result.exit_code
    assert said in result.stderr


def test_a_journal_of_submit_is_repeated_byte_by_byte(tmp_path: Path) -> None:
    """What the cluster in memory records is a journal as any other."""
    run("submit", "-f", str(LIFE), "--journal", str(tmp_path))

    assert "byte by byte" in run("replay", str(tmp_path), "--verify").stdout

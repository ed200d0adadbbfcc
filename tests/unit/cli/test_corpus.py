"""What `tools/corpus.py` calls the files of others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.commands import ROOT, manifests

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
LABELS = {"app": "idle"}
IDLE: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "idle"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": POD["spec"]},
    },
}


def test_files_are_counted_by_project(tmp_path: Path) -> None:
    """What is read, what is told of, and what is no manifest; 0 where nothing is silent or wrong."""
    for name, raw in (
        ("idle", IDLE),
        ("other", {**POD, "spec": {**POD["spec"], "schedulerName": "elsewhere"}}),
        ("misspelt", {**IDLE, "specs": {}}),
        ("values", {"image": "x"}),
    ):
        (tmp_path / "theirs").mkdir(exist_ok=True)
        manifests(tmp_path / "theirs", raw, name=f"{name}.yaml")
    done = subprocess.run(
        [sys.executable, ROOT / "tools/corpus.py", tmp_path], capture_output=True, text=True, check=False
    )

    assert (0, "") == (done.returncode, done.stderr)
    assert "| theirs | 3 | 1 | 2 | 0 | 0 |" in done.stdout.splitlines()

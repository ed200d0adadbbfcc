"""`tierwise forgive`: what a node has failed counts no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from tests.support.commands import run
from tests.support.reservations import TWO_RACKS, job

from tierwise.api.core import parse_time

NOW = "2026-01-01T12:00:00Z"
CONFIG = (
    'actions: "enqueue, allocate, backfill"\nconfigurations:\n- {name: allocate, arguments: {failedStarts: tierwise}}\n'
)


def _bindings(file: Path, config: Path) -> Any:
    return json.loads(run("schedule", "-f", str(file), "--config", str(config), "--now", NOW, "-o", "json").stdout)[
        "bindings"
    ]


def test_a_node_is_used_again_once_it_is_forgiven(tmp_path: Path) -> None:
    """With files the command prints the record's entry; with it the gang goes back to the first node."""
    line = json.dumps(["u", "default/train", "n0", parse_time(NOW) - 60, "OutOfcpu", False])
    record: Any = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "tierwise-failed-starts", "namespace": "tierwise", "creationTimestamp": NOW},
        "data": {"starts": f"{line}\n"},
    }
    config, file = tmp_path / "c.conf", tmp_path / "state.yaml"
    config.write_text(CONFIG)
    every = [*TWO_RACKS.manifests, *job("train"), record]
    file.write_text(yaml.safe_dump_all(every))
    assert {"default/train-0": "n1"} == _bindings(file, config)

    printed = yaml.safe_load(run("forgive", "-f", str(file), "n0").stdout)
    record["data"] |= printed["data"]
    file.write_text(yaml.safe_dump_all(every))

    assert record["metadata"]["name"] == printed["metadata"]["name"]
    assert {"default/train-0": "n0"} == _bindings(file, config)


def test_a_node_that_is_not_there_is_one_line() -> None:
    """With a suggestion."""
    found = run("forgive", "-f", "examples/16-reservations", "a00")

    assert (2, 1) == (found.exit_code, len(found.stderr.splitlines()))
    assert "there is no such node" in found.stderr

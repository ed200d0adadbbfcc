"""`tierwise forget`: what a queue has used counts no more."""

from __future__ import annotations

import json

import yaml
from tests.support.commands import run


def test_with_files_the_entry_of_the_record_is_printed() -> None:
    """For `kubectl apply`."""
    printed = yaml.safe_load(run("forget", "-f", "examples/16-reservations", "default").stdout)

    assert ("tierwise-usage", "tierwise") == (printed["metadata"]["name"], printed["metadata"]["namespace"])
    assert ["default"] == list(json.loads(printed["data"]["resets"]))


def test_a_queue_that_is_not_there_is_one_line() -> None:
    """With a suggestion."""
    found = run("forget", "-f", "examples/16-reservations", "defalt")

    assert (2, 1) == (found.exit_code, len(found.stderr.splitlines()))
    assert "default" in found.stderr

"""`-o yaml` wherever there is `-o json`, with the same content."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

import click
import pytest
import yaml
from tests.support.commands import EXAMPLES, run

from tierwise.cli.main import cli

JOURNAL = EXAMPLES / "22-a-journal" / "journal"
ETA = EXAMPLES / "18-expected-start"
ANSWERS = [
    f"schedule -f {EXAMPLES / '02-why-not'}",
    f"explain -f {EXAMPLES / '02-why-not'} train-0",
    f"why -f {EXAMPLES / '02-why-not'} train-0",
    f"eta -f {ETA} --now 2026-01-01T12:00:00Z",
    f"what-if -f {EXAMPLES / '02-why-not'} --uncordon a3",
    f"queue -f {ETA}",
    f"nodes -f {ETA}",
    f"drainable -f {ETA}",
    f"top -f {ETA}",
    f"validate -f {ETA}",
    f"topology show -f {ETA}",
    f"reconcile -f {EXAMPLES / '05-a-jobs-life'}",
    f"submit -f {EXAMPLES / '05-a-jobs-life'} --until 10s",
    f"audit -f {ETA}",
    f"replay {JOURNAL}",
    f"replay {JOURNAL} --verify",
    "plugins",
    "features",
    "simulate --topology synthetic:spines=1 --trace synthetic:jobs=3",
    f"defrag -f {EXAMPLES / '15-defragmentation'} --for nvidia.com/gpu=8x4@rack --now 2026-01-01T12:00:00Z",
]


@pytest.mark.parametrize("words", ANSWERS, ids=lambda words: words.partition(" ")[0])
def test_yaml_says_what_json_says(words: str) -> None:
    """The same exit status and, read again, the same object."""
    as_json, as_yaml = (run(*shlex.split(words), "-o", form) for form in ("json", "yaml"))

    assert as_json.exit_code == as_yaml.exit_code
    assert json.loads(as_json.stdout) == yaml.safe_load(as_yaml.stdout)
    assert not as_yaml.stdout.startswith("{")


def _forms(command: click.Command, path: str) -> Iterator[tuple[str, str]]:
    """Every verb with `-o`, and what may follow it."""
    context = click.Context(command)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _forms(inner, f"{path} {name}".strip())
    for param in command.params:
        if "--output" in param.opts and isinstance(param, click.Option):
            choices = param.type.choices if isinstance(param.type, click.Choice) else ()
            yield path, f"{' '.join(map(str, choices))} {param.help or ''}"


def test_no_verb_has_json_alone() -> None:
    """Of verbs that are to come, too."""
    forms = dict(_forms(cli, ""))

    assert len(forms) > 20
    assert [] == [verb for verb, told in forms.items() if "json" in told and "yaml" not in told]

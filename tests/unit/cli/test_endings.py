"""How a command ends when something goes wrong that is not the input's fault."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner
from tests.support.commands import EXAMPLES

from tierwise.api.errors import InputError
from tierwise.cli.main import Verbs
from tierwise.kube.errors import ApiError, UnreachableError

PROGRAM = (sys.executable, "-c", "from tierwise.cli.main import main; main()")


class Failing(Verbs):
    """A command line with one verb, which raises what it is told to."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(name="tierwise")
        self._error = error

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        def fail() -> None:
            raise self._error

        return click.Command(cmd_name, callback=fail)


def ending(error: BaseException, **environment: str) -> tuple[int, str]:
    """Exit status and standard error."""
    result = CliRunner().invoke(Failing(error), ["fail"], env={"TIERWISE_DEBUG": None, **environment})
    assert "" == result.stdout
    return result.exit_code, result.stderr


def test_a_defect_is_one_line() -> None:
    """A defect says what it is and how to see more, and has an exit status of its own."""
    hint = "(TIERWISE_DEBUG=1 shows the traceback; please report it)"

    assert (70, f"tierwise: bug in tierwise: ZeroDivisionError: by zero {hint}\n") == ending(
        ZeroDivisionError("by\nzero")
    )


def test_a_defect_shows_its_traceback_when_asked() -> None:
    """Whoever debugs gets the whole story."""
    status, text = ending(ZeroDivisionError("by zero"), TIERWISE_DEBUG="1")

    assert 70 == status
    assert text.startswith("Traceback")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KeyboardInterrupt(), (130, "")),
        (BrokenPipeError(), (141, "")),
        (OSError(28, "No space left on device"), (74, "tierwise: standard output: No space left on device\n")),
        (InputError("bad", file="f", obj="Pod a/b", field="spec"), (2, "tierwise: f: Pod a/b: spec: bad\n")),
        (
            ApiError(404, "NotFound", 'namespaces "a" not found'),
            (2, 'tierwise: the API server: namespaces "a" not found\n'),
        ),
        (UnreachableError("timed out"), (2, "tierwise: the API server: timed out\n")),
    ],
    ids=["interrupt", "closed pipe", "full disk", "bad input", "refused", "unreachable"],
)
def test_endings(error: BaseException, expected: tuple[int, str]) -> None:
    """Interrupts and closed pipes are silent; everything else is one line."""
    assert expected == ending(error)


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_reader_that_goes_away(output: str) -> None:
    """`tierwise ... | head` ends without a word."""
    words = (*PROGRAM, "topology", "show", "--all", "-f", str(EXAMPLES / "01-llm-training"), "-o", output)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()

    assert b"" == said
    assert 141 == process.returncode


def test_help_loads_nothing_heavy() -> None:
    """`tierwise --help` answers before numpy or rich would have been loaded."""
    script = (
        "import sys, tierwise.cli.main as m\n"
        "try: m.main(['--help'])\n"
        "except SystemExit: print(sorted({'numpy', 'rich', 'msgspec', 'yaml'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run((sys.executable, "-c", script), capture_output=True, text=True, check=True)

    assert "[]\n" == done.stderr

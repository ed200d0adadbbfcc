"""The entry point: which verbs there are, and what becomes of errors.

Exit status: 0 yes, 1 no (`validate`), 2 bad input or usage, 70 a defect of tierwise, 74 output that cannot be
written, 130 interrupted, 141 closed pipe.
Verbs are imported when they are used, so that `tierwise --help` answers at once. Other packages may add some
(`tierwise.cli.verbs`).
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import click

from tierwise import __version__
from tierwise.api.errors import InputError

__all__ = ["LIVE", "VERBS", "Verbs", "cli", "main", "report_error"]

_NARROWEST = 40
"""Columns that a line on standard error takes at least."""

VERBS = {
    "schedule": ("tierwise.cli.schedule:schedule", "Place the pending pods, and show where and why."),
    "explain": ("tierwise.cli.explain:explain", "Explain the decision about one pod or one job."),
    "why": ("tierwise.cli.why:why", "Say in a few lines why a pod waits."),
    "eta": ("tierwise.cli.eta:eta", "Say when waiting jobs are expected to start, and their places."),
    "what-if": ("tierwise.cli.what_if:what_if", "Show what a change would do, or the least that makes a job start."),
    "defrag": ("tierwise.cli.defrag:defrag", "Plan which pods to move so that a gang fits inside one domain."),
    "ask": ("tierwise.cli.ask:ask", "Ask a running scheduler about the jobs of one namespace."),
    "queue": ("tierwise.cli.queue:queue", "Show the jobs that wait, by queue and place, and what makes their order."),
    "nodes": ("tierwise.cli.nodes:nodes", "Show the states of nodes by domain or label."),
    "hold": ("tierwise.cli.hold:hold", "Let jobs or queues wait until they are released, with a reason."),
    "release": ("tierwise.cli.hold:release", "Release jobs or queues that are held."),
    "forgive": ("tierwise.cli.forgive:forgive", "Forgive nodes the starts of pods that failed there."),
    "forget": ("tierwise.cli.forget:forget", "Forget what queues have used: they start anew."),
    "drainable": ("tierwise.cli.drainable:drainable", "Show what draining each domain would break, move and cost."),
    "attention": ("tierwise.cli.attention:attention", "Show what deserves attention, and where its story is."),
    "top": ("tierwise.cli.top:top", "Show what is in use, and what is free for gangs of which size."),
    "serve": ("tierwise.cli.serve:serve", "Show in a browser what is full, what waits and why."),
    "up": ("tierwise.cli.up:up", "Run a cluster in memory that kubectl works against."),
    "validate": ("tierwise.cli.validate:validate", "Check manifests as admission would."),
    "windows": ("tierwise.cli.windows:windows", "Print Slurm's reservations as windows of nodes."),
    "topology": ("tierwise.cli.topology:topology", "Show the tree of hyperNodes, or generate it."),
    "submit": ("tierwise.cli.submit:submit", "Run the whole life of jobs, with simulated kubelets."),
    "reconcile": ("tierwise.cli.reconcile:reconcile", "Run the controllers alone, and show what they change."),
    "snapshot": ("tierwise.cli.snapshot:snapshot", "Save the state of a real cluster in a file."),
    "plugins": ("tierwise.cli.plugins:plugins", "List the plugins that a configuration may name."),
    "config": ("tierwise.cli.config:config", "Convert and check configurations, and show the default one."),
    "features": ("tierwise.cli.features:features", "List the feature gates, and which are on."),
    "crds": ("tierwise.cli.crds:crds", "Print the definitions of the kinds that Kubernetes lacks."),
    "run": ("tierwise.cli.run:run", "Schedule the pods of a real cluster."),
    "controllers": ("tierwise.cli.run:controllers", "Run the controllers on a real cluster."),
    "webhook": ("tierwise.cli.webhook:webhook", "Answer the admission reviews of a real cluster."),
    "audit": ("tierwise.cli.audit:audit", "Check that what a cluster runs keeps every promise."),
    "probe": ("tierwise.cli.probe:probe", "Measure the network between nodes, or answer such measurements."),
    "advertise-bandwidth": (
        "tierwise.cli.advertise_bandwidth:advertise_bandwidth",
        "Publish the speed of a node's interface as a resource.",
    ),
    "replay": ("tierwise.cli.replay:replay", "Repeat cycles that a running scheduler has recorded."),
    "completion": ("tierwise.cli.completion:completion", "Print the completion script of a shell."),
    "version": ("tierwise.cli.version:version", "Print the version, and that of the solver."),
}

_QUESTIONS = (
    "explain",
    "why",
    "eta",
    "ask",
    "what-if",
    "defrag",
    "queue",
    "nodes",
    "drainable",
    "attention",
    "top",
    "audit",
)
LIVE = frozenset((*_QUESTIONS, "hold", "release", "forgive", "forget", "serve", "snapshot", "topology"))
"""Verbs that are about a live cluster where no files are given: those of `kubectl tierwise`, too."""

_EPILOG = """\b
Examples:
  tierwise schedule -f examples/01-llm-training
  tierwise explain -f cluster.yaml -f job.yaml default/train-worker-0
  tierwise submit -f examples/05-a-jobs-life --watch
  kubectl get nodes,hypernodes -o yaml | tierwise topology show -f -
"""


class Verbs(click.Group):
    """Verbs by name, imported when they are needed; and the one place where errors end."""

    def __init__(
        self, *args: Any, verbs: Mapping[str, tuple[str, str]] = VERBS, extended: bool = False, **settings: Any
    ) -> None:
        super().__init__(*args, **settings)
        self._own = verbs
        self._extended = extended  # by verbs of other packages

    @cached_property
    def _verbs(self) -> Mapping[str, tuple[str, str]]:
        """Our own verbs, and those of other packages that have no name of ours."""
        if not self._extended:
            return self._own
        from tierwise.cli.verbs import further_verbs

        return {**self._own, **{name: verb for name, verb in further_verbs().items() if name not in self._own}}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        verb = self._own.get(cmd_name) or self._verbs.get(cmd_name)
        if verb is None:
            return None
        module, _, name = verb[0].partition(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb that is meant; a misspelt one is answered with the nearest, and `help` is --help."""
        word = args[0]
        if word == "help":
            if args[1:]:
                return self.resolve_command(ctx, [*args[1:], "--help"])
            return self._help(ctx)
        if not word.startswith("-") and self.get_command(ctx, word) is None:
            from tierwise.api.errors import suggestion

            ctx.fail(f"No such command '{word}'{suggestion(word, self._verbs)}.")
        return super().resolve_command(ctx, args)

    def _help(self, ctx: click.Context) -> tuple[str, click.Command, list[str]]:
        return "help", click.Command("help", callback=lambda: click.echo((ctx.find_root()).get_help())), []

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self._verbs.items()])

    def invoke(self, ctx: click.Context) -> object:
        try:
            result: object = super().invoke(ctx)
            sys.stdout.flush()
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except InputError as error:
            report_error(str(error))
            ctx.exit(2)
        except KeyboardInterrupt:
            ctx.exit(130)
        except BrokenPipeError:
            _drop_output()
            ctx.exit(141)
        except OSError as error:  # files are read with care, so this is a full disk or the like
            _drop_output()
            report_error(f"{error.filename or 'standard output'}: {error.strerror or error}")
            ctx.exit(74)
        except Exception as error:  # noqa: BLE001 - a defect ends here, with one line instead of a page
            if _said_by_a_server(error):
                report_error(f"the API server: {error}")
                ctx.exit(2)
            _report_defect(error)
            ctx.exit(70)
        return result


def _said_by_a_server(error: Exception) -> bool:
    """Whether an API server said no, or nothing: no defect of ours. Whoever has asked one has imported its errors."""
    errors = sys.modules.get("tierwise.kube.errors")
    return errors is not None and isinstance(error, (errors.ApiError, errors.UnreachableError))


def report_error(text: str) -> None:
    """One line on standard error, broken between words where a terminal is too narrow for it.

    Characters that a terminal would obey are spelled out.
    """
    printable = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    line = f"tierwise: {printable}"
    if sys.stderr.isatty():
        import textwrap
        from shutil import get_terminal_size  # brings readers of archives with it

        width = max(_NARROWEST, get_terminal_size().columns)
        line = textwrap.fill(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    click.echo(line, err=True)


def _report_defect(error: Exception) -> None:
    if os.environ.get("TIERWISE_DEBUG"):
        import traceback

        traceback.print_exception(error)
        return
    message = " ".join(str(error).split())
    text = f"bug in tierwise: {type(error).__name__}{f': {message}' if message else ''}"
    report_error(f"{text} (TIERWISE_DEBUG=1 shows the traceback; please report it)")


def _drop_output() -> None:
    """Drop further output: its reader is gone, and nothing is to complain about that on the way out."""
    try:
        target = sys.stdout.fileno()
    except (OSError, ValueError):  # not a file, as in tests
        return
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, target)
    os.close(sink)


@click.group(
    cls=Verbs,
    extended=True,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "--version", message="%(prog)s %(version)s", prog_name="tierwise")
def cli() -> None:
    """A gang scheduler for Kubernetes that knows the network topology.

    On manifests it changes nothing outside its own memory; `run` and `controllers` act on a cluster. Programs for nodes
    (probe, advertise-bandwidth) look at the network and at interfaces, and print what they find or write it.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, and exit."""
    # Amounts are integers, for which numpy asks no BLAS: threads of it would spin for a while, and be asked for little.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        cli.main(args=arguments, prog_name="tierwise")
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        gc.freeze()  # the process ends: nothing of what it holds need be searched for cycles once more

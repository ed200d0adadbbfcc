"""Options that several verbs share, each defined once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import click

from tierwise.api.meta import parse_time

__all__ = [
    "at",
    "cluster",
    "cluster_options",
    "config",
    "cycles",
    "everything",
    "filenames",
    "journal",
    "now",
    "optional_filenames",
    "output",
    "printed",
    "seconds_of",
    "source",
]

F = TypeVar("F", bound=Callable[..., object])


def _moment(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Seconds since the epoch for an RFC 3339 time."""
    if value is None:
        return None
    try:
        return parse_time(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def seconds_of(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Seconds for a duration as Go writes it."""
    from tierwise.api.duration import seconds

    if value is None:
        return None
    time = seconds(value)
    if time is None or time < 0:
        raise click.BadParameter(f'"{value}" is not a duration such as 90s or 1h30m', ctx, param)
    return time


_FILES: Final = "Manifests: a YAML or JSON file, a folder of them, or - for standard input. May be repeated."
_CLUSTER: Final = "tierwise.cluster"


def filenames(command: F) -> F:
    """-f: where the manifests are."""
    return _filenames(command, _FILES, required=True)


def journal(command: F) -> F:
    """--journal and --journal-size: where cycles are recorded, and how much of them is kept."""
    command = click.option(
        "--journal-size",
        type=click.IntRange(min=1),
        default=256,
        show_default=True,
        metavar="MIB",
        help="How large the journal may become; the oldest cycles are deleted.",
    )(command)
    return click.option(
        "--journal",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Write what each cycle sees and decides to this folder, for `tierwise replay` and `tierwise serve`."
        "  [default: nowhere]",
    )(command)


def optional_filenames(command: F) -> F:
    """-f, where manifests are not all that a command can work on."""
    return _filenames(command, _FILES, required=False)


def source(command: F) -> F:
    """-f: where the manifests are; without it, the cluster that a kubeconfig names."""
    return _filenames(cluster(command), f"{_FILES}  [default: the cluster of the kubeconfig]", required=False)


def _filenames(command: F, text: str, *, required: bool) -> F:
    return click.option(
        "-f",
        "--filename",
        "filenames",
        multiple=True,
        required=required,
        type=click.Path(allow_dash=True),
        metavar="FILE",
        help=text,
    )(command)


def cluster(command: F) -> F:
    """--kubeconfig and --context: which cluster; `cluster_options` gives them to whoever reads it."""
    for name, text in (("context", "Context of the kubeconfig."), ("kubeconfig", "Kubeconfig; as kubectl finds it.")):
        command = click.option(
            f"--{name}", metavar="NAME" if name == "context" else "FILE", expose_value=False, callback=_keep, help=text
        )(command)
    return command


def _keep(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    ctx.meta.setdefault(_CLUSTER, {})[param.name] = value


def cluster_options() -> tuple[str | None, str | None]:
    """The kubeconfig and the context that the command was given."""
    given = click.get_current_context().meta.get(_CLUSTER, {})
    return given.get("kubeconfig"), given.get("context")


def config(command: F) -> F:
    """--config: how to schedule."""
    return click.option(
        "--config",
        "config_file",
        type=click.Path(),
        metavar="FILE",
        help="Scheduler configuration: Volcano's (volcano-scheduler.conf) or a KubeSchedulerConfiguration.",
    )(command)


def cycles(command: F) -> F:
    """--cycles: how long."""
    return click.option(
        "--cycles",
        type=click.IntRange(min=1),
        metavar="N",
        help="Run so many cycles. Default: until nothing changes any more.",
    )(command)


def now(command: F) -> F:
    """--now: at what time."""
    return click.option(
        "--now",
        callback=_moment,
        metavar="TIME",
        help="The time of the run (RFC 3339). Default: the newest time in the manifests, "
        "else 2026-01-01T00:00:00Z; never the clock, so that a run can be repeated.",
    )(command)


def at(command: F) -> F:
    """--at: a moment of the past."""
    return click.option(
        "--at", callback=_moment, metavar="TIME", help="The last cycle that was not after this time (RFC 3339)."
    )(command)


def output(command: F) -> F:
    """-o: for whom."""
    return click.option(
        "-o",
        "--output",
        "output_format",
        type=click.Choice(["text", "json"]),
        default="text",
        help="For people or for programs.  [default: text]",
    )(command)


def everything(command: F) -> F:
    """--all: nothing folded."""
    return click.option("--all", "everything", is_flag=True, help="Show everything; fold and omit nothing.")(command)


def printed(command: F) -> F:
    """--print: results of programs on nodes for people, and for other programs."""
    return click.option(
        "--print", "printed", is_flag=True, help="Print what is to be written to a cluster, as manifests."
    )(command)

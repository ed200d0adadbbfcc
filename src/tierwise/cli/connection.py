"""Options of verbs that reach a cluster or open a server, and what they come to."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from tierwise.kube.auth import Access

__all__ = ["access_options", "connect", "listen_option", "log_option", "missing", "place_option"]

F = TypeVar("F", bound=Callable[..., object])


def access_options(command: F) -> F:
    """How to reach the cluster."""
    for option in (
        click.option("--context", metavar="NAME", help="Context of the kubeconfig.  [default: the current one]"),
        click.option("--in-cluster", is_flag=True, help="Use the service account of the pod that this runs in."),
        click.option(
            "--kubeconfig",
            metavar="FILE",
            type=click.Path(),
            help="Kubeconfig.  [default: as kubectl finds it; the service account where there is none]",
        ),
    ):
        command = option(command)
    return command


def connect(kubeconfig: str | None, context: str | None, *, in_cluster: bool) -> Access:
    """The access to a cluster that the options ask for."""
    try:
        from tierwise.kube import auth
    except ImportError as error:
        raise missing(error) from None
    if in_cluster and (kubeconfig or context):
        raise click.UsageError("--in-cluster excludes --kubeconfig and --context")
    from_pod = not kubeconfig and not context and "KUBERNETES_SERVICE_HOST" in os.environ
    if in_cluster or (from_pod and not Path("~/.kube/config").expanduser().exists()):
        return auth.in_cluster()
    return auth.access(kubeconfig, context)


def _place(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, int] | None:
    try:
        from tierwise.runtime.listener import place
    except ImportError as error:
        raise missing(error) from None
    try:
        return None if value is None else place(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def missing(error: ImportError) -> click.UsageError:
    """What to say where the libraries for clusters and servers are not installed."""
    return click.UsageError(f"{error.name} is missing: install tierwise with the extra `kube`")


def place_option(**settings: Any) -> Callable[[F], F]:
    """--listen, as host and port; the settings are those of any option."""
    return click.option("--listen", callback=_place, metavar="HOST:PORT", **settings)


def listen_option(command: F) -> F:
    """--listen: where to tell how we are."""
    return place_option(
        help="Serve /metrics, /healthz and /readyz there.",
    )(command)


def log_option(command: F) -> F:
    """--log-level: how much to write."""
    return click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        show_default=True,
        help="What to write to standard error, as JSON lines.",
    )(command)

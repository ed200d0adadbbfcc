"""Options of verbs that reach a cluster or open a server, and what they come to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from tierwise.cli.options import option

if TYPE_CHECKING:
    from tierwise.kube.auth import Access

__all__ = ["ClusterAccess", "connect", "listen", "log_level", "place"]


class ClusterAccess(msgspec.Struct, frozen=True):
    """How to reach the cluster."""

    kubeconfig: str | None = option(
        "--kubeconfig FILE", "Kubeconfig.  [default: as kubectl finds it; the service account where there is none]"
    )
    in_cluster: bool = option("--in-cluster", "Use the service account of the pod that this runs in.")
    context: str | None = option("--context NAME", "Context of the kubeconfig.  [default: the current one]")

    @property
    def given(self) -> bool:
        """Whether a cluster was asked for."""
        return bool(self.kubeconfig or self.context or self.in_cluster)

    def connect(self) -> Access:
        """The access to the cluster."""
        return connect(self.kubeconfig, self.context, in_cluster=self.in_cluster)


def connect(kubeconfig: str | None, context: str | None, *, in_cluster: bool = False) -> Access:
    """The access to a cluster that the options ask for."""
    from tierwise.kube import auth

    if in_cluster and (kubeconfig or context):
        raise click.UsageError("--in-cluster excludes --kubeconfig and --context")
    from_pod = not kubeconfig and not context and "KUBERNETES_SERVICE_HOST" in os.environ
    if in_cluster or (from_pod and not Path("~/.kube/config").expanduser().exists()):
        return auth.in_cluster()
    return auth.access(kubeconfig, context)


def _place(text: str) -> tuple[str, int]:
    from tierwise.runtime.listener import place as read

    return read(text)


def place(text: str, default: str | None = None) -> Any:
    """--listen, as host and port."""
    return option("--listen HOST:PORT", text, default=default, read=_place)


listen: Final = place("Serve /metrics, /healthz and /readyz there.")
log_level: Final = option(
    "--log-level",
    "What to write to standard error, as JSON lines.",
    choices=("debug", "info", "warning", "error"),
    default="info",
)

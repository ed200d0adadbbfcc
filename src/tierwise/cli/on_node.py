"""What programs for nodes have in common: print what they found, or tell a cluster again and again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from tierwise.api.errors import InputError

if TYPE_CHECKING:
    from tierwise.cli.connection import ClusterAccess
    from tierwise.kube.auth import Access
    from tierwise.kube.node_reports import NodeView
    from tierwise.port import Effect, Objects

__all__ = ["ending", "live_access", "tell"]

T = TypeVar("T")


def live_access(cluster: ClusterAccess, *, files: bool, printed: bool) -> Access | None:
    """The cluster to write to, None where results are printed; never one that was not asked for."""
    if cluster.given and (printed or files):
        raise click.UsageError("-f and --print are for work without a cluster: they do not go with one.")
    if not cluster.given and not printed:
        raise click.UsageError("Say which cluster to write to with --in-cluster or --kubeconfig, or add --print.")
    return cluster.connect() if cluster.given else None


def tell(
    access: Access,
    sight: NodeView,
    find: Callable[[Objects], T],
    effects_of: Callable[[Objects, T], Sequence[Effect]],
    *,
    once: bool,
    interval: int,
) -> None:
    """Report now and after every interval. What fails is said and tried again; with `once` it is exit status 1."""
    import asyncio
    import random
    import time

    from tierwise.cli.main import report_error
    from tierwise.kube.errors import ApiError, UnreachableError
    from tierwise.kube.node_reports import report

    with ending():
        while True:
            try:
                asyncio.run(report(access, sight, find, effects_of))
                failed = False
            except (ApiError, InputError) as error:
                report_error(str(error))
                failed = True
            except UnreachableError as error:
                report_error(f"the API server cannot be reached: {error}")
                failed = True
            if once:
                click.get_current_context().exit(int(failed))
            time.sleep(interval * random.uniform(0.9, 1.1))  # so that nodes do not come all at once


@contextlib.contextmanager
def ending() -> Iterator[None]:
    """SIGTERM ends the program: the first process of a container would not hear it otherwise."""
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        raise SystemExit(0)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

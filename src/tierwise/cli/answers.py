"""The answers API of a running scheduler: its options, and the server beside the loop."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from tierwise.cli.options import option

if TYPE_CHECKING:
    from aiohttp import web

    from tierwise.kube.auth import Access
    from tierwise.kube.cluster import KubeCluster
    from tierwise.runtime.certificates import Certificate
    from tierwise.runtime.profile_run import SchedulerProfile
    from tierwise.web.views import Basis

__all__ = ["AnswersOptions", "answering"]

_LOOK: Final = 60.0
"""Seconds between looks at the files of the certificate."""

_HERE: Final = ("127.0.0.1", "::1", "localhost")


def _place(text: str) -> tuple[str, int]:
    from tierwise.runtime.listener import place as read

    return read(text)


class AnswersOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Whether users of one namespace are answered, where, and how they are known."""

    answers: tuple[str, int] | None = option(
        "--answers HOST:PORT",
        "Answer users of single namespaces there, over TLS, each about the jobs that they may see.  [default: no]",
        read=_place,
    )
    answers_tls: Path | None = option(
        "--answers-tls FOLDER",
        "Where tls.crt and tls.key of --answers are; they are read again when they change.  [default: no TLS, which "
        "works on 127.0.0.1 alone]",
    )
    answers_audience: str = option(
        "--answers-audience NAME",
        "The audience that tokens for --answers must have.  [default: that of the API server]",
        default="",
    )


@contextlib.contextmanager
def answering(
    options: AnswersOptions, cluster: KubeCluster, access: Access, served: Sequence[SchedulerProfile]
) -> Iterator[None]:
    """The answers API meanwhile, where it is asked for.

    It is about pods of the first profile: those of others count as room in use.
    """
    if options.answers is None:
        yield
        return
    host, port = options.answers
    if options.answers_tls is None and host not in _HERE:
        raise click.UsageError("--answers needs --answers-tls: users send their tokens there")
    if not served:
        raise click.UsageError("--answers needs a profile whose pods are scheduled")
    from tierwise.answers.app import application
    from tierwise.answers.reviews import ClusterReviewer
    from tierwise.answers.service import AnswerService
    from tierwise.kube.client import Client
    from tierwise.runtime.listener import listening

    certificate = _certificate(options.answers_tls) if options.answers_tls is not None else None
    client = Client(access)
    service = AnswerService(_basis_of(cluster, served[0]))
    app = application(service, ClusterReviewer(client, options.answers_audience))

    async def connect(_: web.Application) -> AsyncIterator[None]:
        async with client:
            yield

    app.cleanup_ctx.append(connect)
    if certificate is not None:
        app.cleanup_ctx.append(_watching(certificate))
    with listening(app, host, port, certificate.context if certificate is not None else None):
        yield


def _basis_of(cluster: KubeCluster, served: SchedulerProfile) -> Callable[[], Basis | None]:
    """The cluster as its caches have it, whether this replica leads or not; None until they are filled."""
    from tierwise.web.views import Basis

    def basis() -> Basis | None:
        if not cluster.synced():
            return None
        return Basis(cluster.read(), served.profile, time.time(), served.schedulers)

    return basis


def _certificate(folder: Path) -> Certificate:
    from tierwise.api.extras import imported
    from tierwise.cli.webhook import certificate_in

    imported("cryptography", "kube", "run --answers-tls")
    return certificate_in(folder)


def _watching(certificate: Certificate) -> Callable[[web.Application], AsyncIterator[None]]:
    """Reads a certificate again when its files change, as long as an application runs."""
    import asyncio

    async def watch(_: web.Application) -> AsyncIterator[None]:
        watching = asyncio.create_task(certificate.watch(_LOOK, lambda: None))
        yield
        watching.cancel()

    return watch

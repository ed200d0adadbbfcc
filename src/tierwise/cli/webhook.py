"""`tierwise webhook`: the admission webhook of a cluster."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tierwise.cli import connection
from tierwise.cli.connection import ClusterAccess
from tierwise.cli.options import option, verb

if TYPE_CHECKING:
    from tierwise.kube.auth import Access
    from tierwise.kube.client import Client
    from tierwise.runtime.certificates import Certificate, CertificateNames

__all__ = ["certificate_in", "webhook"]

_RENEW = 3600.0
"""Seconds between looks at the Secret: another replica may have renewed it, or this one has to."""


@verb("""
  tierwise webhook --in-cluster --self-signed --tls-folder /run/tls
  tierwise webhook --tls-folder certs --port 9443 --no-cluster
""")
def webhook(
    *,
    cluster: ClusterAccess,
    no_cluster: bool = option("--no-cluster", "Judge every object by itself, without reading the others."),
    host: str = option("--host", "Address to answer reviews on.", default="0.0.0.0"),
    port: int = option("--port", "Port to answer them on.", default=8443, least=1, most=65535),
    tls_folder: Path = option(
        "--tls-folder FOLDER", "Folder of tls.crt and tls.key, which are read again when they change.", required=True
    ),
    self_signed: bool = option("--self-signed", "Make the certificate, keep it in a Secret, and renew it."),
    namespace: str | None = option(
        "--namespace NAME", "Namespace of the Secret and of the Service.  [default: where this runs, else tierwise]"
    ),
    listen: tuple[str, int] | None = connection.listen,
    log_level: str = connection.log_level,
) -> None:
    """Answer the API server's admission reviews over TLS until told to end.

    /validate refuses what `tierwise validate` calls an error, and passes warnings on; /mutate fills in defaults. What
    becomes of objects while none answers is the failurePolicy of the webhook configurations.
    """
    if no_cluster and self_signed:
        raise click.UsageError("--self-signed needs a cluster to keep the certificate in")
    access = None if no_cluster else cluster.connect()
    from tierwise.api.extras import imported
    from tierwise.runtime.logs import set_up

    imported("cryptography", "kube", "webhook")
    set_up(sys.stderr, log_level)
    names = _names(namespace) if self_signed else None
    asyncio.run(_serve(access, names, tls_folder, (host, port), listen))


def _names(namespace: str | None) -> CertificateNames:
    from tierwise.kube.auth import own_namespace
    from tierwise.runtime.certificates import CertificateNames

    return CertificateNames(namespace or own_namespace("tierwise"))


async def _serve(
    access: Access | None,
    names: CertificateNames | None,
    folder: Path,
    at: tuple[str, int],
    listen: tuple[str, int] | None,
) -> None:
    import contextlib
    import signal

    from tierwise.kube.client import Client
    from tierwise.kube.cluster import KubeCluster
    from tierwise.port import Objects
    from tierwise.runtime.listener import listening
    from tierwise.runtime.metrics import AdmissionMetrics, registry
    from tierwise.runtime.probes import probes
    from tierwise.runtime.review import Reviewer
    from tierwise.runtime.webhook import Webhook, application

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        if access is not None and names is not None:
            client = await stack.enter_async_context(Client(access))
            await _renew(client, names, folder)
            renewing = asyncio.create_task(_keep(client, names, folder))
            stack.callback(renewing.cancel)
        cluster = stack.enter_context(KubeCluster(access)) if access is not None else None
        metrics_registry = registry()
        metrics = AdmissionMetrics(metrics_registry)
        if listen is not None:
            ready = (lambda: "" if cluster.synced() else "caches are not filled yet") if cluster else lambda: ""
            stack.enter_context(listening(probes(metrics_registry, live=lambda: "", ready=ready), *listen))
        reviewer = Reviewer(cluster.read if cluster is not None else Objects)
        await Webhook(application(reviewer, metrics), certificate_in(folder), metrics).serve(*at, stop)


def certificate_in(folder: Path) -> Certificate:
    """The certificate and key in a folder; InputError where they cannot be used."""
    import ssl

    from tierwise.api.errors import InputError
    from tierwise.runtime.certificates import Certificate

    try:
        return Certificate(folder / "tls.crt", folder / "tls.key")
    except ssl.SSLError as error:
        raise InputError(f"certificate and key do not go together: {error}", file=str(folder)) from None
    except OSError as error:
        raise InputError(error.strerror or str(error), file=str(error.filename or folder)) from None


async def _renew(client: Client, names: CertificateNames, folder: Path) -> None:
    from datetime import UTC, datetime

    from tierwise.runtime.certificates import place_files, secure

    folder.mkdir(parents=True, exist_ok=True)
    place_files(await secure(client, names, datetime.now(UTC)), folder)


async def _keep(client: Client, names: CertificateNames, folder: Path) -> None:
    """Renew for ever; a look that fails is made up for by the next, long before anything expires."""
    import logging

    from tierwise.kube.errors import ApiError, UnreachableError

    while True:
        await asyncio.sleep(_RENEW)
        try:
            await _renew(client, names, folder)
        except (ApiError, UnreachableError) as error:
            logging.getLogger(__name__).warning("the certificate could not be looked after: %s", error)

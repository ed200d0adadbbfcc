"""Where the API server is and how to prove who we are: read by the official client, used by ours.

Kubeconfig merging, exec plugins, client certificates and rotating service account tokens are the official client's;
nothing here reads a credential itself.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import msgspec

from tierwise.api.errors import InputError

__all__ = ["Access", "access", "in_cluster", "own_namespace"]

_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class Access(msgspec.Struct, frozen=True):
    """A server, the trust in it, and the header that proves who we are; `token` may block to fetch a fresh one."""

    server: str
    tls: ssl.SSLContext | None = None
    token: Callable[[], str | None] = lambda: None
    server_name: str | None = None
    proxy: str | None = None


def access(kubeconfig: str | None = None, context: str | None = None) -> Access:
    """By a kubeconfig (None: where kubectl would look); InputError where it cannot be used."""
    from kubernetes import config
    from kubernetes.client import Configuration

    found = Configuration()
    try:
        config.load_kube_config(kubeconfig, context=context, client_configuration=found)  # type: ignore[no-untyped-call]
        return _from(found)
    except Exception as error:  # noqa: BLE001 - the official client raises whatever it meets in a file
        said = " ".join(str(error).split())
        known = isinstance(error, config.ConfigException | OSError | ValueError) and said
        text = said if known else f"cannot be used ({type(error).__name__}{f': {said}' if said else ''})"
        raise InputError(text, file=kubeconfig or "kubeconfig") from None


def in_cluster() -> Access:
    """By the service account of the pod that we run in."""
    from kubernetes import config
    from kubernetes.client import Configuration

    found = Configuration()
    try:
        config.load_incluster_config(client_configuration=found)  # type: ignore[no-untyped-call]
    except config.ConfigException as error:
        raise InputError(f"not in a cluster: {error}") from None
    return _from(found)


def own_namespace(fallback: str) -> str:
    """The namespace of the pod that we run in."""
    try:
        return _NAMESPACE.read_text(encoding="utf-8").strip() or fallback
    except OSError:
        return fallback


def _from(found: object) -> Access:
    from kubernetes.client import Configuration

    assert isinstance(found, Configuration)
    return Access(
        server=str(found.host).rstrip("/"),
        tls=_tls(found.ssl_ca_cert, found.cert_file, found.key_file, verify=bool(found.verify_ssl)),
        token=lambda: found.get_api_key_with_prefix("authorization", "BearerToken"),
        server_name=found.tls_server_name,
        proxy=found.proxy,
    )


def _tls(authority: str | None, certificate: str | None, key: str | None, *, verify: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        context.load_cert_chain(certificate, key)
    return context

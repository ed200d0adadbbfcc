"""The address of the API server, and our credentials for it.

A service account, and a kubeconfig that names one file, one server and a token, are read here. Everything else, such as
merged files, exec plugins, certificates inside the file and whatever is odd, is left to the official client, which does
it fully and takes a quarter of a second to import: a third of the time from the start of a scheduler to its first bind.
"""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from tierwise.api.errors import InputError

__all__ = ["Access", "access", "in_cluster", "own_namespace", "plain"]

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Access(msgspec.Struct, frozen=True):
    """A server, the trust in it, and the header that proves who we are; `token` may block to fetch a fresh one."""

    server: str
    tls: ssl.SSLContext | None = None
    token: Callable[[], str | None] = lambda: None
    server_name: str | None = None
    proxy: str | None = None


def access(kubeconfig: str | None = None, context: str | None = None) -> Access:
    """By a kubeconfig (None: where kubectl would look); InputError where it cannot be used."""
    simple = plain(Path(kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config").expanduser(), context)
    if simple is not None:
        return simple
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


def in_cluster(folder: Path = _ACCOUNT) -> Access:
    """By the service account of the pod that we run in; its token rotates."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise InputError("not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    read = _reading(folder / "token")
    try:
        if not read():
            raise InputError(f"not in a cluster: {folder / 'token'} is empty")
        tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    except OSError as error:
        raise InputError(f"not in a cluster: {folder}: {error.strerror or error}") from None
    return Access(f"https://{f'[{host}]' if ':' in host else host}:{port}", tls, read)


class _Server(msgspec.Struct, forbid_unknown_fields=True, rename="kebab"):
    server: str
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    extensions: object = None


class _User(msgspec.Struct, forbid_unknown_fields=True):
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")


class _Context(msgspec.Struct):
    cluster: str
    user: str


class _Named(msgspec.Struct):
    name: str
    cluster: object = None
    user: object = None
    context: object = None


class _Config(msgspec.Struct, rename="kebab"):
    clusters: list[_Named]
    users: list[_Named]
    contexts: list[_Named]
    current_context: str = ""


def plain(file: Path, context: str | None) -> Access | None:
    """What a kubeconfig without anything special says; None where somebody who knows more must read it."""
    import yaml

    try:
        config = msgspec.convert(yaml.safe_load(file.read_bytes()), _Config)
        (chosen,) = (c.context for c in config.contexts if c.name == (context or config.current_context))
        names = msgspec.convert(chosen, _Context)
        (server,) = (msgspec.convert(c.cluster, _Server) for c in config.clusters if c.name == names.cluster)
        (user,) = (msgspec.convert(u.user, _User) for u in config.users if u.name == names.user)
        if bool(user.token) == bool(user.token_file) or not server.server.startswith(("http://", "https://")):
            return None
        path = file.parent / server.certificate_authority if server.certificate_authority else None
        authority = base64.b64decode(server.certificate_authority_data, validate=True).decode()
        tls = ssl.create_default_context(cafile=path and str(path), cadata=authority or None)
        token = _reading(file.parent / user.token_file) if user.token_file else (lambda: f"Bearer {user.token}")
        token()
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return None
    if server.insecure_skip_tls_verify:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return Access(server.server.rstrip("/"), tls, token)


def _reading(file: Path) -> Callable[[], str]:
    """The header for a token in a file, as it is when it is asked for."""

    def read() -> str:
        token = file.read_text(encoding="utf-8").strip()
        return f"Bearer {token}" if token else ""

    return read


def own_namespace(fallback: str) -> str:
    """The namespace of the pod that we run in."""
    try:
        return (_ACCOUNT / "namespace").read_text(encoding="utf-8").strip() or fallback
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

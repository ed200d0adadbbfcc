"""The address of the API server, and our credentials for it: by a kubeconfig, or by the account of our pod."""

from __future__ import annotations

import json
import logging
import os
import ssl
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path
from threading import Lock
from typing import Final
from urllib.parse import urlsplit

import msgspec

from tierwise.api.errors import InputError
from tierwise.kube.kubeconfig import Server, User, is_address, load

__all__ = ["Access", "access", "in_cluster", "own_namespace"]

log = logging.getLogger(__name__)

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Access(msgspec.Struct, frozen=True):
    """A server, the trust in it, and the header that proves who we are.

    `tls` is asked for each new connection, since authorities and certificates are replaced while we run.
    `token` may block to fetch a fresh one, and raises OSError where there is none; `forget` is called when the server
    does not accept the last one.
    """

    server: str
    tls: Callable[[], ssl.SSLContext | None] = lambda: None
    token: Callable[[], str | None] = lambda: None
    server_name: str | None = None
    proxy: str | None = None
    forget: Callable[[], None] = lambda: None


def access(kubeconfig: str | None = None, context: str | None = None) -> Access:
    """By a kubeconfig (None: where kubectl would look); InputError where it cannot be used."""
    server, user = load(kubeconfig, context)
    trust = _trusting(server, user)
    token, forget = _credentials(user, server, trust)
    try:
        token()
    except OSError as error:
        raise InputError(
            str(error) if error.strerror is None else f"{error.filename}: {error.strerror}", file=user.file
        ) from None
    proxy = server.proxy_url or _proxy_of_environment(server.server)
    return Access(server.server.rstrip("/"), trust.context, token, server.tls_server_name or None, proxy, forget)


def in_cluster(folder: Path = _ACCOUNT) -> Access:
    """By the service account of the pod that we run in; its token rotates."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    port = os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise InputError("not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    read_token = _reading(folder / "token")
    try:
        if not read_token():
            raise InputError(f"not in a cluster: {folder / 'token'} is empty")
        authority = folder / "ca.crt"
        trust = Trust(lambda: (authority.read_bytes(), b"", b""), _strict)
    except (OSError, ValueError) as error:
        cause = (error.strerror if isinstance(error, OSError) else "") or error
        raise InputError(f"not in a cluster: {folder}: {cause}") from None
    address = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    if not is_address(address):
        raise InputError(f"not in a cluster: {address!r} is not the address of a host and a port")
    return Access(address, trust.context, read_token)


def own_namespace(fallback: str) -> str:
    """The namespace of the pod that we run in."""
    try:
        return (_ACCOUNT / "namespace").read_text(encoding="utf-8").strip() or fallback
    except OSError:
        return fallback


Material = tuple[bytes, bytes, bytes]
"""Authorities that sign the server's certificate (none: those of the system), our own certificate, and its key."""


class Trust:
    """Whom we trust to be the server, and the certificate that we show it, as their files are now.

    What can no longer be read, or not be used, leaves everything as it was: a file may be read half-written.
    """

    def __init__(self, read_material: Callable[[], Material], build: Callable[[bytes], ssl.SSLContext]) -> None:
        """OSError or ValueError where what is there now cannot be used; `build` makes a context of authorities."""
        self._read = read_material
        self._build = build
        self._lock = Lock()
        self._given: tuple[bytes, bytes] = (b"", b"")  # a certificate and its key from a program
        self._seen = read_material()
        self._context = self._built(self._seen)

    def context(self) -> ssl.SSLContext:
        """For a new connection. Reads small files, and builds anew what has changed in them."""
        with self._lock:
            try:
                material = self._read()
            except (OSError, ValueError, InputError) as error:
                self._keep(str(error))
                return self._context
            if material != self._seen:
                self._seen = material  # what cannot be used is told once
                try:
                    self._context = self._built(material)
                    log.info("the authorities of the API server, or our certificate, have changed: read again")
                except (OSError, ValueError) as error:
                    self._keep(str(error))
            return self._context

    def show(self, certificate: bytes, key: bytes) -> None:
        """Use this client certificate and key, as a credential program has given them, on connections from now on.

        OSError or ValueError where they cannot be used; then what was used before stays noted.
        """
        with self._lock:
            _show(self._context, certificate, key)
            self._given = certificate, key

    def _built(self, material: Material) -> ssl.SSLContext:
        authorities, certificate, key = material
        context = self._build(authorities)
        certificate, key = (certificate, key) if certificate else self._given
        if certificate:
            _show(context, certificate, key)
        return context

    def _keep(self, why: str) -> None:
        log.warning("authorities and certificates stay as they were: %s", why)


def _strict(authorities: bytes) -> ssl.SSLContext:
    """A context that trusts servers of these authorities alone; without any, those of the system."""
    return ssl.create_default_context(cadata=authorities.decode() or None)


def _trusting(server: Server, user: User) -> Trust:
    def build(authorities: bytes) -> ssl.SSLContext:
        tls = _strict(authorities)
        if server.insecure_skip_tls_verify:
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        return tls

    try:
        build(server.authority())
    except (OSError, ValueError) as error:
        raise server.wrong("certificate-authority", error) from None
    try:
        return Trust(lambda: (server.authority(), *user.certificate()), build)
    except (OSError, ValueError) as error:
        raise user.wrong("client-certificate", error) from None


def _credentials(user: User, server: Server, trust: Trust) -> tuple[Callable[[], str | None], Callable[[], None]]:
    """How to get the header, and what to do when it is refused. As kubectl: a token counts before a program."""
    if user.token_file:
        return _reading(Path(user.token_file), user.token), lambda: None
    if user.token:
        return lambda: f"Bearer {user.token}", lambda: None
    if user.username:
        pair = b64encode(f"{user.username}:{user.password}".encode()).decode()
        return lambda: f"Basic {pair}", lambda: None
    if user.exec is not None and not user.certificate()[0]:
        plugin = ExecPlugin(user, server, trust.show)
        return plugin.token, plugin.forget
    return lambda: None, lambda: None


def _show(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Show a certificate to servers. OpenSSL reads it from a file alone: one in memory, which has no name on a disk."""
    pem = certificate.rstrip() + b"\n" + key
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("client-certificate")
        try:
            os.write(file, pem)
            tls.load_cert_chain(f"/proc/self/fd/{file}")
        finally:
            os.close(file)
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder) / "client.pem"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file_:
            file_.write(pem)
        tls.load_cert_chain(path)


def _reading(file: Path, otherwise: str = "") -> Callable[[], str]:
    """The header for a token in a file, as it is when it is asked for."""

    def read() -> str:
        try:
            token = file.read_text(encoding="utf-8").strip()
        except UnicodeDecodeError:
            raise OSError(f"{file}: the text is not UTF-8") from None
        except OSError:
            if not otherwise:
                raise
            token = ""
        if token or otherwise:
            return f"Bearer {token or otherwise}"
        return ""

    return read


def _proxy_of_environment(server: str) -> str | None:
    """HTTPS_PROXY or HTTP_PROXY, unless NO_PROXY names the server; never for this machine, as kubectl has it."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    name = f"{parts.scheme}_proxy"
    proxy = os.environ.get(name) or os.environ.get(name.upper())
    if not proxy or host == "localhost":
        return None
    try:
        address = ip_address(host)
    except ValueError:
        address = None
    if address is not None and address.is_loopback:
        return None
    for entry in (os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "").split(","):
        if excepted := entry.strip().lower():
            if excepted == "*" or host == excepted or host.endswith(f".{excepted.lstrip('.')}"):
                return None
            if address is not None and "/" in excepted and _inside(address, excepted):
                return None
    if not is_address(proxy):
        raise InputError(f"{name.upper()}: {proxy!r} is not the address of a proxy, as http://HOST:PORT")
    return proxy


def _inside(address: object, network: str) -> bool:
    try:
        return address in ip_network(network, strict=False)
    except ValueError:
        return False


# Credentials from a program, as `exec` in a kubeconfig asks for them (client.authentication.k8s.io v1 and v1beta1).


_BEFOREHAND: Final = timedelta(seconds=60)
"""How long before its end a credential is renewed."""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _Credential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


class ExecPlugin:
    """The program's last answer, for as long as it is good; `show` is given client certificates, as PEM."""

    def __init__(self, user: User, server: Server, show: Callable[[bytes, bytes], None]) -> None:
        assert user.exec is not None
        self._user = user
        self._server = server
        self._asked = user.exec
        self._show = show
        self._last: _Status | None = None
        self._lock = Lock()

    def token(self) -> str | None:
        """The header; OSError where the program gives nothing that can be used."""
        with self._lock:
            previous_token = self._last
            ends = previous_token.expiration_timestamp if previous_token is not None else None
            if previous_token is None or (ends is not None and datetime.now(UTC) > ends - _BEFOREHAND):
                previous_token = self._last = self._ask()
            if previous_token.token:
                return f"Bearer {previous_token.token}"
            return None

    def forget(self) -> None:
        """The server does not accept the last answer."""
        with self._lock:
            self._last = None

    def _ask(self) -> _Status:
        command = self._asked
        interactive = command.interactive_mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
        if command.interactive_mode == "Always" and not interactive:
            raise self._failed("it wants to ask a person, and standard input is no terminal")
        spec: dict[str, object] = {"interactive": interactive}
        if command.provide_cluster_info:
            spec["cluster"] = self._cluster()
        request = {"apiVersion": command.api_version, "kind": "ExecCredential", "spec": spec}
        variables = {**os.environ, **{entry.name: entry.value for entry in command.env or []}}
        try:
            done = subprocess.run(
                [command.command, *(command.args or [])],
                env={**variables, "KUBERNETES_EXEC_INFO": json.dumps(request)},
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if interactive else subprocess.PIPE,
                check=False,
            )
        except OSError as error:
            hint = f"; {command.install_hint}" if command.install_hint else ""
            raise self._failed(f"{error.strerror}{hint}") from None
        if done.returncode:
            stderr = (done.stderr or b"").decode(errors="replace")
            raise self._failed(f"exit status {done.returncode}{f': {stderr}' if stderr.strip() else ''}")
        return self._read_credential(done.stdout)

    def _read_credential(self, answer: bytes) -> _Status:
        """Status in the program's answer, whose certificate is shown to TLS. Raises if the answer cannot be used."""
        try:
            credential = msgspec.json.decode(answer, type=_Credential)
        except msgspec.MsgspecError as error:
            raise self._failed(f"its answer is not an ExecCredential: {error}") from None
        version = self._asked.api_version
        status = credential.status
        if (credential.api_version, credential.kind) != (version, "ExecCredential") or status is None:
            raise self._failed(f"its answer is not an ExecCredential of {version} with a status")
        if not status.token and not status.client_certificate_data:
            raise self._failed("its answer has neither a token nor a certificate")
        if status.client_certificate_data:
            try:
                self._show(status.client_certificate_data.encode(), status.client_key_data.encode())
            except (OSError, ValueError) as error:
                raise self._failed(f"its certificate cannot be used: {error}") from None
        return status

    def _cluster(self) -> dict[str, object]:
        """Description of the server for the credential program."""
        server = self._server
        settings = {
            "server": server.server,
            "tls-server-name": server.tls_server_name,
            "insecure-skip-tls-verify": server.insecure_skip_tls_verify,
            "certificate-authority-data": b64encode(server.authority()).decode(),
            "proxy-url": server.proxy_url,
            "disable-compression": server.disable_compression,
        }
        named = (
            e.get("extension") for e in server.extensions or () if e.get("name") == "client.authentication.k8s.io/exec"
        )
        present: dict[str, object] = {key: value for key, value in settings.items() if value}
        config = next(named, None)
        if config is None:
            return present
        return {**present, "config": config}

    def _failed(self, why: str) -> OSError:
        return OSError(f"{self._user.at}.exec: {self._asked.command}: {' '.join(why.split())}")

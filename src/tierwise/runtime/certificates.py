"""Certificates for the webhook where no one else provides them: an authority of its own, and a server signed by it.

Elliptic curve keys, no randomness beyond what keys and serial numbers need, times passed in. Writes nothing.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tierwise.kube.errors import ApiError
from tierwise.runtime.private_file import private_file

__all__ = ["Bundle", "Certificate", "CertificateNames", "expires", "issue", "place_files", "secure", "tls_of"]


_LIFE: Final = timedelta(days=365)
_SLACK: Final = timedelta(days=1)  # for clocks that disagree


class Bundle(msgspec.Struct, frozen=True):
    """PEM texts: the authority that clients trust, and certificate and key of the server."""

    authority: bytes
    certificate: bytes
    key: bytes


def issue(hosts: Sequence[str], now: datetime, life: timedelta = _LIFE) -> Bundle:
    """A new authority, and a certificate of it for these host names; the authority's key is forgotten."""
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tierwise webhook authority")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    own_id = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = (
        _begin(issuer, issuer, authority_key, now, life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(own_id, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
    server = (
        _begin(subject, issuer, server_key, now, life)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own_id), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return Bundle(_pem(authority), _pem(server), _private(server_key))


def expires(certificate: bytes) -> datetime:
    """When the first certificate of a PEM text ends; ValueError where there is none."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def _begin(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.astimezone(UTC) - _SLACK)
        .not_valid_after(now.astimezone(UTC) + life)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


# Certificates without outside help: made by the webhook, shared in a Secret, trusted by the API server.
#
# The Secret is authoritative: a replica that finds it missing or expired writes a new one, and one that loses that race
# uses the winner's. The previous authority stays trusted, so that a replica which still serves the old certificate is
# accepted until it has read the new one.


log = logging.getLogger(__name__)

_EARLY: Final = timedelta(days=120)
_ATTEMPTS: Final = 5
_END: Final = b"-----END CERTIFICATE-----\n"
_CONFIGURATIONS: Final = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")


class CertificateNames(msgspec.Struct, frozen=True):
    """Which Secret and Service in which namespace, and which two configurations."""

    namespace: str
    secret: str = "tierwise-webhook"
    service: str = "tierwise-webhook"
    configuration: str = "tierwise"

    def hosts(self) -> list[str]:
        """The DNS names of the Service, as the API server and manual requests use them."""
        inside = f"{self.service}.{self.namespace}.svc"
        return [inside, f"{inside}.cluster.local"]


class _Asks(Protocol):
    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        kind: str = "application/json",
        expects: str = "",
    ) -> bytes:
        """The answer of the API server, of a kind that ends so; ApiError for a no."""


async def secure(client: _Asks, names: CertificateNames, now: datetime) -> Bundle:
    """A certificate that is good for a while yet, known to the API server; made where there is none."""
    for _ in range(_ATTEMPTS):
        secret = await _find(client, names)
        present = _bundle(secret) if secret is not None else None
        if present is None or expires(present.certificate) - now < _EARLY:
            present = await _renew(client, names, secret, present, now)
        if present is not None:
            await _trust(client, names, present.authority)
            return present
    raise RuntimeError(f"Secret {names.namespace}/{names.secret} changes faster than it can be written")


def place_files(bundle: Bundle, folder: Path) -> None:
    """Put certificate and key where the server reads them, each file whole or not at all."""
    for name, content in (("tls.key", bundle.key), ("tls.crt", bundle.certificate)):
        fresh = folder / f".{name}"
        with private_file(fresh) as file:
            file.write(content)
        fresh.replace(folder / name)


def tls_of(bundle: Bundle) -> ssl.SSLContext:
    """TLS context for a server whose certificate is not stored in a file."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.TemporaryDirectory(prefix="tierwise-") as folder:
        place_files(bundle, Path(folder))
        context.load_cert_chain(Path(folder, "tls.crt"), Path(folder, "tls.key"))
    return context


async def _find(client: _Asks, names: CertificateNames) -> dict[str, Any] | None:
    try:
        answer = await client.ask("GET", f"{_secrets(names)}/{names.secret}", expects="Secret")
        content: dict[str, Any] = msgspec.json.decode(answer)
    except ApiError as error:
        if error.status != 404:
            raise
        return None
    return content


def _bundle(secret: Mapping[str, Any]) -> Bundle | None:
    """Certificates in a Secret; None if they are unusable."""
    data = secret.get("data") or {}
    try:
        parts = [base64.b64decode(data[name]) for name in ("ca.crt", "tls.crt", "tls.key")]
        expires(parts[1])
    except (KeyError, ValueError):
        return None
    return Bundle(*parts)


async def _renew(
    client: _Asks, names: CertificateNames, secret: dict[str, Any] | None, present: Bundle | None, now: datetime
) -> Bundle | None:
    """A new certificate in the Secret; None where another was faster."""
    bundle = issue(names.hosts(), now)
    before = present.authority.partition(_END) if present is not None else (b"", b"", b"")
    bundle = Bundle(bundle.authority + before[0] + before[1], bundle.certificate, bundle.key)
    texts = {"ca.crt": bundle.authority, "tls.crt": bundle.certificate, "tls.key": bundle.key}
    data = {name: base64.b64encode(text).decode() for name, text in texts.items()}
    kind = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "data": data}
    try:
        if secret is None:
            await client.ask("POST", _secrets(names), {**kind, "metadata": {"name": names.secret}})
        else:
            await client.ask("PUT", f"{_secrets(names)}/{names.secret}", {**secret, **kind})
    except ApiError as error:
        if error.status != 409:
            raise
        return None
    log.info("a certificate for %s was made", ", ".join(names.hosts()))
    return bundle


async def _trust(client: _Asks, names: CertificateNames, authority: bytes) -> None:
    """Let the API server believe what the authority has signed; nothing is written where it does already."""
    ca_bundle = base64.b64encode(authority).decode()
    for plural in _CONFIGURATIONS:
        path = f"/apis/admissionregistration.k8s.io/v1/{plural}/{names.configuration}"
        try:
            configuration = msgspec.json.decode(await client.ask("GET", path, expects="WebhookConfiguration"))
        except ApiError as error:
            if error.status != 404:
                raise
            log.warning("there is no %s %s: nothing calls this webhook", plural.removesuffix("s"), names.configuration)
            continue
        patch = [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": ca_bundle}
            for index, hook in enumerate(configuration.get("webhooks") or ())
            if hook.get("clientConfig", {}).get("caBundle") != ca_bundle
        ]
        if patch:
            await client.ask("PATCH", path, patch, kind="application/json-patch+json")


def _secrets(names: CertificateNames) -> str:
    return f"/api/v1/namespaces/{names.namespace}/secrets"


# The certificate that a server shows, read again when its files change.
#
# A mounted Secret changes by swapping a link, sometimes between reading the certificate and the key: a pair that does
# not match is not taken, the old one stays, and the next look tries again.


_log = logging.getLogger(__name__)


class Certificate:
    """Certificate and key in two files, and the context that new connections use them from."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Read the files; OSError where there are none, ssl.SSLError where they do not go together."""
        self._files = (certificate, key)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._seen = self._digest()
        self._load(self.context)

    def refresh(self) -> bool:
        """Take what the files hold now, if it changed and is sound; whether it was taken."""
        try:
            digest = self._digest()
            if digest == self._seen:
                return False
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))  # a trial: a failed load may leave half a pair behind
            self._load(self.context)
        except (OSError, ssl.SSLError) as error:
            _log.warning("the new certificate in %s is not taken: %s", self._files[0].parent, error)
            return False
        self._seen = digest
        _log.info("the certificate in %s was read again", self._files[0].parent)
        return True

    async def watch(self, interval: float, on_change: Callable[[], None]) -> None:
        """Refresh for ever, and say when something was taken."""
        while True:
            await asyncio.sleep(interval)
            if self.refresh():
                on_change()

    def pem(self) -> bytes:
        """The certificate as its file holds it."""
        return self._files[0].read_bytes()

    def _load(self, context: ssl.SSLContext) -> None:
        context.load_cert_chain(*self._files)

    def _digest(self) -> bytes:
        return sha256(b"\0".join(file.read_bytes() for file in self._files)).digest()

"""Certificates for the webhook where nobody else provides them: an authority of its own, and a server signed by it.

Elliptic curve keys, no randomness beyond what keys and serial numbers need, times passed in. Writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Bundle", "expires", "issue"]

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

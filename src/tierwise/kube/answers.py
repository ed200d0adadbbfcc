"""A client of the answers API of a running scheduler, with the credentials of a kubeconfig."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from tierwise.api.errors import InputError
from tierwise.kube.auth import Access
from tierwise.kube.client import Client
from tierwise.kube.errors import ApiError, UnreachableError

__all__ = ["answers_access", "ask_once"]

_PATIENCE: Final = 90
"""Seconds that an answer may take: a dry run is worked on for a minute of a processor."""


def answers_access(access: Access, address: str, authorities: str, server_name: str) -> Access:
    """Access to the answers API at an address, by the token that a kubeconfig has for its cluster.

    `authorities` are PEM texts, "" for those of the system; `server_name` is the name in the certificate, "" for the
    host of the address. InputError where the address or the authorities cannot be used.
    """
    if not address.startswith(("https://", "http://127.0.0.1:", "http://localhost:")):
        raise InputError("the address is https://HOST:PORT, because your token is sent there", field="--answers")
    try:
        context = ssl.create_default_context(cadata=authorities or None)
    except (ssl.SSLError, ValueError) as error:
        raise InputError(f"no authorities of certificates: {error}", field="--answers-ca") from None
    return replace(access, server=address.rstrip("/"), tls=lambda: context, server_name=server_name or None, proxy=None)


async def ask_once(access: Access, method: str, path: str, names: Mapping[str, str], body: bytes = b"") -> bytes:
    """The answer to one question as JSON; `names` are put into the path, between its braces.

    InputError with the sentence of a refusal.
    """
    in_path = {part: quote(name, safe="") for part, name in names.items()}
    try:
        async with Client(access) as client:
            sent = msgspec.Raw(body) if body else None
            return await client.send(method, path.format(**in_path), sent, within=_PATIENCE, expects="Answer")
    except ApiError as error:
        hint = ": the kubeconfig's user needs a token (kubectl create token ACCOUNT)" if error.status == 401 else ""
        raise InputError(f"{error}{hint}", file=access.server) from None
    except UnreachableError as error:
        raise InputError(f"the answers API cannot be reached: {error}", file=access.server) from None

"""Asks NVIDIA's UFM for the ports and systems of an InfiniBand fabric, over its REST API.

Plain GET requests with a name and password or with a token. Redirects are refused, because they would carry the
credentials elsewhere, and proxies are not used: a fabric manager is near.
"""

from __future__ import annotations

import base64
import json
import ssl
from http.client import HTTPException
from typing import IO, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

import msgspec

__all__ = ["FetchError", "Ufm", "ports_and_systems", "server_of"]

LARGEST_ANSWER: Final = 100 << 20
"""Bytes beyond which an answer is refused, as Volcano does."""

_PORTS: Final = {"http": 80, "https": 443}


class FetchError(Exception):
    """A source that did not answer as it should; the text is one line without credentials."""


class Ufm(msgspec.Struct, frozen=True):
    """Where a UFM listens, and how to prove who is asking; `verify` checks its certificate."""

    endpoint: str
    username: str = ""
    password: str = ""
    token: str = ""
    verify: bool = True
    timeout: float = 30.0

    @property
    def base(self) -> str:
        """The address of its REST API; a token is accepted by version 3 alone."""
        return f"{self.address.rstrip('/')}/{'ufmRestV3' if self.token else 'ufmRest'}"

    @property
    def address(self) -> str:
        """The endpoint with its scheme: https where it names none."""
        if "://" in self.endpoint:
            return self.endpoint
        return f"https://{self.endpoint}"

    def __repr__(self) -> str:
        return f"Ufm({self.endpoint!r})"  # never the credentials


def server_of(ufm: Ufm) -> tuple[str, str, int]:
    """Scheme, host and port; FetchError for an endpoint that is no address of a UFM."""
    if "@" in ufm.endpoint:
        raise FetchError("credentials do not belong into the address: give them by environment or secret")
    # What we append would not count as the path then, and the address could name any page of any server.
    if "?" in ufm.endpoint or "#" in ufm.endpoint:
        raise FetchError(f"{ufm.endpoint}: an address of UFM has no ? and no #")
    refusal = FetchError(f"{ufm.endpoint}: expected http:// or https:// and a host")
    try:
        parts = urlsplit(ufm.address)
        scheme = parts.scheme
        host = parts.hostname
        port = parts.port
    except ValueError:
        raise refusal from None
    if not host or scheme not in _PORTS:
        raise refusal
    return scheme, host, port or _PORTS[scheme]


def ports_and_systems(ufm: Ufm) -> tuple[object, object]:
    """Ports and systems for `discovery.ufm.read`; systems are None if this UFM does not list them."""
    server_of(ufm)  # before anything is sent
    opener = _opener(ufm)
    ports = _get(opener, ufm, "resources/ports")
    try:
        systems = _get(opener, ufm, "resources/systems")
    except _MissingError:
        systems = None
    return ports, systems


class _MissingError(FetchError):
    """There is nothing at the address."""


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: object, newurl: str) -> None:
        """Not followed: the answer counts as it is, an error."""
        return


def _opener(ufm: Ufm) -> OpenerDirector:
    context = ssl.create_default_context()
    if not ufm.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return build_opener(ProxyHandler({}), _NoRedirects(), HTTPSHandler(context=context))


def _get(opener: OpenerDirector, ufm: Ufm, path: str) -> object:
    url = f"{ufm.base}/{path}"
    request = Request(url, headers={"Accept": "application/json", **_authorization(ufm)})
    try:
        with opener.open(request, timeout=ufm.timeout) as answer:
            data = answer.read(LARGEST_ANSWER + 1)
    except HTTPError as error:
        error.close()
        raise (_MissingError if error.code == 404 else FetchError)(
            f"{url}: HTTP {error.code} {error.reason}".rstrip()
        ) from None
    except TimeoutError:
        raise FetchError(f"{url}: no answer within {ufm.timeout:g} s") from None
    except URLError as error:
        late = isinstance(error.reason, TimeoutError)
        text = f"no answer within {ufm.timeout:g} s" if late else str(error.reason)
        raise FetchError(f"{url}: {' '.join(text.split())}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise FetchError(f"{url}: {' '.join(str(error).split()) or type(error).__name__}") from None
    if len(data) > LARGEST_ANSWER:
        raise FetchError(f"{url}: the answer is larger than {LARGEST_ANSWER >> 20} MiB")
    try:
        content: object = json.loads(data)
    except (ValueError, RecursionError):
        raise FetchError(f"{url}: the answer is not JSON") from None
    return content


def _authorization(ufm: Ufm) -> dict[str, str]:
    if ufm.token:
        if not (ufm.token.isascii() and ufm.token.isprintable()):  # a later error message would contain it
            raise FetchError("the token holds characters that cannot be sent")
        return {"Authorization": f"Basic {ufm.token}"}
    if ufm.username or ufm.password:
        pair = f"{ufm.username}:{ufm.password}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return {}

"""Who may ask a server that a person opens: `tierwise serve`, `up`, `submit --serve` and `simulate --serve`.

On loopback everybody on the machine may ask. A site elsewhere may give its own name our address and let a browser read
along, so only requests that name this machine are answered there; whoever is to be reached under another name, or on
another address, gives a token. What comes too fast, or from a page of another site, is refused in any case.

How fast is counted for each client by its address, and for those who know the token apart from those who do not:
no one's requests use up what another may ask.
"""

from __future__ import annotations

import hmac
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

__all__ = ["LOOPBACK", "Access", "Allowance", "guarded"]

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
"""What this machine calls itself."""

_HOST: Final = re.compile(r"\[?(?P<name>[^\[\]]*?)\]?(:[0-9]+)?")
_RATE: Final = 200.0
"""Requests in a second that are answered, for as long as they come."""

_BURST: Final = 1000
"""Requests that may come at once."""

_CLIENTS: Final = 1024
"""Clients whose requests are counted; of more, those that were quiet for longest begin again."""

_COOKIE: Final = "tierwise-token"
_FORWARDED: Final = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "Via")
"""What proxies add to a request."""


class Access(msgspec.Struct, frozen=True):
    """Who may ask: those who name one of the hosts (any where none is given), and know the token where there is one."""

    hosts: Collection[str] = ()
    token: str = ""
    cookie_writes: Collection[str] = ()
    """Paths that a browser may write to with the cookie: those that change nothing outside."""


Refuse = Callable[[int, str, str], web.StreamResponse]
"""An answer from a status code, Kubernetes' reason for it, and a sentence."""


def _in_words(code: int, _: str, text: str) -> web.StreamResponse:
    return web.Response(status=code, text=f"{text}\n")


def _objection_to_site(request: web.Request) -> str:
    """Why a request that a page of another site makes is refused; "" for requests of own pages and of programs."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return "pages of other sites may not ask"
    if request.method not in ("GET", "HEAD") and "Origin" in request.headers and not _own_origin(request):
        return "pages of other sites may not write"
    return ""


def guarded(access: Access, *, refuse: Refuse = _in_words, rate: float = _RATE, burst: int = _BURST) -> Middleware:
    """Refuse what comes too fast, names another host, comes through a proxy or from another site, or has no token."""
    allowance = Allowance(rate, burst)

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        entering = bool(access.token) and request.path == "/" and _same(request.query.get("token", ""), access.token)
        is_known = entering or not access.token or _knows(request, access)
        if not allowance.take((request.remote or "", is_known)):
            answer = refuse(429, "TooManyRequests", "too many requests: try again in a second")
            answer.headers["Retry-After"] = "1"
            return answer
        if access.hosts and not _names(request, access.hosts):
            return refuse(421, "BadRequest", f"this server answers for {', '.join(sorted(access.hosts))}")
        if not access.token and any(name in request.headers for name in _FORWARDED):
            return refuse(403, "Forbidden", "this came through a proxy: start with --host NAME, and use its token")
        if entering:
            raise _remembered(request, access.token)
        if not is_known:
            return refuse(401, "Unauthorized", "the token is missing, or another")
        objection = _objection_to_site(request)
        if objection:
            return refuse(403, "Forbidden", objection)
        return await handler(request)

    return guard


class Allowance:
    """How many requests each client may still make: so many at once, and then so many in a second."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, float(burst)
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()  # what is left, and since when

    def take(self, client: Hashable) -> bool:
        """Whether a client may make a request now."""
        now = time.monotonic()
        tokens, since = self._left.pop(client, (self._burst, now))
        tokens = min(tokens + (now - since) * self._rate, self._burst)
        self._left[client] = (tokens - 1 if tokens >= 1 else tokens), now
        if len(self._left) > _CLIENTS:
            self._left.popitem(last=False)
        return tokens >= 1


def _names(request: web.Request, hosts: Collection[str]) -> bool:
    form = _HOST.fullmatch(request.host)
    return form is not None and form["name"].lower() in hosts


def _remembered(request: web.Request, token: str) -> web.HTTPException:
    """A browser cannot send the token by itself: it gets a cookie, and an address without the token."""
    secure = request.secure or request.headers.get("X-Forwarded-Proto", "") == "https"
    redirect = web.HTTPSeeOther("/")
    redirect.set_cookie(_COOKIE, token, httponly=True, secure=secure, samesite="Strict")
    return redirect


def _knows(request: web.Request, access: Access) -> bool:
    """By the header of a program, or by the cookie of a browser, which may only read, or write what stays here."""
    if _same(request.headers.get("Authorization", ""), f"Bearer {access.token}"):
        return True
    reads = request.method in ("GET", "HEAD") or request.path in access.cookie_writes
    return reads and _same(request.cookies.get(_COOKIE, ""), access.token)


def _same(presented: str, expected: str) -> bool:
    return hmac.compare_digest(presented.encode(), expected.encode())


def _own_origin(request: web.Request) -> bool:
    return request.headers["Origin"].partition("://")[2] == request.host

"""Opening a server for people: where it is, who may ask, and what is printed about it.

For `serve`, `up`, `submit --serve` and `simulate --serve`. On loopback it is open to this machine; elsewhere, and under
the name of a proxy, to those with a token, which the printed address carries.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click
import msgspec

from tierwise.cli.connection import place
from tierwise.cli.options import option

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from tierwise.runtime.access import Access
    from tierwise.web.recording import Recording

__all__ = ["NAME", "PLACE", "Played", "hosts", "opening", "play", "until_interrupted"]

NAME: Final = "tierwise"
"""What the certificate of a server is issued to."""

PLACE: Final = "127.0.0.1:8080"
_LOOK: Final = 1.0  # seconds; a Ctrl-C that comes just before an endless wait would be noticed never


class Opening(msgspec.Struct, frozen=True):
    """Where a server is, and who may ask it."""

    listen: tuple[str, int]
    access: Access
    tls: ssl.SSLContext | None = None
    authority: bytes = b""

    @property
    def url(self) -> str:
        host, port = self.listen
        return f"{'https' if self.tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"

    @property
    def page(self) -> str:
        """The address for a browser."""
        if self.access.token:
            return f"{self.url}/?token={self.access.token}"
        return f"{self.url}/"


hosts: Final = option(
    "--host NAME",
    "Answer under this name as well, such as a proxy's; everybody needs the token then. May be repeated.",
)
"""Further names under which a server is asked."""


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the outcome of a verb is played in the page, and where that is."""

    served: bool = option("--serve", "Open the page when the run is over, to play it moment by moment, until Ctrl-C.")
    names: tuple[str, ...] = hosts
    listen: tuple[str, int] | None = place(f"With --serve: address of the page.  [default: {PLACE}]")

    def opening(self) -> Opening | None:
        if self.served:
            return opening(self.listen, self.names)
        return None


def opening(listen: tuple[str, int] | None, names: tuple[str, ...] = ()) -> Opening:
    """Loopback is open to this machine; elsewhere with TLS, and a token there and under other names."""
    from tierwise.runtime.access import LOOPBACK, Access
    from tierwise.runtime.listener import place as read

    listen = listen or read(PLACE)
    is_local = listen[0] in LOOPBACK
    if is_local and not names:
        return Opening(listen, Access(LOOPBACK))
    import secrets

    token = secrets.token_urlsafe(32)
    if is_local:
        return Opening(listen, Access(LOOPBACK.union(name.lower() for name in names), token))
    from datetime import UTC, datetime

    from tierwise.api.extras import imported

    imported("cryptography", "kube", "--listen")
    from tierwise.runtime.certificates import issue, tls_of

    bundle = issue([NAME, *names], datetime.now(UTC))
    return Opening(listen, Access((), token), tls_of(bundle), bundle.authority)


def play(recordings: Mapping[str, Recording], opened: Opening) -> None:
    """Let people play recordings in a browser until Ctrl-C; the first is shown first."""
    from tierwise.runtime.listener import listening
    from tierwise.web.app import pages

    with listening(pages(next(iter(recordings.values())), opened.access, recordings), *opened.listen, opened.tls):
        until_interrupted(f"{opened.page} is open; Ctrl-C ends it")


def until_interrupted(*lines: str) -> None:
    """Say that it is open, and wait."""
    try:
        for line in lines:
            click.echo(line, err=True)
        while True:
            time.sleep(_LOOK)
    except KeyboardInterrupt:
        click.echo("", err=True)  # behind the ^C of the terminal

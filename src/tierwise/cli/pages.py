"""Opening a server for people: where it is, who may ask, and what is printed about it.

For `serve`, `up`, `submit --serve` and `simulate --serve`. On loopback it is open to this machine; elsewhere, and under
the name of a proxy, to those with a token, which the printed address carries.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

import click
import msgspec

from tierwise.cli.connection import missing, place_option

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from tierwise.runtime.access import Access
    from tierwise.web.recording import Recording

__all__ = ["NAME", "Opening", "host_option", "opening", "pages_options", "play", "until_interrupted"]

NAME: Final = "tierwise"
"""What the certificate of a server is issued to."""

_PLACE: Final = "127.0.0.1:8080"
_LOOK: Final = 1.0  # seconds; a Ctrl-C that comes just before an endless wait would be noticed never

F = TypeVar("F", bound=Callable[..., object])


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
        return f"{self.url}/?token={self.access.token}" if self.access.token else f"{self.url}/"


def host_option(command: F) -> F:
    """--host: further names under which the server is asked."""
    return click.option(
        "--host",
        "names",
        multiple=True,
        metavar="NAME",
        help="Answer under this name as well, such as a proxy's; everybody needs the token then. May be repeated.",
    )(command)


def pages_options(command: F) -> F:
    """--serve with --listen and --host, for verbs whose outcome can be played in the page."""
    command = place_option(help=f"With --serve: where the page is.  [default: {_PLACE}]")(command)
    text = "Open the page when the run is over, to play it moment by moment, until Ctrl-C."
    return click.option("--serve", "served", is_flag=True, help=text)(host_option(command))


def opening(listen: tuple[str, int] | None, names: tuple[str, ...] = ()) -> Opening:
    """Loopback is open to this machine; elsewhere with TLS, and a token there and under other names."""
    try:
        from tierwise.runtime.access import LOOPBACK, Access
        from tierwise.runtime.listener import place
    except ImportError as error:
        raise missing(error) from None

    listen = listen or place(_PLACE)
    here = listen[0] in LOOPBACK
    if here and not names:
        return Opening(listen, Access(LOOPBACK))
    import secrets

    token = secrets.token_urlsafe(32)
    if here:
        return Opening(listen, Access(LOOPBACK.union(name.lower() for name in names), token))
    from datetime import UTC, datetime

    from tierwise.runtime.certificates import issue, tls_of

    bundle = issue([NAME, *names], datetime.now(UTC))
    return Opening(listen, Access((), token), tls_of(bundle), bundle.authority)


def play(recordings: Mapping[str, Recording], opened: Opening) -> None:
    """Let people play recordings in a browser until Ctrl-C; the first is shown first."""
    from tierwise.runtime.listener import listening
    from tierwise.web.app import pages
    from tierwise.web.recording import RecordedHistory

    histories = {name: RecordedHistory(recording) for name, recording in recordings.items()}
    with listening(pages(next(iter(histories.values())), opened.access, histories), *opened.listen, opened.tls):
        until_interrupted(f"{opened.page} is open; Ctrl-C ends it")


def until_interrupted(*lines: str) -> None:
    """Say that it is open, and wait."""
    for line in lines:
        click.echo(line, err=True)
    try:
        while True:
            time.sleep(_LOOK)
    except KeyboardInterrupt:
        click.echo("", err=True)  # behind the ^C of the terminal

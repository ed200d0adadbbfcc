"""The certificate that a server shows, read anew when its files change.

A mounted Secret changes by swapping a link, sometimes between reading the certificate and the key: a pair that does
not match is not taken, the old one stays, and the next look tries again.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

__all__ = ["Certificate"]

log = logging.getLogger(__name__)


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
            log.warning("the new certificate in %s is not taken: %s", self._files[0].parent, error)
            return False
        self._seen = digest
        log.info("the certificate in %s was read anew", self._files[0].parent)
        return True

    async def watch(self, interval: float, taken: Callable[[], None]) -> None:
        """Refresh for ever, and say when something was taken."""
        while True:
            await asyncio.sleep(interval)
            if self.refresh():
                taken()

    def pem(self) -> bytes:
        """The certificate as its file holds it."""
        return self._files[0].read_bytes()

    def _load(self, context: ssl.SSLContext) -> None:
        context.load_cert_chain(*self._files)

    def _digest(self) -> bytes:
        return sha256(b"\0".join(file.read_bytes() for file in self._files)).digest()

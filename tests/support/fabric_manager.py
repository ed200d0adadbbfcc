"""A UFM that is no more than an HTTP server of this process, and what it lists.

with FabricManager({"resources/ports": ports("n0-leaf0")}) as manager: ... manager.address
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from tierwise.api.codec import Raw

__all__ = ["FabricManager", "ports"]


def ports(*links: str) -> list[Raw]:
    """Ports for links: "n0-leaf0" joins a host to a switch, "leaf0=spine0" two switches; both ends are listed."""
    found: list[Raw] = []
    for link in links:
        host = "-" in link
        one, other = link.split("-" if host else "=", 1)
        kind = "Computer IB Port" if host else "Switch IB Port"
        found.append({"system_name": one, "peer_node_name": other, "description": kind})
        if other != "N/A":
            found.append({"system_name": other, "peer_node_name": one, "description": "Switch IB Port"})
    return found


class FabricManager:
    """Answers GET below /ufmRest and /ufmRestV3; `status`, `body` and `silent` let it misbehave."""

    def __init__(self, answers: Mapping[str, object]) -> None:
        self.answers = dict(answers)
        self.status = 200
        self.body: bytes | None = None
        self.headers: dict[str, str] = {}
        self.silent = threading.Event()
        self.asked: list[tuple[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.silent.clear()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        manager = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                manager.asked.append((self.path, self.headers.get("Authorization", "")))
                if manager.silent.is_set():
                    self.close_connection = True
                    self.connection.recv(1)  # returns once the client has given up
                    return
                _, _, path = self.path.lstrip("/").partition("/")
                known = path in manager.answers
                body = manager.body if manager.body is not None else json.dumps(manager.answers.get(path)).encode()
                self.send_response(manager.status if known or manager.status != 200 else 404)
                for name, value in manager.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Tests are quiet."""

        return Handler

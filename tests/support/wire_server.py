"""A server in a thread of the tests that keeps what it is sent, and answers what a function says.

with wire_server(lambda call: (200, {"done": True})) as server:
    httpx.post(f"{server.url}/api/chat", json={})
    server.calls[0].body
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass(frozen=True)
class Call:
    """A request: `headers` by their names in small letters."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class WireServer:
    url: str
    calls: list[Call] = field(default_factory=list)

    @property
    def posted(self) -> list[Any]:
        """The documents that were sent, in their order."""
        return [call.body for call in self.calls if call.method == "POST"]


Answering = Callable[[Call], tuple[int, Any]]


@contextmanager
def wire_server(answer: Answering) -> Iterator[WireServer]:
    """A server on a port that the system chooses; an answer is a status, and a document or bytes."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET")

        def do_POST(self) -> None:
            self._answer("POST")

        def _answer(self, method: str) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            call = Call(method, self.path, headers, json.loads(raw) if raw else None)
            running.calls.append(call)
            status, document = answer(call)
            data = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running = WireServer(f"http://127.0.0.1:{http.server_address[1]}")
    thread = Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield running
    finally:
        http.shutdown()
        http.server_close()
        thread.join()

"""A proxy between the dashboard and its service that remembers what was asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

_HOP = {"connection", "transfer-encoding", "content-length", "content-encoding", "host"}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, at a moment of the monotonic clock."""

    at: float
    path: str
    cache_control: str


class Between:
    """What went through, and where the dashboard is to call."""

    def __init__(self, url: str) -> None:
        self.asked: list[Asked] = []
        self._client = httpx.Client(base_url=url, timeout=60)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                cache = self.headers.get("Cache-Control", "")
                outer.asked.append(Asked(time.monotonic(), self.path, cache))
                headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP}
                answer = outer._client.get(self.path, headers=headers)
                self.send_response(answer.status_code)
                for name, value in answer.headers.items():
                    if name.lower() not in _HOP:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def of(self, path: str) -> list[Asked]:
        """The requests of this path, whatever its query."""
        return [each for each in self.asked if each.path.partition("?")[0] == f"/api/v1{path}"]

    def close(self) -> None:
        """Serve no more."""
        self.server.shutdown()
        self.server.server_close()
        self._client.close()


@contextmanager
def between(url: str) -> Iterator[Between]:
    """In front of the service at `url` until the block ends."""
    proxy = Between(url)
    thread = threading.Thread(target=proxy.server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join(10)

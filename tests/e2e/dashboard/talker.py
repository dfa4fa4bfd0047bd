"""A language model that says a word when the test tells it to; it speaks OpenAI's protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, Queue
from threading import Event, Thread
from typing import Any

_PATIENCE_S = 60.0


class Talker:
    """What the model says next, and whether its listener left before the end."""

    def __init__(self) -> None:
        self.words: Queue[str | None] = Queue()
        self.left = Event()
        self.url = ""

    def say(self, word: str) -> None:
        """The next piece of its answer."""
        self.words.put(word)

    def end(self) -> None:
        """That was its answer."""
        self.words.put(None)

    def is_left(self, word: str) -> bool:
        """Whether nobody listens any more, told by trying."""
        self.say(word)
        return self.left.is_set()

    def spoken(self) -> Iterator[str]:
        """The pieces of one answer, as the test gives them."""
        while True:
            try:
                word = self.words.get(timeout=_PATIENCE_S)
            except Empty:
                return
            if word is None:
                return
            yield word


@contextmanager
def talker() -> Iterator[Talker]:
    """Serve until left."""
    model = Talker()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            if asked.get("stream"):
                self._stream()
            else:
                message = {"role": "assistant", "content": "Waiting."}
                self._whole(_body("chat.completion", message=message, finish_reason="stop"))

        def _whole(self, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _stream(self) -> None:
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            try:
                for word in model.spoken():
                    self._event(_body("chat.completion.chunk", delta={"content": word}))
                self._event(_body("chat.completion.chunk", delta={}, finish_reason="stop"))
                self.wfile.write(b"data: [DONE]\n\n")
            except OSError:
                model.left.set()

        def _event(self, body: dict[str, Any]) -> None:
            self.wfile.write(b"data: " + json.dumps(body).encode() + b"\n\n")
            self.wfile.flush()

        def log_message(self, *_args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    model.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _body(kind: str, **choice: Any) -> dict[str, Any]:
    return {
        "id": "chat-1",
        "object": kind,
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": None} | choice],
    }

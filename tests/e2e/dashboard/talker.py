"""A language model that says a word when the test tells it to; it speaks OpenAI's protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, Queue
from threading import Event
from typing import Any

from tests.support.http import Handler, served_in_thread

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

    class Talking(Handler):
        # A stream ends with its connection.
        protocol_version = "HTTP/1.0"

        def post(self) -> None:
            asked = json.loads(self.body())
            if asked.get("stream"):
                self._stream()
            else:
                message = {"role": "assistant", "content": "Waiting."}
                self.reply(200, _body("chat.completion", message=message, finish_reason="stop"))

        def _stream(self) -> None:
            self.send_response(200)
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

    with served_in_thread(Talking) as url:
        model.url = f"{url}/v1"
        yield model


def _body(kind: str, **choice: Any) -> dict[str, Any]:
    return {
        "id": "chat-1",
        "object": kind,
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": None} | choice],
    }

"""The least a Quart service can do, on the server settings Solward uses: the yardstick."""

from __future__ import annotations

import asyncio
import sys

import uvloop
from hypercorn.asyncio import serve
from hypercorn.config import Config
from quart import Quart, request


def create_app() -> Quart:
    """One handler that reads a JSON body and answers one."""
    app = Quart(__name__)

    @app.post("/echo")
    async def echo() -> dict[str, object]:
        return {"got": await request.get_json()}

    @app.get("/api/v1/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    return app


def main() -> None:
    """Serve on the port given."""
    config = Config()
    config.bind = [f"127.0.0.1:{sys.argv[1]}"]
    config.loglevel = "ERROR"
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(create_app(), config))


if __name__ == "__main__":
    main()

"""What the Python sellers share: the arguments they are given, and telling where they serve."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from typing import Any

import uvicorn

GIVEN: dict[str, Any] = json.loads(sys.argv[1])


def serve(app: Any) -> None:
    """Serve on a free port of this machine, and say the address once connections are taken."""
    asyncio.run(_serve(app))


async def _serve(app: Any) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    await server.serve(sockets=[listening])

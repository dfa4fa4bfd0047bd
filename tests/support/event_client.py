"""A service behind a socket, and clients that read its event stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from tests.support.api import SECRET
from tests.support.audit_places import places

from solward.service.service import Solward
from solward.support import jsontext
from solward.types.events import EventKind
from solward_server.listening import listen
from solward_server.serve import Address, serve


@dataclass(slots=True)
class Served:
    """A service behind a socket, and its admin."""

    service: Solward
    client: httpx.AsyncClient
    stop: asyncio.Event
    ended: asyncio.Task[None]

    async def post(self, path: str, body: Any = None) -> Any:
        answer = await self.client.post(path, content=jsontext.dumps(body or {}))
        return jsontext.loads(answer.content)

    async def append(self, count: int) -> None:
        for number in range(count):
            await self.service.audit.append(EventKind.KEY_CREATED, {"number": number})

    async def places(self, told: list[tuple[int, str, Any]]) -> list[int]:
        """Where in the log what was told stands, counted from 1."""
        return await places(self.service.database, *(seq for seq, _, _ in told))

    @asynccontextmanager
    async def listening(self, path: str = "/events", **headers: str) -> AsyncIterator[Heard]:
        async with self.client.stream("GET", path, headers=headers) as response:
            assert response.status_code == 200, await response.aread()
            yield Heard(response, response.aiter_lines())


@dataclass(slots=True)
class Heard:
    """What a client reads, a block at a time."""

    response: httpx.Response
    lines: AsyncIterator[str]

    async def block(self) -> dict[str, str]:
        """The fields of the next block; a comment's field has no name."""
        fields: dict[str, str] = {}
        async for line in self.lines:
            if not line:
                return fields
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        raise EOFError

    async def event(self) -> tuple[int, str, Any]:
        """Id, kind and data of the next event."""
        async with asyncio.timeout(20):
            while "event" not in (block := await self.block()):
                pass
        return int(block["id"]), block["event"], jsontext.loads(block["data"])

    async def events(self, count: int) -> list[tuple[int, str, Any]]:
        return [await self.event() for _ in range(count)]


@asynccontextmanager
async def serving_events(service: Solward) -> AsyncIterator[Served]:
    """The service's application on a socket until the block ends."""
    stop = asyncio.Event()
    address: asyncio.Future[Address] = asyncio.get_running_loop().create_future()
    ended = asyncio.create_task(
        serve(service, listen("127.0.0.1", 0), stop, ready=address.set_result)
    )
    headers = {"Authorization": f"Bearer {SECRET}"}
    base = f"{(await address).url}/api/v1"
    async with httpx.AsyncClient(base_url=base, headers=headers, timeout=30) as client:
        yield Served(service, client, stop, ended)
    stop.set()
    await ended

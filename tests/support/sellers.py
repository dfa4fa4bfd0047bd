"""A seller over real HTTP that answers whatever a test says, and keeps what it was asked."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

# What the network is called in x402's two versions.
DEVNET = {1: "solana-devnet", 2: "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"}
_PRICE = {1: "maxAmountRequired", 2: "amount"}
_PAYMENT = ("payment-signature", "x-payment", "authorization")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def paid(self) -> bool:
        """Whether it shows a payment."""
        return self.payment is not None

    @property
    def payment(self) -> str | None:
        """The header that shows a payment; None where there is none."""
        return next((self.headers[name] for name in _PAYMENT if name in self.headers), None)

    @property
    def shown(self) -> Any:
        """What x402 shows, decoded."""
        assert self.payment is not None
        return json.loads(base64.b64decode(self.payment))

    @property
    def transaction(self) -> bytes:
        """The transaction that x402 hands over."""
        return base64.b64decode(self.shown["payload"]["transaction"])


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered.

    Attributes:
        raw: in place of all else, byte for byte; the connection is closed then.
        before: awaited before the head is sent.
        between: awaited before the body is.
        cut: close the connection after so many bytes of the body.
    """

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b"served"
    raw: bytes | None = None
    before: Callable[[], Awaitable[Any]] | None = None
    between: Callable[[], Awaitable[Any]] | None = None
    cut: int | None = None


Answer = Callable[[Asked], Reply | Awaitable[Reply]]


@dataclass
class FakeSeller:
    """A seller; `answer` says what it does, and may be replaced at any time."""

    answer: Answer
    scheme: str = "http"
    host: str = "127.0.0.1"
    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    connections: set[asyncio.StreamWriter] = field(default_factory=set, repr=False)

    @property
    def site(self) -> str:
        """As PAYMENTS_PRIVATE_SITES and grants name it."""
        return f"{self.host}:{self.port}"

    @property
    def paid(self) -> list[Asked]:
        """The requests that showed a payment."""
        return [each for each in self.asked if each.paid]

    def says(self, reply: Reply) -> None:
        """Answer everybody so."""
        self.answer = lambda _asked: reply

    def url(self, path: str = "/") -> str:
        return f"{self.scheme}://{self.site}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.add(writer)
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.connections.discard(writer)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        asked = Asked(method, path, headers, body)
        self.asked.append(asked)
        found = self.answer(asked)
        reply = found if isinstance(found, Reply) else await found
        if reply.before is not None:
            await reply.before()
        if reply.raw is not None:
            writer.write(reply.raw)
            await writer.drain()
            return False
        lines = [f"HTTP/1.1 {reply.status} Any", f"Content-Length: {len(reply.body)}"]
        lines += [f"{name}: {value}" for name, value in reply.headers]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        await writer.drain()
        if reply.between is not None:
            await reply.between()
        if method != "HEAD":
            writer.write(reply.body[: reply.cut])
        await writer.drain()
        return reply.cut is None


@asynccontextmanager
async def fake_seller(
    answer: Answer | None = None, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[FakeSeller]:
    """A seller that listens; without `answer` it serves everybody."""
    seller = FakeSeller(answer or (lambda _asked: Reply()), "http" if tls is None else "https")
    server = await asyncio.start_server(seller.serve, seller.host, 0, ssl=tls)
    seller.port = server.sockets[0].getsockname()[1]
    try:
        yield seller
    finally:
        server.close()
        for each in seller.connections:
            each.transport.abort()


def requirement(version: int = 2, **fields: Any) -> dict[str, Any]:
    """An entry of `accepts`; `amount` and other fields replace those of an ordinary one, None
    leaves one out. `fee_payer` and `memo` go into `extra`."""
    made: dict[str, Any] = {
        "scheme": "exact",
        "network": DEVNET[version],
        _PRICE[version]: str(fields.pop("amount", 10_000)),
        "asset": fields.pop("asset"),
        "payTo": fields.pop("pay_to"),
        "maxTimeoutSeconds": 60,
    }
    extra = {"feePayer": fields.pop("fee_payer", None), "memo": fields.pop("memo", None)}
    made["extra"] = {name: value for name, value in extra.items() if value is not None}
    if version == 1:
        made |= {"resource": "", "description": "weather", "mimeType": "application/json"}
    made |= fields
    return {name: value for name, value in made.items() if value is not None}


def x402(*entries: dict[str, Any], version: int = 2, resource: str = "", **more: Any) -> Reply:
    """A 402 of x402: version 2 in its header, version 1 as a body."""
    if version == 2:
        required = {
            "x402Version": 2,
            "error": "payment required",
            "resource": {"url": resource, "description": "weather"},
            "accepts": list(entries),
        } | more
        return Reply(402, (("PAYMENT-REQUIRED", encoded(required)),), b"{}")
    accepts = [each | {"resource": resource} for each in entries]
    required = {"x402Version": 1, "error": "payment required", "accepts": accepts} | more
    return Reply(402, (("Content-Type", "application/json"),), json.dumps(required).encode())


def receipt(signature: str, *, success: bool = True) -> tuple[str, str]:
    """The header of x402's second version by which a seller says that it was paid."""
    said = {"success": success, "transaction": signature, "network": DEVNET[2], "payer": ""}
    return "PAYMENT-RESPONSE", encoded(said)


def encoded(value: Any) -> str:
    """JSON as x402's headers have it."""
    return base64.b64encode(json.dumps(value).encode()).decode()

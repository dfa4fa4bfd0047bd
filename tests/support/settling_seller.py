"""A seller by x402 that is its own facilitator, and does with a buyer's bytes whatever a test says.

It settles on the ledger late, never, twice, after an error; it says what is not so. What it sells
by is written here from the protocol's documents, with nothing of the product. Hostile texts are
`fake_seller`'s part.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.transaction import VersionedTransaction
from tests.support.market import USDC
from tests.support.payment_sellers import LAMPORTS, Ledger

DEVNET = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"


@dataclass(frozen=True)
class Handed:
    """What a buyer showed: a transaction that is signed but for the sponsor.

    Attributes:
        wire: as it came, the sponsor's signature zeros.
        number: of this one among all that were shown, from 1.
    """

    wire: bytes
    path: str
    number: int


@dataclass(frozen=True)
class Reply:
    """An answer to a paid request; status 0 cuts the connection instead."""

    status: int
    body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


class SettlingSeller:
    """Listens from the first, and serves while the context is open.

    Attributes:
        ledger: where it settles; given once there is one.
        price: units that it asks for now.
        extra: what it adds to each offer beside its sponsor, such as a memo.
        handed: all that it was shown, in order.
        unpaid: how often it asked for a payment.
        served: how often it gave what it sells.
        act: what it does with what it is shown.
    """

    ledger: Ledger
    sponsor: Keypair
    pay_to: str

    def __init__(self) -> None:
        self.forget()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        # What waits for a ledger must not hold up the end of a test.
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def on(self, ledger: Ledger) -> SettlingSeller:
        """Settle there, paid to a new account."""
        self.ledger = ledger
        self.sponsor = ledger.buyer(0, LAMPORTS)
        self.pay_to = str(ledger.buyer(0).pubkey())
        return self

    def forget(self) -> None:
        """Be as at first: honest, and shown nothing yet."""
        self.price = 50_000
        self.extra: dict[str, Any] = {}
        self.handed: list[Handed] = []
        self.unpaid = 0
        self.served = 0
        self.act: Callable[[Handed], Reply] = self.settles

    def __enter__(self) -> SettlingSeller:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def site(self) -> str:
        """As grants and PAYMENTS_PRIVATE_SITES name it."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        """Of what it sells; every other path of it is sold as well."""
        return f"http://{self.site}/thing"

    @property
    def took(self) -> int:
        """Units that it was paid, by the ledger."""
        return self.ledger.usdc(self.pay_to)

    def offer(self) -> dict[str, Any]:
        """What it asks for."""
        return {
            "scheme": "exact",
            "network": DEVNET,
            "asset": USDC,
            "amount": str(self.price),
            "payTo": self.pay_to,
            "maxTimeoutSeconds": 60,
            "extra": {"feePayer": str(self.sponsor.pubkey())} | self.extra,
        }

    def settle(self, handed: Handed, sponsor: Keypair | None = None) -> str:
        """Sign as the sponsor and send; the signature of what is sent."""
        return self.ledger.send(self.signed(handed.wire, sponsor))

    def signed(self, wire: bytes, sponsor: Keypair | None = None) -> bytes:
        """The transaction with the sponsor's signature."""
        transaction = VersionedTransaction.from_bytes(wire)
        message = transaction.message
        own = (sponsor or self.sponsor).sign_message(to_bytes_versioned(message))
        return bytes(VersionedTransaction.populate(message, [own, *transaction.signatures[1:]]))

    def give(self, signature: str | None = None, **told: Any) -> Reply:
        """What it sells, with a receipt that names `signature` where there is one."""
        with self._lock:
            self.served += 1
            body = {"served": self.served}
        receipt = {"success": True, "transaction": signature, "network": DEVNET, **told}
        named = {} if signature is None else {"PAYMENT-RESPONSE": _encoded(receipt)}
        return Reply(200, body, named)

    def settles(self, handed: Handed) -> Reply:
        """As an honest seller: settle, wait for the ledger, give."""
        return self.give(self.ledger.landed(self.settle(handed)))

    def settles_after(self, handed: Handed) -> Reply:
        """Give, and settle only then; as often as it takes, since a ledger may be away."""

        def settle() -> None:
            for _ in range(300):
                try:
                    self.settle(handed)
                except (httpx.TransportError, AssertionError):
                    time.sleep(0.1)
                else:
                    return

        threading.Timer(0.3, settle).start()
        return self.give()

    def fails_and_settles(self, handed: Handed) -> Reply:
        """Take the money, and answer an error without a receipt."""
        self.ledger.landed(self.settle(handed))
        return Reply(500, {"error": "out of order"})

    def keeps(self, _handed: Handed) -> Reply:
        """Answer an error; what the bytes are for later is the test's to say."""
        return Reply(500, {"error": "out of order"})

    def asks_again(self, _handed: Handed) -> Reply:
        """Ask for a payment whatever is shown."""
        return self.asking()

    def asking(self) -> Reply:
        """The answer to a request without a payment."""
        with self._lock:
            self.unpaid += 1
        required = {
            "x402Version": 2,
            "error": "PAYMENT-SIGNATURE header is required",
            "resource": {"url": self.url, "description": "a thing", "mimeType": "text/plain"},
            "accepts": [self.offer()],
        }
        return Reply(402, {}, {"PAYMENT-REQUIRED": _encoded(required)})

    def answer(self, path: str, shown: str | None) -> Reply:
        """Of a request, by what it shows."""
        if shown is None:
            return self.asking()
        wire = base64.b64decode(json.loads(base64.b64decode(shown))["payload"]["transaction"])
        with self._lock:
            handed = Handed(wire, path, len(self.handed) + 1)
            self.handed.append(handed)
        return self.act(handed)


def _encoded(value: Mapping[str, Any]) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


def _handler(seller: SettlingSeller) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            reply = seller.answer(self.path, self.headers.get("PAYMENT-SIGNATURE"))
            self.close_connection = True
            if not reply.status:
                return
            body = json.dumps(reply.body).encode()
            self.send_response(reply.status)
            headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
            for name, value in (headers | dict(reply.headers)).items():
                self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    return Handler

"""A seller that is its own facilitator, and does with a buyer's bytes whatever a test says.

It settles on the ledger late, never, twice, after an error; it says what is not so. It sells by
x402, where it pays the network fee, or by MPP, where the buyer does; both are written here from the
protocols' documents, with nothing of the product. Hostile texts are `fake_seller`'s part.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any

import httpx
from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.transaction import VersionedTransaction
from spl.token.constants import TOKEN_PROGRAM_ID
from tests.e2e.payments.stage import LAMPORTS, Ledger
from tests.support.http import Handler
from tests.support.market import USDC

DEVNET = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"


@dataclass(frozen=True)
class Handed:
    """What a buyer showed: a transaction that is signed, but for the sponsor where there is one.

    Attributes:
        wire: as it came; a sponsor's signature is zeros.
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
        protocol: `x402`, or `mpp` without a sponsor.
        price: units that it asks for now.
        extra: what it adds to each offer beside its sponsor, such as a memo.
        details: what it adds to the details of each charge of MPP, such as splits.
        parameters: what it adds to each challenge of MPP, such as when it expires.
        handed: all that it was shown, in order.
        unpaid: how often it asked for a payment.
        served: how often it gave what it sells.
        act: what it does with what it is shown.
        problems: exceptions of `act`, whose requests got no answer.
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
        self.protocol = "x402"
        self.price = 50_000
        self.extra: dict[str, Any] = {}
        self.details: dict[str, Any] = {}
        self.parameters: dict[str, str] = {}
        self.handed: list[Handed] = []
        self.unpaid = 0
        self.served = 0
        self.problems: list[BaseException] = []
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

    def charge(self) -> dict[str, Any]:
        """The same by MPP."""
        details = {"network": "localnet", "decimals": 6, "tokenProgram": str(TOKEN_PROGRAM_ID)}
        return {
            "amount": str(self.price),
            "currency": USDC,
            "recipient": self.pay_to,
            "methodDetails": details | self.details,
        }

    def settle(self, handed: Handed, sponsor: Keypair | None = None) -> str:
        """Sign as the sponsor and send; the signature of what is sent."""
        return self.ledger.send(self.signed(handed.wire, sponsor))

    def signed(self, wire: bytes, sponsor: Keypair | None = None) -> bytes:
        """The transaction with the sponsor's signature."""
        transaction = VersionedTransaction.from_bytes(wire)
        message = transaction.message
        if self.protocol == "mpp":
            return wire
        own = (sponsor or self.sponsor).sign_message(to_bytes_versioned(message))
        return bytes(VersionedTransaction.populate(message, [own, *transaction.signatures[1:]]))

    def give(self, signature: str | None = None, **told: Any) -> Reply:
        """What it sells, with a receipt that names `signature` where there is one."""
        with self._lock:
            self.served += 1
            body = {"served": self.served}
        if signature is None:
            return Reply(200, body)
        if self.protocol == "mpp":
            receipt = {"method": "solana", "reference": signature, "status": "success", **told}
            return Reply(200, body, {"Payment-Receipt": _url_encoded(receipt)})
        receipt = {"success": True, "transaction": signature, "network": DEVNET, **told}
        return Reply(200, body, {"PAYMENT-RESPONSE": _encoded(receipt)})

    def settles(self, handed: Handed) -> Reply:
        """As an honest seller: settle, wait for the ledger, give."""
        return self.give(self.ledger.landed(self.settle(handed)))

    def settles_after(self, handed: Handed) -> Reply:
        """Give, and settle only then; as often as it takes, since a ledger may be away."""
        # By then it may sell with another one.
        sponsor = self.sponsor

        def settle() -> None:
            for _ in range(300):
                try:
                    self.settle(handed, sponsor)
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
            number = self.unpaid
        if self.protocol == "mpp":
            asked = f'method="solana", intent="charge", request="{_url_encoded(self.charge())}"'
            more = "".join(f', {name}="{value}"' for name, value in self.parameters.items())
            value = f'Payment id="challenge-{number}", realm="tests", {asked}{more}'
            return Reply(402, {}, {"WWW-Authenticate": value})
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
        encoded = shown.removeprefix("Payment ").replace("-", "+").replace("_", "/")
        told = json.loads(base64.b64decode(encoded + "=" * (-len(encoded) % 4)))
        wire = base64.b64decode(told["payload"]["transaction"])
        with self._lock:
            handed = Handed(wire, path, len(self.handed) + 1)
            self.handed.append(handed)
        try:
            return self.act(handed)
        except BaseException as problem:
            self.problems.append(problem)
            return Reply(0)


def _encoded(value: Mapping[str, Any]) -> str:
    """As x402 has it."""
    return base64.b64encode(json.dumps(value).encode()).decode()


def _url_encoded(value: Mapping[str, Any]) -> str:
    """As MPP has it."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _handler(seller: SettlingSeller) -> type[Handler]:
    class Selling(Handler):
        def get(self) -> None:
            self.body()
            shown = self.headers.get("PAYMENT-SIGNATURE") or self.headers.get("Authorization")
            reply = seller.answer(self.path, shown)
            self.close_connection = True
            if reply.status:
                self.reply(reply.status, dict(reply.body), {**reply.headers, "Connection": "close"})

    return Selling

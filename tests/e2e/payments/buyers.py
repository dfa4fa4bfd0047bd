"""A service whose wallets pay sellers on a shared ledger, and what must hold of one purchase."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
from tests.e2e.payments.stage import Ledger, Seller
from tests.support.clock import wait_until
from tests.support.processes import ARMED, Service, free_port

# A service whose wallets pay sellers, on a ledger that sellers settle on as well.


def beside(home: Path, ledger: Ledger, *sites: str, **environment: str) -> Service:
    """A service on a ledger of its own process, which lives on when the service is killed."""
    url = {"SOLANA_RPC_URL": ledger.rpc, "SOLANA_NETWORK": "localnet"}
    return _quick(Service(home, **url, **_paying(sites), **environment))


def with_ledger(home: Path, *sites: str, **environment: str) -> Service:
    """A service with its embedded ledger, which it serves to others as well; not started."""
    service = Service(home, LOCALNET_SLOT_MS="100", **_paying(sites), **environment)
    service.starting = ("up", "--no-dashboard", "--rpc-port", str(_two_free_ports()))
    return _quick(service)


def armed(what: str) -> str:
    """As `Service.start` takes it, for a service that pays."""
    return f"fresh,{what}"


def _quick(service: Service) -> Service:
    """For slots of 100 ms, so that what never lands is told within seconds."""
    service.program = (str(ARMED), "fresh")
    return service


def _two_free_ports() -> int:
    """The first of two that nothing listens on: JSON-RPC, and WebSocket on the next one."""
    while True:
        port = free_port()
        try:
            with socket.create_server(("127.0.0.1", port + 1)):
                return port
        except OSError:
            continue


def rpc_of(service: Service) -> str:
    """Where a service with its own ledger serves it."""
    return f"http://127.0.0.1:{service.starting[-1]}"


def _paying(sites: Sequence[str]) -> dict[str, str]:
    return {
        "PAYMENTS_LOCALNET_AS": "devnet",
        "PAYMENTS_PRIVATE_SITES": ",".join(sites),
        # Tests ask often for the end of a payment.
        "REQUESTS_PER_MINUTE": "100000",
    }


def may_pay(*sites: str, per_day: str = "1", per_tx: str = "0.2", **more: Any) -> dict[str, Any]:
    """A grant to pay these sites in USDC; every site where none is named."""
    limit = {"perTx": per_tx, "per": {"24h": per_day}}
    grant: dict[str, Any] = {"may": ["pay"], "assets": {"USDC": limit}} | more
    return grant | ({"via": [f"site:{each}" for each in sites]} if sites else {})


@dataclass
class Buyer:
    """A wallet and the key that pays from it.

    Attributes:
        lamports: what it was given; none where sellers must pay its fees.
        usdc: units that it was given.
        token: of a key under grants.
    """

    service: Service
    ledger: Ledger
    wallet: str
    address: str
    token: str
    key: str
    usdc: int
    lamports: int

    @classmethod
    def made(
        cls,
        service: Service,
        ledger: Ledger,
        *grants: dict[str, Any],
        usdc: int = 1_000_000,
        lamports: int = 0,
        name: str = "buyer",
    ) -> Buyer:
        """A new wallet with USDC, and a new key that `grants` bound."""
        with service.client() as admin:
            wallet = admin.post("/wallets", json={"name": name}).json()
            fields = {
                "name": name,
                "walletId": wallet["walletId"],
                "grants": list(grants),
                "rateLimit": 100_000,
            }
            made = admin.post("/keys", json=fields)
            assert made.status_code == 200, made.text
            key = made.json()
        ledger.give(wallet["address"], usdc, lamports)
        token = str(key["apiKey"])
        return cls(
            service=service,
            ledger=ledger,
            wallet=wallet["walletId"],
            address=wallet["address"],
            token=token,
            key=str(key["id"]),
            usdc=usdc,
            lamports=lamports,
        )

    def ask(self, path: str, **query: Any) -> Any:
        """What the service answers to the key."""
        with self.service.client(self.token) as http:
            answer = http.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def pay(
        self, url: str, most: str = "0.1 USDC", key: str | None = None, **body: Any
    ) -> httpx.Response:
        """`POST /wallets/:id/pay`."""
        headers = {} if key is None else {"Idempotency-Key": key}
        asked = {"url": url, "max": most} | body
        with self.service.client(self.token) as http:
            return http.post(f"/wallets/{self.wallet}/pay", json=asked, headers=headers)

    def paid(self, url: str, **options: Any) -> Any:
        """The answer to a payment that the service made, whatever the seller answered."""
        answer = self.pay(url, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refused(self, url: str, **options: Any) -> str:
        """Why the service did not pay."""
        answer = self.pay(url, **options)
        assert answer.status_code in (400, 403, 500), (answer.status_code, answer.text)
        return str(answer.json()["error"])

    def payment(self, payment_id: str) -> Any:
        """`GET /payments/:id`, without the kept answer."""
        return self.ask(f"/payments/{payment_id}")["payment"]

    def payments(self) -> list[Any]:
        """All of the wallet's, newest first."""
        return list(self.ask("/payments", walletId=self.wallet, limit=500)["payments"])

    def record(self, payment_id: str) -> Any:
        """Its record among the wallet's transactions."""
        listed = self.ask(f"/wallets/{self.wallet}/transactions", limit=500)["transactions"]
        [found] = [each for each in listed if each["id"] == payment_id]
        return found

    def ended(self, payment_id: str, within_s: float = 60) -> Any:
        """The payment once its end is known."""

        def known() -> Any:
            payment = self.payment(payment_id)
            return None if payment["status"] == "pending" else payment

        return wait_until(known, f"the end of payment {payment_id}", within_s)

    def left(self) -> int:
        """Units that the wallet holds, by the ledger."""
        return self.ledger.usdc(self.address)

    def spent(self) -> int:
        """Units that left the wallet, by the ledger."""
        return self.usdc - self.left()

    def counted(self) -> int:
        """Units that count in the window of the key's first grant, reserved ones included."""
        [grant] = self.ask(f"/wallets/{self.wallet}/limits")["grants"][0]["grants"]
        [limit] = [each for each in grant["limits"] if each["asset"] == "USDC"]
        return units(limit["used"])


def command(
    buyer: Buyer, *arguments: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """`solward ARGUMENTS` against the buyer's service, by its key."""
    environment = {
        "PATH": os.environ["PATH"],
        "SOLWARD_HOME": str(buyer.service.home),
        "SOLWARD_API_KEY": buyer.token,
        "SOLWARD_API_URL": re.sub(r"/api/v1$", "", buyer.service.url),
    }
    return subprocess.run(
        [sys.executable, "-m", "solward_cli", *arguments],
        env=environment,
        cwd=cwd or buyer.service.home.parent,
        capture_output=True,
        text=True,
        timeout=60,
    )


def units(amount: Any) -> int:
    """Smallest units of an amount of USDC."""
    return int(Decimal(str(amount)).scaleb(6))


# What must hold of one purchase by the ledger, whoever asked for it and by whatever protocol.

CLIENTS = ("rest", "command")


@dataclass(frozen=True)
class Purchase:
    """What a buyer got, and what it cost by the ledger.

    Attributes:
        body: of the seller's answer.
        payment: as the service shows it.
        fee: lamports that the buyer paid beside the price.
    """

    body: Any
    payment: Any
    fee: int


def asked(buyer: Buyer, client: str, url: str, most: str, **request: Any) -> tuple[Any, Any]:
    """The seller's answer, and the payment, by one of `CLIENTS`."""
    if client == "rest":
        answer = buyer.paid(url, most=most, **request)
        assert answer["response"]["status"] == 200, answer
        return json.loads(answer["response"]["body"]), answer["payment"]
    options = ["--max", most, "--wallet", buyer.wallet]
    if "body" in request:
        options += ["-d", request["body"], "-H", "Content-Type: application/json"]
    if "protocol" in request:
        options += ["--protocol", request["protocol"]]
    ran = command(buyer, "pay", "curl", url, *options)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout), buyer.payments()[0]


def purchase(
    buyer: Buyer,
    seller: Seller,
    path: str,
    price: int,
    client: str = "rest",
    most: str = "0.1 USDC",
    **request: Any,
) -> Purchase:
    """Buy once, and hold it against the ledger: the price left once, for one answer, and counts."""
    ledger = buyer.ledger
    left, taken, sol = buyer.left(), ledger.usdc(seller.pay_to), ledger.sol(buyer.address)
    counted, known = buyer.counted(), {each["signature"] for each in ledger.history(buyer.address)}
    body, payment = asked(buyer, client, f"{seller.url}{path}", most, **request)

    payment = buyer.ended(payment["id"])
    assert payment["status"] == "confirmed", payment
    assert (payment["state"], payment["served"]) == ("landed", "yes")
    assert payment["site"] == seller.site
    assert payment["payTo"] == seller.pay_to
    assert units(payment["amount"]) == price
    assert left - buyer.left() == price
    assert ledger.usdc(seller.pay_to) - taken == price
    assert buyer.counted() - counted == price
    # One transaction touched the wallet's account, and it is the one that the record names.
    [new] = [each for each in ledger.history(buyer.address) if each["signature"] not in known]
    assert new["err"] is None
    assert payment["signature"] == new["signature"]
    record = buyer.record(payment["id"])
    assert (record["status"], record["type"]) == ("confirmed", "payment")
    assert record["signature"] == new["signature"]
    return Purchase(body, payment, sol - ledger.sol(buyer.address))

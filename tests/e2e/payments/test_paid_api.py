"""The example's seller is paid by clients that others made, through a facilitator that others made.

tests/ of the example has its hostile buyers.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import httpx
import pytest
from tests.e2e.payments.stage import LAMPORTS, MINT, Counterparts
from tests.promises import promise
from tests.support.http import Handler, served_in_thread
from tests.support.processes import free_port
from tests.support.repository import ROOT

# The first run makes the environments.
pytestmark = [pytest.mark.more, pytest.mark.timeout(600)]

PRICE = 10_000
FOLDER = ROOT / "examples" / "paid_api"


@pytest.fixture(scope="module")
def pay_to(stage: Counterparts) -> str:
    return str(stage.ledger.buyer(0).pubkey())


@contextlib.contextmanager
def serving(stage: Counterparts, pay_to: str, facilitator: str) -> Iterator[str]:
    """The seller as its README starts it, with both protocols."""
    port = free_port()
    environment = os.environ | {
        "PAY_TO": pay_to,
        "MINT": str(MINT),
        "RPC_URL": stage.ledger.rpc,
        "FACILITATOR_URL": facilitator,
        "PORT": str(port),
    }
    command = [sys.executable, "-m", "paid_api"]
    process = subprocess.Popen(command, cwd=FOLDER, env=environment)
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                assert httpx.get(address).json()["units"] == PRICE
                break
            except httpx.TransportError:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield address
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
def facilitator(stage: Counterparts) -> str:
    return stage.facilitator("x402_python")[1]


@pytest.fixture(scope="module")
def url(stage: Counterparts, pay_to: str, facilitator: str) -> Iterator[str]:
    with serving(stage, pay_to, facilitator) as address:
        yield address


@contextlib.contextmanager
def of_version_1(facilitator: str) -> Iterator[str]:
    """The facilitator, as one that knows the first version alone."""

    class Facilitator(Handler):
        def get(self) -> None:
            answer = httpx.get(facilitator + self.path)
            known = answer.json()
            known["kinds"] = [each for each in known["kinds"] if each["x402Version"] == 1]
            self.reply(answer.status_code, json.dumps(known).encode())

        def post(self) -> None:
            asked = self.body()
            kind = {"Content-Type": "application/json"}
            answer = httpx.post(facilitator + self.path, content=asked, headers=kind, timeout=30)
            self.reply(answer.status_code, answer.content)

    with served_in_thread(Facilitator) as url:
        yield url


@promise("other-clients-buy")
@pytest.mark.parametrize(
    ("path", "client", "given"),
    [
        pytest.param("/x402/forecast", ("x402_python", "buyer.py"), {}, id="x402 of Python"),
        pytest.param("/x402/forecast", ("npm", "x402_buyer.mjs"), {}, id="x402 of npm"),
        pytest.param("/forecast", ("npm", "mpp_buyer.mjs"), {}, id="MPP of npm"),
        pytest.param("/forecast", ("npm", "mpp_buyer.mjs"), {"push": True}, id="MPP by push"),
    ],
)
def test_others_clients_buy_a_forecast(
    stage: Counterparts,
    pay_to: str,
    url: str,
    path: str,
    client: tuple[str, str],
    given: dict[str, bool],
) -> None:
    buys(stage, pay_to, f"{url}{path}", client, given)


@promise("other-clients-buy")
def test_a_client_of_the_first_version_buys_a_forecast(
    stage: Counterparts, pay_to: str, facilitator: str
) -> None:
    with of_version_1(facilitator) as first, serving(stage, pay_to, first) as url:
        path = f"{url}/x402/forecast"
        assert "PAYMENT-REQUIRED" not in httpx.get(path).headers
        buys(stage, pay_to, path, ("npm", "x402_buyer.mjs"), {})


def buys(
    stage: Counterparts,
    pay_to: str,
    address: str,
    client: tuple[str, str],
    given: dict[str, bool],
) -> None:
    """One forecast for one payment, by the ledger."""
    ledger = stage.ledger
    buyer = ledger.buyer(1_000_000, LAMPORTS)
    before = ledger.usdc(pay_to)
    answer = stage.bought(*client, buyer, url=address, **given)
    assert answer["status"] == 200, answer
    assert set(answer["body"]) == {"day", "forecast"}
    assert ledger.usdc(pay_to) - before == PRICE
    assert ledger.usdc(str(buyer.pubkey())) == 1_000_000 - PRICE

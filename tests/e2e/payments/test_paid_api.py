"""The example's seller is paid by clients that others made, through a facilitator that others made.

tests/ of the example has its hostile buyers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import httpx
import pytest
from tests.support.payment_sellers import LAMPORTS, MINT, Counterparts, payment_stage
from tests.support.repository import ROOT
from tests.support.service_process import free_port

# The first run makes the environments.
pytestmark = [pytest.mark.more, pytest.mark.timeout(600)]

PRICE = 10_000
FOLDER = ROOT / "examples" / "paid_api"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counterparts]:
    with payment_stage(tmp_path_factory.mktemp("stage")) as counterparts:
        yield counterparts


@pytest.fixture(scope="module")
def pay_to(stage: Counterparts) -> str:
    return str(stage.ledger.buyer(0).pubkey())


@pytest.fixture(scope="module")
def url(stage: Counterparts, pay_to: str) -> Iterator[str]:
    """The seller as its README starts it, with both protocols."""
    _, facilitator = stage.facilitator("x402_python")
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


@pytest.mark.parametrize(
    ("path", "client", "given"),
    [
        pytest.param("/x402/forecast", ("x402_python", "buyer.py"), {}, id="x402 of Python"),
        pytest.param("/x402/forecast", ("npm", "x402_buyer.mjs"), {}, id="x402 of npm"),
        pytest.param("/forecast", ("npm", "mpp_buyer.mjs"), {"push": True}, id="MPP of npm"),
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
    ledger = stage.ledger
    buyer = ledger.buyer(1_000_000, LAMPORTS)
    before = ledger.usdc(pay_to)
    answer = stage.bought(*client, buyer, url=f"{url}{path}", **given)
    assert answer["status"] == 200, answer
    assert set(answer["body"]) == {"day", "forecast"}
    assert ledger.usdc(pay_to) - before == PRICE
    assert ledger.usdc(str(buyer.pubkey())) == 1_000_000 - PRICE

"""Four client processes race for one budget; the ledger counts who got through."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.support.processes import SECRET, Service, funded_wallet, sol_of

pytestmark = pytest.mark.more

RACER = Path(__file__).with_name("racer.py")
AMOUNT = "0.5"


def race(service: Service, token: str, each: int, recipient: str, wallets: list[str]) -> set[str]:
    """Run the four racers at once; returns the signatures they were given."""
    command = [sys.executable, str(RACER), service.url, token, str(each), AMOUNT, recipient]
    racers = [
        subprocess.Popen([*command, *wallets], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    outputs = [racer.communicate(timeout=300)[0] for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 4
    signatures = "".join(outputs).split()
    assert len(signatures) == len(set(signatures))
    return set(signatures)


def wallet_race(service: Service, each: int) -> tuple[int, Decimal]:
    """Race on one wallet with a 10 SOL day; how many were accepted, and what arrived."""
    with service.client() as client:
        wallet = funded_wallet(client, "racer", 12)
        recipient = client.post("/wallets", json={"name": "recipient"}).json()
        accepted = race(service, SECRET, each, recipient["address"], [wallet])
        return len(accepted), sol_of(client, recipient["walletId"])


@promise("verdict-and-reservation-atomic", "limits-hold-concurrently")
@pytest.mark.timeout(600)
def test_one_wallet_spends_its_day_exactly(services: Any) -> None:
    accepted, arrived = wallet_race(services().start(), 100)
    assert (accepted, arrived) == (20, 10)


@promise("key-day-is-limited")
@pytest.mark.timeout(600)
def test_one_key_over_ten_wallets_spends_its_day_exactly(services: Any) -> None:
    service = services(DAILY_SPENDING_LIMIT_SOL="1000").start()
    with service.client() as client:
        wallets = [funded_wallet(client, f"racer-{n}", 4) for n in range(10)]
        recipient = client.post("/wallets", json={"name": "recipient"}).json()
        key = client.post(
            "/keys", json={"name": "racer", "rateLimit": 100_000, "spendingLimitSol": 10}
        ).json()["apiKey"]
        accepted = race(service, key, 100, recipient["address"], wallets)
        assert len(accepted) == 20
        assert sol_of(client, recipient["walletId"]) == 10


@promise("verdict-and-reservation-atomic")
@pytest.mark.timeout(600)
def test_the_race_is_lost_when_check_and_reservation_are_two_transactions(services: Any) -> None:
    service = services().start("mutant:split_reservation")
    accepted, arrived = wallet_race(service, 100)
    assert accepted > 20
    assert arrived == accepted * Decimal(AMOUNT)

"""Killed at every point of a swap, in one transaction and in steps: the pocket ends empty, and what
counts is what left the wallet."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import httpx
import pytest
from sqlalchemy import select
from tests.e2e.money.test_crash_points import settled
from tests.promises import promise
from tests.support.localnet import rent
from tests.support.processes import Service, funded_wallet, sol_of

from solward.database.database import Database
from solward.database.tables import attempts, pockets
from solward.solana.programs import TOKEN_PROGRAM
from solward.vault.money.steps import PAID_STEPS, Step
from solward.vault.store.attempts import AttemptState
from solward_localnet.market import genesis_accounts
from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions

AMOUNT = Decimal("0.01")
RENT = Decimal(rent(165)).scaleb(-9)
BODY = {"inputToken": "SOL", "outputToken": "USDC", "amount": float(AMOUNT)}

ONE = [(step, 1) for step in PAID_STEPS]
# Funding, call and sweep; the last `settled` is that of the record.
STEPS = [
    *((step, 1) for step in (Step.BUILT, Step.ASSESSED, Step.RESERVED)),
    *(
        (step, nth)
        for nth in (1, 2, 3)
        for step in (Step.SIGNED, Step.WRITTEN_AHEAD, Step.SENT, Step.LANDED, Step.SETTLED)
    ),
    (Step.SETTLED, 4),
]
# One before the bytes are durable, the first that are, and one of each later transaction.
OFTEN = ((Step.RESERVED, 1), (Step.WRITTEN_AHEAD, 1), (Step.SENT, 2), (Step.LANDED, 3))


def mostly_long(points: list[tuple[Step, int]]) -> list[Any]:
    """Those of `OFTEN`, and the others for `make test-long`."""
    return [
        each if each in OFTEN else pytest.param(*each, marks=pytest.mark.long) for each in points
    ]


FEES = {"": Decimal("0.00001"), "fund": Decimal("0.000005"), "sweep": Decimal("0.00001")}


async def stored(service: Service) -> tuple[list[tuple[str, str]], list[str]]:
    """(step, state) of every attempt of a swap, and the addresses of its pockets."""
    database = Database.inspect(service.environment.get("DATABASE_URL"), service.home)
    try:
        async with database.read() as connection:
            found = select(attempts.c.step, attempts.c.state).where(
                attempts.c.transaction_id.in_(select(pockets.c.transaction_id))
            )
            rows = [(row.step, row.state) for row in await connection.execute(found)]
            addresses = list((await connection.execute(select(pockets.c.address))).scalars())
    finally:
        await database.close()
    return rows, addresses


async def check_empty(service: Service, addresses: list[str]) -> None:
    """As the stopped service's ledger has it: no lamports, no token account."""
    ledger = Localnet.open(service.home / "localnet.db", LocalnetOptions(genesis=genesis_accounts))
    localnet = await ledger
    try:
        for address in addresses:
            balance = await localnet.call("getBalance", [address])
            assert balance["value"] == 0
            program = {"programId": TOKEN_PROGRAM}
            options = {"encoding": "base64"}
            held = await localnet.call("getTokenAccountsByOwner", [address, program, options])
            assert held["value"] == []
    finally:
        await localnet.close()


def crash_and_recover(service: Service, form: str, step: Step, nth: int) -> None:
    """One swap, killed at the nth passing of `step`, retried with its key after a restart."""
    service.start()
    with service.client() as client:
        wallet = funded_wallet(client, "swapper", 2)
        before = sol_of(client, wallet)
    service.stop()

    key = {"Idempotency-Key": f"crash-{form}-{step}-{nth}"}
    path = f"/wallets/{wallet}/swap"
    service.start(f"{form}kill:{step}:{nth}")
    with service.client() as client, pytest.raises(httpx.TransportError):
        client.post(path, json=BODY, headers=key)
    service.wait_killed()

    service.start(form.rstrip(",") or None)
    with service.client() as client:
        answer = settled(client, path, BODY, key)
        again = client.post(path, json=BODY, headers=key)
        assert (again.status_code, again.text) == (answer.status_code, answer.text)
        records = client.get(f"/wallets/{wallet}/transactions").json()["transactions"]
        (record,) = [each for each in records if each["type"] == "swap"]
        left = before - sol_of(client, wallet)
        limits = client.get(f"/wallets/{wallet}/limits").json()["dailySpendingLimitSol"]
        tokens = client.get(f"/wallets/{wallet}/balance").json()["tokens"]
    rows, addresses = asyncio.run(stored(service))
    service.stop()

    assert len(addresses) <= 1
    asyncio.run(check_empty(service, addresses))
    landed = [name for name, state in rows if state == AttemptState.LANDED_OK]
    assert {state for _, state in rows} <= {AttemptState.LANDED_OK}
    swapped = "call" in landed or "" in landed
    assert (record["status"] == "confirmed") == swapped, record
    assert bool(tokens) == swapped
    # Nothing is reserved any more, and what counts is what left, its fees and rent aside.
    spent, fees = Decimal(str(limits["spent"])), sum(FEES.get(name, Decimal(0)) for name in landed)
    assert limits["reserved"] == 0
    assert spent >= 0
    assert left == spent + fees + (RENT if swapped else 0)
    assert spent == (AMOUNT + (Decimal("0.000005") if "call" in landed else 0) if swapped else 0)


@promise("killed-pocket-ends-empty")
@pytest.mark.more
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("step", "nth"), mostly_long(ONE))
def test_a_swap_in_one_transaction_killed_anywhere_leaves_its_pocket_empty(
    services: Any, step: Step, nth: int
) -> None:
    crash_and_recover(services(), "", step, nth)


@promise("killed-pocket-ends-empty", "killed-swap-leaves-none")
@pytest.mark.more
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("step", "nth"), mostly_long(STEPS))
def test_a_swap_in_steps_killed_anywhere_leaves_its_pocket_empty(
    services: Any, step: Step, nth: int
) -> None:
    crash_and_recover(services(), "whole,", step, nth)


@promise("killed-pocket-twenty-times")
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("turn", range(20))
@pytest.mark.parametrize(
    ("form", "step", "nth"),
    [*(("", *at) for at in ONE), *(("whole,", *at) for at in STEPS)],
)
def test_every_point_of_both_forms_twenty_times(
    services: Any, form: str, step: Step, nth: int, turn: int
) -> None:
    crash_and_recover(services(), form, step, nth)

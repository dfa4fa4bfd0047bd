"""Every operation and payment on each chain that Solana was or may be: of any rent and slot time,
with and without version 1 and the word `confirmed`, and while its rent changes."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from tests.operations.matrix.cases import MOST_SOL, ROWS
from tests.operations.matrix.row import Route, Spends
from tests.operations.matrix.stand import new_stand, stranger
from tests.operations.matrix.test_matrix import ask, done
from tests.operations.payments.test_paying import charged_by, lands, send
from tests.promises import promise
from tests.support.payments import PRICE, Shop, charge, mpp, open_shop
from tests.support.sellers import Asked, Reply
from tests.support.swaps import pay_sol

from solward.context import PocketRequest
from solward.solana.protocol import MOST_RENT_PER_BYTE, rent_of
from solward.types.money import lamports_to_sol
from solward.vault.money.request import ADMIN

# Lamports a byte: of the steps of SIMD-0437, and back by SIMD-0438.
RENTS = (MOST_RENT_PER_BYTE, 5_080, 2_575, 696, MOST_RENT_PER_BYTE)
SLOTS_MS = (400, 300, 200, 150)
TAKES_VERSION_1 = (True, False)
FINALITIES = ("alpenglow", "tower", "finalized")


@dataclass(frozen=True)
class Chain:
    """A cluster: the rent changes to `RENTS[step]` while the service runs on it."""

    step: int
    slot_ms: int
    takes_version_1: bool
    finality: str

    def __str__(self) -> str:
        version = "v1" if self.takes_version_1 else "v0"
        return f"{RENTS[self.step]}-{self.step}-{self.slot_ms}ms-{version}-{self.finality}"


CHAINS = [
    Chain(*each)
    for each in itertools.product(range(len(RENTS)), SLOTS_MS, TAKES_VERSION_1, FINALITIES)
]


def pairwise(chains: list[Chain]) -> list[Chain]:
    """Some of them, so that any two values of two fields meet in one."""

    def pairs(chain: Chain) -> set[Any]:
        fields = (chain.step, chain.slot_ms, chain.takes_version_1, chain.finality)
        return set(itertools.combinations(enumerate(fields), 2))

    open_pairs = set().union(*map(pairs, chains))
    chosen = []
    while open_pairs:
        best = max(chains, key=lambda each: len(pairs(each) & open_pairs))
        chosen.append(best)
        open_pairs -= pairs(best)
    return chosen


PAIRWISE = pairwise(CHAINS)


@asynccontextmanager
async def shop_on(chain: Chain, home: Path) -> AsyncIterator[Shop]:
    """A service on the chain, whose wallet has tokens of before its rent changed."""
    async with open_shop(
        home,
        localnet_rent_per_byte=RENTS[chain.step - 1],
        localnet_slot_ms=chain.slot_ms,
        localnet_finality=chain.finality,
        localnet_version_1="on" if chain.takes_version_1 else "off",
        max_sol_per_transaction=MOST_SOL,
    ) as shop:
        assert shop.service.localnet is not None
        await shop.service.localnet.set_rent(RENTS[chain.step])
        yield shop


async def every_skill(shop: Shop) -> None:
    """Each does what it does anywhere, to the lamport."""
    for skill, row in ROWS.items():
        if isinstance(row.does, Spends):
            stand = await new_stand(shop.api)
            params = await row.ready(stand)
            way = "rest" if isinstance(row.route, Route) else "skill"
            before = await stand.records()
            said = await ask(stand, row, skill, way, params)
            await done(stand, row.does, params, before, said)


async def both_protocols(shop: Shop) -> None:
    """A purchase by x402 and one by MPP are each paid once."""
    earned, bought = await shop.earned(), await shop.buys()
    assert (bought.status, await shop.earned()) == (200, earned + PRICE)

    async def charges(asked: Asked) -> Reply:
        if not asked.paid:
            return mpp(charge())
        shop.settled.append(await send(shop, charged_by(asked)))
        return Reply(200, (), b"charged")

    shop.seller.answer = charges
    assert (await shop.buys()).status == 200
    assert (await lands(shop))["signature"] == shop.settled[-1]
    assert await shop.earned() == earned + 2 * PRICE


async def held_payment(shop: Shop) -> None:
    """What a person approves is paid once."""
    asks = {
        "may": ["transfer"],
        "assets": {"SOL": {"per": {"24h": "1"}, "hold": "0.1"}},
        "to": ["any"],
    }
    token, _ = await shop.api.key(rateLimit=100, grants=[asks])
    body = {"to": stranger(), "amount": Decimal("0.2")}
    held = await shop.api.post(f"/wallets/{shop.wallet}/transfer", body, token=token)
    assert held.status == 202, held.text
    decided = await shop.api.post(f"/holds/{held.json['holdId']}/approve", {})
    assert decided.json["state"] == "executed"
    assert (await shop.call("getBalance", body["to"]))["value"] == 200_000_000


async def sweep(shop: Shop) -> None:
    """What a position left in its pocket comes back."""

    async def build(address: str) -> list[object]:
        return [pay_sol(Pubkey.from_string(address), Keypair().pubkey(), 1_000_000)]

    request = PocketRequest(
        build=build,  # type: ignore[arg-type]
        lamports=5_000_000,
        program=str(Keypair().pubkey()),
        position="pool 3",
        stays=True,
    )
    await shop.service.operations.use_pocket(shop.wallet, ADMIN, request)
    (pocket,) = (await shop.api.get(f"/wallets/{shop.wallet}/pockets")).json["pockets"]
    swept = await shop.api.post(f"/wallets/{shop.wallet}/pockets/{pocket['address']}/sweep")
    assert (swept.status, swept.json["status"]) == (200, "confirmed")
    assert (await shop.call("getBalance", pocket["address"]))["value"] == 0


async def reclaim(shop: Shop, step: int) -> None:
    """The account of before gives its excess back, where there is one."""
    excess = rent_of(165, RENTS[step - 1]) - rent_of(165, RENTS[step])
    answer = await shop.api.post(f"/wallets/{shop.wallet}/reclaim-rent")
    if excess <= 0:
        assert (answer.status, answer.error) == (400, "There is no rent to reclaim")
    else:
        assert answer.json["details"]["reclaimed"] == lamports_to_sol(excess)


@promise("every-chain")
@pytest.mark.more
@pytest.mark.parametrize(
    "chain",
    [each if each in PAIRWISE else pytest.param(each, marks=pytest.mark.long) for each in CHAINS],
    ids=str,
)
async def test_whatever_the_chain_is_each_operation_is_done_once(
    tmp_path: Path, chain: Chain
) -> None:
    async with shop_on(chain, tmp_path / "home") as shop:
        await reclaim(shop, chain.step)
        await every_skill(shop)
        await both_protocols(shop)
        await held_payment(shop)
        await sweep(shop)
        records = await shop.api.records(shop.wallet)
        assert {each["status"] for each in records} <= {"confirmed", "blocked"}

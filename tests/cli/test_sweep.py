"""Sweeping a wallet empty: by the client, over the real application and the real ledger."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from sqlalchemy import update
from tests.promises import promise
from tests.support.localnet import rent
from tests.support.services import SECRET, Api, Carrier, serving_api
from tests.support.swaps import pay_sol

from solward.client import SolwardClient
from solward.context import PocketRequest
from solward.database.tables import reservations
from solward.settings import Settings
from solward.types.errors import InvalidRequest
from solward.types.money import LAMPORTS_PER_SOL, format_sol
from solward.vault.money.request import ADMIN
from solward_cli.recording_transport import RecordingTransport
from solward_cli.service_call import ServiceCall
from solward_cli.sweep import (
    _MORE,
    FEE,
    LEAST_PART,
    MOST_RENT,
    Sweep,
    check_idle,
    list_steps,
    next_part,
)
from solward_localnet.market import POOLS

USDC = str(POOLS[0].mint)
SOL = LAMPORTS_PER_SOL
WIDE = {"max_transactions_per_minute": 1000, "daily_spending_limit_sol": Decimal(1000)}


@dataclass
class Stand:
    """A service, a client of it, a wallet of 4 SOL, and an address to sweep to."""

    api: Api
    client: SolwardClient
    wallet: str
    to: str = field(default_factory=lambda: str(Keypair().pubkey()))
    told: list[str] = field(default_factory=list)

    async def sweep(self, tell: Any = None) -> Sweep:
        found = await self.client.wallets.get(self.wallet)
        swept = Sweep(self.client, found, self.to, tell or self.told.append)
        await swept.run()
        return swept

    async def lamports(self, address: str | None = None) -> int:
        at = address or (await self.client.wallets.get(self.wallet)).address
        return await self.api.service.ledger.balance(at)

    async def units(self, owner: str, mint: str) -> int:
        held = await self.api.service.ledger.holdings(owner)
        return sum(each.units for each in held if each.mint == mint)

    async def records(self) -> list[Any]:
        return await self.api.records(self.wallet)


@asynccontextmanager
async def standing(tmp_path: Path, sol: int = 4, **given: Any) -> AsyncIterator[Stand]:
    async with serving_api(tmp_path / "home", demo=True, **(WIDE | given)) as api:
        wallet = await api.wallet()
        for _ in range(sol // 2):
            assert (await api.post(f"/wallets/{wallet}/airdrop", {"amount": 2})).status == 200
        transport = Carrier(api.app)
        async with SolwardClient("http://test", SECRET, transport=transport) as client:
            yield Stand(api, client, wallet)


async def furnish(stand: Stand) -> str:
    """Wrapped SOL, tokens of both programs and an empty account; returns the Token-2022 mint."""
    wallets, wallet = stand.client.wallets, stand.wallet
    await wallets.wrap_sol(wallet, amount="0.5")
    await wallets.swap(wallet, input_token="SOL", output_token="USDC", amount="0.2")
    await wallets.swap(wallet, input_token="SOL", output_token="BONK", amount="0.1")
    held = (await wallets.balance(wallet)).tokens
    (bonk,) = [token for token in held if token.symbol == "BONK"]
    await wallets.burn(wallet, mint="BONK", amount=bonk.amount)
    made = await wallets.launch_token(wallet, name="Mine", symbol="MINE", decimals=2)
    return str(made.details["mint"])


@pytest.mark.more
async def test_everything_arrives_and_exactly_nothing_is_left(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand:
        mine = await furnish(stand)
        wallet = await stand.client.wallets.get(stand.wallet)
        usdc = await stand.units(wallet.address, USDC)
        swept = await stand.sweep()
        assert swept.left == []
        assert await stand.lamports() == 0
        assert await stand.api.service.ledger.holdings(wallet.address) == ()
        assert await stand.units(stand.to, USDC) == usdc > 0
        assert await stand.units(stand.to, mine) == 100_000_000
        types = [made.type for made in swept.sent]
        assert types == [
            "unwrap_sol", "token_transfer", "token_transfer",
            *["close_account"] * 3, "transfer", "transfer",
        ]  # fmt: skip
        # What was not swept in the end is what it cost, to the lamport.
        records = await stand.records()
        assert {record["status"] for record in records} == {"confirmed"}
        assert await stand.lamports(stand.to) > int(3.6 * SOL)
        again = await stand.sweep()
        assert (again.sent, again.left) == ([], [])
        assert len(await stand.records()) == len(records)


async def with_pocket(stand: Stand, lamports: int) -> str:
    """A position of the wallet's, which holds lamports and a token; returns its pocket."""
    program = str(Keypair().pubkey())

    async def pay(address: str) -> list[Any]:
        return [pay_sol(Pubkey.from_string(address), Keypair().pubkey(), MOST_RENT)]

    await stand.client.wallets.swap(
        stand.wallet, input_token="SOL", output_token="USDC", amount="0.2"
    )
    request = PocketRequest(
        build=pay,
        lamports=lamports,
        tokens={USDC: 1_000_000},
        program=program,
        position="pool 3",
        stays=True,
    )
    await stand.api.service.operations.use_pocket(stand.wallet, ADMIN, request)
    [pocket] = (await stand.client.wallets.pockets(stand.wallet)).pockets
    return pocket.address


async def test_what_pockets_hold_comes_home_first_and_leaves_with_the_rest(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand:
        wallet = await stand.client.wallets.get(stand.wallet)
        pocket = await with_pocket(stand, 500_000_000)
        at_home = await stand.units(wallet.address, USDC)
        [line] = [each for each in await list_steps(stand.client, wallet) if "pocket" in each]
        assert f"{pocket} of position pool 3 (put in: 1000000 units of {USDC}, 0." in line
        before = await stand.lamports(), await stand.lamports(pocket)
        assert before[1] > 400_000_000
        swept = await stand.sweep()
        assert swept.left == []
        assert [made.type for made in swept.sent][:2] == ["other", "token_transfer"]
        assert (await stand.lamports(pocket), await stand.lamports()) == (0, 0)
        assert await stand.api.service.ledger.holdings(pocket) == ()
        assert await stand.units(stand.to, USDC) == at_home + 1_000_000
        assert await stand.lamports(stand.to) > sum(before) - MOST_RENT * 4
        assert (await stand.client.wallets.pockets(stand.wallet)).pockets == ()


@pytest.mark.more
async def test_what_a_pocket_holds_is_named_where_a_key_may_not_empty_it(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand:
        pocket = await with_pocket(stand, 500_000_000)
        key, key_id = await stand.api.key(spendingLimitSol=100)
        limits = {asset: {"per": {"24h": "1000"}} for asset in ("SOL", "USDC")}
        grant = {"may": ["transfer", "fund"], "assets": limits, "costs": "0.05"}
        put = await stand.api.call("PUT", f"/policy/key:{key_id}", {"grants": [grant]})
        assert put.status == 200, put.text
        transport = Carrier(stand.api.app)
        async with SolwardClient("http://test", key, transport=transport) as client:
            swept = await Stand(stand.api, client, stand.wallet, stand.to).sweep()
        [left] = swept.left
        assert pocket in left.what
        assert "admin secret" in left.advice
        assert (await stand.lamports(), await stand.lamports(pocket) > 0) == (0, True)


async def test_sol_leaves_in_the_parts_that_the_limit_allows_to_the_last_lamport(
    tmp_path: Path,
) -> None:
    async with standing(tmp_path, max_sol_per_transaction=Decimal("1.5")) as stand:
        swept = await stand.sweep()
        assert (swept.left, await stand.lamports()) == ([], 0)
        assert [made.details["amount"] for made in swept.sent] == [
            Decimal("1.5"), Decimal("1.5"), Decimal("0.999985"),
        ]  # fmt: skip
        assert await stand.lamports(stand.to) == 4 * SOL - 3 * FEE


LIMIT = st.none() | st.integers(0, 5 * SOL)


@given(balance=st.integers(0, 20 * SOL), per_tx=LIMIT, today=LIMIT)
def test_parts_keep_within_limits_leave_what_may_be_held_and_end_at_nothing_or_a_limit(
    balance: int, per_tx: int | None, today: int | None
) -> None:
    for _ in range(400):
        part = next_part(balance, per_tx, today)
        if part == 0:
            break
        assert per_tx is None or part <= per_tx
        assert today is None or part <= today
        balance -= part + FEE
        # The next fee leaves enough too.
        assert balance == 0 or balance - FEE >= MOST_RENT
        today = None if today is None else today - part
    else:
        return
    caps = [cap for cap in (per_tx, today) if cap is not None]
    if balance >= FEE + MOST_RENT:
        assert caps
        assert min(*caps, balance - 2 * FEE - MOST_RENT) < LEAST_PART


async def test_a_daily_limit_holds_the_rest_which_is_told_and_moved_once_it_may_be(
    tmp_path: Path,
) -> None:
    async with standing(tmp_path, daily_spending_limit_sol=Decimal("2.5")) as stand:
        swept = await stand.sweep()
        (left,) = swept.left
        assert left.what == "1.49999 SOL"
        assert "daily_limit: 0 SOL" in left.why
        assert "DAILY_SPENDING_LIMIT_SOL" in left.advice
        assert "wallet export" in left.advice
        # Nothing was tried that the limits would refuse.
        assert {record["status"] for record in await stand.records()} == {"confirmed"}
        assert (await stand.sweep()).sent == []
        await age(stand, 24 * 3600)
        assert (await stand.sweep()).left == []
        assert await stand.lamports() == 0


async def age(stand: Stand, seconds: int) -> None:
    """Let what counts against the limits have been longer ago."""
    async with stand.api.service.database.write() as connection:
        created = reservations.c.created_ms
        await connection.execute(update(reservations).values(created_ms=created - 1000 * seconds))


async def test_it_waits_for_the_rate_limit_and_says_so(tmp_path: Path) -> None:
    # Three of the four transfers fit into the first minute.
    limits = {"max_transactions_per_minute": 3, "max_sol_per_transaction": Decimal(1)}
    async with standing(tmp_path, **limits) as stand:
        waited: list[str] = []
        tasks = []

        def tell(step: str) -> None:
            if step.startswith("waiting"):
                waited.append(step)
                tasks.append(asyncio.ensure_future(age(stand, 60)))

        swept = await stand.sweep(tell)
        await asyncio.gather(*tasks)
        assert (swept.left, await stand.lamports()) == ([], 0)
        assert waited == [
            "waiting: 3 transactions a minute are allowed (MAX_TRANSACTIONS_PER_MINUTE)"
        ]
        assert {record["status"] for record in await stand.records()} == {"confirmed"}


async def test_an_api_keys_own_rate_and_spending_limit_are_waited_for_and_told(
    tmp_path: Path,
) -> None:
    async with standing(tmp_path) as stand:
        key, _ = await stand.api.key(spendingLimitSol=3)
        transport = Carrier(stand.api.app)
        async with SolwardClient("http://test", key, transport=transport) as client:
            swept = await Stand(stand.api, client, stand.wallet).sweep()
        (left,) = swept.left
        assert "spending_limit_check" in left.why
        assert "admin secret" in left.advice
        assert len(swept.sent) == 1


@pytest.mark.more
@pytest.mark.parametrize("stop_at", ["unwrap", "send 1000000 ", "close", "send 2 SOL"])
async def test_interrupted_anywhere_it_is_continued_by_the_next(
    tmp_path: Path, stop_at: str
) -> None:
    async with standing(tmp_path) as stand:
        mine = await furnish(stand)
        reached = asyncio.Event()

        def tell(step: str) -> None:
            if step.startswith(stop_at):
                reached.set()

        first = asyncio.ensure_future(stand.sweep(tell))
        await asyncio.wait_for(reached.wait(), 30)
        first.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await first
        # What the service had begun goes on to its end; a process of its own would let it.
        while stand.api.service.engine._running:
            await asyncio.sleep(0.01)
        swept = await stand.sweep()
        assert (swept.left, await stand.lamports()) == ([], 0)
        assert await stand.units(stand.to, mine) == 100_000_000


async def test_stakes_at_work_are_named_and_inactive_ones_come_along(tmp_path: Path) -> None:
    async with standing(tmp_path, sol=6) as stand:
        wallets, wallet = stand.client.wallets, stand.wallet
        kept = (await wallets.stake(wallet, amount="1.5")).details["stakeAccount"]
        taken = (await wallets.stake(wallet, amount="1.5")).details["stakeAccount"]
        # Taken back in the epoch it was staked in, it never became active.
        await wallets.unstake(wallet, stake_account=taken)
        swept = await stand.sweep()
        (left,) = swept.left
        assert kept in left.what
        assert "solward wallet unstake" in left.advice
        assert swept.sent[0].type == "withdraw_stake"
        assert await stand.lamports() == 0
        assert [stake.address for stake in (await wallets.stakes(wallet)).stakes] == [kept]


async def test_a_token_limit_holds_the_rest_of_that_token_alone(tmp_path: Path) -> None:
    async with standing(tmp_path, token_limits={USDC: 3_000_000}) as stand:
        wallets = stand.client.wallets
        await wallets.swap(stand.wallet, input_token="SOL", output_token="USDC", amount="0.2")
        address = (await wallets.get(stand.wallet)).address
        before = await stand.units(address, USDC)
        swept = await stand.sweep()
        (left,) = swept.left
        assert left.what == f"{Decimal(before - 3_000_000).scaleb(-6).normalize():f} USDC"
        assert "TOKEN_LIMITS" in left.why
        assert await stand.units(stand.to, USDC) == 3_000_000
        assert {record["status"] for record in await stand.records()} == {"confirmed"}
        assert await stand.lamports() == 0


@pytest.mark.more
async def test_a_blocked_address_gets_nothing_and_the_rule_is_named(tmp_path: Path) -> None:
    to = str(Keypair().pubkey())
    async with standing(tmp_path, blocked_addresses=frozenset({to})) as stand:
        stand.to = to
        mine = await furnish(stand)
        swept = await stand.sweep()
        assert {"BLOCKED_ADDRESSES" in left.advice for left in swept.left} == {True}
        assert len(swept.left) == 3
        assert await stand.lamports(to) == await stand.units(to, mine) == 0


@pytest.mark.parametrize(("held", "leaves"), [(rent(0) + FEE, True), (rent(0) + FEE - 1, False)])
async def test_what_cannot_pay_a_fee_by_the_clusters_rent_is_told_and_costs_nothing(
    tmp_path: Path, held: int, leaves: bool
) -> None:
    async with standing(tmp_path, sol=0) as stand:
        assert (await stand.sweep()).left == []
        address = (await stand.client.wallets.get(stand.wallet)).address
        await stand.api.service.ledger.request_airdrop(address, held)
        swept = await stand.sweep()
        if leaves:
            assert (swept.left, await stand.lamports()) == ([], 0)
            assert await stand.lamports(stand.to) == rent(0)
        else:
            (left,) = swept.left
            assert (left.what, left.advice) == (f"send {format_sol(rent(0) - 1)} SOL", _MORE)
            assert await stand.lamports() == held


async def test_while_an_agent_runs_on_the_wallet_nothing_is_swept(tmp_path: Path) -> None:
    async with standing(tmp_path, sol=0) as stand:
        found = await stand.client.wallets.get(stand.wallet)
        call = ServiceCall(stand.client, Settings(_env_file=None), False, RecordingTransport())
        agent = await stand.client.agents.create(
            name="Ada", wallet_id=stand.wallet, llm_provider="rules", llm_model="rules",
            strategy="always do wait",
        )  # fmt: skip
        await check_idle(call, found)
        await stand.client.agents.start(agent.id)
        with pytest.raises(InvalidRequest, match=f"solward agent stop {agent.id}"):
            await check_idle(call, found)
        await stand.client.agents.stop(agent.id)
        await check_idle(call, found)


@promise("sweep-wants-quiet-wallet")
async def test_while_a_schedule_runs_on_the_wallet_nothing_is_swept(tmp_path: Path) -> None:
    async with standing(tmp_path, sol=0) as stand:
        found = await stand.client.wallets.get(stand.wallet)
        call = ServiceCall(stand.client, Settings(_env_file=None), False, RecordingTransport())
        schedule = await stand.client.schedules.create(
            stand.wallet, name="look", skill="check_balance", every="1h"
        )
        with pytest.raises(InvalidRequest, match=f"pause {stand.wallet} {schedule.id}"):
            await check_idle(call, found)
        await stand.client.schedules.pause(stand.wallet, schedule.id)
        await check_idle(call, found)

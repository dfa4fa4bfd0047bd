"""State that changes between judgement and landing: what leaves was counted, whatever was shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from solders.instruction import Instruction
from solders.pubkey import Pubkey
from solders.token import ID as TOKEN_PROGRAM
from spl.token.instructions import (
    approve_checked,
    create_idempotent_associated_token_account,
    transfer_checked,
)
from spl.token.models import ApproveCheckedParams, TransferCheckedParams
from tests.promises import promise
from tests.sbpf import assemble
from tests.support.engine import TOKEN_RENT, Bench, Trap, front_run, put_accounts, thief
from tests.support.programs import TAKES_LAMPORTS, take_lamports
from tests.support.swaps import SOL, USDC, USDC_POOL, SwapBench, ata, close, open_swaps

from solward.context import PocketRequest, TransactRequest
from solward.operations.skill_runs import SkillCalls
from solward.solana.tokens import token_account
from solward.support.clock import now_ms
from solward.types.errors import GuardrailBlocked
from solward.types.guardrail import Intent
from solward.types.record import TransactionRecord, TransactionStatus
from solward.types.skill import Effects
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.money.request import ADMIN
from solward.vault.store import spending
from solward_localnet.market import program_account

MINT = USDC_POOL.mint
THOUSAND = 1_000 * 10**6


async def transact(bench: Bench, *instructions: Instruction, units: int = 0) -> TransactionRecord:
    """As a plugin's skill does, which declares that `units` leave."""
    calls = SkillCalls(bench.operations(), None, bench.wallet.id, ADMIN, Effects.SPEND)
    declared = Intent("other", bench.wallet.address, tokens_out={USDC: units} if units else {})
    return await calls.money(TransactRequest(declared, instructions, None), 1)


async def counted(bench: Bench, asset: str) -> int:
    scope = f"wallet:{bench.wallet.id}"
    async with bench.database.read() as connection:
        found = await spending.usage(connection, [scope], [asset], now_ms())
    return found[scope].units_last_day.get(asset, 0)


def send_tokens(
    swaps: SwapBench, to: Pubkey, units: int, source: Pubkey | None = None
) -> Instruction:
    return transfer_checked(
        TransferCheckedParams(
            program_id=TOKEN_PROGRAM,
            source=source or ata(swaps.user, MINT),
            mint=MINT,
            dest=to,
            owner=swaps.user,
            amount=units,
            decimals=6,
        )
    )


@promise("bytes-bound-the-taking", "state-change-still-counts")
@pytest.mark.parametrize("limit", [1, THOUSAND - 1, THOUSAND])
async def test_an_account_that_changes_hands_before_it_lands_counts_what_it_got(
    tmp_path: Path, limit: int
) -> None:
    async with open_swaps(tmp_path, limits=ScopeLimits(daily_tokens={USDC: limit})) as swaps:
        await swaps.swap("SOL", "USDC", 7)
        bench = swaps.bench
        robber = await thief(bench)
        trap = Trap.of(bench, robber, MINT)
        await trap.set()
        before = await swaps.units(MINT)
        payment = send_tokens(swaps, trap.address, THOUSAND)
        if limit < THOUSAND:
            sent = await swaps.sent()
            with pytest.raises(GuardrailBlocked) as caught:
                await transact(bench, payment)
            assert caught.value.rule == "daily_limit"
            assert await swaps.units(MINT) == before
            assert await swaps.sent() == sent
            return
        async with front_run(bench, trap.spring):
            record = await transact(bench, payment, units=THOUSAND)
        assert record.status is TransactionStatus.CONFIRMED
        state = token_account(await bench.ledger.account(str(trap.address)))
        assert state is not None
        # The thief has it all, and all of it is counted: nothing more is left of the day.
        assert (state.owner, state.amount) == (str(robber.pubkey()), THOUSAND)
        assert await counted(bench, USDC) == THOUSAND
        with pytest.raises(GuardrailBlocked):
            await transact(bench, send_tokens(swaps, trap.address, 1))


@promise("daily-costs-capped", "costs-have-own-ceiling")
async def test_accounts_that_are_gone_before_it_lands_count_their_rent(tmp_path: Path) -> None:
    """Opened where there is one, it costs nothing when it is judged."""
    async with open_swaps(
        tmp_path, limits=ScopeLimits(daily_costs_lamports=2 * TOKEN_RENT)
    ) as swaps:
        bench = swaps.bench
        robber = await thief(bench)
        owner = robber.pubkey()
        own = [create_idempotent_associated_token_account(owner, owner, MINT)]
        await bench.land(own, robber)
        opening = create_idempotent_associated_token_account(swaps.user, owner, MINT)

        async def shut() -> None:
            await bench.land([close(owner, MINT, owner)], robber)

        before = await swaps.lamports()
        async with front_run(bench, shut):
            await transact(bench, opening)
        assert await swaps.lamports() == before - TOKEN_RENT - 5_000
        assert await counted(bench, "COSTS") == TOKEN_RENT + 5_000
        with pytest.raises(GuardrailBlocked) as caught:
            await transact(bench, opening)
        assert caught.value.rule == "costs_limit"


@promise("state-change-still-counts")
async def test_what_the_wallet_takes_as_anothers_delegate_is_counted(tmp_path: Path) -> None:
    """Whose account it is, is state: a signature over units of a mint counts those units."""
    limits = ScopeLimits(daily_tokens={USDC: 400_001})
    async with open_swaps(tmp_path, limits=limits) as swaps:
        await swaps.swap("SOL", "USDC", 1)
        bench = swaps.bench
        other = await thief(bench)
        owner = other.pubkey()
        theirs = ata(owner, MINT)
        await bench.land([create_idempotent_associated_token_account(owner, owner, MINT)], other)
        await transact(bench, send_tokens(swaps, theirs, 400_000), units=400_000)
        approval = approve_checked(
            ApproveCheckedParams(
                program_id=TOKEN_PROGRAM,
                source=theirs,
                mint=MINT,
                delegate=swaps.user,
                owner=owner,
                amount=400_000,
                decimals=6,
            )
        )
        await bench.land([approval], other)
        stranger = Trap.of(bench, other, MINT)
        await stranger.set()
        with pytest.raises(GuardrailBlocked) as caught:
            await transact(bench, send_tokens(swaps, stranger.address, 400_000, theirs))
        assert caught.value.rule == "daily_limit"
        state = token_account(await bench.ledger.account(str(theirs)))
        assert state is not None
        assert state.amount == 400_000


HARMLESS = program_account(assemble("entrypoint:\n mov64 r0, 0\n exit\n"))


@promise("bytes-bound-the-taking", "pocket-loses-what-it-holds")
async def test_a_program_that_is_upgraded_before_it_lands_never_had_the_wallets_key(
    tmp_path: Path,
) -> None:
    limits = ScopeLimits(max_lamports_per_tx=2 * SOL, daily_lamports=10 * SOL)
    async with open_swaps(tmp_path, sol=50, limits=limits) as swaps:
        bench = swaps.bench
        robber = (await thief(bench)).pubkey()
        await put_accounts(bench, {TAKES_LAMPORTS.address: HARMLESS})

        async def upgrade() -> None:
            await put_accounts(
                bench, {TAKES_LAMPORTS.address: program_account(TAKES_LAMPORTS.file())}
            )

        theft: Sequence[Instruction] = [take_lamports(swaps.user, robber)]
        bench.wire.faults["sendTransaction"] = _never
        with pytest.raises(GuardrailBlocked, match=r"run it with a pocket \(context\.pocket\)"):
            await transact(bench, *theft)
        del bench.wire.faults["sendTransaction"]
        assert await swaps.lamports() == 50 * SOL
        assert await bench.reserved_units() == 0

        # With a pocket it takes what was put in.
        async def build(address: str) -> Sequence[Instruction]:
            await upgrade()
            await put_accounts(bench, {TAKES_LAMPORTS.address: HARMLESS})
            return [take_lamports(Pubkey.from_string(address), robber)]

        sent = bench.wire.calls["sendTransaction"]

        async def run_after_funding(_method: str, _params: object) -> None:
            if bench.wire.calls["sendTransaction"] == sent + 2:
                await upgrade()

        bench.wire.faults["sendTransaction"] = run_after_funding
        had = await bench.lamports(str(robber))
        request = PocketRequest(build=build, lamports=SOL)
        record = await bench.operations().use_pocket(bench.wallet.id, ADMIN, request)
        assert record.status is TransactionStatus.CONFIRMED
        assert await bench.lamports(str(robber)) == had + SOL - 5_000
        assert await swaps.lamports() == 50 * SOL - SOL - 5_000
        assert await bench.reserved_units() == SOL


async def _never(method: str, _params: object) -> None:
    raise AssertionError(f"{method} was called")

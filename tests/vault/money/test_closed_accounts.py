"""Rent that comes back: closing an own account credits what opened it, once, and nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from spl.token.instructions import (
    close_account,
    create_idempotent_associated_token_account,
    transfer_checked,
)
from spl.token.models import CloseAccountParams, TransferCheckedParams
from sqlalchemy import insert, select, update
from tests.promises import promise
from tests.support.clock import until
from tests.support.engine import Bench, by_hand, front_run
from tests.support.localnet import rent
from tests.support.programs import batch_of
from tests.support.swaps import FEE as SWAP_FEE
from tests.support.swaps import USDC_POOL, SwapBench, ata, swaps
from tests.support.tokens import (
    FEE,
    RENT,
    SOL,
    TOKEN,
    TOKEN_2022,
    TokenBench,
    open_tokens,
    tokens,
)
from tests.vault.money.test_reconcile import restarted

from solward.database.tables import opened_accounts, reservations
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.tokens import TOKEN_ACCOUNT_RENT
from solward.support.clock import now_ms
from solward.support.durations import DAY_MS
from solward.types.errors import GuardrailBlocked, TransactionFailed
from solward.types.guardrail import Intent
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.money.request import ADMIN, Actor, Draft
from solward.vault.money.send.settlement import Balances, TokenBalance, own_accounts
from solward.vault.store import spending
from solward.vault.store.spending import COSTS_ASSET

__all__ = ["swaps", "tokens"]

ONE = Decimal("0.01")
KEY = Actor("key:k", limits=(("key:k", ScopeLimits()),))


async def wrap(tokens: TokenBench, actor: Actor = ADMIN) -> TransactionRecord:
    body = {"amount": ONE}
    return await tokens.operations.perform("wrap_sol", tokens.wallet, actor, body)


async def unwrap(tokens: TokenBench, actor: Actor = ADMIN) -> TransactionRecord:
    return await tokens.operations.perform("unwrap_sol", tokens.wallet, actor, {})


async def open_own(tokens: TokenBench, mint: str, program: Pubkey = TOKEN) -> TransactionRecord:
    """Open the wallet's own account of a mint, at its cost."""
    create = create_idempotent_associated_token_account(
        tokens.owner, tokens.owner, Pubkey.from_string(mint), program
    )
    draft = Draft(Intent("other", tokens.address, rent_lamports=3_000_000), (create,))
    return await tokens.bench.engine.execute(tokens.wallet, ADMIN, draft)


async def close_own(tokens: TokenBench, mint: str) -> TransactionRecord:
    return await tokens.operations.perform("close_account", tokens.wallet, ADMIN, {"mint": mint})


async def costs(bench: Bench, record: TransactionRecord) -> dict[str, int]:
    """scope -> lamports of fees and rent that a record counts there."""
    async with bench.database.read() as connection:
        rows = await connection.execute(
            select(reservations.c.scope, reservations.c.units).where(
                reservations.c.transaction_id == record.id, reservations.c.asset == COSTS_ASSET
            )
        )
        return {row.scope: row.units for row in rows}


async def cost(bench: Bench, record: TransactionRecord) -> int:
    (units,) = (await costs(bench, record)).values()
    return units


async def known(bench: Bench) -> dict[str, tuple[str, int]]:
    """account -> what opened it, and the rent."""
    async with bench.database.read() as connection:
        rows = await connection.execute(select(opened_accounts))
        return {row.account: (row.transaction_id, row.rent_lamports) for row in rows}


async def in_window(bench: Bench) -> int:
    """Costs of the wallet that count now."""
    scope = f"wallet:{bench.wallet.id}"
    async with bench.database.read() as connection:
        used = await spending.usage(connection, [scope], [], now_ms())
    return used[scope].units_last_day.get(COSTS_ASSET, 0)


# What comes back.


@promise("close-credited-once")
async def test_closing_an_own_account_credits_what_opened_it_in_every_scope(
    tokens: TokenBench,
) -> None:
    scopes = [f"wallet:{tokens.wallet}", "key:k"]
    opening = await wrap(tokens, KEY)
    assert await costs(tokens.bench, opening) == dict.fromkeys(scopes, FEE + RENT)
    assert await known(tokens.bench) == {tokens.account(WRAPPED_SOL_MINT): (opening.id, RENT)}
    closing = await unwrap(tokens)
    assert await costs(tokens.bench, opening) == dict.fromkeys(scopes, FEE)
    assert await cost(tokens.bench, closing) == FEE
    assert await known(tokens.bench) == {}
    # A record says what was paid when it landed.
    assert (await tokens.bench.history())[-1].fee_lamports == FEE


async def test_a_ceiling_of_one_rent_lets_an_account_be_opened_again_and_again(
    tmp_path: Path,
) -> None:
    limits = ScopeLimits(daily_costs_lamports=TOKEN_ACCOUNT_RENT + 10 * FEE)
    async with open_tokens(tmp_path, limits=limits) as tokens:
        for _ in range(4):
            await wrap(tokens)
            await unwrap(tokens)
        mint = await tokens.mint()
        await open_own(tokens, mint)
        with pytest.raises(GuardrailBlocked, match="costs_limit"):
            await wrap(tokens)
        assert await in_window(tokens.bench) == RENT + 9 * FEE


@promise("batch-is-its-instructions")
async def test_what_a_batch_closes_comes_back(tokens: TokenBench) -> None:
    mints = [await tokens.mint(), await tokens.mint()]
    openings = [await open_own(tokens, mint) for mint in mints]
    accounts = frozenset(map(tokens.account, mints))
    intent = Intent("other", tokens.address, may_close=accounts)
    draft = Draft(intent, (batch_of(*(closing(tokens, mint) for mint in mints)),))
    record = await tokens.bench.engine.execute(tokens.wallet, ADMIN, draft)
    assert [await cost(tokens.bench, each) for each in (*openings, record)] == [FEE, FEE, FEE]
    assert await known(tokens.bench) == {}


@promise("batch-is-its-instructions")
async def test_what_a_batch_sends_is_reserved_and_told(tokens: TokenBench) -> None:
    mint, other = await tokens.mint(units=10), await tokens.mint(units=10)
    receiver = str(tokens.stranger.pubkey())
    theirs = [await tokens.another_account(each, receiver) for each in (mint, other)]
    steps = [
        transfer_checked(
            TransferCheckedParams(
                program_id=TOKEN,
                source=Pubkey.from_string(tokens.account(each)),
                mint=Pubkey.from_string(each),
                dest=Pubkey.from_string(to),
                owner=tokens.owner,
                amount=4,
                decimals=6,
            )
        )
        for each, to in zip((mint, other), theirs, strict=True)
    ]
    intent = Intent("other", tokens.address, tokens_out={mint: 4})
    with pytest.raises(GuardrailBlocked, match="4 tokens of mint"):
        await tokens.bench.engine.execute(tokens.wallet, ADMIN, Draft(intent, (batch_of(*steps),)))
    intent = replace(intent, tokens_out={mint: 4, other: 4})
    record = await tokens.bench.engine.execute(
        tokens.wallet, ADMIN, Draft(intent, (batch_of(*steps),))
    )
    told = {each["asset"]: (each["operation"], each["to"]) for each in record.details["leaves"]}
    assert told == {each: ("transfer", to) for each, to in zip((mint, other), theirs, strict=True)}


@pytest.mark.parametrize(("program", "rent"), [(TOKEN, RENT), (TOKEN_2022, rent(170))])
async def test_the_rent_of_either_token_program_comes_back(
    tokens: TokenBench, program: Pubkey, rent: int
) -> None:
    mint = await tokens.mint(program)
    opening = await open_own(tokens, mint, program)
    assert await cost(tokens.bench, opening) == FEE + rent
    await close_own(tokens, mint)
    assert await cost(tokens.bench, opening) == FEE


async def test_what_a_stranger_put_in_before_is_not_credited(tokens: TokenBench) -> None:
    mint = await tokens.mint()
    account = Pubkey.from_string(tokens.account(mint))
    gift = TransferParams(
        from_pubkey=tokens.stranger.pubkey(), to_pubkey=account, lamports=1_000_000
    )
    await tokens.land([transfer(gift)])
    opening = await open_own(tokens, mint)
    assert await cost(tokens.bench, opening) == FEE + RENT - 1_000_000
    await close_own(tokens, mint)
    assert await cost(tokens.bench, opening) == FEE


async def test_an_account_that_a_swap_opened_comes_back_and_its_pockets_do_not_twice(
    swaps: SwapBench,
) -> None:
    bench = swaps.bench
    buying = await swaps.swap("SOL", "USDC", 1)
    # The pocket's account was paid for and closed in the same transaction.
    assert await cost(bench, buying) == SWAP_FEE + RENT
    assert await known(bench) == {str(ata(swaps.user, USDC_POOL.mint)): (buying.id, RENT)}
    held = Decimal(await swaps.units(USDC_POOL.mint)).scaleb(-6)
    selling = await swaps.swap("USDC", "SOL", held)
    closing = await swaps.operations().perform(
        "close_account", bench.wallet.id, ADMIN, {"mint": str(USDC_POOL.mint)}
    )
    assert [await cost(bench, each) for each in (buying, selling, closing)] == [
        SWAP_FEE,
        SWAP_FEE,
        FEE,
    ]
    assert await in_window(bench) == 2 * SWAP_FEE + FEE


# What does not.


@promise("foreign-close-credits-nothing")
async def test_an_account_opened_by_somebody_else_credits_nothing(tokens: TokenBench) -> None:
    opening = await wrap(tokens)
    mint = await tokens.mint()
    await tokens.fund(mint, 0)
    # Idempotent: it pays nothing, so it opened nothing.
    again = await open_own(tokens, mint)
    assert await cost(tokens.bench, again) == FEE
    await close_own(tokens, mint)
    assert await cost(tokens.bench, opening) == FEE + RENT
    assert await cost(tokens.bench, again) == FEE
    assert list(await known(tokens.bench)) == [tokens.account(WRAPPED_SOL_MINT)]


@promise("foreign-close-credits-nothing")
async def test_an_account_of_somebody_else_that_the_wallet_pays_for_is_not_remembered(
    tokens: TokenBench,
) -> None:
    mint = await tokens.mint(units=10)
    body = {"mint": mint, "to": str(Keypair().pubkey()), "amount": Decimal("0.000001")}
    paid = await tokens.operations.perform("transfer_token", tokens.wallet, ADMIN, body)
    assert await cost(tokens.bench, paid) == FEE + RENT
    assert await known(tokens.bench) == {}


@promise("close-credited-once")
async def test_closed_twice_it_is_credited_once(tokens: TokenBench) -> None:
    mint = await tokens.mint()
    opening = await open_own(tokens, mint)
    await close_own(tokens, mint)
    assert await cost(tokens.bench, opening) == FEE
    # By a stranger, at their cost: nothing of ours comes back with it.
    await tokens.fund(mint, 0)
    other = await wrap(tokens)
    await close_own(tokens, mint)
    assert await cost(tokens.bench, opening) == FEE
    assert await cost(tokens.bench, other) == FEE + RENT


async def test_opened_again_the_second_opening_is_what_is_credited(tokens: TokenBench) -> None:
    mint = await tokens.mint()
    first = await open_own(tokens, mint)
    # Closed where the service does not see it: the first stays counted.
    await closed_by_hand(tokens, mint)
    second = await open_own(tokens, mint)
    assert await known(tokens.bench) == {tokens.account(mint): (second.id, RENT)}
    await close_own(tokens, mint)
    assert await cost(tokens.bench, first) == FEE + RENT
    assert await cost(tokens.bench, second) == FEE


async def closed_by_hand(tokens: TokenBench, mint: str) -> None:
    await by_hand(tokens.bench, closing(tokens, mint))


def closing(tokens: TokenBench, mint: str) -> Instruction:
    account = Pubkey.from_string(tokens.account(mint))
    return close_account(
        CloseAccountParams(program_id=TOKEN, account=account, dest=tokens.owner, owner=tokens.owner)
    )


async def test_closed_and_opened_in_one_transaction_nothing_comes_back(tokens: TokenBench) -> None:
    mint = await tokens.mint()
    opening = await open_own(tokens, mint)
    create = create_idempotent_associated_token_account(
        tokens.owner, tokens.owner, Pubkey.from_string(mint), TOKEN
    )
    account = frozenset({tokens.account(mint)})
    intent = Intent("other", tokens.address, RENT, RENT, may_close=account)
    draft = Draft(intent, (closing(tokens, mint), create))
    await tokens.bench.engine.execute(tokens.wallet, ADMIN, draft)
    assert await cost(tokens.bench, opening) == FEE + RENT
    assert await known(tokens.bench) == {tokens.account(mint): (opening.id, RENT)}


@promise("close-credited-once")
async def test_a_close_that_fails_on_the_ledger_credits_nothing(tokens: TokenBench) -> None:
    mint = await tokens.mint(ours=False)
    opening = await open_own(tokens, mint)

    async def dust() -> None:
        await tokens.fund(mint, 1)

    async with front_run(tokens.bench, dust):
        with pytest.raises(TransactionFailed, match="failed on the ledger"):
            await close_own(tokens, mint)
    assert await cost(tokens.bench, opening) == FEE + RENT
    assert await known(tokens.bench) == {tokens.account(mint): (opening.id, RENT)}


async def test_a_close_that_never_lands_credits_nothing(tmp_path: Path) -> None:
    async with open_tokens(tmp_path, confirm_wait_s=0.01) as tokens:
        bench = tokens.bench
        opening = await wrap(tokens)
        await until(lambda: all_ended(bench))

        async def swallowed(_method: str, _params: Sequence[Any]) -> str:
            return "swallowed"

        bench.wire.faults["sendTransaction"] = swallowed
        await unwrap(tokens)
        await bench.localnet.advance_slots(200)
        await until(lambda: all_ended(bench))
        assert (await bench.history())[0].status is TransactionStatus.FAILED
        assert await cost(bench, opening) == FEE + RENT
        assert len(await known(bench)) == 1


async def all_ended(bench: Bench) -> bool:
    return all(each.status is not TransactionStatus.PENDING for each in await bench.history())


@promise("foreign-close-credits-nothing")
async def test_what_has_left_the_window_changes_nothing_in_it(tokens: TokenBench) -> None:
    mint = await tokens.mint()
    opening = await open_own(tokens, mint)
    await wrap(tokens)
    async with tokens.bench.database.write() as connection:
        await connection.execute(
            update(reservations)
            .where(reservations.c.transaction_id == opening.id)
            .values(created_ms=reservations.c.created_ms - DAY_MS)
        )
    before = await in_window(tokens.bench)
    assert before == FEE + RENT
    await close_own(tokens, mint)
    assert await in_window(tokens.bench) == before + FEE


async def test_a_credit_never_takes_a_row_below_0(tokens: TokenBench) -> None:
    opening = await wrap(tokens)
    async with tokens.bench.database.write() as connection:
        await connection.execute(
            update(reservations)
            .where(reservations.c.transaction_id == opening.id)
            .values(units=RENT - 1)
        )
    await unwrap(tokens)
    assert await cost(tokens.bench, opening) == 0


@promise("close-credited-once")
@pytest.mark.parametrize("remote", ["opening", "closing"])
async def test_the_word_of_one_remote_node_credits_nothing(tokens: TokenBench, remote: str) -> None:
    wire = tokens.bench.wire
    home = wire.origin
    wire.origin = "rpc.example" if remote == "opening" else home
    tokens.bench.engine.sender.balances_s = 0.0
    opening = await wrap(tokens)
    wire.origin = "rpc.example" if remote == "closing" else home
    await unwrap(tokens)
    # Nor does it say that the cluster asked less than the bound counts.
    paid = TOKEN_ACCOUNT_RENT if remote == "opening" else RENT
    assert await cost(tokens.bench, opening) == FEE + paid


# A crash between landing and settlement.


@promise("settled-from-own-balances")
@pytest.mark.parametrize("lost", ["opening", "closing"])
async def test_what_a_dead_process_left_unsettled_is_credited_when_it_is_reconciled(
    tmp_path: Path, lost: str
) -> None:
    async with open_tokens(tmp_path, confirm_wait_s=0.01) as tokens:
        bench = tokens.bench

        async def unsettled(act: Callable[[TokenBench], Awaitable[Any]], dies: bool) -> None:
            if not dies:
                await act(tokens)
                await until(lambda: all_ended(bench))
                return
            bench.wire.away("getSignatureStatuses")
            record = await act(tokens)
            assert record.status is TransactionStatus.PENDING
            await bench.engine.sender.close()
            bench.wire.faults.clear()
            await restarted(bench)
            await restarted(bench)
            bench.engine.sender._open.clear()
            bench.engine.sender.start()

        await unsettled(wrap, lost == "opening")
        assert await in_window(bench) == FEE + RENT
        assert len(await known(bench)) == 1
        await unsettled(unwrap, lost == "closing")
        assert await in_window(bench) == 2 * FEE
        assert await known(bench) == {}


async def test_what_is_too_old_to_be_credited_is_forgotten(tokens: TokenBench) -> None:
    old = {"transaction_id": "t", "rent_lamports": RENT}
    async with tokens.bench.database.write() as connection:
        for account, days in (("old", 3), ("recent", 1)):
            created = now_ms() - days * DAY_MS
            await connection.execute(
                insert(opened_accounts).values(account=account, created_ms=created, **old)
            )
    await wrap(tokens)
    assert set(await known(tokens.bench)) == {"recent", tokens.account(WRAPPED_SOL_MINT)}


# By the bytes and the balances alone.

WALLET, OTHER, MINT = (Keypair().pubkey() for _ in range(3))
ACCOUNT = ata(WALLET, MINT)


def held(owner: Pubkey, units: int = 0) -> TokenBalance:
    return TokenBalance(str(MINT), str(owner), str(TOKEN), units, 6)


def landed(message: MessageV0, before: TokenBalance | None, after: TokenBalance | None) -> Balances:
    accounts = tuple(str(key) for key in message.account_keys)
    place = accounts.index(str(ACCOUNT))

    def of(tokens: TokenBalance | None) -> tuple[tuple[int, ...], dict[int, TokenBalance]]:
        lamports = [SOL] * len(accounts)
        lamports[place] = RENT if tokens else 0
        return tuple(lamports), {place: tokens} if tokens else {}

    (was, tokens_before), (left, tokens_after) = of(before), of(after)
    return Balances(accounts, was, left, tokens_before, tokens_after)


def compiled(*instructions: Instruction) -> MessageV0:
    return MessageV0.try_compile(WALLET, list(instructions), [], Hash.default())


def close_of(owner: Pubkey, dest: Pubkey) -> Instruction:
    return close_account(
        CloseAccountParams(program_id=TOKEN, account=ACCOUNT, dest=dest, owner=owner)
    )


def test_a_close_counts_only_where_the_wallet_closed_its_own_to_itself() -> None:
    own = compiled(close_of(WALLET, WALLET))
    closed: tuple[dict[str, int], dict[str, int]] = ({}, {str(ACCOUNT): RENT})
    assert own_accounts(landed(own, held(WALLET), None), own, str(WALLET)) == closed
    # The balances do not show what the bytes asked for.
    for before, after in (
        (None, None),
        (held(WALLET), held(WALLET)),
        (held(OTHER), None),
        (held(WALLET), held(OTHER)),
    ):
        assert own_accounts(landed(own, before, after), own, str(WALLET)) == ({}, {})
    for owner, dest in ((OTHER, WALLET), (WALLET, OTHER), (OTHER, OTHER)):
        message = compiled(close_of(owner, dest))
        assert own_accounts(landed(message, held(WALLET), None), message, str(WALLET)) == ({}, {})


def test_an_account_is_opened_only_where_the_wallet_paid_for_its_own() -> None:
    def opening(payer: Pubkey, owner: Pubkey) -> MessageV0:
        create = create_idempotent_associated_token_account(payer, owner, MINT, TOKEN)
        if owner != WALLET:
            metas = [*create.accounts]
            metas[1] = AccountMeta(ACCOUNT, False, True)
            create = Instruction(create.program_id, create.data, metas)
        return compiled(create)

    own = opening(WALLET, WALLET)
    opened: tuple[dict[str, int], dict[str, int]] = ({str(ACCOUNT): RENT}, {})
    assert own_accounts(landed(own, None, held(WALLET)), own, str(WALLET)) == opened
    for before, after in ((held(WALLET), held(WALLET)), (None, held(OTHER)), (None, None)):
        assert own_accounts(landed(own, before, after), own, str(WALLET)) == ({}, {})
    # It was there, and was given lamports in the same transaction.
    given = landed(own, held(WALLET), held(WALLET))
    given = replace(given, lamports_after=tuple(each + RENT for each in given.lamports_after))
    assert own_accounts(given, own, str(WALLET)) == ({}, {})
    for payer, owner in ((OTHER, WALLET), (WALLET, OTHER)):
        message = opening(payer, owner)
        assert own_accounts(landed(message, None, held(WALLET)), message, str(WALLET)) == ({}, {})

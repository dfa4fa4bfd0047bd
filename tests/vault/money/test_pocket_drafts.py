"""What wallet and pocket sign together: who signs, what a lookup table may hold, one use each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from sqlalchemy import select
from tests.promises import promise
from tests.support.engine import Bench
from tests.support.swaps import pay_sol

from solward.database.tables import attempts, pockets
from solward.types.errors import InvalidRequest, TransactionFailed
from solward.types.guardrail import Intent
from solward.types.record import TransactionStatus
from solward.vault.custody import Pocket
from solward.vault.money.judge.building import TooLarge, compile_instructions
from solward.vault.money.request import ADMIN, Draft, PocketTaken, PocketUse
from solward.vault.store import pockets as store

BLOCKHASH = "11111111111111111111111111111111"


def pay(source: str, target: str, lamports: int) -> Instruction:
    return pay_sol(Pubkey.from_string(source), Pubkey.from_string(target), lamports)


def there_and_back(bench: Bench, pocket: Pocket, *, mint: str | None = None) -> Draft:
    """A million lamports into a pocket, and all of it back: both must sign."""
    return Draft(
        Intent(
            type="swap",
            wallet=bench.wallet.address,
            lamports_out=1_000_000,
            destinations=frozenset({pocket.address}),
        ),
        (
            pay(bench.wallet.address, pocket.address, 1_000_000),
            pay(pocket.address, bench.wallet.address, 1_000_000),
        ),
        pocket=PocketUse(pocket, output_mint=mint),
    )


async def test_wallet_and_pocket_sign_one_transaction(bench: Bench) -> None:
    before = await bench.lamports(bench.wallet.address)
    async with bench.wallets.new_pocket(bench.wallet.id) as pocket:
        draft = there_and_back(bench, pocket)
        record = await bench.engine.execute(bench.wallet.id, ADMIN, draft)
    assert record.status is TransactionStatus.CONFIRMED
    assert await bench.lamports(bench.wallet.address) == before - 10_000
    async with bench.database.read() as connection:
        wire = (await connection.execute(select(attempts.c.wire))).scalar_one()
        stored = await store.of_wallet(connection, bench.wallet.id)
    transaction = VersionedTransaction.from_bytes(bytes(wire))
    assert all(transaction.verify_with_results())
    assert [str(key) for key in transaction.message.account_keys[:2]] == [
        bench.wallet.address,
        pocket.address,
    ]
    assert [(row.counter, row.transaction_id) for row in stored] == [(1, record.id)]


async def test_a_pocket_that_another_process_used_first_sends_nothing(bench: Bench) -> None:
    async with bench.wallets.new_pocket(bench.wallet.id) as pocket:
        await bench.engine.execute(bench.wallet.id, ADMIN, there_and_back(bench, pocket))
        with pytest.raises(PocketTaken):
            await bench.engine.execute(bench.wallet.id, ADMIN, there_and_back(bench, pocket))
    assert len(await bench.history()) == 1
    assert bench.wire.calls["sendTransaction"] == 1


@promise("purchases-follow-each-other")
async def test_a_second_purchase_of_a_mint_is_refused_while_the_first_is_open(
    bench: Bench,
) -> None:
    mint = str(Keypair().pubkey())
    bench.wire.away("sendTransaction")
    bench.wire.away("getSignatureStatuses")
    bench.engine._options = replace(bench.engine._options, confirm_wait_s=0.01)
    wallets, wallet = bench.wallets, bench.wallet.id
    async with wallets.new_pocket(wallet) as first, wallets.new_pocket(wallet) as second:
        pending = await bench.engine.execute(wallet, ADMIN, there_and_back(bench, first, mint=mint))
        assert pending.status is TransactionStatus.PENDING
        with pytest.raises(TransactionFailed, match=f"Another swap into {mint} has not ended"):
            await bench.engine.execute(wallet, ADMIN, there_and_back(bench, second, mint=mint))
        other = there_and_back(bench, second, mint=str(Keypair().pubkey()))
        assert (await bench.engine.execute(wallet, ADMIN, other)).status == "pending"
    async with bench.database.read() as connection:
        counters = (await connection.execute(select(pockets.c.counter))).scalars()
        assert sorted(counters) == [1, 2]


async def test_nobody_else_signs_beside_them(bench: Bench) -> None:
    async with bench.wallets.new_pocket(bench.wallet.id) as pocket:
        draft = there_and_back(bench, pocket)
    stranger = str(Keypair().pubkey())
    more = replace(draft, instructions=(*draft.instructions, pay(stranger, pocket.address, 1)))
    with pytest.raises(InvalidRequest, match="need a signature besides the wallet's"):
        compile_instructions(more, BLOCKHASH, None)
    alone = replace(draft, pocket=None)
    with pytest.raises(InvalidRequest, match="need a signature besides the wallet's"):
        compile_instructions(alone, BLOCKHASH, None)


def opaque(*accounts: str) -> Instruction:
    metas = [AccountMeta(Pubkey.from_string(each), False, True) for each in accounts]
    return Instruction(Keypair().pubkey(), b"", metas)


@promise("no-wallet-lookup-accounts")
async def test_accounts_beside_the_wallets_key_are_never_looked_up(bench: Bench) -> None:
    async with bench.wallets.new_pocket(bench.wallet.id) as pocket:
        draft = there_and_back(bench, pocket)
    receiver, pool, both = (str(Keypair().pubkey()) for _ in range(3))
    instructions = (
        pay(bench.wallet.address, receiver, 1),
        pay(bench.wallet.address, both, 1),
        opaque(pool, both),
    )
    table = str(Keypair().pubkey())
    tables = {table: (receiver, str(Keypair().pubkey()), pool, both)}
    made = compile_instructions(
        replace(draft, instructions=instructions, tables=tables), BLOCKHASH, None
    )
    message = made.message
    assert isinstance(message, MessageV0)
    static = {str(key) for key in message.account_keys}
    assert {receiver, both} <= static
    assert pool not in static
    (lookup,) = message.address_table_lookups
    assert (str(lookup.account_key), list(lookup.writable_indexes)) == (table, [2])


async def test_what_does_not_fit_is_said_before_it_is_simulated(bench: Bench) -> None:
    many = opaque(*(str(Keypair().pubkey()) for _ in range(35)))
    draft = replace(bench.draft(1), instructions=(*bench.draft(1).instructions, many))
    with pytest.raises(TooLarge, match="do not fit into 1232 bytes"):
        await bench.engine.execute(bench.wallet.id, ADMIN, draft)
    assert bench.wire.calls["simulateTransaction"] == 0

"""One odd item of one owner stops nobody else: numbers beyond a column, ends that cannot be stored,
answers that cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from solders.keypair import Keypair
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection
from structlog.testing import capture_logs
from tests.promises import promise
from tests.support.engine import Bench
from tests.support.tokens import TokenBench, open_tokens
from tests.vault.money.test_reconcile import Died, restarted, stopped_at

from solward.database.tables import attempts as attempts_table
from solward.operations.sol import plan_transfer
from solward.types.errors import GuardrailBlocked, LedgerRejected
from solward.types.money import COUNTED_MAX, U64_MAX, sol_to_lamports
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.custody import Wallet
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.money.request import ADMIN, Actor
from solward.vault.money.send import polling
from solward.vault.money.send.takeover import Reconciliation
from solward.vault.money.steps import Step
from solward.vault.store import attempts, payments, spending
from solward.vault.store.attempts import Settlement

# A tenth of what a caller waits for an end before it is told `pending`.
SOON_S = 4.5


async def give_all(tokens: TokenBench, mint: str, actor: Actor = ADMIN) -> TransactionRecord:
    to = str(Keypair().pubkey())
    return await tokens.operations.perform(
        "transfer_token", tokens.wallet, actor, {"mint": mint, "to": to, "amount": Decimal(U64_MAX)}
    )


async def another(bench: Bench) -> Wallet:
    wallet = await bench.wallets.create("another")
    await bench.localnet.call("requestAirdrop", [wallet.address, sol_to_lamports(1)])
    return wallet


async def pay(bench: Bench, wallet: Wallet, cents: int) -> TransactionRecord:
    draft = plan_transfer(wallet.address, to=bench.recipient, amount=Decimal(cents) / 100)
    return await bench.engine.execute(wallet.id, ADMIN, draft)


@promise("odd-item-stops-nobody")
async def test_a_transfer_of_all_units_a_mint_can_have_ends_and_so_do_the_others(
    tokens: TokenBench,
) -> None:
    bench = tokens.bench
    mint = await tokens.mint(units=U64_MAX, ours=False, decimals=0)
    other = await another(bench)
    async with asyncio.timeout(SOON_S):
        given, paid = await asyncio.gather(give_all(tokens, mint), pay(bench, other, 1))
    assert {given.status, paid.status} == {TransactionStatus.CONFIRMED}
    assert given.details["amount"] == U64_MAX
    assert await tokens.units(mint) == 0


@promise("odd-item-stops-nobody")
async def test_units_beyond_a_column_fit_no_limit_and_never_overflow_a_sum(tmp_path: Path) -> None:
    async with open_tokens(tmp_path) as tokens:
        mint = await tokens.mint(units=U64_MAX, ours=False, decimals=0)
        bench, scope = tokens.bench, f"wallet:{tokens.wallet}"
        await give_all(tokens, mint)
        await tokens.fund(mint, 0)
        async with bench.database.write() as connection:
            # What two more such transfers would have counted.
            for record_id in ("a", "b"):
                await spending.reserve(connection, record_id, [scope], {mint: U64_MAX}, 1)
        async with bench.database.read() as connection:
            used = await spending.usage(connection, [scope], [mint], 2)
            found = await spending.reserved_by_scope(connection, [scope])
            taken = await payments.taken_since(connection, tokens.wallet, [mint], 0, 0, [])
        assert used[scope].units_last_day[mint] == 3 * COUNTED_MAX
        assert found[scope] == {}
        assert taken == COUNTED_MAX

    limits: dict[str, int] = {}
    bound = ScopeLimits(daily_tokens=limits)
    (tmp_path / "limited").mkdir()
    async with open_tokens(tmp_path / "limited", limits=bound) as tokens:
        mint = await tokens.mint(units=U64_MAX, ours=False, decimals=0)
        limits[mint] = COUNTED_MAX
        with pytest.raises(GuardrailBlocked):
            await give_all(tokens, mint)


@promise("odd-item-stops-nobody")
async def test_an_end_that_cannot_be_stored_is_set_apart_and_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, odd, settle = await another(bench), set[str](), attempts.settle
    tried: list[list[str]] = []

    async def refusing(
        connection: AsyncConnection, settlements: Sequence[Settlement]
    ) -> dict[str, TransactionRecord]:
        tried.append([each.transaction_id for each in settlements])
        if any(each.held_lamports == sol_to_lamports(3) + 5_000 for each in settlements):
            odd.update(each.transaction_id for each in settlements if len(settlements) == 1)
            raise ValueError("no such end")
        return await settle(connection, settlements)

    monkeypatch.setattr(polling.store, "settle", refusing)
    with capture_logs() as logs:
        stuck = asyncio.create_task(bench.transfer(3))
        async with asyncio.timeout(SOON_S):
            paid = [
                pay(bench, wallet, cents)
                for cents, wallet in enumerate((other, bench.wallet) * 2, start=1)
            ]
            records = await asyncio.gather(*paid)
            assert {each.status for each in records} == {TransactionStatus.CONFIRMED}
            while not odd:
                await asyncio.sleep(0.01)
        count = len(tried)
        again = await pay(bench, other, 7)
        assert again.status is TransactionStatus.CONFIRMED
        # It is not tried with the others any more.
        assert all(len(each) == 1 for each in tried[count:])
        monkeypatch.setattr(polling.store, "settle", settle)
        record = await asyncio.wait_for(stuck, 10)
    assert record.status is TransactionStatus.CONFIRMED
    told = [each for each in logs if each["event"] == "confirmation_failed"]
    assert [each["transaction_id"] for each in told] == [record.id]


@promise("odd-item-stops-nobody")
async def test_a_status_that_cannot_be_read_hides_no_other(bench: Bench) -> None:
    other = await another(bench)
    odd: set[str] = set()

    async def one_is_odd(method: str, params: Sequence[Any]) -> Any:
        answer = await bench.wire.direct(method, params)
        for place, signature in enumerate(params[0]):
            if signature in odd and len(params[0]) > 1:
                answer["value"][place] = {"slot": "soon"}
            elif signature in odd:
                answer["value"][place] = None
        return answer

    async def note_first(_method: str, params: Sequence[Any]) -> Any:
        signature = await bench.wire.direct("sendTransaction", params)
        if not odd:
            odd.add(signature)
        return signature

    bench.wire.faults = {"getSignatureStatuses": one_is_odd, "sendTransaction": note_first}
    stuck = asyncio.create_task(bench.transfer(1))
    while not odd:
        await asyncio.sleep(0.01)
    async with asyncio.timeout(SOON_S):
        paid = await pay(bench, other, 1)
    assert paid.status is TransactionStatus.CONFIRMED
    assert not stuck.done()
    bench.wire.faults = {}
    assert (await asyncio.wait_for(stuck, 10)).status is TransactionStatus.CONFIRMED


@promise("odd-item-stops-nobody")
async def test_a_signature_that_a_node_refuses_holds_up_no_other(bench: Bench) -> None:
    other = await another(bench)
    refused: set[str] = set()

    async def refusing(method: str, params: Sequence[Any]) -> Any:
        if refused & set(params[0]):
            raise LedgerRejected(-32602, "Invalid param: WrongSize")
        return await bench.wire.direct(method, params)

    async def note_first(_method: str, params: Sequence[Any]) -> Any:
        signature = await bench.wire.direct("sendTransaction", params)
        if not refused:
            refused.add(signature)
        return signature

    bench.wire.faults = {"getSignatureStatuses": refusing, "sendTransaction": note_first}
    stuck = asyncio.create_task(bench.transfer(1))
    while not refused:
        await asyncio.sleep(0.01)
    async with asyncio.timeout(SOON_S):
        paid = await pay(bench, other, 1)
    assert paid.status is TransactionStatus.CONFIRMED
    assert not stuck.done()
    bench.wire.faults = {}
    assert (await asyncio.wait_for(stuck, 10)).status is TransactionStatus.CONFIRMED


@promise("odd-item-stops-nobody")
async def test_a_start_goes_on_with_the_others_where_one_cannot_be_read(tmp_path: Path) -> None:
    async with stopped_at(tmp_path, Step.SENT) as bench:
        (odd,) = await bench.history()
        other = await another(bench)
        draft = plan_transfer(other.address, to=bench.recipient, amount=Decimal("0.01"))
        with pytest.raises(Died):
            await bench.engine.execute(other.id, ADMIN, draft)
        of_odd = attempts_table.c.transaction_id == odd.id
        async with bench.database.write() as connection:
            wire = await connection.scalar(select(attempts_table.c.wire).where(of_odd))
            await connection.execute(update(attempts_table).where(of_odd).values(wire=b"odd"))
        with capture_logs() as logs:
            assert await restarted(bench) == Reconciliation(released=0, resumed=2)
        told = [each for each in logs if each["event"] == "confirmation_failed"]
        assert [each["transaction_id"] for each in told] == [odd.id]
        assert await bench.lamports(bench.recipient) == sol_to_lamports(Decimal("0.51"))
        assert [each.status for each in await bench.history()] == [TransactionStatus.PENDING]
        async with bench.database.write() as connection:
            await connection.execute(update(attempts_table).where(of_odd).values(wire=wire))
        await restarted(bench)
        assert [each.status for each in await bench.history()] == [TransactionStatus.CONFIRMED]

"""One transfer through the whole money path, and every way it can end."""

from __future__ import annotations

import asyncio
import base64
import gc
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from solders.message import to_bytes_versioned
from solders.signature import Signature
from solders.transaction import VersionedTransaction
from sqlalchemy import select, update
from tests.promises import promise
from tests.support.clock import until
from tests.support.engine import LIMITS, Bench, open_bench

from solward.database.tables import attempts, reservations
from solward.types.errors import (
    GuardrailBlocked,
    IdempotencyInFlight,
    IdempotencyMismatch,
    InvalidRequest,
    LedgerUnavailable,
    SkillError,
    TransactionFailed,
    WalletNotFound,
)
from solward.types.money import LAMPORTS_PER_SOL
from solward.types.record import TransactionStatus
from solward.vault.guardrails.rules import RULES, ScopeLimits
from solward.vault.money.judge.building import compile_instructions
from solward.vault.money.request import ADMIN, Actor, IdempotencyKey
from solward.vault.store import attempts as attempt_store
from solward.vault.store import spending

FEE = 5_000
HALF = Decimal("0.5")


async def test_a_transfer_lands_and_its_record_says_all_of_it(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=LIMITS) as bench:
        before = await bench.lamports(bench.wallet.address)
        record = await bench.transfer(HALF)
        assert await bench.lamports(bench.recipient) == LAMPORTS_PER_SOL // 2
        assert before - await bench.lamports(bench.wallet.address) == LAMPORTS_PER_SOL // 2 + FEE
        assert await bench.history() == [record]
        assert record.to_json() == {
            "id": record.id,
            "walletId": bench.wallet.id,
            "principal": "admin",
            "type": "transfer",
            "status": "confirmed",
            "signature": record.signature,
            "details": {"from": bench.wallet.address, "to": bench.recipient, "amount": HALF},
            "guardrailsApplied": list(RULES),
            "timestamp": record.to_json()["timestamp"],
        }
        assert record.fee_lamports == FEE


@pytest.mark.parametrize(
    ("limits", "amount", "rule"),
    [
        (ScopeLimits(max_lamports_per_tx=LAMPORTS_PER_SOL), 2, "max_per_tx"),
        (ScopeLimits(max_tx_per_minute=0), 1, "rate_limit"),
        (ScopeLimits(daily_lamports=LAMPORTS_PER_SOL), 2, "daily_limit"),
    ],
)
async def test_a_refused_transfer_is_recorded_and_nothing_moves(
    tmp_path: Path, limits: ScopeLimits, amount: int, rule: str
) -> None:
    async with open_bench(tmp_path, limits=limits) as bench:
        with pytest.raises(GuardrailBlocked, match=rule) as caught:
            await bench.transfer(amount)
        assert caught.value.rule == rule
        [record] = await bench.history()
        assert record == caught.value.record
        assert record.status is TransactionStatus.BLOCKED
        assert record.guardrails_applied == RULES[: RULES.index(rule) + 1]
        assert record.error == caught.value.reason
        assert record.signature is None
        assert await bench.lamports(bench.recipient) == 0
        assert bench.wire.calls["sendTransaction"] == 0
        assert await bench.reserved_units() == 0


@promise("blocked-counts-nothing")
async def test_a_blocked_attempt_takes_no_rate_slot(tmp_path: Path) -> None:
    limits = ScopeLimits(max_tx_per_minute=2, max_lamports_per_tx=LAMPORTS_PER_SOL)
    async with open_bench(tmp_path, limits=limits) as bench:
        await bench.transfer(HALF)
        for _ in range(3):
            with pytest.raises(GuardrailBlocked, match="max_per_tx"):
                await bench.transfer(2)
        await bench.transfer(HALF)
        with pytest.raises(GuardrailBlocked, match="rate_limit"):
            await bench.transfer(HALF)


@promise("strictest-scope-binds")
async def test_the_agents_and_the_keys_limits_bind_beside_the_wallets(tmp_path: Path) -> None:
    key = Actor("key:k", limits=(("key:k", ScopeLimits(daily_lamports=LAMPORTS_PER_SOL)),))
    agent = Actor(
        "agent:a", "a", limits=(("agent:a", ScopeLimits(max_lamports_per_tx=LAMPORTS_PER_SOL)),)
    )
    async with open_bench(tmp_path, limits=LIMITS) as bench:
        await bench.transfer(HALF, key)
        with pytest.raises(GuardrailBlocked, match="spending_limit_check"):
            await bench.transfer(1, key)
        with pytest.raises(GuardrailBlocked, match="max_per_tx"):
            await bench.transfer(2, agent)
        record = await bench.transfer(1, agent)
        assert record.to_json()["agentId"] == "a"


@promise("failed-simulation-rules")
async def test_too_little_balance_is_a_failed_record_and_costs_nothing(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=LIMITS, sol=1) as bench:
        with pytest.raises(TransactionFailed, match="insufficient balance") as caught:
            await bench.transfer(2)
        [record] = await bench.history()
        assert record == caught.value.record
        assert record.status is TransactionStatus.FAILED
        assert await bench.lamports(bench.wallet.address) == LAMPORTS_PER_SOL
        assert await bench.reserved_units() == 0


async def test_an_empty_wallet_is_told_about_the_fee(tmp_path: Path) -> None:
    async with open_bench(tmp_path, sol=0) as bench:
        with pytest.raises(TransactionFailed, match="too little SOL"):
            await bench.transfer(1)


@promise("failed-simulation-rules")
async def test_a_limit_is_named_before_the_balance(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=LIMITS, sol=1) as bench:
        with pytest.raises(GuardrailBlocked, match="max_per_tx"):
            await bench.transfer(5)


@pytest.mark.parametrize(
    ("to", "amount", "said"),
    [
        ("nobody", 1, "to must be a base58 Solana address"),
        (None, 0, "amount must be greater than 0"),
        (None, Decimal("0.0000000001"), "amount has more than 9 decimals"),
    ],
)
async def test_bad_input_names_its_field_and_stores_nothing(
    bench: Bench, to: str | None, amount: Any, said: str
) -> None:
    with pytest.raises(InvalidRequest, match=said):
        await bench.transfer(amount, to=to)
    assert await bench.history() == []


async def test_an_unknown_wallet_is_not_found(bench: Bench) -> None:
    with pytest.raises(WalletNotFound, match="Wallet not found"):
        await bench.engine.execute("nobody", ADMIN, bench.draft(1))


async def test_a_ledger_that_is_away_before_sending_is_a_failed_record(bench: Bench) -> None:
    bench.wire.away("simulateTransaction")
    with pytest.raises(TransactionFailed, match="did not answer simulateTransaction"):
        await bench.transfer(HALF)
    [record] = await bench.history()
    assert record.status is TransactionStatus.FAILED
    assert bench.wire.calls["sendTransaction"] == 0


@promise("send-answer-decides-nothing")
async def test_an_unanswered_send_is_not_its_fate(bench: Bench) -> None:

    async def landed_but_silent(_method: str, params: Sequence[Any]) -> Any:
        await bench.wire.direct("sendTransaction", params)
        raise LedgerUnavailable("connection reset")

    bench.wire.faults["sendTransaction"] = landed_but_silent
    record = await bench.transfer(HALF)
    assert record.status is TransactionStatus.CONFIRMED
    assert await bench.lamports(bench.recipient) == LAMPORTS_PER_SOL // 2


@promise("signed-once", "same-bytes-sent-again")
async def test_lost_bytes_are_sent_again_unchanged(bench: Bench) -> None:
    seen: list[str] = []

    async def lose_first(_method: str, params: Sequence[Any]) -> Any:
        seen.append(params[0])
        return "lost" if len(seen) == 1 else None

    bench.wire.faults["sendTransaction"] = lose_first
    record = await bench.transfer(HALF)
    assert record.status is TransactionStatus.CONFIRMED
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert await bench.lamports(bench.recipient) == LAMPORTS_PER_SOL // 2


@promise("signed-once")
async def test_bytes_that_expired_unseen_are_dead_and_give_everything_back(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=LIMITS) as bench:

        async def lose(_method: str, _params: Sequence[Any]) -> Any:
            return "lost"

        bench.wire.faults["sendTransaction"] = lose
        sending = asyncio.create_task(bench.transfer(HALF))

        async def sent() -> bool:
            return bench.wire.calls["sendTransaction"] > 0

        await until(sent)
        assert await bench.reserved_units() == LAMPORTS_PER_SOL // 2
        await bench.localnet.advance_slots(160)
        with pytest.raises(TransactionFailed, match="expired without reaching the ledger"):
            await sending
        [record] = await bench.history()
        assert record.status is TransactionStatus.FAILED
        assert record.fee_lamports == 0
        assert await bench.reserved_units() == 0


@promise("dead-needs-proof")
async def test_a_false_null_before_expiry_does_not_release(bench: Bench) -> None:

    async def null(_method: str, params: Sequence[Any]) -> Any:
        if bench.wire.calls["getSignatureStatuses"] > 3:
            return None
        return {"context": {"slot": 1}, "value": [None] * len(params[0])}

    bench.wire.faults["getSignatureStatuses"] = null
    record = await bench.transfer(HALF)
    assert record.status is TransactionStatus.CONFIRMED


@promise("released-only-if-dead")
async def test_a_failure_on_the_ledger_costs_the_fee_and_gives_the_amount_back(
    tmp_path: Path,
) -> None:
    async with open_bench(tmp_path, sol=2) as bench:
        together = asyncio.Barrier(2)

        async def at_once(_method: str, _params: Sequence[Any]) -> Any:
            if bench.wire.calls["sendTransaction"] <= 2:
                await together.wait()

        bench.wire.faults["sendTransaction"] = at_once
        results = await asyncio.gather(
            bench.transfer(Decimal("1.5")), bench.transfer(Decimal("1.4")), return_exceptions=True
        )
        [failed] = [result for result in results if isinstance(result, TransactionFailed)]
        [landed] = [result for result in results if not isinstance(result, BaseException)]
        assert "failed on the ledger" in str(failed)
        assert failed.record.fee_lamports == FEE
        amount = int(landed.details["amount"] * LAMPORTS_PER_SOL)
        assert await bench.lamports(bench.wallet.address) == 2 * LAMPORTS_PER_SOL - amount - 2 * FEE
        assert await bench.reserved_units() == amount


@promise("equal-payments-differ")
async def test_equal_transfers_at_once_are_two_payments(bench: Bench) -> None:
    records = await asyncio.gather(*(bench.transfer(HALF) for _ in range(8)))
    assert len({record.signature for record in records}) == 8
    assert await bench.lamports(bench.recipient) == 4 * LAMPORTS_PER_SOL


async def test_equal_bytes_after_a_restart_are_rebuilt(bench: Bench) -> None:
    first = await bench.transfer(HALF)
    # As after a restart within the same blockhash: nothing in memory remembers the message.
    bench.engine._assessor._built.clear()
    second = await bench.transfer(HALF)
    assert first.signature != second.signature
    assert await bench.lamports(bench.recipient) == LAMPORTS_PER_SOL


@promise("equal-payments-differ")
async def test_a_signature_that_is_stored_is_rebuilt_never_called_success(bench: Bench) -> None:
    signer = await bench.wallets.signer(bench.wallet.id)
    blockhash = await bench.engine._assessor.blockhashes.get()
    unsigned = compile_instructions(bench.draft(HALF), blockhash.blockhash, None)
    collision = Signature(await signer.sign(bytes(to_bytes_versioned(unsigned.message))))
    await bench.transfer(1)
    async with bench.database.write() as connection:
        await connection.execute(update(attempts).values(signature=str(collision)))
    record = await bench.transfer(HALF)
    assert record.signature != str(collision)
    assert record.status is TransactionStatus.CONFIRMED
    assert await bench.lamports(bench.recipient) == LAMPORTS_PER_SOL * 3 // 2


@promise("cancel-stops-nothing")
async def test_a_cancelled_caller_cancels_nothing(bench: Bench) -> None:
    started = asyncio.Event()
    go = asyncio.Event()

    async def hold(_method: str, _params: Sequence[Any]) -> Any:
        started.set()
        await go.wait()

    bench.wire.faults["simulateTransaction"] = hold
    caller = asyncio.create_task(bench.transfer(HALF))
    await started.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    go.set()

    async def landed() -> bool:
        return await bench.lamports(bench.recipient) == LAMPORTS_PER_SOL // 2

    await until(landed)


@promise("cancel-stops-nothing")
@pytest.mark.parametrize(
    ("error", "said"),
    [(SkillError("call_ended", "The call has ended"), []), (ValueError("a bug"), ["a bug"])],
)
async def test_only_a_bug_is_logged_of_what_a_cancelled_caller_does_not_hear(
    bench: Bench, error: Exception, said: list[str]
) -> None:
    started, go = asyncio.Event(), asyncio.Event()
    logged: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, what: logged.append(str(what.get("exception"))))

    async def hold(_method: str, _params: Sequence[Any]) -> Any:
        started.set()
        await go.wait()

    def check() -> None:
        if started.is_set():
            raise error

    bench.wire.faults["simulateTransaction"] = hold
    caller = asyncio.create_task(bench.transfer(HALF, Actor("admin", checks=(check,))))
    await started.wait()
    running = tuple(bench.engine._running)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    go.set()
    await asyncio.wait(running)
    # asyncio tells of an error that nobody heard when its task is collected.
    del caller, running
    await asyncio.sleep(0)
    gc.collect()
    loop.set_exception_handler(None)
    assert logged == said
    assert await bench.lamports(bench.recipient) == 0


@promise("freeze-comes-first")
async def test_a_frozen_wallet_and_a_frozen_service_refuse_everything(bench: Bench) -> None:
    for scope in ("service", f"wallet:{bench.wallet.id}"):
        async with bench.database.write() as connection:
            await spending.set_frozen(connection, scope, True, "an incident")
        with pytest.raises(GuardrailBlocked, match="frozen: an incident") as caught:
            await bench.transfer(HALF)
        assert caught.value.record.guardrails_applied == ("freeze",)
        async with bench.database.write() as connection:
            await spending.set_frozen(connection, scope, False, None)
    await bench.transfer(HALF)


async def test_one_logical_action_is_one_payment(tmp_path: Path) -> None:
    actor = Actor("agent:a", "a", action_key="a:1:transfer:1")
    async with open_bench(tmp_path, sol=1) as bench:
        first = await bench.transfer(HALF, actor)
        # The second would fail in simulation; it is the first one's record all the same.
        assert await bench.transfer(HALF, actor) == first
        assert await bench.lamports(bench.recipient) == LAMPORTS_PER_SOL // 2


async def test_a_refused_logical_action_stays_refused(tmp_path: Path) -> None:
    actor = Actor("agent:a", "a", action_key="a:1:transfer:1")
    async with open_bench(tmp_path, limits=LIMITS) as bench:
        for _ in range(2):
            with pytest.raises(GuardrailBlocked, match="max_per_tx"):
                await bench.transfer(5, actor)
        assert len(await bench.history()) == 1


@promise("key-claimed-with-reservation")
async def test_an_idempotency_key_is_claimed_once(tmp_path: Path) -> None:
    def actor(fingerprint: str) -> Actor:
        return Actor("admin", idempotency=IdempotencyKey("admin|POST|/t|k", fingerprint))

    async with open_bench(tmp_path) as bench:
        await bench.transfer(HALF, actor("one"))
        with pytest.raises(IdempotencyInFlight):
            await bench.transfer(HALF, actor("one"))
        with pytest.raises(IdempotencyMismatch):
            await bench.transfer(HALF, actor("two"))
        assert await bench.lamports(bench.recipient) == LAMPORTS_PER_SOL // 2
        assert len(await bench.history()) == 1


@promise("pending-after-45-s")
async def test_a_slow_ledger_answers_pending_and_settles_later(tmp_path: Path) -> None:
    async with open_bench(tmp_path, confirm_wait_s=0.05) as bench:
        bench.wire.away("getSignatureStatuses")
        record = await bench.transfer(HALF)
        assert record.status is TransactionStatus.PENDING
        assert record.signature is not None
        bench.wire.faults.clear()

        async def settled() -> bool:
            return (await bench.history())[0].status is TransactionStatus.CONFIRMED

        await until(settled)


@promise("judged-bytes-are-sent")
async def test_what_was_written_ahead_is_what_was_sent(bench: Bench) -> None:
    seen: list[tuple[str, int]] = []

    async def look(_method: str, params: Sequence[Any]) -> Any:
        async with bench.database.read() as connection:
            rows = (await connection.execute(select(attempts.c.wire))).all()
        seen.append((params[0], len(rows)))

    bench.wire.faults["sendTransaction"] = look
    await bench.transfer(HALF)
    async with bench.database.read() as connection:
        [row] = (await connection.execute(select(attempts))).all()
        held = await connection.execute(
            select(reservations.c.asset, reservations.c.units).order_by(reservations.c.asset)
        )
        counted = [tuple(each) for each in held]
    assert seen[0] == (base64.b64encode(row.wire).decode(), 1)
    assert (row.state, row.attempt_no) == ("landed_ok", 1)
    assert counted == [("COSTS", 5_000), ("SOL", 500_000_000)]


@promise("approved-under-a-fee-ceiling")
async def test_what_was_not_signed_makes_no_equal_payment_cost_a_memo(tmp_path: Path) -> None:
    limits = ScopeLimits(max_tx_per_minute=1)
    async with open_bench(tmp_path, limits=limits) as bench:
        actor = replace(ADMIN, limits=(("agent:a", ScopeLimits(max_lamports_per_tx=1)),))
        with pytest.raises(GuardrailBlocked):
            await bench.transfer(1, actor)
        await bench.engine.dry_run(bench.wallet.id, ADMIN, bench.draft(1))
        record = await bench.transfer(1)
        async with bench.database.read() as connection:
            [attempt] = await attempt_store.of_transaction(connection, record.id)
        [transfer] = VersionedTransaction.from_bytes(attempt.wire).message.instructions
        assert len(transfer.data) == 12

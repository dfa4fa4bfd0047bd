"""A dry run is judged exactly as the real thing, and leaves no trace."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from sqlalchemy import func, select
from tests.promises import promise
from tests.support.engine import LIMITS, Bench, open_bench

from solward.database.tables import reservations
from solward.operations.sol import plan_airdrop
from solward.types.errors import GuardrailBlocked, InvalidRequest, TransactionFailed, WalletNotFound
from solward.types.money import LAMPORTS_PER_SOL
from solward.vault.guardrails.rules import RULES, ScopeLimits
from solward.vault.money.outcomes import Trial, TrialEnded
from solward.vault.money.request import ADMIN, Actor, Draft, IdempotencyKey
from solward.vault.store import spending
from solward.vault.store.idempotency import lookup

DRY = replace(ADMIN, dry_run=True)
SENDING = ("sendTransaction", "requestAirdrop")


async def traces(bench: Bench) -> tuple[int, int, int]:
    """Records, reservations and calls that reach the ledger's state."""
    async with bench.database.read() as connection:
        held = (
            await connection.execute(select(func.count()).select_from(reservations))
        ).scalar_one()
    sent = sum(bench.wire.calls[method] for method in SENDING)
    return len(await bench.history()), held, sent


async def dry(bench: Bench, draft: Draft, actor: Actor = ADMIN) -> Trial:
    """`Engine.dry_run`, which may change nothing."""
    before = await traces(bench)
    trial = await bench.engine.dry_run(bench.wallet.id, actor, draft)
    assert await traces(bench) == before
    return trial


async def test_what_would_be_sent_is_allowed_with_its_effects(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=LIMITS) as bench:
        held = await bench.lamports(bench.wallet.address)
        trial = await dry(bench, bench.draft(Decimal("0.5")))
        assert trial.to_json() == {
            "dryRun": True,
            "allowed": True,
            "guardrailsApplied": list(RULES),
            "effects": {
                "solOut": Decimal("0.5"),
                "fee": Decimal("0.000005"),
                "rent": 0,
                "accountsCreated": 1,
                "tokensOut": {},
                "tokensIn": {},
                "programs": ["11111111111111111111111111111111"],
                "authorityChanges": [],
                "closedAccounts": {},
            },
        }
        assert await bench.lamports(bench.wallet.address) == held


async def test_a_dry_run_leaves_the_same_transfer_the_bytes_it_would_have_had(bench: Bench) -> None:
    sent: list[VersionedTransaction] = []

    async def keep(_method: str, params: Sequence[Any]) -> None:
        sent.append(VersionedTransaction.from_bytes(b64decode(params[0])))

    bench.wire.faults["sendTransaction"] = keep
    for _ in range(3):
        assert (await dry(bench, bench.draft(1))).allowed
    await bench.transfer(1)
    # An equal one built before would have been told apart by a memo.
    assert [len(one.message.instructions) for one in sent] == [1]
    assert (await dry(bench, bench.draft(1))).allowed


@promise("dry-run-stores-nothing")
@pytest.mark.parametrize(
    ("amount", "used", "rule"),
    [
        (Decimal("2.000000001"), [], "max_per_tx"),
        (Decimal("0.1"), [Decimal("0.1")] * 5, "rate_limit"),
        (2, [2, 2, 2, 2, 1], None),
    ],
)
async def test_it_and_the_real_thing_are_refused_alike(
    tmp_path: Path, amount: Decimal, used: list[Decimal], rule: str | None
) -> None:
    limits = LIMITS if rule else replace(LIMITS, max_tx_per_minute=None)
    async with open_bench(tmp_path, limits=limits, sol=20) as bench:
        for spent in used:
            await bench.transfer(spent)
        trial = await dry(bench, bench.draft(amount))
        with pytest.raises(GuardrailBlocked) as refused:
            await bench.transfer(amount)
        assert trial.verdict.rule == refused.value.rule == (rule or "daily_limit")
        assert trial.verdict.reason == refused.value.reason
        assert trial.verdict.applied == refused.value.record.guardrails_applied
        body = trial.to_json()
        assert (body["allowed"], body["rule"]) == (False, rule or "daily_limit")
        assert body["reason"] == refused.value.reason
        assert body["effects"]["solOut"] == amount


@promise("dry-run-stores-nothing")
async def test_ten_dry_runs_take_no_rate_slot(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=LIMITS) as bench:
        for _ in range(10):
            assert (await dry(bench, bench.draft(1))).allowed
        for _ in range(5):
            await bench.transfer(1)
        assert (await dry(bench, bench.draft(1))).verdict.rule == "rate_limit"


async def test_the_callers_own_limits_hold_for_it(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=LIMITS) as bench:
        key = Actor("key:k", limits=(("key:k", ScopeLimits(daily_lamports=LAMPORTS_PER_SOL)),))
        assert (await dry(bench, bench.draft(1), key)).allowed
        assert (await dry(bench, bench.draft(2), key)).verdict.rule == "spending_limit_check"
        assert (await dry(bench, bench.draft(2))).allowed


async def test_a_freeze_stops_it_as_it_stops_the_real_thing(bench: Bench) -> None:
    for scope in ("service", f"wallet:{bench.wallet.id}"):
        async with bench.database.write() as connection:
            await spending.set_frozen(connection, scope, True, "incident 7")
        body = (await dry(bench, bench.draft(1))).to_json()
        assert body["rule"] == "freeze"
        assert body["reason"] == "transactions are frozen: incident 7"
        assert body["guardrailsApplied"] == ["freeze"]
        async with bench.database.write() as connection:
            await spending.set_frozen(connection, scope, False)
    assert (await dry(bench, bench.draft(1))).allowed


async def test_what_would_fail_says_why_and_names_no_rule(tmp_path: Path) -> None:
    async with open_bench(tmp_path, sol=1) as bench:
        trial = await dry(bench, bench.draft(3))
        with pytest.raises(TransactionFailed) as failed:
            await bench.transfer(3)
        body = trial.to_json()
        assert body["allowed"] is False
        assert body["reason"] == str(failed.value)
        assert body["guardrailsApplied"] == list(failed.value.record.guardrails_applied)
        assert not body.keys() & {"rule", "effects"}


async def test_what_cannot_be_a_transaction_is_bad_input_here_too(bench: Bench) -> None:
    other = AccountMeta(Pubkey.new_unique(), True, True)
    draft = replace(bench.draft(1), instructions=(Instruction(other.pubkey, b"", [other]),))
    with pytest.raises(InvalidRequest, match="signature besides the wallet's"):
        await dry(bench, draft)
    with pytest.raises(WalletNotFound):
        await bench.engine.dry_run("nobody", ADMIN, bench.draft(1))


async def _execute(bench: Bench) -> object:
    return await bench.engine.execute(bench.wallet.id, DRY, bench.draft(1))


async def _airdrop(bench: Bench, actor: Actor = DRY) -> object:
    intent, lamports = plan_airdrop(bench.wallet.address, "localnet", amount=1)
    return await bench.engine.airdrop(bench.wallet.id, actor, intent, lamports)


async def _refuse(bench: Bench) -> object:
    raise await bench.engine.store_refusal(bench.wallet.id, DRY, bench.draft(1).intent, "no answer")


@pytest.mark.parametrize(
    ("door", "allowed"), [(_execute, True), (_airdrop, True), (_refuse, False)]
)
async def test_every_door_of_the_engine_ends_a_dry_run_with_its_trial(
    tmp_path: Path, door: Callable[[Bench], Awaitable[object]], allowed: bool
) -> None:
    async with open_bench(tmp_path, limits=LIMITS) as bench:
        before = await traces(bench)
        held = await bench.lamports(bench.wallet.address)
        with pytest.raises(TrialEnded) as ended:
            await door(bench)
        assert ended.value.trial.allowed is allowed
        assert await traces(bench) == before
        assert await bench.lamports(bench.wallet.address) == held


@promise("airdrop-spends-nothing")
async def test_an_airdrop_is_refused_by_its_rate_in_a_dry_run_too(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=LIMITS) as bench:
        for _ in range(5):
            await _airdrop(bench, ADMIN)
        with pytest.raises(TrialEnded) as ended:
            await _airdrop(bench)
        assert ended.value.trial.verdict.rule == "rate_limit"


async def test_an_idempotency_key_is_left_for_the_real_thing(bench: Bench) -> None:
    actor = replace(DRY, idempotency=IdempotencyKey("admin|POST|/x|k", "f"))
    with pytest.raises(TrialEnded):
        await bench.engine.execute(bench.wallet.id, actor, bench.draft(1))
    async with bench.database.read() as connection:
        assert await lookup(connection, "admin|POST|/x|k") is None

"""Payments over providers that fail in each way one does: by the ledger each is paid once, and none
fails that could have waited."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from solders.keypair import Keypair
from tests.promises import promise
from tests.support import rpc as rpc_faults
from tests.support.engine import Payer, payer
from tests.support.rpc import FAULTS, FaultyProvider

from solward.types.errors import TransactionFailed
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.money.request import ADMIN
from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions

LAMPORTS = 10_000_000
SOMEBODY = str(Keypair().pubkey())
# Between them the slots of a lagging node have passed.
PAST_SLOTS = 100


@pytest.fixture
async def localnet() -> AsyncIterator[Localnet]:
    opened = await Localnet.open(None, LocalnetOptions(test_control=True))
    try:
        await opened.advance_slots(PAST_SLOTS)
        yield opened
    finally:
        await opened.close()


async def pays(paying: Payer) -> TransactionRecord:
    """A payment that is confirmed while its caller waits, and paid once."""
    to = str(Keypair().pubkey())
    record = await paying.pay(to, LAMPORTS)
    assert isinstance(record, TransactionRecord), str(record)
    assert record.status is TransactionStatus.CONFIRMED
    assert await paying.on_ledger(to) == LAMPORTS
    return record


# Each alone, on one address.


@pytest.mark.more
@promise("faulty-provider-loses-nothing")
async def test_no_fault_that_ends_fails_a_payment(tmp_path: Path, localnet: Localnet) -> None:
    async with (
        FaultyProvider(localnet).serving() as provider,
        payer(tmp_path, localnet, provider.url) as paying,
    ):
        paying.engine.sender.resend_slots = 0.5
        await pays(paying)
        for fault in FAULTS:
            # So that a blockhash is asked for, too.
            paying.engine._assessor.blockhashes.forget()
            # The two that leave together, or some more: those with Retry-After stop all for a
            # second.
            most = 2 if fault.startswith("throttle_") else 4
            with provider.faulty(most=most, **{fault: 1}):
                await pays(paying)
            assert provider.counts[fault] == most, fault


async def test_a_caller_that_cannot_wait_so_long_hears_it_at_once(
    tmp_path: Path, localnet: Localnet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc_faults, "RETRY_AFTER_S", 30)
    async with (
        FaultyProvider(localnet).serving() as provider,
        payer(tmp_path, localnet, provider.url, confirm_wait_s=20) as paying,
    ):
        await paying.engine.dry_run(paying.wallet.id, ADMIN, paying.draft(SOMEBODY, LAMPORTS))
        with provider.faulty(throttle_after=1):
            began = time.monotonic()
            refused = await paying.pay(str(Keypair().pubkey()), LAMPORTS)
            assert time.monotonic() - began < 10
        assert isinstance(refused, TransactionFailed)
        assert "asks to wait 30 s" in str(refused)
        assert refused.record.signature is None


async def test_a_send_that_one_address_swallows_lands_by_the_other_at_once(
    tmp_path: Path, localnet: Localnet
) -> None:
    one, two = FaultyProvider(localnet), FaultyProvider(localnet)
    async with one.serving(), two.serving(), payer(tmp_path, localnet, one.url, two.url) as paying:
        paying.engine.sender.resend_slots = 150
        for provider in (one, two):
            with provider.faulty(swallow=1):
                await pays(paying)
            assert provider.counts["swallow"] == 1


# Mixed.


async def among_faults(paying: Payer, providers: list[FaultyProvider], seconds: float) -> str:
    """Pay from four callers while the providers' faults change; then the ledger is asked."""
    dice = random.Random(17)
    ends = time.monotonic() + seconds
    heard: dict[str, object] = {}

    async def faults() -> None:
        while time.monotonic() < ends:
            for provider in providers:
                happens = dice.sample(FAULTS, dice.choice((0, 1, 1, 2, 3)))
                provider.chances = {fault: dice.choice((0.1, 0.3, 0.6)) for fault in happens}
            await asyncio.sleep(dice.uniform(0.5, 4))
        for provider in providers:
            provider.chances = {}

    async def caller() -> None:
        while time.monotonic() < ends:
            to = str(Keypair().pubkey())
            heard[to] = await paying.pay(to, LAMPORTS)

    began = len(await paying.records())
    await asyncio.gather(faults(), *(caller() for _ in range(4)))
    records = await paying.settled(120)
    assert len(records) - began == len(heard), "each payment has one record"
    by_recipient = {str(each.details["to"]): each for each in records}
    paid = {to: await paying.on_ledger(to) for to in heard}
    said = Counter(
        each.status.value if isinstance(each, TransactionRecord) else f"failed: {each}"
        for each in heard.values()
    )
    met = sum((provider.counts for provider in providers), Counter[str]())
    report = (
        f"{len(heard)} payments in {seconds:.0f} s over {len(providers)} addresses; callers heard"
        f" {dict(said)}; requests met {dict(met.most_common())}"
    )
    lost = [to for to in heard if by_recipient[to].status is not TransactionStatus.CONFIRMED]
    assert not lost, f"{report}; {[by_recipient[to].error for to in lost]}"
    assert set(paid.values()) == {LAMPORTS}, report
    assert set(met) - {"fine"}, report
    return report


async def mixed(tmp_path: Path, seconds: float) -> None:
    """Two payers at once: one on a single address, one on several, of which one is another
    cluster's by the time it answers."""
    localnet = await Localnet.open(None, LocalnetOptions(test_control=True))
    other = await Localnet.open(None, LocalnetOptions())
    try:
        await localnet.advance_slots(PAST_SLOTS)
        alone = FaultyProvider(localnet, seed=1)
        pair = [FaultyProvider(localnet, seed=seed) for seed in (2, 3)]
        stranger = FaultyProvider(localnet, seed=4, chances={"fail": 1.0})
        async with (
            alone.serving(),
            pair[0].serving(),
            pair[1].serving(),
            stranger.serving(),
            payer(tmp_path / "alone", localnet, alone.url) as single,
            payer(
                tmp_path / "several", localnet, *(each.url for each in (*pair, stranger))
            ) as several,
        ):
            stranger.ledger, stranger.chances = other, {}
            reports = await asyncio.gather(
                among_faults(single, [alone], seconds), among_faults(several, pair, seconds)
            )
            print(*reports, sep="\n")
            believed = {each.method for each in stranger.requests if each.fault is None}
            assert believed == {"getGenesisHash"}
    finally:
        await other.close()
        await localnet.close()


@pytest.mark.more
async def test_payments_among_faults_are_paid_once_and_none_fails(tmp_path: Path) -> None:
    await mixed(tmp_path, 8)


@promise("faulty-provider-loses-nothing")
@pytest.mark.long
@pytest.mark.timeout(1_200)
async def test_ten_minutes_of_faults_lose_double_and_fail_no_payment(tmp_path: Path) -> None:
    await mixed(tmp_path, 600)

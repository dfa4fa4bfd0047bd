"""Transactions of version 1: those that somebody else made, and who takes any."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from solders.hash import Hash
from solders.message import TransactionConfig
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction
from tests.promises import promise
from tests.support.engine import Bench, bench
from tests.support.swaps import pay_sol, whole_message
from tests.vault.money.test_fates import pair

from solward.operations.plugin_draft import plugin_draft
from solward.solana.protocol import MAX_WIRE_BYTES
from solward.types.errors import GuardrailBlocked
from solward.types.guardrail import Intent
from solward.types.record import TransactionStatus
from solward.vault.ledger.patience import within
from solward.vault.money.judge.building import SwapVersions
from solward.vault.money.request import ADMIN, Draft
from solward_localnet.jsonrpc import RpcError

__all__ = ["bench"]

TIMES = 60
LAMPORTS = 1_000_000
LIMITS = {"compute_unit_limit": 100_000, "loaded_accounts_data_size_limit": 1 << 20}


async def drafted(bench: Bench, priority_fee: int) -> Draft:
    """Pays so often that other versions have no room for it."""
    wallet = Pubkey.from_string(bench.wallet.address)
    latest = (await bench.ledger.latest_blockhash()).blockhash
    pays = [pay_sol(wallet, Pubkey.from_string(bench.recipient), LAMPORTS)] * TIMES
    config = TransactionConfig(priority_fee=priority_fee, **LIMITS)
    message = whole_message(wallet, pays, Hash.from_string(latest), config)
    wire = bytes(VersionedTransaction.populate(message, [Signature.default()]))
    assert len(wire) > MAX_WIRE_BYTES
    gives = Intent(type="other", wallet=str(wallet), lamports_out=TIMES * LAMPORTS)
    return plugin_draft(str(wallet), gives, [], wire)


@promise("message-versions")
async def test_bytes_of_version_1_are_signed_and_counted_to_the_lamport(bench: Bench) -> None:
    before = await bench.lamports(bench.wallet.address)
    record = await bench.engine.execute(bench.wallet.id, ADMIN, await drafted(bench, 7_000))
    assert record.status is TransactionStatus.CONFIRMED
    assert record.fee_lamports == 5_000 + 7_000
    gone = before - await bench.lamports(bench.wallet.address)
    assert gone == TIMES * LAMPORTS + 12_000


@promise("message-versions")
async def test_a_priority_fee_of_version_1_beyond_the_limit_is_refused(bench: Bench) -> None:
    draft = await drafted(bench, 10**9)
    with pytest.raises(GuardrailBlocked) as refused:
        await bench.engine.execute(bench.wallet.id, ADMIN, draft)
    assert refused.value.rule == "fee_limit"


async def refuses(_method: str, _params: Sequence[Any]) -> Any:
    raise RpcError(-32602, "failed to deserialize VersionedTransaction")


async def unknown_blockhash(_method: str, _params: Sequence[Any]) -> Any:
    return {"context": {"slot": 1}, "value": {"err": "BlockhashNotFound"}}


async def silent(_method: str, _params: Sequence[Any]) -> Any:
    await asyncio.Event().wait()


async def unsupported(_method: str, _params: Sequence[Any]) -> Any:
    return {"context": {"slot": 1}, "value": {"err": "UnsupportedVersion"}}


@promise("version-by-setting")
@pytest.mark.parametrize(
    ("one", "other", "version"),
    [
        (None, None, 1),
        (refuses, None, 0),
        (None, refuses, 0),
        (None, unsupported, 0),
        # What a node does not say, the other one does.
        (500, None, 1),
        (None, unknown_blockhash, 1),
        (unknown_blockhash, refuses, 0),
        (500, 500, 0),
        (silent, None, 1),
    ],
)
async def test_every_node_that_answers_must_take_version_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: Any, other: Any, version: int
) -> None:
    monkeypatch.setattr("solward.vault.money.judge.building._VERSION_WAIT_S", 0.3)
    async with pair(tmp_path) as nodes:
        for node, fault in ((nodes.knows, one), (nodes.ignorant, other)):
            if fault is not None:
                node.faults["simulateTransaction"] = fault
        # Of a wallet without any SOL, too.
        for payer in (nodes.bench.wallet.address, nodes.bench.recipient):
            versions = SwapVersions(nodes.ledger)
            with within(0.5):
                assert await versions.for_swaps(payer) == version


@promise("version-by-setting")
async def test_a_node_that_did_not_say_is_asked_again_sooner(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = 0.0
    monkeypatch.setattr("solward.vault.money.judge.building.time.monotonic", lambda: seconds)
    versions = SwapVersions(bench.ledger)

    async def asked() -> tuple[int, int]:
        return await versions.for_swaps(bench.wallet.address), calls["simulateTransaction"]

    calls = bench.wire.calls
    bench.wire.away("simulateTransaction")
    assert [await asked(), await asked()] == [(0, 1)] * 2
    del bench.wire.faults["simulateTransaction"]
    seconds = 31
    assert [await asked(), await asked()] == [(1, 2)] * 2
    seconds = 600
    assert await asked() == (1, 2)
    seconds = 632
    assert await asked() == (1, 3)

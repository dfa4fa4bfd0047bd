"""Transactions of version 1 that somebody else made: signed, sent, and counted to the lamport."""

from __future__ import annotations

import pytest
from solders.hash import Hash
from solders.message import TransactionConfig
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction
from tests.promises import promise
from tests.support.engine import Bench, bench
from tests.support.swaps import pay_sol, whole_message

from solward.operations.plugin_draft import plugin_draft
from solward.solana.protocol import MAX_WIRE_BYTES
from solward.types.errors import GuardrailBlocked
from solward.types.guardrail import Intent
from solward.types.record import TransactionStatus
from solward.vault.money.request import ADMIN, Draft

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

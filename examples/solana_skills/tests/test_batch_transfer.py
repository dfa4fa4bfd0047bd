"""batch_transfer: all or none, and the memo is on the ledger."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any

import pytest
from solana_skills import batch_transfer
from solders.keypair import Keypair

from solward import GuardrailBlocked, InvalidRequest, SkillError
from solward.testing import Stand, TestWallet, conformance

test_it_conforms = conformance.skill_test(batch_transfer)


def payments(*amounts: object) -> list[dict[str, object]]:
    return [{"to": str(Keypair().pubkey()), "amount": amount} for amount in amounts]


async def test_all_are_paid_in_one_transaction(wallet: TestWallet) -> None:
    asked = payments(Decimal("0.25"), 1)
    before = await wallet.lamports()
    outcome = await wallet.run(batch_transfer, payments=asked, memo="rent, Nov")
    assert outcome.startswith("Paid 1.25 SOL to 2 addresses. Status: confirmed.")
    ledger = wallet.context(batch_transfer).ledger
    paid = [await ledger.balance(str(each["to"])) for each in asked]
    assert paid == [250_000_000, 1_000_000_000]
    assert await wallet.lamports() == before - 1_250_000_000 - 5_000
    (record,) = await wallet.records()
    words = {"payments": asked, "amount": Decimal("1.25"), "memo": "rent, Nov"}
    assert record.details["pluginDetails"] == words
    paid_by_bytes = [(each["amount"], each["to"]) for each in record.details["leaves"]]
    assert paid_by_bytes == [(each["amount"], str(each["to"])) for each in asked]


async def test_the_memo_can_be_read_by_everybody(wallet: TestWallet, localnet: Any) -> None:
    await wallet.run(batch_transfer, payments=payments(1), memo="für Ada")
    (record,) = await wallet.records()
    config = {"encoding": "base64", "maxSupportedTransactionVersion": 0}
    landed = await localnet.call("getTransaction", [record.signature, config])
    assert "für Ada".encode() in base64.b64decode(landed["transaction"][0])


async def test_ten_payments_with_the_longest_memo_fit(
    wallet: TestWallet, solward_stand: Stand
) -> None:
    asked = payments(*[Decimal("0.01")] * 10)
    for each in asked:
        await solward_stand.fund(each["to"], 1)
    assert "confirmed" in await wallet.run(batch_transfer, payments=asked, memo="m" * 200)


async def test_none_is_paid_where_the_sum_is_over_the_limit(wallet: TestWallet) -> None:
    asked = payments(Decimal("1.5"), Decimal("0.6"))
    with pytest.raises(GuardrailBlocked, match=r"max_per_tx.*2\.1 SOL"):
        await wallet.run(batch_transfer, payments=asked)
    ledger = wallet.context(batch_transfer).ledger
    assert [await ledger.balance(str(each["to"])) for each in asked] == [0, 0]


async def test_more_than_four_new_accounts_are_blocked(wallet: TestWallet) -> None:
    with pytest.raises(GuardrailBlocked, match="5 new accounts are more than the 4 allowed"):
        await wallet.run(batch_transfer, payments=payments(*[Decimal("0.01")] * 5))


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"payments": []}, InvalidRequest, "payments"),
        ({"payments": payments(*[1] * 11)}, InvalidRequest, "payments"),
        ({"payments": [{"to": "0" * 40, "amount": 1}]}, SkillError, "to must be a base58 address"),
        ({"memo": "ü" * 101}, SkillError, "at most 200 bytes"),
    ],
)
async def test_bad_input_is_named(
    wallet: TestWallet, given: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        await wallet.run(batch_transfer, **({"payments": payments(1)} | given))

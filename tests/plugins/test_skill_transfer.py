from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from tests.plugins.skills import SOL, SkillBench, open_skills
from tests.promises import promise

from solward.types.errors import InvalidRequest


async def test_a_transfer_tells_amount_recipient_signature_status_and_what_is_left(
    skills: SkillBench,
) -> None:
    to = skills.bench.recipient
    text = await skills.run("transfer", to=to, amount=Decimal("0.5"))
    (record,) = await skills.bench.history()
    assert text == (
        f"Sent 0.5 SOL to {to}. Status: confirmed. Signature: {record.signature}."
        " Balance now: 9.4999 SOL."
    )
    assert await skills.bench.lamports(to) == SOL // 2


async def test_a_balance_that_cannot_be_read_does_not_make_a_paid_transfer_a_failure(
    skills: SkillBench,
) -> None:
    skills.bench.wire.away("getBalance")
    text = await skills.run("transfer", to=skills.bench.recipient, amount=1)
    assert text.startswith(f"Sent 1 SOL to {skills.bench.recipient}. Status: confirmed.")
    assert "Balance" not in text


async def test_an_airdrop_gives_one_sol_unless_told_otherwise(tmp_path: Path) -> None:
    async with open_skills(tmp_path, sol=0) as skills:
        text = await skills.run("airdrop")
        address = skills.bench.wallet.address
        (record,) = await skills.bench.history()
        assert text == (
            f"Received an airdrop of 1 SOL to {address}. Status: confirmed."
            f" Signature: {record.signature}."
        )
        await skills.run("airdrop", amount=Decimal("0.25"))
        assert await skills.bench.lamports(address) == SOL + SOL // 4


@promise("airdrop-at-most-two")
async def test_an_airdrop_on_mainnet_is_refused(skills: SkillBench) -> None:
    skills.network = "mainnet-beta"
    with pytest.raises(InvalidRequest, match="devnet, testnet and localnet only"):
        await skills.run("airdrop")


async def test_waiting_repeats_its_reason_and_moves_nothing(skills: SkillBench) -> None:
    assert await skills.run("wait", reason=" prices fall ") == "Waited: prices fall"
    assert await skills.run("wait") == "Waited: no action this cycle."
    assert await skills.bench.history() == []

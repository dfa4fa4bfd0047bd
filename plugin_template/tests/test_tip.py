from __future__ import annotations

from decimal import Decimal

import pytest
from solward import GuardrailBlocked, InvalidRequest, sol_to_lamports
from solward.testing import Stand, TestWallet, conformance

from solward_plugin_template import tip

# Every check that `solward plugins check` makes, beside the tests of one's own.
test_it_conforms = conformance.skill_test(tip)


async def test_a_tip_arrives_in_the_jar(solward_stand: Stand, wallet: TestWallet) -> None:
    outcome = await wallet.run(tip, amount=Decimal("0.05"))
    assert outcome.startswith("Tipped 0.05 SOL. Signature: ")
    held = await solward_stand.service.ledger.balance(tip.JAR)
    assert held == sol_to_lamports(Decimal("0.05"))


async def test_it_tips_little_where_no_amount_is_given(wallet: TestWallet) -> None:
    assert "Tipped 0.01 SOL" in await wallet.run(tip)


async def test_more_than_a_tip_is_refused_before_anything_runs(wallet: TestWallet) -> None:
    with pytest.raises(InvalidRequest, match=r"amount: must be at most 0\.1"):
        await wallet.run(tip, amount=Decimal("0.2"))
    assert await wallet.records() == []


async def test_the_guardrails_hold_for_it(solward_stand: Stand, wallet: TestWallet) -> None:
    await solward_stand.service.switches.freeze(wallet.id, "a test")
    with pytest.raises(GuardrailBlocked, match="frozen"):
        await wallet.run(tip)
    [record] = await wallet.records()
    assert record.status == "blocked"

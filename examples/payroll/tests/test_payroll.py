"""payroll: everybody is paid, and who cannot be keeps nobody waiting."""

from __future__ import annotations

from decimal import Decimal

import pytest
from payroll import payroll
from solders.keypair import Keypair

from solward import SkillError
from solward.testing import TestWallet, conformance

test_it_conforms = conformance.skill_test(payroll)


def people(*amounts: object) -> list[dict[str, object]]:
    return [
        {"name": f"person {at}", "to": str(Keypair().pubkey()), "amount": amount}
        for at, amount in enumerate(amounts)
    ]


async def test_everybody_is_paid(wallet: TestWallet) -> None:
    asked = people(Decimal("0.25"), Decimal("0.5"))
    outcome = await wallet.run(payroll, people=asked)
    assert outcome == "Paid 0.75 SOL to 2 people: person 0, person 1."
    ledger = wallet.context(payroll).ledger
    assert [await ledger.balance(str(each["to"])) for each in asked] == [250_000_000, 500_000_000]
    assert [record.type for record in await wallet.records()] == ["transfer", "transfer"]


async def test_who_cannot_be_paid_keeps_nobody_waiting(wallet: TestWallet) -> None:
    asked = people(50, Decimal("0.25"))
    with pytest.raises(SkillError, match=r"Paid 1 of 2\. Not paid: person 0: .*max_per_tx"):
        await wallet.run(payroll, people=asked)
    assert await wallet.context(payroll).ledger.balance(str(asked[1]["to"])) == 250_000_000

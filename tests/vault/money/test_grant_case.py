"""What a payment is to grants: what it sends is paid, and whom and what else it may be is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from solders.pubkey import Pubkey
from tests.promises import promise

from solward.solana.programs import TOKEN_PROGRAM
from solward.solana.tokens import associated_address
from solward.types.guardrail import SOL, Intent, Line, Operation, Outflow
from solward.types.record import TransactionType
from solward.vault.money.judge.grant_case import (
    addresses,
    find_outgoings,
    is_within,
    mark_funding,
    recipients,
)

MINT, SELLER, OTHER, WALLET = (str(Pubkey(bytes([number]) * 32)) for number in range(1, 5))
ACCOUNT = associated_address(SELLER, MINT, TOKEN_PROGRAM)
SENT = Line(Operation.TRANSFER, MINT, 5, ACCOUNT, None, 6, TOKEN_PROGRAM)
PAID = replace(SENT, operation=Operation.PAY, owner=SELLER)
INTENT = Intent(TransactionType.PAYMENT, WALLET, destinations=frozenset({SELLER}))


def left(*lines: Line, intent: Intent = INTENT, fee: int = 0) -> tuple[Line, ...]:
    return find_outgoings(Outflow(0, fee, 0, lines=lines), intent, None).lines


@promise("payment-counts-as-pay")
def test_what_a_payment_sends_is_paid_and_nothing_else_is() -> None:
    others = [
        Line(operation, MINT, 5, decimals=6, program=TOKEN_PROGRAM)
        for operation in Operation
        if operation != Operation.TRANSFER
    ]
    sol = Line(Operation.TRANSFER, SOL, 7, SELLER, None, 9)
    split = replace(SENT, account=OTHER)
    assert left(SENT, *others, sol, split) == (
        PAID,
        *others,
        replace(sol, operation=Operation.PAY),
        # Nobody declared whose account it is: it is itself the recipient.
        replace(split, operation=Operation.PAY),
    )


@pytest.mark.parametrize("kind", [each for each in TransactionType if each != "payment"])
def test_no_other_transaction_pays(kind: TransactionType) -> None:
    assert left(SENT, intent=replace(INTENT, type=kind)) == (
        replace(PAID, operation=Operation.TRANSFER),
    )


def test_a_seller_that_is_a_wallet_of_the_service_is_paid_and_not_funded() -> None:
    own = frozenset({SELLER})
    assert mark_funding((PAID,), own) == (PAID,)
    assert mark_funding((replace(PAID, operation=Operation.TRANSFER),), own) == (
        replace(PAID, operation=Operation.FUND),
    )


def test_a_seller_is_a_recipient() -> None:
    assert recipients((PAID,)) == (SELLER,)
    assert addresses((PAID,)) == (ACCOUNT, SELLER)


def test_the_costs_of_a_payment_are_what_its_bytes_put_on_the_wallet() -> None:
    assert find_outgoings(Outflow(0, 0, 0, lines=(SENT,)), INTENT, None).costs_lamports == 0
    assert find_outgoings(Outflow(0, 5_000, 3, lines=(SENT,)), INTENT, None).costs_lamports == 5_003


def test_a_payment_that_was_approved_is_no_transfer() -> None:
    assert is_within((PAID,), (PAID,))
    assert not is_within((replace(PAID, operation=Operation.TRANSFER),), (PAID,))
    assert not is_within((PAID,), (replace(PAID, operation=Operation.TRANSFER),))

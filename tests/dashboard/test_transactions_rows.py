"""Records as rows of the table."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from solward.client import NetworkFee, Transaction, TransactionFilter
from solward.solana.token_list import token_list
from solward.types.address_book import AddressBook, KnownAddress
from solward.types.errors import InvalidRequest
from solward_dashboard.links import explorer_address
from solward_dashboard.pages.transaction import amount, fee_facts, row
from solward_dashboard.pages.transactions import record_filter
from solward_dashboard.wording import token_text

TOKENS = token_list("localnet")
USDC = "7ijRzGx7S7c7RY9DM65CjqwtrmCJyKi6V5dFwFMbeciZ"
SOL = "So11111111111111111111111111111111111111112"


def record(**given: Any) -> Transaction:
    fields: dict[str, Any] = {
        "id": "r1",
        "wallet_id": "w1",
        "principal": "admin",
        "type": "transfer",
        "status": "confirmed",
        "signature": "5" * 88,
        "agent_id": None,
        "details": {"amount": Decimal("0.5"), "to": "x"},
        "guardrails_applied": (),
        "timestamp": datetime(2026, 11, 21, 12, tzinfo=UTC),
        "error": None,
        "fee": NetworkFee(
            lamports=10_250,
            compute_units=450,
            compute_unit_limit=1_450,
            priority_fee_micro_lamports=3_621_000,
            raw={},
        ),
        "raw": {},
    }
    return Transaction(**(fields | given))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "0.5 SOL"),
        ({"type": "swap", "details": {"inputToken": SOL, "inputAmount": 2}}, "2 SOL"),
        ({"type": "burn", "details": {"mint": USDC, "amount": Decimal("1.5")}}, "1.5 USDC"),
        ({"type": "burn", "details": {"mint": "A" * 44, "amount": 1}}, "1 AAAA…AAAA"),
        (
            {"type": "token_launch", "details": {"symbol": "BEAN", "supply": 1000}},
            '1,000 ("BEAN", unverified)',
        ),
        (
            {"type": "close_account", "details": {"mint": USDC, "reclaimed": Decimal("0.002")}},
            "0.002 SOL",
        ),
        ({"type": "payment", "details": {"asset": USDC, "amount": Decimal("0.05")}}, "0.05 USDC"),
        ({"type": "payment", "details": {"asset": "SOL", "amount": 1}}, "1 SOL"),
        ({"type": "unstake", "details": {}}, ""),
        ({"type": "other", "details": {"note": "x"}}, ""),
    ],
)
def test_an_amount_has_its_unit(given: dict[str, Any], expected: str) -> None:
    assert amount(record(**given), TOKENS) == expected


def test_a_row_is_flat_text() -> None:
    made = row(record(details={":evil": {"a": 1}, "amount": 1}), "<b>mine</b>", TOKENS)
    assert all(isinstance(value, str) and name.isalpha() for name, value in made.items())
    assert (made["wallet"], made["signature"]) == ("<b>mine</b>", "555555…555555")


PAID = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
ALIKE = "9b5xRRUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6G"


def test_a_recipient_is_called_by_its_name_and_a_look_alike_by_what_it_is() -> None:
    known = AddressBook.from_lists(
        contacts=[KnownAddress(PAID, "Landlord"), KnownAddress(PAID, "@vendors")]
    )
    paid = row(record(details={"to": PAID, "amount": 1}), "w", TOKENS, known)
    assert (paid["to"], paid["alike"]) == ("Landlord", "")
    poisoned = row(record(details={"to": ALIKE, "amount": 1}), "w", TOKENS, known)
    assert poisoned["to"] == "not Landlord, looks like it: 9b5x…Ns6G"
    assert poisoned["alike"] == "yes"
    assert row(record(details={"to": "x" * 44}), "w", TOKENS, known)["to"] == "xxxx…xxxx"
    assert row(record(type="swap", details={}), "w", TOKENS, known)["to"] == ""
    # What a plugin says in its own words pays nobody.
    assert row(record(type="other", details={"to": PAID}), "w", TOKENS, known)["to"] == ""
    # Another one in the middle alone, or with other ends, is not taken for it.
    assert known.find_lookalike(PAID) is None
    assert known.find_lookalike("8" + PAID[1:]) is None


def test_a_fee_is_shown_in_sol_with_its_compute_units() -> None:
    assert row(record(), "w", TOKENS)["fee"] == "0.00001025 SOL"
    assert row(record(fee=None), "w", TOKENS)["fee"] == ""
    assert fee_facts(
        NetworkFee(
            lamports=10_250,
            compute_units=450,
            compute_unit_limit=1_450,
            priority_fee_micro_lamports=3_621_000,
            raw={},
        )
    ) == [
        ("Network fee", "0.00001025 SOL"),
        ("Compute units", "450 of 1,450"),
        ("Priority fee", "3,621,000 micro-lamports per compute unit"),
    ]
    assert fee_facts(
        NetworkFee(
            lamports=5_000,
            compute_units=None,
            compute_unit_limit=None,
            priority_fee_micro_lamports=0,
            raw={},
        )
    ) == [("Network fee", "0.000005 SOL")]


def test_an_address_is_a_filter_and_a_wrong_value_is_named() -> None:
    agent = "b9f18163-42c5-477e-9824-368184e65079"
    given = {
        "wallet": "w1",
        "agent": agent,
        "key": "k1",
        "rule": "max_per_tx",
        "until": "2026-11-21",
    }
    wanted = record_filter(given)
    assert (wanted.wallet_id, wanted.agent_id, wanted.rule) == ("w1", agent, "max_per_tx")
    assert wanted.principal == "key:k1"
    # Until the end of the day.
    assert str(wanted.until).startswith("2026-11-22T00:00:00")
    assert record_filter({}) == TransactionFilter()
    for wrong in ({"status": "<script>"}, {"q": "x" * 10_000}, {"since": "yesterday"}):
        with pytest.raises(InvalidRequest, match=next(iter(wrong))):
            record_filter(wrong)


@pytest.mark.parametrize(
    ("network", "cluster"),
    [("mainnet-beta", ""), ("devnet", "?cluster=devnet"), ("localnet", None)],
)
def test_only_public_networks_have_an_explorer(network: str, cluster: str | None) -> None:
    for kind in ("tx", "address"):
        address = f"https://explorer.solana.com/{kind}/{'5' * 44}{cluster}"
        expected = None if cluster is None else address
        assert explorer_address(kind, "5" * 44, network) == expected


def test_a_name_that_a_token_gives_itself_is_never_taken_for_a_symbol() -> None:
    assert token_text(USDC, "USDC", "anything") == "USDC"
    assert token_text("A" * 44, None, "USDC") == 'AAAA…AAAA ("USDC", unverified)'
    turned = token_text("A" * 44, None, "\N{RIGHT-TO-LEFT OVERRIDE}CDSU\n" + "x" * 99)
    assert turned.startswith("AAAA…AAAA (")
    assert turned.endswith(", unverified)")
    assert len(turned) < 70
    assert turned.isprintable()

"""Refusals, recipients and limits in words."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

from tests.promises import promise

from solward.client import Judged, Trial
from solward.solana.token_list import token_list
from solward_dashboard.leaving import (
    TrialContext,
    effect_texts,
    leaving_texts,
    left_texts,
    number_texts,
    rule_text,
)
from solward_dashboard.wording import People

TOKENS = token_list("localnet")
USDC = TOKENS.resolve("USDC", "mint")
PAPER = "CnfsDnWmh34rN9EM5MLVJB7dLbe1x8VDM3mv2EQq4KZ8"
WRAPPED = "So11111111111111111111111111111111111111112"
SHOP = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
VENDOR = "AWpkmHGPb7QEWkhR4mNwttxQd4LSy4hGACcV195pxcS5"
ACCOUNT = "Fb73vWgaqFqrgQhw8siHhR5txdYdMaMnSQVMfvyES5YV"
BOOK: Any = (
    SimpleNamespace(address=SHOP, name="the old shop"),
    SimpleNamespace(address=VENDOR, name="@vendors"),
)
WALLET: Any = SimpleNamespace(id="w1", name="shop", address=SHOP, created_by="admin")
AGENT: Any = SimpleNamespace(id="a1", name="scout")
PEOPLE = People.from_lists([WALLET], [AGENT], (), BOOK)


def judged(**given: Any) -> Judged:
    raw: dict[str, Any] = {
        "id": "r1",
        "walletId": "w1",
        "principal": "agent:a1",
        "type": "transfer",
        "status": "blocked",
        "details": {"to": SHOP, "amount": Decimal(3)},
        "guardrailsApplied": ["max_per_tx"],
        "timestamp": "2026-11-21T10:00:00.000Z",
        "error": "too much",
        "refusal": {"rule": "max_per_tx", "reason": "too much", "numbers": {}},
    }
    return Judged.of(raw | given)


def test_addresses_have_the_names_that_people_gave_them() -> None:
    assert PEOPLE.receiver(SHOP) == f"wallet shop, {SHOP}"
    assert PEOPLE.receiver(VENDOR) == f"@vendors, {VENDOR}"
    assert PEOPLE.receiver(ACCOUNT) == ACCOUNT
    assert PEOPLE.called("agent:a1") == "agent scout"
    gone = People(deleted={"agent:a2": "<b>old</b>"})
    assert gone.called("agent:a2") == "agent <b>old</b> (deleted)"
    assert PEOPLE.called("key:k9") == "key k9"
    assert PEOPLE.called("admin") == "you (admin)"
    assert PEOPLE.wallet("w1") == "shop"


def test_an_address_that_looks_like_a_known_one_is_told_apart() -> None:
    assert PEOPLE.describe(SHOP) == "wallet shop"
    assert PEOPLE.describe(ACCOUNT) == "not one of your wallets or contacts"
    alike = f"{SHOP[:4]}{'1' * 36}{SHOP[-4:]}"
    assert PEOPLE.describe(alike) == (f"NOT wallet shop: it looks alike, but is not {SHOP}")
    # As approvals and the effects of a dry run say it.
    assert PEOPLE.receiver(alike) == f"NOT wallet shop, it only looks alike, {alike}"


def test_numbers_are_said_in_units() -> None:
    whole = {
        "asked": "0.75", "limit": "10", "left": "0.5", "used": "9.5", "unit": "SOL",
        "window": "24 hours",
    }  # fmt: skip
    assert number_texts(whole, TOKENS) == [
        "Asked 0.75 SOL", "Allowed 10 SOL in 24 hours", "Left 0.5 SOL", "Used 9.5 SOL",
    ]  # fmt: skip
    # The mint is a field of its own: nothing is read out of the words of the unit.
    of_token = {"asked": "3", "limit": "2", "unit": "tokens of a mint", "mint": USDC}
    assert number_texts(of_token, TOKENS) == ["Asked 3 USDC", "Allowed 2 USDC"]
    unknown = of_token | {"mint": PAPER}
    words = "tokens of a mint"
    assert number_texts(unknown, TOKENS) == [f"Asked 3 {words}", f"Allowed 2 {words}"]
    assert number_texts({"limit": "5", "unit": "transactions", "window": "minute"}, TOKENS) == [
        "Allowed 5 transactions in a minute"
    ]
    assert number_texts({}, TOKENS) == []


def test_a_rule_says_what_it_is_about() -> None:
    assert rule_text("max_per_tx") == "max_per_tx: the maximum in one transaction"
    assert rule_text("a_plugins") == "a_plugins"
    assert rule_text("grants") == "grants"


@promise("refusals-shown-with-numbers")
def test_what_could_have_left_is_by_its_bytes_with_the_owner_of_the_account() -> None:
    lines = [
        {"operation": "transfer", "asset": "SOL", "units": "50000000000", "account": VENDOR},
        {
            "operation": "transfer", "asset": USDC, "units": "2500000", "account": ACCOUNT,
            "owner": SHOP, "decimals": 6,
        },
        {"operation": "burn", "asset": PAPER, "units": "7"},
    ]  # fmt: skip
    leaving = {"lines": lines, "costsLamports": "5000"}
    assert leaving_texts(judged(couldLeave=leaving), TOKENS, PEOPLE) == [
        ["50 SOL by transfer", f"to @vendors, {VENDOR}"],
        ["2.5 USDC by transfer", f"to wallet shop, {SHOP}", f"in its token account {ACCOUNT}"],
        [f"7 smallest units of the token {PAPER} by burn"],
        ["0.000005 SOL of fee and rent"],
    ]


def test_without_bytes_it_says_what_was_asked_for() -> None:
    assert leaving_texts(judged(), TOKENS, PEOPLE) == [
        ["3 SOL by transfer", f"to wallet shop, {SHOP}"]
    ]
    swap = {"inputToken": USDC, "outputToken": "SOL", "inputAmount": Decimal("1.5")}
    found = leaving_texts(judged(type="swap", details=swap), TOKENS, PEOPLE)
    assert found == [["1.5 USDC by swap"]]
    assert leaving_texts(judged(type="unwrap_sol", details={}), TOKENS, PEOPLE) == []


LIMITS: dict[str, Any] = {
    "dailySpendingLimitSol": {"limit": 10, "spent": Decimal("1.25"), "reserved": Decimal("0.5")},
    "maxCostsSolPerDay": {"limit": Decimal("0.05"), "spent": 0, "reserved": 0},
    "dailyTokens": {USDC: {"limit": "5000000", "spent": "1000000", "reserved": "0"}},
}


def test_what_is_left_of_limits_is_exact() -> None:
    texts = left_texts(
        LIMITS,
        Decimal("0.000000001"),
        Decimal("0.000005"),
        {USDC: (2_500_000, "USDC", 6), PAPER: (1, "PPR", 0)},
    )
    assert texts == [
        "8.249999999 of 10 SOL in 24 hours",
        "1.5 of 5 USDC in 24 hours",
        "this wallet has no limit for PPR in 24 hours",
        "0.049995 of 0.05 SOL of fees and rent in 24 hours",
    ]


def test_what_goes_beyond_a_limit_says_by_how_much() -> None:
    assert (
        left_texts(LIMITS, Decimal(9), Decimal(0))[0]
        == "0.75 more than the limit of 10 SOL in 24 hours"
    )
    none = LIMITS | {"maxCostsSolPerDay": {"limit": None}}
    assert left_texts(none, Decimal(0), Decimal(0)) == [
        "no limit for SOL of fees and rent in 24 hours"
    ]


def effects(**given: Any) -> dict[str, Any]:
    found = {
        "solOut": Decimal(0), "fee": Decimal("0.000005"), "rent": Decimal(0), "accountsCreated": 0,
        "tokensOut": {}, "tokensIn": {}, "programs": [], "authorityChanges": [],
        "closedAccounts": {},
    }  # fmt: skip
    return found | given


def around(*held: Any) -> TrialContext:
    balance: Any = SimpleNamespace(tokens=held)
    return TrialContext(PEOPLE, TOKENS, LIMITS, balance)


def trial(found: dict[str, Any] | None) -> Trial:
    raw = {"dryRun": True, "allowed": True, "guardrailsApplied": []}
    return Trial.of(raw if found is None else raw | {"effects": found})


def test_effects_say_what_leaves_and_arrives() -> None:
    found = effects(
        tokensOut={USDC: "1500000"},
        tokensIn={WRAPPED: "9970006", PAPER: "250"},
        rent=Decimal("0.00203928"),
        accountsCreated=1,
    )
    token = SimpleNamespace(mint=PAPER, decimals=2)
    assert effect_texts(trial(found), around(token)) == [
        ("Leaves", "1.5 USDC"),
        ("Arrives", "0.009970006 SOL"),
        ("Arrives", f"2.5 of the token {PAPER}"),
        ("Network fee", "0.000005 SOL"),
        ("Rent", "0.00203928 SOL for 1 new account"),
        (
            "Rest of the wallet's limits after the transaction",
            "2.5 of 5 USDC in 24 hours\n0.04795572 of 0.05 SOL of fees and rent in 24 hours",
        ),
    ]


def test_what_is_given_away_and_closed_is_said() -> None:
    found = effects(
        authorityChanges=[{"kind": "mint_authority", "account": PAPER, "to": None}],
        closedAccounts={ACCOUNT: SHOP},
    )
    texts = effect_texts(trial(found), around())
    assert ("Leaves", "nothing but fee and rent") in texts
    assert (f"mint_authority of {PAPER}", "passes to nobody") in texts
    assert (f"Closes {ACCOUNT}", f"its SOL goes to wallet shop, {SHOP}") in texts


def test_what_was_not_simulated_says_so() -> None:
    assert effect_texts(trial(None), around()) == [
        ("Effects", "not known: the network makes this transaction, not the wallet")
    ]

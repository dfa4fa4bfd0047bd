from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.promises import promise

from solward.operations.staking import (
    EPOCHS,
    MAX_COMMISSION_PERCENT,
    MIN_CREDITS_PERCENT,
    choose_validator,
)
from solward.types.errors import InvalidRequest
from solward.types.ledger import VoteAccount

FULL = 6_900_000
NOW = 800
COMPLETE = range(NOW - EPOCHS, NOW)
WALLET = "wallet"


def voter(name: str, **changes: Any) -> VoteAccount:
    """A good validator: 5%, full credits in every epoch, and some in the one that is not over."""
    earned = tuple((epoch, FULL) for epoch in COMPLETE)
    return replace(VoteAccount(name, 100, 5, (*earned, (NOW, 70_000))), **changes)


def earning(name: str, by_epoch: Mapping[int, int], **changes: Any) -> VoteAccount:
    """A validator that earned something else in the epochs named; -1: it is not listed there."""
    earned = dict.fromkeys(COMPLETE, FULL) | {NOW: 70_000} | dict(by_epoch)
    kept = tuple((epoch, count) for epoch, count in earned.items() if count >= 0)
    return voter(name, epoch_credits=kept, **changes)


CROWD = tuple(voter(f"crowd{at}", commission_percent=10) for at in range(20))
WHALE = voter("whale", commission_percent=10, activated_stake=3_000)
"""With more than a third of the stake, so that nobody else is of the superminority."""


def chosen(*accounts: VoteAccount, wallet: str = WALLET) -> str:
    return choose_validator((*accounts, WHALE, *CROWD), wallet).address


def test_the_lower_commission_is_preferred() -> None:
    assert chosen(voter("a", commission_percent=7), voter("b", commission_percent=6)) == "b"


@promise("stake-fields")
def test_a_commission_above_the_ceiling_is_never_chosen_however_good_the_rest() -> None:
    at, above = MAX_COMMISSION_PERCENT, MAX_COMMISSION_PERCENT + 1
    late = earning("late", {NOW - 1: FULL * 95 // 100}, commission_percent=at)
    rest = [voter(f"v{number}", commission_percent=above) for number in range(9)]
    assert choose_validator([*rest, late], WALLET).address == "late"
    with pytest.raises(InvalidRequest, match=r"^validator is required: each .* more than 10%$"):
        choose_validator(rest, WALLET)


@pytest.mark.parametrize("epoch", COMPLETE)
def test_missing_one_of_the_last_epochs_is_never_chosen(epoch: int) -> None:
    assert chosen(earning("gone", {epoch: -1}, commission_percent=0), voter("b")) == "b"
    assert chosen(earning("gone", {epoch: 0}, commission_percent=0), voter("b")) == "b"


@pytest.mark.parametrize("epoch", COMPLETE)
def test_credits_far_below_the_median_in_one_epoch_are_never_chosen(epoch: int) -> None:
    near = FULL * MIN_CREDITS_PERCENT // 100
    assert chosen(earning("slow", {epoch: near - 1}, commission_percent=0), voter("b")) == "b"
    assert chosen(earning("fair", {epoch: near}, commission_percent=0), voter("b")) == "fair"


def test_the_epoch_that_is_not_over_is_not_judged() -> None:
    for early in (-1, 1):
        assert chosen(earning("new", {NOW: early}, commission_percent=0), voter("b")) == "new"


def test_of_equal_commissions_the_better_votes_are_preferred() -> None:
    worse = earning("worse", {NOW - 2: FULL * 97 // 100})
    assert {chosen(worse, voter("b"), wallet=f"w{at}") for at in range(20)} == {"b"}
    # Above the median nothing is gained: else one validator would be everybody's.
    more = earning("more", dict.fromkeys(COMPLETE, FULL * 2))
    assert {chosen(more, voter("b"), wallet=f"w{at}") for at in range(20)} == {"b", "more"}


def test_who_never_votes_does_not_lower_the_median() -> None:
    idle = [
        VoteAccount(f"idle{at}", 0, 0, tuple((epoch, 0) for epoch in (*COMPLETE, NOW)))
        for at in range(60)
    ]
    slow = earning("slow", {NOW - 1: FULL // 2}, commission_percent=0)
    assert chosen(*idle, slow, voter("b")) == "b"


def test_validators_that_hold_a_third_together_are_the_last_choice() -> None:
    # Of 3,300 in all, 700 are less than a third, and 700 and 500 more.
    large = [
        voter(f"l{stake}", commission_percent=0, activated_stake=stake) for stake in (700, 500)
    ]
    assert choose_validator((*large, voter("b"), *CROWD), WALLET).address == "b"
    third = voter("third", commission_percent=0, activated_stake=350)
    found = choose_validator((*large, third, *CROWD), WALLET)
    assert (found.address, "not in the superminority" in found.reason) == ("third", True)
    # Where no other qualifies, one of them is taken, and the reason says so.
    bad = [replace(each, commission_percent=50) for each in CROWD]
    found = choose_validator((*large, *bad), WALLET)
    assert found.address in {"l700", "l500"}
    assert "in the superminority, as none outside it qualifies" in found.reason


def test_a_vote_account_with_almost_no_stake_is_chosen_only_before_the_superminority() -> None:
    for stake in (0, 9):
        bait = voter("bait", commission_percent=0, activated_stake=stake)
        assert chosen(bait, voter("b")) == "b"
    assert chosen(voter("small", commission_percent=0, activated_stake=10), voter("b")) == "small"
    bad = [replace(each, commission_percent=50) for each in CROWD]
    bait = voter("bait", activated_stake=9)
    found = choose_validator((WHALE, bait, *bad), WALLET)
    assert found.address == "bait"
    assert "little stake, as no larger one outside the superminority" in found.reason


def test_equal_validators_share_the_wallets_and_a_wallet_keeps_its_own() -> None:
    equal = [voter(f"v{at}", commission_percent=0) for at in range(10)]
    wallets = [f"wallet{at}" for at in range(400)]
    first = {each: chosen(*equal, wallet=each) for each in wallets}
    shares = Counter(first.values())
    assert set(shares) == {each.address for each in equal}
    assert max(shares.values()) < 80
    # The order of the node's list does not matter, and one that leaves moves its own wallets only.
    assert first == {each: chosen(*reversed(equal), wallet=each) for each in wallets}
    left = {each: chosen(*equal[1:], wallet=each) for each in wallets}
    assert {each for each in wallets if left[each] != first[each]} == {
        each for each in wallets if first[each] == "v0"
    }


def test_the_reason_names_each_ground() -> None:
    late = earning("late", {NOW - 1: FULL * 97 // 100}, commission_percent=4)
    dear = [voter(f"dear{at}", commission_percent=80) for at in range(9)]
    assert choose_validator((late, WHALE, *dear, *CROWD), WALLET).reason == (
        "Default: the first of 22 that qualify among 31 validators; commission 4% (at most 10%);"
        " vote credits of 97% of the median or more in each of the last 4 complete epochs; not in"
        " the superminority"
    )
    equal = [voter(f"v{at}") for at in range(3)]
    reason = choose_validator((*equal, WHALE, *CROWD), WALLET).reason
    assert reason.endswith("; equal to 2 others, over which wallets are spread")


def test_a_network_whose_first_epoch_is_not_over_has_no_votes_to_judge() -> None:
    young = VoteAccount("only", 100, 5, ((0, 12),))
    assert choose_validator([young], WALLET).reason == (
        "Default: the first of 1 that qualify among 1 validator; commission 5% (at most 10%); no"
        " complete epoch to judge votes by; in the superminority, as none outside it qualifies"
    )
    assert choose_validator([replace(young, epoch_credits=())], WALLET).address == "only"


def test_none_that_votes_well_is_a_refusal_that_says_what_was_looked_for() -> None:
    slow = earning("slow", {NOW - 1: 1}, commission_percent=10)
    dear = [voter(f"dear{at}", commission_percent=11) for at in range(9)]
    text = "at most 10% earned 90% of the median's .* in each of the last 4 complete epochs$"
    with pytest.raises(InvalidRequest, match=text):
        choose_validator((slow, *dear), WALLET)
    with pytest.raises(InvalidRequest, match="the network names no validator"):
        choose_validator((), WALLET)

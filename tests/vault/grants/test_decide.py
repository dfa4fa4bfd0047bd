"""What grants let through, what they hold, and which of them pays: one rule at a time."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from msgspec import structs
from tests.promises import promise
from tests.vault.grants.cases import (
    AGENT,
    BONK,
    DAY,
    FEE,
    HOUR,
    KEY,
    MINUTE,
    NOON,
    OTHER_SITE,
    OWN_TOKEN,
    SAVINGS,
    SITE,
    SKILL,
    STRANGER,
    USDC,
    VENDOR,
    WALLET,
    Policy,
    address,
    case,
    charged,
    grant,
    launched,
    limit,
    paid,
    said,
)

from solward.solana.programs import (
    TOKEN_2022_PROGRAM,
    TOKEN_2022_WRAPPED_SOL_MINT,
    TOKEN_PROGRAM,
    WRAPPED_SOL_MINT,
)
from solward.solana.tokens import associated_address
from solward.types.guardrail import COSTS, SOL, Line, Operation
from solward.vault.grants.decide import compile_grants, covers, decide, needed, priced
from solward.vault.grants.dollars import Price, line_dollars
from solward.vault.grants.model import (
    ANY_ASSET,
    RATE,
    USD,
    Case,
    Charge,
    Finding,
    Hours,
    NewRecipient,
    Reason,
    SwapBounds,
    SwapTerms,
    Window,
)

EVERYTHING = (
    paid(1, SOL),
    paid(1),
    paid(1, operation="fund"),
    paid(1, operation="pay"),
    paid(1, to="venue:pool", operation="swap"),
    paid(1, OWN_TOKEN, to=None, operation="burn"),
    paid(1, SOL, to=SAVINGS, operation="stake"),
    paid(1, SOL, to=SAVINGS, operation="wrap"),
    launched(),
)


# A principal under grants may do what they say and nothing else.


@promise("grants-permit-nothing-else")
@pytest.mark.parametrize("line", EVERYTHING, ids=lambda line: f"{line.operation} {line.asset[:4]}")
def test_no_grant_refuses_everything(line: Line) -> None:
    verdict = Policy(empty=[AGENT]).judge(line, launched=frozenset({OWN_TOKEN}))
    assert verdict.is_judged
    assert verdict.refused == Finding(Reason.NO_GRANT, AGENT, line)


@promise("empty-grants-sign-nothing")
def test_no_grant_refuses_a_transaction_that_takes_nothing() -> None:
    assert said(Policy(empty=[AGENT]).judge()) == "no_grant"


@promise("own-wallet-is-funded")
def test_a_grant_to_fund_does_not_let_pay_others() -> None:
    policy = Policy(grant("a", limit(USDC), may="fund"))
    assert said(policy.judge(paid(1, operation="fund"))) == "allowed"
    assert said(policy.judge(paid(1))) == "no_grant"


@promise("pay-is-no-transfer", "transfer-grant-pays-nothing")
@pytest.mark.parametrize("operation", [each for each in Operation if each != Operation.PAY])
def test_a_grant_to_pay_lets_nothing_else_and_no_other_lets_pay(operation: Operation) -> None:
    line = paid(1, SOL, operation="pay")
    other = replace(line, operation=operation)
    pays = Policy(grant("a", limit(SOL), may="pay"))
    assert said(pays.judge(line)) == "allowed"
    assert said(pays.judge(other)) == "no_grant"
    sends = Policy(grant("a", limit(SOL), may=operation))
    assert said(sends.judge(other)) == "allowed"
    assert said(sends.judge(line)) == "no_grant"
    assert said(sends.judge(line, other)) == "no_grant"


# Sites.


def through(*sites: str, units: int = 1, **more: Any) -> Case:
    """A payment by the agent for a request to a site."""
    return case(paid(units, operation="pay"), chain=(WALLET, AGENT, *sites), **more)


@promise("via-pays-its-sites-only")
def test_a_grant_with_sites_pays_for_requests_to_them_alone() -> None:
    policy = Policy(grant("a", limit(USDC), may="pay", via=(OTHER_SITE, SITE)))
    assert said(policy.decide(through(SITE))) == "allowed"
    assert said(policy.decide(through(OTHER_SITE))) == "allowed"
    for sites in ((), ("site:b.example",), ("site:a.example:8443",), ("skill:a.example",)):
        refused = policy.decide(through(*sites)).refused
        assert refused is not None
        assert (refused.why, refused.number) == (Reason.VIA, 1)
        assert refused.detail == "127.0.0.1:4021 or a.example"


@promise("via-pays-its-sites-only")
def test_what_is_paid_for_no_request_is_not_charged_to_a_grant_with_sites() -> None:
    policy = Policy(grant("a", limit(SOL), may="pay", via=(SITE,)))
    assert said(policy.judge()) == "via"
    assert said(policy.judge(chain=(WALLET, AGENT, SITE))) == "allowed"


def test_a_refusal_names_some_of_many_sites() -> None:
    many = tuple(f"site:s{number}.example" for number in range(10, 15))
    for count, detail in (
        (1, "s10.example"),
        (4, "s10.example, s11.example, s12.example or s13.example"),
        (5, "s10.example, s11.example, s12.example or 2 others"),
    ):
        policy = Policy(grant("a", limit(USDC), may="pay", via=many[:count]))
        refused = policy.decide(through(SITE)).refused
        assert refused is not None
        assert refused.detail == detail


@promise("sites-share-one-grant")
def test_one_grant_of_two_sites_has_one_budget_and_two_grants_have_two() -> None:
    one = Policy(grant("a", limit(USDC, (DAY, 5)), may="pay", via=(OTHER_SITE, SITE)))
    one.reserve(one.decide(through(SITE, units=3)).charges)
    assert said(one.decide(through(OTHER_SITE, units=3))) == "window"
    assert said(one.decide(through(OTHER_SITE, units=2))) == "allowed"
    two = Policy(
        grant("a", limit(USDC, (DAY, 5)), may="pay", via=(SITE,)),
        grant("b", limit(USDC, (DAY, 5)), may="pay", via=(OTHER_SITE,)),
    )
    two.reserve(two.decide(through(SITE, units=5)).charges)
    assert said(two.decide(through(SITE, units=1))) == "window"
    assert charged(two.decide(through(OTHER_SITE, units=5))) == {"b"}


@promise("site-grants-bind-everyone")
def test_a_site_under_grants_is_paid_what_they_say_whoever_pays() -> None:
    policy = Policy(
        grant("site", limit(USDC, (DAY, 5)), may="pay", who=SITE),
        grant("agent", limit(USDC), may="pay", who=AGENT),
        grant("key", limit(USDC), may="pay", who=KEY),
        empty=[OTHER_SITE],
    )
    line = paid(2, operation="pay")
    for who in (AGENT, KEY):
        assert said(policy.spend(line, chain=(WALLET, who, SITE))) == "allowed"
    assert said(policy.judge(line, chain=(WALLET, AGENT, SITE))) == "window"
    assert said(policy.judge(line, chain=(WALLET, SITE), is_admins=True)) == "window"
    assert said(policy.judge(line, chain=(WALLET, AGENT, OTHER_SITE))) == "no_grant"
    assert said(policy.judge(line, chain=(WALLET, AGENT, "site:b.example"))) == "allowed"


@promise("sites-share-one-grant")
def test_a_new_grant_starts_with_what_was_paid_for_requests_to_its_sites() -> None:
    of_site = grant("a", limit(USDC), may="pay", via=(SITE,))
    line = paid(9, operation="pay")
    assert covers(of_site, line, through(SITE))
    assert not covers(of_site, line, through(OTHER_SITE))
    # Wider, it covers what its sites were not paid too: taking `via` away gives nothing back.
    assert covers(structs.replace(of_site, via=()), line, through(OTHER_SITE))


def test_the_sums_of_grants_for_other_sites_are_not_needed() -> None:
    policy = Policy(grant("a", limit(USDC), limit(ANY_ASSET), may="pay", via=(SITE,)))
    assert not needed(policy.sets, through(OTHER_SITE))
    assert needed(policy.sets, through(SITE))
    bonk = replace(through(OTHER_SITE), lines=(paid(1, BONK, operation="pay"),))
    assert not priced(policy.sets, bonk)
    assert priced(policy.sets, replace(bonk, chain=(WALLET, AGENT, SITE))) == {0}


@promise("pay-is-no-transfer")
@pytest.mark.parametrize(
    ("to", "whom", "expected"),
    [
        (("own",), SAVINGS, "allowed"),
        (("own",), VENDOR, "recipient"),
        (("@vendors",), VENDOR, "allowed"),
        (("@vendors",), STRANGER, "recipient"),
        ((STRANGER,), STRANGER, "allowed"),
    ],
)
def test_a_seller_is_a_recipient_and_an_own_wallet_that_sells_is_paid(
    to: tuple[str, ...], whom: str, expected: str
) -> None:
    policy = Policy(grant("a", limit(USDC), may="pay", to=to))
    own = frozenset({SAVINGS})
    assert said(policy.judge(paid(1, to=whom, operation="pay"), own=own)) == expected


def test_a_seller_that_was_never_paid_is_new() -> None:
    line = paid(1, operation="pay")
    for new, expected in ((NewRecipient.HOLD, "held"), (NewRecipient.REFUSE, "new_recipient")):
        policy = Policy(grant("a", limit(USDC), may="pay", new=new))
        assert said(policy.judge(line)) == expected
        assert said(policy.judge(line, paid=frozenset({VENDOR}))) == "allowed"


@promise("star-is-unnamed-assets")
def test_a_grant_for_every_asset_leaves_out_those_it_names() -> None:
    policy = Policy(grant("a", limit(USDC, (DAY, 5)), limit(ANY_ASSET, (DAY, 10**6))))
    assert said(policy.judge(paid(6), dollars=(1,))) == "window"
    verdict = policy.judge(paid(6, BONK), dollars=(1,))
    assert Charge(f"grant:{AGENT}#a", USD, 1) in verdict.charges


def test_a_grant_of_one_wallet_is_for_no_other() -> None:
    verdict = Policy(grant("a", limit(USDC), wallet="pocket")).judge(paid(1))
    assert verdict.refused == Finding(Reason.WALLET, AGENT, paid(1), 1, detail="pocket")
    assert said(Policy(grant("a", limit(USDC), wallet="w")).judge(paid(1))) == "allowed"


# Several grants, several principals.


@promise("first-fitting-grant-charged")
def test_any_grant_with_room_allows_and_the_first_is_charged() -> None:
    policy = Policy(grant("a", limit(USDC, (DAY, 5))), grant("b", limit(USDC, (DAY, 9))))
    assert charged(policy.spend(paid(4))) == {"a"}
    assert charged(policy.spend(paid(4))) == {"b"}
    assert charged(policy.spend(paid(1))) == {"a"}
    assert charged(policy.spend(paid(5))) == {"b"}
    assert said(policy.spend(paid(1))) == "window"


@promise("first-fitting-grant-charged")
def test_a_grant_that_fits_comes_before_one_that_asks_whatever_the_order() -> None:
    asks, fits = grant("a", limit(USDC, hold=0)), grant("b", limit(USDC))
    for grants in ((asks, fits), (fits, asks)):
        verdict = Policy(*grants).judge(paid(1))
        assert said(verdict) == "allowed"
        assert charged(verdict) == {"b"}
    assert said(Policy(asks).judge(paid(1))) == "held"


def test_of_grants_that_ask_the_first_written_is_charged() -> None:
    first, second = grant("a", limit(USDC, hold=0)), grant("b", limit(USDC, hold=1))
    assert charged(Policy(first, second).judge(paid(2))) == {"a"}
    assert charged(Policy(second, first).judge(paid(2))) == {"b"}


@promise("every-principal-must-allow")
@pytest.mark.parametrize("tight", range(4))
def test_every_principal_binds(tight: int) -> None:
    chain = (WALLET, KEY, SKILL, "plugin:acme")
    grants = [
        grant(f"g{at}", limit(USDC, (DAY, 5 if at == tight else 9)), who=who)
        for at, who in enumerate(chain)
    ]
    policy = Policy(*grants)
    fits = policy.judge(paid(5), chain=chain)
    assert charged(fits) == {"g0", "g1", "g2", "g3"}
    verdict = policy.judge(paid(6), chain=chain)
    assert verdict.refused is not None
    assert (verdict.refused.who, verdict.refused.why) == (chain[tight], Reason.WINDOW)


@promise("refusal-beats-hold")
def test_a_refusal_of_one_principal_beats_what_another_would_hold() -> None:
    policy = Policy(grant("a", limit(USDC, hold=0), who=WALLET), empty=[AGENT])
    assert said(policy.judge(paid(1))) == "no_grant"


def test_of_two_that_refuse_the_first_of_the_chain_is_told() -> None:
    refused = Policy(empty=[WALLET, AGENT]).judge(paid(1)).refused
    assert refused is not None
    assert refused.who == WALLET


def test_all_that_would_be_asked_is_asked_at_once() -> None:
    policy = Policy(
        grant("a", limit(USDC, hold=3), who=WALLET),
        grant("b", limit(USDC, hold=4), new=NewRecipient.HOLD),
    )
    verdict = policy.judge(paid(5))
    assert [(each.who, each.why) for each in verdict.held] == [
        (WALLET, Reason.ABOVE_HOLD), (AGENT, Reason.NEW_RECIPIENT), (AGENT, Reason.ABOVE_HOLD),
    ]  # fmt: skip
    assert (verdict.held[0].limit, verdict.held[0].requested) == (3, 5)


# Amounts.


@promise("exact-limit-passes")
def test_the_exact_limit_passes_and_one_unit_more_does_not() -> None:
    policy = Policy(grant("a", limit(USDC, (HOUR, 8), (DAY, 20), per_tx=5)))
    assert said(policy.judge(paid(5))) == "allowed"
    assert said(policy.judge(paid(6))) == "per_tx"
    policy.spend(paid(5))
    assert said(policy.judge(paid(4))) == "window"
    assert said(policy.spend(paid(3))) == "allowed"
    assert said(policy.judge(paid(1))) == "window"


@promise("exact-limit-passes")
def test_a_window_counts_what_is_younger_than_its_length() -> None:
    policy = Policy(grant("a", limit(USDC, (HOUR, 8))))
    policy.spend(paid(8))
    assert said(policy.judge(paid(1), now_ms=(NOON + HOUR - 1,))) == "window"
    assert said(policy.judge(paid(8), now_ms=(NOON + HOUR,))) == "allowed"


@promise("takings-add-up-per-grant")
def test_lines_of_one_transaction_add_up_in_a_grant() -> None:
    policy = Policy(grant("a", limit(USDC, (DAY, 8), per_tx=5, hold=3)))
    assert said(policy.judge(paid(3), paid(3, to=STRANGER))) == "per_tx"
    verdict = policy.judge(paid(3), paid(1, to=STRANGER))
    assert [(each.why, each.limit, each.requested) for each in verdict.held] == [
        (Reason.ABOVE_HOLD, 3, 4)
    ]
    assert Charge(f"grant:{AGENT}#a", USDC, 4) in verdict.charges
    assert said(policy.judge(paid(2), paid(1, to=STRANGER))) == "allowed"
    policy.reserve([Charge(f"grant:{AGENT}#a", USDC, 5)])
    assert said(policy.judge(paid(2), paid(2))) == "window"


SOMEWHERE = paid(1, account=address(40))
DERIVED = paid(1, owner=None)


@pytest.mark.parametrize(
    ("fits", "other", "expected"),
    [
        (paid(1), replace(paid(1), operation=Operation.BURN), "no_grant"),
        (paid(1), replace(paid(1), asset=BONK), "no_grant"),
        (DERIVED, replace(DERIVED, account=STRANGER), "recipient"),
        (SOMEWHERE, replace(SOMEWHERE, owner=STRANGER), "recipient"),
        (paid(1), replace(paid(1), decimals=7), "decimals"),
        (DERIVED, replace(DERIVED, program=TOKEN_2022_PROGRAM), "recipient"),
    ],
    ids=["operation", "asset", "account", "owner", "decimals", "program"],
)
def test_each_line_of_a_transaction_is_looked_at(fits: Line, other: Line, expected: str) -> None:
    policy = Policy(grant("a", limit(USDC), to=(VENDOR,)))
    assert said(policy.judge(fits, fits)) == "allowed"
    for lines in ((fits, other), (other, fits), (fits, other, fits)):
        refused = policy.judge(*lines).refused
        assert refused is not None
        assert (refused.why, refused.line) == (expected, other)


def test_a_line_without_a_price_is_refused_beside_one_that_has_one() -> None:
    policy = Policy(grant("a", limit(ANY_ASSET)))
    assert said(policy.judge(paid(1), paid(1), dollars=(1, "no price"))) == "price"
    assert said(policy.judge(paid(1), paid(1), dollars=("no price", 1))) == "price"


@promise("takings-add-up-per-grant")
def test_a_line_is_never_split_over_grants() -> None:
    policy = Policy(grant("a", limit(USDC, (DAY, 5))), grant("b", limit(USDC, (DAY, 5))))
    assert said(policy.judge(paid(6))) == "window"
    assert charged(policy.judge(paid(3), paid(3))) == {"a", "b"}


@promise("parts-shared-over-grants")
def test_lines_are_shared_out_so_that_all_of_them_fit() -> None:
    # The first grant has room for either line, the second for the stranger's alone.
    wide, narrow = grant("a", limit(USDC, (DAY, 5))), grant("b", limit(USDC), to=(STRANGER,))
    lines = paid(3, to=STRANGER), paid(4)
    assert charged(Policy(wide, narrow).judge(*lines)) == {"a", "b"}
    assert said(Policy(wide).judge(*lines)) == "window"


@promise("parts-shared-over-grants")
def test_lines_are_shared_out_so_that_nobody_is_asked_where_that_is_possible() -> None:
    # In written order the stranger's line would take the only room that the vendor's has unasked.
    first, second = (
        grant("a", limit(USDC, (DAY, 9), hold=3)),
        grant("b", limit(USDC), to=(STRANGER,)),
    )
    verdict = Policy(first, second).judge(paid(3, to=STRANGER), paid(3))
    assert said(verdict) == "allowed"
    assert [each.scope for each in verdict.charges if each.asset == USDC] == [
        second.scope, first.scope,
    ]  # fmt: skip


def test_where_a_person_is_asked_for_one_line_the_others_go_where_nobody_asks() -> None:
    asks, fits = grant("a", limit(USDC, hold=0)), grant("b", limit(USDC), to=(STRANGER,))
    verdict = Policy(asks, fits).judge(paid(1, to=STRANGER), paid(1))
    assert [each.line for each in verdict.held] == [paid(1)]
    assert charged(replace(verdict, held=())) == {"a", "b"}


@promise("parts-shared-over-grants")
def test_many_ways_to_share_out_lines_end_in_a_refusal_in_time() -> None:
    # 13 lines of 1 over 12 grants with room for 1 each: no way of 12! leads anywhere.
    grants = [grant(f"g{at}", limit(USDC, (DAY, 1))) for at in range(12)]
    verdict = Policy(*grants).judge(*[paid(1) for _ in range(13)])
    assert said(verdict) == "window"
    assert said(Policy(*grants).judge(*[paid(1) for _ in range(12)])) == "allowed"


@promise("exact-limit-passes")
def test_inflow_restores_nothing() -> None:
    policy = Policy(grant("a", limit(USDC, (DAY, 5))))
    policy.spend(paid(5))
    # A transaction that brings units in has no line and leaves the sum as it is.
    assert said(policy.spend()) == "allowed"
    assert said(policy.judge(paid(1))) == "window"


@promise("other-decimals-refused")
@pytest.mark.parametrize("decimals", [0, 5, 7, None])
def test_an_asset_of_other_decimals_than_the_grants_is_refused(decimals: int | None) -> None:
    verdict = Policy(grant("a", limit(USDC))).judge(paid(1, decimals=decimals))
    line = paid(1, decimals=decimals)
    assert verdict.refused == Finding(Reason.DECIMALS, AGENT, line, 1, limit=6, requested=decimals)


# Waiting for a person.


@promise("admin-is-never-held")
@pytest.mark.parametrize("is_by", ["is_admins", "is_approved"])
def test_the_admin_and_an_approval_pass_a_hold_and_no_limit(is_by: str) -> None:
    policy = Policy(grant("a", limit(USDC, (DAY, 5), hold=0), new=NewRecipient.HOLD, who=WALLET))
    verdict = policy.judge(paid(5), chain=(WALLET,), **{is_by: True})
    assert said(verdict) == "allowed"
    assert Charge(f"grant:{WALLET}#a", USDC, 5) in verdict.charges
    assert said(policy.judge(paid(6), chain=(WALLET,), **{is_by: True})) == "window"
    assert said(policy.judge(paid(1, BONK), chain=(WALLET,), **{is_by: True})) == "no_grant"


# Recipients.


@promise("transfer-counts-recipient")
@pytest.mark.parametrize(
    ("to", "line", "expected"),
    [
        (("any",), paid(1, to=STRANGER), "allowed"),
        (("@vendors",), paid(1), "allowed"),
        (("@vendors",), paid(1, SOL), "allowed"),
        (("@vendors",), paid(1, to=STRANGER), "recipient"),
        (("@nobody",), paid(1), "recipient"),
        ((VENDOR,), paid(1), "allowed"),
        # The owner is not stated, and the account follows from owner and mint.
        ((VENDOR,), paid(1, owner=None), "allowed"),
        ((STRANGER, "@vendors"), paid(1, owner=None), "allowed"),
        ((VENDOR,), paid(1, owner=None, account=STRANGER), "recipient"),
        # The vendor's account for another mint, or of the other token program.
        ((VENDOR,), paid(1, owner=None, account=paid(1, BONK).account), "recipient"),
        ((VENDOR,), paid(1, owner=None, program=TOKEN_2022_PROGRAM), "recipient"),
        # A token account by its own address.
        ((STRANGER,), paid(1, owner=None, account=STRANGER), "allowed"),
        (("own",), paid(1, to=SAVINGS), "allowed"),
        (("own",), paid(1, to=SAVINGS, owner=None), "allowed"),
        (("own",), paid(1), "recipient"),
        (("own", VENDOR), paid(1), "allowed"),
    ],
)
def test_a_grant_is_for_its_recipients(to: tuple[str, ...], line: Line, expected: str) -> None:
    policy = Policy(grant("a", limit(USDC), limit(SOL), to=to))
    assert said(policy.judge(line, own=frozenset({SAVINGS}))) == expected


@pytest.mark.parametrize(
    ("mint", "program"),
    [
        (WRAPPED_SOL_MINT, TOKEN_PROGRAM),
        (TOKEN_2022_WRAPPED_SOL_MINT, TOKEN_2022_PROGRAM),
    ],
)
def test_wrapped_sol_goes_to_the_recipients_account_of_its_mint(mint: str, program: str) -> None:
    account = associated_address(VENDOR, mint, program)
    line = Line(Operation.TRANSFER, SOL, 5, account, decimals=9, program=program)
    policy = Policy(grant("a", limit(SOL), to=(VENDOR,)))
    assert said(policy.judge(line)) == "allowed"
    assert said(policy.judge(replace(line, account=STRANGER))) == "recipient"


@promise("burn-counts-the-asset")
@pytest.mark.parametrize("line", EVERYTHING[5:], ids=lambda line: line.operation)
def test_what_goes_to_nobody_has_no_recipient_to_name(line: Line) -> None:
    policy = Policy(
        grant(
            "a", limit(SOL), limit(OWN_TOKEN), may="burn stake wrap launch", to=("@vendors",),
            new=NewRecipient.REFUSE,
        )
    )  # fmt: skip
    assert said(policy.judge(line)) == "allowed"


@promise("swap-counts-what-is-sold")
def test_a_swap_goes_to_its_venue() -> None:
    line = paid(1, to="venue:pool", operation="swap")
    some = grant("a", limit(USDC), may="swap", to=("@vendors", "own"))
    assert said(Policy(some).judge(line)) == "recipient"
    anybody = grant("a", limit(USDC), may="swap", new=NewRecipient.REFUSE)
    assert said(Policy(anybody).judge(line)) == "allowed"


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (NewRecipient.ALLOW, "allowed"),
        (NewRecipient.HOLD, "held"),
        (NewRecipient.REFUSE, "new_recipient"),
    ],
)
@pytest.mark.parametrize(
    "line", [paid(1), paid(1, SOL), paid(1, operation="fund"), paid(1, owner=None)]
)
def test_somebody_never_paid_is_new(new: NewRecipient, expected: str, line: Line) -> None:
    policy = Policy(grant("a", limit(USDC), limit(SOL), new=new))
    assert said(policy.judge(line)) == expected
    before = frozenset({line.owner or line.account or ""})
    assert said(policy.judge(line, paid=before)) == "allowed"
    assert said(policy.judge(line, paid=frozenset({STRANGER}))) == expected


@promise("lookalike-recipient-is-new")
def test_one_who_looks_like_somebody_paid_is_new_and_shown() -> None:
    alike = "".join((VENDOR[:4], STRANGER[4:-4], VENDOR[-4:]))
    line = paid(1, SOL, to=alike)
    asks = Policy(grant("a", limit(SOL), new=NewRecipient.HOLD))
    verdict = asks.judge(line, paid=frozenset({VENDOR}), lookalikes={alike: VENDOR})
    assert verdict.held == (Finding(Reason.NEW_RECIPIENT, AGENT, line, 1, detail=VENDOR),)
    refuses = Policy(grant("a", limit(SOL), new=NewRecipient.REFUSE))
    refused = refuses.judge(line, paid=frozenset({VENDOR}), lookalikes={alike: VENDOR})
    assert refused.refused == Finding(Reason.NEW_RECIPIENT, AGENT, line, 1, detail=VENDOR)


# Times.


@pytest.mark.parametrize(
    ("hours", "minute", "expected"),
    [
        (Hours(7 * 60, 22 * 60), 7 * 60, True),
        (Hours(7 * 60, 22 * 60), 7 * 60 - 1, False),
        (Hours(7 * 60, 22 * 60), 22 * 60 - 1, True),
        (Hours(7 * 60, 22 * 60), 22 * 60, False),
        (Hours(22 * 60, 6 * 60), 22 * 60, True),
        (Hours(22 * 60, 6 * 60), 0, True),
        (Hours(22 * 60, 6 * 60), 6 * 60 - 1, True),
        (Hours(22 * 60, 6 * 60), 6 * 60, False),
        (Hours(22 * 60, 6 * 60), 22 * 60 - 1, False),
        (Hours(0, 1_440), 1_439, True),
    ],
)
def test_hours_may_pass_midnight_and_end_before_their_end(
    hours: Hours, minute: int, expected: bool
) -> None:
    policy = Policy(grant("a", limit(USDC), hours=hours))
    start = 20_000 * DAY + minute * MINUTE
    for now in (start, start + MINUTE - 1):
        assert said(policy.judge(paid(1), now_ms=(now,))) == ("allowed" if expected else "hours")


@promise("hours-by-database-clock")
def test_hours_and_the_end_hold_by_every_clock() -> None:
    within, outside = NOON, NOON + 12 * HOUR
    day = Policy(grant("a", limit(USDC), hours=Hours(7 * 60, 22 * 60)))
    ends = Policy(grant("a", limit(USDC), until_ms=outside))
    for clocks in ((within, outside), (outside, within)):
        verdict = day.judge(paid(1), now_ms=clocks)
        assert verdict.refused == Finding(Reason.HOURS, AGENT, paid(1), 1, detail="07:00-22:00 UTC")
        assert said(ends.judge(paid(1), now_ms=clocks)) == "ended"
    assert said(day.judge(paid(1), now_ms=(within, within))) == "allowed"


def test_a_grant_ends_at_its_end() -> None:
    policy = Policy(grant("a", limit(USDC), until_ms=NOON))
    assert said(policy.judge(paid(1), now_ms=(NOON - 1,))) == "allowed"
    verdict = policy.judge(paid(1), now_ms=(NOON,))
    assert verdict.refused == Finding(
        Reason.ENDED, AGENT, paid(1), 1, detail="2024-10-04T12:00:00Z"
    )


# Dollars.


@promise("dollars-round-up")
def test_dollars_are_rounded_up_line_by_line_so_that_dust_counts() -> None:
    prices = {BONK: Price(Fraction(1, 10**6), 5, NOON)}
    policy = Policy(grant("a", limit(ANY_ASSET, (DAY, 10), per_tx=4)))
    # One unit of BONK is worth 0.00001 micro-dollars.
    dust = [paid(1, BONK), paid(1, BONK, to=STRANGER)]
    verdict = policy.spend(*dust, dollars=line_dollars(dust, prices))
    assert Charge(f"grant:{AGENT}#a", USD, 2) in verdict.charges
    for _ in range(8):
        assert said(policy.spend(dust[0], dollars=line_dollars(dust[:1], prices))) == "allowed"
    assert said(policy.spend(dust[0], dollars=line_dollars(dust[:1], prices))) == "window"


@promise("dollars-round-up")
def test_without_a_price_of_now_an_asset_in_dollars_is_refused() -> None:
    policy = Policy(grant("a", limit(ANY_ASSET)), grant("b", limit(USDC), may="burn"))
    verdict = policy.judge(paid(1), dollars=("the price is 61 s old; its maximum age is 60 s",))
    assert verdict.refused is not None
    assert verdict.refused.why == Reason.PRICE
    assert verdict.refused.detail == "the price is 61 s old; its maximum age is 60 s"
    assert said(policy.judge(paid(1))) == "price"
    # Where another grant names the asset no price is needed.
    named = Policy(grant("a", limit(ANY_ASSET)), grant("b", limit(USDC)))
    assert charged(named.judge(paid(1), dollars=("no price",))) == {"b"}


def test_dollars_have_their_own_most_at_once_and_amount_to_ask_for() -> None:
    policy = Policy(grant("a", limit(ANY_ASSET, (DAY, 9), per_tx=5, hold=3)))
    assert said(policy.judge(paid(10**9), dollars=(3,))) == "allowed"
    assert said(policy.judge(paid(1), dollars=(4,))) == "held"
    verdict = policy.judge(paid(1), dollars=(6,))
    assert verdict.refused == Finding(
        Reason.PER_TX, AGENT, paid(1), 1, limit=5, requested=6, decimals=6, counted_as=USD
    )


def test_only_lines_that_a_grant_counts_in_dollars_are_priced() -> None:
    policy = Policy(
        grant("a", limit(ANY_ASSET), limit(USDC), to=(VENDOR,)), grant("k", limit(BONK), who=KEY)
    )
    lines = paid(1), paid(1, BONK), paid(1, SOL), paid(1, BONK, to=STRANGER), launched()
    assert priced(policy.sets, case(*lines)) == {1, 2}
    assert not priced(policy.sets, case(*lines, chain=(WALLET, KEY)))


# Swaps.

SWAPPED = paid(5, to="venue:pool", operation="swap")


@pytest.mark.parametrize(
    ("bounds", "terms", "expected"),
    [
        (SwapBounds(), SwapTerms(1_000, 500, BONK), "allowed"),
        (SwapBounds(), SwapTerms(None, None, None), "allowed"),
        (SwapBounds(slippage_bps=100), SwapTerms(100, 500, BONK), "allowed"),
        (SwapBounds(slippage_bps=100), SwapTerms(101, 0, BONK), "slippage"),
        (SwapBounds(slippage_bps=100), SwapTerms(None, 0, BONK), "slippage"),
        (SwapBounds(impact_bps=200), SwapTerms(1_000, 200, BONK), "allowed"),
        (SwapBounds(impact_bps=200), SwapTerms(0, 201, BONK), "impact"),
        (SwapBounds(impact_bps=200), SwapTerms(0, None, BONK), "impact"),
        (SwapBounds(into=frozenset({SOL})), SwapTerms(0, 0, SOL), "allowed"),
        (SwapBounds(into=frozenset({SOL})), SwapTerms(0, 0, BONK), "into"),
        (SwapBounds(into=frozenset({SOL})), SwapTerms(0, 0, None), "into"),
        (SwapBounds(into=frozenset({SOL})), None, "into"),
        (SwapBounds(impact_bps=200), None, "impact"),
    ],
)
def test_a_swap_keeps_the_grants_bounds(
    bounds: SwapBounds, terms: SwapTerms | None, expected: str
) -> None:
    policy = Policy(grant("a", limit(USDC), may="swap transfer", swap=bounds))
    assert said(policy.judge(SWAPPED, swap=terms)) == expected
    assert said(policy.judge(paid(5), swap=terms)) == "allowed"


def test_a_refused_swap_says_the_bound_and_what_was_asked() -> None:
    bounds = SwapBounds(slippage_bps=100, impact_bps=200, into=frozenset({SOL}))
    policy = Policy(grant("a", limit(USDC), may="swap", swap=bounds))
    found = Finding(Reason.SLIPPAGE, AGENT, SWAPPED, 1, limit=100, requested=300)
    assert policy.judge(SWAPPED, swap=SwapTerms(300, 0, SOL)).refused == found
    found = Finding(Reason.IMPACT, AGENT, SWAPPED, 1, limit=200, requested=None)
    assert policy.judge(SWAPPED, swap=SwapTerms(0, None, SOL)).refused == found
    found = Finding(Reason.INTO, AGENT, SWAPPED, 1, detail=BONK)
    assert policy.judge(SWAPPED, swap=SwapTerms(0, 0, BONK)).refused == found


# Costs and rates.


@promise("first-grant-bears-fees")
def test_fee_and_rent_are_charged_to_the_grant_of_the_first_line() -> None:
    policy = Policy(grant("a", limit(SOL)), grant("b", limit(USDC)))
    verdict = policy.judge(paid(1), paid(2, SOL), costs_lamports=7_000)
    assert set(verdict.charges) == {
        Charge(f"grant:{AGENT}#b", USDC, 1),
        Charge(f"grant:{AGENT}#b", COSTS, 7_000),
        # The slot in its rate.
        Charge(f"grant:{AGENT}#b", SOL, 0),
        Charge(f"grant:{AGENT}#a", SOL, 2),
    }


def test_costs_have_room_for_a_day() -> None:
    policy = Policy(grant("a", limit(USDC), costs_lamports=2 * FEE))
    assert said(policy.spend(paid(1))) == "allowed"
    assert said(policy.judge(paid(1), costs_lamports=FEE + 1)) == "costs"
    assert said(policy.spend(paid(1))) == "allowed"
    verdict = policy.judge(paid(1), now_ms=(NOON + DAY - 1,))
    assert verdict.refused == Finding(
        Reason.COSTS, AGENT, None, 1, 2 * FEE, 2 * FEE, FEE, 9, DAY, counted_as=COSTS
    )
    assert said(policy.judge(paid(1), now_ms=(NOON + DAY,))) == "allowed"


def test_a_grant_without_costs_is_for_transactions_that_cost_nothing() -> None:
    free, usual = grant("a", limit(USDC), costs_lamports=0), grant("b", limit(SOL))
    policy = Policy(free, usual)
    assert said(policy.judge(paid(1), costs_lamports=0)) == "allowed"
    assert said(policy.judge(paid(1), costs_lamports=1)) == "costs"
    # Also where the costs are charged elsewhere.
    assert said(policy.judge(paid(1, SOL), paid(1), costs_lamports=1)) == "costs"
    assert said(policy.judge(paid(1, SOL), paid(1), costs_lamports=0)) == "allowed"
    # A grant that pays no costs needs no room for them.
    little = Policy(grant("a", limit(USDC), costs_lamports=1), usual)
    assert said(little.judge(paid(1, SOL), paid(1), costs_lamports=9)) == "allowed"
    assert said(little.judge(paid(1), paid(1, SOL), costs_lamports=9)) == "costs"


@promise("transfer-counts-recipient", "payment-counts-as-pay", "commanded-stake-is-transfer")
@pytest.mark.parametrize(
    ("line", "asset"),
    [
        (paid(7, OWN_TOKEN, to=None, operation="burn"), OWN_TOKEN),
        (paid(7, SOL, to=SAVINGS, operation="stake"), SOL),
        (paid(7, SOL, to=SAVINGS, operation="wrap"), SOL),
        (paid(7, SOL, program=TOKEN_PROGRAM), SOL),
        (paid(7, to="venue:pool", operation="swap"), USDC),
        (paid(7, operation="fund"), USDC),
        (paid(7, operation="pay"), USDC),
    ],
    ids=["burn", "stake", "wrap", "wrapped SOL sent", "swap", "fund", "pay"],
)
def test_whatever_leaves_counts_its_units(line: Line, asset: str) -> None:
    policy = Policy(
        grant(
            "a", limit(SOL), limit(USDC), limit(OWN_TOKEN), may="transfer burn stake wrap swap pay"
        )
    )
    verdict = policy.judge(line)
    assert set(verdict.charges) == {
        Charge(f"grant:{AGENT}#a", asset, 7),
        Charge(f"grant:{AGENT}#a", COSTS, FEE),
        *([] if asset == SOL else [Charge(f"grant:{AGENT}#a", SOL, 0)]),
    }


@promise("launch-takes-costs-only")
def test_a_launch_takes_nothing_and_has_costs_and_a_slot() -> None:
    policy = Policy(grant("a", may="launch", rates=(Window(HOUR, 1),)))
    verdict = policy.spend(launched(), costs_lamports=1_461_600)
    assert set(verdict.charges) == {
        Charge(f"grant:{AGENT}#a", SOL, 0),
        Charge(f"grant:{AGENT}#a", COSTS, 1_461_600),
    }
    assert said(policy.judge(launched())) == "rate"


@promise("no-takings-still-costs")
def test_a_transaction_without_lines_has_costs_and_a_slot_of_the_first_grant() -> None:
    policy = Policy(
        grant("other", limit(SOL), wallet="pocket"),
        grant("ended", limit(SOL), until_ms=NOON),
        grant("night", limit(SOL), hours=Hours(0, 60)),
        grant("approver", may="", approves=True),
        grant("a", limit(SOL), costs_lamports=FEE),
        grant("b", limit(SOL), rates=(Window(MINUTE, 1),)),
    )
    verdict = policy.spend()
    assert set(verdict.charges) == {
        Charge(f"grant:{AGENT}#a", SOL, 0),
        Charge(f"grant:{AGENT}#a", COSTS, FEE),
    }
    assert charged(policy.spend()) == {"b"}
    assert said(policy.judge()) == "costs"


def test_a_key_that_may_only_approve_signs_nothing() -> None:
    approver = grant("a", may="", approves=True, who=KEY)
    assert said(Policy(approver).judge(chain=(WALLET, KEY))) == "no_grant"


def test_a_rate_counts_transactions_not_lines() -> None:
    policy = Policy(grant("a", limit(USDC), limit(SOL), rates=(Window(MINUTE, 2),)))
    assert said(policy.spend(paid(1), paid(1, SOL), paid(2))) == "allowed"
    assert said(policy.spend(paid(1), now_ms=(NOON + 1,))) == "allowed"
    verdict = policy.judge(paid(1), now_ms=(NOON + 2,))
    assert verdict.refused == Finding(
        Reason.RATE, AGENT, None, 1, 2, 2, 1, 0, MINUTE, counted_as=RATE
    )
    assert said(policy.judge(paid(1), now_ms=(NOON + MINUTE,))) == "allowed"


# What a refusal says.


def test_a_refusal_says_what_is_left_of_the_window_that_lasts() -> None:
    policy = Policy(grant("a", limit(USDC, (HOUR, 8), (DAY, 20))))
    policy.reserve([Charge(f"grant:{AGENT}#a", USDC, 12)], NOON - 2 * HOUR)
    policy.reserve([Charge(f"grant:{AGENT}#a", USDC, 7)])
    verdict = policy.judge(paid(2))
    assert verdict.refused == Finding(
        Reason.WINDOW, AGENT, paid(2), 1, 20, 19, 2, 6, DAY, counted_as=USDC
    )
    policy.rows.clear()
    policy.reserve([Charge(f"grant:{AGENT}#a", USDC, 7)])
    verdict = policy.judge(paid(2))
    assert verdict.refused == Finding(
        Reason.WINDOW, AGENT, paid(2), 1, 8, 7, 2, 6, HOUR, counted_as=USDC
    )


def test_a_refusal_names_the_grant_that_came_nearest_and_of_equals_the_first() -> None:
    elsewhere = grant("a", limit(USDC), wallet="pocket")
    others = grant("b", limit(USDC), to=(STRANGER,))
    small = grant("c", limit(USDC, per_tx=2))
    smaller = grant("d", limit(USDC, per_tx=1))
    verdict = Policy(elsewhere, others, small, smaller).judge(paid(3))
    assert verdict.refused == Finding(
        Reason.PER_TX, AGENT, paid(3), 3, limit=2, requested=3, decimals=6, counted_as=USDC
    )
    refused = Policy(elsewhere, others).judge(paid(3)).refused
    assert refused is not None
    assert (refused.why, refused.number) == (Reason.RECIPIENT, 2)
    refused = Policy(elsewhere, structs.replace(elsewhere, id="other")).judge(paid(3)).refused
    assert refused is not None
    assert (refused.why, refused.number) == (Reason.WALLET, 1)


def test_a_refusal_is_of_the_line_that_does_not_fit() -> None:
    policy = Policy(grant("a", limit(USDC, (DAY, 5))))
    refused = policy.judge(paid(1), paid(2, BONK)).refused
    assert refused == Finding(Reason.NO_GRANT, AGENT, paid(2, BONK))
    refused = policy.judge(paid(3), paid(4)).refused
    assert refused == Finding(Reason.WINDOW, AGENT, paid(4), 1, 5, 0, 7, 6, DAY, counted_as=USDC)
    # Of the ways to share out lines the one that came furthest, and of its grants the nearest.
    two = Policy(grant("a", limit(USDC, (DAY, 5))), grant("b", limit(USDC, per_tx=5)))
    refused = two.judge(paid(3), paid(4), paid(2)).refused
    assert refused is None
    refused = two.judge(paid(3), paid(4), paid(4, to=STRANGER)).refused
    line = paid(4, to=STRANGER)
    assert refused == Finding(Reason.WINDOW, AGENT, line, 1, 5, 0, 7, 6, DAY, counted_as=USDC)


# Without grants.


@promise("ungranted-sends-no-token")
@pytest.mark.parametrize("who", [AGENT, KEY])
@pytest.mark.parametrize(
    ("line", "expected", "judged"),
    [
        (paid(1, SOL), "allowed", False),
        (paid(1, SOL, operation="fund"), "allowed", False),
        (paid(1, SOL, operation="pay"), "allowed", False),
        (paid(1, operation="pay"), "default", True),
        (paid(1, SOL, operation="stake"), "allowed", False),
        (paid(1, SOL, operation="wrap"), "allowed", False),
        (launched(), "allowed", False),
        (paid(1), "default", True),
        (paid(1, operation="fund"), "default", True),
        (SWAPPED, "allowed", True),
        (paid(1, OWN_TOKEN, to=None, operation="burn"), "allowed", True),
        (paid(1, USDC, to=None, operation="burn"), "default", True),
        (paid(1, OWN_TOKEN), "default", True),
    ],
)
def test_agents_and_keys_without_grants_spend_sol_and_swap_and_send_no_token(
    who: str, line: Line, expected: str, judged: bool
) -> None:
    verdict = Policy().judge(line, chain=(WALLET, who), launched=frozenset({OWN_TOKEN}))
    assert (said(verdict), verdict.is_judged) == (expected, judged)
    assert not verdict.charges
    if verdict.refused is not None:
        assert verdict.refused == Finding(Reason.DEFAULT, who, line)


@promise("wallet-grants-bind-admin")
@pytest.mark.parametrize("via", [(), (SKILL,), ("plugin:acme",), (SITE,)])
def test_the_admin_a_skill_a_plugin_and_a_site_without_grants_are_free(
    via: tuple[str, ...],
) -> None:
    for line in EVERYTHING:
        verdict = Policy().judge(line, chain=(WALLET, *via), is_admins=True)
        assert (said(verdict), verdict.is_judged) == ("allowed", False)


@promise("ungranted-buys-listed-only")
@pytest.mark.parametrize(
    ("into", "expected"), [(SOL, "allowed"), (USDC, "allowed"), (BONK, "into"), (None, "into")]
)
@pytest.mark.parametrize("sold", [SOL, OWN_TOKEN])
def test_where_tokens_are_listed_a_swap_without_grants_buys_listed_ones(
    sold: str, into: str | None, expected: str
) -> None:
    line = paid(1, sold, to="venue:pool", operation="swap")
    terms: dict[str, Any] = {"swap": SwapTerms(0, 0, into)}
    verdict = Policy().judge(line, **terms, listed=frozenset({USDC}))
    assert (said(verdict), verdict.is_judged) == (expected, True)
    assert said(Policy().judge(line, **terms)) == "allowed"
    granted = Policy(grant("a", limit(sold), may="swap"))
    assert said(granted.judge(line, **terms, listed=frozenset({USDC}))) == "allowed"


# Splitting, as an attacker would.


def test_splitting_over_transactions_recipients_grants_wallets_and_keys_gains_nothing() -> None:
    policy = Policy(
        grant("a", limit(USDC, (DAY, 20)), to=(VENDOR, STRANGER)),
        grant("b", limit(USDC, (DAY, 10)), to=(STRANGER,)),
        grant("c", limit(USDC, (DAY, 40)), who=KEY),
        grant("w", limit(USDC, (DAY, 55)), who=WALLET),
    )
    out = {AGENT: 0, KEY: 0}
    for units in (7, 3, 1):
        for _ in range(40):
            for who, to in ((AGENT, VENDOR), (AGENT, STRANGER), (KEY, STRANGER)):
                for wallet in (WALLET, "wallet:other"):
                    lines = paid(units, to=to), paid(units, to=STRANGER)
                    verdict = policy.spend(*lines, chain=(wallet, who))
                    if said(verdict) == "allowed":
                        out[who] += 2 * units
    assert out == {AGENT: 30, KEY: 40}


# What a store asks.


def test_the_sums_that_are_needed_are_those_of_grants_that_match() -> None:
    policy = Policy(
        grant("a", limit(USDC, (HOUR, 8), (DAY, 20)), rates=(Window(MINUTE, 5),)),
        grant("dollars", limit(ANY_ASSET, (HOUR, 3))),
        grant("other wallet", limit(USDC), wallet="pocket"),
        grant("other recipient", limit(USDC), to=(STRANGER,)),
        grant("other asset", limit(BONK)),
        grant("ended", limit(USDC), until_ms=1),
        grant("night", limit(USDC), hours=Hours(0, 60)),
        grant("other decimals", limit(USDC, decimals=9)),
        grant("known", limit(USDC), new=NewRecipient.REFUSE),
    )
    judged = case(paid(2), paid(3), dollars=(2, 3))
    assert needed(policy.sets, judged) == {
        (f"grant:{AGENT}#a", USDC, HOUR),
        (f"grant:{AGENT}#a", USDC, DAY),
        (f"grant:{AGENT}#a", RATE, MINUTE),
        (f"grant:{AGENT}#a", COSTS, DAY),
        (f"grant:{AGENT}#dollars", USD, HOUR),
        (f"grant:{AGENT}#dollars", COSTS, DAY),
    }
    assert not needed(policy.sets, replace(judged, chain=(WALLET, KEY)))


def test_a_sum_that_was_not_fetched_is_an_error_and_not_zero() -> None:
    sets = {AGENT: compile_grants([grant("a", limit(USDC))])}
    with pytest.raises(KeyError):
        decide(sets, case(paid(1)), {})


def test_a_new_grant_starts_with_what_it_covers_whatever_amount_and_time() -> None:
    tight = grant(
        "a", limit(USDC, (DAY, 1), per_tx=1), to=(VENDOR,), until_ms=1, hours=Hours(0, 1),
        new=NewRecipient.REFUSE, wallet="w",
    )  # fmt: skip
    moved = case(paid(9))
    assert covers(tight, paid(9), moved)
    assert covers(tight, paid(9, operation="fund"), moved)
    assert not covers(tight, paid(9, to=STRANGER), moved)
    assert not covers(tight, paid(9, BONK), moved)
    assert not covers(tight, paid(9, to=None, operation="burn"), moved)
    assert not covers(structs.replace(tight, wallet="pocket"), paid(9), moved)
    assert covers(grant("b", limit(ANY_ASSET)), paid(9, BONK), moved)
    assert covers(grant("b", may="launch"), launched(), moved)


def test_one_hundred_grants_of_others_are_not_looked_at() -> None:
    asked = grant("asked", limit(USDC))
    many = [grant(f"g{at}", *(limit_of(at, n) for n in range(3))) for at in range(99)]
    found = compile_grants([*many, asked]).candidates(paid(1))
    assert [each.grant.id for each in found] == ["asked"]
    assert found[0].number == 100


def limit_of(at: int, n: int) -> Any:
    return limit(address(20 + (at + n) % 200), decimals=0)

"""What an approval covers: each line at most as shown, to the same, with the same decimals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.promises import promise
from tests.support.database import hold_row

from solward.types.guardrail import Intent, Line, Operation
from solward.types.record import Hold
from solward.vault.money.judge.granting import Question
from solward.vault.money.request import Actor, AgentRun, IdempotencyKey
from solward.vault.money.reserve import hold_reservation

MINT, PAYEE, OTHER = "mint", "payee", "other"
SENT = Line(Operation.TRANSFER, MINT, 500, "account", PAYEE, 6, "program")
SOL = Line(Operation.TRANSFER, "SOL", 1_000, PAYEE, None, 9)
STAKED = Line(Operation.STAKE, "SOL", 1_000, "stake", None, 9)
INTENT = Intent("token_transfer", "wallet", tokens_in={"bought": 90})
COSTS = 7_000
KEY = Actor("key:k1")


def hold(*lines: Line, repeats: bool = False) -> Hold:
    return replace(
        hold_row("w", 0).hold,
        type=INTENT.type,
        lines=hold_reservation.lines_to_json(hold_reservation.with_decimals(lines, {MINT: 6})),
        costs_lamports=COSTS,
        arrives={"bought": 90},
        repeats=repeats,
    )


def change(
    shown: Hold, *lines: Line, intent: Intent = INTENT, costs: int = COSTS, decimals: int = 6
) -> str | None:
    seen = hold_reservation.with_decimals(lines, {MINT: decimals})
    now = hold_reservation.HoldTerms(seen, costs, 0, intent.tokens_in)
    return hold_reservation.excess_over(shown, intent, now)


def test_what_was_shown_and_less_is_covered() -> None:
    assert change(hold(SENT, SOL), SENT, SOL) is None
    assert change(hold(SENT, SOL), replace(SENT, units=499)) is None
    assert change(hold(SENT), SENT, costs=COSTS - 1) is None
    # Two lines of one kind add up, in whatever order.
    half = replace(SENT, units=250)
    assert change(hold(SENT), half, half) is None
    # A new stake account each time, which the bytes prove to be the wallet's.
    assert change(hold(STAKED), replace(STAKED, account="another")) is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (replace(SENT, units=501), "0.000501 mint would leave by transfer to payee now"),
        (replace(SENT, account="elsewhere", owner=OTHER), "to other now, and 0 mint was shown"),
        # The account was the payee's; now it is not proved to be.
        (replace(SENT, account="another", owner=None), "to another now"),
        (replace(SENT, asset="like it"), "like it would leave"),
        (replace(SENT, operation=Operation.BURN), "by burn now"),
        (replace(SENT, decimals=9), "mint has 9 decimals now, not 6"),
        (STAKED, "by stake now"),
    ],
)
def test_anything_else_is_not(line: Line, said: str) -> None:
    assert said in (change(hold(SENT), line) or "")


@promise("approval-runs-it-again")
@pytest.mark.parametrize(
    ("type_", "name"),
    [
        ("stake", "validator"),
        ("unstake", "stakeAccount"),
        ("revoke_authority", "authorityType"),
        ("mint_supply", "amount"),
        ("token_launch", "symbol"),
        ("close_account", "account"),
    ],
)
def test_what_its_lines_do_not_say_is_as_it_was_shown(type_: str, name: str) -> None:
    shown = replace(hold(), type=type_, arrives={}, details={name: "A"})
    same = Intent(type_, "wallet", details={name: "A"})
    assert change(shown, intent=same) is None
    other = replace(same, details={name: "B"})
    assert change(shown, intent=other) == f"{name} is B now, and A was shown"


def test_halves_that_are_more_together_are_not() -> None:
    half = replace(SENT, units=251)
    assert "0.000502 mint" in (change(hold(SENT), half, half) or "")


def test_decimals_that_a_node_says_are_compared_where_the_bytes_state_none() -> None:
    unstated = replace(SENT, decimals=None)
    assert change(hold(unstated), unstated) is None
    assert "9 decimals now, not 6" in (change(hold(unstated), unstated, decimals=9) or "")


def test_costs_types_and_minima_are_compared() -> None:
    assert "fee and rent" in (change(hold(SENT), SENT, costs=COSTS + 1) or "")
    assert change(hold(SENT), SENT, intent=replace(INTENT, type="burn")) == "its type is burn now"
    fewer = replace(INTENT, tokens_in={"bought": 89})
    assert "at least 89 units of bought" in (change(hold(SENT), SENT, intent=fewer) or "")
    assert change(hold(SENT), SENT, intent=replace(INTENT, tokens_in={"bought": 91})) is None


def test_a_launch_of_another_mint_needs_the_request_to_say_which() -> None:
    made, other = (Line(Operation.LAUNCH, mint, 0) for mint in ("made", "other"))
    assert change(hold(made), other) is None
    assert change(hold(made, repeats=True), other) is not None


def digest(actor: Actor = KEY, intent: Intent = INTENT, *lines: Line) -> str:
    return hold_reservation.digest_of(Question("w", actor, intent), lines or (SENT,))


def test_a_digest_is_of_intent_lines_chain_and_the_callers_key() -> None:
    key = IdempotencyKey("key:k1|POST|/x|1", "f")
    run = replace(KEY, run=AgentRun("a", 1, 1), action_key="a:1:pay")
    others = [
        digest(replace(KEY, principal="key:k2")),
        digest(replace(KEY, via=("skill:pay",))),
        digest(replace(KEY, idempotency=key)),
        digest(replace(KEY, idempotency=replace(key, scope="2"))),
        digest(replace(KEY, action_key="http:1")),
        digest(KEY, replace(INTENT, lamports_out=1)),
        digest(KEY, replace(INTENT, type="other")),
        digest(KEY, INTENT, replace(SENT, units=501)),
        digest(KEY, INTENT, replace(SENT, owner=None, account=OTHER)),
        digest(KEY, INTENT, SENT, SOL),
        digest(replace(KEY, recipe=lambda: {"operation": "transfer", "params": {}})),
    ]
    assert len({digest(), *others}) == len(others) + 1
    # An agent's next cycle asks for the same, and a quote's minimum is another each time.
    assert digest(run) == digest(replace(run, action_key="a:2:pay")) == digest()
    assert digest(KEY, replace(INTENT, tokens_in={"bought": 80})) == digest()

"""What a changed policy would have done to the last days, in words, and the form of a grant."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from solward.resources.declare import answer_example
from solward.resources.grant_form import GrantForm, form_values
from solward.resources.policy import Replay, ReplayedChange
from solward_dashboard.pages.grant_form import change_text, changed_text


def replay(changed: int, change: dict[str, Any] | None = None, **counts: int) -> Replay:
    given = {"type": "token_transfer", "then": "allowed", "now": "refused", "sentence": ""}
    whole = answer_example(Replay) | {"days": 30, "judged": 1_041, "changed": changed}
    one = answer_example(ReplayedChange) | given | (change or {})
    counted = {"omitted": 0, "unread": 0} | counts
    return Replay.of(whole | counted | {"changes": [one] * min(changed, 4)})


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (replay(0), "Of the 1,041 transactions in the last 30 days, none would have ended"
         " differently."),
        (replay(0, judged=0), "In the last 30 days there was no transaction."),
        (replay(4), "Of the 1,041 transactions in the last 30 days, 4 would have been refused."),
        (replay(9), "Of the 1,041 transactions in the last 30 days, 9 would have ended"
         " differently."),
        (replay(2, {"now": "held"}, omitted=3_000, unread=1), "Of the newest 1,041 transactions in"
         " the last 30 days, 2 would have waited for a person. 3,000 older ones were not judged."
         " 1 cannot be read."),
    ],
)  # fmt: skip
def test_how_many_would_have_ended_differently_is_said(found: Replay, says: str) -> None:
    assert changed_text(found) == says


def test_a_change_is_said_with_why() -> None:
    why = "Key ci has no grant to transfer USDC."
    (one,) = replay(1, {"sentence": why}).changes
    assert change_text(one) == f"A token transfer was allowed, and would be refused: {why}"
    (one,) = replay(1, {"then": "refused", "now": "allowed"}).changes
    assert change_text(one) == "A token transfer was refused, and would be allowed"


def test_a_grant_fills_in_the_form_only_if_the_form_can_say_all_of_it() -> None:
    limit = {"per": {"24h": "5"}, "perTx": "3", "hold": "2"}
    grant = {"who": "agent:a", "may": ["transfer"], "assets": {"USDC": limit}, "to": ["any"]}
    values = form_values([grant])
    assert values is not None
    assert (values.pop("who"), values["to"]) == ("agent:a", [])
    assert GrantForm(
        agent="a", **{name: each for name, each in values.items() if each}
    ).sentence == (
        'agent "a" may transfer up to 5 USDC a day and 3 USDC at once; ask me above 2 USDC'
    )
    for more in (
        {"costs": "1"}, {"new": "hold"}, {"rate": {"1h": 1}}, {"wallet": "w"},
        {"assets": {"USDC": limit, "SOL": limit}}, {"assets": {"USDC": limit | {"x": 1}}},
        {"assets": {"USDC": limit | {"per": {"1h": "1", "24h": "2"}}}},
        {"assets": {"USDC": limit | {"per": {"2h": "1"}}}}, {"assets": {"*": {"usd": limit}}},
    ):  # fmt: skip
        assert form_values([grant | more]) is None
    assert form_values([grant, grant]) is None


def test_names_of_others_cannot_change_a_sentence() -> None:
    form = GrantForm(agent='a" may swap up to 9 SOL a day; "', asset="SOL", max="1", to=['b", "c'])
    assert form.sentence == (
        r'agent "a\" may swap up to 9 SOL a day; \"" may transfer up to 1 SOL a day, to "b\", \"c"'
    )
    # 0 is no missing limit.
    assert (
        "ask me above 0 SOL"
        in GrantForm(key="k", asset="SOL", max="1", ask_above=Decimal(0)).sentence
    )
    assert GrantForm(agent="a", asset="SOL").sentence == ""
    assert GrantForm(agent="a", key="b", asset="SOL", max="1").sentence == ""

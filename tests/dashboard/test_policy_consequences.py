"""What a changed policy would have said of the last days, in words."""

from __future__ import annotations

from typing import Any

from solward.resources.declare import answer_example
from solward.resources.policy import Replay, ReplayedChange
from solward_dashboard.pages.policy import consequence_texts


def replay(changed: int, **change: Any) -> Replay:
    given = {"type": "token_transfer", "then": "allowed", "now": "refused", "sentence": ""}
    whole = answer_example(Replay) | {"days": 7, "judged": 1_041, "changed": changed}
    one = answer_example(ReplayedChange) | given | change
    return Replay.of(whole | {"changes": [one] * changed})


def test_nothing_would_have_changed() -> None:
    assert consequence_texts(replay(0)) == [
        "Of 1,041 transactions in the last 7 days, none would have ended differently."
    ]


def test_what_would_have_changed_is_said_with_why_and_bounded() -> None:
    why = "Key ci has no grant to transfer USDC."
    first, *rest = consequence_texts(replay(9, sentence=why))
    assert first == "Of 1,041 transactions in the last 7 days, 9 would have ended differently."
    assert rest == [f"A token transfer was allowed, and would be refused: {why}"] * 3


def test_a_change_without_a_sentence_says_what_it_knows() -> None:
    (_, text) = consequence_texts(replay(1, then="refused", now="allowed", sentence=""))
    assert text == "A token transfer was refused, and would be allowed"

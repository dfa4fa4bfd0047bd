"""What is stored of a judged transaction is what was judged."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from solward.types.guardrail import Line, Operation
from solward.vault.grants.dollars import NoPrice, Price
from solward.vault.grants.judged import JudgedCase, from_row, to_row
from solward.vault.grants.model import Case, SwapTerms

words = st.text(max_size=6)
units = st.integers(0, 2**64 - 1)
addresses = st.frozensets(words, max_size=3)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


lines = st.builds(
    Line,
    operation=st.sampled_from(Operation),
    asset=words,
    units=units,
    account=maybe(words),
    owner=maybe(words),
    decimals=maybe(st.integers(0, 255)),
    program=maybe(words),
)
bps = maybe(st.integers(0, 10_000))
cases = st.builds(
    Case,
    wallet_id=words,
    chain=st.lists(words, max_size=4).map(tuple),
    lines=st.lists(lines, max_size=3).map(tuple),
    costs_lamports=st.integers(0, 2**62),
    now_ms=st.tuples(st.integers(0, 2**45), st.integers(0, 2**45)),
    swap=maybe(st.builds(SwapTerms, bps, bps, maybe(words))),
    is_admins=st.booleans(),
    is_approved=st.booleans(),
    own=addresses,
    paid=addresses,
    lookalikes=st.dictionaries(words, words, max_size=3),
    launched=addresses,
    listed=maybe(addresses),
)
prices = st.builds(Price, st.fractions(0, 10**9), st.integers(0, 255), st.integers(0, 2**45))


@given(
    st.builds(
        JudgedCase,
        transaction_id=words,
        type=words,
        case=cases,
        outcome=words,
        said=st.sampled_from([None, "allowed", "held", "refused"]),
        version=st.integers(0, 2**40),
        prices=st.dictionaries(words, prices | st.builds(NoPrice, words), max_size=3),
        used=st.dictionaries(st.tuples(words, words, st.integers(1, 2**40)), units, max_size=3),
    )
)
def test_a_stored_case_is_the_same_case(judged: JudgedCase) -> None:
    row = to_row(judged)
    assert from_row(row) == judged
    assert row["created_ms"] == judged.case.now_ms[0]


def test_a_list_that_lists_nothing_lets_nothing_be_bought() -> None:
    case = Case("w", ("wallet:w",), (), 0, (1, 1), listed=frozenset())
    judged = JudgedCase("t", "swap", case, "allowed", 3, {"SOL": Price(Fraction(1, 3), 9, 5)})
    assert from_row(to_row(judged)).case.listed == frozenset()

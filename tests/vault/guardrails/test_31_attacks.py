"""The 31 attacks of the reliability reference, each with the tests that mount it.

`ATTACKS` of `attacks.py` are named by number and mounted at top level in
`test_every_rule_is_needed.py`, three ways in `test_attacks_are_refused.py` (behind a lookup table,
inside an allowed router, by bytes or traces alone) and among harmless instructions in
`test_generated_attacks.py`. What has tests of its own beside or instead of that stands in `TESTS`.

| # | attack | where |
|---|---|---|
| 1 | many small transfers | `ATTACKS` |
| 2 | seeds, CreateAccount, WithdrawNonce | `ATTACKS` |
| 3 | Assign of the wallet | `ATTACKS`; a plugin in `tests/e2e/hostile` |
| 4 | Allocate, prefund of the wallet | `ATTACKS` |
| 5 | blocked recipient in a lookup table | `TESTS` |
| 6 | tables that mix writable and readonly | `TESTS`; the table program itself: `ATTACKS` 21 |
| 7 | a router that calls a transfer | every one of `ATTACKS`, inside a router |
| 8 | a program that is not decoded | `ATTACKS` 09 |
| 9 | simulation detected | every one of `ATTACKS` that runs, by its bytes alone |
| 10 | unit price | `TESTS`; mixed: `HIDDEN` |
| 11 | version 1 priority fee | `TESTS` |
| 12 | tips | `ATTACKS` |
| 13 | Approve | `ATTACKS`; a plugin in `tests/e2e/hostile` |
| 14 | SetAuthority | `ATTACKS` |
| 15 | closing to a third party | `ATTACKS`; a plugin in `tests/e2e/hostile` |
| 16 | batches, WithdrawExcessLamports | `ATTACKS` |
| 17 | hostile Token-2022 extensions | `ATTACKS`; at each signing: accounts are read anew then |
| 18 | tokens with no SOL moved | `ATTACKS`, `TESTS` |
| 19 | accounts for strangers | `ATTACKS`, `TESTS` |
| 20 | AdvanceNonce | `ATTACKS` |
| 21 | authorise, split, close | `ATTACKS` |
| 22 | a second managed wallet signs along | `TESTS`: by the judge; the engine lends no signature |
| 23 | blocked key in instruction data | `TESTS` |
| 24 | token account of a blocked owner | `TESTS` |
| 25 | inflow masks outflow | `ATTACKS` |
| 26 | split and parallel requests, midnight | `TESTS` |
| 27 | malformed bytes | `TESTS` |
| 28 | a message that is a transaction | cannot be mounted: `CANNOT` |
| 29 | bytes that do not match the quote | `TESTS` |
| 30 | a ledger that lies | `TESTS` |
| 31 | a multisig's member | `ATTACKS`; any other missing signature: `TESTS` |
"""

from __future__ import annotations

import re

import pytest
from tests.promises import promise
from tests.support.repository import TESTS as FOLDER
from tests.vault.guardrails.attacks import ATTACKS

import solward
from solward.context import SkillContext
from solward.vault.custody import Signer

NAMED = {int(attack.name[:2]) for attack in ATTACKS if attack.name[:2].isdecimal()}

# Mounted with every one of `ATTACKS`.
EVERY = {
    7: "vault/guardrails/test_attacks_are_refused.py::test_inside_another_program",
    8: "vault/guardrails/test_attacks_are_refused.py::test_as_the_engine_judges_it",
    9: "vault/guardrails/test_attacks_are_refused.py::"
    "test_by_its_bytes_alone_where_the_simulation_shows_no_change",
}

TESTS = {
    5: ["vault/guardrails/test_attacks_are_refused.py::"
        "test_05_a_blocked_recipient_is_found_behind_a_lookup_table"],
    6: ["solana/test_message_decoding.py::test_06_tables_resolve_in_runtime_order",
        "solana/test_message_decoding.py::test_a_table_that_cannot_be_trusted_is_refused"],
    10: ["vault/guardrails/test_attacks_are_refused.py::"
         "test_10_a_unit_price_is_capped"],
    11: ["vault/guardrails/test_attacks_are_refused.py::"
         "test_11_a_version_1_priority_fee_is_capped"],
    18: ["server/test_token_limits.py::"
         "test_the_swap_beyond_the_day_is_refused_and_told_what_is_left"],
    19: ["vault/guardrails/test_attacks_are_refused.py::"
         "test_19_a_single_account_for_a_stranger_is_refused_too"],
    22: ["vault/guardrails/test_attacks_are_refused.py::"
         "test_22_a_second_managed_wallet_may_not_sign_along",
         "vault/money/test_dry_run.py::"
         "test_what_cannot_be_a_transaction_is_bad_input_here_too"],
    23: ["vault/guardrails/test_attacks_are_refused.py::"
         "test_23_a_blocked_key_in_instruction_data_is_found"],
    24: ["vault/guardrails/test_attacks_are_refused.py::"
         "test_24_a_token_account_of_a_blocked_owner_is_found"],
    26: ["e2e/money/test_limit_race.py::test_one_wallet_spends_its_day_exactly",
         "e2e/money/test_limit_race.py::test_one_key_over_ten_wallets_spends_its_day_exactly",
         "server/test_token_limits.py::test_20_swaps_at_once_take_the_day_and_no_unit_more",
         "vault/money/test_rolling_limits.py::"
         "test_26_midnight_gives_nothing_back_and_24_hours_do",
         "vault/money/test_rolling_limits.py::test_26_a_minute_slides_too"],
    27: ["solana/test_message_decoding.py::test_truncated_and_trailing_bytes_are_refused",
         "solana/test_message_decoding.py::"
         "test_bad_indexes_headers_and_duplicates_are_refused",
         "solana/test_message_decoding.py::test_mutated_bytes_are_read_exactly_or_refused"],
    29: ["vault/guardrails/test_attacks_are_refused.py::"
         "test_29_less_than_the_minimum_out_is_refused",
         "operations/test_swap.py::"
         "test_a_quote_for_something_else_fails_before_any_bytes_are_asked_for",
         "operations/test_pocket_swap.py::"
         "test_an_instruction_that_wants_more_than_the_pocket_is_refused"],
    30: ["vault/guardrails/test_attacks_are_refused.py::"
         "test_30_a_ledger_that_hides_inner_instructions_is_not_believed",
         "vault/guardrails/test_attacks_are_refused.py::"
         "test_30_a_writable_account_that_is_not_shown_is_refused",
         "vault/money/test_lying_ledger.py::"
         "test_30_an_answer_that_cannot_be_is_no_ground_to_sign",
         "vault/money/test_lying_ledger.py::"
         "test_30_another_cluster_than_the_configured_one_is_refused"],
    31: ["operations/test_pocket_swap.py::"
         "test_an_instruction_that_wants_more_than_the_pocket_is_refused"],
}  # fmt: skip

CANNOT = {
    28: "nothing signs a message: a signer is held by the engine alone, which gives it the bytes "
    "it has judged, and no route, skill or plugin can ask for a signature over bytes of its own",
}


def defined(file: str) -> set[str]:
    return set(re.findall(r"^(?:async )?def (\w+)", (FOLDER / file).read_text(), re.MULTILINE))


def test_each_of_the_31_is_mounted_or_has_its_reason() -> None:
    assert NAMED | EVERY.keys() | TESTS.keys() | CANNOT.keys() == set(range(1, 32))
    assert not CANNOT.keys() & (NAMED | TESTS.keys())


@pytest.mark.parametrize("number", [*EVERY, *TESTS])
def test_the_tests_that_are_named_are_there(number: int) -> None:
    for name in TESTS.get(number, [EVERY.get(number, "")]):
        file, _, test = name.partition("::")
        assert test in defined(file), name


def test_the_table_above_has_each_number_once_and_says_where() -> None:
    rows = re.findall(r"^\| (\d+) \| .+ \| (.+) \|$", __doc__ or "", re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 32))
    for number, where in rows:
        assert ("`ATTACKS`" in where) == (int(number) in NAMED | EVERY.keys() | {6}), number
        assert ("`TESTS`" in where) == (int(number) in TESTS), number
        assert ("`CANNOT`" in where) == (int(number) in CANNOT), number


@promise("no-signature-on-chosen-bytes")
def test_28_nothing_offers_to_sign_a_message() -> None:
    offered = {name for name in dir(SkillContext) if not name.startswith("__")}
    # It tells a signature from other text, and makes none.
    offered |= {*solward.__all__} - {"is_signature"}
    assert not [name for name in offered if "sign" in name.lower()]
    # One method, which the engine calls with the bytes it has judged.
    assert {name for name in vars(Signer) if not name.startswith("_")} == {"address", "sign"}

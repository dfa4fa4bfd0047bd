"""What grants and approvals promise, in thirty lines, and the tests that show or attack each.

21 to 30 are attacks; each is also mounted against running processes.

| # | promise |
|---|---|
| 1 | without a grant everything is refused |
| 2 | any grant with room allows, and the first written is charged |
| 3 | the order of grants changes no verdict of one line |
| 4 | every principal of the chain must allow |
| 5 | a grant taken away never allows more |
| 6 | no window is ever exceeded, by the ledger, whatever the times |
| 7 | the exact limit passes, one unit more does not |
| 8 | a window's edge is exact |
| 9 | what never landed is given back, what is not known is kept |
| 10 | fee, rent, burn, stake, wrap and swap count as stated |
| 11 | what comes in restores nothing |
| 12 | dollars are rounded up; an old or missing price refuses |
| 13 | hours may pass midnight |
| 14 | a sentence and its grant are the same |
| 15 | a refusal says what is left |
| 16 | without grants the contract's clients go on as before |
| 17 | a replay of the policy in force changes nothing |
| 18 | held twice is one hold |
| 19 | an approval is for what was shown |
| 20 | counters survive a restart |
| 21 | fifty requests at once, two processes |
| 22 | splitting gains nothing |
| 23 | amounts and names are read exactly |
| 24 | dust counts |
| 25 | a clock that is set empties no window |
| 26 | a key that may nothing gets nothing by a rich agent |
| 27 | what changes after the simulation changes no count |
| 28 | rent is farmed up to the costs that are granted |
| 29 | nobody approves what he asked for, and an approval is used once |
| 30 | funding, returning, wrapping and delegating launder no counter |
"""

from __future__ import annotations

import re

import pytest
from tests.support.repository import TESTS as FOLDER
from tests.vault.guardrails.test_31_attacks import defined

_DECIDE = "vault/grants/test_decide.py"
_PROPERTY = "vault/grants/test_decide_property.py"
_ENGINE = "vault/money/test_grants_engine.py"
_ATTACKS = "vault/money/test_grants_attacks.py"
_APPROVALS = "operations/test_approvals.py"
# Each attack again, against running processes.
_PROCESSES = "e2e/money/test_ten_attacks_processes.py"

PROMISES: dict[int, dict[str, tuple[str, ...]]] = {
    1: {
        _DECIDE: ("test_no_grant_refuses_everything",),
        _ENGINE: ("test_a_principal_with_an_empty_set_moves_nothing_and_pays_no_fee",),
    },
    2: {_DECIDE: ("test_any_grant_with_room_allows_and_the_first_is_charged",)},
    3: {_PROPERTY: ("test_grants_are_a_bound_that_more_grants_and_their_order_keep",)},
    4: {
        _DECIDE: ("test_every_principal_binds",),
        _ENGINE: ("test_every_principal_of_the_chain_must_allow",),
    },
    5: {_PROPERTY: ("test_50_transactions_under_each_of_many_policies",)},
    6: {
        _ATTACKS: ("test_no_window_is_ever_exceeded_whatever_the_times",),
        "server/test_random_sequences.py": (
            "test_no_asset_leaves_beyond_what_was_said_before",
            "test_with_the_reservation_apart_from_the_check_more_leaves",
        ),
    },
    7: {
        _DECIDE: ("test_the_exact_limit_passes_and_one_unit_more_does_not",),
        _ENGINE: ("test_a_grant_lets_through_what_fits_exactly_and_one_unit_more_not",),
    },
    8: {
        "vault/store/test_window_sums.py": (
            "test_a_window_holds_what_is_younger_than_its_length_and_nothing_else",
        ),
    },
    9: {
        _ENGINE: ("test_what_the_ledger_never_had_is_given_back_to_grants",),
        "vault/store/test_window_sums.py": (
            "test_sums_are_those_of_the_rows_whatever_was_lowered_and_released",
        ),
    },
    10: {
        _DECIDE: (
            "test_whatever_leaves_counts_its_units",
            "test_fee_and_rent_are_charged_to_the_grant_of_the_first_line",
        ),
        _ENGINE: ("test_fees_and_rent_count_as_costs_of_the_first_lines_grant",),
    },
    11: {_DECIDE: ("test_inflow_restores_nothing",)},
    12: {
        _DECIDE: ("test_without_a_price_of_now_an_asset_in_dollars_is_refused",),
        _ATTACKS: ("test_a_price_that_is_missing_refuses",),
    },
    13: {_DECIDE: ("test_hours_may_pass_midnight_and_end_before_their_end",)},
    14: {
        "vault/grants/test_sentences.py": (
            "test_14_every_grant_is_the_same_read_from_its_sentence",
        ),
        "vault/grants/test_document.py": (
            "test_14_every_grant_is_the_same_read_from_its_json_and_from_its_stored_form",
        ),
    },
    15: {
        "vault/grants/test_sentences.py": (
            "test_15_a_refusal_says_what_was_asked_what_is_allowed_and_what_is_left",
        ),
    },
    16: {"e2e/test_contract_money.py": (), "e2e/test_contract_resources.py": ()},
    17: {
        "vault/money/test_replay_stored.py": (
            "test_replay_of_the_live_policy_changes_nothing",
            "test_what_a_real_service_made_is_judged_alike",
        ),
    },
    18: {_APPROVALS: ("test_held_twice_is_one_hold",)},
    19: {
        "vault/money/test_holding.py": ("test_anything_else_is_not",),
        "operations/test_approval_swaps.py": ("test_a_price_that_moved_refuses_it",),
    },
    20: {_ATTACKS: ("test_counters_survive_a_restart",)},
    21: {
        _ATTACKS: (
            "test_fifty_requests_at_once_take_what_is_granted_and_no_more",
            "test_two_processes_take_what_is_granted_over_both_wallets_and_no_more",
        ),
        _PROCESSES: ("test_21_fifty_requests_at_once_two_processes",),
    },
    22: {
        _ATTACKS: (
            "test_splitting_over_grants_recipients_and_wallets_takes_no_more_than_their_sum",
        ),
        _PROCESSES: ("test_22_splitting_over_transactions_recipients_grants_wallets_keys",),
    },
    23: {
        "vault/grants/test_document.py": (
            "test_23_an_amount_is_a_plain_decimal_string",
            "test_23_an_amount_is_no_json_number",
            "test_23_a_symbol_that_looks_like_a_listed_one_is_none",
        ),
        _ATTACKS: ("test_decimals_that_a_node_lied_about_are_refused",),
        _PROCESSES: (
            "test_23_numbers_and_names_that_look_like_others",
            "test_23_a_node_that_lies_about_decimals",
        ),
    },
    24: {
        _ATTACKS: ("test_dust_counts_at_least_a_micro_dollar_each",),
        _PROCESSES: ("test_24_dust_rounding",),
    },
    25: {
        _ATTACKS: ("test_a_clock_that_is_set_back_or_a_day_ahead_empties_no_window",),
        _PROCESSES: ("test_25_clocks_set_back_and_a_day_ahead",),
    },
    26: {
        "server/test_zero_keys.py": ("test_a_key_that_may_nothing_moves_nothing_by_any_way",),
        _PROCESSES: ("test_26_a_zero_key_beside_a_rich_agent",),
    },
    27: {
        _ATTACKS: ("test_rebuilt_bytes_may_not_take_more_than_was_judged",),
        "vault/money/test_front_runs.py": (
            "test_an_account_that_changes_hands_before_it_lands_counts_what_it_got",
        ),
        _PROCESSES: ("test_27_an_account_that_changes_after_the_simulation",),
    },
    28: {
        _ATTACKS: ("test_rent_is_farmed_up_to_the_costs_of_the_grant",),
        _PROCESSES: ("test_28_rent_farming",),
    },
    29: {
        _APPROVALS: (
            "test_nobody_approves_for_himself",
            "test_an_approval_is_used_once",
            "test_two_processes_that_carry_it_out_pay_once",
        ),
        "server/test_hold_routes.py": ("test_two_approvals_at_once_pay_once",),
        _PROCESSES: ("test_29_own_approvals_replays_and_double_clicks",),
    },
    30: {
        _ATTACKS: ("test_funding_returning_and_wrapping_launder_no_counter",),
        _PROCESSES: ("test_30_funding_returning_wrapping_and_staking_launder_no_counter",),
    },
}


@pytest.mark.parametrize(
    ("number", "file"), [(number, file) for number in PROMISES for file in PROMISES[number]]
)
def test_every_promise_has_its_tests(number: int, file: str) -> None:
    assert (FOLDER / file).is_file()
    assert set(PROMISES[number][file]) <= defined(file)


def test_the_table_is_of_thirty() -> None:
    rows = re.findall(r"^\| (\d+) \|", __doc__ or "", re.MULTILINE)
    assert [int(row) for row in rows] == list(PROMISES) == list(range(1, 31))

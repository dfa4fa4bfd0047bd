"""What was done to an earlier release, and the tests that do it again by the same mechanism.

Each attack moved money, or hid that it moved, past every limit there was: because state changed
between judgement and landing, because a program that nobody understood had the wallet's key, or
because something did not count. Now each is impossible, or counted and then held to the limit.
`tests/vault/guardrails/test_31_attacks.py` has those on single transactions.

| # | attack | mechanism |
|---|---|---|
| 1 | a token account that is the wallet's when simulated, the thief's when it lands | front-run |
| 2 | a third party's venue brings a program of its own | hostile program, hostile venue |
| 3 | rent and fees that no limit counts | REST, agent, plugin |
| 4 | a swap's minimum "met" by a stake that the attacker may withdraw | hostile venue |
| 5 | a node that lies or lags | lying node |
| 6 | a plugin that goes beyond its call | hostile plugin |
| 7 | two services on one database, a clock that is set | second process, wrong clock |
| 8 | a key of ours as delegate of another's account | plugin, import |
| 9 | an audit log that is cut, and acts that are in none | the database itself |
"""

from __future__ import annotations

import re

import pytest
from tests.promises import promise
from tests.support.repository import TESTS as FOLDER
from tests.vault.guardrails.test_31_attacks import defined

pytestmark = promise("nine-past-attacks")


ATTACKS: dict[int, dict[str, tuple[str, ...]]] = {
    1: {
        "vault/money/test_front_runs.py": (
            "test_an_account_that_changes_hands_before_it_lands_counts_what_it_got",
            "test_accounts_that_are_gone_before_it_lands_count_their_rent",
        ),
        "operations/test_hostile_venue.py": (
            "test_an_unrelated_token_cannot_go_into_an_account_that_changes_hands",
            "test_a_theft_in_place_of_a_swap_gets_nothing",
        ),
        "vault/guardrails/test_worst_case_property.py": (
            "test_5000_generated_messages_take_at_most_their_bound",
            "test_100000_generated_messages_take_at_most_their_bound",
            "test_the_hunt_catches_a_rule_left_out",
        ),
    },
    2: {
        "vault/money/test_front_runs.py": (
            "test_a_program_that_is_upgraded_before_it_lands_never_had_the_wallets_key",
        ),
        "operations/test_hostile_venue.py": (
            "test_a_theft_in_place_of_a_swap_gets_nothing",
            "test_a_program_that_steals_only_when_it_lands_gets_the_fee_burnt_at_most",
        ),
        "operations/test_pocket_swap.py": (
            "test_an_instruction_that_wants_more_than_the_pocket_is_refused",
        ),
        "operations/test_swap_in_steps.py": (
            "test_bytes_that_want_the_wallets_signature_are_refused",
            "test_what_the_wallet_signs_around_the_call_is_bounded_by_its_bytes",
        ),
        "vault/money/test_pocket_run.py": (
            "test_a_call_that_takes_everything_takes_what_was_put_in",
        ),
        "vault/guardrails/test_program_accounts.py": (
            "test_a_program_given_the_wallets_key_takes_every_lamport",
            "test_a_program_that_names_the_wallet_by_itself_finds_no_such_account",
            "test_the_wallet_behind_a_lookup_table_is_refused_as_loaded_twice",
        ),
    },
    3: {
        "server/test_costs_drain.py": (
            "test_tokens_to_fresh_addresses_drain_one_ceiling_of_rent",
            "test_a_key_with_a_limit_of_0_takes_no_rent_and_no_fee",
            "test_a_keys_own_ceiling_holds_over_all_its_wallets",
            "test_an_agent_that_launches_tokens_takes_one_ceiling",
        ),
        "operations/matrix/test_bounds.py": (
            "test_what_is_signed_is_bounded_and_its_bound_is_reserved",
        ),
    },
    4: {
        "operations/test_hostile_venue.py": (
            "test_a_minimum_is_not_met_by_a_stake_that_the_venue_may_withdraw",
        ),
        "operations/test_pocket_swap.py": (
            "test_what_the_market_gives_less_when_it_lands_costs_the_fee_alone",
        ),
        "operations/test_swap_in_steps.py": (
            "test_less_than_the_minimum_is_not_signed_and_everything_comes_home",
        ),
    },
    5: {
        "vault/money/test_fates.py": (
            "test_a_node_that_lags_does_not_make_dead_what_landed",
            "test_one_remote_node_that_lies_gives_no_budget_back",
            "test_one_remote_node_that_calls_a_payment_failed_gives_no_budget_back",
            "test_money_comes_back_at_once_only_by_the_word_of_two_hosts",
        ),
        "vault/money/test_expiry.py": (
            "test_bytes_made_elsewhere_are_not_dead_while_they_live",
            "test_of_several_nodes_the_highest_height_counts",
            "test_nodes_some_blocks_apart_fail_no_transaction",
            "test_state_and_simulation_of_different_slots_are_told_apart",
        ),
        "vault/money/test_lying_ledger.py": (
            "test_decimals_that_a_listed_mint_has_not_are_no_ground_to_sign",
            "test_wrong_decimals_of_any_mint_fail_on_the_ledger",
        ),
        "vault/money/test_settlement.py": (
            "test_a_swap_reports_what_arrived_and_not_what_was_simulated",
            "test_balances_give_back_only_where_two_hosts_have_the_same",
        ),
    },
    6: {
        "test_context_lifetime.py": (
            "test_its_attributes_cannot_be_assigned",
            "test_its_wallet_is_the_services_whatever_the_context_says",
            "test_after_its_call_it_can_do_nothing",
            "test_a_task_that_is_left_behind_pays_nothing",
            "test_two_money_calls_at_once_are_each_counted_and_numbered",
            "test_each_call_has_an_http_client_of_its_own",
        ),
        "vault/money/test_plugin_rules.py": (
            "test_what_one_changes_is_not_what_is_counted",
            "test_the_database_can_be_written_while_one_thinks",
        ),
        "operations/test_plugin_draft.py": (
            "test_a_payment_is_stored_as_what_it_is",
            "test_a_number_that_lies_to_comparisons_passes_no_limit",
        ),
    },
    7: {
        "database/test_file_lock.py": (
            "test_a_second_service_on_the_file_from_another_home_is_refused",
            "test_another_process_has_it_until_it_is_killed",
        ),
        "vault/money/test_wrong_clocks.py": (
            "test_a_clock_a_day_ahead_gives_nothing_back",
            "test_a_node_that_says_the_future_gives_nothing_back",
        ),
    },
    8: {
        "vault/money/test_front_runs.py": (
            "test_what_the_wallet_takes_as_anothers_delegate_is_counted",
        ),
        "cli/test_import_of_used_keys.py": (
            "test_a_delegate_is_named_and_once_revoked_the_key_is_imported",
            "test_a_foreign_close_authority_is_named_and_gone_with_the_account",
        ),
    },
    9: {
        "cli/test_audit_verify.py": (
            "test_a_head_kept_elsewhere_shows_a_rewritten_and_a_cut_history",
            "test_a_history_rewritten_and_rebased_is_found_and_stays_found",
        ),
        "audit/test_audit_chain.py": (
            "test_a_process_without_the_key_cannot_go_on_from_an_authentic_end",
        ),
        "server/test_admin_changes.py": (
            "test_an_agents_limits_tell_what_they_were_and_who_changed_them",
            "test_a_wallets_tags_tell_which_key_changed_them",
        ),
    },
}


def test_the_table_above_has_each_attack_once() -> None:
    rows = re.findall(r"^\| (\d+) \| .+ \| .+ \|$", __doc__ or "", re.MULTILINE)
    assert [int(number) for number in rows] == list(ATTACKS) == list(range(1, 10))


@pytest.mark.parametrize("number", ATTACKS)
def test_each_attack_is_mounted_by_tests_that_are_there(number: int) -> None:
    for file, names in ATTACKS[number].items():
        assert (FOLDER / file).is_file(), file
        assert set(names) <= defined(file), (file, set(names) - defined(file))

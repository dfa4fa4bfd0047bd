"""What a signed message takes is at most what its bytes were said to take, whatever the state is.

Generated messages are judged by their bytes alone and then executed on a real SVM, with the
wallet's real signature, beside a thief who signs too, prepared accounts of every kind before and
changes them between the judgement and the landing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from spl.token.instructions import create_idempotent_associated_token_account
from tests.promises import promise
from tests.support.examples import examples
from tests.support.programs import PROGRAMS
from tests.vault.guardrails.bank import RENT_TOKEN, key
from tests.vault.guardrails.generated_messages import BESET, Case
from tests.vault.guardrails.hunt import Report, compile_case, hunt
from tests.vault.guardrails.test_lines import assert_adds_up
from tests.vault.guardrails.world import STAKE, SYSTEM, TOKEN, TOKEN_2022, World

from solward.solana.message import AnyMessage
from solward.solana.programs import MEMO_PROGRAM, PRECOMPILES
from solward.types.guardrail import Outflow
from solward.vault.guardrails.worst_case import NoBound, worst_case


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def by_bytes(world: World, case: Case, message: AnyMessage) -> Outflow | None:
    try:
        found = worst_case(message, str(world.own))
    except NoBound:
        return None
    assert_adds_up(found)
    return found


def check(report: Report, cases: int) -> None:
    assert not report.violations, "\n".join(report.violations[:3])
    assert not report.unkept, "\n".join(report.unkept[:3])
    # The hunt is worth something: much is allowed, lands and takes, and what is refused would take
    # lamports, units and authorities.
    assert report.landed > cases / 12
    assert report.moved > cases / 25
    # A tenth of the cases shows the frequent kinds alone.
    rare = {"staker", "lockup", "mint authority"} if cases >= 5_000 else set()
    assert set(report.refused_harm) >= {"lamports", "units"} | rare
    assert sum(report.refused_harm.values()) > cases / 50


@promise("bytes-bound-the-taking")
@pytest.mark.property
def test_5000_generated_messages_take_at_most_their_bound(world: World) -> None:
    cases = examples(5_000)
    check(hunt(world, by_bytes, 14, range(cases)), cases)


@promise("message-versions")
@pytest.mark.property
def test_10000_generated_messages_of_version_1_take_at_most_their_bound(world: World) -> None:
    cases = examples(10_000)
    check(hunt(world, by_bytes, 15, range(cases), v1=1), cases)


@promise("message-versions")
@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(6, 10))
def test_100000_generated_messages_of_version_1(world: World, seed: int) -> None:
    check(hunt(world, by_bytes, seed, range(25_000), v1=1), 25_000)


@promise("generated-messages-bounded")
@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(1, 6))
def test_100000_generated_messages_take_at_most_their_bound(world: World, seed: int) -> None:
    check(hunt(world, by_bytes, seed, range(25_000)), 25_000)


def check_kept(report: Report, cases: int) -> None:
    assert not report.violations, "\n".join(report.violations[:3])
    assert not report.unkept, "\n".join(report.unkept[:3])
    assert report.stayed > cases / 20


@pytest.mark.property
def test_1000_generated_stakes_and_wraps_stay_the_wallets(world: World) -> None:
    cases = examples(1_000)
    check_kept(hunt(world, by_bytes, 3, range(cases), shapes=BESET), cases)


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_100000_generated_stakes_and_wraps_stay_the_wallets(world: World) -> None:
    check_kept(hunt(world, by_bytes, 4, range(100_000), shapes=BESET), 100_000)


# A rule is left out by judging other bytes than those that are executed; the hunt must catch it.

Rewrite = Callable[[World, Case], tuple[Case, int]]
"""The case to judge in place of the real one, and lamports that count too little."""


def _kept(case: Case, keep: Callable[[Instruction], bool]) -> tuple[Case, int]:
    return replace(case, instructions=tuple(one for one in case.instructions if keep(one))), 0


def _kind(one: Instruction, *programs: Pubkey) -> int:
    return one.data[0] if one.program_id in programs and len(one.data) > 0 else -1


def _without(kinds: set[int], *programs: Pubkey) -> Rewrite:
    return lambda world, case: _kept(case, lambda one: _kind(one, *programs) not in kinds)


def _table_believed(world: World, case: Case) -> tuple[Case, int]:
    return replace(case, claimed=None), 0


def _own_accounts_believed(world: World, case: Case) -> tuple[Case, int]:
    opened = [
        create_idempotent_associated_token_account(world.own, world.own, mint.address, TOKEN)
        for mint in world.mints
        if mint.program == TOKEN
    ]
    return replace(case, instructions=(*opened, *case.instructions)), RENT_TOKEN * len(opened)


def _inflow_counted(world: World, case: Case) -> tuple[Case, int]:
    inflow = sum(
        int.from_bytes(one.data[4:12], "little")
        for one in case.instructions
        if _kind(one, SYSTEM) == 2 and [meta.pubkey for meta in one.accounts[1:]] == [world.own]
    )
    return case, inflow


def _precompiles_free(world: World, case: Case) -> tuple[Case, int]:
    return _kept(case, lambda one: str(one.program_id) not in PRECOMPILES)


def _unknown_programs_free(world: World, case: Case) -> tuple[Case, int]:
    hostile = {program.address for program in PROGRAMS}
    return _kept(case, lambda one: one.program_id not in hostile)


# What each token instruction uses of its accounts when one owner signs.
_TOKEN_ACCOUNTS: Final = {9: 3, 12: 4, 15: 3}


def _more_accounts_ignored(world: World, case: Case) -> tuple[Case, int]:
    def cut(one: Instruction) -> Instruction:
        count = _TOKEN_ACCOUNTS.get(_kind(one, TOKEN, TOKEN_2022), len(one.accounts))
        return Instruction(one.program_id, bytes(one.data), one.accounts[:count])

    return replace(case, instructions=tuple(map(cut, case.instructions))), 0


def _batches_cut(world: World, case: Case) -> tuple[Case, int]:
    """As if a batch were the first of its instructions."""

    def first(one: Instruction) -> Instruction:
        data = bytes(one.data)
        if _kind(one, TOKEN, TOKEN_2022) != 255 or len(data) < 3:
            return one
        return Instruction(one.program_id, data[3 : 3 + data[2]], one.accounts[: data[1]])

    return replace(case, instructions=tuple(map(first, case.instructions))), 0


def _to_the_wallet(kind: int, *programs: Pubkey) -> Rewrite:
    """As if the receiver of an instruction, its second account, were always the wallet."""

    def moved(world: World, one: Instruction) -> Instruction:
        if _kind(one, *programs) != kind or len(one.accounts) < 2:
            return one
        metas = one.accounts
        metas[1] = AccountMeta(world.own, metas[1].is_signer, True)
        return Instruction(one.program_id, bytes(one.data), metas)

    return lambda world, case: (
        replace(case, instructions=tuple(moved(world, one) for one in case.instructions)), 0
    )  # fmt: skip


def _budget_of_instructions_believed(world: World, case: Case) -> tuple[Case, int]:
    """As if ComputeBudget instructions told the fee of version 1, too."""
    return replace(case, config=None), 0


WEAKENED: Final[dict[str, Rewrite]] = {
    "a budget of instructions believed in version 1": _budget_of_instructions_believed,
    "lookup tables believed": _table_believed,
    "own accounts believed to be the wallet's": _own_accounts_believed,
    "inflows counted": _inflow_counted,
    "precompile signatures free": _precompiles_free,
    "unknown programs free": _unknown_programs_free,
    "more accounts ignored": _more_accounts_ignored,
    "unchecked transfers free": _without({3}, TOKEN, TOKEN_2022),
    "approvals free": _without({4, 13}, TOKEN, TOKEN_2022),
    "authorities free": _without({6}, TOKEN, TOKEN_2022),
    "wrapped SOL free": _without({45}, TOKEN, TOKEN_2022),
    "wrapped SOL to anybody": _to_the_wallet(45, TOKEN, TOKEN_2022),
    "rent to anybody": _to_the_wallet(38, TOKEN, TOKEN_2022),
    "batches free": _without({255}, TOKEN, TOKEN_2022),
    "the rest of a batch free": _batches_cut,
    "assigning free": _without({1, 8, 9, 10}, SYSTEM),
    "closing to anybody": _to_the_wallet(9, TOKEN, TOKEN_2022),
    "stakes withdrawn to anybody": _to_the_wallet(4, STAKE),
    "nonces withdrawn to anybody": _to_the_wallet(5, SYSTEM),
    "stake authorities free": _without({1, 6, 10, 12}, STAKE),
}


@pytest.mark.more
@promise("generated-messages-bounded")
@pytest.mark.parametrize("name", WEAKENED)
def test_the_hunt_catches_a_rule_left_out(world: World, name: str) -> None:
    def judge(world: World, case: Case, message: AnyMessage) -> Outflow | None:
        judged, credit = WEAKENED[name](world, case)
        # The wallet signs whatever else is left.
        signs = Instruction(key(MEMO_PROGRAM), b"", [AccountMeta(world.own, True, False)])
        judged = replace(judged, instructions=(*judged.instructions, signs))
        bound = by_bytes(world, judged, compile_case(world, judged))
        if bound is None:
            return None
        rent = max(0, bound.rent_lamports - credit)
        lamports = max(0, bound.lamports - max(0, credit - bound.rent_lamports))
        return replace(bound, lamports=lamports, rent_lamports=rent)

    def concerns(case: Case) -> bool:
        return WEAKENED[name](world, case) != (case, 0)

    batches = range(0, 20_000, 100)
    assert any(hunt(world, judge, 7, range(at, at + 100), concerns).violations for at in batches)


def _stakes_believed(world: World, case: Case) -> tuple[Case, int]:
    """As if every stake were initialised for the wallet alone."""
    alone = bytes(4) + bytes(world.own) * 2 + bytes(48)

    def named(one: Instruction) -> Instruction:
        is_initialize = one.program_id == STAKE and bytes(one.data[:4]) == bytes(4)
        return Instruction(STAKE, alone, one.accounts) if is_initialize else one

    return replace(case, instructions=tuple(map(named, case.instructions))), 0


@pytest.mark.parametrize("believed", [_stakes_believed, _own_accounts_believed])
def test_the_hunt_catches_money_that_is_said_to_stay(world: World, believed: Rewrite) -> None:
    def judge(world: World, case: Case, message: AnyMessage) -> Outflow | None:
        bound = by_bytes(world, case, message)
        if bound is None:
            return None
        judged, _ = believed(world, case)
        told = by_bytes(world, judged, compile_case(world, judged))
        return None if told is None else replace(bound, lines=told.lines)

    batches = range(0, 20_000, 100)
    assert any(hunt(world, judge, 9, range(at, at + 100), shapes=BESET).unkept for at in batches)

"""Solward's instructions of the token programs are those that `spl` makes, byte for byte."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from solders.pubkey import Pubkey
from spl.token import instructions as spl
from spl.token import models
from tests.support.examples import examples

from solward.solana import instructions as ours
from solward.solana.instructions import TOKEN_AUTHORITIES
from solward.solana.programs import TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from solward.types.money import U64_MAX

keys = st.binary(min_size=32, max_size=32).map(Pubkey)
programs = st.sampled_from([TOKEN_PROGRAM, TOKEN_2022_PROGRAM]).map(Pubkey.from_string)
units = st.integers(0, U64_MAX)
decimals = st.integers(0, 255)


@settings(max_examples=examples(50))
@given(programs, keys, keys, keys, keys, units, decimals)
def test_moving_making_and_destroying_units(
    program: Pubkey, a: Pubkey, b: Pubkey, c: Pubkey, d: Pubkey, amount: int, places: int
) -> None:
    moved = models.TransferCheckedParams(
        program_id=program, source=a, mint=b, dest=c, owner=d, amount=amount, decimals=places
    )
    made = models.MintToCheckedParams(
        program_id=program, mint=a, dest=b, mint_authority=c, amount=amount, decimals=places
    )
    destroyed = models.BurnCheckedParams(
        program_id=program, account=a, mint=b, owner=c, amount=amount, decimals=places
    )

    assert ours.transfer_checked(program, a, b, c, d, amount, places) == spl.transfer_checked(moved)
    assert ours.mint_to_checked(program, a, b, c, amount, places) == spl.mint_to_checked(made)
    assert ours.burn_checked(program, a, b, c, amount, places) == spl.burn_checked(destroyed)


@settings(max_examples=examples(50))
@given(programs, keys, keys, keys)
def test_opening_closing_and_counting_accounts(
    program: Pubkey, a: Pubkey, b: Pubkey, c: Pubkey
) -> None:
    closed = models.CloseAccountParams(program_id=program, account=a, dest=b, owner=c)
    counted = models.SyncNativeParams(program_id=program, account=a)

    opened = spl.create_idempotent_associated_token_account(a, b, c, program)
    assert ours.create_associated(a, b, c, program) == opened
    assert ours.close_account(program, a, b, c) == spl.close_account(closed)
    assert ours.sync_native(program, a) == spl.sync_native(counted)


@settings(max_examples=examples(50))
@given(programs, keys, keys, keys, decimals, st.lists(keys, max_size=4))
def test_mints(
    program: Pubkey, a: Pubkey, b: Pubkey, c: Pubkey, places: int, sources: list[Pubkey]
) -> None:
    initialized = models.InitializeMint2Params(
        program_id=program, mint=a, decimals=places, mint_authority=b, freeze_authority=c
    )
    withheld = models.HarvestWithheldTokensToMintParams(program_id=program, mint=a, sources=sources)

    assert ours.initialize_mint(program, a, places, b, c) == spl.initialize_mint2(initialized)
    harvested = spl.harvest_withheld_tokens_to_mint(withheld)
    assert ours.harvest_withheld(program, a, sources) == harvested
    for kind in TOKEN_AUTHORITIES:
        given_up = models.SetAuthorityParams(
            program_id=program,
            account=a,
            authority=models.AuthorityType(kind),
            current_authority=b,
            new_authority=None,
        )
        assert ours.revoke_authority(program, a, kind, b) == spl.set_authority(given_up)


@pytest.mark.parametrize("amount", [-1, U64_MAX + 1])
def test_an_amount_that_is_no_u64_makes_no_instruction(amount: int) -> None:
    key = Pubkey.default()

    with pytest.raises(struct.error):
        ours.transfer_checked(key, key, key, key, key, amount, 9)

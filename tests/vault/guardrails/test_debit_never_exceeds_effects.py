"""Differential: whatever the VM executes, the wallet loses no more than was counted.

The oracle is the ledger: the transaction is sent, and what the wallet and everything it controls
held before is compared with what is left.
"""

from __future__ import annotations

import random
import struct

import pytest
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import SimulatedTransactionInfo, TransactionMetadata
from spl.token.instructions import (
    create_idempotent_associated_token_account,
    get_associated_token_address,
)
from tests.support.examples import examples
from tests.vault.guardrails.attacks import (
    approve,
    authorize_nonce,
    authorize_stake,
    batch,
    burn,
    call,
    create_with_seed,
    masked,
    move_tokens,
    pay,
    set_authority,
    split_to_stranger,
    system,
    token,
    transfer_with_seed,
    u64,
    withdraw_nonce,
    withdraw_stake,
)
from tests.vault.guardrails.bank import SOL, Bank, key

from solward.solana.programs import STAKE_PROGRAM, TOKEN_PROGRAM, WRAPPED_SOL_MINT
from solward.types.guardrail import Intent, TransactionEffects
from solward.vault.guardrails.rules import max_debit


def some_of(bank: Bank, rng: random.Random) -> list[Instruction]:
    """One random step; some are legal only after others, so part of the mixes fail as a whole."""
    wrapped = get_associated_token_address(bank.own, bank.wsol)
    receivers = [bank.stranger.pubkey(), bank.friend.pubkey(), wrapped, bank.own, bank.tokens]
    steps = (
        lambda: [pay(bank, rng.randrange(1_000_000, SOL), rng.choice(receivers))],
        lambda: [pay(bank, rng.randrange(1_000_000, SOL), Pubkey.new_unique())],
        lambda: [create_idempotent_associated_token_account(bank.own, bank.own, bank.wsol)],
        lambda: [create_idempotent_associated_token_account(
            bank.own, rng.choice([bank.friend.pubkey(), Pubkey.new_unique()]), bank.mint)],
        lambda: [token(b"\x11", (wrapped, "w"))],
        lambda: [token(b"\x09", (wrapped, "w"), (rng.choice(receivers), "w"), (bank.own, "s"))],
        lambda: [token(b"\x03" + u64(rng.randrange(SOL)), (wrapped, "w"),
                       (get_associated_token_address(bank.stranger.pubkey(), bank.wsol), "w"),
                       (bank.own, "s"))],
        lambda: [move_tokens(bank, rng.choice([bank.their_tokens, bank.tokens]))],
        lambda: batch(move_tokens, move_tokens)(bank),
        lambda: burn(bank),
        lambda: masked(bank),
        lambda: transfer_with_seed(bank),
        lambda: create_with_seed(bank),
        lambda: withdraw_nonce(bank),
        lambda: withdraw_stake(bank),
        lambda: split_to_stranger(bank)[:1],
        lambda: [approve(bank)],
        lambda: authorize_nonce(bank),
        lambda: authorize_stake(bank),
        lambda: set_authority("tokens", 2)(bank),
        lambda: [system(0, u64(rng.randrange(2_282_880, SOL)) + u64(200)
                        + bytes(key(STAKE_PROGRAM)),
                        (bank.own, "sw"), (bank.friend.pubkey(), "sw"))],
        lambda: [call(STAKE_PROGRAM, bytes(4) + bytes(bank.own) * 2 + bytes(48),
                      (bank.friend.pubkey(), "w"),
                      (key("SysvarRent111111111111111111111111111111111"), ""))],
    )  # fmt: skip
    return rng.choice(steps)()


def run(rounds: int, seed: int) -> int:
    rng = random.Random(seed)
    executed = 0
    while executed < rounds:
        bank = Bank()
        bank.friend = Keypair() if rng.random() < 0.7 else bank.friend
        bank.put_tokens(bank.wsol, bank.stranger.pubkey(), 0)
        if rng.random() < 0.5:
            bank.put_tokens(bank.wsol, bank.own, SOL)
        steps = [step for _ in range(rng.randint(1, 5)) for step in some_of(bank, rng)]
        needed = {meta.pubkey for step in steps for meta in step.accounts if meta.is_signer}
        signers = [k for k in (bank.friend, bank.stranger) if k.pubkey() in needed]
        wire = bank.build(steps, signers)
        transaction = VersionedTransaction.from_bytes(wire)
        if not isinstance(bank.svm.simulate_transaction(transaction), SimulatedTransactionInfo):
            continue
        effects = bank.effects(wire)
        before = bank.svm.get_balance(bank.own) or 0
        assert isinstance(bank.svm.send_transaction(transaction), TransactionMetadata)
        intent = Intent(type="other", wallet=bank.address)
        debit = before - (bank.svm.get_balance(bank.own) or 0)
        names = [step.data[:4].hex() for step in steps]
        assert debit <= max_debit(intent, effects), names
        _tokens_are_counted(bank, effects)
        executed += 1
    return executed


def _tokens_are_counted(bank: Bank, effects: TransactionEffects) -> None:
    lost = 1_000_000 - _amount(bank, bank.tokens)
    given_away = any(change.kind == "owner" for change in effects.authority_changes)
    assert lost <= effects.tokens_out.get(str(bank.mint), 0) or given_away
    theirs = get_associated_token_address(bank.stranger.pubkey(), bank.wsol)
    sent = _amount(bank, theirs)
    counted = effects.lamports_out + effects.tokens_out.get(WRAPPED_SOL_MINT, 0)
    assert sent <= counted


def _amount(bank: Bank, account: Pubkey) -> int:
    state = bank.state(str(account))
    if state is None or state.owner != TOKEN_PROGRAM or state.data[32:64] == bytes(32):
        return 0
    return struct.unpack_from("<Q", state.data, 64)[0]


@pytest.mark.property
def test_300_random_transactions() -> None:
    assert run(examples(300), seed=7) == examples(300)


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_5000_random_transactions() -> None:
    assert run(5_000, seed=11) == 5_000

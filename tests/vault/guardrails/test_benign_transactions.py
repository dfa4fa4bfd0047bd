"""What every operation of a wallet does passes when it is declared, and is measured exactly."""

from __future__ import annotations

from typing import Any

from solders.account import Account
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import (
    CreateAccountParams,
    TransferParams,
    create_account,
    transfer,
)
from solders.transaction import VersionedTransaction
from spl.token import instructions as spl
from spl.token import models
from spl.token.instructions import get_associated_token_address
from tests.promises import promise
from tests.support.market import fee_mint
from tests.vault.guardrails.bank import RENT_TOKEN, SOL, Bank, key, verdict

from solward.solana.accounts import max_rent
from solward.solana.programs import (
    STAKE_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
)
from solward.types.guardrail import Intent, TransactionEffects
from solward.vault.guardrails.rules import max_debit


def send(bank: Bank, to: Pubkey, lamports: int) -> Instruction:
    return transfer(TransferParams(from_pubkey=bank.own, to_pubkey=to, lamports=lamports))


def allowed(bank: Bank, wire: bytes, **declared: Any) -> TransactionEffects:
    effects = bank.effects(wire)
    intent = Intent(type="other", wallet=bank.address, **declared)
    judged = verdict(intent, effects)
    assert judged.allowed, (judged, effects)
    before = bank.svm.get_balance(bank.own) or 0
    bank.svm.send_transaction(VersionedTransaction.from_bytes(wire))
    assert before - (bank.svm.get_balance(bank.own) or 0) <= max_debit(intent, effects)
    return effects


def wrap(bank: Bank, lamports: int) -> list[Instruction]:
    account = get_associated_token_address(bank.own, bank.wsol)
    return [
        spl.create_idempotent_associated_token_account(bank.own, bank.own, bank.wsol),
        send(bank, account, lamports),
        spl.sync_native(models.SyncNativeParams(program_id=key(TOKEN_PROGRAM), account=account)),
    ]


def close(bank: Bank, account: Pubkey, to: Pubkey) -> Instruction:
    return spl.close_account(
        models.CloseAccountParams(
            program_id=key(TOKEN_PROGRAM), account=account, dest=to, owner=bank.own
        )
    )


@promise("stake-and-wrap-count")
def test_wrapping_counts_the_amount_and_unwrapping_nothing(bank: Bank) -> None:
    account = get_associated_token_address(bank.own, bank.wsol)
    effects = allowed(bank, bank.build(wrap(bank, SOL)), lamports_out=SOL, rent_lamports=RENT_TOKEN)
    assert (effects.lamports_out, effects.rent_lamports) == (SOL, RENT_TOKEN)
    assert effects.tokens_in == {}

    wire = bank.build([close(bank, account, bank.own)])
    effects = allowed(bank, wire, may_close=frozenset({str(account)}))
    assert (effects.lamports_out, effects.tokens_out) == (0, {})


@promise("stake-and-wrap-count")
def test_a_stake_counts_whole_with_its_rent(bank: Bank) -> None:
    stake = Keypair()
    create = create_account(CreateAccountParams(
        from_pubkey=bank.own, to_pubkey=stake.pubkey(), lamports=2 * SOL, space=200,
        owner=key(STAKE_PROGRAM)))  # fmt: skip
    data = bytes(4) + bytes(bank.own) * 2 + bytes(48)
    rent = key("SysvarRent111111111111111111111111111111111")
    metas = [AccountMeta(stake.pubkey(), False, True), AccountMeta(rent, False, False)]
    wire = bank.build([create, Instruction(key(STAKE_PROGRAM), data, metas)], [stake])
    effects = allowed(bank, wire, lamports_out=2 * SOL)
    assert (effects.lamports_out, effects.rent_lamports) == (2 * SOL, 0)
    assert effects.authority_changes == ()


def test_a_launched_mint_is_rent_and_belongs_to_the_wallet(bank: Bank) -> None:
    mint = Keypair()
    rent = (82 + 128) * 6960
    create = create_account(CreateAccountParams(
        from_pubkey=bank.own, to_pubkey=mint.pubkey(), lamports=rent, space=82,
        owner=key(TOKEN_PROGRAM)))  # fmt: skip
    init = spl.initialize_mint2(models.InitializeMint2Params(
        decimals=9, program_id=key(TOKEN_PROGRAM), mint=mint.pubkey(),
        mint_authority=bank.own))  # fmt: skip
    account = get_associated_token_address(bank.own, mint.pubkey())
    supply = spl.mint_to(models.MintToParams(
        program_id=key(TOKEN_PROGRAM), mint=mint.pubkey(), dest=account, mint_authority=bank.own,
        amount=10**9))  # fmt: skip
    own = spl.create_idempotent_associated_token_account(bank.own, bank.own, mint.pubkey())
    wire = bank.build([create, init, own, supply], [mint])
    effects = allowed(bank, wire, rent_lamports=rent + RENT_TOKEN)
    assert effects.tokens_in == {str(mint.pubkey()): 10**9}


def test_an_account_of_a_mint_with_a_transfer_fee_is_opened_emptied_and_closed(bank: Bank) -> None:
    """It is larger by 12 bytes, and closes once what it withheld is the mint's."""
    mint, program = Pubkey.new_unique(), key(TOKEN_2022_PROGRAM)
    state = fee_mint(100, 10**12)
    bank.svm.set_account(mint, Account(SOL, state, program))
    account = get_associated_token_address(bank.own, mint, program)
    withheld = models.HarvestWithheldTokensToMintParams(
        program_id=program, mint=mint, sources=[account]
    )
    closed = models.CloseAccountParams(
        program_id=program, account=account, dest=bank.own, owner=bank.own
    )
    wire = bank.build(
        [
            spl.create_idempotent_associated_token_account(bank.own, bank.own, mint, program),
            spl.harvest_withheld_tokens_to_mint(withheld),
            spl.close_account(closed),
        ]
    )
    effects = allowed(bank, wire, rent_lamports=max_rent(182))
    assert (effects.lamports_out, effects.rent_lamports) == (0, max_rent(182))

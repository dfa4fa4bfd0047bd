from __future__ import annotations

import pytest
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from tests.support.tokens import (
    TOKEN,
    TOKEN_2022,
    Bank,
    fund_instructions,
    mint_instructions,
    named_mint_instructions,
)

from solward.solana.tokens import Mint, mint_account
from solward.types.ledger import Account

RENT = 10_000_000


def stored(bank: Bank, address: Pubkey) -> Account:
    found = bank.svm.get_account(address)
    assert found is not None
    return Account(found.lamports, str(found.owner), bytes(found.data))


@pytest.mark.parametrize("program", [TOKEN, TOKEN_2022])
def test_a_mint_is_read_as_the_real_program_wrote_it(program: Pubkey) -> None:
    bank, mint = Bank(), Keypair()
    payer = bank.payer.pubkey()
    bank.run(
        [
            *mint_instructions(payer, mint.pubkey(), RENT, program=program, decimals=3),
            *fund_instructions(payer, payer, mint.pubkey(), 2**64 - 1, program=program),
        ],
        mint,
    )
    address = str(mint.pubkey())
    assert mint_account(address, stored(bank, mint.pubkey())) == Mint(
        address=address,
        program=str(program),
        decimals=3,
        supply=2**64 - 1,
        mint_authority=str(payer),
        freeze_authority=str(payer),
    )


def named(name: str, symbol: str) -> tuple[str, Account]:
    bank, mint = Bank(), Keypair()
    bank.run(named_mint_instructions(bank.payer.pubkey(), mint.pubkey(), RENT, name, symbol), mint)
    return str(mint.pubkey()), stored(bank, mint.pubkey())


def test_a_mints_own_metadata_gives_name_and_symbol() -> None:
    address, account = named("Läuft", "LFT")
    mint = mint_account(address, account)
    assert mint is not None
    assert (mint.name, mint.symbol, mint.program_name) == ("Läuft", "LFT", "Token-2022")


def test_metadata_of_another_mint_does_not_count() -> None:
    _, account = named("USD Coin", "USDC")
    mint = mint_account(str(Keypair().pubkey()), account)
    assert mint is not None
    assert (mint.name, mint.symbol) == (None, None)


def test_metadata_cut_off_anywhere_breaks_nothing() -> None:
    address, account = named("USD Coin", "USDC")
    for size in range(len(account.data)):
        cut = Account(account.lamports, account.owner, account.data[:size])
        mint = mint_account(address, cut)
        assert mint is None or mint.decimals == 9


def test_bytes_that_are_no_mint_are_none() -> None:
    address, account = named("A", "B")
    data = account.data
    assert mint_account(address, account) is not None
    wrong = {
        "nothing": None,
        "another program's": Account(1, "11111111111111111111111111111111", data),
        "not initialised": Account(1, account.owner, data[:45] + b"\0" + data[46:]),
        "a token account's type": Account(1, account.owner, data[:165] + b"\2" + data[166:]),
        "extended under the classic program": Account(1, str(TOKEN), data),
        "a multisig's length": Account(1, account.owner, (data + bytes(355))[:355]),
        "empty": Account(1, account.owner, b""),
    }
    assert [what for what, each in wrong.items() if mint_account(address, each)] == []


def test_a_token_account_is_no_mint() -> None:
    bank, mint = Bank(), Keypair()
    payer = bank.payer.pubkey()
    fund = fund_instructions(payer, payer, mint.pubkey(), 5)
    bank.run([*mint_instructions(payer, mint.pubkey(), RENT), *fund], mint)
    account = fund[1].accounts[1].pubkey
    assert mint_account(str(account), stored(bank, account)) is None

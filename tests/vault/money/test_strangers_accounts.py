"""What strangers put beside a wallet stops nothing of the wallet's own."""

from __future__ import annotations

import struct
from decimal import Decimal

import pytest
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import (
    CreateAccountWithSeedParams,
    TransferParams,
    create_account_with_seed,
    transfer,
)
from spl.token.instructions import close_account
from spl.token.models import CloseAccountParams
from tests.promises import promise
from tests.support.engine import RENT_SYSVAR, STAKE, locked_stake
from tests.support.tokens import TOKEN, TOKEN_2022, TokenBench

from solward.solana.balances import read_balances
from solward.solana.programs import CLOCK_SYSVAR, SYSTEM_PROGRAM
from solward.solana.stakes import read_stakes
from solward.solana.token_list import token_list
from solward.types.errors import InvalidRequest
from solward.types.guardrail import Intent
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.custody.foreign_rights import foreign_rights
from solward.vault.money.request import ADMIN, Draft


async def with_a_closed_mint(tokens: TokenBench) -> tuple[str, str]:
    """A stranger's mint that he closed, and the wallet's account of it."""
    closes = b"\x19\x01" + bytes(tokens.stranger.pubkey())
    mint = await tokens.mint(TOKEN_2022, ours=False, space=166 + 4 + 32, extensions=(closes,))
    await tokens.fund(mint, 0, TOKEN_2022)
    stranger = tokens.stranger.pubkey()
    await tokens.land(
        [
            close_account(
                CloseAccountParams(
                    program_id=TOKEN_2022,
                    account=Pubkey.from_string(mint),
                    dest=stranger,
                    owner=stranger,
                )
            )
        ]
    )
    assert await tokens.bench.ledger.account(mint) is None
    return mint, tokens.account(mint, TOKEN_2022)


async def does(tokens: TokenBench, operation: str, **fields: object) -> TransactionRecord:
    record = await tokens.operations.perform(operation, tokens.wallet, ADMIN, fields)
    assert record.status is TransactionStatus.CONFIRMED
    return record


@promise("gone-mint-stops-nothing")
async def test_an_account_whose_mint_was_closed_stops_nothing_and_can_be_closed(
    tokens: TokenBench,
) -> None:
    gone, account = await with_a_closed_mint(tokens)
    mint = await tokens.mint(units=5_000_000)
    known = token_list("localnet")

    shown = await read_balances(tokens.bench.ledger, known, tokens.address, empty=True)
    assert {(each.mint, each.units) for each in shown.tokens} == {(mint, 5_000_000), (gone, 0)}
    await does(tokens, "transfer_token", mint=mint, to=str(Keypair().pubkey()), amount=1)
    await does(tokens, "burn", mint=mint, amount=1)
    await does(tokens, "wrap_sol", amount=Decimal("0.01"))
    await does(tokens, "unwrap_sol")
    with pytest.raises(InvalidRequest, match=f"still holds 3 of {mint}; burn or swap it first"):
        await does(tokens, "close_account", mint=tokens.account(mint))

    record = await does(tokens, "close_account", mint=account)
    assert (record.details["mint"], record.details["account"]) == (gone, account)
    assert account not in {h.account for h in await tokens.bench.ledger.holdings(tokens.address)}


@promise("gone-mint-stops-nothing")
@pytest.mark.parametrize("by", ["mint", "account"])
async def test_what_is_no_account_of_the_wallets_is_not_closed(tokens: TokenBench, by: str) -> None:
    mint = await tokens.mint(units=1, ours=False)
    other = str(Keypair().pubkey())
    given = {"mint": mint, "account": await tokens.another_account(mint, other)}[by]
    await does(tokens, "burn", mint=mint, amount=Decimal("0.000001"))
    await does(tokens, "close_account", mint=mint)
    said = f"has no token account of {mint}" if by == "mint" else "^mint "
    with pytest.raises(InvalidRequest, match=said):
        await does(tokens, "close_account", mint=given)


@promise("strangers-stake-not-listed")
async def test_a_strangers_stake_is_not_the_wallets(tokens: TokenBench) -> None:
    """He names the wallet as the staker of a stake that only he can withdraw."""
    payer, wallet = tokens.stranger.pubkey(), tokens.owner
    account = Pubkey.create_with_seed(payer, "gift", STAKE)
    create = create_account_with_seed(
        CreateAccountWithSeedParams(
            from_pubkey=payer, to_pubkey=account, base=payer, seed="gift",
            lamports=2 * 10**9, space=200, owner=STAKE,
        )
    )  # fmt: skip
    authorities = bytes(wallet) + bytes(payer)
    data = struct.pack("<I", 0) + authorities + struct.pack("<qQ", 0, 0) + bytes(32)
    metas = [AccountMeta(account, False, True), AccountMeta(RENT_SYSVAR, False, False)]
    await tokens.land([create, Instruction(STAKE, data, metas)])

    own = await locked_stake(tokens.bench, epoch=9)
    (listed,) = await read_stakes(tokens.bench.ledger, tokens.address)
    assert (listed.address, listed.is_locked) == (own, True)
    rights = await foreign_rights(tokens.bench.ledger, tokens.address)
    assert [each for each in rights.noted if str(account) in each]


@promise("recipients-can-spend")
async def test_nothing_is_sent_to_what_could_not_spend_it(tokens: TokenBench) -> None:
    mint = await tokens.mint(units=5_000_000, ours=False)
    other = await tokens.mint(units=1, ours=False)
    somebody = str(Keypair().pubkey())
    account = await tokens.another_account(other, somebody)
    addresses = {
        mint: "is the mint of a token",
        account: f"is a token account of {other}, which {somebody} owns",
        str(TOKEN): "is a program",
        SYSTEM_PROGRAM: "is a program",
        CLOCK_SYSVAR: "is a sysvar",
    }
    for address, said in addresses.items():
        text = f"^to: {address} {said}; expected a wallet's address"
        for operation, fields in (("transfer", {}), ("transfer_token", {"mint": mint})):
            call = does(tokens, operation, to=address, amount=Decimal("0.1"), **fields)
            await tokens.refuses(call, text)
        by_plugin = transfer(
            TransferParams(
                from_pubkey=tokens.owner, to_pubkey=Pubkey.from_string(address), lamports=9**7
            )
        )
        intent = Intent("other", tokens.address, 9**7, destinations=frozenset({address}))
        execute = tokens.bench.engine.execute(tokens.wallet, ADMIN, Draft(intent, (by_plugin,)))
        await tokens.refuses(execute, f"^recipient: {address} {said}")


@promise("recipients-can-spend")
async def test_the_vault_of_a_program_gets_what_is_sent_to_it(tokens: TokenBench) -> None:
    """Such as a multisig's: without a private key, and of the System program."""
    mint = await tokens.mint(units=5_000_000, ours=False)
    vault, _ = Pubkey.find_program_address([b"vault"], TOKEN)
    await does(tokens, "transfer", to=str(vault), amount=Decimal("0.1"))
    await does(tokens, "transfer_token", mint=mint, to=str(vault), amount=1)
    assert await tokens.accounts(mint, str(vault)) != {}

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import (
    TransferParams,
    transfer,
)
from spl.token.instructions import mint_to_checked
from spl.token.models import MintToCheckedParams
from tests.promises import promise
from tests.support.swaps import pay_sol
from tests.support.tokens import (
    FEE,
    PROGRAMS,
    RENT,
    RENT_2022,
    TOKEN,
    TOKEN_2022,
    TokenBench,
    open_tokens,
)

from solward.operations.tokens import plan_mint_supply
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.token_list import token_list
from solward.types.errors import GuardrailBlocked, InvalidRequest, TransactionFailed
from solward.types.guardrail import Intent
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.money.request import ADMIN
from solward_localnet.market import genesis_accounts

both_programs = pytest.mark.parametrize("program", PROGRAMS, ids=["spl-token", "token-2022"])


async def mint_supply(tokens: TokenBench, mint: Any, amount: Any, **more: Any) -> TransactionRecord:
    operations = tokens.operations
    return await operations.perform(
        "mint_supply", tokens.wallet, ADMIN, {"mint": mint, "amount": amount, **more}
    )


async def burn(tokens: TokenBench, mint: Any, amount: Any) -> TransactionRecord:
    return await tokens.operations.perform(
        "burn", tokens.wallet, ADMIN, {"mint": mint, "amount": amount}
    )


async def revoke(tokens: TokenBench, mint: Any, kind: Any = "mint") -> TransactionRecord:
    operations = tokens.operations
    return await operations.perform(
        "revoke_authority", tokens.wallet, ADMIN, {"mint": mint, "authorityType": kind}
    )


async def close(tokens: TokenBench, mint: Any) -> TransactionRecord:
    return await tokens.operations.perform("close_account", tokens.wallet, ADMIN, {"mint": mint})


@both_programs
async def test_lamports_sent_to_the_address_before_do_not_stop_minting(
    tokens: TokenBench, program: Pubkey
) -> None:
    mint = await tokens.mint(program)
    account = Pubkey.from_string(tokens.account(mint, program))
    payer = tokens.stranger.pubkey()
    gift = TransferParams(from_pubkey=payer, to_pubkey=account, lamports=1_000_000)
    await tokens.land([transfer(gift)])
    before = await tokens.lamports()
    await mint_supply(tokens, mint, 1)
    assert await tokens.units(mint) == 1_000_000
    rent = RENT if program == TOKEN else RENT_2022
    assert before - await tokens.lamports() == rent - 1_000_000 + FEE


async def test_an_account_of_a_mint_with_many_extensions_costs_the_rent_of_its_own_size(
    tmp_path: Path,
) -> None:
    key = bytes(Keypair().pubkey())
    extensions = (
        b"\x1a\x00" + b"\x00\x00" + struct.pack("<HQ", 10, 100),  # a transfer fee
        b"\x20",  # not transferable
        b"\x24\x00" + key + bytes(32),  # a transfer hook
        b"\x2c\x00" + key,  # pausable
    )
    space = 166 + (4 + 108) + (4 + 0) + (4 + 64) + (4 + 33)
    async with open_tokens(tmp_path) as tokens:
        mint = await tokens.mint(TOKEN_2022, space=space, extensions=extensions)
        assert sorted((await tokens.read(mint)).extensions) == [1, 9, 14, 26]
        before = await tokens.lamports()
        await mint_supply(tokens, mint, 1)
        rent = await tokens.bench.lamports(tokens.account(mint, TOKEN_2022))
        assert rent > RENT_2022
        assert before - await tokens.lamports() == rent + FEE


@promise("arrivals-are-the-wallets")
async def test_what_a_plugin_buys_is_of_no_mint_that_somebody_may_take(tmp_path: Path) -> None:
    """The wallet pays 1 SOL, and mints what it says it bought; a stranger may take it at once."""
    async with open_tokens(tmp_path) as tokens:
        permanent = b"\x23" + bytes(tokens.stranger.pubkey())
        mint = await tokens.mint(TOKEN_2022, space=166 + 4 + 32, extensions=(permanent,))
        await mint_supply(tokens, mint, 1)
        account = tokens.account(mint, TOKEN_2022)
        minted = mint_to_checked(
            MintToCheckedParams(
                program_id=TOKEN_2022,
                mint=Pubkey.from_string(mint),
                dest=Pubkey.from_string(account),
                mint_authority=tokens.owner,
                amount=5,
                decimals=6,
            )
        )
        paid = pay_sol(tokens.owner, tokens.stranger.pubkey(), 10**9)
        for type_ in ("swap", "other"):
            intent = Intent(
                type_,
                tokens.address,
                lamports_out=10**9,
                tokens_in={mint: 5},
                destinations=frozenset({str(tokens.stranger.pubkey())}),
            )
            with pytest.raises(GuardrailBlocked, match="permanent delegate"):
                await tokens.operations.transact(tokens.wallet, ADMIN, intent, [paid, minted], None)


@both_programs
async def test_a_supply_can_be_filled_to_the_last_unit_and_no_further(
    tokens: TokenBench, program: Pubkey
) -> None:
    mint = await tokens.mint(program, units=2**64 - 11, decimals=0)
    call = mint_supply(tokens, mint, 11)
    await tokens.refuses(call, r"^amount is larger than the ledger can hold: at most 10 more")
    await mint_supply(tokens, mint, 10)
    assert (await tokens.read(mint)).supply == 2**64 - 1


async def test_what_is_minted_must_arrive(tokens: TokenBench) -> None:
    mint = await tokens.mint()
    draft = await plan_mint_supply(
        tokens.address,
        ledger=tokens.bench.ledger,
        tokens=token_list("localnet"),
        mint=mint,
        amount=1,
        decimals=None,
    )
    assert draft.intent.tokens_in == {mint: 1_000_000}


@promise("mint-decimals-must-match")
@both_programs
async def test_decimals_that_are_not_the_mints_are_refused_naming_both(
    tokens: TokenBench, program: Pubkey
) -> None:
    mint = await tokens.mint(program)
    call = mint_supply(tokens, mint, 1, decimals=9)
    await tokens.refuses(call, f"^decimals is 9, but the mint {mint} has 6 decimals")
    for bad in (-1, 256, True, "6", Decimal("6.5"), Decimal("NaN"), Decimal("1e999999999")):
        await tokens.refuses(mint_supply(tokens, mint, 1, decimals=bad), "^decimals must be")


BAD_AMOUNTS = (
    0, -1, True, "5", None, Decimal("NaN"), Decimal("Infinity"), Decimal("1e999999999"),
    Decimal("0.0000001"), 2**64,
)  # fmt: skip


async def test_what_is_no_amount_is_neither_minted_nor_burned(tokens: TokenBench) -> None:
    mint = await tokens.mint(units=5_000_000)
    for amount in BAD_AMOUNTS:
        await tokens.refuses(mint_supply(tokens, mint, amount), "^amount ")
        await tokens.refuses(burn(tokens, mint, amount), "^amount ")
    assert await tokens.units(mint) == 5_000_000


@both_programs
async def test_what_is_no_mint_is_refused_by_every_operation(
    tokens: TokenBench, program: Pubkey
) -> None:
    mint = await tokens.mint(program, units=1)
    account = tokens.account(mint, program)
    for bad in (account, str(Keypair().pubkey()), tokens.address, "NOSUCH", "", 5, None, True):
        calls = [mint_supply(tokens, bad, 1), burn(tokens, bad, 1), revoke(tokens, bad)]
        # An account is closed by its own address too.
        calls += [] if bad == account else [close(tokens, bad)]
        for call in calls:
            await tokens.refuses(call, "^mint (is required and )?must be ")


@both_programs
async def test_without_the_authority_nothing_is_minted_or_revoked(
    tokens: TokenBench, program: Pubkey
) -> None:
    theirs = await tokens.mint(program, ours=False)
    holder = str(tokens.stranger.pubkey())
    for kind, call in (
        ("mint", mint_supply(tokens, theirs, 1)),
        ("mint", revoke(tokens, theirs)),
        ("freeze", revoke(tokens, theirs, "freeze")),
    ):
        text = f"^mint: the {kind} authority of {theirs} is {holder}, not this wallet"
        await tokens.refuses(call, text)


@both_programs
@pytest.mark.parametrize("kind", ["mint", "freeze"])
async def test_a_revoked_authority_is_gone_and_the_other_stays(
    tokens: TokenBench, program: Pubkey, kind: str
) -> None:
    mint = await tokens.mint(program)
    record = await revoke(tokens, mint, kind)
    assert (record.type, record.status) == ("revoke_authority", TransactionStatus.CONFIRMED)
    assert record.details == {"mint": mint, "authorityType": kind}
    found = await tokens.read(mint)
    left = {"mint": found.mint_authority, "freeze": found.freeze_authority}
    assert left == {"mint": tokens.address, "freeze": tokens.address} | {kind: None}
    with pytest.raises(InvalidRequest, match=f"nobody has the {kind} authority"):
        await revoke(tokens, mint, kind)
    if kind == "mint":
        with pytest.raises(InvalidRequest, match="nobody has the mint authority"):
            await mint_supply(tokens, mint, 1)
    assert len(await tokens.bench.history()) == 1


async def test_another_authority_is_refused(tokens: TokenBench) -> None:
    mint = await tokens.mint()
    for kind in ("owner", "close", "MINT", "", 1, True, ["mint"]):
        await tokens.refuses(revoke(tokens, mint, kind), "^authorityType must be mint or freeze")


async def test_a_burn_takes_from_the_associated_account_first_and_no_more_than_all_hold(
    tokens: TokenBench,
) -> None:
    mint = await tokens.mint(units=3_000_000, ours=False)
    second = await tokens.another_account(mint)
    await tokens.fund(mint, 4_000_000, account=second)
    text = f"^amount is more than the 7 of {mint} the wallet holds"
    await tokens.refuses(burn(tokens, mint, Decimal("7.000001")), text)
    await burn(tokens, mint, 5)
    assert await tokens.accounts(mint) == {tokens.account(mint): 0, second: 2_000_000}
    await burn(tokens, mint, 2)
    assert (await tokens.read(mint)).supply == 0


@both_programs
async def test_a_wallet_without_an_account_neither_burns_nor_closes(
    tokens: TokenBench, program: Pubkey
) -> None:
    mint = await tokens.mint(program)
    for call in (burn(tokens, mint, 1), close(tokens, mint)):
        await tokens.refuses(call, f"^mint: the wallet has no token account of {mint}")


@promise("burn-and-close-fields")
@both_programs
async def test_an_empty_account_is_closed_and_its_rent_comes_back(
    tokens: TokenBench, program: Pubkey
) -> None:
    mint = await tokens.mint(program, units=1_500_000)
    text = f"^mint: the wallet's token account still holds 1.5 of {mint}; burn or swap"
    await tokens.refuses(close(tokens, mint), text)
    await burn(tokens, mint, Decimal("1.5"))
    account = tokens.account(mint, program)
    rent, before = await tokens.bench.lamports(account), await tokens.lamports()
    record = await close(tokens, mint)
    assert (record.type, record.status) == ("close_account", TransactionStatus.CONFIRMED)
    back = Decimal(rent).scaleb(-9).normalize()
    assert record.details == {"mint": mint, "account": account, "reclaimed": back}
    assert await tokens.bench.lamports(account) == 0
    assert await tokens.lamports() - before == rent - FEE
    with pytest.raises(InvalidRequest, match="has no token account"):
        await close(tokens, mint)


async def test_the_empty_one_of_two_accounts_is_closed(tokens: TokenBench) -> None:
    mint = await tokens.mint(units=5, ours=False)
    second = await tokens.another_account(mint)
    assert (await close(tokens, mint)).details["account"] == second
    assert list((await tokens.accounts(mint)).values()) == [5]


async def test_wrapped_sol_is_neither_burned_nor_closed_with_sol_in_it(tmp_path: Path) -> None:
    async with open_tokens(tmp_path, genesis=genesis_accounts) as tokens:
        await tokens.fund(WRAPPED_SOL_MINT, 0)
        await tokens.refuses(burn(tokens, "SOL", 1), "^mint: wrapped SOL cannot be burned; unwrap")
        await tokens.bench.transfer(Decimal("0.5"), to=tokens.account(WRAPPED_SOL_MINT))
        # Not synced: the account still says it is empty, and all its SOL comes back.
        assert (await close(tokens, WRAPPED_SOL_MINT)).details["reclaimed"] == Decimal(
            "0.5"
        ) + Decimal(RENT).scaleb(-9)


ASKED: list[tuple[str, Callable[[TokenBench, str], Awaitable[Any]], dict[str, Any]]] = [
    ("mint_supply", lambda tokens, mint: mint_supply(tokens, mint, 3), {"amount": 3}),
    ("burn", lambda tokens, mint: burn(tokens, mint, 1), {"amount": 1}),
    ("revoke_authority", lambda tokens, mint: revoke(tokens, mint), {"authorityType": "mint"}),
    ("close_account", lambda tokens, mint: close(tokens, mint), {}),
]


@pytest.mark.parametrize(("kind", "ask", "details"), ASKED, ids=[each[0] for each in ASKED])
async def test_a_ledger_that_is_away_makes_a_failed_record_of_what_was_asked(
    tokens: TokenBench, kind: str, ask: Callable[[TokenBench, str], Awaitable[Any]], details: Any
) -> None:
    mint = await tokens.mint(units=1_000_000)
    first = "getTokenAccountsByOwner" if kind == "close_account" else "getAccountInfo"
    for method in (first, "simulateTransaction"):
        if kind == "close_account" and method == "simulateTransaction":
            tokens.bench.wire.faults.clear()
            await burn(tokens, mint, 1)
        tokens.bench.wire.faults.clear()
        tokens.bench.wire.away(method)
        with pytest.raises(TransactionFailed, match=f"did not answer {method}"):
            await ask(tokens, mint)
        newest = (await tokens.bench.history())[0]
        assert (newest.type, newest.status) == (kind, TransactionStatus.FAILED)
        assert newest.details.items() >= ({"mint": mint} | details).items()

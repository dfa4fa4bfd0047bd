from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import (
    TransferParams,
    transfer,
)
from spl.token.instructions import (
    create_idempotent_associated_token_account,
    get_associated_token_address,
    transfer_checked,
)
from spl.token.models import TransferCheckedParams
from tests.promises import promise
from tests.support.tokens import (
    FEE,
    RENT,
    TOKEN,
    TOKEN_2022,
    TokenBench,
    open_tokens,
)

from solward.operations.tokens import plan_transfer_token
from solward.solana.token_list import token_list
from solward.solana.tokens import transfer_fee
from solward.types.errors import GuardrailBlocked, InvalidRequest, TransactionFailed
from solward.types.guardrail import Intent
from solward.types.record import TransactionRecord, TransactionStatus, TransactionType
from solward.vault.guardrails.rules import Policy, ScopeLimits
from solward.vault.money.request import ADMIN
from solward_localnet.market import POOLS, genesis_accounts

USDC = str(POOLS[0].mint)


async def send(tokens: TokenBench, mint: Any, to: Any, amount: Any) -> TransactionRecord:
    operations = tokens.operations
    return await operations.perform(
        "transfer_token", tokens.wallet, ADMIN, {"mint": mint, "to": to, "amount": amount}
    )


def associated(owner: str, mint: str, program: Pubkey = TOKEN) -> str:
    at = Pubkey.from_string(mint)
    return str(get_associated_token_address(Pubkey.from_string(owner), at, program))


async def test_a_token_account_of_the_mint_receives_itself_and_no_other_is_opened(
    tokens: TokenBench,
) -> None:
    mint = await tokens.mint(units=5_000_000)
    # Its owner has no private key, as a program's vault has none.
    vault, _ = Pubkey.find_program_address([b"vault"], TOKEN)
    account = await tokens.another_account(mint, str(vault))
    before = await tokens.lamports()
    record = await send(tokens, mint, account, 2)
    assert (record.details["to"], record.details["account"]) == (account, account)
    assert await tokens.accounts(mint, str(vault)) == {account: 2_000_000}
    assert before - await tokens.lamports() == FEE


async def test_all_that_several_accounts_hold_can_be_sent_and_not_a_unit_more(
    tokens: TokenBench,
) -> None:
    mint = await tokens.mint(units=3_000_000, ours=False)
    second = await tokens.another_account(mint)
    await tokens.fund(mint, 4_000_000, account=second)
    to = str(Keypair().pubkey())
    text = f"^amount is more than the 7 of {mint} the wallet holds"
    await tokens.refuses(send(tokens, mint, to, Decimal("7.000001")), text)
    await send(tokens, mint, to, 5)
    assert await tokens.accounts(mint) == {tokens.account(mint): 0, second: 2_000_000}
    await send(tokens, mint, to, 2)
    assert await tokens.accounts(mint, to) == {associated(to, mint): 7_000_000}


async def test_a_symbol_names_its_mint_and_a_wallet_without_it_has_none_to_send(
    tmp_path: Path,
) -> None:
    async with open_tokens(tmp_path, genesis=genesis_accounts) as tokens:
        to = str(Keypair().pubkey())
        text = f"^mint: the wallet has no token account of {USDC}"
        await tokens.refuses(send(tokens, "usdc", to, 1), text)
        for bad in ("NOSUCH", "", 5, None, str(Keypair().pubkey()), tokens.address):
            await tokens.refuses(send(tokens, bad, to, 1), "^mint (is required and )?must be ")


async def test_wrapped_sol_is_refused_since_sol_limits_would_not_see_it(tokens: TokenBench) -> None:
    operations = tokens.operations
    await operations.perform("wrap_sol", tokens.wallet, ADMIN, {"amount": 1})
    with pytest.raises(InvalidRequest, match="unwrap it and send SOL"):
        await send(tokens, "SOL", str(Keypair().pubkey()), 1)


async def test_who_could_not_use_the_tokens_is_refused_as_a_receiver(tokens: TokenBench) -> None:
    mint = await tokens.mint(units=5_000_000)
    other = await tokens.mint(units=1)
    vault, _ = Pubkey.find_program_address([b"vault"], TOKEN)
    for to, text in (
        (tokens.address, "^to is this wallet itself"),
        (tokens.account(mint), "^to is this wallet itself"),
        (tokens.account(other), f"^to: .* is a token account of {other}"),
        (str(vault), "^to is an address without a private key"),
        (associated(str(Keypair().pubkey()), mint), "^to is an address without a private key"),
        (mint, f"^to: {mint} is the mint of a token"),
        ("nobody", "^to must be a base58 Solana address"),
        (None, "^to is required and must be a string"),
    ):
        await tokens.refuses(send(tokens, mint, to, 1), text)


async def test_an_associated_account_that_was_given_away_receives_nothing(
    tokens: TokenBench,
) -> None:
    mint = await tokens.mint(units=5_000_000, ours=False)
    to, thief = tokens.stranger.pubkey(), Keypair().pubkey()
    account = associated(str(to), mint)
    give = Instruction(
        TOKEN,
        b"\x06\x02\x01" + bytes(thief),
        [AccountMeta(Pubkey.from_string(account), False, True), AccountMeta(to, True, False)],
    )
    opening = create_idempotent_associated_token_account(to, to, Pubkey.from_string(mint), TOKEN)
    await tokens.land([opening, give])
    text = f"^to: the associated token account {account} was given away to {thief}"
    await tokens.refuses(send(tokens, mint, str(to), 1), text)


async def test_lamports_sent_to_the_receivers_account_before_do_not_stop_it(
    tokens: TokenBench,
) -> None:
    mint = await tokens.mint(units=5_000_000)
    to = str(Keypair().pubkey())
    gift = TransferParams(
        from_pubkey=tokens.stranger.pubkey(),
        to_pubkey=Pubkey.from_string(associated(to, mint)),
        lamports=1_000_000,
    )
    await tokens.land([transfer(gift)])
    before = await tokens.lamports()
    await send(tokens, mint, to, 1)
    assert before - await tokens.lamports() == RENT - 1_000_000 + FEE


# Always the same, so that both processes of a parallel run name the test alike.
KEY = bytes(Keypair.from_seed(bytes(range(32))).pubkey())


async def test_a_mint_whose_tokens_cannot_be_transferred_is_refused_by_name(
    tokens: TokenBench,
) -> None:
    mint = await tokens.mint(TOKEN_2022, space=166 + 4, extensions=[b"\x20"])
    call = send(tokens, mint, str(Keypair().pubkey()), 1)
    await tokens.refuses(call, f"^mint: {mint} has tokens that cannot be transferred")


# What an issuer keeps for itself, with the bytes each takes in a mint.
CLOSE_AUTHORITY = (b"\x19\x01" + KEY, 32)
FROZEN = (b"\x1c\x00\x02", 1)
DELEGATE = (b"\x23" + KEY, 32)
EMPTY_HOOK = (b"\x24\x00" + KEY + bytes(32), 64)
PAUSE = (b"\x2c\x00" + KEY, 33)
METADATA_POINTER = (b"\x27\x00" + KEY + KEY, 64)
CONFIDENTIAL = (b"\x1b\x00" + KEY + b"\x00" + bytes(32), 65)
CONFIDENTIAL_FEE = (b"\x25\x00" + KEY + bytes(32), 129)


def tax(bps: int, most: int) -> tuple[bytes, int]:
    """InitializeTransferFeeConfig, KEY having both authorities."""
    return b"\x1a\x00" + (b"\x01" + KEY) * 2 + struct.pack("<HQ", bps, most), 108


# PYUSD's on mainnet: it can be closed, taken back and taxed (at present with nothing), and has room
# for a hook's program.
PYUSD = (
    CLOSE_AUTHORITY, DELEGATE, tax(0, 0), CONFIDENTIAL, CONFIDENTIAL_FEE, EMPTY_HOOK,
    METADATA_POINTER,
)  # fmt: skip


async def mint_with(tokens: TokenBench, *extensions: tuple[bytes, int], units: int = 0) -> str:
    space = 166 + sum(4 + size for _, size in extensions)
    asked = [data for data, _ in extensions]
    return await tokens.mint(TOKEN_2022, units=units, space=space, extensions=asked)


@asynccontextmanager
async def allowing(folder: Path) -> AsyncIterator[tuple[TokenBench, set[str]]]:
    """A bench, and the mints that its operator allows in spite of what their issuers can do."""
    allowed: set[str] = set()
    policy = Policy(regulated_mints=cast("frozenset[str]", allowed))
    async with open_tokens(folder, policy=policy) as tokens:
        yield tokens, allowed


@promise("issuer-powers-refused")
@pytest.mark.parametrize(
    ("extension", "name"),
    [
        (DELEGATE, "a permanent delegate"),
        (EMPTY_HOOK, "a transfer hook"),
        (PAUSE, "a pause authority"),
    ],
    ids=["delegate", "hook without a program", "pause"],
)
async def test_a_mint_that_its_issuer_can_take_or_stop_is_refused_unless_the_operator_allows_it(
    tmp_path: Path, extension: tuple[bytes, int], name: str
) -> None:
    async with allowing(tmp_path) as (tokens, allowed):
        mint = await mint_with(tokens, extension, units=5_000_000)
        text = f"mint {mint} has {name}; REGULATED_MINTS can allow this mint"
        with pytest.raises(GuardrailBlocked, match=text) as blocked:
            await send(tokens, mint, str(Keypair().pubkey()), 1)
        assert blocked.value.rule == "simulated_effects"
        assert await tokens.units(mint) == 5_000_000
        allowed.add(mint)
        to = str(Keypair().pubkey())
        await send(tokens, mint, to, 2)
        assert await tokens.accounts(mint, to) == {associated(to, mint, TOKEN_2022): 2_000_000}


@promise("issuer-powers-refused")
async def test_accounts_frozen_at_first_need_the_issuers_thaw_and_the_operators_leave(
    tmp_path: Path,
) -> None:
    async with allowing(tmp_path) as (tokens, allowed):
        data, size = FROZEN
        mint = await tokens.mint(TOKEN_2022, ours=False, space=170 + size, extensions=[data])
        at, issuer = Pubkey.from_string(mint), tokens.stranger.pubkey()
        receiver = Keypair().pubkey()

        async def open_and_thaw(owner: Pubkey) -> None:
            account = Pubkey.from_string(associated(str(owner), mint, TOKEN_2022))
            accounts = [(account, False, True), (at, False, False), (issuer, True, False)]
            thaw = Instruction(TOKEN_2022, b"\x0b", [AccountMeta(*each) for each in accounts])
            opening = create_idempotent_associated_token_account(issuer, owner, at, TOKEN_2022)
            await tokens.land([opening, thaw])

        await open_and_thaw(tokens.owner)
        await tokens.fund(mint, 5_000_000, TOKEN_2022)
        allowed.add(mint)
        with pytest.raises(TransactionFailed, match="frozen"):
            await send(tokens, mint, str(receiver), 1)
        await open_and_thaw(receiver)
        allowed.clear()
        with pytest.raises(GuardrailBlocked, match="has accounts frozen by default"):
            await send(tokens, mint, str(receiver), 1)
        allowed.add(mint)
        await send(tokens, mint, str(receiver), 2)
        assert await tokens.units(mint) == 3_000_000


@promise("pyusd-where-allowed")
async def test_pyusd_is_sent_once_the_operator_allows_it(tmp_path: Path) -> None:
    async with allowing(tmp_path) as (tokens, allowed):
        mint = await mint_with(tokens, *PYUSD, units=25_000_000)
        assert sorted((await tokens.read(mint)).extensions) == [1, 3, 4, 12, 14, 16, 18]
        with pytest.raises(GuardrailBlocked, match="REGULATED_MINTS can allow this mint"):
            await send(tokens, mint, str(Keypair().pubkey()), 1)
        allowed.add(mint)
        to = str(Keypair().pubkey())
        record = await send(tokens, mint, to, Decimal("12.5"))
        assert record.status == TransactionStatus.CONFIRMED
        assert record.details["received"] == Decimal("12.5")
        assert await tokens.accounts(mint, to) == {associated(to, mint, TOKEN_2022): 12_500_000}
        assert await tokens.units(mint) == 12_500_000


@promise("hook-program-refused")
@pytest.mark.parametrize("allowed", [False, True])
async def test_a_hook_with_a_program_is_refused_even_where_the_operator_allows_the_mint(
    tmp_path: Path, allowed: bool
) -> None:
    async with allowing(tmp_path) as (tokens, named):
        mint = await mint_with(tokens, (b"\x24\x00" + KEY + KEY, 64), units=5_000_000)
        if allowed:
            named.add(mint)
        text = f"^mint: {mint} has a transfer hook, a program that each transfer must call"
        await tokens.refuses(send(tokens, mint, str(Keypair().pubkey()), 1), text)
        # A skill's own transaction does not ask the plan.
        source, to = tokens.account(mint, TOKEN_2022), str(tokens.stranger.pubkey())
        opening = create_idempotent_associated_token_account(
            tokens.stranger.pubkey(), tokens.stranger.pubkey(), Pubkey.from_string(mint), TOKEN_2022
        )
        await tokens.land([opening])
        move = transfer_checked(
            TransferCheckedParams(
                program_id=TOKEN_2022,
                source=Pubkey.from_string(source),
                mint=Pubkey.from_string(mint),
                dest=Pubkey.from_string(associated(to, mint, TOKEN_2022)),
                owner=tokens.owner,
                amount=1,
                decimals=6,
            )
        )
        intent = Intent(
            type=TransactionType.TOKEN_TRANSFER, wallet=tokens.address, tokens_out={mint: 1},
            destinations=frozenset({to, associated(to, mint, TOKEN_2022)}),
        )  # fmt: skip
        with pytest.raises((GuardrailBlocked, TransactionFailed)):
            await tokens.operations.transact(tokens.wallet, ADMIN, intent, [move], None)
        # To itself nothing moves and no hook is called, so the ledger would let it pass.
        accounts = [move.accounts[0], move.accounts[1], move.accounts[0], move.accounts[3]]
        itself = Instruction(TOKEN_2022, move.data, accounts)
        with pytest.raises(GuardrailBlocked, match=r"has a transfer hook$"):
            await tokens.operations.transact(
                tokens.wallet, ADMIN, replace(intent, type="other", tokens_out={}), [itself], None
            )
        assert await tokens.units(mint) == 5_000_000


@promise("transfer-fee-counted")
async def test_of_a_mint_with_a_fee_all_that_leaves_counts_and_the_details_say_what_arrives(
    tmp_path: Path,
) -> None:
    limits: dict[str, int] = {}
    async with open_tokens(tmp_path, limits=ScopeLimits(daily_tokens=limits)) as tokens:
        mint = await mint_with(tokens, tax(150, 1_000_000), units=9_000_001)
        limits[mint] = 3_000_000
        to = str(Keypair().pubkey())
        record = await send(tokens, mint, to, 2)
        assert (record.details["amount"], record.details["received"]) == (2, Decimal("1.97"))
        account = associated(to, mint, TOKEN_2022)
        assert await tokens.accounts(mint, to) == {account: 1_970_000}
        assert await tokens.units(mint) == 7_000_001
        # Gross: 1 of 3 is left, not 1.03.
        with pytest.raises(GuardrailBlocked, match="more than the 1 left of the 3") as blocked:
            await send(tokens, mint, to, Decimal("1.000001"))
        assert blocked.value.rule == "daily_limit"
        limits.clear()
        # Rounded up, and never more than the most.
        record = await send(tokens, mint, to, Decimal("0.000002"))
        assert record.details["received"] == Decimal("0.000001")
        assert await tokens.accounts(mint, to) == {account: 1_970_001}
        text = "^amount is too small: the mint's transfer fee takes all of it"
        await tokens.refuses(send(tokens, mint, to, Decimal("0.000001")), text)


@promise("other-fee-moves-nothing")
async def test_a_transfer_that_states_another_fee_than_the_mints_moves_nothing(
    tokens: TokenBench,
) -> None:
    authority = tokens.stranger.pubkey()
    config = b"\x1a\x00" + (b"\x01" + bytes(authority)) * 2 + struct.pack("<HQ", 100, 10**9)
    mint = await mint_with(tokens, (config, 108), units=5_000_000)
    found = await tokens.read(mint)
    planned = await plan_transfer_token(
        tokens.address,
        ledger=tokens.bench.ledger,
        tokens=token_list("localnet"),
        mint=mint,
        to=str(Keypair().pubkey()),
        amount=1,
    )
    # As if the fee had been another when it was planned.
    assert transfer_fee(found, 1_000_000, 0) == 10_000
    move = planned.instructions[-1]
    assert move.data == struct.pack("<2sQBQ", b"\x1a\x01", 1_000_000, 6, 10_000)
    wrong = Instruction(move.program_id, move.data[:-8] + struct.pack("<Q", 9_999), move.accounts)
    lied = replace(planned, instructions=(*planned.instructions[:-1], wrong))
    with pytest.raises(TransactionFailed):
        await tokens.bench.engine.execute(tokens.wallet, ADMIN, lied)
    assert await tokens.units(mint) == 5_000_000
    await tokens.bench.engine.execute(tokens.wallet, ADMIN, planned)
    assert await tokens.units(mint) == 4_000_000


@pytest.mark.parametrize("named", ["owner", "account"])
async def test_a_blocked_receiver_gets_nothing_by_owner_or_by_token_account(
    tmp_path: Path, named: str
) -> None:
    owner = str(Keypair().pubkey())
    async with open_tokens(tmp_path, blocked=frozenset({owner})) as tokens:
        mint = await tokens.mint(units=5_000_000)
        to = owner if named == "owner" else await tokens.another_account(mint, owner)
        with pytest.raises(GuardrailBlocked) as blocked:
            await send(tokens, mint, to, 1)
        assert blocked.value.rule == "blocked_address"
        assert owner in str(blocked.value)


async def test_where_the_ledger_is_away_a_failed_record_tells_what_was_asked(
    tokens: TokenBench,
) -> None:
    mint = await tokens.mint(units=5_000_000)
    tokens.bench.wire.away("getAccountInfo")
    to = str(Keypair().pubkey())
    with pytest.raises(TransactionFailed, match="did not answer"):
        await send(tokens, mint, to, 1)
    (record,) = await tokens.bench.history()
    assert record.details == {"from": tokens.address, "to": to, "mint": mint, "amount": 1}

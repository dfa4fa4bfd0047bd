"""What strangers put beside a wallet stops nothing of the wallet's own."""

from __future__ import annotations

import struct
from decimal import Decimal

import pytest
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import (
    CreateAccountParams,
    CreateAccountWithSeedParams,
    TransferParams,
    TransferWithSeedParams,
    WithdrawNonceAccountParams,
    create_account,
    create_account_with_seed,
    transfer,
    transfer_with_seed,
    withdraw_nonce_account,
)
from spl.token.instructions import (
    close_account,
    create_idempotent_associated_token_account,
    get_associated_token_address,
    sync_native,
    transfer_checked,
)
from spl.token.instructions import transfer as unchecked_transfer
from spl.token.models import CloseAccountParams, SyncNativeParams, TransferCheckedParams
from spl.token.models import TransferParams as TokenTransferParams
from tests.promises import promise
from tests.support.engine import RENT_SYSVAR, STAKE, by_hand, locked_stake
from tests.support.tokens import TOKEN, TOKEN_2022, TokenBench

from solward.context import PocketRequest
from solward.solana.balances import balances_of
from solward.solana.foreign_rights import foreign_rights
from solward.solana.programs import (
    CLOCK_SYSVAR,
    INCINERATOR,
    STAKE_HISTORY_SYSVAR,
    SYSTEM_PROGRAM,
    WRAPPED_SOL_MINT,
)
from solward.solana.protocol import Stake, System
from solward.solana.stakes import read_stakes
from solward.solana.token_list import token_list
from solward.types.errors import InvalidRequest, SolwardError
from solward.types.guardrail import Intent
from solward.types.record import TransactionRecord, TransactionStatus
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

    ledger = tokens.bench.ledger
    holdings = await ledger.holdings(tokens.address)
    shown = balances_of(await ledger.balance(tokens.address), holdings, known, empty=True)
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


NOBODY = Pubkey.from_string(INCINERATOR)
LAMPORTS = 10**7
SYSTEM = Pubkey.from_string(SYSTEM_PROGRAM)
MULTISIG = bytes([2, 1])


async def made(tokens: TokenBench, space: int, owner: Pubkey, data: bytes = b"") -> Pubkey:
    """A stranger's account of a program, initialised with `data` where there is some."""
    account, payer = Keypair(), tokens.stranger.pubkey()
    create = create_account(
        CreateAccountParams(
            from_pubkey=payer,
            to_pubkey=account.pubkey(),
            lamports=10 * LAMPORTS,
            space=space,
            owner=owner,
        )
    )
    rent = AccountMeta(RENT_SYSVAR, False, False)
    metas = [AccountMeta(account.pubkey(), False, True), rent, AccountMeta(payer, False, False)]
    instructions = [create, Instruction(owner, data, metas)] if data else [create]
    await tokens.land(instructions, account)
    return account.pubkey()


async def multisig(tokens: TokenBench) -> Pubkey:
    return await made(tokens, 355, TOKEN, MULTISIG)


async def what_cannot_spend(tokens: TokenBench, which: str) -> Pubkey:
    match which:
        case "a mint":
            return Pubkey.from_string(await tokens.mint())
        case "a multisig of":
            return await multisig(tokens)
        case "an account without tokens":
            return await made(tokens, 165, TOKEN)
        case "which is not a program":
            return await made(tokens, 10, Keypair().pubkey())
        case "destroys what it receives":
            return NOBODY
    raise AssertionError(which)


SAID = {"a mint": "is the mint of a token"}


@promise("recipients-can-spend")
@pytest.mark.parametrize(
    "which",
    [
        "a mint",
        "a multisig of",
        "an account without tokens",
        "which is not a program",
        "destroys what it receives",
    ],
)
async def test_sol_reaches_nothing_that_cannot_spend_it_by_any_instruction(
    tokens: TokenBench, which: str
) -> None:
    wallet, to = tokens.owner, await what_cannot_spend(tokens, which)
    stake = Pubkey.from_string(await locked_stake(tokens.bench, epoch=0))
    held = Pubkey.create_with_seed(wallet, "held", SYSTEM)
    nonce = Pubkey.create_with_seed(wallet, "nonce", SYSTEM)
    create = CreateAccountWithSeedParams(
        from_pubkey=wallet,
        to_pubkey=nonce,
        base=wallet,
        seed="nonce",
        lamports=10 * LAMPORTS,
        space=80,
        owner=SYSTEM,
    )
    recent = Pubkey.from_string("SysvarRecentB1ockHashes11111111111111111111")
    await by_hand(
        tokens.bench,
        transfer(TransferParams(from_pubkey=wallet, to_pubkey=held, lamports=5 * LAMPORTS)),
        create_account_with_seed(create),
        Instruction(
            SYSTEM,
            struct.pack("<I", System.INITIALIZE_NONCE) + bytes(wallet),
            [
                AccountMeta(nonce, False, True),
                AccountMeta(recent, False, False),
                AccountMeta(RENT_SYSVAR, False, False),
            ],
        ),
    )
    signs, receives = AccountMeta(wallet, True, False), AccountMeta(to, False, True)
    sysvars = [
        AccountMeta(Pubkey.from_string(each), False, False)
        for each in (CLOCK_SYSVAR, STAKE_HISTORY_SYSVAR)
    ]
    ways = {
        "transfer": transfer(TransferParams(from_pubkey=wallet, to_pubkey=to, lamports=LAMPORTS)),
        "with seed": transfer_with_seed(
            TransferWithSeedParams(
                from_pubkey=held,
                from_base=wallet,
                from_seed="held",
                from_owner=SYSTEM,
                to_pubkey=to,
                lamports=LAMPORTS,
            )
        ),
        "of a nonce": withdraw_nonce_account(
            WithdrawNonceAccountParams(
                nonce_pubkey=nonce, authorized_pubkey=wallet, to_pubkey=to, lamports=LAMPORTS
            )
        ),
        "of a stake": Instruction(
            STAKE,
            struct.pack("<IQ", Stake.WITHDRAW, LAMPORTS),
            [AccountMeta(stake, False, True), receives, *sysvars, signs],
        ),
    }
    for instruction in ways.values():
        intent = Intent("other", tokens.address, LAMPORTS, destinations=frozenset({str(to)}))
        execute = tokens.bench.engine.execute(tokens.wallet, ADMIN, Draft(intent, (instruction,)))
        await tokens.refuses(execute, f"^recipient: .*{SAID.get(which, which)}")
    await tokens.refuses(
        does(tokens, "transfer", to=str(to), amount=Decimal("0.01")),
        f"^to: .*{SAID.get(which, which)}",
    )

    async def build(pocket: str) -> list[Instruction]:
        paid = TransferParams(
            from_pubkey=Pubkey.from_string(pocket), to_pubkey=to, lamports=LAMPORTS
        )
        return [transfer(paid)]

    async def closes(pocket: str) -> list[Instruction]:
        owner, mint = Pubkey.from_string(pocket), Pubkey.from_string(WRAPPED_SOL_MINT)
        account = get_associated_token_address(owner, mint)
        fills = TransferParams(from_pubkey=owner, to_pubkey=account, lamports=LAMPORTS)
        closing = CloseAccountParams(program_id=TOKEN, account=account, dest=to, owner=owner)
        opening = create_idempotent_associated_token_account(owner, owner, mint, TOKEN)
        return [opening, transfer(fills), close_account(closing)]

    before = await tokens.bench.lamports(str(to))
    for calls in (build, closes):
        request = PocketRequest(build=calls, lamports=5 * LAMPORTS)
        with pytest.raises(SolwardError, match=SAID.get(which, which)):
            await tokens.operations.use_pocket(tokens.wallet, ADMIN, request)
    assert await tokens.bench.lamports(str(to)) == before


@promise("recipients-can-spend")
@pytest.mark.parametrize("owner", [Keypair().pubkey(), TOKEN], ids=["no program", "no tokens"])
async def test_no_account_is_made_that_nobody_could_spend_from(
    tokens: TokenBench, owner: Pubkey
) -> None:
    lost = Pubkey.create_with_seed(tokens.owner, "lost", owner)
    create = CreateAccountWithSeedParams(
        from_pubkey=tokens.owner,
        to_pubkey=lost,
        base=tokens.owner,
        seed="lost",
        lamports=LAMPORTS,
        space=0,
        owner=owner,
    )
    intent = Intent("other", tokens.address, LAMPORTS, destinations=frozenset({str(lost)}))
    draft = Draft(intent, (create_account_with_seed(create),))
    said = "is an account without tokens" if owner == TOKEN else "which is not a program"
    await tokens.refuses(
        tokens.bench.engine.execute(tokens.wallet, ADMIN, draft), f"^recipient: .*{said}"
    )


@promise("recipients-can-spend")
@pytest.mark.parametrize("is_open", [True, False], ids=["open", "opened with it"])
@pytest.mark.parametrize("which", ["a program", "a mint", "the incinerator", "a token account"])
async def test_no_tokens_reach_an_account_whose_owner_cannot_spend_them(
    tokens: TokenBench, which: str, is_open: bool
) -> None:
    mint = await tokens.mint(units=5_000_000, ours=False)
    owners = {
        "a program": TOKEN,
        "a mint": Pubkey.from_string(mint),
        "the incinerator": NOBODY,
        "a token account": Pubkey.from_string(await tokens.another_account(await tokens.mint())),
    }
    owner = owners[which]
    draft, account = sends(tokens, mint, owner)
    if is_open:
        opening = create_idempotent_associated_token_account(
            tokens.stranger.pubkey(), owner, Pubkey.from_string(mint), TOKEN
        )
        await tokens.land([opening])
        # The owner stands nowhere in the message.
        draft = Draft(draft.intent, draft.instructions[1:])
        call = does(tokens, "transfer_token", mint=mint, to=account, amount=1)
        await tokens.refuses(call, f"^to: {owner} ")
    execute = tokens.bench.engine.execute(tokens.wallet, ADMIN, draft)
    await tokens.refuses(execute, f"^recipient: {owner} ")


def sends(tokens: TokenBench, mint: str, owner: Pubkey) -> tuple[Draft, str]:
    """A unit to an owner's associated account, opened first; and that account."""
    at = Pubkey.from_string(mint)
    account = get_associated_token_address(owner, at)
    params = TransferCheckedParams(
        program_id=TOKEN,
        source=Pubkey.from_string(tokens.account(mint)),
        mint=at,
        dest=account,
        owner=tokens.owner,
        amount=1,
        decimals=6,
    )
    opening = create_idempotent_associated_token_account(tokens.owner, owner, at, TOKEN)
    intent = Intent(
        "other",
        tokens.address,
        rent_lamports=10**7,
        tokens_out={mint: 1},
        destinations=frozenset({str(account)}),
    )
    return Draft(intent, (opening, transfer_checked(params))), str(account)


@promise("recipients-can-spend")
async def test_no_tokens_of_a_pocket_reach_them_by_a_transfer_that_states_no_mint(
    tokens: TokenBench,
) -> None:
    to, mint = Pubkey.from_string(await tokens.mint()), Pubkey.from_string(WRAPPED_SOL_MINT)

    async def build(pocket: str) -> list[Instruction]:
        owner = Pubkey.from_string(pocket)
        source, dest = (get_associated_token_address(each, mint) for each in (owner, to))
        fills = TransferParams(from_pubkey=owner, to_pubkey=source, lamports=LAMPORTS)
        sends = TokenTransferParams(
            program_id=TOKEN, source=source, dest=dest, owner=owner, amount=LAMPORTS
        )
        opened = [
            create_idempotent_associated_token_account(owner, each, mint, TOKEN)
            for each in (owner, to)
        ]
        sync = sync_native(SyncNativeParams(program_id=TOKEN, account=source))
        return [*opened, transfer(fills), sync, unchecked_transfer(sends)]

    request = PocketRequest(build=build, lamports=5 * LAMPORTS)
    with pytest.raises(SolwardError, match=f"{to} is the mint of a token"):
        await tokens.operations.use_pocket(tokens.wallet, ADMIN, request)


@promise("recipients-can-spend")
async def test_a_multisig_of_the_token_program_gets_tokens(tokens: TokenBench) -> None:
    mint = await tokens.mint(units=5_000_000, ours=False)
    draft, _account = sends(tokens, mint, owner := await multisig(tokens))
    await tokens.bench.engine.execute(tokens.wallet, ADMIN, draft)
    assert sum((await tokens.accounts(mint, str(owner))).values()) == 1


@promise("recipients-can-spend")
async def test_a_friend_gets_wrapped_sol_as_often_as_it_is_sent(tokens: TokenBench) -> None:
    friend, mint = Keypair().pubkey(), Pubkey.from_string(WRAPPED_SOL_MINT)
    account = get_associated_token_address(friend, mint)
    opening = create_idempotent_associated_token_account(tokens.owner, friend, mint, TOKEN)
    pays = transfer(TransferParams(from_pubkey=tokens.owner, to_pubkey=account, lamports=LAMPORTS))
    sync = sync_native(SyncNativeParams(program_id=TOKEN, account=account))
    intent = Intent(
        "other",
        tokens.address,
        LAMPORTS,
        rent_lamports=10**7,
        destinations=frozenset({str(account)}),
    )
    unsynced = tokens.bench.engine.execute(tokens.wallet, ADMIN, Draft(intent, (opening, pays)))
    await tokens.refuses(unsynced, f"^recipient: {account} is a token account of {mint}")
    for times in (1, 2):
        draft = Draft(intent, (opening, pays, sync))
        record = await tokens.bench.engine.execute(tokens.wallet, ADMIN, draft)
        assert record.status is TransactionStatus.CONFIRMED
        assert await tokens.accounts(str(mint), str(friend)) == {str(account): times * LAMPORTS}

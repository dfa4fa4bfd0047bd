"""Plans for tokens of SPL Token and Token-2022: launch, mint, transfer, burn, give up authorities,
and close accounts.

Each plan reads the mint from the ledger first. So it refuses as bad input what the token program
would refuse, before a fee is paid.

Layouts: spl-token-2022-interface (MetadataPointer, instruction 39.0) and
spl-token-metadata-interface (Initialize, known by its eight-byte discriminator; TokenMetadata).

As with `spl-token transfer`, a recipient is a token account of the mint, or a wallet's address,
whose associated account is opened if missing. An address without a private key, or a program's
account, is refused, because tokens sent to it may be lost; its token account is accepted.
"""

from __future__ import annotations

import struct
from decimal import Decimal

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM_PROGRAM
from spl.token.constants import TOKEN_2022_PROGRAM_ID
from spl.token.instructions import (
    burn_checked,
    initialize_mint2,
    mint_to_checked,
    set_authority,
)
from spl.token.models import (
    AuthorityType,
    BurnCheckedParams,
    InitializeMint2Params,
    MintToCheckedParams,
    SetAuthorityParams,
)

from solward.operations.declared import (
    BURN,
    CLOSE_ACCOUNT,
    LAUNCH_TOKEN,
    MINT_SUPPLY,
    REVOKE_AUTHORITY,
    TRANSFER_TOKEN,
)
from solward.operations.plans import plans
from solward.operations.sol import parse_address
from solward.solana.accounts import max_rent, rent_now
from solward.solana.builders import (
    close_account,
    create_seeded,
    new_seed,
    open_associated,
    send_tokens,
)
from solward.solana.programs import TOKEN_2022_PROGRAM, TOKEN_PROGRAM, WRAPPED_SOL_MINT
from solward.solana.protocol import (
    TOKEN_METADATA_INITIALIZE,
    TOKEN_METADATA_POINTER_INITIALIZE,
    TOKEN_TRANSFER_CHECKED_WITH_FEE,
)
from solward.solana.token_list import TokenList
from solward.solana.tokens import (
    NON_TRANSFERABLE,
    TOKEN_METADATA_FIXED_BYTES,
    TRANSFER_FEE,
    Mint,
    associated_account_size,
    associated_address,
    check_recipient,
    current_epoch,
    read_mint,
    token_account,
    transfer_fee,
)
from solward.types.errors import InvalidRequest, NotEnough
from solward.types.guardrail import Intent
from solward.types.ledger import ReadLedger, TokenHolding
from solward.types.money import (
    U64_MAX,
    amount_text,
    from_units,
    lamports_to_sol,
    to_units,
)
from solward.types.record import TransactionType
from solward.vault.money.request import Draft

_AUTHORITIES = {"mint": AuthorityType.MINT_TOKENS, "freeze": AuthorityType.FREEZE_ACCOUNT}

# Sizes: a mint padded to an account's size, the account type, the pointer with its header.
_MINT_WITH_POINTER_BYTES = 166 + 4 + 64
# The extensions of a launched mint: metadata pointer and metadata.
_EXTENSIONS = (18, 19)

# Data of TransferCheckedWithFee: its two instruction numbers, then amount, decimals and fee.
_WITH_FEE = struct.Struct("<2sQBQ")


@plans(MINT_SUPPLY)
async def plan_mint_supply(
    wallet: str,
    *,
    ledger: ReadLedger,
    tokens: TokenList,
    mint: str,
    amount: Decimal | int,
    decimals: int | None,
) -> Draft:
    """Mint `amount` whole tokens to the wallet's associated account, which is opened if missing.

    Raises:
        InvalidRequest: the mint does not exist or has other `decimals`; the wallet is not its mint
            authority; `amount` is invalid, or the supply would exceed a u64.
        LedgerError: the ledger did not answer.
    """
    found = await _read_mint(ledger, tokens, mint)
    _check_decimals(decimals, found)
    units = to_units(amount, found.decimals, "amount")
    _check_authority(found, wallet, "mint")
    if found.supply + units > U64_MAX:
        room = amount_text(U64_MAX - found.supply, found.decimals)
        raise InvalidRequest(
            f"amount is larger than the ledger can hold: at most {room} more of {found.address}"
            " can be minted"
        )
    account = associated_address(wallet, found.address, found.program)
    state = await ledger.account(account)
    # Lamports that were sent to the address earlier do not open it.
    is_open = state is not None and state.owner == found.program
    opening = []
    # The owner of an existing account may have changed before the wallet was imported, so
    # CreateIdempotent checks it. Under Token-2022 the owner is immutable.
    if not is_open or found.program == TOKEN_PROGRAM:
        opening.append(open_associated(wallet, wallet, found.address, found.program))
    intent = Intent(
        type=TransactionType.MINT_SUPPLY,
        wallet=wallet,
        rent_lamports=0 if is_open else max_rent(associated_account_size(found)),
        tokens_in={found.address: units},
        details={
            "mint": found.address,
            "amount": from_units(units, found.decimals),
            "account": account,
        },
    )
    return Draft(intent, (*opening, _mint_to(wallet, found, account, units)))


@plans(BURN)
async def plan_burn(
    wallet: str, *, ledger: ReadLedger, tokens: TokenList, mint: str, amount: Decimal | int
) -> Draft:
    """Burn `amount` of the wallet's whole tokens, those of its associated account first.

    Raises:
        InvalidRequest: the mint does not exist, or its tokens cannot be burned; `amount` is
            invalid, or more than the wallet holds.
        LedgerError: the ledger did not answer.
    """
    found = await _read_mint(ledger, tokens, mint)
    if found.address == WRAPPED_SOL_MINT:
        raise InvalidRequest("mint: wrapped SOL cannot be burned; unwrap it instead")
    units = to_units(amount, found.decimals, "amount")
    taken = await _choose_accounts(ledger, wallet, found, units)
    intent = Intent(
        type=TransactionType.BURN,
        wallet=wallet,
        tokens_out={found.address: units},
        details={"mint": found.address, "amount": from_units(units, found.decimals)},
    )
    return Draft(intent, tuple(_burn_instruction(wallet, found, *each) for each in taken))


@plans(REVOKE_AUTHORITY)
async def plan_revoke_authority(
    wallet: str,
    *,
    ledger: ReadLedger,
    tokens: TokenList,
    mint: str,
    authority_type: str,
) -> Draft:
    """Give up a mint's mint authority or freeze authority for ever.

    Raises:
        InvalidRequest: the mint does not exist, or the wallet does not have the authority.
        LedgerError: the ledger did not answer.
    """
    found = await _read_mint(ledger, tokens, mint)
    _check_authority(found, wallet, authority_type)
    intent = Intent(
        type=TransactionType.REVOKE_AUTHORITY,
        wallet=wallet,
        may_revoke=frozenset({found.address}),
        details={"mint": found.address, "authorityType": authority_type},
    )
    revoke = SetAuthorityParams(
        program_id=Pubkey.from_string(found.program),
        account=Pubkey.from_string(found.address),
        authority=_AUTHORITIES[authority_type],
        current_authority=Pubkey.from_string(wallet),
        new_authority=None,
    )
    return Draft(intent, (set_authority(revoke),))


@plans(CLOSE_ACCOUNT)
async def plan_close_account(
    wallet: str, *, ledger: ReadLedger, tokens: TokenList, mint: str
) -> Draft:
    """Close an empty token account of the wallet; its rent comes back to the wallet.

    Args:
        mint: the address of the mint or of the account. The mint may no longer exist, since anybody
            can open an account for the wallet and then close its mint.

    Raises:
        InvalidRequest: the mint does not exist; the wallet has no account of it, or no empty one.
        LedgerError: the ledger did not answer.
    """
    given = tokens.resolve(mint, "mint")
    held = [each for each in await ledger.holdings(wallet) if given in (each.mint, each.account)]
    if not held:
        # If the mint is invalid, this raises the error that says so.
        held = await accounts_of(ledger, wallet, await read_mint(ledger, given))
    # Sorted: empty accounts first, and the associated account first among them.
    held.sort(key=lambda each: (each.units, not _is_associated(each, wallet), each.account))
    empty = held[0]
    if empty.units:
        balance = amount_text(sum(each.units for each in held), empty.decimals)
        way = "unwrap it" if empty.mint == WRAPPED_SOL_MINT else "burn or swap it first"
        raise InvalidRequest(
            f"mint: the wallet's token account still holds {balance} of {empty.mint}; {way}"
        )
    state = await ledger.account(empty.account)
    intent = Intent(
        type=TransactionType.CLOSE_ACCOUNT,
        wallet=wallet,
        may_close=frozenset({empty.account}),
        details={
            "mint": empty.mint,
            "account": empty.account,
            "reclaimed": lamports_to_sol(state.lamports if state else 0),
        },
    )
    return Draft(intent, (close_account(empty.account, empty.program, wallet, wallet),))


def _is_associated(holding: TokenHolding, wallet: str) -> bool:
    return holding.account == associated_address(wallet, holding.mint, holding.program)


def _mint_to(wallet: str, mint: Mint, account: str, units: int) -> Instruction:
    """Mint `units` to a token account; the wallet is the mint authority."""
    params = MintToCheckedParams(
        program_id=Pubkey.from_string(mint.program),
        mint=Pubkey.from_string(mint.address),
        dest=Pubkey.from_string(account),
        mint_authority=Pubkey.from_string(wallet),
        amount=units,
        decimals=mint.decimals,
    )
    return mint_to_checked(params)


async def _read_mint(ledger: ReadLedger, tokens: TokenList, given: str) -> Mint:
    return await read_mint(ledger, tokens.resolve(given, "mint"))


def _check_decimals(given: int | None, mint: Mint) -> None:
    if given is not None and given != mint.decimals:
        raise InvalidRequest(
            f"decimals is {given}, but the mint {mint.address} has {mint.decimals} decimals;"
            " amounts are whole tokens, so decimals may be absent"
        )


def _check_authority(mint: Mint, wallet: str, kind: str) -> None:
    holder = mint.mint_authority if kind == "mint" else mint.freeze_authority
    if holder is None:
        raise InvalidRequest(f"mint: nobody has the {kind} authority of {mint.address}")
    if holder != wallet:
        raise InvalidRequest(
            f"mint: the {kind} authority of {mint.address} is {holder}, not this wallet"
        )


async def accounts_of(ledger: ReadLedger, wallet: str, mint: Mint) -> list[TokenHolding]:
    """Return the wallet's accounts of a mint, the associated one first; raises `NotEnough`."""
    own = associated_address(wallet, mint.address, mint.program)
    held = [each for each in await ledger.holdings(wallet) if each.mint == mint.address]
    if not held:
        raise NotEnough(f"mint: the wallet has no token account of {mint.address}")
    return sorted(held, key=lambda each: (each.account != own, -each.units, each.account))


async def _choose_accounts(
    ledger: ReadLedger, wallet: str, mint: Mint, units: int
) -> list[tuple[TokenHolding, int]]:
    """Return token accounts, each with its share of `units`; raises `NotEnough`."""
    held = await accounts_of(ledger, wallet, mint)
    balance = sum(holding.units for holding in held)
    if units > balance:
        raise NotEnough(
            f"amount is more than the {amount_text(balance, mint.decimals)}"
            f" of {mint.address} the wallet holds"
        )
    taken = []
    for holding in held:
        moved = min(units, holding.units)
        if moved:
            units -= moved
            taken.append((holding, moved))
    return taken


def _burn_instruction(wallet: str, mint: Mint, holding: TokenHolding, units: int) -> Instruction:
    params = BurnCheckedParams(
        program_id=Pubkey.from_string(mint.program),
        account=Pubkey.from_string(holding.account),
        mint=Pubkey.from_string(mint.address),
        owner=Pubkey.from_string(wallet),
        amount=units,
        decimals=mint.decimals,
    )
    return burn_checked(params)


@plans(LAUNCH_TOKEN)
async def plan_launch_token(
    wallet: str,
    *,
    ledger: ReadLedger,
    name: str,
    symbol: str,
    decimals: int,
    initial_supply: Decimal | int,
) -> Draft:
    """Create a token with the wallet as mint and freeze authority, and mint its first supply.

    The mint's address is derived from the wallet and a random seed, so that the wallet's
    signature alone creates it.

    Raises:
        InvalidRequest: the supply is invalid.
        LedgerError: the ledger did not answer.
    """
    units = to_units(initial_supply, decimals, "initialSupply")
    owner, program = Pubkey.from_string(wallet), TOKEN_2022_PROGRAM_ID
    seed = new_seed()
    address = Pubkey.create_with_seed(owner, seed, program)
    mint = Mint(
        address=str(address),
        program=TOKEN_2022_PROGRAM,
        decimals=decimals,
        supply=0,
        mint_authority=wallet,
        freeze_authority=wallet,
        name=name,
        symbol=symbol,
        extensions=_EXTENSIONS,
    )
    account = associated_address(wallet, mint.address, mint.program)
    # Each text is preceded by its length; the last text is the URL of further metadata.
    encoded = (name.encode(), symbol.encode(), b"")
    texts = b"".join(len(each).to_bytes(4, "little") + each for each in encoded)
    # Writing the metadata enlarges the account, which must have the rent for the new size before.
    mint_rent = await rent_now(
        ledger, _MINT_WITH_POINTER_BYTES + TOKEN_METADATA_FIXED_BYTES + len(texts)
    )
    intent = Intent(
        type=TransactionType.TOKEN_LAUNCH,
        wallet=wallet,
        rent_lamports=mint_rent + max_rent(associated_account_size(mint)),
        tokens_in={mint.address: units},
        details={
            "mint": mint.address,
            "name": name,
            "symbol": symbol,
            "decimals": decimals,
            "supply": from_units(units, decimals),
            "account": account,
        },
    )
    return Draft(
        intent,
        (
            create_seeded(wallet, seed, mint.program, mint_rent, _MINT_WITH_POINTER_BYTES),
            Instruction(
                program,
                TOKEN_METADATA_POINTER_INITIALIZE + bytes(owner) + bytes(address),
                [AccountMeta(address, False, True)],
            ),
            initialize_mint2(
                InitializeMint2Params(
                    program_id=program,
                    mint=address,
                    decimals=decimals,
                    mint_authority=owner,
                    freeze_authority=owner,
                )
            ),
            _metadata_instruction(owner, address, texts),
            open_associated(wallet, wallet, mint.address, mint.program),
            _mint_to(wallet, mint, account, units),
        ),
    )


def _metadata_instruction(owner: Pubkey, mint: Pubkey, texts: bytes) -> Instruction:
    """Write name and symbol into the mint itself, where the wallet may change them later."""
    accounts = [
        AccountMeta(mint, False, True),
        AccountMeta(owner, False, False),
        AccountMeta(mint, False, False),
        AccountMeta(owner, True, False),
    ]
    return Instruction(TOKEN_2022_PROGRAM_ID, TOKEN_METADATA_INITIALIZE + texts, accounts)


@plans(TRANSFER_TOKEN)
async def plan_transfer_token(
    wallet: str,
    *,
    ledger: ReadLedger,
    tokens: TokenList,
    mint: str,
    to: str,
    amount: Decimal | int,
) -> Draft:
    """Transfer `amount` whole tokens, those of the wallet's associated account first.

    If the mint has a transfer fee, `amount` leaves and counts, and only `received` arrives.

    Args:
        mint: a mint address or a known symbol.
        to: a wallet's address, or a token account of the mint.

    Raises:
        InvalidRequest: no such mint, or its tokens cannot be transferred, as wrapped SOL; `amount`
            is invalid, more than the wallet holds, or no more than the mint's fee; `to` is the
            wallet itself, has no private key, or is an account that cannot hold the tokens.
        LedgerError: the ledger did not answer.
    """
    found = await read_mint(ledger, tokens.resolve(mint, "mint"))
    _check_mint(found)
    units = to_units(amount, found.decimals, "amount")
    recipient = parse_address(to, "to")
    owner, account = await _receiving_account(ledger, wallet, recipient, found)
    taken = await _choose_accounts(ledger, wallet, found, units)
    # The mint rounds its fee up in each transfer.
    epoch = await current_epoch(ledger) if TRANSFER_FEE in found.extensions else None
    moves = [
        (holding, moved, None if epoch is None else transfer_fee(found, moved, epoch))
        for holding, moved in taken
    ]
    received = sum(moved - (fee or 0) for _, moved, fee in moves)
    if received < 1:
        raise InvalidRequest("amount is too small: the mint's transfer fee takes all of it")
    rent = 0
    opening = []
    if account != str(recipient):
        # Added even if the account exists, because it checks that the receiver still owns it.
        opening.append(open_associated(wallet, owner, found.address, found.program))
        rent = await _opening_rent(ledger, owner, account, found)
    intent = Intent(
        type=TransactionType.TOKEN_TRANSFER,
        wallet=wallet,
        rent_lamports=rent,
        tokens_out={found.address: units},
        destinations=frozenset({str(recipient), owner, account}),
        details={
            "from": wallet,
            "to": str(recipient),
            "mint": found.address,
            "amount": from_units(units, found.decimals),
            "received": from_units(received, found.decimals),
            "account": account,
        },
    )
    transfers = (_transfer_instruction(wallet, found, account, *move) for move in moves)
    return Draft(intent, (*opening, *transfers))


def _check_mint(mint: Mint) -> None:
    if mint.address == WRAPPED_SOL_MINT:
        # If wrapped SOL was sent as a token, the limits of SOL would not count it.
        raise InvalidRequest("mint: wrapped SOL is not sent as a token; unwrap it and send SOL")
    if NON_TRANSFERABLE in mint.extensions:
        raise InvalidRequest(f"mint: {mint.address} has tokens that cannot be transferred")
    if mint.runs_hook:
        # The hook's program would be called with the wallet's signature.
        raise InvalidRequest(
            f"mint: {mint.address} has a transfer hook, a program that each transfer must call, so"
            " it cannot be sent"
        )


async def _receiving_account(
    ledger: ReadLedger, wallet: str, recipient: Pubkey, mint: Mint
) -> tuple[str, str]:
    """Return the receiving owner and its token account."""
    state = await ledger.account(str(recipient))
    check_recipient("to", str(recipient), state, mint.address)
    given = token_account(state)
    if given is not None:
        owner, account = given.owner, str(recipient)
    elif state is None and not recipient.is_on_curve():
        # The address may be that of a token account that is not open; a program's vault has SOL.
        raise InvalidRequest(
            "to is an address without a private key that nothing was sent to, so tokens there might"
            " never be spent; if it is a program's vault, name its token account of the mint"
        )
    elif state is not None and state.owner != str(SYSTEM_PROGRAM):
        raise InvalidRequest(
            f"to is an account of the program {state.owner}; expected a wallet's address or a"
            f" token account of {mint.address}"
        )
    else:
        owner = str(recipient)
        account = associated_address(owner, mint.address, mint.program)
    if owner == wallet:
        raise InvalidRequest("to is this wallet itself")
    return owner, account


async def _opening_rent(ledger: ReadLedger, owner: str, account: str, mint: Mint) -> int:
    """Return the maximum rent (lamports) to open the receiver's associated account; 0 if open."""
    existing = token_account(await ledger.account(account))
    if existing is None:
        # Lamports that were sent to the address earlier do not open it.
        return max_rent(associated_account_size(mint))
    if existing.owner != owner:
        raise InvalidRequest(
            f"to: the associated token account {account} was given away to {existing.owner}"
        )
    return 0


def _transfer_instruction(
    wallet: str, mint: Mint, account: str, holding: TokenHolding, units: int, fee: int | None
) -> Instruction:
    """Make a transfer of a holding's units; the mint withholds `fee`, None if it has no fee."""
    source, address, program = holding.account, mint.address, mint.program
    if fee is None:
        return send_tokens(address, program, mint.decimals, source, account, wallet, units)
    # The instruction states the fee, and fails if the mint's fee is another one when it lands.
    return Instruction(
        Pubkey.from_string(program),
        _WITH_FEE.pack(TOKEN_TRANSFER_CHECKED_WITH_FEE, units, mint.decimals, fee),
        [
            AccountMeta(Pubkey.from_string(source), is_signer=False, is_writable=True),
            AccountMeta(Pubkey.from_string(address), is_signer=False, is_writable=False),
            AccountMeta(Pubkey.from_string(account), is_signer=False, is_writable=True),
            AccountMeta(Pubkey.from_string(wallet), is_signer=True, is_writable=False),
        ],
    )

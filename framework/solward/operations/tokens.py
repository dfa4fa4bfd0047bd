"""Minting, burning, giving up authorities and closing accounts, of SPL Token and Token-2022 mints.

The mint is read from the ledger before anything is built, so what the token program would refuse
is refused as bad input, before a fee is paid.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from solders.instruction import Instruction
from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address

from solward.operations.declared.tokens import (
    BURN,
    CLOSE_ACCOUNT,
    MINT_SUPPLY,
    REVOKE_AUTHORITY,
)
from solward.operations.plans import plans
from solward.solana.instructions import TOKEN_AUTHORITIES
from solward.solana.programs import TOKEN_PROGRAM, WRAPPED_SOL_MINT
from solward.solana.token_instructions import (
    burn_checked,
    close_account,
    create_associated,
    mint_to_checked,
    revoke_authority,
)
from solward.solana.token_list import TokenList
from solward.solana.tokens import Mint, associated_account_size, read_mint
from solward.types.errors import InvalidRequest
from solward.types.guardrail import Intent
from solward.types.ledger import ReadLedger, TokenHolding
from solward.types.money import U64_MAX, format_amount, from_units, lamports_to_sol, to_units
from solward.types.record import TransactionType
from solward.vault.money.request import Draft

_AUTHORITIES = {name.removesuffix("_authority"): kind for kind, name in TOKEN_AUTHORITIES.items()}


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
    """Mint `amount` whole tokens to the wallet's associated account, opened where there is none.

    Raises:
        InvalidRequest: no such mint; `decimals` is not the mint's; the wallet is not its mint
            authority; the amount is none, or the supply would not fit a u64.
        LedgerError: the ledger did not answer.
    """
    found = await _mint(ledger, tokens, mint)
    _check_decimals(decimals, found)
    units = to_units(amount, found.decimals, "amount")
    _check_authority(found, wallet, "mint")
    if found.supply + units > U64_MAX:
        room = from_units(U64_MAX - found.supply, found.decimals)
        raise InvalidRequest(
            "amount is larger than the ledger can hold: at most"
            f" {format_amount(room)} more of {found.address} can be minted"
        )
    owner = Pubkey.from_string(wallet)
    account = associated_account(owner, found)
    rent, opening = await open_account(ledger, owner, found, account)
    if not opening and found.program == TOKEN_PROGRAM:
        # An existing one may have been given away before the wallet was imported: CreateIdempotent
        # checks its owner. Under Token-2022 the owner is immutable.
        opening = (_open_associated(owner, found),)
    intent = Intent(
        type=TransactionType.MINT_SUPPLY,
        wallet=wallet,
        rent_lamports=rent,
        tokens_in={found.address: units},
        details={
            "mint": found.address,
            "amount": from_units(units, found.decimals),
            "account": str(account),
        },
    )
    return Draft(intent, (*opening, mint_to(owner, found, account, units)))


@plans(BURN)
async def plan_burn(
    wallet: str, *, ledger: ReadLedger, tokens: TokenList, mint: str, amount: Decimal | int
) -> Draft:
    """Destroy `amount` whole tokens the wallet holds, from its associated account first.

    Raises:
        InvalidRequest: no such mint, or none a burn is possible of; the amount is none, or more
            than the wallet holds.
        LedgerError: the ledger did not answer.
    """
    found = await _mint(ledger, tokens, mint)
    if found.address == WRAPPED_SOL_MINT:
        raise InvalidRequest("mint: wrapped SOL cannot be burned; unwrap it instead")
    units = to_units(amount, found.decimals, "amount")
    held = await accounts_of(ledger, wallet, found)
    balance = sum(holding.units for holding in held)
    if units > balance:
        raise InvalidRequest(
            f"amount is more than the {format_amount(from_units(balance, found.decimals))}"
            f" of {found.address} the wallet holds"
        )
    intent = Intent(
        type=TransactionType.BURN,
        wallet=wallet,
        tokens_out={found.address: units},
        details={"mint": found.address, "amount": from_units(units, found.decimals)},
    )
    return Draft(intent, tuple(_burns(wallet, found, held, units)))


@plans(REVOKE_AUTHORITY)
async def plan_revoke_authority(
    wallet: str,
    *,
    ledger: ReadLedger,
    tokens: TokenList,
    mint: str,
    authority_type: str,
) -> Draft:
    """Give up the mint or freeze authority of a mint for ever.

    Raises:
        InvalidRequest: no such mint, or the wallet does not have the authority.
        LedgerError: the ledger did not answer.
    """
    found = await _mint(ledger, tokens, mint)
    _check_authority(found, wallet, authority_type)
    intent = Intent(
        type=TransactionType.REVOKE_AUTHORITY,
        wallet=wallet,
        may_revoke=frozenset({found.address}),
        details={"mint": found.address, "authorityType": authority_type},
    )
    program, address = Pubkey.from_string(found.program), Pubkey.from_string(found.address)
    holder = Pubkey.from_string(wallet)
    revoke = revoke_authority(program, address, _AUTHORITIES[authority_type], holder)
    return Draft(intent, (revoke,))


@plans(CLOSE_ACCOUNT)
async def plan_close_account(
    wallet: str, *, ledger: ReadLedger, tokens: TokenList, mint: str
) -> Draft:
    """Close an empty token account of the wallet; its rent comes back to the wallet.

    Raises:
        InvalidRequest: no such mint; the wallet has no account of it, or none that is empty.
        LedgerError: the ledger did not answer.
    """
    found = await _mint(ledger, tokens, mint)
    held = await accounts_of(ledger, wallet, found)
    empty = next((holding for holding in held if holding.units == 0), None)
    if empty is None:
        balance = format_amount(from_units(sum(each.units for each in held), found.decimals))
        way = "unwrap it" if found.address == WRAPPED_SOL_MINT else "burn or swap it first"
        raise InvalidRequest(
            f"mint: the wallet's token account still holds {balance} of {found.address}; {way}"
        )
    state = await ledger.account(empty.account)
    owner = Pubkey.from_string(wallet)
    intent = Intent(
        type=TransactionType.CLOSE_ACCOUNT,
        wallet=wallet,
        may_close=frozenset({empty.account}),
        details={
            "mint": found.address,
            "account": empty.account,
            "reclaimed": lamports_to_sol(state.lamports if state else 0),
        },
    )
    program, account = Pubkey.from_string(found.program), Pubkey.from_string(empty.account)
    close = close_account(program, account, owner, owner)
    return Draft(intent, (close,))


def associated_account(owner: Pubkey, mint: Mint) -> Pubkey:
    """The wallet's own token account of a mint, under the mint's program."""
    return get_associated_token_address(
        owner, Pubkey.from_string(mint.address), Pubkey.from_string(mint.program)
    )


async def open_account(
    ledger: ReadLedger, owner: Pubkey, mint: Mint, account: Pubkey
) -> tuple[int, tuple[Instruction, ...]]:
    """The lamports of rent and the instruction that open an associated account, if it is needed."""
    found = await ledger.account(str(account))
    # Lamports somebody sent to the address before do not open it.
    if found is not None and found.owner == mint.program:
        return 0, ()
    rent = await ledger.rent_exempt_minimum(associated_account_size(mint))
    return rent, (_open_associated(owner, mint),)


def _open_associated(owner: Pubkey, mint: Mint) -> Instruction:
    program = Pubkey.from_string(mint.program)
    address = Pubkey.from_string(mint.address)
    return create_associated(owner, owner, address, program)


def mint_to(owner: Pubkey, mint: Mint, account: Pubkey, units: int) -> Instruction:
    """Mint `units` to a token account, `owner` being the mint authority."""
    program, address = Pubkey.from_string(mint.program), Pubkey.from_string(mint.address)
    return mint_to_checked(program, address, account, owner, units, mint.decimals)


async def _mint(ledger: ReadLedger, tokens: TokenList, given: str) -> Mint:
    return await read_mint(ledger, tokens.resolve(given, "mint"))


def _check_decimals(given: int | None, mint: Mint) -> None:
    if given is not None and given != mint.decimals:
        raise InvalidRequest(
            f"decimals is {given}, but the mint {mint.address} has {mint.decimals} decimals;"
            " amounts are whole tokens, so it can be left out"
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
    """The wallet's token accounts of a mint, at least one: the associated one first, then the
    fullest."""
    own = str(associated_account(Pubkey.from_string(wallet), mint))
    held = [each for each in await ledger.holdings(wallet) if each.mint == mint.address]
    if not held:
        raise InvalidRequest(f"mint: the wallet has no token account of {mint.address}")
    return sorted(held, key=lambda each: (each.account != own, -each.units, each.account))


def _burns(wallet: str, mint: Mint, held: list[TokenHolding], units: int) -> Iterator[Instruction]:
    program, address = Pubkey.from_string(mint.program), Pubkey.from_string(mint.address)
    owner = Pubkey.from_string(wallet)
    for holding in held:
        burned = min(units, holding.units)
        if burned:
            units -= burned
            account = Pubkey.from_string(holding.account)
            yield burn_checked(program, account, address, owner, burned, mint.decimals)

"""SOL into wrapped SOL (wSOL) and back: the wallet's associated account of the native mint."""

from __future__ import annotations

from decimal import Decimal

from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.token.associated import get_associated_token_address

from solward.operations.declared.sol import UNWRAP_SOL, WRAP_SOL
from solward.operations.plans import plans
from solward.solana.programs import TOKEN_PROGRAM, WRAPPED_SOL_MINT
from solward.solana.token_instructions import close_account, create_associated, sync_native
from solward.solana.tokens import TOKEN_ACCOUNT_BYTES
from solward.types.errors import InvalidRequest
from solward.types.guardrail import Intent
from solward.types.ledger import ReadLedger
from solward.types.money import lamports_to_sol, sol_to_lamports
from solward.types.record import TransactionType
from solward.vault.money.request import Draft

_MINT = Pubkey.from_string(WRAPPED_SOL_MINT)
_PROGRAM = Pubkey.from_string(TOKEN_PROGRAM)


@plans(WRAP_SOL)
async def plan_wrap_sol(wallet: str, *, ledger: ReadLedger, amount: Decimal | int) -> Draft:
    """Add `amount` SOL to the wallet's wrapped SOL account, opened where there is none.

    The account is created idempotently even where it exists: the program then checks that it is
    still the wallet's.

    Raises:
        InvalidRequest: the amount is none.
        LedgerError: the ledger did not answer.
    """
    lamports = sol_to_lamports(amount, "amount")
    owner = Pubkey.from_string(wallet)
    account = wrapped_account(owner)
    existing = await ledger.account(str(account))
    # Lamports somebody sent to the address before do not open it.
    is_open = existing is not None and existing.owner == TOKEN_PROGRAM
    rent = 0 if is_open else await ledger.rent_exempt_minimum(TOKEN_ACCOUNT_BYTES)
    intent = Intent(
        type=TransactionType.WRAP_SOL,
        wallet=wallet,
        lamports_out=lamports,
        rent_lamports=rent,
        details={"amount": lamports_to_sol(lamports), "account": str(account)},
    )
    pay = TransferParams(from_pubkey=owner, to_pubkey=account, lamports=lamports)
    return Draft(
        intent,
        (
            create_associated(owner, owner, _MINT, _PROGRAM),
            transfer(pay),
            sync_native(_PROGRAM, account),
        ),
    )


@plans(UNWRAP_SOL)
async def plan_unwrap_sol(wallet: str, *, ledger: ReadLedger) -> Draft:
    """Close the wallet's wrapped SOL account: all it holds and its rent become SOL again.

    Raises:
        InvalidRequest: there is no such account, or it is empty.
        LedgerError: the ledger did not answer.
    """
    owner = Pubkey.from_string(wallet)
    account = str(wrapped_account(owner))
    holdings = await ledger.holdings(wallet)
    units = next((each.units for each in holdings if each.account == account), None)
    if units is None:
        raise InvalidRequest("There is nothing to unwrap: the wallet has no wrapped SOL account")
    if units == 0:
        raise InvalidRequest(
            "There is nothing to unwrap: the wallet's wrapped SOL account is empty; closing the"
            f" token account of {WRAPPED_SOL_MINT} gives its rent back"
        )
    state = await ledger.account(account)
    held = state.lamports if state is not None else units
    intent = Intent(
        type=TransactionType.UNWRAP_SOL,
        wallet=wallet,
        may_close=frozenset({account}),
        details={
            "amount": lamports_to_sol(units),
            "account": account,
            "reclaimed": lamports_to_sol(max(0, held - units)),
        },
    )
    close = close_account(_PROGRAM, Pubkey.from_string(account), owner, owner)
    return Draft(intent, (close,))


def wrapped_account(owner: Pubkey) -> Pubkey:
    """The wallet's associated account of wrapped SOL."""
    return get_associated_token_address(owner, _MINT, _PROGRAM)

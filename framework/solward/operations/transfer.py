"""Sending SOL, a test network's faucet, and SOL into wrapped SOL (wSOL) and back."""

from __future__ import annotations

from decimal import Decimal

from solders.pubkey import Pubkey

from solward.operations.declared.sol import AIRDROP, MAX_AIRDROP_SOL, TRANSFER, UNWRAP_SOL, WRAP_SOL
from solward.operations.plans import plans
from solward.solana.builders import close_account, open_associated, pay, sync_native
from solward.solana.programs import TOKEN_PROGRAM, WRAPPED_SOL_MINT
from solward.solana.tokens import TOKEN_ACCOUNT_RENT, associated_address
from solward.types.errors import InvalidRequest
from solward.types.guardrail import Intent
from solward.types.ledger import ReadLedger
from solward.types.money import LAMPORTS_PER_SOL, lamports_to_sol, sol_to_lamports
from solward.types.record import TransactionType
from solward.vault.money.request import Draft


def parse_address(value: object, field: str) -> Pubkey:
    """A base58 address as given by a caller; raises `InvalidRequest` naming `field`."""
    if isinstance(value, str):
        try:
            return Pubkey.from_string(value)
        except ValueError:
            pass
    raise InvalidRequest(f"{field} must be a base58 Solana address")


@plans(TRANSFER)
def plan_transfer(wallet: str, *, to: str, amount: Decimal | int) -> Draft:
    """Declare and build a SOL transfer; raises `InvalidRequest` on a bad `to` or `amount`."""
    recipient = parse_address(to, "to")
    lamports = sol_to_lamports(amount, "amount")
    intent = Intent(
        type=TransactionType.TRANSFER,
        wallet=wallet,
        lamports_out=lamports,
        destinations=frozenset({str(recipient)}),
        details={"from": wallet, "to": str(recipient), "amount": lamports_to_sol(lamports)},
    )
    return Draft(intent, (pay(wallet, str(recipient), lamports),))


@plans(AIRDROP)
def plan_airdrop(wallet: str, network: str, *, amount: Decimal | int) -> tuple[Intent, int]:
    """Declare a request to the faucet: the intent and its lamports.

    Raises:
        InvalidRequest: `amount` is no amount or too large, or the network has no faucet.
    """
    if network == "mainnet-beta":
        raise InvalidRequest("airdrop is available on devnet, testnet and localnet only")
    lamports = sol_to_lamports(amount, "amount")
    if lamports > MAX_AIRDROP_SOL * LAMPORTS_PER_SOL:
        raise InvalidRequest(f"amount must be at most {MAX_AIRDROP_SOL} SOL for an airdrop")
    details = {"to": wallet, "amount": lamports_to_sol(lamports)}
    return Intent(type=TransactionType.AIRDROP, wallet=wallet, details=details), lamports


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
    account = associated_address(wallet, WRAPPED_SOL_MINT, TOKEN_PROGRAM)
    existing = await ledger.account(account)
    # Lamports somebody sent to the address before do not open it.
    is_open = existing is not None and existing.owner == TOKEN_PROGRAM
    rent = 0 if is_open else TOKEN_ACCOUNT_RENT
    intent = Intent(
        type=TransactionType.WRAP_SOL,
        wallet=wallet,
        lamports_out=lamports,
        rent_lamports=rent,
        details={"amount": lamports_to_sol(lamports), "account": account},
    )
    return Draft(
        intent,
        (
            open_associated(wallet, wallet, WRAPPED_SOL_MINT, TOKEN_PROGRAM),
            pay(wallet, account, lamports),
            sync_native(account, TOKEN_PROGRAM),
        ),
    )


@plans(UNWRAP_SOL)
async def plan_unwrap_sol(wallet: str, *, ledger: ReadLedger) -> Draft:
    """Close the wallet's wrapped SOL account: all it holds and its rent become SOL again.

    Raises:
        InvalidRequest: there is no such account, or it is empty.
        LedgerError: the ledger did not answer.
    """
    account = associated_address(wallet, WRAPPED_SOL_MINT, TOKEN_PROGRAM)
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
    return Draft(intent, (close_account(account, TOKEN_PROGRAM, wallet, wallet),))

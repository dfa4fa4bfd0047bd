"""Sending SOL, and asking a test network's faucet for some."""

from __future__ import annotations

from decimal import Decimal

from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer

from solward.operations.declared.sol import AIRDROP, MAX_AIRDROP_SOL, TRANSFER
from solward.operations.plans import plans
from solward.types.errors import InvalidRequest
from solward.types.guardrail import Intent
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
    sender = Pubkey.from_string(wallet)
    intent = Intent(
        type=TransactionType.TRANSFER,
        wallet=wallet,
        lamports_out=lamports,
        destinations=frozenset({str(recipient)}),
        details={"from": wallet, "to": str(recipient), "amount": lamports_to_sol(lamports)},
    )
    params = TransferParams(from_pubkey=sender, to_pubkey=recipient, lamports=lamports)
    return Draft(intent, (transfer(params),))


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

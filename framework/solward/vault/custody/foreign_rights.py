"""What others may do with an address's accounts: read before a key that was used is imported.

Limits bound what a wallet's signature can move. A delegate or a close authority that somebody was
given before needs no signature of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from solward.solana.programs import PROGRAM_NAMES, SYSTEM_PROGRAM
from solward.solana.stakes import read_stakes
from solward.solana.tokens import TokenAccount, token_account
from solward.types.errors import LedgerRejected
from solward.types.ledger import ReadLedger


@dataclass(frozen=True, slots=True)
class ForeignRights:
    """Others' rights, each as a sentence for people.

    Attributes:
        taking: rights to take what the address holds, with what ends them.
        stakes: stake accounts that are the address's in part; nothing of them is its money that
            another can take.
    """

    taking: tuple[str, ...]
    stakes: tuple[str, ...]


async def foreign_rights(ledger: ReadLedger, address: str) -> ForeignRights:
    """Others' rights on an address, its token accounts and its stakes.

    Raises:
        LedgerError: the ledger did not answer, so nothing is known.
    """
    taking = await _on_itself(ledger, address)
    # Their bytes: what a node says of a delegate in words of its own is not asked.
    listed = sorted({holding.account for holding in await ledger.holdings(address)})
    for name, account in (await ledger.accounts(listed)).items():
        taking += _on_token_account(name, token_account(account), address)
    return ForeignRights(tuple(taking), tuple(await _on_stakes(ledger, address)))


async def _on_itself(ledger: ReadLedger, address: str) -> list[str]:
    account = await ledger.account(address)
    if account is None or (account.owner == SYSTEM_PROGRAM and not account.data):
        return []
    if account.owner == SYSTEM_PROGRAM:
        return [
            f"{address} is a nonce account, whose authority may withdraw its SOL: use a new key"
        ]
    program = PROGRAM_NAMES.get(account.owner, account.owner)
    return [f"{address} belongs to the program {program}, which may take its SOL: use a new key"]


def _on_token_account(account: str, found: TokenAccount | None, address: str) -> list[str]:
    if found is None or found.owner != address:
        return [f"{account} is said to be a token account of {address}, and is none: try again"]
    taking: list[str] = []
    if found.delegate not in (None, address):
        taking.append(
            f"{account} (mint {found.mint}): {found.delegate} may take {found.delegated_amount}"
            f" smallest units as its delegate: `spl-token revoke {account}`"
        )
    if found.close_authority not in (None, address):
        # The token programs let nobody but a close authority replace it.
        taking.append(
            f"{account} (mint {found.mint}): {found.close_authority} may close it and keep its SOL:"
            " move what it holds elsewhere, then give it away with"
            f" `spl-token authorize {account} owner {found.close_authority}`"
        )
    return taking


async def _on_stakes(ledger: ReadLedger, address: str) -> list[str]:
    try:
        stakes = await read_stakes(ledger, address)
    except LedgerRejected:
        # Public nodes refuse to search a program's accounts.
        return ["stake accounts cannot be searched on this node"]
    shown: list[str] = []
    for stake in stakes:
        if stake.withdrawer != address:
            shown.append(f"stake {stake.address}: its SOL is {stake.withdrawer}'s to withdraw")
        elif stake.staker != address:
            shown.append(f"stake {stake.address}: {stake.staker} chooses its validator")
    return shown

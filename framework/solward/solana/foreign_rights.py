"""Other people's rights on an address's accounts, read before a used key is imported.

Limits bound what a wallet's signature can move. A delegate or a close authority that was set
before the import needs no signature of the wallet.
"""

from __future__ import annotations

from dataclasses import dataclass

from solward.solana.programs import PROGRAM_NAMES, SYSTEM_PROGRAM
from solward.solana.stakes import read_stakes
from solward.solana.tokens import TokenAccount, associated_address, token_account
from solward.types.errors import LedgerRejected
from solward.types.ledger import ReadLedger


@dataclass(frozen=True, slots=True)
class ForeignRights:
    """Other addresses' rights on a wallet, each as a sentence for people.

    Attributes:
        taking: rights to take the address's funds, and how to end each of them.
        noted: rights that endanger no money of the address: stake accounts that it owns in part,
            and accounts that strangers can create for any address.
    """

    taking: tuple[str, ...]
    noted: tuple[str, ...]


async def foreign_rights(ledger: ReadLedger, address: str) -> ForeignRights:
    """Return the rights of others on an address, its token accounts and its stakes.

    Raises:
        LedgerError: the ledger did not answer, so nothing is known.
    """
    taking = await _rights_on_account(ledger, address)
    # The accounts' bytes are read, because the node's own parsing of a delegate is not trusted.
    listed = sorted({holding.account for holding in await ledger.holdings(address)})
    noted: list[str] = []
    for name, account in (await ledger.accounts(listed)).items():
        found = token_account(account)
        # An account that was closed meanwhile has no funds.
        if account is not None and found is not None and found.owner == address:
            own = associated_address(address, found.mint, account.owner)
            delegated, closing = _rights_on_token_account(name, found, address)
            taking += delegated
            # A former owner can keep the close authority of an account and so its rent, but not
            # of an associated or a wrapped SOL account, where only this owner can have set it.
            is_given = name != own and found.rent_reserve is None
            (noted if is_given else taking).extend(closing)
    return ForeignRights(tuple(taking), (*noted, *await _rights_on_stakes(ledger, address)))


async def _rights_on_account(ledger: ReadLedger, address: str) -> list[str]:
    account = await ledger.account(address)
    if account is None or (account.owner == SYSTEM_PROGRAM and not account.data):
        return []
    if account.owner == SYSTEM_PROGRAM:
        return [
            f"{address} is a nonce account, whose authority may withdraw its SOL: use a new key"
        ]
    program = PROGRAM_NAMES.get(account.owner, account.owner)
    return [f"{address} belongs to the program {program}, which may take its SOL: use a new key"]


def _rights_on_token_account(
    account: str, found: TokenAccount, address: str
) -> tuple[list[str], list[str]]:
    """Return the rights of others to take the account's tokens, and to close it."""
    delegated: list[str] = []
    closing: list[str] = []
    if found.delegate not in (None, address):
        delegated.append(
            f"{account} (mint {found.mint}): {found.delegate} may take {found.delegated_amount}"
            f" smallest units as its delegate: `spl-token revoke {account}`"
        )
    if found.close_authority not in (None, address):
        # In the token programs, only the present close authority can replace itself.
        closing.append(
            f"{account} (mint {found.mint}): {found.close_authority} may close it and keep its SOL:"
            " move its tokens elsewhere, then give the account away with"
            f" `spl-token authorize {account} owner {found.close_authority}`"
        )
    return delegated, closing


async def _rights_on_stakes(ledger: ReadLedger, address: str) -> list[str]:
    try:
        stakes = await read_stakes(ledger, address, of_others=True)
    except LedgerRejected:
        # Public nodes refuse to search a program's accounts.
        return ["stake accounts cannot be searched on this node"]
    shown: list[str] = []
    for stake in stakes:
        if stake.withdrawer != address:
            shown.append(f"stake {stake.address}: {stake.withdrawer} may withdraw its SOL")
        elif stake.staker != address:
            shown.append(f"stake {stake.address}: {stake.staker} chooses its validator")
    return shown

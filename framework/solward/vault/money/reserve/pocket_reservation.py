"""A pocket's row, stored with the reservation of what it is used for."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.money.request import PocketTaken, PocketUse
from solward.vault.store import pockets
from solward.vault.store import transactions as store
from solward.vault.store.pockets import PocketRow, PocketState


async def with_pocket(
    connection: AsyncConnection, record: TransactionRecord, use: PocketUse
) -> TransactionRecord:
    """Store the pocket with the reservation; under the wallet's lock, so that both checks hold."""
    pocket = use.pocket
    error = _is_for_later(use, await pockets.in_use(connection, pocket.wallet_id))
    if error:
        return replace(record, status=TransactionStatus.FAILED, error=error)
    if use.program is not None and use.position is not None:
        known = await pockets.at_position(connection, pocket.wallet_id, use.program, use.position)
        if known is not None:
            return await _with_known(connection, record, use, known)
    if await pockets.is_used(connection, pocket.wallet_id, pocket.counter):
        raise PocketTaken
    row = pockets.PocketRow(
        wallet_id=pocket.wallet_id,
        counter=pocket.counter,
        address=pocket.address,
        transaction_id=record.id,
        program=use.program,
        position=use.position,
        mints=use.mints,
        output_mint=use.output_mint,
        state=PocketState.FUNDING if use.leaves else PocketState.SINGLE,
        created_ms=record.created_ms,
        opened_by=record.principal,
    )
    await pockets.add(connection, row)
    return record


def _is_for_later(use: PocketUse, now: pockets.InUse) -> str:
    """Why the pocket cannot be used now, empty where it can.

    A swap in one transaction asserts a sum on the wallet's own account. What another pocket brings
    home until it lands would count for it, whatever that was used for: a market could take all that
    the swap pays.
    """
    if use.output_mint in now.bought:
        return f"Another swap into {use.output_mint} has not ended yet; nothing was sent"
    if use.asserted is not None and now.brings_home:
        return "A pocket of the wallet is in use, whose return would count for this swap;" + _LATER
    if use.leaves and now.asserts:
        return "A swap of the wallet has not ended, for which this return would count;" + _LATER
    return ""


_LATER = " nothing was sent, ask again once it has ended"


async def owned_by_another(
    connection: AsyncConnection, record: TransactionRecord, use: PocketUse
) -> str | None:
    """Why the position is not for who requests this, None where it is: a call risks all that is in
    it, which was granted to who put it there."""
    if use.program is None or use.position is None:
        return None
    wallet_id = use.pocket.wallet_id
    known = await pockets.at_position(connection, wallet_id, use.program, use.position)
    if known is None or known.opened_by == record.principal:
        return None
    return (
        f"position {use.position} is {known.opened_by or 'the operator'}'s; who opened a position"
        " and the operator use it"
    )


async def _with_known(
    connection: AsyncConnection, record: TransactionRecord, use: PocketUse, known: PocketRow
) -> TransactionRecord:
    """Use the pocket of a position again: one transaction at a time."""
    if known.address != use.pocket.address:
        raise PocketTaken
    last = None
    if known.transaction_id is not None:
        last = await store.get(connection, known.transaction_id)
    if last is not None and last.status is TransactionStatus.PENDING:
        error = f"The pocket of position {use.position} is in use; nothing was sent"
        return replace(record, status=TransactionStatus.FAILED, error=error)
    await pockets.use_again(connection, known, record.id, use.mints)
    return record

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
    if use.program is not None and use.position is not None:
        known = await pockets.at_position(connection, pocket.wallet_id, use.program, use.position)
        if known is not None:
            return await _with_known(connection, record, use, known)
    if await pockets.is_used(connection, pocket.wallet_id, pocket.counter):
        raise PocketTaken
    mint = use.output_mint
    if mint and await pockets.purchase_in_flight(connection, pocket.wallet_id, mint):
        error = f"Another swap into {mint} has not ended yet; nothing was sent"
        return replace(record, status=TransactionStatus.FAILED, error=error)
    row = pockets.PocketRow(
        wallet_id=pocket.wallet_id,
        counter=pocket.counter,
        address=pocket.address,
        transaction_id=record.id,
        program=use.program,
        position=use.position,
        mints=use.mints,
        output_mint=mint,
        state=PocketState.FUNDING if use.leaves else PocketState.SINGLE,
        created_ms=record.created_ms,
        opened_by=record.principal,
    )
    await pockets.add(connection, row)
    return record


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

"""A price that rose since the wallet paid it last: then a person decides."""

from __future__ import annotations

from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.types.money import format_amount, from_units
from solward.vault.money.request import Payment
from solward.vault.store import payments

# A seller's price follows its costs and rates by less than this; a jump is a mistake or an attack
# on an agent that pays whatever it is asked for.
MOST_RISE_PERCENT: Final = 20


async def price_change(connection: AsyncConnection, wallet_id: str, payment: Payment) -> str | None:
    """Why a person is asked about a price: more than `MOST_RISE_PERCENT` above what the wallet paid
    last at the same address in the same asset, landed or not yet; None where it is not, or where
    it never paid there."""
    last = await payments.last_paid(connection, wallet_id, payment.url, payment.asset)
    if last is None or payment.units * 100 <= last * (100 + MOST_RISE_PERCENT):
        return None
    now, before = (
        format_amount(from_units(units, payment.decimals)) for units in (payment.units, last)
    )
    return (
        f"the price of {payment.url} is {now} now, more than {MOST_RISE_PERCENT}% above the"
        f" {before} paid last in {payment.asset}"
    )

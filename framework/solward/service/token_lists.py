"""The operator's list of tokens by symbol, one a network, as stored.

Whoever could change which mint a symbol names would choose what is bought and sent. So the list
carries an HMAC-SHA-256 under a key that is made from the keystore's audit key, which the database
holds sealed only: writing the database is not enough.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import record_act
from solward.database.tables import token_lists
from solward.support import jsontext
from solward.types.errors import StoreError
from solward.types.events import EventKind

_DOMAIN = "solward-token-list/1"

ListedToken: TypeAlias = tuple[str, str, int]
"""Symbol, mint and decimals."""


@dataclass(frozen=True, slots=True)
class StoredList:
    """What `solward tokens refresh` stored for a network.

    Attributes:
        stored_ms: when, in Unix milliseconds.
    """

    tokens: tuple[ListedToken, ...]
    stored_ms: int


async def read_list(
    connection: AsyncConnection, network: str, audit_key: bytes | None
) -> StoredList | None:
    """The list of a network; None where none is stored.

    Raises:
        StoreError: it is not as it was stored.
    """
    statement = select(token_lists).where(token_lists.c.network == network)
    row = (await connection.execute(statement)).mappings().first()
    if row is None:
        return None
    expected = _mac(audit_key, network, row["tokens"], row["stored_ms"])
    if not hmac.compare_digest(str(row["mac"]), expected):
        raise StoreError(
            f"The token list stored for {network} is not the one that was stored with `solward"
            " tokens refresh`: somebody changed it, so no symbol of it is believed. Find out who"
            " can write the database, then run `solward tokens clear` and refresh it"
        )
    tokens = tuple((symbol, mint, decimals) for symbol, mint, decimals in row["tokens"])
    return StoredList(tokens, int(row["stored_ms"]))


async def write_list(
    connection: AsyncConnection,
    network: str,
    tokens: Iterable[ListedToken],
    audit_key: bytes | None,
    now_ms: int,
) -> None:
    """Replace the list of a network; none at all where `tokens` is empty."""
    statement = select(token_lists.c.tokens).where(token_lists.c.network == network)
    before = (await connection.execute(statement)).scalar()
    await connection.execute(delete(token_lists).where(token_lists.c.network == network))
    fields = [list(each) for each in tokens]
    if fields:
        mac = _mac(audit_key, network, fields, now_ms)
        await connection.execute(
            insert(token_lists).values(network=network, tokens=fields, stored_ms=now_ms, mac=mac)
        )
    after = _by_symbol(fields)
    record_act(
        connection, EventKind.TOKENS_CHANGED, {"network": network}, _by_symbol(before or []), after
    )


def _by_symbol(stored: Any) -> Mapping[str, Any]:
    """For the audit log, which leaves out what is equal before and after."""
    try:
        return {str(symbol): mint for symbol, mint, _ in stored}
    except (TypeError, ValueError):
        # Whoever changed the row may have written anything.
        return {}


def _mac(audit_key: bytes | None, network: str, tokens: Any, stored_ms: int) -> str:
    if audit_key is None:
        raise StoreError("The keystore is not open, so the token list cannot be authenticated")
    fields = jsontext.dumps([_DOMAIN, network, tokens, stored_ms], canonical=True)
    return hmac.digest(audit_key, fields.encode(), "sha256").hex()

"""The Idempotency-Key header: a request that is sent again runs once, with one response."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from quart import Response, request
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import Database
from solward.support import jsontext
from solward.support.clock import now_ms
from solward.types.errors import (
    CONTRACT_HEADER,
    IdempotencyInFlight,
    IdempotencyMismatch,
    InvalidRequest,
)
from solward.types.record import GENERATED_KEY, KEY_FORM, is_idempotency_key
from solward.vault.money.request import IdempotencyKey
from solward.vault.store import idempotency as store
from solward.vault.store.idempotency import StoredResponse
from solward_server.http.auth import caller
from solward_server.http.body import Body

REPLAYED = "Idempotent-Replayed"

# The stored transaction id of skill calls: they make any number of transactions.
_SKILL_CALL = "skill"


def idempotency_key(body: Body) -> IdempotencyKey | None:
    """Return the header's key in the scope of this principal, method and path, or None.

    Raises:
        InvalidRequest: there are several keys, or one not of `KEY_FORM` (inner spaces are allowed).
    """
    values = request.headers.getlist("Idempotency-Key")
    if not values:
        return None
    if len(values) > 1:
        raise InvalidRequest("Idempotency-Key must be given once")
    (value,) = values
    if not is_idempotency_key(value):
        raise InvalidRequest(f"Idempotency-Key must be {KEY_FORM}")
    return IdempotencyKey(
        scope="|".join((caller().principal, request.method, request.path, value)),
        fingerprint=hashlib.sha256(jsontext.dumps(body, canonical=True).encode()).hexdigest(),
    )


async def first_answer(database: Database, key: IdempotencyKey) -> StoredResponse | None:
    """Return the stored response of the key's first request; None if this is the first.

    Raises:
        IdempotencyMismatch: the first request had another body.
    """
    async with database.read() as connection:
        stored = await store.lookup(connection, key.scope)
    if stored is not None and stored.fingerprint != key.fingerprint:
        raise IdempotencyMismatch
    return stored


async def finish(database: Database, key: IdempotencyKey, response: Response) -> Response:
    """Store the response for replays, byte for byte.

    If another process has stored one meanwhile, return that one.
    """
    body = await response.get_data(as_text=True)
    async with database.write() as connection:
        contract = response.headers.get(CONTRACT_HEADER, type=int)
        if await store.finish(connection, key.scope, response.status_code, body, contract):
            return response
        first = await store.lookup(connection, key.scope)
    return response if first is None or first.body is None else replay(first)


def replay(stored: StoredResponse) -> Response:
    """Return the first response again, marked as replayed."""
    response = Response(stored.body or "", stored.status_code, mimetype="application/json")
    if stored.contract_status is not None:
        response.headers[CONTRACT_HEADER] = str(stored.contract_status)
    return mark_replayed(response)


def mark_replayed(response: Response) -> Response:
    """Mark a response as the answer to an earlier request."""
    response.headers[REPLAYED] = "true"
    return response


@dataclass(frozen=True, slots=True)
class SkillCalls:
    """Skill calls with an Idempotency-Key: each runs in one process at a time.

    After a crash the same request runs the skill again, in whichever process receives it. Its money
    calls are numbered under the key's action key, so transactions already made are not repeated.

    Attributes:
        process_id: this process in the database's table of processes.
    """

    process_id: str
    # The scopes of calls that run in this process now.
    _running: set[str] = field(default_factory=set)

    @asynccontextmanager
    async def claim(
        self, database: Database, key: IdempotencyKey
    ) -> AsyncIterator[StoredResponse | None]:
        """Claim the key while the skill runs; yields the first response if there is one.

        Raises:
            IdempotencyInFlight, IdempotencyMismatch: the first request still runs, or differs.
        """
        if key.scope in self._running:
            raise IdempotencyInFlight
        self._running.add(key.scope)
        try:
            stored = await first_answer(database, key)
            if stored is None or stored.body is None:
                async with database.write() as connection:
                    stored = await self._claim_key(connection, key, stored)
            yield stored
        finally:
            self._running.discard(key.scope)

    async def _claim_key(
        self, connection: AsyncConnection, key: IdempotencyKey, stored: StoredResponse | None
    ) -> StoredResponse | None:
        """Make this process the key's owner, and return a response that was stored meanwhile."""
        if stored is None:
            await store.claim(
                connection, key.scope, key.fingerprint, _SKILL_CALL, now_ms(), owner=self.process_id
            )
            return None
        stored = await store.take_over(connection, key.scope, self.process_id)
        return None if stored.body is None else stored


def action_key(key: IdempotencyKey) -> str:
    """Return the name under which a skill's money calls are numbered, so that none runs twice."""
    prefix = GENERATED_KEY if key.is_generated else "http:"
    return prefix + hashlib.sha256(f"{key.scope}|{key.fingerprint}".encode()).hexdigest()

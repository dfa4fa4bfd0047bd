"""The Idempotency-Key header: one intent, however often its request is sent."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from quart import Response, request
from sqlalchemy.exc import IntegrityError

from solward import jsontext
from solward.clock import now_ms
from solward.errors import IdempotencyInFlight, IdempotencyMismatch, InvalidRequest
from solward.store import idempotency as store
from solward.store.database import Database
from solward.store.idempotency import StoredResponse
from solward.transactions.request import IdempotencyKey
from solward_server.auth import caller
from solward_server.body import Body

REPLAYED = "Idempotent-Replayed"

# Skill calls make any number of transactions, so no single record stands behind their key.
_SKILL_CALL = "skill"


def idempotency_key(body: Body) -> IdempotencyKey | None:
    """The header's key in the scope of this principal, method and path; None without a header.

    Raises:
        InvalidRequest: it is not 1 to 255 visible ASCII characters (inner spaces allowed).
    """
    given = request.headers.get("Idempotency-Key")
    if given is None:
        return None
    if not 1 <= len(given) <= 255 or not given.isascii() or not given.isprintable():
        raise InvalidRequest("Idempotency-Key must be 1 to 255 visible ASCII characters")
    return IdempotencyKey(
        scope="|".join((caller().principal, request.method, request.path, given)),
        fingerprint=hashlib.sha256(jsontext.dumps(body, canonical=True).encode()).hexdigest(),
    )


async def first_use(database: Database, key: IdempotencyKey) -> StoredResponse | None:
    """What became of the key's first request, None when there was none.

    Raises:
        IdempotencyMismatch: it had another body.
    """
    async with database.read() as connection:
        stored = await store.lookup(connection, key.scope)
    if stored is not None and stored.fingerprint != key.fingerprint:
        raise IdempotencyMismatch
    return stored


async def finish(database: Database, key: IdempotencyKey, response: Response) -> Response:
    """Keep the answer for replays, as the bytes that were sent first."""
    body = await response.get_data(as_text=True)
    async with database.write() as connection:
        await store.finish(connection, key.scope, response.status_code, body)
    return response


def replay(stored: StoredResponse) -> Response:
    """The first answer again, marked."""
    response = Response(stored.body or "", stored.status_code, mimetype="application/json")
    return replayed(response)


def replayed(response: Response) -> Response:
    """Mark an answer as that of an earlier request."""
    response.headers[REPLAYED] = "true"
    return response


@dataclass(frozen=True, slots=True)
class SkillCalls:
    """Skill calls with an Idempotency-Key that run in this process now, by scope.

    After a crash the same request runs the skill again; its money calls are numbered and named
    after the key, so those that were made are not made twice.
    """

    _running: set[str] = field(default_factory=set)

    @asynccontextmanager
    async def claimed(
        self, database: Database, key: IdempotencyKey
    ) -> AsyncIterator[StoredResponse | None]:
        """Hold the key while the skill runs; yields the first answer when there is one.

        Raises:
            IdempotencyInFlight, IdempotencyMismatch: the first request still runs, or differs.
        """
        if key.scope in self._running:
            raise IdempotencyInFlight
        self._running.add(key.scope)
        try:
            stored = await first_use(database, key)
            if stored is None:
                await _claim(database, key)
            yield stored if stored is not None and stored.body is not None else None
        finally:
            self._running.discard(key.scope)


async def _claim(database: Database, key: IdempotencyKey) -> None:
    try:
        async with database.write() as connection:
            await store.claim(connection, key.scope, key.fingerprint, _SKILL_CALL, now_ms())
    except IntegrityError:
        raise IdempotencyInFlight from None


def action_key(key: IdempotencyKey) -> str:
    """The name under which a skill's money calls are made once."""
    return "http:" + hashlib.sha256(f"{key.scope}|{key.fingerprint}".encode()).hexdigest()

"""`client.keys`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from solward.client.agent_models import ApiKey, CreatedKey
from solward.client.arguments import Amount, json_fields, optional_number, segment
from solward.client.http import Http
from solward.client.policy import Grants


class Keys:
    """API keys; all but `own` needs the admin secret."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def create(
        self,
        *,
        name: str,
        permissions: Sequence[str] | None = None,
        rate_limit: int | None = None,
        spending_limit_sol: Amount | None = None,
        max_costs_sol_per_day: Amount | None = None,
        wallet_id: str | None = None,
        expires_at: datetime | None = None,
        grants: Grants | None = None,
    ) -> CreatedKey:
        """A new key, returned only here; with `wallet_id` it may use that wallet only.

        Args:
            expires_at: when it ends by itself, a time with a zone.
            grants: what it may do; none of them: it only reads; None: by its limits alone.
        """
        body = json_fields(
            name=name,
            permissions=None if permissions is None else [*permissions],
            rate_limit=rate_limit,
            spending_limit_sol=optional_number(spending_limit_sol, "spending_limit_sol"),
            max_costs_sol_per_day=optional_number(max_costs_sol_per_day, "max_costs_sol_per_day"),
            wallet_id=wallet_id,
            expires_at=None if expires_at is None else expires_at.isoformat(),
            grants=None if grants is None else [*grants],
        )
        return self._http.read(CreatedKey.of, await self._http.send("POST", "/keys", body))

    async def list(self, *, details: bool = False) -> tuple[ApiKey, ...]:
        """Every key's record, oldest first; `details` adds its limits and when it ends."""
        query = {"details": "true"} if details else {}
        return self._http.read_list(ApiKey.of, await self._http.get("/keys", query), "keys")

    async def own(self) -> ApiKey | None:
        """The record of the key that this client has, with its details; None for the admin."""
        answer = await self._http.get("/keys/self")
        return self._http.read(
            lambda raw: None if raw["key"] is None else ApiKey.of(raw["key"]), answer
        )

    async def rotate(self, key_id: str, *, overlap_seconds: int | None = None) -> CreatedKey:
        """Another secret for a key, returned only here; raises `NotFoundError`.

        Args:
            overlap_seconds: how long the secret it had goes on working, up to 86,400; 3,600 where
                it is None.
        """
        body = json_fields(overlap_seconds=overlap_seconds)
        path = f"/keys/{segment(key_id, 'key_id')}/rotate"
        return self._http.read(CreatedKey.of, await self._http.send("POST", path, body))

    async def revoke(self, key_id: str) -> None:
        """Revoke a key at once; raises `NotFoundError`."""
        await self._http.send("DELETE", f"/keys/{segment(key_id, 'key_id')}")

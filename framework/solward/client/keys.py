"""`client.keys`."""

from __future__ import annotations

from collections.abc import Sequence

from solward.client.agent_models import ApiKey, CreatedKey
from solward.client.checks import segment
from solward.client.exact import Amount, given, optional
from solward.client.http import Http


class Keys:
    """API keys; the admin secret's alone."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def create(
        self,
        *,
        name: str,
        permissions: Sequence[str] | None = None,
        rate_limit: int | None = None,
        spending_limit_sol: Amount | None = None,
        wallet_id: str | None = None,
    ) -> CreatedKey:
        """A new key, told this once; with `wallet_id` it may use that wallet only."""
        body = given(
            name=name,
            permissions=None if permissions is None else [*permissions],
            rate_limit=rate_limit,
            spending_limit_sol=optional(spending_limit_sol, "spending_limit_sol"),
            wallet_id=wallet_id,
        )
        return self._http.read(CreatedKey.of, await self._http.send("POST", "/keys", body))

    async def list(self) -> tuple[ApiKey, ...]:
        """Every key's record, oldest first."""
        return self._http.read_list(ApiKey.of, await self._http.get("/keys"), "keys")

    async def revoke(self, key_id: str) -> None:
        """End a key at once; raises `NotFoundError`."""
        await self._http.send("DELETE", f"/keys/{segment(key_id, 'key_id')}")

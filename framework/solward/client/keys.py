"""`client.keys`."""

from __future__ import annotations

from collections.abc import Sequence

from solward.client.agent_models import ApiKey, CreatedKey
from solward.client.arguments import Amount, json_fields, optional_number, segment
from solward.client.http import Http


class Keys:
    """API keys; needs the admin secret."""

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
    ) -> CreatedKey:
        """A new key, returned only here; with `wallet_id` it may use that wallet only."""
        body = json_fields(
            name=name,
            permissions=None if permissions is None else [*permissions],
            rate_limit=rate_limit,
            spending_limit_sol=optional_number(spending_limit_sol, "spending_limit_sol"),
            max_costs_sol_per_day=optional_number(max_costs_sol_per_day, "max_costs_sol_per_day"),
            wallet_id=wallet_id,
        )
        return self._http.read(CreatedKey.of, await self._http.send("POST", "/keys", body))

    async def list(self) -> tuple[ApiKey, ...]:
        """Every key's record, oldest first."""
        return self._http.read_list(ApiKey.of, await self._http.get("/keys"), "keys")

    async def revoke(self, key_id: str) -> None:
        """Revoke a key at once; raises `NotFoundError`."""
        await self._http.send("DELETE", f"/keys/{segment(key_id, 'key_id')}")

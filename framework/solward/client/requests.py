# Written by `make operations` from the declarations; change it there.
"""What the client asks for: one method a declared request."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

from solward.client.arguments import Amount, requested, segment
from solward.client.http import Http
from solward.resources import credentials, declare
from solward.resources.answers import Raw

Grants: TypeAlias = Sequence[Raw | str]


class _Requests:
    def __init__(self, http: Http) -> None:
        self._http = http


class KeyRequests(_Requests):
    """The requests that change one."""

    async def create(
        self,
        *,
        name: str,
        wallet_id: str | None = None,
        permissions: Sequence[str] | None = None,
        rate_limit: int | None = None,
        spending_limit_sol: Amount | None = None,
        max_costs_sol_per_day: Amount | None = None,
        grants: Grants | None = None,
        read_only: bool | None = None,
        expires_at: datetime | None = None,
    ) -> credentials.CreatedKey:
        """Make an API key, returned only here.

        Args:
            name: what uses it, for people.
            wallet_id: the only wallet it may use; without one, all.
            permissions: stored, not enforced; read, write where it is None.
            rate_limit: transaction-producing requests in any 60 seconds; 10 where it is None.
            spending_limit_sol: SOL in any 24 hours over all wallets; at most 9 decimals; 5 where it
                is None.
            max_costs_sol_per_day: SOL of fees and rent in any 24 hours over all wallets; the
                service's `MAX_COSTS_SOL_PER_DAY` where it is None.
            grants: what it may do; `[]`: it only reads.
            read_only: it spends nothing and changes nothing; then without limits and grants.
            expires_at: when it ends by itself: ISO 8601 with a zone, in the future.
        """
        body = requested(
            credentials.NewKey,
            name=name,
            wallet_id=wallet_id,
            permissions=permissions,
            rate_limit=rate_limit,
            spending_limit_sol=spending_limit_sol,
            max_costs_sol_per_day=max_costs_sol_per_day,
            grants=grants,
            read_only=read_only,
            expires_at=expires_at,
        )
        answer = await self._http.send("POST", "/keys", body)
        return self._http.read(credentials.CreatedKey.of, answer)

    async def rotate(
        self, key_id: str, *, overlap_seconds: int | None = None
    ) -> credentials.RotatedKey:
        """Give a key another secret, returned only here; raises `NotFoundError`.

        Args:
            overlap_seconds: how long the secret it had goes on working; 3600 where it is None.
        """
        body = requested(credentials.NewSecret, overlap_seconds=overlap_seconds)
        answer = await self._http.send("POST", f"/keys/{segment(key_id, 'key_id')}/rotate", body)
        return self._http.read(credentials.RotatedKey.of, answer)


class AdminRequests(_Requests):
    """The requests that change one."""

    async def create(
        self, *, name: str, role: str, expires_at: datetime | None = None
    ) -> credentials.CreatedAdmin:
        """Make an admin credential, whose secret is returned only here.

        Args:
            name: who or what uses it; no other credential has it.
            role: what it may do.
            expires_at: when it ends by itself: ISO 8601 with a zone, in the future.
        """
        body = requested(credentials.NewAdmin, name=name, role=role, expires_at=expires_at)
        answer = await self._http.send("POST", "/admins", body)
        return self._http.read(credentials.CreatedAdmin.of, answer)

"""API keys as principals: their actors with their current limits, and their request rate."""

from __future__ import annotations

from collections.abc import Collection

from solward.credentials.credentials import Credential, Credentials
from solward.credentials.rates import Limiter, TooManyRequests
from solward.operations.policies.documents import Policies
from solward.operations.policies.grant_report import KeyGroup, WalletKeys
from solward.types.errors import KeyRevoked
from solward.types.roles import key_principal
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.money.request import Actor


def key_limits(spending_limit_lamports: int, max_costs_lamports: int) -> ScopeLimits:
    """Return a key's ceilings, in lamports for any 24 hours."""
    return ScopeLimits(
        daily_lamports=spending_limit_lamports,
        # All principals share the wallet's ceiling on costs, so a key with a low spending limit
        # gets only a small part of it.
        daily_costs_lamports=min(max_costs_lamports, spending_limit_lamports),
    )


def limits_of(key: Credential) -> ScopeLimits:
    """Return the ceilings of a stored key."""
    return key_limits(key.spending_limit_lamports, key.max_costs_lamports)


def actor_of_key(key: Credential, hash_: str) -> Actor:
    """Return a key's actor, which can reserve nothing once the secret with this hash has ended."""
    return Actor(key.principal, limits=((key.principal, limits_of(key)),), api_key=hash_)


class KeyCallers:
    """The service's API keys, for work that the service does for a key outside of a request."""

    def __init__(self, credentials: Credentials, limiter: Limiter, policies: Policies) -> None:
        self._credentials = credentials
        self._limiter = limiter
        self._policies = policies

    async def actor(self, key_id: str) -> Actor:
        """Return a key's actor with its current limits; raises `KeyRevoked`."""
        key = await self._read_key(key_id)
        return actor_of_key(key, key.hash)

    async def bound_actor(self, key_id: str, hash_: str) -> Actor:
        """Return a key's actor, which can reserve nothing once the secret with this hash has ended;
        raises `KeyRevoked` if it has already ended."""
        key = await self._credentials.find(hash_)
        if key is None or key.id != key_id:
            raise KeyRevoked
        return actor_of_key(key, hash_)

    async def secret_hash(self, key_id: str) -> str:
        """Return the hash of a key's current secret; raises `KeyRevoked`."""
        return (await self._read_key(key_id)).hash

    async def count_request(self, key_id: str) -> str | None:
        """Count a run that may spend as a request of the key; raises `KeyRevoked`. A run beyond the
        key's rate limit is not counted: then return the reason."""
        key = await self._read_key(key_id)
        try:
            await self._limiter.take(key.id, key.rate_limit)
        except TooManyRequests as error:
            return str(error)
        return None

    async def wallet_of(self, key_id: str) -> str | None:
        """Return the only wallet that a key may use, None for all; raises `KeyRevoked`."""
        return (await self._read_key(key_id)).wallet_id

    async def keys_of_wallet(self, wallet_id: str, single: Collection[str] = ()) -> WalletKeys:
        """Return all keys that may use a wallet; the principals of `single` are never grouped."""
        found = [
            (row, key_limits(row.spending_limit_lamports, row.max_costs_lamports))
            for row in await self._credentials.of_wallet(wallet_id, single)
        ]
        return WalletKeys(
            [(row.single, limits) for row, limits in found if row.single is not None],
            [
                KeyGroup(limits, row.keys, key_principal(row.example))
                for row, limits in found
                if row.single is None
            ],
        )

    async def revoke(self, key_id: str) -> None:
        """Delete a key at once, with its grants and its count of requests; raises `NotFound`."""
        await self._credentials.revoke(key_id, is_admins=False)
        await self._limiter.forget(key_id)
        # The grants are removed last, so that the key is never without its grants.
        await self._policies.forget(key_principal(key_id))

    async def _read_key(self, key_id: str) -> Credential:
        key = await self._credentials.key(key_id)
        if key is None:
            raise KeyRevoked
        return key

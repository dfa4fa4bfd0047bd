"""The context that every route works with."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from solward.agents.agent import Agent
from solward.credentials.rates import Taking, traffic_limiter
from solward.operations.contacts import Contacts
from solward.operations.declared import recipient_fields
from solward.service.service import Solward
from solward.support.base58 import is_address
from solward.types.errors import AgentNotFound, InvalidRequest
from solward.types.roles import Role
from solward.vault.custody import Wallet
from solward.vault.store.grants import sets_of
from solward_server.http.auth import Caller, caller, check_confinement
from solward_server.http.errors import SPENDS_NOTHING, Forbidden
from solward_server.http.idempotency import SkillCalls


@dataclass(frozen=True, slots=True)
class RouteContext:
    """The service, with state that only HTTP routes need.

    Attributes:
        traffic: counts every request of an API key.
        exporting: held while a page of an export is made, so that all exports together take at
            most half of the event loop's time.
    """

    service: Solward
    traffic: Taking
    skill_calls: SkillCalls
    exporting: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    def from_service(cls, service: Solward) -> RouteContext:
        """Return the context of a service, with the rate counter that suits its database."""
        return cls(
            service, traffic_limiter(service.database), SkillCalls(service.engine.process.id)
        )

    async def wallet(self, wallet_id: str) -> Wallet:
        """Return a wallet that the caller may use; raises `WalletNotFound` for any other."""
        check_confinement(wallet_id)
        return await self.service.wallets.get(wallet_id)

    async def current_wallet(self, wallet_id: str) -> Wallet:
        """Return a wallet as `wallet` does, with its tags read from the database."""
        check_confinement(wallet_id)
        return await self.service.wallets.get_fresh(wallet_id)

    async def agent(self, agent_id: str) -> Agent:
        """Return an agent the caller may see; raises `AgentNotFound` for any other."""
        agent = await self.service.agents.get(agent_id)
        if caller().wallet_id not in (None, agent.wallet_id):
            raise AgentNotFound
        return agent

    async def recipient(self, text: str, field: str) -> str:
        """Return the address of a recipient. Admins may write it in any form of
        `AddressBook.address`, API keys only as an address, because names are the operator's.

        Raises:
            InvalidRequest: naming the field.
        """
        if caller().key is None:
            return await Contacts(self.service.database).address_of(text, field)
        if not is_address(text):
            raise InvalidRequest(f"{field} must be an address, base58 of 32 bytes")
        return text

    async def with_addresses(self, name: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of an operation or its skill with their recipients as addresses, as
        `recipient` does. The parameters of any other skill stay as they are."""
        found = dict(params)
        for each in recipient_fields(name):
            given = found.get(each.json)
            if isinstance(given, str):
                found[each.json] = await self.recipient(given, each.json)
        return found

    async def count_request(self) -> None:
        """Count a transaction-producing request or a chat; raises `TooManyRequests`."""
        key = caller().key
        if key is not None:
            await self.service.limiter.take(key.id, key.rate_limit)

    async def may_change(self) -> None:
        """Check that a key may do more than read. Raises `ReadOnlyKey` for a read-only key, and
        `Forbidden` for a key that may spend nothing. Routes that make transactions leave the second
        check to the guardrails, which store the refusal."""
        key = caller().key
        if key is None:
            return
        caller().needs(Role.POLICY)
        if key.spending_limit_lamports:
            async with self.service.database.read() as connection:
                grants = await sets_of(connection, [key.principal])
            if grants.get(key.principal) != []:
                return
        raise Forbidden(SPENDS_NOTHING)

    async def has_ended(self, who: Caller) -> bool:
        """Return whether the caller's secret no longer works, so that a stream must end."""
        return bool(who.hash) and await self.service.credentials.find(who.hash) is None

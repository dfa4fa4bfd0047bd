"""The wallets that a session may act on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from solward.client import ApiKey, SolwardClient, Wallet
from solward_mcp.held import HeldCalls

_MAX_NAMES = 20
# Its grants are among the wallet's limits already.
_KEY_LIMITS = ("rateLimit", "spendingLimitSol", "maxCostsSolPerDay", "expiresAt")


class WalletChoice(Exception):
    """No wallet was named, or one outside the session; the text is for the model."""


@dataclass(slots=True)
class WalletScope:
    """The service, for one caller and its wallets.

    Attributes:
        only: id, name or address of the session's one wallet; None is every wallet that the
            caller's token may use.
        asks_key: whether to ask the service, once, for the wallet that the caller's key is
            confined to, and to take that for `only`.
        held: calls that a person was asked about.
        call: the name in `held` of the last call that began.
    """

    client: SolwardClient
    only: str | None = None
    held: HeldCalls = field(default_factory=HeldCalls)
    asks_key: bool = False
    call: str | None = None

    async def one(self) -> str | None:
        """Id, name or address of the session's one wallet; raises `ClientError`."""
        if self.asks_key:
            own = await self._own_key()
            if own is not None:
                self.only = own.wallet_id
            # What a key is confined to never changes.
            self.asks_key = False
        return self.only

    async def wallet(self, name: str | None) -> Wallet:
        """The wallet to act on, by name, id or address.

        Raises:
            WalletChoice: none is named in a session of several, or one outside the session.
            ClientError: no wallet or several have that name, or the service does not respond.
        """
        only = await self.one()
        if only is None:
            if name is None:
                raise WalletChoice(await self._wallet_required())
            return await self.client.wallets.find(name)
        wallet = await self.client.wallets.find(only)
        if name not in (None, wallet.id, wallet.name, wallet.address):
            raise WalletChoice(f"This session acts on the wallet {wallet.name} alone")
        return wallet

    async def wallets(self) -> tuple[Wallet, ...]:
        """Every wallet of this session; raises `ClientError`."""
        only = await self.one()
        if only is None:
            return await self.client.wallets.list()
        return (await self.client.wallets.find(only),)

    async def limits(self, wallet: Wallet) -> Mapping[str, Any]:
        """The wallet's limits and, as `key`, those of the caller's own; raises `ClientError`."""
        limits: Mapping[str, Any]
        limits, own = await asyncio.gather(self.client.wallets.limits(wallet.id), self._own_key())
        if own is None:
            return limits
        return {**limits, "key": {name: own.raw[name] for name in _KEY_LIMITS}}

    async def _own_key(self) -> ApiKey | None:
        """The caller's key; None for the operator's secret or credential."""
        return (await self.client.keys.own()).key

    async def _wallet_required(self) -> str:
        names = [wallet.name for wallet in await self.client.wallets.list()]
        if not names:
            return "wallet is required, and there is none yet: create one first"
        more = ", ..." if len(names) > _MAX_NAMES else ""
        names_text = ", ".join(names[:_MAX_NAMES])
        return f"wallet is required: the name or id of a wallet, one of {names_text}{more}"

"""The freeze switches: that of the service, and one for each wallet."""

from __future__ import annotations

from dataclasses import dataclass

from solward.database.database import Database
from solward.vault.custody import Wallets
from solward.vault.store import spending
from solward.vault.store.spending import FrozenSwitch


@dataclass(frozen=True, slots=True)
class FreezeSwitches:
    """Sets and reads the switches.

    Every method that names a wallet raises `WalletNotFound` when there is none.
    """

    _database: Database
    _wallets: Wallets

    async def freeze(self, wallet_id: str | None, reason: str | None = None) -> None:
        """Stop every new transaction of one wallet, or of all; takes effect at once."""
        await self._set(wallet_id, True, reason)

    async def thaw(self, wallet_id: str | None) -> None:
        """Allow transactions again."""
        await self._set(wallet_id, False, None)

    async def frozen(
        self, at_most: int
    ) -> tuple[FrozenSwitch | None, tuple[FrozenSwitch, ...], int]:
        """See `spending.frozen_switches`."""
        async with self._database.read() as connection:
            return await spending.frozen_switches(connection, at_most)

    async def _set(self, wallet_id: str | None, frozen: bool, reason: str | None) -> None:
        scope = spending.SERVICE_SCOPE
        if wallet_id is not None:
            scope = f"wallet:{(await self._wallets.get(wallet_id)).id}"
        async with self._database.write() as connection:
            await spending.set_frozen(connection, scope, frozen, reason)

"""Which wallets a session may act on."""

from __future__ import annotations

from dataclasses import dataclass

from solward.client import SolwardClient, Wallet

_NAMES_SHOWN = 20


class WalletChoice(Exception):
    """No wallet was named, or one that this session is not for; the text is for the model."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The service as one caller sees it.

    Attributes:
        only: id, name or address of the one wallet this session is for; None is every wallet
            that the caller's token may use.
    """

    client: SolwardClient
    only: str | None = None

    async def wallet(self, asked: str | None) -> Wallet:
        """The wallet to act on, by id, name or address.

        Raises:
            WalletChoice: none is named and none is given, or another than the session's.
            ClientError: there is none of that name, several, or the service is away.
        """
        if self.only is None:
            if asked is None:
                raise WalletChoice(await self._which())
            return await self.client.wallets.find(asked)
        wallet = await self.client.wallets.find(self.only)
        if asked not in (None, wallet.id, wallet.name, wallet.address):
            raise WalletChoice(f"This session acts on the wallet {wallet.name} alone")
        return wallet

    async def wallets(self) -> tuple[Wallet, ...]:
        """Every wallet of this session; raises `ClientError`."""
        if self.only is None:
            return await self.client.wallets.list()
        return (await self.client.wallets.find(self.only),)

    async def _which(self) -> str:
        names = [wallet.name for wallet in await self.client.wallets.list()]
        if not names:
            return "wallet is required, and there is none yet: create one first"
        more = ", ..." if len(names) > _NAMES_SHOWN else ""
        shown = ", ".join(names[:_NAMES_SHOWN])
        return f"wallet is required: the name or id of a wallet, one of {shown}{more}"

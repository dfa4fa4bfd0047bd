# Written by `make operations` from the declarations; change it there.
"""Money operations of a skill on its wallet."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from solward.types.record import TransactionRecord

if TYPE_CHECKING:
    from solward.types.entries import Remember
    from solward.types.venue import Quote


class OperationMethods:
    """The operations of a wallet. Amounts are whole units, of SOL or of the token; a float is
    refused. A token is a mint address, or a symbol known on the network. `remember` takes a `Put`,
    or up to 16: entries of the store that are written with the pending record, or not at all."""

    __slots__ = ()

    async def _perform(
        self, operation: str, params: Mapping[str, Any], remember: Remember = ()
    ) -> TransactionRecord:
        raise NotImplementedError

    async def _quote(self, params: Mapping[str, Any]) -> Quote:
        raise NotImplementedError

    async def transfer(
        self, *, to: str, amount: Decimal | int, remember: Remember = ()
    ) -> TransactionRecord:
        """Send `amount` SOL to the address `to`."""
        return await self._perform("transfer", {"to": to, "amount": amount}, remember)

    async def airdrop(
        self, *, amount: Decimal | int = 1, remember: Remember = ()
    ) -> TransactionRecord:
        """Ask the faucet for `amount` SOL, at most 2 and by default 1; not on mainnet."""
        return await self._perform("airdrop", {"amount": amount}, remember)

    async def wrap_sol(
        self, *, amount: Decimal | int, remember: Remember = ()
    ) -> TransactionRecord:
        """Turn `amount` SOL into wrapped SOL."""
        return await self._perform("wrap_sol", {"amount": amount}, remember)

    async def unwrap_sol(self, *, remember: Remember = ()) -> TransactionRecord:
        """Turn all wrapped SOL of the wallet's associated account back into SOL."""
        return await self._perform("unwrap_sol", {}, remember)

    async def swap(
        self,
        *,
        input_token: str,
        output_token: str,
        amount: Decimal | int,
        slippage_bps: int = 50,
        remember: Remember = (),
    ) -> TransactionRecord:
        """Sell `amount` whole units of `input_token` for `output_token`, each a mint or symbol."""
        return await self._perform(
            "swap",
            {
                "inputToken": input_token,
                "outputToken": output_token,
                "amount": amount,
                "slippageBps": slippage_bps,
            },
            remember,
        )

    async def launch_token(
        self,
        *,
        name: str,
        symbol: str,
        decimals: int = 9,
        initial_supply: Decimal | int = 1000000,
        remember: Remember = (),
    ) -> TransactionRecord:
        """Create a Token-2022 token with a `name` and a `symbol`; the wallet gets its supply."""
        return await self._perform(
            "launch_token",
            {"name": name, "symbol": symbol, "decimals": decimals, "initialSupply": initial_supply},
            remember,
        )

    async def mint_supply(
        self,
        *,
        mint: str,
        amount: Decimal | int,
        decimals: int | None = None,
        remember: Remember = (),
    ) -> TransactionRecord:
        """Mint `amount` more whole tokens of `mint` to the wallet, the mint authority."""
        return await self._perform(
            "mint_supply", {"mint": mint, "amount": amount, "decimals": decimals}, remember
        )

    async def transfer_token(
        self, *, mint: str, to: str, amount: Decimal | int, remember: Remember = ()
    ) -> TransactionRecord:
        """Send `amount` whole tokens of `mint` to `to`: a wallet's address, or a token account of
        the mint."""
        return await self._perform(
            "transfer_token", {"mint": mint, "to": to, "amount": amount}, remember
        )

    async def revoke_authority(
        self, *, mint: str, authority_type: str = "mint", remember: Remember = ()
    ) -> TransactionRecord:
        """Give up the wallet's mint or freeze authority over `mint`, for ever."""
        return await self._perform(
            "revoke_authority", {"mint": mint, "authorityType": authority_type}, remember
        )

    async def burn(
        self, *, mint: str, amount: Decimal | int, remember: Remember = ()
    ) -> TransactionRecord:
        """Burn `amount` whole tokens of `mint`."""
        return await self._perform("burn", {"mint": mint, "amount": amount}, remember)

    async def close_account(self, *, mint: str, remember: Remember = ()) -> TransactionRecord:
        """Close the wallet's empty token account of `mint`; the rent returns."""
        return await self._perform("close_account", {"mint": mint}, remember)

    async def reclaim_rent(
        self, *, take: str = "all", remember: Remember = ()
    ) -> TransactionRecord:
        """Reclaim rent above the cluster's minimum from the wallet's token accounts, and close
        empty accounts."""
        return await self._perform("reclaim_rent", {"take": take}, remember)

    async def stake(
        self, *, amount: Decimal | int, validator: str | None = None, remember: Remember = ()
    ) -> TransactionRecord:
        """Stake `amount` SOL, the account's rent included, in a new stake account."""
        return await self._perform("stake", {"amount": amount, "validator": validator}, remember)

    async def unstake(self, *, stake_account: str, remember: Remember = ()) -> TransactionRecord:
        """Deactivate the stake `stake_account`; it cools down until the epoch's end."""
        return await self._perform("unstake", {"stakeAccount": stake_account}, remember)

    async def withdraw_stake(
        self, *, stake_account: str, remember: Remember = ()
    ) -> TransactionRecord:
        """Withdraw all of the inactive stake `stake_account`, its rent included, to the wallet."""
        return await self._perform("withdraw_stake", {"stakeAccount": stake_account}, remember)

    async def quote(
        self, *, input_token: str, output_token: str, amount: Decimal | int, slippage_bps: int = 50
    ) -> Quote:
        """Return the venue's offer for `amount` whole units of `input_token`. It sends nothing."""
        return await self._quote(
            {
                "inputToken": input_token,
                "outputToken": output_token,
                "amount": amount,
                "slippageBps": slippage_bps,
            }
        )

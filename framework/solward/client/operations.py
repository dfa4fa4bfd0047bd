# Written by `make operations` from the declarations; change it there.
"""Money operations of a wallet: one method for each money route."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from solward.client.arguments import Amount, exact_number, json_fields, optional_number

T = TypeVar("T")

Pay: TypeAlias = Callable[[str, str, Mapping[str, Any], str | None], Awaitable[T]]


class Operations(Generic[T]):
    """Calls that move money. They return a `Transaction`, or a `Trial` in a dry run.

    Amounts are whole units, SOL or tokens, as `Decimal`, `int` or `str`; a float is a
    `TypeError`. Tokens are mint addresses, or symbols known on the network. Every call makes an
    Idempotency-Key unless it is given one, and repeats it where a lost connection makes it send
    again, so that it pays once.

    Raises:
        Refused: a guardrail blocked it, or it failed; the message says why.
        BadRequest: a field is wrong; the message names it.
        Unreachable: no answer came; where money may have moved, the error has the key.
        ClientError: anything else that the service refuses.
    """

    def __init__(self, pay: Pay[T]) -> None:
        self._pay = pay

    async def transfer(
        self, wallet_id: str, *, to: str, amount: Amount, idempotency_key: str | None = None
    ) -> T:
        """Send `amount` SOL to the address `to`."""
        body = json_fields(to=to, amount=exact_number(amount, "amount"))
        return await self._pay(wallet_id, "transfer", body, idempotency_key)

    async def airdrop(
        self, wallet_id: str, *, amount: Amount | None = None, idempotency_key: str | None = None
    ) -> T:
        """Ask the faucet for `amount` SOL, at most 2 and by default 1; not on mainnet."""
        body = json_fields(amount=optional_number(amount, "amount"))
        return await self._pay(wallet_id, "airdrop", body, idempotency_key)

    async def wrap_sol(
        self, wallet_id: str, *, amount: Amount, idempotency_key: str | None = None
    ) -> T:
        """Turn `amount` SOL into wrapped SOL."""
        body = json_fields(amount=exact_number(amount, "amount"))
        return await self._pay(wallet_id, "wrap-sol", body, idempotency_key)

    async def unwrap_sol(self, wallet_id: str, *, idempotency_key: str | None = None) -> T:
        """Turn all wrapped SOL of the wallet's associated account back into SOL."""
        body = json_fields()
        return await self._pay(wallet_id, "unwrap-sol", body, idempotency_key)

    async def swap(
        self,
        wallet_id: str,
        *,
        input_token: str,
        output_token: str,
        amount: Amount,
        slippage_bps: int | None = None,
        idempotency_key: str | None = None,
    ) -> T:
        """Sell `amount` whole units of `input_token` for `output_token`, each a mint or symbol.
        `slippage_bps` is 50 by default."""
        body = json_fields(
            input_token=input_token,
            output_token=output_token,
            amount=exact_number(amount, "amount"),
            slippage_bps=slippage_bps,
        )
        return await self._pay(wallet_id, "swap", body, idempotency_key)

    async def launch_token(
        self,
        wallet_id: str,
        *,
        name: str,
        symbol: str,
        decimals: int | None = None,
        initial_supply: Amount | None = None,
        idempotency_key: str | None = None,
    ) -> T:
        """Create a Token-2022 token with a `name` and a `symbol`; the wallet gets its supply.
        `decimals` is 9 by default. `initial_supply` is 1000000 by default."""
        body = json_fields(
            name=name,
            symbol=symbol,
            decimals=decimals,
            initial_supply=optional_number(initial_supply, "initial_supply"),
        )
        return await self._pay(wallet_id, "launch-token", body, idempotency_key)

    async def mint_supply(
        self,
        wallet_id: str,
        *,
        mint: str,
        amount: Amount,
        decimals: int | None = None,
        idempotency_key: str | None = None,
    ) -> T:
        """Mint `amount` more whole tokens of `mint` to the wallet, the mint authority."""
        body = json_fields(mint=mint, amount=exact_number(amount, "amount"), decimals=decimals)
        return await self._pay(wallet_id, "mint-supply", body, idempotency_key)

    async def transfer_token(
        self,
        wallet_id: str,
        *,
        mint: str,
        to: str,
        amount: Amount,
        idempotency_key: str | None = None,
    ) -> T:
        """Send `amount` whole tokens of `mint` to `to`: a wallet's address, or a token account of
        the mint."""
        body = json_fields(mint=mint, to=to, amount=exact_number(amount, "amount"))
        return await self._pay(wallet_id, "token-transfer", body, idempotency_key)

    async def revoke_authority(
        self,
        wallet_id: str,
        *,
        mint: str,
        authority_type: str | None = None,
        idempotency_key: str | None = None,
    ) -> T:
        """Give up the wallet's mint or freeze authority over `mint`, for ever. `authority_type` is
        'mint' by default."""
        body = json_fields(mint=mint, authority_type=authority_type)
        return await self._pay(wallet_id, "revoke-authority", body, idempotency_key)

    async def burn(
        self, wallet_id: str, *, mint: str, amount: Amount, idempotency_key: str | None = None
    ) -> T:
        """Burn `amount` whole tokens of `mint`."""
        body = json_fields(mint=mint, amount=exact_number(amount, "amount"))
        return await self._pay(wallet_id, "burn", body, idempotency_key)

    async def close_account(
        self, wallet_id: str, *, mint: str, idempotency_key: str | None = None
    ) -> T:
        """Close the wallet's empty token account of `mint`; the rent returns."""
        body = json_fields(mint=mint)
        return await self._pay(wallet_id, "close-account", body, idempotency_key)

    async def reclaim_rent(
        self, wallet_id: str, *, take: str | None = None, idempotency_key: str | None = None
    ) -> T:
        """Reclaim rent above the cluster's minimum from the wallet's token accounts, and close
        empty accounts. `take` is 'all' by default."""
        body = json_fields(take=take)
        return await self._pay(wallet_id, "reclaim-rent", body, idempotency_key)

    async def stake(
        self,
        wallet_id: str,
        *,
        amount: Amount,
        validator: str | None = None,
        idempotency_key: str | None = None,
    ) -> T:
        """Stake `amount` SOL, the account's rent included, in a new stake account."""
        body = json_fields(amount=exact_number(amount, "amount"), validator=validator)
        return await self._pay(wallet_id, "stake", body, idempotency_key)

    async def unstake(
        self, wallet_id: str, *, stake_account: str, idempotency_key: str | None = None
    ) -> T:
        """Deactivate the stake `stake_account`; it cools down until the epoch's end."""
        body = json_fields(stake_account=stake_account)
        return await self._pay(wallet_id, "unstake", body, idempotency_key)

    async def withdraw_stake(
        self, wallet_id: str, *, stake_account: str, idempotency_key: str | None = None
    ) -> T:
        """Withdraw all of the inactive stake `stake_account`, its rent included, to the wallet."""
        body = json_fields(stake_account=stake_account)
        return await self._pay(wallet_id, "withdraw-stake", body, idempotency_key)

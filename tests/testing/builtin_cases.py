"""What the built-in skills need on a wallet before they can do their work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from solders.keypair import Keypair

from solward.testing import TestWallet

Prepare = Callable[[TestWallet], Awaitable[dict[str, Any]]]


async def own_mint(wallet: TestWallet) -> dict[str, Any]:
    """A token the wallet launched."""
    await wallet.run("launch_token", name="Own", symbol="OWN", decimals=6, initialSupply=1000)
    [launch] = [record for record in await wallet.records() if record.type == "token_launch"]
    return {"mint": launch.details["mint"]}


async def minting(wallet: TestWallet) -> dict[str, Any]:
    return await own_mint(wallet) | {"amount": 5, "decimals": 6}


async def burning(wallet: TestWallet) -> dict[str, Any]:
    return await own_mint(wallet) | {"amount": 5}


async def sending(wallet: TestWallet) -> dict[str, Any]:
    return await own_mint(wallet) | {"to": str(Keypair().pubkey()), "amount": 5}


async def freezing(wallet: TestWallet) -> dict[str, Any]:
    return await own_mint(wallet) | {"authorityType": "freeze"}


async def emptied(wallet: TestWallet) -> dict[str, Any]:
    """A token of which the wallet burned all."""
    mint = await own_mint(wallet)
    await wallet.run("burn_tokens", amount=1000, **mint)
    return mint


async def wrapped(wallet: TestWallet) -> dict[str, Any]:
    await wallet.run("wrap_sol", amount=1)
    return {}


async def staked(wallet: TestWallet) -> dict[str, Any]:
    await wallet.run("stake_sol", amount=2)
    [stake], _ = await wallet.stand.service.holdings.stakes(wallet.id)
    return {"stakeAccount": stake.address}


async def unstaked(wallet: TestWallet) -> dict[str, Any]:
    """A stake that was active, was given notice, and is inactive now."""
    stake = await staked(wallet)
    await wallet.stand.localnet.advance_epochs(1)
    await wallet.run("unstake_sol", **stake)
    await wallet.stand.localnet.advance_epochs(1)
    return stake


async def validator(wallet: TestWallet) -> dict[str, Any]:
    (found,) = await wallet.stand.service.ledger.vote_accounts()
    return {"amount": 2, "validator": found.address}


CASES: Mapping[str, tuple[Prepare, ...]] = {
    "burn_tokens": (burning,),
    "close_token_account": (emptied,),
    "mint_supply": (minting, burning),
    "revoke_mint_authority": (own_mint, freezing),
    "stake_sol": (validator,),
    "transfer_token": (sending,),
    "unstake_sol": (staked,),
    "unwrap_sol": (wrapped,),
    "withdraw_stake": (unstaked,),
}

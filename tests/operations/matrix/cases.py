"""The table: what every skill does in every cell, the same by whichever way it is asked.

A column a skill has no cell in says why in words instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tests.operations.matrix.row import (
    Bad,
    Block,
    Params,
    Reads,
    Route,
    Row,
    Spends,
    crowded,
    given,
)
from tests.operations.matrix.stand import FUNDS, SOL, Stand, stranger
from tests.support.localnet import rent

from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.stakes import read_stakes
from solward.solana.tokens import token_account
from solward.types.money import format_sol
from solward.vault.money.request import ADMIN
from solward_localnet.market import POOLS

USDC = str(POOLS[0].mint)
FEE = 5_000
# The limits of the service under the table, beside `PER_MINUTE`.
MOST_SOL = Decimal("1.5")
MOST_USDC_UNITS = 10 * 10**6
_STAKED = Decimal("1.25")


async def _spent(stand: Stand) -> int:
    return FUNDS - await stand.lamports()


# transfer


async def _payment(_stand: Stand) -> Params:
    return {"to": stranger(), "amount": Decimal("0.25")}


async def _paid(stand: Stand, params: Params, _record: Mapping[str, Any]) -> Params:
    assert await stand.lamports(params["to"]) == SOL // 4
    assert await _spent(stand) == SOL // 4 + FEE
    return {"from": stand.address, **params}


# airdrop


async def _dropped(stand: Stand, params: Params, _record: Mapping[str, Any]) -> Params:
    assert await _spent(stand) == -SOL
    return {"to": stand.address, "amount": 1}


# swap


async def _swapped(stand: Stand, params: Params, record: Mapping[str, Any]) -> Params:
    got = await stand.units(USDC)
    assert got > 0
    # Two signatures: the wallet's and the pool's.
    assert await _spent(stand) == SOL // 2 + await stand.rent(165) + 2 * FEE
    return {
        "inputToken": WRAPPED_SOL_MINT,
        "outputToken": USDC,
        "inputAmount": Decimal("0.5"),
        "outputAmount": Decimal(got).scaleb(-6),
        "slippageBps": 50,
        "priceImpact": record["details"]["priceImpact"],
        "venue": "demo_market",
    }


# tokens of the wallet's own


async def _launched(stand: Stand, params: Params, record: Mapping[str, Any]) -> Params:
    address = record["details"]["mint"]
    mint = await stand.mint(address)
    assert (mint.supply, mint.decimals, mint.symbol) == (50_000, 2, "CASE")
    assert mint.mint_authority == mint.freeze_authority == stand.address
    assert await stand.units(address) == 50_000
    return {
        "mint": address,
        "name": "Case",
        "symbol": "CASE",
        "decimals": 2,
        "supply": 500,
        "account": (await stand.accounts(address))[0],
    }


async def _own_token(stand: Stand) -> Params:
    return {"mint": await stand.launched()}


async def _own_token_amount(stand: Stand) -> Params:
    return {"mint": await stand.launched(), "amount": 20}


async def _minted(stand: Stand, params: Params, _record: Mapping[str, Any]) -> Params:
    assert (await stand.mint(params["mint"])).supply == 52_000
    assert await stand.units(params["mint"]) == 52_000
    return {**params, "account": (await stand.accounts(params["mint"]))[0]}


async def _revoked(stand: Stand, params: Params, _record: Mapping[str, Any]) -> Params:
    mint = await stand.mint(params["mint"])
    assert (mint.mint_authority, mint.freeze_authority) == (None, stand.address)
    return {**params, "authorityType": "mint"}


async def _burned(stand: Stand, params: Params, _record: Mapping[str, Any]) -> Params:
    assert (await stand.mint(params["mint"])).supply == 48_000
    assert await stand.units(params["mint"]) == 48_000
    return params


async def _token_payment(stand: Stand) -> Params:
    return {"mint": await stand.launched(), "to": stranger(), "amount": 5}


async def _tokens_paid(stand: Stand, params: Params, record: Mapping[str, Any]) -> Params:
    assert await stand.units(params["mint"]) == 49_500
    account = record["details"]["account"]
    held = token_account(await stand.api.service.ledger.account(account))
    assert held is not None
    assert held.amount == 500
    return {"from": stand.address, **params, "received": 5, "account": account}


async def _above_the_token_limit(stand: Stand) -> Params:
    await stand.operations.perform(
        "swap",
        stand.id,
        ADMIN,
        {"inputToken": "SOL", "outputToken": "USDC", "amount": Decimal("0.5")},
    )
    return {"mint": USDC, "amount": 11}


async def _emptied(stand: Stand) -> Params:
    mint = await stand.launched()
    await stand.operations.perform("burn", stand.id, ADMIN, {"mint": mint, "amount": 500})
    return {"mint": mint}


async def _closed(stand: Stand, params: Params, record: Mapping[str, Any]) -> Params:
    details = record["details"]
    assert await stand.accounts(params["mint"]) == []
    assert await stand.lamports(details["account"]) == 0
    assert details["reclaimed"] == Decimal(await stand.rent(170)).scaleb(-9)
    return {**params, "account": details["account"], "reclaimed": details["reclaimed"]}


# wrapped SOL


async def _wrapped(stand: Stand, params: Params, _record: Mapping[str, Any]) -> Params:
    assert await stand.units(WRAPPED_SOL_MINT) == SOL // 2
    assert await _spent(stand) == SOL // 2 + await stand.rent(165) + FEE
    return {**params, "account": (await stand.accounts(WRAPPED_SOL_MINT))[0]}


async def _something_wrapped(stand: Stand) -> Params:
    await stand.operations.perform("wrap_sol", stand.id, ADMIN, {"amount": Decimal("0.5")})
    return {}


async def _unwrapped(stand: Stand, _params: Params, record: Mapping[str, Any]) -> Params:
    assert await stand.accounts(WRAPPED_SOL_MINT) == []
    assert await _spent(stand) == 2 * FEE
    return {
        "amount": Decimal("0.5"),
        "account": record["details"]["account"],
        "reclaimed": Decimal(await stand.rent(165)).scaleb(-9),
    }


# stakes


async def _stake(stand: Stand) -> str:
    record = await stand.operations.perform("stake", stand.id, ADMIN, {"amount": _STAKED})
    return str(record.details["stakeAccount"])


async def _something_staked(stand: Stand) -> Params:
    return {"stakeAccount": await _stake(stand)}


async def _something_unstaked(stand: Stand) -> Params:
    account = await _stake(stand)
    await stand.operations.perform("unstake", stand.id, ADMIN, {"stakeAccount": account})
    return {"stakeAccount": account}


async def _staked(stand: Stand, _params: Params, record: Mapping[str, Any]) -> Params:
    (stake,) = await read_stakes(stand.api.service.ledger, stand.address)
    assert (stake.address, stake.state) == (record["details"]["stakeAccount"], "activating")
    assert stake.staker == stake.withdrawer == stand.address
    assert stake.lamports == _STAKED * SOL
    assert await _spent(stand) == _STAKED * SOL + FEE
    return {
        "stakeAccount": stake.address,
        "validator": stake.validator,
        # The localnet's only validator; how many epochs there were to judge depends on the test.
        "validatorReason": record["details"]["validatorReason"],
        "amount": _STAKED,
    }


async def _unstaked(stand: Stand, params: Params, _record: Mapping[str, Any]) -> Params:
    (stake,) = await read_stakes(stand.api.service.ledger, stand.address)
    # Taken back in the epoch it was staked in, it never became active.
    assert (stake.address, stake.state) == (params["stakeAccount"], "inactive")
    amount = _STAKED - Decimal(await stand.rent(200)).scaleb(-9)
    return {**params, "validator": stake.validator, "amount": amount}


async def _withdrawn(stand: Stand, params: Params, _record: Mapping[str, Any]) -> Params:
    assert await read_stakes(stand.api.service.ledger, stand.address) == ()
    assert await _spent(stand) == 3 * FEE
    return {**params, "amount": _STAKED}


async def _one_staked(stand: Stand) -> Params:
    await _stake(stand)
    return {}


async def _stakes_told(stand: Stand, _params: Params) -> list[str]:
    (stake,) = await read_stakes(stand.api.service.ledger, stand.address)
    return [f"- {stake.address}: 1.25 SOL, activating"]


async def _stakes_answered(stand: Stand) -> Params:
    (stake,) = await read_stakes(stand.api.service.ledger, stand.address)
    return {"stakes": [{"address": stake.address, "balance": _STAKED, "state": "activating"}]}


# what reads


async def _token_told(_stand: Stand, _params: Params) -> list[str]:
    return ["Token: USDC", f"Mint: {USDC}", "Decimals: 6", "Wallet holds: 0"]


async def _balance_told(stand: Stand, _params: Params) -> list[str]:
    return [stand.address, "SOL balance: 5.0000 SOL", "No token holdings."]


async def _balance_answered(_stand: Stand) -> Params:
    return {"sol": 5, "tokens": []}


async def _waited(_stand: Stand, params: Params) -> list[str]:
    return [f"Waited: {params['reason']}"]


_NO_ROUTE = "the contract has no route for it: the skills endpoint is its REST"
_READS = "it spends nothing, so no guardrail is asked"

ROWS: Mapping[str, Row] = {
    "transfer": Row(
        route=Route("POST", "/transfer"),
        ready=_payment,
        does=Spends("transfer", _paid),
        bad=Bad({"to": stranger(), "amount": -1}, "amount"),
        block=Block("max_per_tx", given(to=stranger(), amount=Decimal("1.6"))),
    ),
    "airdrop": Row(
        route=Route("POST", "/airdrop"),
        ready=given(amount=1),
        does=Spends("airdrop", _dropped),
        bad=Bad({"amount": 3}, "amount"),
        block=crowded(given(amount=1)),
    ),
    "swap": Row(
        route=Route("POST", "/swap"),
        ready=given(inputToken="SOL", outputToken="USDC", amount=Decimal("0.5")),
        does=Spends("swap", _swapped),
        bad=Bad({"inputToken": "SOL", "outputToken": "NOPE", "amount": 1}, "outputToken"),
        block=Block(
            "max_per_tx", given(inputToken="SOL", outputToken="USDC", amount=Decimal("1.6"))
        ),
    ),
    "launch_token": Row(
        route=Route("POST", "/launch-token"),
        ready=given(name="Case", symbol="CASE", decimals=2, initialSupply=500),
        does=Spends("token_launch", _launched),
        bad=Bad({"name": "Case", "symbol": "CASE", "decimals": 10}, "decimals"),
        block=crowded(given(name="Case", symbol="CASE")),
    ),
    "mint_supply": Row(
        route=Route("POST", "/mint-supply"),
        ready=_own_token_amount,
        does=Spends("mint_supply", _minted),
        bad=Bad({"mint": USDC, "amount": 1}, "mint"),
        block=crowded(_own_token_amount),
    ),
    "revoke_mint_authority": Row(
        route=Route("POST", "/revoke-authority"),
        ready=_own_token,
        does=Spends("revoke_authority", _revoked),
        bad=Bad({"mint": USDC, "authorityType": "close"}, "authorityType"),
        block=crowded(_own_token),
    ),
    "burn_tokens": Row(
        route=Route("POST", "/burn"),
        ready=_own_token_amount,
        does=Spends("burn", _burned),
        bad=Bad({"mint": USDC, "amount": 0}, "amount"),
        block=Block("daily_limit", _above_the_token_limit),
    ),
    "transfer_token": Row(
        route=Route("POST", "/token-transfer"),
        ready=_token_payment,
        does=Spends("token_transfer", _tokens_paid),
        bad=Bad({"mint": USDC, "to": "nobody", "amount": 1}, "to"),
        block=crowded(_token_payment),
    ),
    "close_token_account": Row(
        route=Route("POST", "/close-account"),
        ready=_emptied,
        does=Spends("close_account", _closed),
        bad=Bad({"mint": "nothing"}, "mint"),
        block=crowded(_emptied),
    ),
    "wrap_sol": Row(
        route=Route("POST", "/wrap-sol"),
        ready=given(amount=Decimal("0.5")),
        does=Spends("wrap_sol", _wrapped),
        bad=Bad({"amount": -1}, "amount"),
        block=Block("max_per_tx", given(amount=Decimal("1.6"))),
    ),
    "unwrap_sol": Row(
        route=Route("POST", "/unwrap-sol"),
        ready=_something_wrapped,
        does=Spends("unwrap_sol", _unwrapped),
        # It takes no parameters: what is bad is that there is nothing.
        bad=Bad({}, "nothing to unwrap"),
        block=crowded(_something_wrapped),
    ),
    "stake_sol": Row(
        route=Route("POST", "/stake"),
        ready=given(amount=_STAKED),
        does=Spends("stake", _staked),
        bad=Bad({"amount": 1}, f"amount must be at least {format_sol(10**9 + rent(200))} SOL"),
        block=Block("max_per_tx", given(amount=Decimal("1.6"))),
    ),
    "unstake_sol": Row(
        route=Route("POST", "/unstake"),
        ready=_something_staked,
        does=Spends("unstake", _unstaked),
        bad=Bad({"stakeAccount": stranger()}, "stakeAccount"),
        block=crowded(_something_staked),
    ),
    "withdraw_stake": Row(
        route=Route("POST", "/withdraw-stake"),
        ready=_something_unstaked,
        does=Spends("withdraw_stake", _withdrawn),
        bad=Bad({"stakeAccount": stranger()}, "stakeAccount"),
        block=crowded(_something_unstaked),
    ),
    "list_stakes": Row(
        route=Route("GET", "/stakes"),
        ready=_one_staked,
        does=Reads(_stakes_told, _stakes_answered),
        bad=Bad({"state": "active"}, "state"),
        block=_READS,
    ),
    "check_balance": Row(
        route=Route("GET", "/balance"),
        ready=given(),
        does=Reads(_balance_told, _balance_answered),
        bad=Bad({"token": "USDC"}, "token"),
        block=_READS,
    ),
    "token_info": Row(
        route=_NO_ROUTE,
        ready=given(token="USDC"),
        does=Reads(_token_told),
        bad=Bad({"token": "NOPE"}, "token"),
        block=_READS,
    ),
    "wait": Row(
        route=_NO_ROUTE,
        ready=given(reason="nothing to do"),
        does=Reads(_waited),
        bad=Bad({"reason": 5}, "reason"),
        block=_READS,
        away="it asks the ledger nothing",
    ),
}

WAYS = ("rest", "agent", "skill")


def cells(column: str) -> list[tuple[str, str]]:
    """(skill, way) of every cell there is in a column: success, bad, block or away."""
    return [
        (skill, way)
        for skill, row in ROWS.items()
        for way in WAYS
        if not (way == "rest" and isinstance(row.route, str))
        and not (column == "block" and isinstance(row.block, str))
    ]

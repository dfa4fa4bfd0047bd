"""Resources: wallets and transaction records as JSON text.

What stands in them (names, token symbols, details) is data from the ledger and from callers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

import mcp_types as types
from mcp.shared.exceptions import MCPError

from solward import jsontext
from solward.client import ApiError, NotFoundError, Transaction, Wallet
from solward_mcp.reach import Reach, WalletChoice

SCHEME = "solward://"
WALLETS = f"{SCHEME}wallets"
TRANSACTIONS = f"{SCHEME}transactions"
# Each balance asks the ledger, and each entry fills the model's window.
MOST_WALLETS = 100
RECORDS = 50

_JSON = "application/json"
_AT_ONCE = 8


async def listed(reach: Reach) -> types.ListResourcesResult:
    """The two collections, and each of the first 100 wallets; raises `ClientError`."""
    wallets = await reach.wallets()
    collections = [
        _resource(WALLETS, "wallets", "Every wallet with its balances."),
        _resource(TRANSACTIONS, "transactions", f"The newest {RECORDS} transactions."),
    ]
    single = [
        _resource(
            f"{WALLETS}/{quote(wallet.id, safe='')}",
            wallet.name,
            "A wallet's balances and limits.",
        )
        for wallet in wallets[:MOST_WALLETS]
    ]
    return types.ListResourcesResult(resources=collections + single)


def templates() -> types.ListResourceTemplatesResult:
    """The addresses that hold a wallet's id (its name does too)."""
    return types.ListResourceTemplatesResult(
        resource_templates=[
            types.ResourceTemplate(
                name="wallet",
                uri_template=f"{WALLETS}/{{id}}",
                description="A wallet, its balances, its limits and what is left of them.",
                mime_type=_JSON,
            ),
            types.ResourceTemplate(
                name="wallet-transactions",
                uri_template=f"{WALLETS}/{{id}}/transactions",
                description=f"The newest {RECORDS} transactions of a wallet, blocked ones too.",
                mime_type=_JSON,
            ),
        ]
    )


async def read(reach: Reach, uri: str) -> types.ReadResourceResult:
    """The JSON text of a resource.

    Raises:
        MCPError: invalid params (SEP-2164): there is no such resource.
        ClientError: the service is away, or refuses.
    """
    try:
        value = await _value(reach, uri)
    except (NotFoundError, WalletChoice) as error:
        raise MCPError(types.INVALID_PARAMS, str(error), {"uri": uri}) from None
    text = jsontext.dumps(value)
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=uri, mime_type=_JSON, text=text)]
    )


async def _value(reach: Reach, uri: str) -> dict[str, Any]:
    path = uri.removeprefix(SCHEME) if uri.startswith(SCHEME) else ""
    match [unquote(part) for part in path.split("/")]:
        case ["wallets"]:
            return await _wallets(reach)
        case ["transactions"]:
            return await _transactions(reach)
        case ["wallets", name] if name:
            return await _wallet(reach, await reach.wallet(name))
        case ["wallets", name, "transactions"] if name:
            return await _transactions_of(reach, await reach.wallet(name))
    raise MCPError(types.INVALID_PARAMS, f"Unknown resource: {uri}", {"uri": uri})


async def _wallets(reach: Reach) -> dict[str, Any]:
    wallets = await reach.wallets()
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(wallet: Wallet) -> dict[str, Any]:
        async with gate:
            return {**wallet.raw, "balance": await _balance(reach, wallet)}

    shown = list(await asyncio.gather(*map(one, wallets[:MOST_WALLETS])))
    left_out = len(wallets) - len(shown)
    return {"wallets": shown} | ({"leftOut": left_out} if left_out else {})


async def _wallet(reach: Reach, wallet: Wallet) -> dict[str, Any]:
    balance = await _balance(reach, wallet)
    return {
        **wallet.raw,
        "balance": balance,
        "limits": await reach.client.wallets.limits(wallet.id),
    }


async def _balance(reach: Reach, wallet: Wallet) -> Mapping[str, Any]:
    try:
        return (await reach.client.wallets.balance(wallet.id)).raw
    except ApiError as error:
        # The ledger may be away, or a wallet gone, while the rest can still be told.
        return {"error": str(error)}


async def _transactions(reach: Reach) -> dict[str, Any]:
    if reach.only is not None:
        return await _transactions_of(reach, await reach.wallet(None))
    return _records(await reach.client.transactions.list(limit=RECORDS))


async def _transactions_of(reach: Reach, wallet: Wallet) -> dict[str, Any]:
    return _records(await reach.client.wallets.transactions(wallet.id, limit=RECORDS))


def _records(transactions: Sequence[Transaction]) -> dict[str, Any]:
    return {"transactions": [transaction.raw for transaction in transactions]}


def _resource(uri: str, name: str, description: str) -> types.Resource:
    return types.Resource(uri=uri, name=name, description=description, mime_type=_JSON)

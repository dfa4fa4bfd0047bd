"""Wallets: create, list, one, tags, balance, limits."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from decimal import Decimal
from typing import Any

from quart import Blueprint, Response

from solward.operations.declared.examples import ACCOUNT, MINT
from solward.resources.examples import WALLET
from solward.resources.schema import (
    JSON,
    address,
    array,
    flag,
    identifier,
    number,
    ref,
    request_object,
    response_object,
    text,
    timestamp,
)
from solward.types.errors import (
    InvalidRequest,
    LedgerUnavailable,
    TooManyWallets,
    TransactionFailed,
)
from solward.types.money import from_units
from solward.types.roles import Role
from solward.vault.custody import MOST_OF_A_KEY
from solward.vault.custody.model import DEFAULT_NAME
from solward.vault.grants.dollars import Worth
from solward.vault.grants.model import USD_DECIMALS
from solward_server.http.auth import Access, admin, caller, keyed
from solward_server.http.body import (
    DEFAULT_LIST,
    MAX_LIST,
    body_text,
    body_texts,
    list_response,
    query_flag,
    query_text,
    query_whole,
    read_body,
)
from solward_server.http.errors import SPENDS_NOTHING, Forbidden
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import NO_WALLET, RECORD, TOO_MANY
from solward_server.openapi.operation import operation, request_body, success
from solward_server.openapi.parameters import (
    BEFORE_WALLET,
    CREATED_BY,
    EMPTY,
    POCKET,
    POCKET_ID,
    USD,
    USDC,
    WALLET_ADDRESS,
    WALLET_ID,
    WALLETS_LIMIT,
)


def _usd(worth: Worth) -> dict[str, Any]:
    def dollars(micro: int) -> Decimal:
        return from_units(micro, USD_DECIMALS)

    return {
        "total": dollars(worth.total),
        "assets": {asset: dollars(micro) for asset, micro in worth.micro_dollars.items()},
        "unpriced": dict(worth.unpriced),
    }


def blueprint(context: RouteContext) -> Blueprint:
    """`/wallets` and `/wallets/:id` with its balance and limits."""
    routes = Blueprint("wallets", __name__)
    service = context.service

    @routes.post("/wallets")
    @keyed(Role.POLICY)
    async def create() -> dict[str, Any]:
        if caller().wallet_id is not None:
            raise Forbidden("This API key is confined to one wallet and cannot create another")
        await context.may_change()
        body = await read_body()
        wallet = await service.wallets.create(
            body_text(body, "name", DEFAULT_NAME), body_texts(body, "tags", ())
        )
        return wallet.created_json()

    @routes.get("/wallets")
    @keyed(Role.READ)
    async def listing() -> Response | dict[str, Any]:
        limit, before = query_whole("limit", None, 1, MAX_LIST), query_text("before")
        only, maker = caller().wallet_id, query_flag("createdBy")
        if only is not None:
            # Nothing is older than the one; another's id is not told from one that is not there.
            if before not in (None, only):
                raise InvalidRequest("before must be the id of a wallet")
            own = [await context.current_wallet(only)] if before is None else []
            return {"wallets": [wallet.to_json(maker=maker) for wallet in own]}
        if limit is not None or before is not None:
            page = await service.wallets.newest_json(limit or DEFAULT_LIST, before, maker=maker)
            return list_response("wallets", page)
        return await _all(service.wallets.pages_json(maker=maker))

    @routes.get("/wallets/<wallet_id>")
    @keyed(Role.READ)
    async def one(wallet_id: str) -> dict[str, Any]:
        return (await context.current_wallet(wallet_id)).to_json()

    @routes.patch("/wallets/<wallet_id>")
    @keyed(Role.POLICY)
    async def change(wallet_id: str) -> dict[str, Any]:
        wallet = await context.current_wallet(wallet_id)
        await context.may_change()
        # The audit log keeps what they were and what they are.
        await context.count_request()
        tags = body_texts(await read_body(), "tags", wallet.tags)
        return (await service.wallets.set_tags(wallet_id, tags)).to_json()

    @routes.get("/wallets/<wallet_id>/balance")
    @keyed(Role.READ)
    async def balance(wallet_id: str) -> dict[str, Any]:
        await context.wallet(wallet_id)
        empty, in_dollars = query_flag("empty"), query_flag("usd")
        balances = await service.balances(wallet_id, empty=empty)
        shown = balances.to_json()
        return shown | {"usd": _usd(await service.worth(balances))} if in_dollars else shown

    @routes.get("/wallets/<wallet_id>/limits")
    @keyed(Role.READ)
    async def limits(wallet_id: str) -> dict[str, Any]:
        await context.wallet(wallet_id)
        # A key is told of grants of its own and of the wallet; the sum is for everybody.
        who = caller()
        shown = None if who.key is None else (who.principal, f"wallet:{wallet_id}")
        return await service.wallet_limits(wallet_id, shown)

    @routes.get("/wallets/<wallet_id>/reclaimable")
    @keyed(Role.READ)
    async def reclaimable(wallet_id: str) -> dict[str, Any]:
        await context.wallet(wallet_id)
        return (await service.operations.reclaimable(wallet_id)).to_json()

    @routes.get("/wallets/<wallet_id>/pockets")
    @keyed(Role.READ)
    async def pockets(wallet_id: str) -> dict[str, Any]:
        await context.wallet(wallet_id)
        return await service.wallet_pockets(wallet_id)

    @routes.post("/wallets/<wallet_id>/pockets/<pocket_id>/sweep")
    @admin(Role.OPERATE)
    async def sweep(wallet_id: str, pocket_id: str) -> dict[str, Any]:
        await read_body()
        await context.wallet(wallet_id)
        record = await service.engine.sweep_pocket(wallet_id, caller().actor(), pocket_id)
        return record.to_json(fee=True)

    return routes


async def _all(pages: AsyncIterator[Sequence[bytes]]) -> Response:
    # Read before the status is sent, so that an error has its own status.
    first: Sequence[bytes] = await anext(pages, [])
    second: Sequence[bytes] = await anext(pages, [])
    if not second:
        return list_response("wallets", first)
    response = Response(_written(first, second, pages), 200, content_type=JSON)
    # Their number is not known, so no time is too long for them.
    response.timeout = None
    return response


async def _written(
    first: Sequence[bytes], second: Sequence[bytes], others: AsyncIterator[Sequence[bytes]]
) -> AsyncGenerator[bytes, None]:
    """The list's JSON, a page at a time."""
    yield b'{"wallets":[' + b",".join(first)
    page = second
    while page:
        yield b"," + b",".join(page)
        page = await anext(others, [])
    yield b"]}"


_WALLET = {
    "id": WALLET,
    "name": "docs",
    "publicKey": WALLET_ADDRESS,
    "createdAt": "2026-11-21T10:34:55.152Z",
    "tags": ["treasury"],
}
_TAGS = array(text("1 to 64 printable characters.", 64), "For people; doubles are left out.", 20)
_BAD_TAGS = "tags must be an array of at most 20 strings of 1 to 64 characters"

_POCKET = {
    "address": POCKET,
    "counter": 7,
    "transactionId": "4f1c8a63-8a0f-4a55-9f43-6a1c4a3f9b0e",
    "program": "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4",
    "position": "pool 3",
    "mints": [USDC],
    "atRisk": {"SOL": "5000000", USDC: "250000000"},
    "createdAt": "2026-11-21T10:34:55.152Z",
}
_SWEPT = {
    "id": "4f1c8a63-8a0f-4a55-9f43-6a1c4a3f9b0e",
    "walletId": WALLET,
    "principal": "admin",
    "type": "other",
    "status": "confirmed",
    "details": {"pocket": _POCKET["address"]},
    "guardrailsApplied": [],
    "timestamp": "2026-11-21T10:34:55.152Z",
}
_RENT_HELD = response_object(
    {
        "account": address("The token account."),
        "mint": address("Its mint."),
        "sol": number("What it gives back."),
        "closes": flag("Whether it is empty, and closed."),
    }
)
_RENT_KEPT = response_object(
    {
        "account": address("The token account."),
        "mint": address("Its mint."),
        "reason": text("Why it keeps its rent."),
    }
)
_RECLAIMABLE = {
    "reclaimable": 0.002,
    "accounts": [
        {"account": ACCOUNT, "mint": USDC, "sol": 0.0015, "closes": True},
        {"account": POCKET, "mint": MINT, "sol": 0.0005, "closes": False},
    ],
    "kept": [],
}
_UNANSWERED = LedgerUnavailable("The ledger did not answer getMultipleAccounts (ConnectError)")

PATHS = {
    "/wallets": {
        "post": operation(
            "createWallet",
            "Create a wallet",
            tag="wallets",
            access=Access.KEY,
            body=request_body(
                request_object(
                    {
                        "name": text(
                            "1 to 64 printable characters.", 64, default="external-wallet"
                        ),
                        "tags": _TAGS,
                    }
                ),
                {"name": "mine"},
                required=False,
            ),
            response=success(
                response_object(
                    {
                        "walletId": identifier("The wallet."),
                        "name": text("As given."),
                        "address": address("Its public key."),
                        "createdAt": timestamp("Now."),
                    }
                ),
                {
                    "walletId": "06e0d46a-542f-429d-a879-ad7a50aea193",
                    "name": "mine",
                    "address": "B3cKBxUNRVg2xdrcZ1n16UyXNotSUhyCAVzK7HBAmo6t",
                    "createdAt": "2026-11-21T10:34:55.136Z",
                },
            ),
            errors={
                400: _BAD_TAGS,
                403: [
                    "This API key is confined to one wallet and cannot create another",
                    SPENDS_NOTHING,
                ],
                500: TooManyWallets(MOST_OF_A_KEY),
            },
        ),
        "get": operation(
            "listWallets",
            "List wallets",
            tag="wallets",
            access=Access.KEY,
            description="All of them, oldest first; with `limit` or `before` a page, newest first. "
            "A key that is confined to one wallet sees that one.",
            parameters=[WALLETS_LIMIT, BEFORE_WALLET, CREATED_BY],
            response=success(
                response_object({"wallets": array(ref("Wallet"), "In that order.")}),
                {"wallets": [_WALLET]},
            ),
            errors={
                400: [
                    "limit must be a whole number from 1 to 500",
                    "before must be the id of a wallet",
                ]
            },
        ),
    },
    "/wallets/{walletId}": {
        "get": operation(
            "getWallet",
            "One wallet",
            tag="wallets",
            access=Access.KEY,
            parameters=[WALLET_ID],
            response=success(ref("Wallet"), _WALLET),
            errors={404: NO_WALLET},
        ),
        "patch": operation(
            "changeWallet",
            "Replace a wallet's tags",
            tag="wallets",
            access=Access.KEY,
            parameters=[WALLET_ID],
            body=request_body(
                request_object({"tags": _TAGS}), {"tags": ["treasury"]}, required=False
            ),
            response=success(ref("Wallet"), _WALLET),
            errors={400: _BAD_TAGS, 403: SPENDS_NOTHING, 404: NO_WALLET, 429: TOO_MANY},
        ),
    },
    "/wallets/{walletId}/balance": {
        "get": operation(
            "getBalance",
            "What a wallet holds on the ledger",
            tag="wallets",
            access=Access.KEY,
            parameters=[WALLET_ID, EMPTY, USD],
            response=success(
                ref("Balance"),
                {
                    "sol": 2.39794572,
                    "tokens": [
                        {
                            "mint": USDC,
                            "symbol": "USDC",
                            "uiBalance": 14.954984,
                            "rawBalance": "14954984",
                            "decimals": 6,
                        }
                    ],
                },
            ),
            errors={
                400: "empty must be true or false",
                404: NO_WALLET,
                500: _UNANSWERED,
            },
        )
    },
    "/wallets/{walletId}/reclaimable": {
        "get": operation(
            "getReclaimableRent",
            "The rent that a wallet's token accounts can give back",
            tag="wallets",
            access=Access.KEY,
            description="What `reclaim-rent` would take, in as many calls as it needs.",
            parameters=[WALLET_ID],
            response=success(
                response_object(
                    {
                        "reclaimable": number("SOL that would come back."),
                        "accounts": array(_RENT_HELD, "The most first."),
                        "kept": array(_RENT_KEPT, "Accounts that keep theirs, and why."),
                    }
                ),
                _RECLAIMABLE,
            ),
            errors={
                404: NO_WALLET,
                500: _UNANSWERED,
            },
        )
    },
    "/wallets/{walletId}/pockets": {
        "get": operation(
            "getWalletPockets",
            "A wallet's pockets that may hold something, and what is at risk",
            tag="wallets",
            access=Access.KEY,
            parameters=[WALLET_ID],
            response=success(
                response_object(
                    {
                        "walletId": identifier("The wallet."),
                        "pockets": array(ref("Pocket"), "Oldest first."),
                    }
                ),
                {"walletId": WALLET, "pockets": [_POCKET]},
            ),
            errors={404: NO_WALLET},
        )
    },
    "/wallets/{walletId}/pockets/{pocketId}/sweep": {
        "post": operation(
            "sweepPocket",
            "Take home what a pocket holds",
            tag="wallets",
            access=Access.ADMIN,
            description="A frozen wallet's pockets too: nothing leaves but the network fee.",
            parameters=[WALLET_ID, POCKET_ID],
            body=request_body(request_object({}), {}, required=False),
            response=success(ref("Transaction"), _SWEPT),
            errors={
                400: [
                    "address: what pocket 9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g is used"
                    " for has not ended",
                ],
                404: "Pocket not found",
                500: TransactionFailed("Something is left in the pocket", RECORD),
            },
        )
    },
    "/wallets/{walletId}/limits": {
        "get": operation(
            "getWalletLimits",
            "The service's limits for a wallet, and what is spent of them",
            tag="wallets",
            access=Access.KEY,
            parameters=[WALLET_ID],
            response=success(
                ref("WalletLimits"),
                {
                    "walletId": WALLET,
                    "frozen": False,
                    "maxSolPerTransaction": {"limit": 2},
                    "maxTransactionsPerMinute": {"limit": 5, "used": 4, "left": 1},
                    "dailySpendingLimitSol": {
                        "limit": 10,
                        "spent": 0.6,
                        "reserved": 0,
                        "left": 9.4,
                    },
                    "maxCostsSolPerDay": {
                        "limit": 0.05,
                        "spent": 0.00001,
                        "reserved": 0,
                        "left": 0.04999,
                    },
                    "dailyTokens": {},
                    "grants": [],
                    "canLeave": {
                        "window": "24h",
                        "assets": {
                            "SOL": {"most": "10"},
                            "COSTS": {"most": "0.05"},
                            "*": {
                                "most": None,
                                "reason": "agents, keys and schedules without grants may swap any"
                                " token",
                            },
                        },
                        "sentence": "At most 10 SOL, any amount of any other asset and 0.05 SOL of"
                        " fees and rent can leave wallet savings today by anybody but the"
                        " operator.",
                    },
                },
            ),
            errors={404: NO_WALLET},
        )
    },
}

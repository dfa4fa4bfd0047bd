"""Transaction records, newest first, of one wallet or of all."""

from __future__ import annotations

from quart import Blueprint, Response

from solward.roles import Role
from solward_server.http.auth import Access, caller, keyed
from solward_server.http.body import list_response, query_flag, query_limit, query_text
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import NO_WALLET
from solward_server.openapi.operation import operation, success
from solward_server.openapi.parameters import (
    BEFORE_RECORD,
    FEES,
    LIMIT,
    WALLET,
    WALLET_ADDRESS,
    WALLET_ID,
)
from solward_server.openapi.schema import array, ref, response_object


def blueprint(context: RouteContext) -> Blueprint:
    """`GET /transactions` and `GET /wallets/:id/transactions`; `before=<id>` pages."""
    routes = Blueprint("transactions", __name__)

    @routes.get("/transactions")
    @keyed(Role.READ)
    async def across_wallets() -> Response:
        return await _listing(context, caller().wallet_id)

    @routes.get("/wallets/<wallet_id>/transactions")
    @keyed(Role.READ)
    async def of_wallet(wallet_id: str) -> Response:
        await context.wallet(wallet_id)
        return await _listing(context, wallet_id)

    return routes


async def _listing(context: RouteContext, wallet_id: str | None) -> Response:
    fee = query_flag("fees")
    records = await context.service.transactions_json(
        wallet_id, limit=query_limit(), before=query_text("before"), fee=fee
    )
    return list_response("transactions", records)


_LIST = success(
    response_object({"transactions": array(ref("Transaction"), "Newest first.")}),
    {
        "transactions": [
            {
                "id": "93698b99-39ce-4d15-841f-684b9de7d8bc",
                "walletId": WALLET,
                "principal": "admin",
                "type": "transfer",
                "status": "blocked",
                "details": {
                    "from": WALLET_ADDRESS,
                    "to": "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g",
                    "amount": 5,
                },
                "guardrailsApplied": ["max_per_tx"],
                "timestamp": "2026-11-21T10:34:55.479Z",
                "error": "5 SOL is more than the 2 SOL allowed per transaction (limit of the "
                "wallet)",
            }
        ]
    },
)
_BAD_REQUEST = [
    "limit must be a whole number from 1 to 500",
    "before must be the id of a transaction",
    "fees must be true or false",
]

PATHS = {
    "/transactions": {
        "get": operation(
            "listTransactions",
            "Records of all wallets",
            tag="transactions",
            access=Access.KEY,
            description="A key that is confined to one wallet sees that wallet's.",
            parameters=[LIMIT, BEFORE_RECORD, FEES],
            response=_LIST,
            errors={400: _BAD_REQUEST},
        )
    },
    "/wallets/{walletId}/transactions": {
        "get": operation(
            "listWalletTransactions",
            "Records of one wallet",
            tag="transactions",
            access=Access.KEY,
            parameters=[WALLET_ID, LIMIT, BEFORE_RECORD, FEES],
            response=_LIST,
            errors={400: _BAD_REQUEST, 404: NO_WALLET},
        )
    },
}

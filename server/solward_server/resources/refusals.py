"""What was refused and why, and one transaction with what it could have taken."""

from __future__ import annotations

from typing import Any

from quart import Blueprint

from solward.resources.examples import WALLET
from solward.resources.schema import (
    array,
    flag,
    identifier,
    mapping,
    ref,
    response_object,
    whole,
)
from solward.types.errors import NotFound
from solward.types.roles import Role
from solward.vault.store.transactions import REFUSALS_OF
from solward_server.http.auth import Access, caller, keyed
from solward_server.http.body import query_limit, query_text
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import NO_WALLET
from solward_server.openapi.operation import operation, success
from solward_server.openapi.parameters import LIMIT, RECORD, RECORD_ID, WALLET_ADDRESS, query

NO_RECORD = "Transaction not found"


def blueprint(context: RouteContext) -> Blueprint:
    """`GET /refusals` and `GET /transactions/:id`."""
    routes = Blueprint("refusals", __name__)

    @routes.get("/refusals")
    @keyed(Role.READ)
    async def listing() -> dict[str, Any]:
        wallet_id = query_text("walletId")
        if wallet_id is None:
            wallet_id = caller().wallet_id
        if wallet_id is not None:
            await context.wallet(wallet_id)
        return await context.service.refusals(wallet_id, limit=query_limit())

    @routes.get("/transactions/<transaction_id>")
    @keyed(Role.READ)
    async def one(transaction_id: str) -> dict[str, Any]:
        found = await context.service.record_json(transaction_id)
        if caller().wallet_id not in (None, found["walletId"]):
            raise NotFound(NO_RECORD)
        return found

    return routes


_EXAMPLE = {
    "id": RECORD,
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
    "error": "5 SOL is more than the 2 SOL allowed per transaction (limit of the wallet)",
    "refusal": {
        "rule": "max_per_tx",
        "reason": "5 SOL is more than the 2 SOL allowed per transaction (limit of the wallet)",
        "numbers": {"asked": "5", "limit": "2", "unit": "SOL"},
    },
    "couldLeave": {
        "lines": [
            {
                "operation": "transfer",
                "asset": "SOL",
                "units": "5000000000",
                "account": "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g",
                "decimals": 9,
            }
        ],
        "costsLamports": "5000",
    },
}

PATHS = {
    "/refusals": {
        "get": operation(
            "listRefusals",
            "What was refused and why, and how much of it in 24 hours",
            tag="transactions",
            access=Access.KEY,
            description=(
                f"Among the newest {REFUSALS_OF:,} transactions. A key that is confined to one"
                " wallet sees that wallet's."
            ),
            parameters=[query("walletId", identifier("Only this wallet's.")), LIMIT],
            response=success(
                response_object(
                    {
                        "refusals": array(ref("JudgedTransaction"), "Newest first."),
                        "lastDay": response_object(
                            {
                                "count": whole("Refused in the last 24 hours.", 0),
                                "byRule": mapping(whole("Of the count.", 0), "Most first."),
                                "isComplete": flag(
                                    "Whether that is all of them, or of the newest"
                                    f" {REFUSALS_OF:,} transactions."
                                ),
                            }
                        ),
                    }
                ),
                {
                    "refusals": [_EXAMPLE],
                    "lastDay": {"count": 1, "byRule": {"max_per_tx": 1}, "isComplete": True},
                },
            ),
            errors={400: "limit must be a whole number from 1 to 500", 404: NO_WALLET},
        )
    },
    "/transactions/{transactionId}": {
        "get": operation(
            "getTransaction",
            "One record, why it was refused, and what its bytes could take",
            tag="transactions",
            access=Access.KEY,
            parameters=[RECORD_ID],
            response=success(ref("JudgedTransaction"), _EXAMPLE),
            errors={404: NO_RECORD},
        )
    },
}

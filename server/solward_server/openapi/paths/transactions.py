"""The records of transactions."""

from __future__ import annotations

from solward_server.http.auth import Access
from solward_server.openapi.errors import NO_WALLET
from solward_server.openapi.operation import answers, operation
from solward_server.openapi.parameters import BEFORE_RECORD, LIMIT, WALLET, WALLET_ID
from solward_server.openapi.paths.wallets import ADDRESS
from solward_server.openapi.schema import array, closed, ref

_LIST = answers(
    closed({"transactions": array(ref("Transaction"), "Newest first.")}),
    {
        "transactions": [
            {
                "id": "93698b99-39ce-4d15-841f-684b9de7d8bc",
                "walletId": WALLET,
                "type": "transfer",
                "status": "blocked",
                "details": {
                    "from": ADDRESS,
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
_BAD = ["limit must be a whole number from 1 to 500", "before must be the id of a transaction"]

PATHS = {
    "/transactions": {
        "get": operation(
            "listTransactions",
            "Records of all wallets",
            tag="transactions",
            access=Access.KEY,
            description="A key that is confined to one wallet sees that wallet's.",
            parameters=[LIMIT, BEFORE_RECORD],
            answer=_LIST,
            errors={400: _BAD},
        )
    },
    "/wallets/{walletId}/transactions": {
        "get": operation(
            "listWalletTransactions",
            "Records of one wallet",
            tag="transactions",
            access=Access.KEY,
            parameters=[WALLET_ID, LIMIT, BEFORE_RECORD],
            answer=_LIST,
            errors={400: _BAD, 404: NO_WALLET},
        )
    },
}

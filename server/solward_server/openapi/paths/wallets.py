"""Wallets, what they hold, and their limits."""

from __future__ import annotations

from solward.solana.token_list import token_list
from solward_server.http.auth import Access
from solward_server.openapi.errors import NO_WALLET
from solward_server.openapi.operation import answers, operation, takes
from solward_server.openapi.parameters import EMPTY, WALLET, WALLET_ID
from solward_server.openapi.schema import (
    address,
    array,
    asked,
    closed,
    identifier,
    ref,
    text,
    timestamp,
)

ADDRESS = "Xyk1ak1fTvBzxDgQ8ypk1T4PfUfmQEXDnvC6Y6Ttnvh"
USDC = token_list("localnet").resolve("USDC", "mint")

_WALLET = {
    "id": WALLET,
    "name": "docs",
    "publicKey": ADDRESS,
    "createdAt": "2026-11-21T10:34:55.152Z",
    "tags": ["treasury"],
}
_TAGS = array(text("1 to 64 printable characters.", 64), "For people; doubles are left out.", 20)
_BAD_TAGS = "tags must be an array of at most 20 strings of 1 to 64 characters"

PATHS = {
    "/wallets": {
        "post": operation(
            "createWallet",
            "Create a wallet",
            tag="wallets",
            access=Access.KEY,
            body=takes(
                asked(
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
            answer=answers(
                closed(
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
                403: "This API key is confined to one wallet and cannot create another",
            },
        ),
        "get": operation(
            "listWallets",
            "List wallets",
            tag="wallets",
            access=Access.KEY,
            description="A key that is confined to one wallet sees that one.",
            answer=answers(
                closed({"wallets": array(ref("Wallet"), "Oldest first.")}), {"wallets": [_WALLET]}
            ),
        ),
    },
    "/wallets/{walletId}": {
        "get": operation(
            "getWallet",
            "One wallet",
            tag="wallets",
            access=Access.KEY,
            parameters=[WALLET_ID],
            answer=answers(ref("Wallet"), _WALLET),
            errors={404: NO_WALLET},
        ),
        "patch": operation(
            "changeWallet",
            "Replace a wallet's tags",
            tag="wallets",
            access=Access.KEY,
            parameters=[WALLET_ID],
            body=takes(asked({"tags": _TAGS}), {"tags": ["treasury"]}, required=False),
            answer=answers(ref("Wallet"), _WALLET),
            errors={400: _BAD_TAGS, 404: NO_WALLET},
        ),
    },
    "/wallets/{walletId}/balance": {
        "get": operation(
            "getBalance",
            "What a wallet holds on the ledger",
            tag="wallets",
            access=Access.KEY,
            parameters=[WALLET_ID, EMPTY],
            answer=answers(
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
                500: "The ledger did not answer getBalance (ConnectError)",
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
            answer=answers(
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
                    "dailyTokens": {},
                },
            ),
            errors={404: NO_WALLET},
        )
    },
}

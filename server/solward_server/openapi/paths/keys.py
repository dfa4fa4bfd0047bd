"""API keys."""

from __future__ import annotations

from solward_server.http.auth import Access
from solward_server.openapi.errors import NO_WALLET
from solward_server.openapi.operation import answers, operation, takes
from solward_server.openapi.parameters import KEY, KEY_ID
from solward_server.openapi.schema import array, asked, closed, flag, identifier, number, ref, text
from solward_server.openapi.schema import whole as whole_number

_EXAMPLE = {"name": "ci", "rateLimit": 2, "spendingLimitSol": 1}

PATHS = {
    "/keys": {
        "post": operation(
            "createKey",
            "Create an API key",
            tag="keys",
            access=Access.ADMIN,
            description="The key itself is in this answer and nowhere else.",
            body=takes(
                asked(
                    {
                        "name": text("For people.", 100),
                        "walletId": text("The only wallet it may use.", 200),
                        "permissions": array(text("A permission.", 64), "Stored, not enforced.", 20)
                        | {"default": ["read", "write"]},
                        "rateLimit": whole_number(
                            "Transaction-producing requests in any 60 seconds.",
                            1,
                            1_000_000,
                            default=10,
                        ),
                        "spendingLimitSol": number(
                            "SOL in any 24 hours over all wallets; at most 9 decimals.",
                            minimum=0,
                            default=5,
                        ),
                    },
                    required=["name"],
                ),
                _EXAMPLE,
            ),
            answer=answers(
                closed(
                    {
                        "apiKey": text("The key.", pattern="^sk-[0-9a-f]{32}$"),
                        "id": identifier("Its record."),
                        "name": text("As given."),
                    }
                ),
                {"apiKey": "sk-9b25e816aa19446cb7440a0cc2fdf510", "id": KEY, "name": "ci"},
            ),
            errors={
                400: "name is required and must be a string",
                404: NO_WALLET,
            },
        ),
        "get": operation(
            "listKeys",
            "List API keys",
            tag="keys",
            access=Access.ADMIN,
            answer=answers(
                closed({"keys": array(ref("Key"), "Oldest first.")}),
                {
                    "keys": [
                        {
                            "id": KEY,
                            "name": "ci",
                            "walletId": None,
                            "permissions": ["read", "write"],
                            "createdAt": "2026-11-21T10:34:55.814Z",
                            "lastUsedAt": None,
                        }
                    ]
                },
            ),
        ),
    },
    "/keys/{keyId}": {
        "delete": operation(
            "revokeKey",
            "Revoke an API key at once",
            tag="keys",
            access=Access.ADMIN,
            parameters=[KEY_ID],
            answer=answers(
                closed({"id": identifier("The key's."), "revoked": flag("True.", const=True)}),
                {"id": KEY, "revoked": True},
            ),
            errors={404: "API key not found"},
        )
    },
}

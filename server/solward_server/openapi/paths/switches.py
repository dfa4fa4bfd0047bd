"""The freeze switch."""

from __future__ import annotations

from solward_server.http.auth import Access
from solward_server.openapi.errors import NO_WALLET
from solward_server.openapi.operation import answers, operation, takes
from solward_server.openapi.schema import asked, closed, flag, nullable, text

_WALLET = text("One wallet; left out, all.", 200)
_SWITCHED = {
    "frozen": flag("What it is now."),
    "walletId": nullable(text("The wallet; null is all.")),
}

PATHS = {
    "/freeze": {
        "post": operation(
            "freeze",
            "Stop every new transaction, of one wallet or of all",
            tag="switches",
            access=Access.ADMIN,
            description="What was sent already goes on to its end. A restart does not lift it.",
            body=takes(
                asked({"walletId": _WALLET, "reason": text("For who is refused.", 200)}),
                {"reason": "incident 7"},
                required=False,
            ),
            answer=answers(
                closed(_SWITCHED | {"reason": nullable(text("As given."))}),
                {"frozen": True, "walletId": None, "reason": "incident 7"},
            ),
            errors={
                400: "reason must be a string of 1 to 200 characters",
                404: NO_WALLET,
            },
        )
    },
    "/unfreeze": {
        "post": operation(
            "unfreeze",
            "Allow transactions again",
            tag="switches",
            access=Access.ADMIN,
            body=takes(asked({"walletId": _WALLET}), {}, required=False),
            answer=answers(closed(_SWITCHED), {"frozen": False, "walletId": None}),
            errors={
                400: "walletId must be a string of 1 to 200 characters",
                404: NO_WALLET,
            },
        )
    },
}

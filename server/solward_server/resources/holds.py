"""Holds: what waits for a person, and the decision."""

from __future__ import annotations

from typing import Any

from quart import Blueprint

from solward.operations.approvals import MAX_NOTE
from solward.resources.examples import AGENT, WALLET
from solward.resources.schema import (
    array,
    flag,
    identifier,
    ref,
    request_object,
    response_object,
    text,
)
from solward.types.errors import NotFound
from solward.types.record import HoldState
from solward.types.roles import Role
from solward_server.http.auth import Access, caller, keyed
from solward_server.http.body import (
    body_optional_text,
    query_flag,
    query_limit,
    query_text,
    read_body,
)
from solward_server.http.route_context import RouteContext
from solward_server.openapi.operation import operation, request_body, success
from solward_server.openapi.parameters import HOLD, HOLD_ID, LIMIT, WALLET_ADDRESS, query

NO_HOLD = "Hold not found"


def blueprint(context: RouteContext) -> Blueprint:
    """`/holds`, `/holds/:id` and its decisions."""
    routes = Blueprint("holds", __name__)
    service = context.service

    async def sees_all() -> bool:
        """The admin and who may approve; others see what they asked for themselves."""
        if caller().wallet_id is not None:
            return False
        return await service.approvals.may_decide(caller().principal)

    async def decision_note() -> str | None:
        """The note of a decision, whose caller may change something."""
        note = body_optional_text(await read_body(), "note", longest=MAX_NOTE)
        await context.may_change()
        return note

    @routes.get("/holds")
    @keyed(Role.READ)
    async def listing() -> dict[str, Any]:
        wallet_id = query_text("walletId")
        if wallet_id is not None:
            await context.wallet(wallet_id)
        found = await service.holds(
            wallet_id=wallet_id,
            principal=None if await sees_all() else caller().principal,
            is_open=None if query_text("open") is None else query_flag("open"),
            limit=query_limit(),
            before=query_text("before"),
        )
        return {"holds": [hold.to_json() for hold in found]}

    @routes.get("/holds/<hold_id>")
    @keyed(Role.READ)
    async def one(hold_id: str) -> dict[str, Any]:
        found = await service.hold(hold_id)
        if found.principal != caller().principal and not await sees_all():
            raise NotFound(NO_HOLD)
        return found.to_json()

    @routes.post("/holds/<hold_id>/approve")
    @keyed(Role.POLICY)
    async def approve(hold_id: str) -> dict[str, Any]:
        note = await decision_note()
        return (await service.approve_hold(hold_id, caller().principal, note)).to_json()

    @routes.post("/holds/<hold_id>/deny")
    @keyed(Role.OPERATE)
    async def deny(hold_id: str) -> dict[str, Any]:
        note = await decision_note()
        return (await service.deny_hold(hold_id, caller().principal, note)).to_json()

    return routes


_EXAMPLE = {
    "id": HOLD,
    "walletId": WALLET,
    "agentId": AGENT,
    "principal": f"agent:{AGENT}",
    "chain": [f"wallet:{WALLET}", f"agent:{AGENT}", "skill:transfer", "plugin:solward"],
    "type": "transfer",
    "state": HoldState.HELD.value,
    "sentence": (
        f"Agent scout asks to transfer 3 SOL to {WALLET_ADDRESS}, from wallet pocket. 3 SOL is more"
        " than the 2 SOL above which grant 1 of agent scout asks a person."
    ),
    "reasons": ["3 SOL is more than the 2 SOL above which grant 1 of agent scout asks a person."],
    "lines": [
        {
            "operation": "transfer",
            "asset": "SOL",
            "units": "3000000000",
            "account": WALLET_ADDRESS,
            "decimals": 9,
        }
    ],
    "costsLamports": "5000",
    "arrives": {},
    "details": {"to": WALLET_ADDRESS, "amount": 3},
    "repeats": False,
    "createdAt": "2026-11-21T10:34:55.814Z",
    "expiresAt": "2026-11-21T11:34:55.814Z",
}
_DECIDED = _EXAMPLE | {
    "state": HoldState.EXECUTED.value,
    "decidedBy": "admin",
    "decidedAt": "2026-11-21T10:40:00.000Z",
    "transactionId": "0d3c3a35-0b8e-4f2c-8f0a-5e2b4b8a5f10",
}
_NOTE = request_body(
    request_object({"note": text("One line for the record.", MAX_NOTE)}),
    {"note": "as agreed with finance"},
    required=False,
)
_ENDED = "The hold is denied already"
_NOT_YOURS = "Who asks for a transaction does not approve it"


def _decision(operation_id: str, summary: str, description: str, example: Any) -> dict[str, Any]:
    return {
        "post": operation(
            operation_id,
            summary,
            tag="holds",
            access=Access.KEY,
            description=description,
            parameters=[HOLD_ID],
            body=_NOTE,
            response=success(ref("Hold"), example),
            errors={
                400: f"note must be one line of at most {MAX_NOTE} characters",
                403: _NOT_YOURS,
                404: NO_HOLD,
                409: _ENDED,
            },
        )
    }


PATHS = {
    "/holds": {
        "get": operation(
            "listHolds",
            "What waits for a person, and what became of it",
            tag="holds",
            access=Access.KEY,
            description=(
                "Newest first. The admin and keys that may approve see all, others what they asked"
                " for."
            ),
            parameters=[
                query("walletId", identifier("Only this wallet's.")),
                query("open", flag("Only those that may still move money, or only the others.")),
                LIMIT,
                query("before", identifier("A hold's id: only older ones.")),
            ],
            response=success(
                response_object({"holds": array(ref("Hold"), "Newest first.")}),
                {"holds": [_EXAMPLE]},
            ),
            errors={400: "before must be the id of a hold", 404: "Wallet not found"},
        )
    },
    "/holds/{holdId}": {
        "get": operation(
            "getHold",
            "One hold",
            tag="holds",
            access=Access.KEY,
            parameters=[HOLD_ID],
            response=success(ref("Hold"), _EXAMPLE),
            errors={404: NO_HOLD},
        )
    },
    "/holds/{holdId}/approve": _decision(
        "approveHold",
        "Approve what is held, once",
        "It is made again, judged by everything again, and sent; at most what was shown leaves.",
        _DECIDED,
    ),
    "/holds/{holdId}/deny": _decision(
        "denyHold",
        "Deny what is held",
        "Its caller is answered with a blocked record from then on.",
        _EXAMPLE
        | {
            "state": HoldState.DENIED.value,
            "decidedBy": "admin",
            "decidedAt": "2026-11-21T10:40:00.000Z",
            "transactionId": "0d3c3a35-0b8e-4f2c-8f0a-5e2b4b8a5f10",
        },
    ),
}

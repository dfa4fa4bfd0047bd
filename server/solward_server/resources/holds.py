"""Routes of holds, which are transactions that wait for a person, and of decisions on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quart import request

from solward.notify.webhook import REFUSALS, SentDecision
from solward.resources import holds as calls
from solward.resources.declare import Call
from solward.resources.fields import Text
from solward.support.webhook_signature import NONCE, SIGNATURE, TIMESTAMP
from solward.types.errors import NotFound
from solward.types.roles import Role
from solward_server.http.auth import caller, keyed, signed
from solward_server.http.body import query_of, read_body
from solward_server.http.route_context import RouteContext
from solward_server.openapi.components import NOT_FOUND, PATH_PARAMETERS, header
from solward_server.openapi.errors import NO_WALLET
from solward_server.openapi.route import H, Routes

NO_WEBHOOK = "No webhook for approvals is configured"

routes = Routes("holds", "Transactions that wait for a person.")


async def _sees_all(context: RouteContext) -> bool:
    """Return whether the caller may approve and so sees all holds; others see only their own."""
    if caller().wallet_id is not None:
        return False
    return await context.service.approvals.may_decide(caller().principal)


async def _decision_note(context: RouteContext) -> str | None:
    """Return the note of a decision, after checking that the caller may change something."""
    note = calls.HoldNote.of(await read_body()).note
    await context.may_change()
    return note


def _serve_decision(call: Call[Any], role: Role) -> Callable[[H], H]:
    """Return a decorator for the function that serves a decision."""
    errors = {
        403: "The principal that asked for a transaction may not approve it",
        409: "The hold is denied already",
    }
    return routes.serve(call, keyed(role), errors)


@routes.serve(
    calls.LIST_HOLDS,
    keyed(Role.READ),
    {400: "before must be the id of a hold", 404: NO_WALLET},
)
async def list_holds(context: RouteContext) -> dict[str, Any]:
    only = query_of(calls.ListedHolds)
    if only.wallet_id is not None:
        await context.wallet(only.wallet_id)
    found = await context.service.approvals.listed(
        wallet_id=only.wallet_id,
        principal=None if await _sees_all(context) else caller().principal,
        is_open=only.is_open,
        limit=only.limit,
        before=only.before,
    )
    return {"holds": [hold.to_json() for hold in found]}


@routes.serve(calls.GET_HOLD, keyed(Role.READ))
async def get_hold(context: RouteContext, hold_id: str) -> dict[str, Any]:
    found = await context.service.approvals.get(hold_id)
    if found.principal != caller().principal and not await _sees_all(context):
        raise NotFound(NOT_FOUND["hold_id"])
    return found.to_json()


@_serve_decision(calls.APPROVE_HOLD, Role.POLICY)
async def approve(context: RouteContext, hold_id: str) -> dict[str, Any]:
    note = await _decision_note(context)
    approvals = context.service.approvals
    return (await approvals.approve(hold_id, caller().principal, note)).to_json()


@_serve_decision(calls.DENY_HOLD, Role.OPERATE)
async def deny(context: RouteContext, hold_id: str) -> dict[str, Any]:
    note = await _decision_note(context)
    return (await context.service.approvals.deny(hold_id, caller().principal, note)).to_json()


@routes.serve(
    calls.DECIDE_HOLD,
    signed,
    {
        401: list(REFUSALS.values()),
        404: NO_WEBHOOK,
        409: "The hold is denied; nothing was changed",
    },
    parameters=(
        PATH_PARAMETERS["hold_id"],
        header(TIMESTAMP, Text("Seconds since 1970.", pattern="[1-9][0-9]{0,11}")),
        header(NONCE, Text("Never sent before.", pattern="[A-Za-z0-9_-]{16,128}")),
        header(
            SIGNATURE,
            Text(
                "`v1=` and the HMAC-SHA-256 of `v1:decision:`, the hold's id, `:`, the timestamp,"
                " `:`, the nonce, `:` and the body.",
                pattern="v1=[0-9a-f]{64}",
            ),
        ),
    ),
)
async def decide(context: RouteContext, hold_id: str) -> dict[str, Any]:
    webhook = context.service.webhook
    if webhook is None:
        raise NotFound(NO_WEBHOOK)
    body: str | bytes = await request.get_data(cache=False, as_text=False)
    assert isinstance(body, bytes)
    sent = SentDecision(hold_id, _header(TIMESTAMP), _header(NONCE), _header(SIGNATURE), body)
    hold = await webhook.decide(context.service.approvals, sent)
    return {"id": hold.id, "state": hold.state.value}


def _header(name: str) -> str:
    """Return a header, or "" if it is sent twice, because a proxy may read the other one."""
    values = request.headers.getlist(name)
    return values[0] if len(values) == 1 else ""

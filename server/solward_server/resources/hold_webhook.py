"""Decisions that come back from the receiver of the approvals' webhook."""

from __future__ import annotations

from typing import Any

from quart import Blueprint, request

from solward.notify.webhook import REFUSALS, SentDecision
from solward.resources.holds import MAX_NOTE
from solward.resources.schema import (
    choice,
    identifier,
    request_object,
    response_object,
    text,
)
from solward.support.webhook_signature import NONCE, SIGNATURE, TIMESTAMP
from solward.types.errors import NotFound
from solward.types.record import HoldState
from solward_server.http.auth import Access, signed
from solward_server.http.route_context import RouteContext
from solward_server.openapi.operation import operation, request_body, success
from solward_server.openapi.parameters import HOLD, HOLD_ID, header

NO_WEBHOOK = "No webhook for approvals is configured"


def blueprint(context: RouteContext) -> Blueprint:
    """`POST /holds/:id/webhook`."""
    routes = Blueprint("hold_webhook", __name__)
    service = context.service

    @routes.post("/holds/<hold_id>/webhook")
    @signed
    async def decide(hold_id: str) -> dict[str, Any]:
        if service.webhook is None:
            raise NotFound(NO_WEBHOOK)
        body: str | bytes = await request.get_data(cache=False, as_text=False)
        assert isinstance(body, bytes)
        sent = SentDecision(hold_id, _header(TIMESTAMP), _header(NONCE), _header(SIGNATURE), body)
        hold = await service.webhook.decide(service, sent)
        return {"id": hold.id, "state": hold.state.value}

    return routes


def _header(name: str) -> str:
    """A header that is sent once; of two, proxies and services differ in which they read."""
    values = request.headers.getlist(name)
    return values[0] if len(values) == 1 else ""


PATHS = {
    "/holds/{holdId}/webhook": {
        "post": operation(
            "decideHoldBySignature",
            "Approve or deny what is held, as the receiver of the webhook",
            tag="holds",
            access=Access.SIGNED,
            description=(
                "The signature is the credential; no key and no secret is sent. It counts once and"
                " for five minutes."
            ),
            parameters=(
                HOLD_ID,
                header(TIMESTAMP, text("Seconds since 1970.", pattern="^[1-9][0-9]{0,11}$")),
                header(NONCE, text("Never sent before.", pattern="^[A-Za-z0-9_-]{16,128}$")),
                header(
                    SIGNATURE,
                    text(
                        "`v1=` and the HMAC-SHA-256 of `v1:decision:`, the hold's id, `:`, the"
                        " timestamp, `:`, the nonce, `:` and the body.",
                        pattern="^v1=[0-9a-f]{64}$",
                    ),
                ),
            ),
            body=request_body(
                request_object(
                    {
                        "decision": choice("What was decided.", "approve", "deny"),
                        "note": text("Why, for the audit log.", MAX_NOTE),
                    },
                    required=("decision",),
                ),
                {"decision": "deny", "note": "not a vendor of ours"},
            ),
            response=success(
                response_object(
                    {
                        "id": identifier("The hold."),
                        "state": choice("Where it stands now.", *HoldState),
                    }
                ),
                {"id": HOLD, "state": "denied"},
            ),
            errors={
                400: "decision must be approve or deny",
                401: list(REFUSALS.values()),
                404: [NO_WEBHOOK, "Hold not found"],
                409: "The hold is denied; nothing was changed",
            },
        )
    }
}

"""Parameters in the path, the query and headers."""

from __future__ import annotations

from typing import Any

from solward.resources.events import LAST_EVENT
from solward.resources.examples import AGENT, CREDENTIAL, KEY, SCHEDULE, WALLET
from solward.resources.fields import Schema
from solward.resources.schema import (
    address,
    flag,
    identifier,
    text,
    whole,
)
from solward.types.idempotency import KEY_FORM, MAX_KEY

Parameter = dict[str, Any]


def _parameter(place: str, name: str, schema: Schema, **more: Any) -> Parameter:
    description = schema["description"]
    bare = {key: value for key, value in schema.items() if key != "description"}
    return {"name": name, "in": place, "description": description, "schema": bare} | more


def path_parameter(name: str, schema: Schema, example: Any) -> Parameter:
    """A part of the path."""
    return _parameter("path", name, schema, required=True, example=example)


def header(name: str, schema: Schema) -> Parameter:
    """A required header."""
    return _parameter("header", name, schema, required=True)


def query(name: str, schema: Schema, **more: Any) -> Parameter:
    """An optional query parameter."""
    return _parameter("query", name, schema, **more)


WALLET_ID = path_parameter("walletId", identifier("The wallet."), WALLET)
AGENT_ID = path_parameter("agentId", identifier("The agent."), AGENT)
POCKET = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
POCKET_ID = path_parameter("pocketId", address("The pocket."), POCKET)
HOLD = "3f0e8a52-7a5c-4c0b-9d1e-5a0c6d2f4b18"
HOLD_ID = path_parameter("holdId", identifier("The hold."), HOLD)
RECORD = "93698b99-39ce-4d15-841f-684b9de7d8bc"
RECORD_ID = path_parameter("transactionId", identifier("The record."), RECORD)
KEY_ID = path_parameter("keyId", identifier("The key."), KEY)
CONTACT_ID = path_parameter("contactId", address("The recipient."), POCKET)
ADMIN_ID = path_parameter("adminId", identifier("The admin credential."), CREDENTIAL)

PATH_PARAMETERS: dict[str, Parameter] = {
    "wallet_id": WALLET_ID,
    "agent_id": AGENT_ID,
    "pocket_id": POCKET_ID,
    "hold_id": HOLD_ID,
    "transaction_id": RECORD_ID,
    "key_id": KEY_ID,
    "admin_id": ADMIN_ID,
    "schedule_id": path_parameter("scheduleId", identifier("The schedule."), SCHEDULE),
    "contact_id": CONTACT_ID,
    "skill": path_parameter("skill", text("The skill's name.", 64), "transfer"),
    "name": path_parameter("name", text("The setting's name.", 200), "signingKey"),
    "file": path_parameter("file", text("One of the files the page names."), "swagger-ui.css"),
    "plugin": path_parameter("plugin", text("The plugin's distribution.", 200), "acme-tools"),
    "principal": path_parameter(
        "principal",
        text("Such as `agent:scout` or `key:<id>`: a kind, and an id or a unique name.", 300)
        | {"minLength": 3},
        f"agent:{AGENT}",
    ),
    "payment_id": path_parameter("paymentId", identifier("The payment."), RECORD),
}
"""Parts of paths, as calls name them."""


DRY_RUN = query("dryRun", flag("Judge and simulate only; nothing is recorded, reserved or sent."))
DRY_RUN_FLAG = flag("As in the query; either of them asks for it.")
"""The same in a request's body."""
IDEMPOTENCY_KEY = _parameter(
    "header",
    "Idempotency-Key",
    text(
        f"{KEY_FORM}. The same key with the same body, however often it is sent, makes one "
        "transaction; the first answer is given again.",
        MAX_KEY,
        pattern="^[!-~]([ -~]*[!-~])?$",
    ),
)

LAST_EVENT_HEADER = _parameter("header", "Last-Event-ID", whole(LAST_EVENT, 0))

PARAMETERS: dict[str, Parameter] = {
    "WalletId": WALLET_ID,
    "AgentId": AGENT_ID,
    "KeyId": KEY_ID,
    "AdminId": ADMIN_ID,
    "HoldId": HOLD_ID,
    "RecordId": RECORD_ID,
    "DryRun": DRY_RUN,
    "IdempotencyKey": IDEMPOTENCY_KEY,
}


def shared(parameter: Parameter) -> Parameter:
    """A reference where the parameter is in `components/parameters`; any other unchanged."""
    for name, known in PARAMETERS.items():
        if known is parameter:
            return {"$ref": f"#/components/parameters/{name}"}
    return parameter

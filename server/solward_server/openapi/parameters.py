"""Parameters in the path, the query and headers."""

from __future__ import annotations

from typing import Any

from solward.resources.events import LAST_EVENT
from solward.resources.fields import Schema, camel
from solward.resources.schema import (
    address,
    flag,
    identifier,
    text,
    whole,
)
from solward.resources.shared import Example
from solward.types.errors import SkillNotFound
from solward.types.record import KEY_FORM, MAX_KEY
from solward_server.openapi.errors import NO_AGENT, NO_WALLET

Parameter = dict[str, Any]


def _parameter(place: str, name: str, schema: Schema, **more: Any) -> Parameter:
    description = schema["description"]
    bare = {key: value for key, value in schema.items() if key != "description"}
    return {"name": name, "in": place, "description": description, "schema": bare} | more


def header(name: str, schema: Schema) -> Parameter:
    """A required header."""
    return _parameter("header", name, schema, required=True)


def query(name: str, schema: Schema, **more: Any) -> Parameter:
    """An optional query parameter."""
    return _parameter("query", name, schema, **more)


POCKET = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
_RECORD = "93698b99-39ce-4d15-841f-684b9de7d8bc"
# Part of a path, by its name in calls -> its schema, an example, and the text of a 404: empty where
# the part names no record.
_PARTS: dict[str, tuple[Schema, str, str]] = {
    "wallet_id": (identifier("The wallet."), Example.WALLET, NO_WALLET),
    "agent_id": (identifier("The agent."), Example.AGENT, NO_AGENT),
    "pocket_id": (address("The pocket."), POCKET, "Pocket not found"),
    "hold_id": (identifier("The hold."), Example.HOLD, "Hold not found"),
    "transaction_id": (identifier("The record."), _RECORD, "Transaction not found"),
    "key_id": (identifier("The key."), Example.KEY, "API key not found"),
    "admin_id": (
        identifier("The admin credential."),
        Example.CREDENTIAL,
        "Admin credential not found",
    ),
    "schedule_id": (identifier("The schedule."), Example.SCHEDULE, "Schedule not found"),
    "contact_id": (address("The recipient."), POCKET, "Contact not found"),
    "skill": (
        text("The skill's name.", 64),
        "transfer",
        str(SkillNotFound("nope", ["airdrop", "transfer"])),
    ),
    "name": (text("The setting's name.", 200), "signingKey", ""),
    "file": (text("One of the files the page names."), "swagger-ui.css", "Not found"),
    "plugin": (text("The plugin's distribution.", 200), "acme-tools", ""),
    "principal": (
        text("Such as `agent:scout` or `key:<id>`: a kind, and an id or a unique name.", 300)
        | {"minLength": 3},
        f"agent:{Example.AGENT}",
        "principal: no agent has the id or name 'scout'",
    ),
    "payment_id": (identifier("The payment."), _RECORD, "Payment not found"),
}
PATH_PARAMETERS: dict[str, Parameter] = {
    name: _parameter("path", camel(name), schema, required=True, example=example)
    for name, (schema, example, _) in _PARTS.items()
}
NOT_FOUND = {name: missing for name, (_, _, missing) in _PARTS.items() if missing}
"""Part of a path that names a record -> the text of the 404 for a record that does not exist."""
WALLET_ID = PATH_PARAMETERS["wallet_id"]


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
    "DryRun": DRY_RUN,
    "IdempotencyKey": IDEMPOTENCY_KEY,
} | {name.title().replace("_", ""): each for name, each in PATH_PARAMETERS.items()}


def shared(parameter: Parameter) -> Parameter:
    """A reference where the parameter is in `components/parameters`; any other unchanged."""
    for name, known in PARAMETERS.items():
        if known is parameter:
            return {"$ref": f"#/components/parameters/{name}"}
    return parameter

"""The document's `components`: parameters of paths, queries and headers; and the schemas that no
answer declares, which are those of grants and errors."""

from __future__ import annotations

from typing import Any

from solward.operations.declared import MAX_SLIPPAGE_BPS
from solward.resources.declare import answer_schema
from solward.resources.events import LAST_EVENT
from solward.resources.fields import (
    Address,
    Choice,
    Field,
    Flag,
    Id,
    RawText,
    Schema,
    Text,
    Whole,
    camel,
    value_schema,
)
from solward.resources.schema import array, mapping, response_object
from solward.resources.shared import Example
from solward.resources.transactions import NUMBERS, Transaction
from solward.types.errors import SkillNotFound
from solward.types.record import KEY_FORM, MAX_KEY, TransactionStatus
from solward.vault.grants.model import NewRecipient
from solward_server.openapi.errors import NO_AGENT, NO_WALLET

RECORD: dict[str, Schema] = answer_schema(Transaction)["properties"]


_TERMS = response_object(
    {
        "perTx": Text("Maximum in one transaction."),
        "per": mapping(Text("Maximum in it."), "1 to 4 windows, from `1m` to `30d`."),
        "hold": Text("Amount above which a person decides."),
    },
    optional=["perTx", "hold"],
)
_GRANT: dict[str, Field | Schema] = {
    "who": Text(
        "A principal: `agent:`, `key:`, `schedule:`, `wallet:`, `plugin:` or `skill:` and an id or"
        " name, or `site:` and a host, with its port if that is not 443."
    ),
    "wallet": Text("Id or name of the only wallet that the grant covers."),
    "may": array(Text("An action."), "Allowed actions: `transfer`, `swap`, `stake` and so on."),
    "assets": mapping(
        {
            "anyOf": [
                _TERMS,
                response_object({"usd": _TERMS}),
            ]
        },
        "Symbol or mint -> limits in whole units; `*` is every other asset, in dollars.",
    ),
    "to": array(Text("A recipient."), "`any`, `own`, addresses, `@name` of the book."),
    "new": Choice("Decision on recipients never paid before.", options=tuple(NewRecipient)),
    "via": array(
        Text("Such as `site:api.example.com`."),
        "The only sites whose requests are paid for; `may` then has only `pay`.",
    ),
    "costs": Text("SOL of fees and rent in 24 hours."),
    "rate": mapping(Whole("Transactions.", least=1), "Transactions in windows as in `per`."),
    "hours": Text("Hours of the day, such as `07:00-22:00 UTC`."),
    "until": Text("The grant's end, in ISO 8601."),
    "swap": response_object(
        {
            "slippageBps": Whole("Maximum slippage.", least=0, most=MAX_SLIPPAGE_BPS),
            "impactBps": Whole("Maximum price impact.", least=0, most=10_000),
            "into": array(Text("A symbol or mint."), "Assets that may be bought."),
        },
        optional=["slippageBps", "impactBps", "into"],
    ),
}
GRANT = response_object(
    _GRANT,
    optional=[name for name in _GRANT if name != "may"],
    description="One grant, as in docs/reference/grants.md;"
    " `who` is required unless the request names the principal elsewhere.",
)
SCHEMAS: dict[str, Schema] = {
    "Grant": GRANT,
    "Error": response_object({"error": Text("What is wrong.")}),
    "TransactionStatus": Choice(
        "See docs/reference/transactions.md.", options=tuple(TransactionStatus)
    ).answer_schema(),
    "RefusalNumbers": NUMBERS,
}


Parameter = dict[str, Any]


def _make_parameter(place: str, name: str, of: Field | Schema, **more: Any) -> Parameter:
    schema = value_schema(of)
    description = schema["description"]
    bare = {key: value for key, value in schema.items() if key != "description"}
    return {"name": name, "in": place, "description": description, "schema": bare} | more


def header(name: str, of: Field | Schema) -> Parameter:
    """Return a required header."""
    return _make_parameter("header", name, of, required=True)


def query(name: str, of: Field | Schema, **more: Any) -> Parameter:
    """Return an optional query parameter."""
    return _make_parameter("query", name, of, **more)


POCKET = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
_RECORD = "93698b99-39ce-4d15-841f-684b9de7d8bc"
# Part of a path, by its name in calls -> its kind or schema, an example, and the text of a 404:
# empty where the part names no record.
_PARTS: dict[str, tuple[Field | Schema, str, str]] = {
    "wallet_id": (Id("The wallet."), Example.WALLET, NO_WALLET),
    "agent_id": (Id("The agent."), Example.AGENT, NO_AGENT),
    "pocket_id": (Address("The pocket."), POCKET, "Pocket not found"),
    "hold_id": (Id("The hold."), Example.HOLD, "Hold not found"),
    "transaction_id": (Id("The record."), _RECORD, "Transaction not found"),
    "key_id": (Id("The key."), Example.KEY, "API key not found"),
    "admin_id": (
        Id("The admin credential."),
        Example.CREDENTIAL,
        "Admin credential not found",
    ),
    "schedule_id": (Id("The schedule."), Example.SCHEDULE, "Schedule not found"),
    "contact_id": (Address("The recipient."), POCKET, "Contact not found"),
    "skill": (
        Text("The skill's name.", most=64).schema(),
        "transfer",
        str(SkillNotFound("nope", ["airdrop", "transfer"])),
    ),
    "name": (Text("The setting's name.").schema(), "signingKey", ""),
    "file": (Text("Name of a file that the page loads."), "swagger-ui.css", "Not found"),
    "plugin": (Text("The plugin's distribution.").schema(), "acme-tools", ""),
    "principal": (
        RawText(
            "Such as `agent:scout` or `key:<id>`: a kind, and an id or a unique name.",
            least=3,
            most=300,
        ).schema(),
        f"agent:{Example.AGENT}",
        "principal: no agent has the id or name 'scout'",
    ),
    "payment_id": (Id("The payment."), _RECORD, "Payment not found"),
}
PATH_PARAMETERS: dict[str, Parameter] = {
    name: _make_parameter("path", camel(name), schema, required=True, example=example)
    for name, (schema, example, _) in _PARTS.items()
}
NOT_FOUND = {name: missing for name, (_, _, missing) in _PARTS.items() if missing}
"""Part of a path that names a record -> the text of the 404 for a record that does not exist."""
WALLET_ID = PATH_PARAMETERS["wallet_id"]


DRY_RUN = query("dryRun", Flag("Judge and simulate only; nothing is recorded, reserved or sent."))
DRY_RUN_FLAG = Flag("Same as `dryRun` in the query; one of the two is enough.").answer_schema()
"""`dryRun` in a request's body."""
IDEMPOTENCY_KEY = _make_parameter(
    "header",
    "Idempotency-Key",
    Text(
        f"{KEY_FORM}. Requests with the same key and the same body make one transaction; "
        "each gets the first answer.",
        most=MAX_KEY,
        pattern="[!-~]([ -~]*[!-~])?",
    ).schema(),
)

LAST_EVENT_HEADER = _make_parameter("header", "Last-Event-ID", Whole(LAST_EVENT))

PARAMETERS: dict[str, Parameter] = {
    "DryRun": DRY_RUN,
    "IdempotencyKey": IDEMPOTENCY_KEY,
} | {name.title().replace("_", ""): each for name, each in PATH_PARAMETERS.items()}


def shared_reference(parameter: Parameter) -> Parameter:
    """Return a reference to a parameter in `components/parameters`, or another one unchanged."""
    for name, known in PARAMETERS.items():
        if known is parameter:
            return {"$ref": f"#/components/parameters/{name}"}
    return parameter

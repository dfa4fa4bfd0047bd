"""The parts that all money routes share: the record in their answer, dry runs, and refusals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from solward.operations.declared import Operation as Declared
from solward.resources.fields import (
    ADDRESS,
    Address,
    Field,
    Flag,
    Recipient,
    Schema,
    camel,
    nullable,
)
from solward.resources.schema import JSON, examples, ref, response_object
from solward.resources.shared import Example
from solward.solana.programs import SYSTEM_PROGRAM
from solward.vault.guardrails.rules import RULES
from solward.vault.money.engine import CONFIRM_WAIT_S
from solward_server.http.auth import Access
from solward_server.openapi.components import (
    DRY_RUN,
    DRY_RUN_FLAG,
    IDEMPOTENCY_KEY,
    RECORD,
    WALLET_ID,
)
from solward_server.openapi.errors import (
    BLOCKED,
    FAILED,
    IN_FLIGHT,
    MISMATCH,
    NO_WALLET,
    TOO_MANY,
    Error,
    Errors,
    refusals_of,
)
from solward_server.openapi.route import Operation, operation, request_body

REPLAYED = {
    "Idempotent-Replayed": {
        "description": "Present if this is the answer to an earlier request.",
        "schema": {"type": "string", "const": "true"},
    }
}
_DRY_RUN: dict[str, Any] = {
    "dryRun": True,
    "allowed": False,
    "rule": "max_per_tx",
    "reason": "5 SOL is more than the 2 SOL allowed per transaction (limit of the wallet)",
    "numbers": {"asked": "5", "limit": "2", "unit": "SOL"},
    "guardrailsApplied": ["max_per_tx"],
    "effects": {
        "solOut": 5,
        "fee": 0.000005,
        "rent": 0,
        "accountsCreated": 1,
        "tokensOut": {},
        "tokensIn": {},
        "programs": [SYSTEM_PROGRAM],
        "authorityChanges": [],
        "closedAccounts": {},
    },
}
_WAITS = (
    f"Waits up to {CONFIRM_WAIT_S:.0f} seconds for the transaction's end; after that the status is "
    "`pending`. A blocked or failed transaction is 500 with a stored record."
)


def money_operation(declared: Declared) -> Operation:
    """Return the route of a declared operation."""
    details = {each.json: each.answer_schema() for each in declared.details}
    kind = declared.type.value
    record = RECORD | {
        "type": {"type": "string", "const": kind},
        "status": {"type": "string", "enum": ["pending", "confirmed"]},
        "details": response_object(details),
    }
    del record["error"]
    extra: dict[str, Schema] = {}
    extra_example: dict[str, Any] = {}
    if declared.metadata:
        extra["metadata"] = response_object({name: details[name] for name in declared.metadata})
        extra_example["metadata"] = {name: declared.answer[name] for name in declared.metadata}
    if declared.flag:
        extra[declared.flag] = Flag("True once the transaction is confirmed.").answer_schema()
        extra_example[declared.flag] = True
    is_flat = declared.is_flat
    schema = response_object(
        {**(details if is_flat else {}), **record, **extra},
        optional=["agentId", "signature", "fee"],
        title="Transaction",
    )
    example = {
        **(declared.answer if is_flat else {}),
        **_example_record(kind, declared.answer),
        **extra_example,
    }
    return operation(
        camel(declared.name),
        declared.title,
        tag=declared.tag,
        access=Access.KEY,
        may_hold=True,
        description=f"{declared.note} {_WAITS}".strip(),
        parameters=[WALLET_ID, DRY_RUN, IDEMPOTENCY_KEY],
        body=operation_body(declared, {"dryRun": DRY_RUN_FLAG}),
        response=money_response(
            "The transaction's record; with `dryRun`, its expected result.",
            done=(schema, example),
            dryRun=(ref("DryRun"), _DRY_RUN),
        ),
        errors=[money_errors(*declared.refusals, *refusals_of(declared.fields))],
    )


def money_errors(*refusals: Error) -> Errors:
    """Return the errors of requests that move money, by status, including `refusals`."""
    return {
        400: [*refusals, "dryRun must be true or false"],
        404: NO_WALLET,
        409: IN_FLIGHT,
        422: MISMATCH,
        429: TOO_MANY,
        500: [BLOCKED, FAILED],
    }


def money_response(about: str, **answers: tuple[Schema, Any]) -> Operation:
    """Return the answers of a route that moves money: name -> schema and example."""
    schemas = [schema for schema, _ in answers.values()]
    named = examples(**{name: example for name, (_, example) in answers.items()})
    return {
        "description": about,
        "headers": REPLAYED,
        "content": {JSON: {"schema": {"oneOf": schemas}} | named},
    }


def operation_body(declared: Declared, more: Mapping[str, Schema] = {}) -> Operation:
    """Return the body that consists of an operation's fields and `more`."""
    required = {each.json for each in declared.fields if each.is_required}
    found = {each.json: _field_schema(each) for each in declared.fields} | dict(more)
    # Null counts as absent.
    described = {n: each if n in required else nullable(each) for n, each in found.items()}
    schema = response_object(described, optional=[*found.keys() - required])
    return request_body(schema, dict(declared.example), required=bool(required))


def _field_schema(field: Field) -> Schema:
    if isinstance(field, Recipient):
        named = "Admins may also give a wallet's id, or a contact's or wallet's name."
        return field.schema() | {"description": f"{field.text} {named}"}
    pattern = {"pattern": ADDRESS} if isinstance(field, Address) else {}
    return field.schema() | pattern


def _example_record(kind: str, details: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": "0f93d061-9cf7-4e3e-8a6a-700478331341",
        "walletId": Example.WALLET,
        "principal": "admin",
        "type": kind,
        "status": "confirmed",
        "signature": "62BN96o64rTJp8YBiKcPL8tudNLWPui2hiMjsgxkVhpEJumjR8bkkygSxrAHLtFJFwZkihgHHu"
        "SWhAZagzoCMkHC",
        "details": dict(details),
        "guardrailsApplied": list(RULES),
        "timestamp": "2026-11-21T10:34:55.395Z",
    }

"""What all money routes have in common: the record they answer, dry runs, what refuses them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from solward.solana.programs import SYSTEM_PROGRAM
from solward_server.http.auth import Access
from solward_server.openapi.components import RECORD
from solward_server.openapi.errors import BLOCKED, FAILED, IN_FLIGHT, MISMATCH, NO_WALLET, TOO_MANY
from solward_server.openapi.operation import Operation, operation, request_body
from solward_server.openapi.parameters import DRY_RUN, IDEMPOTENCY_KEY, WALLET, WALLET_ID
from solward_server.openapi.schema import JSON, Schema, examples, ref, response_object

REPLAYED = {
    "Idempotent-Replayed": {
        "description": "There where this is the answer to an earlier request.",
        "schema": {"type": "string", "const": "true"},
    }
}
RULES = [
    "max_per_tx",
    "rate_limit",
    "daily_limit",
    "program_allowlist",
    "blocked_address",
    "spending_limit_check",
    "fee_limit",
    "simulated_effects",
    "authority_change",
]
_DRY_RUN: dict[str, Any] = {
    "dryRun": True,
    "allowed": False,
    "rule": "max_per_tx",
    "reason": "5 SOL is more than the 2 SOL allowed per transaction (limit of the wallet)",
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
    "Waits for the transaction's end, at most 45 seconds; then its status is `pending`. A blocked "
    "or failed transaction is 500 with its stored record behind it."
)


def money(
    operation_id: str,
    summary: str,
    *,
    tag: str,
    kind: str,
    body: Schema,
    example: Mapping[str, Any],
    details: Mapping[str, Schema],
    told: Mapping[str, Any],
    bad: str | Sequence[str],
    flat: bool = True,
    extra: Mapping[str, Schema] | None = None,
    extra_told: Mapping[str, Any] | None = None,
    optional: Sequence[str] = (),
    description: str = "",
) -> Operation:
    """A route that makes a transaction.

    Args:
        kind: the record's type.
        details: fields of the record's details, which stand at the top level too where `flat`.
        told: an example of them.
        bad: texts of its 400.
        extra: further fields of the answer, with `extra_told` as their example.
        optional: those of `details` that may be absent.
    """
    record = RECORD | {
        "type": {"type": "string", "const": kind},
        "status": {"type": "string", "enum": ["pending", "confirmed"]},
        "details": response_object(details, optional=optional),
    }
    properties = {**(details if flat else {}), **record, **(extra or {})}
    del properties["error"]
    answered = response_object(
        properties, optional=[*optional, "agentId", "signature"], title="Transaction"
    )
    shown = {**(told if flat else {}), **_record(kind, told), **(extra_told or {})}
    response = {
        "description": "The record; with `dryRun`, what would become of it.",
        "headers": REPLAYED,
        "content": {
            JSON: {"schema": {"oneOf": [answered, ref("DryRun")]}}
            | examples(done=shown, dryRun=_DRY_RUN)
        },
    }
    return operation(
        operation_id,
        summary,
        tag=tag,
        access=Access.KEY,
        description=f"{description} {_WAITS}".strip(),
        parameters=[WALLET_ID, DRY_RUN, IDEMPOTENCY_KEY],
        body=request_body(body, dict(example), required="required" in body),
        response=response,
        errors={
            400: [*([bad] if isinstance(bad, str) else bad), "dryRun must be true or false"],
            404: NO_WALLET,
            409: IN_FLIGHT,
            422: MISMATCH,
            429: TOO_MANY,
            500: [BLOCKED, FAILED],
        },
    )


def _record(kind: str, details: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": "0f93d061-9cf7-4e3e-8a6a-700478331341",
        "walletId": WALLET,
        "type": kind,
        "status": "confirmed",
        "signature": "62BN96o64rTJp8YBiKcPL8tudNLWPui2hiMjsgxkVhpEJumjR8bkkygSxrAHLtFJFwZkihgHHu"
        "SWhAZagzoCMkHC",
        "details": dict(details),
        "guardrailsApplied": RULES,
        "timestamp": "2026-11-21T10:34:55.395Z",
    }

"""Writes the table of docs/reference/events.md: each kind with its docstring and its fields."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Final

from solward.types.events import EventKind

_DECLARED: Final = re.compile(r'= "([\w:]+)"\n +"""(.*?)"""')

HOLD: Final = "the [hold](#records), `asked`"
TRANSACTION: Final = "the [record](#records)"
DECISION: Final = "the [decision](#records)"

_PAYMENT = (
    "`id`, `walletId`, `status`, `state`, `served`, `protocol`, `mode`, `site`, `url`, `method`,"
    " `asset`, `amount`, `payTo`, `timestamp`"
)
_WALLET = "`walletId`, `name`, `address`, `principal`"
_AGENT = "`agentId`, `name`, `principal`"
_STATUS = "`agentId`, `name`, `status`, `principal`, `before`, `after`"
_SCHEDULE = "`scheduleId`, `walletId`, `name`, `principal`"
_KEY = "`keyId`, `name`, `principal`"
_ADMIN = "`adminId`, `name`, `principal`"

FIELDS: Final[Mapping[EventKind, str]] = {
    EventKind.WALLET_CREATED: f"{_WALLET}, `after`",
    EventKind.WALLET_CHANGED: f"{_WALLET}, `before`, `after`",
    EventKind.WALLET_EXPORTED: _WALLET,
    EventKind.TRANSACTION_PENDING: TRANSACTION,
    EventKind.TRANSACTION_CONFIRMED: TRANSACTION,
    EventKind.TRANSACTION_FAILED: TRANSACTION,
    EventKind.TRANSACTION_BLOCKED: TRANSACTION,
    EventKind.PAYMENT_HANDED_OVER: _PAYMENT,
    EventKind.PAYMENT_ANSWERED: _PAYMENT,
    EventKind.AGENT_CREATED: f"{_AGENT}, `after`",
    EventKind.AGENT_CHANGED: f"{_AGENT}, `before`, `after`",
    EventKind.AGENT_DELETED: f"{_AGENT}, `before`",
    EventKind.AGENT_STARTED: _STATUS,
    EventKind.AGENT_STOPPED: _STATUS,
    EventKind.AGENT_PAUSED: _STATUS,
    EventKind.AGENT_ERROR: f"{_STATUS}, `error`",
    EventKind.AGENT_DECISION: DECISION,
    EventKind.SCHEDULE_CREATED: f"{_SCHEDULE}, `after`",
    EventKind.SCHEDULE_CHANGED: f"{_SCHEDULE}, `before`, `after`",
    EventKind.SCHEDULE_DELETED: f"{_SCHEDULE}, `before`",
    EventKind.SCHEDULE_PAUSED: f"{_SCHEDULE}, `reason`",
    EventKind.SCHEDULE_RESUMED: _SCHEDULE,
    EventKind.SCHEDULE_RUN_ASKED: f"{_SCHEDULE}, `dueAt`",
    EventKind.SCHEDULE_RUN: f"{_SCHEDULE}, `skill`, `dueAt`, `status`, `text`",
    EventKind.KEY_CREATED: f"{_KEY}, `after`",
    EventKind.KEY_CHANGED: f"{_KEY}, `before`, `after`",
    EventKind.KEY_REVOKED: f"{_KEY}, `before`",
    EventKind.ADMIN_CREATED: f"{_ADMIN}, `after`",
    EventKind.ADMIN_REVOKED: f"{_ADMIN}, `before`",
    EventKind.POLICY_CHANGED: "`who`, `principal`, `before`, `after` (null: no grants)",
    EventKind.CONTACT_CHANGED: "`address`, `principal`, `before`, `after` (null: no name)",
    EventKind.HOLD_CREATED: HOLD,
    EventKind.HOLD_APPROVED: HOLD,
    EventKind.HOLD_EXECUTED: HOLD,
    EventKind.HOLD_REFUSED: HOLD,
    EventKind.HOLD_DENIED: HOLD,
    EventKind.HOLD_EXPIRED: HOLD,
    EventKind.SWITCH_FROZEN: "`walletId`, `reason`, `principal`, `before`, `after`",
    EventKind.SWITCH_THAWED: "`walletId`, `principal`, `before`, `after`",
    EventKind.PLUGIN_CHANGED: "`distribution`, `principal`, `before`, `after` (version, digest of"
    " the files, whether enabled)",
    EventKind.PLUGIN_SETTING: "`distribution`, `skill`, `setting`, `principal`, `before`, `after`"
    " (whether it is set)",
    EventKind.PLUGIN_ENTRY: "`distribution`, `walletId`, `key`, `principal`, `before` (its version,"
    " and the record that stored it)",
    EventKind.PLUGIN_PURGED: "`distribution`, `principal`, `entries`, `settings` (how many)",
    EventKind.TOKENS_CHANGED: "`network`, `principal`, `before`, `after` (symbols and mints that"
    " differ)",
    EventKind.KEYSTORE_ROTATED: "`principal`, `before`, `after` (version and kind of secret)",
    EventKind.AUDIT_PRUNED: "`before`, `entries` (how many), `chains` (the last entry deleted from"
    " each)",
    EventKind.WEBHOOK_REFUSED: "`holdId`, `principal`, `reason` (signature, time or"
    " repeated), `unwritten` (how many more since the last entry)",
    EventKind.ALERT_RAISED: "`alert`, `walletId`, `transactionId`, `principal`, `detail`",
}
"""The names in backticks are all the fields, in any order."""


def table(_page: str) -> Iterator[str]:
    """Yields the table's lines, one event each."""
    yield "| event | when | data |"
    yield "|---|---|---|"
    said = dict(_DECLARED.findall(inspect.getsource(EventKind)))
    for kind in EventKind:
        yield f"| `{kind}` | {said[kind]} | {FIELDS[kind]} |"

"""Alerts for an operator, raised in the transaction that makes them true.

Each is an event of the audit log, `alert:raised`; once committed it is also a log line at ERROR and
a count of `solward_alerts_total`, all with the same fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import SERVICE
from solward.database import outbox
from solward.database.tables import transactions
from solward.support.durations import MINUTE_MS
from solward.types.events import EventKind
from solward.types.record import Hold, TransactionRecord, TransactionStatus

# This many blocked transactions of one wallet within this time are no slip: a model was fooled, or
# a program is wrong about its limits.
BLOCKS = 5
BLOCKS_WITHIN_MS = 10 * MINUTE_MS

# From this share of its ceiling on, costs of a rolling 24 hours are near it.
NEAR_CEILING_PERCENT = 80

# Blocks are counted among this many newest records of the wallet, which bounds the work in a write
# transaction.
_RECENT = 200


class Alert(StrEnum):
    """Every alert."""

    ALERTS_GIVEN_UP = "alerts_given_up"
    """The alerts' webhook could not be told for a day."""
    ATTEMPT_UNKNOWN = "attempt_unknown"
    """A transaction's fate cannot be found; its money stays reserved until a person decides."""
    COSTS_NEAR_CEILING = "costs_near_ceiling"
    """Fees and rent of a wallet, agent or key reach `NEAR_CEILING_PERCENT` of its ceiling."""
    DAILY_LIMIT_NEAR = "daily_limit_near"
    """SOL of a wallet, agent or key reaches `NEAR_CEILING_PERCENT` of its daily limit."""
    GRANT_NEAR_END = "grant_near_end"
    """A grant that lets something through is nearly used up, or ends within a day."""
    HOLDS_FULL = "holds_full"
    """A principal has as many open holds as it may: what else would wait is refused."""
    JOBS_STALLED = "jobs_stalled"
    """Cycles of agents were given to workers that are gone, and to no other."""
    KEY_NOT_OPENED = "key_not_opened"
    """A wallet's key cannot be opened, so nothing is signed with it."""
    LEDGER_AWAY = "ledger_away"
    """No RPC node answers."""
    PLUGIN_CRASHED = "plugin_crashed"
    """The process of a third party's plugin ended by itself."""
    PLUGIN_PROBLEM = "plugin_problem"
    """A plugin is not loaded, or was disabled while it ran."""
    REPEATED_BLOCKS = "repeated_blocks"
    """Guardrails refused `BLOCKS` transactions of a wallet within `BLOCKS_WITHIN_MS`."""
    RPC_NODE_AWAY = "rpc_node_away"
    """One of several RPC nodes does not answer."""
    WEBHOOK_GIVEN_UP = "webhook_given_up"
    """The approvals' webhook could not be told of a hold for a day."""
    WORKER_MISSING = "worker_missing"
    """Agents are to run, and no worker lives."""


AUDIT_BROKEN = "audit_broken"
"""A chain's end is not authentic: counted with the alerts, and no event of the audit log."""


def attempt_unknown(
    connection: AsyncConnection, record: TransactionRecord, trace: str | None
) -> None:
    """Raise the alert in the database transaction that stores the state `unknown`."""
    what = record.signature or f"payment {record.id}"
    detail = f"No RPC node can tell whether {what} landed; its money stays reserved"
    _raise(connection, Alert.ATTEMPT_UNKNOWN, record, detail, trace)


async def blocked(
    connection: AsyncConnection, record: TransactionRecord, trace: str | None
) -> None:
    """Raise the alert of repeated blocks, right after a blocked record was stored.

    Once for a run of blocks: again only after `BLOCKS_WITHIN_MS` without one.
    """
    newest = (
        select(transactions.c.status, transactions.c.created_ms)
        .where(transactions.c.wallet_id == record.wallet_id)
        .order_by(transactions.c.seq.desc())
        .limit(_RECENT)
    )
    rows = await connection.execute(newest)
    times = [int(row.created_ms) for row in rows if row.status == TransactionStatus.BLOCKED]
    if reaches_threshold(times):
        minutes = BLOCKS_WITHIN_MS // MINUTE_MS
        detail = f"{BLOCKS} transactions blocked within {minutes} minutes; the last: {record.error}"
        _raise(connection, Alert.REPEATED_BLOCKS, record, detail, trace)


def is_near(costs: int, ceiling: int | None) -> bool:
    """Whether costs are near their ceiling; both are lamports, None is no ceiling."""
    return ceiling is not None and costs * 100 >= ceiling * NEAR_CEILING_PERCENT


def costs_near_ceiling(
    connection: AsyncConnection, record: TransactionRecord, scope: str, trace: str | None
) -> None:
    """Raise the alert in the database transaction that reserves what brings them near.

    Args:
        scope: `wallet:<id>`, `agent:<id>` or `key:<id>`.
    """
    detail = (
        f"Fees and rent of {scope}, spent or reserved in 24 hours, reach {NEAR_CEILING_PERCENT}% "
        "of its ceiling; at the ceiling its transactions are refused"
    )
    _raise(connection, Alert.COSTS_NEAR_CEILING, record, detail, trace)


def daily_limit_near(
    connection: AsyncConnection, record: TransactionRecord, scope: str, trace: str | None
) -> None:
    """Raise the alert in the database transaction that reserves what brings it near.

    Args:
        scope: `wallet:<id>`, `agent:<id>` or `key:<id>`.
    """
    detail = (
        f"SOL of {scope}, spent or reserved in 24 hours, reaches {NEAR_CEILING_PERCENT}% of its "
        "daily limit; beyond the limit its transactions are refused"
    )
    _raise(connection, Alert.DAILY_LIMIT_NEAR, record, detail, trace)


def key_not_opened(
    connection: AsyncConnection, record: TransactionRecord, error: str, trace: str | None
) -> None:
    """Raise the alert in the database transaction that gives the reservation back."""
    detail = f"The wallet's key cannot be opened, and nothing was signed: {error}"
    _raise(connection, Alert.KEY_NOT_OPENED, record, detail, trace)


def grant_near_end(
    connection: AsyncConnection, record: TransactionRecord, detail: str, trace: str | None
) -> None:
    """Raise the alert in the database transaction that reserves what the grant lets through."""
    _raise(connection, Alert.GRANT_NEAR_END, record, detail, trace)


def holds_full(connection: AsyncConnection, hold: Hold, most: int, trace: str | None) -> None:
    """Raise the alert in the database transaction that stores the last hold there is room for."""
    data = {
        "alert": Alert.HOLDS_FULL.value,
        "walletId": hold.wallet_id,
        "transactionId": None,
        "principal": hold.principal,
        "detail": f"{most} transactions of {hold.principal} wait for a person; until one is"
        " decided or expires, what else would have to wait is refused",
    }
    outbox.record(connection, EventKind.ALERT_RAISED, data, trace)


def webhook_given_up(
    connection: AsyncConnection, hold: Mapping[str, Any], tries: int, failure: str
) -> None:
    """Raise the alert in the database transaction that ends a delivery.

    Args:
        hold: as its event has it.
        failure: of the last of the `tries`.
    """
    detail = (
        f"The receiver of APPROVAL_WEBHOOK_URL was not told of hold {hold['id']} in {tries} tries;"
        f" the last: {failure}"
    )
    data = {
        "alert": Alert.WEBHOOK_GIVEN_UP.value,
        "walletId": hold["walletId"],
        "transactionId": hold.get("transactionId"),
        "principal": hold["principal"],
        "detail": detail,
    }
    outbox.record(connection, EventKind.ALERT_RAISED, data)


def alerts_given_up(connection: AsyncConnection, tries: int, failure: str) -> None:
    """Raise the alert in the database transaction that ends a delivery.

    Args:
        failure: of the last of the `tries`.
    """
    detail = (
        f"The receiver of ALERT_WEBHOOK_URL was not told of alerts in {tries} tries;"
        f" the last: {failure}"
    )
    of_service(connection, Alert.ALERTS_GIVEN_UP, detail)


def of_service(connection: AsyncConnection, alert: Alert, detail: str) -> None:
    """Raise an alert that is about no wallet, in a database transaction."""
    data = {
        "alert": alert.value,
        "walletId": None,
        "transactionId": None,
        "principal": SERVICE,
        "detail": detail,
    }
    outbox.record(connection, EventKind.ALERT_RAISED, data)


def reaches_threshold(times: Sequence[int]) -> bool:
    """Whether the newest block is the one of its run that raises the alert.

    Args:
        times: Unix milliseconds of the wallet's blocks, newest first.
    """
    row = list(times[:1])
    for earlier in times[1:]:
        if row[-1] - earlier >= BLOCKS_WITHIN_MS:
            break
        row.append(earlier)
    made = [
        newest - oldest < BLOCKS_WITHIN_MS
        for newest, oldest in zip(row, row[BLOCKS - 1 :], strict=False)
    ]
    return made[:1] == [True] and not any(made[1:])


def _raise(
    connection: AsyncConnection,
    alert: Alert,
    record: TransactionRecord,
    detail: str,
    trace: str | None,
) -> None:
    data = {
        "alert": alert.value,
        "walletId": record.wallet_id,
        "transactionId": record.id,
        "principal": record.principal,
        "detail": detail,
    }
    outbox.record(connection, EventKind.ALERT_RAISED, data, trace)

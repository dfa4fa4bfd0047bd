"""Alerts for an operator, raised in the database transaction that makes them true.

Each alert is an event `alert:raised` in the audit log. Once committed, it is also a log line at
ERROR and a count of `solward_alerts_total`, with the same fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import SERVICE
from solward.database import outbox
from solward.database.tables import transactions
from solward.support.durations import MINUTE_MS
from solward.types.events import EventKind
from solward.types.record import TransactionRecord, TransactionStatus

# This many blocked transactions of one wallet in this time mean that a model was deceived, or that
# a program is wrong about its limits.
BLOCKS = 5
BLOCKS_WITHIN_MS = 10 * MINUTE_MS

# Costs of a rolling 24 hours are near their ceiling if they are at least this share of it.
NEAR_CEILING_PERCENT = 80

# Blocked transactions are counted among this many newest records of the wallet, which limits the
# work in a write transaction.
_RECENT = 200


class Alert(StrEnum):
    """A kind of alert."""

    ALERTS_GIVEN_UP = "alerts_given_up"
    """The receiver of the alerts' webhook could not be reached for a day."""
    ATTEMPT_UNKNOWN = "attempt_unknown"
    """A transaction's result cannot be found; its amount stays reserved until a person decides."""
    COSTS_NEAR_CEILING = "costs_near_ceiling"
    """Fees and rent of a wallet, agent or key reach `NEAR_CEILING_PERCENT` of their ceiling."""
    DAILY_LIMIT_NEAR = "daily_limit_near"
    """SOL spent by a wallet, agent or key reaches `NEAR_CEILING_PERCENT` of the daily limit."""
    GRANT_NEAR_END = "grant_near_end"
    """A grant that allows transactions is nearly used up, or ends within a day."""
    HOLDS_FULL = "holds_full"
    """A principal has the maximum number of open holds; further holds are refused."""
    JOBS_STALLED = "jobs_stalled"
    """No live worker has taken over agents' cycles from a dead worker."""
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
    """A webhook or chat refused a message about a hold, or could not be reached for a day."""
    WORKER_MISSING = "worker_missing"
    """Agents are started, but no worker is alive."""


AUDIT_BROKEN = "audit_broken"
"""The end of an audit chain is not authentic; counted with the alerts, but no audit event."""


_DETAILS: Final[Mapping[Alert, str]] = {
    Alert.ALERTS_GIVEN_UP: "ALERT_WEBHOOK_URL did not accept alerts in {tries} tries; the last"
    " failure: {failure}",
    Alert.ATTEMPT_UNKNOWN: "No RPC node can tell whether {what} landed; its amount stays reserved",
    Alert.COSTS_NEAR_CEILING: "Fees and rent spent or reserved by {scope} in 24 hours reach"
    f" {NEAR_CEILING_PERCENT}% of its ceiling; at the ceiling its transactions are refused",
    Alert.DAILY_LIMIT_NEAR: "SOL spent or reserved by {scope} in 24 hours reaches"
    f" {NEAR_CEILING_PERCENT}% of its daily limit; beyond the limit its transactions are refused",
    Alert.HOLDS_FULL: "{most} transactions of {principal} wait for a person; further holds are"
    " refused until one is decided or expires",
    Alert.KEY_NOT_OPENED: "The wallet's key cannot be opened, and nothing was signed: {error}",
    Alert.REPEATED_BLOCKS: f"{BLOCKS} transactions blocked within {BLOCKS_WITHIN_MS // MINUTE_MS}"
    " minutes; the last error: {error}",
    Alert.WEBHOOK_GIVEN_UP: "{setting} did not accept hold {hold} in {tries} tries;"
    " the last failure: {failure}",
}
"""Alert -> its sentence; callers pass the sentences of all other alerts."""


def raise_alert(
    connection: AsyncConnection,
    alert: Alert,
    about: TransactionRecord | Mapping[str, Any] | None = None,
    trace: str | None = None,
    **said: object,
) -> None:
    """Raise an alert in the database transaction that makes it true.

    Args:
        about: the transaction, or a hold's event data; None if the alert is not about a wallet.
        trace: the request's trace.
        said: the fields for the alert's sentence in `_DETAILS`, or the whole sentence as `detail`.
    """
    if isinstance(about, TransactionRecord):
        about = {
            "walletId": about.wallet_id,
            "transactionId": about.id,
            "principal": about.principal,
        }
    elif about is None:
        about = {"walletId": None, "principal": SERVICE}
    data = {
        "alert": alert.value,
        "walletId": about["walletId"],
        "transactionId": about.get("transactionId"),
        "principal": about["principal"],
        "detail": _DETAILS.get(alert, "{detail}").format(**said),
    }
    outbox.record(connection, EventKind.ALERT_RAISED, data, trace)


async def raise_repeated_blocks(
    connection: AsyncConnection, record: TransactionRecord, trace: str | None
) -> None:
    """Raise the alert of repeated blocks if the record just stored reaches the threshold.

    It is raised once for a series of blocks, and again after `BLOCKS_WITHIN_MS` without a block.
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
        raise_alert(connection, Alert.REPEATED_BLOCKS, record, trace, error=record.error)


def is_near_ceiling(costs: int, ceiling: int | None) -> bool:
    """Return whether costs in lamports are near a ceiling in lamports; None is no ceiling."""
    return ceiling is not None and costs * 100 >= ceiling * NEAR_CEILING_PERCENT


def reaches_threshold(times: Sequence[int]) -> bool:
    """Return whether the newest block completes the number of blocks that raises the alert.

    Args:
        times: the times of the wallet's blocks in Unix milliseconds, newest first.
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

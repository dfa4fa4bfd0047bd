"""Statements on limits (usage and reservations of scopes), and on the freeze switch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import bindparam, case, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import record_act
from solward.credentials.credentials import lock_credential
from solward.database.database import lock_exclusive, lock_shared
from solward.database.prepared import Prepared, Row
from solward.database.records import insert_or_set
from solward.database.tables import (
    FOUND_BY,
    agents,
    opened_accounts,
    reservations,
    schedules,
    switches,
    transactions,
    wallets,
)
from solward.support.clock import now_ms
from solward.support.durations import DAY_MS, MINUTE_MS
from solward.types.errors import SkillError, TakenOver
from solward.types.events import EventKind
from solward.types.guardrail import COSTS, GRANT_SCOPE, SOL
from solward.vault.store import window_sums
from solward.vault.store.grants import VERSION
from solward.vault.store.transactions import UNFINISHED

SOL_ASSET = SOL
# Network fees and rent, in lamports; they have separate ceilings.
COSTS_ASSET = COSTS
# The scope of the switch that freezes everything, and of the lock shared by reservations.
SERVICE_SCOPE = "service"


@dataclass(frozen=True, slots=True)
class Usage:
    """A scope's transactions in the last minute, and units of each asset in the last 24 hours."""

    tx_last_minute: int
    units_last_day: Mapping[str, int]


_FREEZE_REASON_SELECT = select(func.max(func.coalesce(switches.c.reason, ""))).where(
    switches.c.frozen.is_(True),
    switches.c.scope.in_(bindparam("switches", expanding=True)),
)
_CEILINGS = select(wallets.c.ceilings).where(wallets.c.id == bindparam("wallet_id"))
_BINDING = Prepared(
    select(_FREEZE_REASON_SELECT.scalar_subquery(), VERSION, _CEILINGS.scalar_subquery())
)
_LOCK_WALLET = Prepared(
    select(wallets.c.id)
    .where(wallets.c.id == bindparam("wallet_id"))
    .with_for_update(key_share=True)
)
_LOCK_AGENT = Prepared(
    select(agents.c.cycle_no, agents.c.fence, agents.c.desired_state)
    .where(agents.c.id == bindparam("agent_id"))
    .with_for_update(key_share=True)
)

_LOCK_SCHEDULE = Prepared(
    select(schedules.c.fence, schedules.c.status)
    .where(schedules.c.id == bindparam("schedule_id"))
    .with_for_update(key_share=True)
)


async def lock(
    connection: AsyncConnection,
    wallet_id: str,
    keys: Sequence[str] = (),
    run: tuple[str, int, int] | None = None,
    api_key: str | None = None,
    agent: str | None = None,
    schedule: tuple[str, int] | None = None,
) -> None:
    """Lock scopes against other reservations until the database transaction ends.

    On PostgreSQL every caller locks in the same order, to prevent deadlocks: service (shared,
    against a freeze), keys, agent, schedule, wallet. On SQLite the only writer has every lock.

    Args:
        keys: scopes of API keys, and other scopes whose windows span several wallets.
        run: agent, cycle and fencing token of the run that reserves.
        api_key: hash of the secret of the stored API key or admin credential that reserves.
        agent: the agent whose approved hold is carried out, outside any of its runs.
        schedule: schedule and fencing token of the run that reserves.

    Raises:
        KeyRevoked: the key is gone or expired, or has another secret.
        TakenOver: another run has the fencing token, or the agent or schedule is gone.
        SkillError: the agent was stopped, the approval is for an agent that is gone, or the
            schedule was paused.
    """
    await lock_service(connection)
    for scope in sorted(keys):
        await lock_exclusive(connection, scope)
    if api_key is not None:
        await lock_credential(connection, api_key)
    if run is not None:
        agent_id, cycle, fence = run
        row = await _LOCK_AGENT.first(connection, {"agent_id": agent_id})
        if row is None or (row.cycle_no, row.fence) != (cycle, fence):
            raise TakenOver
        _check_running(row)
    if agent is not None:
        row = await _LOCK_AGENT.first(connection, {"agent_id": agent})
        if row is None:
            raise SkillError("agent_deleted", "The agent was deleted; nothing was sent")
        _check_running(row)
    if schedule is not None:
        schedule_id, fence = schedule
        row = await _LOCK_SCHEDULE.first(connection, {"schedule_id": schedule_id})
        if row is None or row.fence != fence:
            raise TakenOver
        if row.status != "active":
            raise SkillError("schedule_paused", "The schedule was paused; nothing was sent")
    await lock_wallet(connection, wallet_id)


def _check_running(agent: Row) -> None:
    if agent.desired_state != "running":
        raise SkillError("agent_stopped", "The agent was stopped; nothing was sent")


async def is_stopped(connection: AsyncConnection, agent_id: str) -> bool:
    """Return whether an agent exists and is stopped."""
    state = select(agents.c.desired_state).where(agents.c.id == agent_id)
    found = (await connection.execute(state)).scalar_one_or_none()
    return found is not None and found != "running"


async def lock_service(connection: AsyncConnection) -> None:
    """Block changes of the freeze switch and of grants until the database transaction ends."""
    await lock_shared(connection, SERVICE_SCOPE)


async def lock_wallet(connection: AsyncConnection, wallet_id: str) -> None:
    """Lock a wallet's row until the transaction ends. SQLite needs no lock: it has one writer."""
    if connection.dialect.name != "sqlite":
        await _LOCK_WALLET.all(connection, {"wallet_id": wallet_id})


async def freeze_reason(connection: AsyncConnection, wallet_id: str) -> str | None:
    """Return why a wallet's transactions are frozen ("" without a reason); None if not frozen.

    Call this after `lock` if the answer must still be true when the transaction ends.
    """
    return (await read_binding(connection, wallet_id)).frozen


class Binding(NamedTuple):
    """`freeze_reason`, the version of the grants, and a wallet's own ceilings."""

    frozen: str | None
    version: int
    ceilings: Mapping[str, int]


async def read_binding(connection: AsyncConnection, wallet_id: str) -> Binding:
    """Return what binds a wallet besides limits and grants, in one query."""
    given = {"switches": [SERVICE_SCOPE, f"wallet:{wallet_id}"], "wallet_id": wallet_id}
    found, version, ceilings = (await _BINDING.all(connection, given))[0]
    return Binding(None if found is None else str(found), int(version), ceilings or {})


async def ceilings_by_wallet(connection: AsyncConnection) -> dict[str, Mapping[str, int]]:
    """Return the own ceilings of all wallets, by the wallets' ids."""
    found = await connection.execute(select(wallets.c.id, wallets.c.ceilings))
    return {row.id: row.ceilings for row in found}


async def set_frozen(
    connection: AsyncConnection, scope: str, frozen: bool, reason: str | None = None
) -> None:
    """Set the freeze switch of `service` or `wallet:<id>`; refusals show `reason`.

    This waits for reservations that were judged by the old switch. Every reservation after this
    commit is judged by the new switch.
    """
    if scope == SERVICE_SCOPE:
        await lock_exclusive(connection, scope)
    else:
        await lock_shared(connection, SERVICE_SCOPE)
        await lock_wallet(connection, scope.removeprefix("wallet:"))
    removed = await connection.execute(
        delete(switches)
        .where(switches.c.scope == scope)
        .returning(switches.c.frozen, switches.c.reason)
    )
    row = removed.first()
    was = {"frozen": False, "reason": None} if row is None else dict(row._mapping)
    now = {"frozen": frozen, "reason": reason}
    await connection.execute(insert(switches).values(scope=scope, changed_ms=now_ms(), **now))
    wallet_id = None if scope == SERVICE_SCOPE else scope.removeprefix("wallet:")
    subject: dict[str, Any] = {"walletId": wallet_id}
    if frozen:
        record_act(connection, EventKind.SWITCH_FROZEN, subject | {"reason": reason}, was, now)
    else:
        record_act(connection, EventKind.SWITCH_THAWED, subject, was, now)


async def usage(
    connection: AsyncConnection, scopes: Collection[str], assets: Collection[str], now_ms: int
) -> dict[str, Usage]:
    """Return each scope's transactions in the last minute and units in the last 24 hours.

    Raises:
        ValueError: a scope has no windows, because its kind has no limits (`tables.FOUND_BY`).
    """
    if any(scope.startswith(FOUND_BY) for scope in scopes):
        raise ValueError(f"some of these scopes have no windows: {sorted(scopes)}")
    days = [
        (scope, asset, DAY_MS) for scope in scopes for asset in (SOL_ASSET, COSTS_ASSET, *assets)
    ]
    minutes = {scope: (scope, SOL_ASSET, MINUTE_MS) for scope in scopes}
    found = await window_sums.sum_windows(connection, [*days, *minutes.values()], now_ms)
    units: dict[str, dict[str, int]] = {scope: {} for scope in scopes}
    for need in days:
        if found[need].transactions:
            units[need[0]][need[1]] = found[need].units
    return {scope: Usage(found[minutes[scope]].transactions, units[scope]) for scope in scopes}


_NTH_RECENT = Prepared(
    select(reservations.c.created_ms)
    .where(
        reservations.c.scope == bindparam("scope"),
        reservations.c.asset == SOL_ASSET,
        reservations.c.created_ms > bindparam("minute"),
    )
    .order_by(reservations.c.created_ms.desc())
    .offset(bindparam("older"))
    .limit(1)
)


async def next_tx_ms(connection: AsyncConnection, scope: str, most: int, now_ms: int) -> int | None:
    """Return the milliseconds until a scope has fewer than `most` transactions in a minute.

    None if there are fewer now, or if `most` is 0.
    """
    if most < 1:
        return None
    parameters = {"scope": scope, "minute": now_ms - MINUTE_MS, "older": most - 1}
    found = await _NTH_RECENT.scalar(connection, parameters)
    return None if found is None else int(found) + MINUTE_MS - now_ms


_RESERVE = Prepared(insert(reservations))


async def reserve(
    connection: AsyncConnection,
    transaction_id: str,
    scopes: Sequence[str],
    units_by_asset: Mapping[str, int],
    now_ms: int,
    more: Sequence[tuple[str, str, int]] = (),
) -> None:
    """Count a transaction in all its scopes: one rate slot, and the units of each asset.

    Args:
        more: (scope, asset, units) of units that count in one scope only.
    """
    rows = [(scope, *each) for scope in scopes for each in units_by_asset.items()]
    # Inserts lock totals, which every transaction must lock in the same order.
    ordered = sorted((*rows, *more))
    await _RESERVE.many(
        connection,
        [
            {
                "transaction_id": transaction_id,
                "scope": scope,
                "asset": asset,
                "created_ms": now_ms,
                "units": units,
            }
            for scope, asset, units in ordered
        ],
    )


_COSTS = update(reservations).where(
    reservations.c.transaction_id == bindparam("b_id"), reservations.c.asset == COSTS_ASSET
)
_ADD_COSTS = Prepared(_COSTS.values(units=reservations.c.units + bindparam("b_lamports")))


async def add_costs(connection: AsyncConnection, transaction_id: str, lamports: int) -> None:
    """Add lamports of fees and rent to a transaction's reservation."""
    await window_sums.lock_totals(connection, [transaction_id])
    await _ADD_COSTS.run(connection, {"b_id": transaction_id, "b_lamports": lamports})


# Windows are at most a day behind the clock that stamps records (`window_clock`): none has older
# rows.
_FORGOTTEN_MS = 2 * DAY_MS
_FORGET = delete(opened_accounts).where(opened_accounts.c.created_ms < bindparam("b_before"))
_NOTE_OPENED = insert_or_set(
    opened_accounts, ("account",), "transaction_id", "rent_lamports", "created_ms"
)
_CLOSED = (
    delete(opened_accounts)
    .where(opened_accounts.c.account.in_(bindparam("b_accounts", expanding=True)))
    .returning(
        opened_accounts.c.account,
        opened_accounts.c.transaction_id,
        opened_accounts.c.rent_lamports,
    )
)
_LEFT = reservations.c.units - bindparam("b_lamports")
_CREDIT_COSTS = _COSTS.values(units=case((_LEFT > 0, _LEFT), else_=0))


async def note_opened(
    connection: AsyncConnection,
    transaction_id: str,
    created_ms: int,
    rents: Mapping[str, int],
) -> None:
    """Store which transaction opened own token accounts, and the rent counted for each.

    Args:
        created_ms: the record's `created_ms`.
        rents: account -> lamports of rent.
    """
    await connection.execute(_FORGET, {"b_before": created_ms - _FORGOTTEN_MS})
    await connection.execute(
        _NOTE_OPENED,
        [
            {
                "account": account,
                "transaction_id": transaction_id,
                "rent_lamports": rent,
                "created_ms": created_ms,
            }
            for account, rent in rents.items()
        ],
    )


async def opening_ids(connection: AsyncConnection, accounts: Collection[str]) -> set[str]:
    """Return the transactions that opened these own token accounts, to credit rent to them."""
    statement = select(opened_accounts.c.transaction_id).where(
        opened_accounts.c.account.in_(accounts)
    )
    return set((await connection.execute(statement)).scalars())


async def credit_closed(connection: AsyncConnection, returned: Mapping[str, int]) -> None:
    """Return rent once to the transaction that opened the account, in all its scopes.

    Accounts without a known opening transaction are ignored.

    Args:
        returned: own token account that was closed -> lamports of rent that came back.
    """
    rows = await connection.execute(_CLOSED, {"b_accounts": list(returned)})
    credited = [
        {"b_id": row.transaction_id, "b_lamports": min(row.rent_lamports, returned[row.account])}
        for row in rows
    ]
    if credited:
        # All transactions update in the same order, so that no two deadlock.
        credited.sort(key=lambda each: str(each["b_id"]))
        await connection.execute(_CREDIT_COSTS, credited)


# Unfinished transactions are few, while a scope may have many rows; the empty suffix keeps the
# database from using the index of scopes.
_SCOPE = reservations.c.scope.concat("")
_RESERVED = (
    select(_SCOPE.label("scope"), reservations.c.asset, *window_sums.halves(reservations.c.units))
    .where(
        reservations.c.transaction_id.in_(select(transactions.c.id).where(UNFINISHED)),
        _SCOPE.in_(bindparam("scopes", expanding=True)),
    )
    .group_by(_SCOPE, reservations.c.asset)
)


async def reserved_by_scope(
    connection: AsyncConnection, scopes: Collection[str]
) -> dict[str, dict[str, int]]:
    """Return the units that unfinished transactions reserve, by scope and asset.

    The result contains every scope.
    """
    found: dict[str, dict[str, int]] = {scope: {} for scope in scopes}
    for row in await connection.execute(_RESERVED, {"scopes": list(scopes)}):
        found[row.scope][row.asset] = window_sums.units(row.high, row.low)
    return found


async def reserved_by(
    connection: AsyncConnection, transaction_ids: Collection[str]
) -> dict[str, dict[str, int]]:
    """Return the reserved units by transaction id and asset. All scopes of a transaction count the
    same units, except scopes of grants, which may count a part and are ignored."""
    statement = (
        select(
            reservations.c.transaction_id,
            reservations.c.asset,
            func.max(reservations.c.units).label("units"),
        )
        .where(
            reservations.c.transaction_id.in_(transaction_ids),
            ~reservations.c.scope.startswith(GRANT_SCOPE, autoescape=True),
        )
        .group_by(reservations.c.transaction_id, reservations.c.asset)
    )
    found: dict[str, dict[str, int]] = {}
    for row in await connection.execute(statement):
        found.setdefault(row.transaction_id, {})[row.asset] = int(row.units)
    return found

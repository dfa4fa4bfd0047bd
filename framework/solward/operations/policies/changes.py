"""Changes to grants and to the address book, which share one version.

Like a freeze, each change takes the lock that reservations share, so that it applies to all later
reservations. A new grant starts with the amounts that its principal moved in its windows and that
it would have covered, so that rewriting a grant does not reset its limits.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import bindparam, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import record_act
from solward.database import names
from solward.database.database import Database, lock_exclusive
from solward.database.tables import judged_effects, reservations, transactions
from solward.operations.policies.grant_documents import GrantPolicy
from solward.types.errors import PolicyChanged
from solward.types.events import EventKind
from solward.types.guardrail import COSTS, SOL
from solward.vault.grants.decide import allows_sites, covers, is_in_time
from solward.vault.grants.dollars import line_dollars
from solward.vault.grants.judged import JudgedCase, from_row
from solward.vault.grants.model import (
    ANY_ASSET,
    USD,
    Case,
    Grant,
    from_stored,
    stored_form,
)
from solward.vault.money.judge.grant_case import addresses, mark_funding
from solward.vault.store import grants as store
from solward.vault.store import recipients, window_sums
from solward.vault.store.spending import SERVICE_SCOPE
from solward.vault.store.transactions import UNFINISHED

Groups = Mapping[str, Sequence[str]]


async def read_policy(
    connection: AsyncConnection, principals: Collection[str] | None = None
) -> GrantPolicy:
    """Return the policy in force.

    Args:
        principals: the principals whose grants to read; None for all.
    """
    sets = await (
        store.all_sets(connection) if principals is None else store.sets_of(connection, principals)
    )
    return GrantPolicy(
        {who: tuple(map(from_stored, grants)) for who, grants in sets.items()},
        await names.groups(connection),
        await store.version(connection),
    )


async def replace_policy(
    database: Database,
    sets: Mapping[str, Sequence[Grant]],
    book: Groups,
    *,
    if_version: int | None = None,
) -> int:
    """Replace all grants and the address book; return the new version.

    A principal that `sets` lacks is no longer under grants.

    Args:
        if_version: the version that must be in force; None for any.

    Raises:
        PolicyChanged: another version is in force.
    """
    async with database.write() as connection:
        await lock_policy(connection, if_version)
        before = await read_policy(connection)
        was, now = (
            {name: sorted(each[name]) for name in sorted(each)} for each in (before.book, book)
        )
        if was != now:
            await names.put_groups(connection, now)
            record_act(
                connection, EventKind.POLICY_CHANGED, {"who": "book"}, {"book": was}, {"book": now}
            )
        for who in sorted({*before.sets, *sets}):
            await _store_set(database, connection, who, before.sets.get(who), sets.get(who))
        return await store.raise_version(connection)


async def replace_set(
    database: Database, who: str, grants: Sequence[Grant] | None, *, if_version: int | None = None
) -> int:
    """Replace one principal's grants, as `replace_policy` does; None removes it from grants."""
    async with database.write() as connection:
        await lock_policy(connection, if_version)
        return await put_set(database, connection, who, grants)


async def lock_policy(connection: AsyncConnection, if_version: int | None = None) -> None:
    """Lock out reservations and other changes until the transaction ends; take this lock first.

    Raises:
        PolicyChanged: another version than `if_version` is in force.
    """
    await lock_exclusive(connection, SERVICE_SCOPE)
    if if_version is not None:
        found = await store.version(connection)
        if found != if_version:
            raise PolicyChanged(found)


async def put_set(
    database: Database, connection: AsyncConnection, who: str, grants: Sequence[Grant] | None
) -> int:
    """Replace one principal's grants in the caller's transaction, which holds `lock_policy`."""
    found = (await store.sets_of(connection, [who])).get(who)
    before = None if found is None else tuple(map(from_stored, found))
    await _store_set(database, connection, who, before, grants)
    return await store.raise_version(connection)


async def drop_set(database: Database, connection: AsyncConnection, who: str) -> None:
    """Drop a deleted principal's grants, if any; the transaction holds `lock_policy`."""
    if await store.sets_of(connection, [who]):
        await put_set(database, connection, who, None)


async def may_approve(
    database: Database, connection: AsyncConnection, who: str, wallet_id: str | None = None
) -> bool:
    """Return whether a principal's grants let it decide others' holds now.

    Args:
        wallet_id: the wallet of the hold; None for any wallet.
    """
    found = (await store.sets_of(connection, [who])).get(who)
    if not found:
        return False
    now = await database.moment(connection)
    clocks = (now.database_ms, now.window_ms)
    return any(
        grant.approves
        and (wallet_id is None or grant.wallet in (None, wallet_id))
        and is_in_time(grant, clocks)
        for grant in map(from_stored, found)
    )


async def _store_set(
    database: Database,
    connection: AsyncConnection,
    who: str,
    before: Sequence[Grant] | None,
    after: Sequence[Grant] | None,
) -> None:
    if before == (None if after is None else tuple(after)):
        return
    now = await database.moment(connection)
    kept = {grant.id for grant in before or ()}
    fresh = [grant for grant in after or () if grant.id not in kept]
    if fresh:
        await _seed_windows(connection, who, fresh, now.window_ms)
    stored = None if after is None else [stored_form(grant) for grant in after]
    await store.put_set(connection, who, stored, now.database_ms)
    record_act(
        connection, EventKind.POLICY_CHANGED, {"who": who}, _audit_form(before), _audit_form(after)
    )


def _audit_form(grants: Sequence[Grant] | None) -> dict[str, Any]:
    return {"grants": None if grants is None else [stored_form(grant) for grant in grants]}


# The amounts that new grants start with.

# The number of ids in one query.
_PAGE: Final = 500
_RESERVED = (
    select(judged_effects, reservations.c.created_ms.label("reserved_ms"))
    .join(reservations, reservations.c.transaction_id == judged_effects.c.transaction_id)
    .where(reservations.c.asset == SOL, reservations.c.created_ms > bindparam("b_after"))
    .order_by(reservations.c.created_ms)
)
_COUNTING = _RESERVED.where(reservations.c.scope == bindparam("b_scope"))
# Kinds of principals for which reservations are stored. Schedules, skills, plugins and sites are
# only in a transaction's chain.
_SCOPES = ("wallet:", "agent:", "key:")
_LOCK_PENDING = (
    select(transactions.c.id)
    .where(transactions.c.id.in_(bindparam("ids", expanding=True)), UNFINISHED)
    .order_by(transactions.c.seq)
    .with_for_update()
)
_KEPT = select(reservations.c.transaction_id, reservations.c.asset, reservations.c.units).where(
    reservations.c.transaction_id.in_(bindparam("ids", expanding=True)),
    reservations.c.scope == literal("wallet:") + bindparam("b_wallet"),
)


@dataclass(frozen=True, slots=True)
class _CountedRow:
    """A transaction that counts in a scope.

    Attributes:
        reserved_ms: the time of its reservations.
        kept: asset -> units that still count; the transaction's end may have lowered them.
    """

    judged: JudgedCase
    reserved_ms: int
    kept: Mapping[str, int]


async def _counted_rows(connection: AsyncConnection, who: str, after_ms: int) -> list[_CountedRow]:
    """Return a principal's transactions since a time that still count, oldest first."""
    if who.startswith(_SCOPES):
        rows = await connection.execute(_COUNTING, {"b_scope": who, "b_after": after_ms})
        found = [dict(row._mapping) for row in rows]
    else:
        found = await _by_chain(connection, who, after_ms)
    by_wallet: dict[str, list[str]] = {}
    for row in found:
        by_wallet.setdefault(row["wallet_id"], []).append(row["transaction_id"])
    kept: dict[str, dict[str, int]] = {}
    for wallet_id, ids in by_wallet.items():
        for start in range(0, len(ids), _PAGE):
            # Locked, so that no transaction ends and changes its units before the caller commits.
            await connection.execute(_LOCK_PENDING, {"ids": ids[start : start + _PAGE]})
            parameters = {"ids": ids[start : start + _PAGE], "b_wallet": wallet_id}
            for id_, asset, units in await connection.execute(_KEPT, parameters):
                kept.setdefault(id_, {})[asset] = int(units)
    return [
        _CountedRow(from_row(row), int(row["reserved_ms"]), kept[row["transaction_id"]])
        for row in found
        if row["transaction_id"] in kept
    ]


async def _by_chain(connection: AsyncConnection, who: str, after_ms: int) -> list[dict[str, Any]]:
    statement = _RESERVED.where(
        reservations.c.scope == literal("wallet:") + judged_effects.c.wallet_id,
        judged_effects.c.chain.contains(f'"{who}"', autoescape=True),
    )
    rows = await connection.execute(statement, {"b_after": after_ms})
    # The ids are compared again, because databases compare letters in different ways.
    return [dict(row._mapping) for row in rows if who in json.loads(row.chain)]


async def _seed_windows(
    connection: AsyncConnection, who: str, grants: Sequence[Grant], now_ms: int
) -> None:
    """Count in each new grant the past transactions that the grant would have covered."""
    longest = max(grant.longest_ms for grant in grants)
    moved = await _counted_rows(connection, who, now_ms - longest)
    named = [address for each in moved for address in addresses(each.judged.case.lines)]
    own = frozenset(await recipients.own_wallets(connection, tuple(dict.fromkeys(named))))
    facts = {name: frozenset(found) for name, found in (await names.groups(connection)).items()}
    judged = [
        (
            each,
            replace(
                each.judged.case,
                own=own,
                book=facts,
                lines=mark_funding(each.judged.case.lines, own),
                dollars=line_dollars(each.judged.case.lines, each.judged.prices),
            ),
        )
        for each in moved
    ]
    for grant in grants:
        rows: list[dict[str, Any]] = []
        for each, case in judged:
            for asset, units in _covered_units(grant, case, each).items():
                rows.append(
                    {
                        "transaction_id": each.judged.transaction_id,
                        "scope": grant.scope,
                        "asset": asset,
                        "created_ms": each.reserved_ms,
                        "units": units,
                    }
                )
        await window_sums.replace_counted(connection, grant.scope, rows)


def _covered_units(grant: Grant, case: Case, counting: _CountedRow) -> dict[str, int]:
    """Return asset -> units of a past transaction that count as used in a grant."""
    found: dict[str, int] = {}
    lines = case.lines or (None,)
    for at, line in enumerate(lines):
        if line is None:
            is_covered = (
                bool(grant.may)
                and grant.wallet in (None, case.wallet_id)
                and allows_sites(grant, case.chain)
            )
        else:
            is_covered = covers(grant, line, case)
        if not is_covered:
            continue
        # It counts 0 units, but takes a slot in the rate.
        found.setdefault(SOL, 0)
        if at == 0 and case.costs_lamports:
            kept = counting.kept.get(COSTS, 0)
            if all(each is None or each.asset != SOL for each in lines):
                # SOL lent to a swap's pocket counts as costs in grants, and as SOL in limits.
                kept += counting.kept.get(SOL, 0)
            found[COSTS] = min(case.costs_lamports, kept)
        if line is None or not line.units or not counting.kept.get(line.asset, 0):
            continue
        if line.asset in grant.assets:
            units = found.get(line.asset, 0) + line.units
            found[line.asset] = min(units, counting.kept[line.asset])
        elif ANY_ASSET in grant.assets:
            # Without a price it counts as 0, because no grant counted it in dollars at that time.
            worth = case.dollars[at]
            found[USD] = found.get(USD, 0) + (worth if isinstance(worth, int) else 0)
    return found

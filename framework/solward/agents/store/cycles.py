"""Entering and leaving cycles, many in one transaction.

Both check the agent's fencing token, so that a stale or duplicate run changes nothing. Rows are
locked in the order of their ids, so that batches of several processes cannot deadlock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Integer,
    Text,
    bindparam,
    cast,
    delete,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import TypeEngine

from solward.agents.store.agents import Fields
from solward.database.prepared import ForEachRow, Prepared
from solward.database.tables import agents, decisions, holds, memory, transactions
from solward.resources.agents import MEMORY_KEPT
from solward.support.clock import now_ms
from solward.types.record import Hold, TransactionRecord
from solward.vault.store import holds as holds_store
from solward.vault.store.transactions import RECORD, record_of

MEMORY_GIVEN = 10

_RUNNING = "running"
_IDS: BindParameter[list[str]] = bindparam("of_agents", expanding=True)

# The columns of a memory entry. Rows of cycles are read by position: looking columns up by name
# costs more than reading them from the database.
ENTRY = (
    memory.c.cycle,
    memory.c.reasoning,
    memory.c.action,
    memory.c.outcome,
    memory.c.created_ms,
)
_AGENT, _MEMORY = tuple(agents.c.keys()), tuple(memory.c.keys())

# Statements of every cycle are built once: building one costs more than running it.
_LOCKED = Prepared(
    select(agents).where(agents.c.id.in_(_IDS)).order_by(agents.c.id).with_for_update()
)
_LOCKED_STATE = Prepared(
    select(
        agents.c.id,
        agents.c.name,
        agents.c.fence,
        agents.c.cycle_no,
        agents.c.desired_state,
        agents.c.status,
    )
    .where(agents.c.id.in_(_IDS))
    .order_by(agents.c.id)
    .with_for_update()
)
_FENCE = Prepared(
    update(agents)
    .where(agents.c.id.in_(_IDS))
    .values(fence=agents.c.fence + 1, entered_ms=bindparam("at_ms"))
)
# An abandoned cycle leaves nothing, so that another worker can run it at once.
_ABANDON = (
    update(agents)
    .where(agents.c.id == bindparam("of_agent"), agents.c.fence == bindparam("of_fence"))
    .values(entered_ms=None, deferred_cycle=None)
)
# Every cycle that is left adds exactly one entry, so cycle numbers count the entries.
_REMEMBERED = Prepared(
    select(memory.c.agent_id, *ENTRY).where(
        agents.c.id.in_(_IDS),
        memory.c.agent_id == agents.c.id,
        memory.c.cycle >= agents.c.cycle_no - MEMORY_GIVEN,
    )
)
# Action keys are `<agent>:<cycle>:<skill>:<ordinal>`; `;` follows `:` in ASCII, which makes the
# prefix a range of the unique index.
_PREFIX = agents.c.id + ":" + cast(agents.c.cycle_no, Text)
_EARLIER_ACTION = select(agents.c.id, transactions.c.action_key, *RECORD).where(
    agents.c.id.in_(_IDS),
    transactions.c.action_key >= _PREFIX + ":",
    transactions.c.action_key < _PREFIX + ";",
)
# What it asked for that a person has not decided yet; what was decided has a record.
_EARLIER_HOLD = select(*holds_store.COLUMNS, agents.c.id.label("of_agent")).where(
    agents.c.id.in_(_IDS),
    holds_store.OPEN,
    holds.c.action_key >= _PREFIX + ":",
    holds.c.action_key < _PREFIX + ";",
)
_LEFT: Final[Mapping[str, TypeEngine[Any]]] = {
    "of_agent": Text(),
    "to_next_run_ms": BigInteger(),
    "to_status": Text(),
    "to_failures": Integer(),
    "to_error": Text(),
}
_LEAVE = ForEachRow(
    _LEFT,
    lambda row: (
        update(agents)
        .where(agents.c.id == row["of_agent"])
        .values(
            cycle_no=agents.c.cycle_no + 1,
            next_run_ms=row["to_next_run_ms"],
            status=row["to_status"],
            failures=row["to_failures"],
            error=row["to_error"],
            entered_ms=None,
        )
    ),
)
_DECIDE, _REMEMBER = ForEachRow.insert(decisions), ForEachRow.insert(memory)
_FORGET = ForEachRow(
    {"of_agent": Text(), "up_to": BigInteger()},
    lambda row: delete(memory).where(
        memory.c.agent_id == row["of_agent"], memory.c.cycle <= row["up_to"]
    ),
)


@dataclass(frozen=True, slots=True)
class Recalled:
    """The stored state of an agent that enters a cycle.

    Attributes:
        memory: its latest `MEMORY_GIVEN` entries, newest first, each as `ENTRY`.
        earlier_action: the skill and the first transaction of this cycle, held or not, where an
            earlier run of it already asked for one.
    """

    memory: list[tuple[Any, ...]] = field(default_factory=list)
    earlier_action: tuple[str, TransactionRecord | Hold] | None = None


@dataclass(frozen=True, slots=True)
class LeavingCycle:
    """A cycle to leave: the agent's new state, and the row of its decision."""

    agent_id: str
    fence: int
    next_run_ms: int
    status: str
    failures: int
    error: str | None
    decision: Fields


@dataclass(frozen=True, slots=True)
class LeftCycle:
    """An agent's row as its cycle was left: its desired state, and its status before."""

    name: str
    desired_state: str
    status: str


async def enter(
    connection: AsyncConnection, cycles: Sequence[tuple[str, int]]
) -> list[Fields | None]:
    """Take the next fence for each `(agent, cycle)`; None where it is stale or must not run.

    Returns:
        The agents' new rows, in the order of `cycles`.
    """
    at_ms = now_ms()
    ids = {"of_agents": [agent_id for agent_id, _cycle in cycles]}
    rows = await _LOCKED.all(connection, ids)
    agents_by_id = {row[0]: dict(zip(_AGENT, row, strict=True)) for row in rows}
    entered: list[Fields | None] = []
    for agent_id, cycle in cycles:
        agent = agents_by_id.get(agent_id)
        if agent is None or (agent["cycle_no"], agent["desired_state"]) != (cycle, _RUNNING):
            entered.append(None)
        else:
            entered.append(agent | {"fence": agent["fence"] + 1, "entered_ms": at_ms})
            # A duplicate in the batch is not entered: two runs must never hold one fence.
            del agents_by_id[agent_id]
    fenced = [agent["id"] for agent in entered if agent is not None]
    if fenced:
        await _FENCE.run(connection, {"of_agents": fenced, "at_ms": at_ms})
    return entered


async def abandon(connection: AsyncConnection, agent_id: str, fence: int) -> None:
    """Undo the entering of a cycle; where another run took the fence since, nothing changes."""
    await connection.execute(_ABANDON, {"of_agent": agent_id, "of_fence": fence})


async def recall(connection: AsyncConnection, agent_ids: Sequence[str]) -> dict[str, Recalled]:
    """The stored state of agents that have just entered a cycle."""
    found = {agent_id: Recalled() for agent_id in agent_ids}
    if not found:
        return found
    ids = {"of_agents": list(found)}
    for agent_id, *entry in await _REMEMBERED.all(connection, ids):
        found[agent_id].memory.append(tuple(entry))
    for each in found.values():
        each.memory.sort(key=itemgetter(0), reverse=True)
    for row in await connection.execute(_EARLIER_HOLD, ids):
        held = (str(row.action_key).split(":")[2], holds_store.row_of(row).hold)
        found[row.of_agent] = Recalled(found[row.of_agent].memory, held)
    rows = [tuple(row) for row in await connection.execute(_EARLIER_ACTION, ids)]
    for agent_id, action_key, *values in sorted(rows, key=itemgetter(1), reverse=True):
        earlier_action = (str(action_key).split(":")[2], record_of(values))
        found[agent_id] = Recalled(found[agent_id].memory, earlier_action)
    return found


async def leave(
    connection: AsyncConnection, leaving: Sequence[LeavingCycle]
) -> list[LeftCycle | None]:
    """Record each decision and advance its agent; None where another run took the fence.

    An agent that was stopped or paused meanwhile keeps that status.
    """
    ids = {"of_agents": [each.agent_id for each in leaving]}
    rows = {row.id: row for row in await _LOCKED_STATE.all(connection, ids)}
    left: list[LeftCycle | None] = []
    moved: list[Fields] = []
    decided: list[Fields] = []
    for each in leaving:
        row = rows.pop(each.agent_id, None)
        if row is None or (row.fence, row.cycle_no) != (each.fence, each.decision["cycle"]):
            left.append(None)
            continue
        continues = row.desired_state == _RUNNING
        left.append(LeftCycle(row.name, row.desired_state, row.status))
        moved.append(
            {
                "of_agent": each.agent_id,
                "to_next_run_ms": each.next_run_ms,
                "to_status": each.status if continues else row.status,
                "to_failures": each.failures,
                "to_error": each.error,
            }
        )
        decided.append(each.decision)
    if moved:
        await _LEAVE.run(connection, moved)
        await _DECIDE.run(connection, decided)
        entries = [{name: each[name] for name in _MEMORY} for each in decided]
        await _REMEMBER.run(connection, entries)
        forgotten = [
            {"of_agent": decision["agent_id"], "up_to": decision["cycle"] - MEMORY_KEPT}
            for decision in decided
            if decision["cycle"] > MEMORY_KEPT
        ]
        await _FORGET.run(connection, forgotten)
    return left

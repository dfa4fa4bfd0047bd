"""The remember phase: many cycles are entered or left in the store in one write transaction.

Both check the agent's fencing token, so that a stale or duplicate run changes nothing. Rows are
locked in the order of their ids, so that batches of several processes cannot deadlock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
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

from solward.agents import store
from solward.agents.agent import (
    NOTHING_USED,
    Agent,
    Decision,
    DesiredState,
    MemoryEntry,
    TokensUsed,
    agent_of,
)
from solward.agents.batch import Batcher
from solward.agents.budget import BudgetReservation, usage_row
from solward.agents.store import Fields
from solward.audit.acts import record_act
from solward.database import outbox
from solward.database.database import Database
from solward.database.prepared import ForEachRow, Prepared
from solward.database.tables import agents, decisions, holds, memory, transactions
from solward.resources.agents import MEMORY_KEPT, AgentStatus
from solward.support.clock import now_ms
from solward.support.durations import HOUR_MS
from solward.telemetry import metrics
from solward.types.events import EventKind
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
# Abandoning a cycle leaves no trace, so that another worker can run it at once.
_ABANDON = (
    update(agents)
    .where(agents.c.id == bindparam("of_agent"), agents.c.fence == bindparam("of_fence"))
    .values(entered_ms=None, deferred_cycle=None)
)
# Every recorded cycle adds exactly one entry, so cycle numbers count the entries.
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
# Holds that no person has decided yet; a decided hold has a record.
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
class EnteredCycle:
    """A cycle that was entered and may run.

    Attributes:
        memory: the latest entries, newest first.
        earlier_action: the skill and its transaction or hold, if an earlier run of the same cycle
            was interrupted after its action.
    """

    agent: Agent
    memory: tuple[MemoryEntry, ...]
    earlier_action: tuple[str, TransactionRecord | Hold] | None = None


@dataclass(frozen=True, slots=True)
class CycleResult:
    """The changes that a cycle makes to its agent's row, and its budget reservation.

    Attributes:
        next_run_ms: due time of the next cycle.
        reserved: the reservation in the model's budget, to be settled to the decision's usage.
    """

    status: str
    failures: int
    error: str | None
    next_run_ms: int
    reserved: BudgetReservation | None = None


@dataclass(frozen=True, slots=True)
class LeavingCycle:
    """A cycle that ends, with the decision to store."""

    decision: Decision
    fence: int
    result: CycleResult


@dataclass(frozen=True, slots=True)
class LeftCycle:
    """An agent's desired state and previous status at the end of a cycle."""

    name: str
    desired_state: str
    status: str


@dataclass(slots=True)
class RecalledState:
    """The stored state of an agent that enters a cycle.

    Attributes:
        memory: the agent's latest `MEMORY_GIVEN` entries, newest first.
        earlier_action: the skill and the first transaction or hold of this cycle, if an earlier run
            of the cycle requested one.
    """

    memory: list[MemoryEntry] = field(default_factory=list)
    earlier_action: tuple[str, TransactionRecord | Hold] | None = None


class Journal:
    """The store of cycles. A decision and its audit event commit in one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._entering: Batcher[tuple[str, int], EnteredCycle | None] = Batcher(self._enter)
        self._leaving: Batcher[LeavingCycle, bool] = Batcher(self._leave)

    def enter(self, agent_id: str, cycle: int) -> Awaitable[EnteredCycle | None]:
        """Enter a cycle with the agent's next fence; return None if the cycle must not run."""
        return self._entering((agent_id, cycle))

    def leave(self, decision: Decision, fence: int, result: CycleResult) -> Awaitable[bool]:
        """Record the decision and advance the agent; return False if the agent must not continue.

        Nothing is recorded if another run has taken a newer fence.
        """
        return self._leaving(LeavingCycle(decision, fence, result))

    async def abandon(self, agent_id: str, fence: int) -> None:
        """Undo the entering of a cycle, so that the cycle can be run again at once."""
        async with self._database.write() as connection:
            await abandon(connection, agent_id, fence)

    async def _enter(self, cycles: Sequence[tuple[str, int]]) -> list[EnteredCycle | None]:
        async with self._database.write() as connection:
            rows = await enter(connection, cycles)
            ids = [row["id"] for row in rows if row is not None]
            recalled = await recall(connection, ids)
        return [None if row is None else _entered_cycle(row, recalled[row["id"]]) for row in rows]

    async def _leave(self, leaving: Sequence[LeavingCycle]) -> list[bool]:
        error, running = AgentStatus.ERROR.value, DesiredState.RUNNING.value
        async with self._database.write() as connection:
            left = await leave(connection, leaving)
            used: list[dict[str, Any]] = []
            for each, was in zip(leaving, left, strict=True):
                decision, reserved = each.decision, each.result.reserved
                if reserved is not None and (row := reserved.change_to(decision.usage)) is not None:
                    used.append(row)
                if was is None:
                    continue
                if reserved is None and decision.usage is not None:
                    used.append(usage_row(decision.agent_id, decision.created_ms, decision.usage))
                outbox.record(connection, EventKind.AGENT_DECISION, decision.to_json())
                turned = each.result.status == error and was.status != error
                if turned and was.desired_state == running:
                    record_status(
                        connection, decision.agent_id, was.name, AgentStatus(was.status),
                        AgentStatus.ERROR, each.result.error, by=f"agent:{decision.agent_id}",
                    )  # fmt: skip
            await store.add_usage(connection, used)
        for each, was in zip(leaving, left, strict=True):
            metrics.CYCLES.labels(_outcome_label(each, was)).inc()
        return [was is not None and was.desired_state == running for was in left]


async def enter(
    connection: AsyncConnection, cycles: Sequence[tuple[str, int]]
) -> list[Fields | None]:
    """Take the next fence for each `(agent, cycle)` that is not stale and may run.

    Returns:
        The agents' new rows, in the order of `cycles`; None for each cycle that was not entered.
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
            # A duplicate in the batch is not entered: two runs must never have the same fence.
            del agents_by_id[agent_id]
    fenced = [agent["id"] for agent in entered if agent is not None]
    if fenced:
        await _FENCE.run(connection, {"of_agents": fenced, "at_ms": at_ms})
    return entered


async def abandon(connection: AsyncConnection, agent_id: str, fence: int) -> None:
    """Undo the entering of a cycle, unless another run has taken the fence since."""
    await connection.execute(_ABANDON, {"of_agent": agent_id, "of_fence": fence})


async def recall(connection: AsyncConnection, agent_ids: Sequence[str]) -> dict[str, RecalledState]:
    """Return the stored state of agents that have just entered a cycle."""
    found = {agent_id: RecalledState() for agent_id in agent_ids}
    if not found:
        return found
    ids = {"of_agents": list(found)}
    for agent_id, *entry in await _REMEMBERED.all(connection, ids):
        found[agent_id].memory.append(MemoryEntry._make(entry))
    for each in found.values():
        each.memory.sort(key=itemgetter(0), reverse=True)
    for row in await connection.execute(_EARLIER_HOLD, ids):
        held = (str(row.action_key).split(":")[2], holds_store.row_of(row).hold)
        found[row.of_agent].earlier_action = held
    rows = [tuple(row) for row in await connection.execute(_EARLIER_ACTION, ids)]
    for agent_id, action_key, *values in sorted(rows, key=itemgetter(1), reverse=True):
        found[agent_id].earlier_action = (str(action_key).split(":")[2], record_of(values))
    return found


async def leave(
    connection: AsyncConnection, leaving: Sequence[LeavingCycle]
) -> list[LeftCycle | None]:
    """Record each decision and advance its agent, unless another run took the fence.

    An agent that was stopped or paused meanwhile keeps that status. The result has None for each
    cycle that was not recorded.
    """
    ids = {"of_agents": [each.decision.agent_id for each in leaving]}
    rows = {row.id: row for row in await _LOCKED_STATE.all(connection, ids)}
    left: list[LeftCycle | None] = []
    moved: list[Fields] = []
    decided: list[Fields] = []
    for each in leaving:
        decision, result = each.decision, each.result
        row = rows.pop(decision.agent_id, None)
        if row is None or (row.fence, row.cycle_no) != (each.fence, decision.cycle):
            left.append(None)
            continue
        continues = row.desired_state == _RUNNING
        left.append(LeftCycle(row.name, row.desired_state, row.status))
        moved.append(
            {
                "of_agent": decision.agent_id,
                "to_next_run_ms": result.next_run_ms,
                "to_status": result.status if continues else row.status,
                "to_failures": result.failures,
                "to_error": result.error,
            }
        )
        decided.append(decision.to_row())
    if moved:
        await _LEAVE.run(connection, moved)
        await _DECIDE.run(connection, decided)
        entries = [{name: each[name] for name in _MEMORY} for each in decided]
        await _REMEMBER.run(connection, entries)
        forgotten = [
            {"of_agent": each["agent_id"], "up_to": each["cycle"] - MEMORY_KEPT}
            for each in decided
            if each["cycle"] > MEMORY_KEPT
        ]
        await _FORGET.run(connection, forgotten)
    return left


async def tokens_of(database: Database, connection: AsyncConnection, agent_id: str) -> TokensUsed:
    """Return the tokens that an agent used in the last day, including reservations."""
    hour = (await database.moment(connection)).window_ms // HOUR_MS
    used = await store.usage_by_agent(connection, [agent_id], hour)
    return used.get(agent_id, NOTHING_USED)


def _entered_cycle(row: Fields, recalled: RecalledState) -> EnteredCycle:
    return EnteredCycle(agent_of(row), tuple(recalled.memory), recalled.earlier_action)


def _outcome_label(leaving: LeavingCycle, was: LeftCycle | None) -> str:
    if was is None:
        metrics.FENCED.labels("leave").inc()
        return "fenced"
    if leaving.result.error is not None:
        return "failed"
    action = leaving.decision.action
    return "waited" if action is None or action.startswith("wait(") else "acted"


_KINDS = {
    AgentStatus.RUNNING: EventKind.AGENT_STARTED,
    AgentStatus.STOPPED: EventKind.AGENT_STOPPED,
    AgentStatus.PAUSED: EventKind.AGENT_PAUSED,
    AgentStatus.ERROR: EventKind.AGENT_ERROR,
}


def record_status(
    connection: AsyncConnection,
    agent_id: str,
    name: str,
    was: AgentStatus,
    status: AgentStatus,
    error: str | None = None,
    *,
    by: str | None = None,
) -> None:
    """Record the event of an agent's new status; the status `idle` has no event.

    Args:
        by: the principal, if it is not the principal of the current request.
    """
    subject = {"agentId": agent_id, "name": name, "status": status.value}
    if error is not None:
        subject["error"] = error
    before, after = {"status": was.value}, {"status": status.value}
    record_act(connection, _KINDS[status], subject, before, after, by=by)

"""The commands that changed plugins in folders of their own, which a service's processes share; and
the versions of distributions in each process's environment.

The first process that sees a command in its home stores the command. All processes follow the
newest command for a distribution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import CLI, record_act
from solward.database.database import clock
from solward.database.records import insert_new, insert_or_set
from solward.database.tables import plugin_acts, process_plugins, processes
from solward.types.events import EventKind

_INSERT = insert_new(plugin_acts).execution_options(preserve_rowcount=True)
_PUBLISH = insert_or_set(process_plugins, ("process_id",), "versions")


@dataclass(frozen=True, slots=True)
class PluginAct:
    """A command, and its distribution's state after the command.

    Attributes:
        id: id of the command.
        distribution: canonical name.
        made_ms: time of the command, in Unix milliseconds.
        version: None if the distribution was removed; then `digest` is None too.
        digest: digest of its files, the same on every machine.
        guardrails: names of its guardrails, which must judge transactions while it is enabled.
    """

    id: str
    distribution: str
    made_ms: int
    version: str | None
    digest: str | None
    enabled: bool
    guardrails: Sequence[str] = ()

    @property
    def order(self) -> tuple[int, str]:
        """Sort key, which is greatest for the newest act."""
        return self.made_ms, self.id


def newest_acts(acts: Sequence[PluginAct]) -> dict[str, PluginAct]:
    """Return the newest act of each distribution."""
    return {each.distribution: each for each in sorted(acts, key=lambda each: each.order)}


async def count(connection: AsyncConnection) -> int:
    """Return the number of stored acts; acts are never deleted."""
    statement = select(func.count()).select_from(plugin_acts)
    return int((await connection.execute(statement)).scalar_one())


async def stored_acts(connection: AsyncConnection) -> list[PluginAct]:
    """Return all stored acts."""
    rows = await connection.execute(select(plugin_acts))
    return [PluginAct(**row._mapping) for row in rows]


async def store(connection: AsyncConnection, acts: Sequence[PluginAct]) -> None:
    """Store acts that no process has stored yet, and write their changes to the audit log.

    A time in the future counts as now. But a newer command always gets a later time than the
    command before it, even if the clock was set back.
    """
    now = await clock(connection)
    for each in acts:
        before = newest_acts(await stored_acts(connection)).get(each.distribution)
        row = {name: getattr(each, name) for name in PluginAct.__slots__}
        made_ms = min(each.made_ms, now)
        if before is not None and each.order > before.order:
            made_ms = max(made_ms, before.made_ms + 1)
        row |= {"made_ms": made_ms, "guardrails": list(each.guardrails)}
        done = await connection.execute(_INSERT, row)
        after = newest_acts(await stored_acts(connection))[each.distribution]
        if done.rowcount and after.id == each.id:
            subject = {"distribution": each.distribution}
            record_act(
                connection, EventKind.PLUGIN_CHANGED, subject, _state(before), _state(after), by=CLI
            )


def _state(act: PluginAct | None) -> dict[str, object]:
    if act is None:
        return {"version": None, "digest": None, "enabled": False}
    return {"version": act.version, "digest": act.digest, "enabled": act.enabled}


async def publish_versions(
    connection: AsyncConnection, process_id: str, versions: Mapping[str, str]
) -> None:
    """Publish the versions of third-party distributions in this process's environment for other
    processes. It works on PostgreSQL only: elsewhere there is one process."""
    alive = select(processes.c.id)
    gone = process_plugins.c.process_id.not_in(alive) & (process_plugins.c.process_id != process_id)
    await connection.execute(delete(process_plugins).where(gone))
    row = {"process_id": process_id, "versions": dict(versions)}
    await connection.execute(_PUBLISH, row)


async def published_versions(
    connection: AsyncConnection, process_id: str
) -> list[tuple[str, dict[str, str]]]:
    """Return the versions of each other living process, which is named `<kind> on <host>`."""
    statement = (
        select(processes.c.kind, processes.c.host, process_plugins.c.versions)
        .join(process_plugins, process_plugins.c.process_id == processes.c.id)
        .where(processes.c.lease_until_ms > await clock(connection), processes.c.id != process_id)
        .order_by(processes.c.started_ms, processes.c.id)
    )
    rows = await connection.execute(statement)
    return [(f"{row.kind} on {row.host}", dict(row.versions)) for row in rows]

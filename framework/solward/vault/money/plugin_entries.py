"""The entries that plugins' skills store for a wallet, checked as the skills' money calls are."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database import plugin_entries as store
from solward.database.database import Database
from solward.database.plugin_entries import StoreBounds, plugin_of, third_party
from solward.types.entries import HistoryRequest, Put
from solward.types.errors import SkillError
from solward.types.record import TransactionRecord
from solward.vault.money.request import Actor
from solward.vault.store import transactions as records

REMEMBER: Final = "remember"
"""The key under which a hold's recipe has the entries to write when the hold is carried out."""

_MINUTE_S = 60.0


class _DryRunEnded(Exception):
    """Raised to roll back the transaction of a dry run, which stores nothing."""


class WriteBudget:
    """Limits each plugin's writes to its store per minute, counted in this process."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        # plugin -> the start of its minute, and its writes since.
        self._minutes: dict[str, tuple[float, int]] = {}

    def count_write(self, plugin: str) -> None:
        """Count one write.

        Raises:
            SkillError: `store_busy`: the plugin has used up its writes of this minute.
        """
        now = self._clock()
        began, writes = self._minutes.get(plugin, (now, 0))
        if now - began >= _MINUTE_S:
            began, writes = now, 0
        if writes >= self._most:
            seconds = max(1, math.ceil(began + _MINUTE_S - now))
            raise SkillError(
                "store_busy",
                f"The plugin made {self._most} writes to its store in a minute, which is the"
                f" maximum (PLUGIN_STORE_WRITES_PER_MINUTE); it may write again in {seconds} s",
            )
        self._minutes[plugin] = began, writes + 1


@dataclass(frozen=True, slots=True)
class PluginEntries:
    """Reads and writes plugins' stores. Each call is a transaction for its actor's plugin."""

    database: Database
    bounds: StoreBounds
    budget: WriteBudget = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", WriteBudget(self.bounds.writes_a_minute))

    async def keep(self, what: str, wallet_id: str, actor: Actor, **asked: Any) -> Any:
        """Perform a call of a plugin's skill on its store or its history (`StoreCalls.keep`).

        Raises:
            SkillError: the call is refused. A write needs an actor that may spend, frozen or not.
        """
        if what == "history":
            found: tuple[TransactionRecord, ...] = ()
            name = third_party(actor.via)
            if name is not None:
                async with self.database.read() as connection:
                    request = HistoryRequest(**asked)
                    found = tuple(await records.by_plugin(connection, wallet_id, name, request))
            return found
        plugin = _plugin_name(actor)
        reads: dict[str, Callable[..., Any]] = {"get": store.get, "list": store.list_entries}
        if what in reads:
            async with self.database.read() as connection:
                return await reads[what](connection, wallet_id, plugin, **asked)
        async with self._open_write(wallet_id, actor) as connection:
            if what == "delete":
                return await store.remove(connection, wallet_id, plugin, **asked)
            now = (await self.database.moment(connection)).database_ms
            puts = [Put(**asked)]
            (written,) = await store.write(connection, wallet_id, plugin, puts, self.bounds, now)
            return written

    @asynccontextmanager
    async def _open_write(self, wallet_id: str, actor: Actor) -> AsyncIterator[AsyncConnection]:
        """Open a transaction if the actor may still act, and roll back a dry run's transaction.

        Raises:
            SkillError: `store_busy`: the plugin has used up its writes of this minute.
        """
        self.budget.count_write(_plugin_name(actor))
        try:
            async with self.database.write() as connection:
                await actor.lock(connection, wallet_id)
                yield connection
                if actor.dry_run:
                    raise _DryRunEnded
        except _DryRunEnded:
            return


async def write_entries(
    connection: AsyncConnection,
    record: TransactionRecord,
    actor: Actor,
    bounds: StoreBounds,
) -> None:
    """Write a money call's entries in the transaction that stores its pending record.

    Raises:
        SkillError: `store_changed`, `store_full`, or `no_store` if the caller is no plugin's skill.
    """
    if actor.remember:
        await store.write(
            connection, record.wallet_id, _plugin_name(actor), actor.remember, bounds,
            record.created_ms, record.id,
        )  # fmt: skip


def entries_to_json(puts: Sequence[Put]) -> list[dict[str, Any]]:
    """Return entries in the form that a hold's recipe stores."""
    return [{"key": put.key, "value": put.value, "version": put.version} for put in puts]


def entries_from_recipe(recipe: Mapping[str, Any]) -> tuple[Put, ...]:
    """Return the entries that `entries_to_json` wrote to a recipe."""
    raw = recipe.get(REMEMBER, ())
    return tuple(Put(each["key"], each["value"], each["version"]) for each in raw)


def _plugin_name(actor: Actor) -> str:
    found = plugin_of(actor.via)
    if found is None:
        raise SkillError("no_store", "Only a plugin's skill has a store")
    return found

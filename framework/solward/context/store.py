"""The store of a plugin: what it keeps for the wallet of a call."""

from __future__ import annotations

from typing import Any, Protocol

from solward.types.entries import Entry, Put, check_page, checked_key, checked_put, checked_version


class StoreCalls(Protocol):
    """What a store needs of the service that runs the skill; it knows the plugin and the wallet."""

    async def keep(self, what: str, **asked: Any) -> Any:
        """`get`, `put`, `delete` or `list` entries of the store, or read the `history`."""


class Store:
    """What the plugin keeps for the wallet of the call; shared by the plugins of a distribution.

    No other plugin reads or writes it, nor a call for another wallet. Each call is one transaction
    of the service's database, durable when it returns; in a dry run nothing is stored. To keep what
    a money call did, have the call itself remember it: `context.transfer(..., remember=...)`.

    Each raises `InvalidRequest` for a key, a value or a version that does not fit.
    """

    __slots__ = ("_calls",)

    def __init__(self, calls: StoreCalls) -> None:
        self._calls = calls

    async def get(self, key: str) -> Entry | None:
        """One entry, None where there is none."""
        entry: Entry | None = await self._calls.keep("get", key=checked_key(key))
        return entry

    async def put(self, key: str, value: Any, *, version: int | None = None) -> Entry:
        """Write an entry; returns it with its new version.

        Args:
            version: that it must have now; 0: it must not be there; None: whatever is there.

        Raises:
            SkillError: `store_changed`: it has another version. `store_full`: there would be more
                keys or bytes than the operator allows; names the bound. `store_busy`: the plugin
                wrote too often in this minute; says when it may again.
        """
        put = checked_put(Put(key, value, version))
        entry: Entry = await self._calls.keep(
            "put", key=put.key, value=put.value, version=put.version
        )
        return entry

    async def delete(self, key: str, *, version: int | None = None) -> bool:
        """Delete an entry; returns whether it was there.

        Raises:
            SkillError: `store_changed`: it has another version than `version`.
        """
        was_there: bool = await self._calls.keep(
            "delete", key=checked_key(key), version=checked_version(version)
        )
        return was_there

    async def list(
        self, prefix: str = "", *, after: str | None = None, limit: int = 100
    ) -> tuple[Entry, ...]:
        """Entries whose keys begin with `prefix`, by key in the order of ASCII.

        Args:
            after: only keys that come after this one: the last of the page before.
            limit: 1 to 200.
        """
        check_page(prefix, after, limit)
        entries: tuple[Entry, ...] = await self._calls.keep(
            "list", prefix=prefix, after=after, limit=limit
        )
        return entries

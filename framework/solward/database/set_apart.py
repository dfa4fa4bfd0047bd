"""Works on items of several owners; an item that fails does not stop the others."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from solward.types.errors import LedgerError, LedgerRejected

_FIRST_S, _MOST_S = 2.0, 300.0
# JSON-RPC 2.0, 5.1: a node refuses the request for one of its items.
_INVALID_PARAMS = -32602

Item = TypeVar("Item")
Work: TypeAlias = Callable[[Sequence[Item]], Awaitable[Any]]


def is_shared_failure(error: Exception) -> bool:
    """Return whether an error affects all items: the ledger or the database is unreachable."""
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    if isinstance(error, LedgerRejected) and error.code == _INVALID_PARAMS:
        return False
    return isinstance(error, LedgerError | OperationalError | InterfaceError | PoolTimeout)


class FailureIsolator(Generic[Item]):
    """Isolates failing items: reports each item once and retries it alone, with growing delays."""

    def __init__(self, name_of: Callable[[Item], str], tell: Callable[[str], object]) -> None:
        """Store `name_of`, which returns an item's name, and `tell`, which logs a failing item's
        name with the exception being handled."""
        self._name_of, self._tell = name_of, tell
        # Item name -> monotonic time of its next attempt, and the delay after that; in seconds.
        self._failed: dict[str, tuple[float, float]] = {}

    async def run(self, items: Sequence[Item], work: Work[Item]) -> None:
        """Work on all items together; if that fails, on each half separately.

        Args:
            work: may be called for an item that it has worked on already.

        Raises:
            Exception: `is_shared_failure`.
        """
        now = time.monotonic()
        due = [self._failed.get(self._name_of(item), (None, 0.0))[0] for item in items]
        await self._work_or_split([i for i, at in zip(items, due, strict=True) if at is None], work)
        for item, at in zip(items, due, strict=True):
            if at is not None and at <= now:
                await self._work_or_split([item], work)

    async def _work_or_split(self, items: Sequence[Item], work: Work[Item]) -> None:
        if not items:
            return
        try:
            await work(items)
        except Exception as error:
            if is_shared_failure(error):
                raise
            if len(items) == 1:
                self._set_apart(self._name_of(items[0]))
                return
        else:
            for item in items:
                self._failed.pop(self._name_of(item), None)
            return
        half = len(items) // 2
        await self._work_or_split(items[:half], work)
        await self._work_or_split(items[half:], work)

    def _set_apart(self, name: str) -> None:
        if name not in self._failed:
            self._tell(name)
        now = time.monotonic()
        _, wait_s = self._failed.get(name, (0.0, _FIRST_S))
        # Items that were not passed in again have ended in another way.
        self._failed = {n: each for n, each in self._failed.items() if each[0] > now - _MOST_S}
        self._failed[name] = (now + wait_s, min(2 * wait_s, _MOST_S))

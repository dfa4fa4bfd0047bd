"""Rotate a home's keystore and be killed at a named point of it.

    python rotating.py HOME POINT file|passphrase

Points: `begun` (the new version is stored), `file_replaced`, `batch:N` (before batch N commits),
`left` (before the last commit), `done` (after it).
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from solward.database.database import Database
from solward.settings import Settings
from solward.vault.custody import KeySource, Wallets, keyring, keystore
from solward.vault.store import wallets as store


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying_after(function: Callable[..., Any], nth: int = 0) -> Callable[..., Any]:
    """`function`, killed after its call number `nth`; works for coroutines too."""
    calls = 0

    async def finish(result: Any) -> Any:
        nonlocal calls
        value = await result
        calls += 1
        if calls > nth:
            die()
        return value

    def call(*arguments: Any) -> Any:
        result = function(*arguments)
        if asyncio.iscoroutine(result):
            return finish(result)
        die()
        return result

    return call


async def main(home: Path, point: str, kind: str) -> None:
    """Open, arm, rotate."""
    keystore._BATCH = 2
    settings = Settings()
    database = await Database.open(settings.database_url, home)
    wallets = await Wallets.open(database, settings, home)
    name, _, nth = point.partition(":")
    if name == "begun":
        wallets._keystore._finish_rotation = die  # type: ignore[assignment, method-assign]
        keyring.replace_key = lambda *_: die()
    elif name == "file_replaced":
        keyring.replace_key = dying_after(keyring.replace_key)
    elif name == "batch":
        store.rewrap = dying_after(store.rewrap, int(nth))
    elif name == "left":
        store.end_version = dying_after(store.end_version)
    new = KeySource(passphrase="new") if kind == "passphrase" else None
    await wallets.rotate(new or KeySource(file=home / "keystore.key"))
    if name == "done":
        die()


asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))

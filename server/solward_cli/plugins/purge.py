"""`solward plugins remove --purge`: entries and settings of a distribution, deleted by the running
service, or in its database where none runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from solward.plugins.state import Purged
    from solward.settings import Settings

# A service looks at its folders every second, and lets what runs of a plugin end.
_UNLOADS_WITHIN_S = 60.0
_PAUSE_S = 0.5


def purge_state(settings: Settings, name: str) -> str:
    """Delete them; what was deleted in words, empty where there was nothing.

    Raises:
        ConfigError: the running service did not do it, and why.
        KeystoreError, StoreError: the database cannot be used.
    """
    from solward.database.database import database_file
    from solward.types.errors import HomeLocked

    file = database_file(settings.database_url, settings.solward_home)
    if file is not None and not file.exists():
        return ""
    try:
        entries, settings_ = asyncio.run(_offline(settings, name))
    except HomeLocked:
        entries, settings_ = asyncio.run(_by_service(settings, name))
    return f" Deleted {entries} entries and {settings_} settings." if entries or settings_ else ""


async def _offline(settings: Settings, name: str) -> tuple[int, int]:
    from solward.plugins.folders.layout import canonical
    from solward.plugins.state import PluginSettings, purge
    from solward.vault.custody import Wallets
    from solward_cli.offline import offline_database

    async with offline_database(settings) as database:
        # The audit log goes on only with the keystore open.
        await Wallets.open(database, settings, settings.solward_home)
        found: Purged = await purge(PluginSettings(database), canonical(name))
        return found.entries, found.settings


async def _by_service(settings: Settings, name: str) -> tuple[int, int]:
    from solward.client import BadRequest, SolwardClient
    from solward.types.errors import ConfigError, SolwardError

    ends = asyncio.get_running_loop().time() + _UNLOADS_WITHIN_S
    async with SolwardClient.from_settings(settings) as client:
        while True:
            try:
                answer = await client.plugin_state.purge(name)
            except SolwardError as error:
                waits = isinstance(error, BadRequest) and "is loaded" in str(error)
                if waits and asyncio.get_running_loop().time() < ends:
                    await asyncio.sleep(_PAUSE_S)
                    continue
                raise ConfigError(
                    f"The folder of {name} is removed; its entries and settings are not, because"
                    f" the running service answered: {error}. The same command deletes them"
                ) from None
            return int(answer["entries"]), int(answer["settings"])

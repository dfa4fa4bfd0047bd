"""What the operator set for plugins' skills; secrets sealed under a key of the keystore.

That key is derived from the audit key, which is sealed under the key-encryption key and outlives
its rotations: a copy of the database alone opens nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import record_act
from solward.database.database import Database, lock_exclusive
from solward.database.tables import plugin_settings
from solward.support import jsontext
from solward.support.clock import now_ms
from solward.types.errors import KeystoreError
from solward.types.events import EventKind
from solward.vault.custody.envelope import KEY_BYTES, decrypt, encrypt

_KEY: Final = b"solward plugin settings/1"
_LOCK: Final = "plugin settings"


@dataclass(frozen=True, slots=True)
class StoredSetting:
    """One setting as it is stored.

    Attributes:
        value: None of a secret, whatever the schema says of it now.
    """

    name: str
    is_secret: bool
    value: Any = field(repr=False)
    changed_ms: int


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """The settings of every skill, by its distribution's canonical name and its own."""

    database: Database

    async def values(self, plugin: str, skill: str) -> Mapping[str, Any]:
        """name -> value, secrets opened.

        Raises:
            KeystoreError: a sealed one was changed, or moved from another place.
        """
        found: dict[str, Any] = {}
        for row in await self._rows(plugin, skill):
            text = row.value
            if row.sealed is not None:
                what = f"The setting {row.name} of {skill}"
                bound = _bound(plugin, skill, row.name)
                text = decrypt(self._key(), bytes(row.sealed), bound, what).decode()
            found[row.name] = jsontext.loads(text)
        return found

    async def stored(self, plugin: str, skill: str) -> tuple[StoredSetting, ...]:
        """By name, without the values of secrets."""
        return tuple(
            StoredSetting(
                row.name,
                row.sealed is not None,
                None if row.value is None else jsontext.loads(row.value),
                int(row.changed_ms),
            )
            for row in await self._rows(plugin, skill)
        )

    async def put(self, plugin: str, skill: str, name: str, value: Any, *, secret: bool) -> None:
        """Store one; the audit log says that it was set, and not to what."""
        text = jsontext.dumps(value)
        sealed = None
        if secret:
            sealed = encrypt(self._key(), text.encode(), _bound(plugin, skill, name))
        async with self.database.write() as connection:
            was = await _remove(connection, plugin, skill, name)
            await connection.execute(
                insert(plugin_settings).values(
                    plugin=plugin,
                    skill=skill,
                    name=name,
                    value=None if secret else text,
                    sealed=sealed,
                    changed_ms=now_ms(),
                )
            )
            _record(connection, (plugin, skill, name), was, True)

    async def remove(self, plugin: str, skill: str, name: str) -> bool:
        """Delete one; returns whether it was set."""
        async with self.database.write() as connection:
            was = await _remove(connection, plugin, skill, name)
            if was:
                _record(connection, (plugin, skill, name), was, False)
            return was

    async def purge(self, connection: AsyncConnection, plugin: str) -> int:
        """Delete those of every skill of a distribution, in the caller's transaction; returns how
        many were set."""
        await lock_exclusive(connection, _LOCK)
        removed = await connection.execute(
            delete(plugin_settings).where(plugin_settings.c.plugin == plugin)
        )
        return int(removed.rowcount)

    async def _rows(self, plugin: str, skill: str) -> list[Any]:
        wanted = select(plugin_settings).where(
            plugin_settings.c.plugin == plugin, plugin_settings.c.skill == skill
        )
        async with self.database.read() as connection:
            return list(await connection.execute(wanted.order_by(plugin_settings.c.name)))

    def _key(self) -> bytes:
        if self.database.audit_key is None:
            raise KeystoreError("The keystore is not open, so no secret setting can be read")
        return HKDF(SHA256(), KEY_BYTES, salt=None, info=_KEY).derive(self.database.audit_key)


async def _remove(connection: AsyncConnection, plugin: str, skill: str, name: str) -> bool:
    await lock_exclusive(connection, _LOCK)
    removed = await connection.execute(
        delete(plugin_settings).where(
            plugin_settings.c.plugin == plugin,
            plugin_settings.c.skill == skill,
            plugin_settings.c.name == name,
        )
    )
    return bool(removed.rowcount)


def _record(connection: AsyncConnection, of: tuple[str, str, str], was: bool, now: bool) -> None:
    plugin, skill, name = of
    subject = {"distribution": plugin, "skill": skill, "setting": name}
    record_act(connection, EventKind.PLUGIN_SETTING, subject, {"set": was}, {"set": now})


def _bound(plugin: str, skill: str, name: str) -> bytes:
    # None of the names has a slash but a setting's own, which stands last.
    return f"solward-plugin-setting/1/{plugin}/{skill}/{name}".encode()

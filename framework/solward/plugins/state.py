"""The operator's access to the settings of plugins' skills, and to plugins' entries for wallets.

Secret settings are sealed under a key derived from the audit key. The audit key is sealed under the
key-encryption key and outlives its rotations, so a copy of the database alone opens nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import record_act
from solward.database import plugin_entries
from solward.database.database import Database, lock_exclusive
from solward.database.tables import plugin_settings
from solward.plugins import Registry
from solward.plugins.folders.layout import canonical
from solward.plugins.loaded import LoadedSkill
from solward.plugins.schema import SkillSettings
from solward.support import jsontext
from solward.support.clock import now_ms
from solward.telemetry.scrub import conceal
from solward.types.entries import Entry, check_page, checked_key
from solward.types.errors import InvalidRequest, KeystoreError
from solward.types.events import EventKind
from solward.vault.custody import Wallets
from solward.vault.custody.envelope import KEY_BYTES, decrypt, encrypt
from solward.vault.store import spending

_KEY: Final = b"solward plugin settings/1"
_LOCK: Final = "plugin settings"


@dataclass(frozen=True, slots=True)
class PurgeCounts:
    """The numbers of entries and settings of a distribution that were deleted."""

    entries: int
    settings: int

    def __bool__(self) -> bool:
        return bool(self.entries or self.settings)


async def purge(settings: PluginSettings, plugin: str) -> PurgeCounts:
    """Delete all entries and settings of a distribution that is not loaded, in one transaction.

    Args:
        plugin: canonical name of the distribution.
    """
    async with settings.database.write() as connection:
        found = PurgeCounts(
            await plugin_entries.purge(connection, plugin),
            await settings.purge(connection, plugin),
        )
        if found:
            subject = {"distribution": plugin, **asdict(found)}
            record_act(connection, EventKind.PLUGIN_PURGED, subject)
    return found


@dataclass(frozen=True, slots=True)
class PluginState:
    """The settings of loaded skills, and the entries in plugins' stores."""

    _registry: Callable[[], Registry]
    _wallets: Wallets
    settings: PluginSettings

    async def settings_of(self, skill: LoadedSkill) -> Mapping[str, Any]:
        """Return the present settings of a skill, for its `context.settings`.

        Raises:
            SkillError: `settings_missing` or `settings_invalid`.
            KeystoreError: if a stored secret was tampered with.
        """
        if skill.settings is None:
            return {}
        name = skill.spec.name
        values = await self.settings.values(canonical(skill.distribution), name)
        conceal(str(values[each]) for each in skill.settings.secrets & values.keys())
        return skill.settings.complete(name, values)

    async def set(self, skill: str, name: str, value: Any) -> None:
        """Set a setting of a loaded skill; its next call gets it.

        Raises:
            SkillNotFound: if no loaded skill has this name.
            InvalidRequest: if it declares no such setting, or the value does not fit; names it.
        """
        plugin, declared = self._declared_settings(skill)
        checked = declared.checked_value(name, value)
        is_secret = name in declared.secrets
        if is_secret:
            conceal([str(checked)])
        await self.settings.put(plugin, skill, name, checked, secret=is_secret)

    async def unset(self, skill: str, name: str) -> bool:
        """Unset a setting, even one that is no longer declared; return whether it was set.

        Raises:
            SkillNotFound: if no loaded skill has this name.
            InvalidRequest: if the setting is neither declared nor set.
        """
        plugin, declared = self._declared_settings(skill)
        removed = await self.settings.remove(plugin, skill, name)
        if not removed:
            declared.check_name(name)
        return removed

    async def public_settings(self, skill: str) -> dict[str, Any]:
        """Return a skill's settings in REST's form; for a secret, only whether it is set.

        Raises:
            SkillNotFound: if no loaded skill has this name.
            InvalidRequest: if it declares no settings.
        """
        plugin, declared = self._declared_settings(skill)
        stored = {each.name: each for each in await self.settings.stored(plugin, skill)}
        shown = []
        for name in sorted({*declared.schema["properties"], *stored}):
            own = stored.get(name)
            hidden = name in declared.secrets or (own is not None and own.is_secret)
            fields = {"name": name, "secret": hidden, "set": own is not None}
            if own is not None and not hidden:
                fields["value"] = own.value
            shown.append(fields)
        return {
            "skill": skill,
            "distribution": plugin,
            "schema": dict(declared.schema),
            "settings": shown,
        }

    async def entries(
        self, plugin: str, wallet_id: str, prefix: str, after: str | None, limit: int
    ) -> tuple[Entry, ...]:
        """Return the entries that a plugin's distribution keeps for a wallet.

        Raises:
            WalletNotFound: if there is no such wallet.
            InvalidRequest: if no entry can have such a key or prefix.
        """
        check_page(prefix, after, limit)
        wallet = await self._wallets.get(wallet_id)
        async with self.settings.database.read() as connection:
            return await plugin_entries.list_entries(
                connection, wallet.id, canonical(plugin), prefix=prefix, after=after, limit=limit
            )

    async def delete_entry(self, plugin: str, wallet_id: str, key: str) -> bool:
        """Delete an entry and return whether it existed; raises the errors of `entries`.

        The audit log names the entry, without its value, which belongs to the plugin.
        """
        checked_key(key)
        wallet, own = await self._wallets.get(wallet_id), canonical(plugin)
        async with self.settings.database.write() as connection:
            await spending.lock_wallet(connection, wallet.id)
            entry = await plugin_entries.get(connection, wallet.id, own, key)
            if entry is None:
                return False
            await plugin_entries.remove(connection, wallet.id, own, key)
            subject = {"distribution": own, "walletId": wallet.id, "key": key}
            was = {"version": entry.version, "transactionId": entry.transaction_id}
            record_act(connection, EventKind.PLUGIN_ENTRY, subject, was)
            return True

    async def purge(self, plugin: str) -> PurgeCounts:
        """Delete all entries that a distribution's plugins keep, and all settings of its skills.

        Raises:
            InvalidRequest: if one of its plugins is loaded, because it may rely on its entries.
        """
        own = canonical(plugin)
        every = self._registry().all_plugins()
        if loaded := [name for _, name, each in every if canonical(each.distribution) == own]:
            raise InvalidRequest(
                f"{plugin} is loaded ({', '.join(sorted(loaded))}): remove or disable it first"
            )
        return await purge(self.settings, own)

    def _declared_settings(self, skill: str) -> tuple[str, SkillSettings]:
        loaded = self._registry().skill(skill)
        if loaded.settings is None:
            raise InvalidRequest(f"The skill {skill} declares no settings")
        return canonical(loaded.distribution), loaded.settings


@dataclass(frozen=True, slots=True)
class StoredSetting:
    """One stored setting.

    Attributes:
        value: None for a secret, even if the schema no longer says that it is one.
    """

    name: str
    is_secret: bool
    value: Any = field(repr=False)
    changed_ms: int


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """The settings of every skill, by the distribution's canonical name and the skill's name."""

    database: Database

    async def values(self, plugin: str, skill: str) -> Mapping[str, Any]:
        """Return the values by name, with secrets decrypted.

        Raises:
            KeystoreError: if a sealed value was changed, or moved from another place.
        """
        found: dict[str, Any] = {}
        for row in await self._stored_rows(plugin, skill):
            text = row.value
            if row.sealed is not None:
                what = f"The setting {row.name} of {skill}"
                bound = _context(plugin, skill, row.name)
                text = decrypt(self._key(), bytes(row.sealed), bound, what).decode()
            found[row.name] = jsontext.loads(text)
        return found

    async def stored(self, plugin: str, skill: str) -> tuple[StoredSetting, ...]:
        """Return the settings sorted by name, without the values of secrets."""
        return tuple(
            StoredSetting(
                row.name,
                row.sealed is not None,
                None if row.value is None else jsontext.loads(row.value),
                int(row.changed_ms),
            )
            for row in await self._stored_rows(plugin, skill)
        )

    async def put(self, plugin: str, skill: str, name: str, value: Any, *, secret: bool) -> None:
        """Store a setting; the audit log records that it was set, without the value."""
        text = jsontext.dumps(value)
        sealed = None
        if secret:
            sealed = encrypt(self._key(), text.encode(), _context(plugin, skill, name))
        async with self.database.write() as connection:
            was = await _delete_row(connection, plugin, skill, name)
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
        """Delete a setting and return whether it was set."""
        async with self.database.write() as connection:
            was = await _delete_row(connection, plugin, skill, name)
            if was:
                _record(connection, (plugin, skill, name), was, False)
            return was

    async def purge(self, connection: AsyncConnection, plugin: str) -> int:
        """Delete all settings of a distribution's skills in a transaction; return their number."""
        await lock_exclusive(connection, _LOCK)
        removed = await connection.execute(
            delete(plugin_settings).where(plugin_settings.c.plugin == plugin)
        )
        return int(removed.rowcount)

    async def _stored_rows(self, plugin: str, skill: str) -> list[Any]:
        wanted = select(plugin_settings).where(
            plugin_settings.c.plugin == plugin, plugin_settings.c.skill == skill
        )
        async with self.database.read() as connection:
            return list(await connection.execute(wanted.order_by(plugin_settings.c.name)))

    def _key(self) -> bytes:
        if self.database.audit_key is None:
            raise KeystoreError("The keystore is not open, so no secret setting can be read")
        return HKDF(SHA256(), KEY_BYTES, salt=None, info=_KEY).derive(self.database.audit_key)


async def _delete_row(connection: AsyncConnection, plugin: str, skill: str, name: str) -> bool:
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


def _context(plugin: str, skill: str, name: str) -> bytes:
    # Only the setting's name may contain a slash, so it comes last.
    return f"solward-plugin-setting/1/{plugin}/{skill}/{name}".encode()

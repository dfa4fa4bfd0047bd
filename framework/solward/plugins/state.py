"""What is set for plugins' skills, and what plugins keep for wallets, as the operator sees both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from solward.audit.acts import record_act
from solward.database.database import Database
from solward.plugins import Registry
from solward.plugins.discovery import canonical
from solward.plugins.loaded import LoadedSkill
from solward.plugins.settings import PluginSettings
from solward.plugins.skill_settings import SkillSettings
from solward.telemetry.scrub import conceal
from solward.types.entries import Entry, check_page, checked_key
from solward.types.errors import InvalidRequest, SkillNotFound
from solward.types.events import EventKind
from solward.vault.custody import Wallets
from solward.vault.store import plugin_entries, spending


class ServiceForState(Protocol):
    """The part of `solward.service.service.Solward` that is used here."""

    registry: Registry
    wallets: Wallets
    database: Database


@dataclass(frozen=True, slots=True)
class Purged:
    """How many entries and settings of a distribution were deleted."""

    entries: int
    settings: int

    def __bool__(self) -> bool:
        return bool(self.entries or self.settings)


async def purge(settings: PluginSettings, plugin: str) -> Purged:
    """Delete all entries and settings of a distribution that is not loaded, in one transaction.

    Args:
        plugin: its canonical name.
    """
    async with settings.database.write() as connection:
        found = Purged(
            await plugin_entries.purge(connection, plugin),
            await settings.purge(connection, plugin),
        )
        if found:
            subject = {"distribution": plugin, **asdict(found)}
            record_act(connection, EventKind.PLUGIN_PURGED, subject)
    return found


@dataclass(frozen=True, slots=True)
class PluginState:
    """Settings of loaded skills, and entries of plugins' stores."""

    _service: ServiceForState
    settings: PluginSettings

    async def settings_of(self, skill: LoadedSkill) -> Mapping[str, Any]:
        """What a skill gets as `context.settings` now.

        Raises:
            SkillError: `settings_missing` or `settings_invalid`.
            KeystoreError: somebody changed a stored secret.
        """
        if skill.settings is None:
            return {}
        name = skill.spec.name
        values = await self.settings.values(canonical(skill.distribution), name)
        conceal(str(values[each]) for each in skill.settings.secrets & values.keys())
        return skill.settings.complete(name, values)

    async def set(self, skill: str, name: str, value: Any) -> None:
        """Set a setting of a loaded skill, from its next call on.

        Raises:
            SkillNotFound: no loaded skill has this name.
            InvalidRequest: it declares no such setting, or the value does not fit; names it.
        """
        plugin, declared = self._declared(skill)
        checked = declared.checked(name, value)
        is_secret = name in declared.secrets
        if is_secret:
            conceal([str(checked)])
        await self.settings.put(plugin, skill, name, checked, secret=is_secret)

    async def unset(self, skill: str, name: str) -> bool:
        """Unset a setting, declared or not any more; returns whether it was set.

        Raises:
            SkillNotFound: no loaded skill has this name.
            InvalidRequest: it neither declares this setting nor has it set.
        """
        plugin, declared = self._declared(skill)
        removed = await self.settings.remove(plugin, skill, name)
        if not removed:
            declared.check_name(name)
        return removed

    async def shown(self, skill: str) -> dict[str, Any]:
        """A skill's settings as REST shows them: of a secret only whether it is set.

        Raises:
            SkillNotFound: no loaded skill has this name.
            InvalidRequest: it declares no settings.
        """
        plugin, declared = self._declared(skill)
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
        """What a plugin's distribution keeps for a wallet.

        Raises:
            WalletNotFound: no such wallet.
            InvalidRequest: a key or prefix that no entry has.
        """
        check_page(prefix, after, limit)
        wallet = await self._service.wallets.get(wallet_id)
        async with self._service.database.read() as connection:
            return await plugin_entries.listed(
                connection, wallet.id, canonical(plugin), prefix=prefix, after=after, limit=limit
            )

    async def delete_entry(self, plugin: str, wallet_id: str, key: str) -> bool:
        """Delete an entry; returns whether it was there. Raises as `entries`.

        The audit log says which one, and not its value, which is the plugin's own.
        """
        checked_key(key)
        wallet, own = await self._service.wallets.get(wallet_id), canonical(plugin)
        async with self._service.database.write() as connection:
            await spending.lock_wallet(connection, wallet.id)
            entry = await plugin_entries.get(connection, wallet.id, own, key)
            if entry is None:
                return False
            await plugin_entries.remove(connection, wallet.id, own, key)
            subject = {"distribution": own, "walletId": wallet.id, "key": key}
            was = {"version": entry.version, "transactionId": entry.transaction_id}
            record_act(connection, EventKind.PLUGIN_ENTRY, subject, was)
            return True

    async def purge(self, plugin: str) -> Purged:
        """Delete all that a distribution's plugins keep and all that is set for its skills.

        Raises:
            InvalidRequest: one of its plugins is loaded, and would go on without its entries.
        """
        registry, own = self._service.registry, canonical(plugin)
        kinds = (registry.skills, registry.providers, registry.venues, registry.payments)
        loaded = [
            name
            for kind in kinds
            for name, each in kind.items()
            if canonical(each.distribution) == own
        ]
        loaded += [each.name for each in registry.guardrails if canonical(each.distribution) == own]
        if loaded:
            raise InvalidRequest(
                f"{plugin} is loaded ({', '.join(sorted(loaded))}): remove or disable it first"
            )
        return await purge(self.settings, own)

    def _declared(self, skill: str) -> tuple[str, SkillSettings]:
        loaded = self._service.registry.skills.get(skill)
        if loaded is None:
            raise SkillNotFound(skill, sorted(self._service.registry.skills))
        if loaded.settings is None:
            raise InvalidRequest(f"The skill {skill} declares no settings")
        return canonical(loaded.distribution), loaded.settings

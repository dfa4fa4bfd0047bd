"""Settings of skills and entries of plugins over REST: the operator's alone, secrets masked."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

import pytest
from click.testing import CliRunner
from sqlalchemy import select
from tests.promises import promise
from tests.support.database import AuditLog
from tests.support.plugins import keeping_context, keeping_module
from tests.support.services import Api

from solward.audit import log as audit_log
from solward.client import BadRequest, NotFoundError, SolwardClient
from solward.database.tables import plugin_entries
from solward.plugins.state import PluginSettings
from solward.support import jsontext
from solward.testing.stand import open_stand
from solward.testing.targets import target_of
from solward.vault.money.request import Actor
from solward_cli import main

VALUE = "a-very-secret-value-4711"
SETTINGS = {
    "type": "object",
    "properties": {
        "token": {"type": "string", "secret": True},
        "hours": {"type": "integer", "minimum": 1, "description": "Between two."},
    },
    "additionalProperties": False,
}


@pytest.fixture
def keeps(api: Api) -> None:
    """The service has the skill `keeps` of the distribution `keeper`."""
    loaded = target_of(keeping_module(settings=SETTINGS)).loaded
    skills = {**api.service.live.registry.skills, "keeps": replace(loaded, distribution="Keeper")}
    api.service.live.registry = replace(api.service.live.registry, skills=MappingProxyType(skills))


@pytest.mark.more
@pytest.mark.usefixtures("keeps")
async def test_settings_are_set_shown_masked_and_unset(client: SolwardClient) -> None:
    state = client.plugin_state
    await state.set("keeps", "token", VALUE)
    await state.set("keeps", "hours", 12)
    shown = await state.settings("keeps")
    assert (shown.skill, shown.distribution) == ("keeps", "keeper")
    assert shown.raw["settings"] == [
        {"name": "hours", "secret": False, "set": True, "value": 12},
        {"name": "token", "secret": True, "set": True},
    ]
    with pytest.raises(BadRequest, match="hours"):
        await state.set("keeps", "hours", 0)
    with pytest.raises(BadRequest, match="token must be text of 8 to 4096") as raised:
        await state.set("keeps", "token", VALUE * 1000)
    assert VALUE not in str(raised.value)
    for wrong in (state.set("keeps", "nope", 1), state.unset("keeps", "nope")):
        with pytest.raises(BadRequest, match="setting must be one of token, hours; got 'nope'"):
            await wrong
    with pytest.raises(NotFoundError, match="No skill named 'nope'"):
        await state.settings("nope")
    for _ in range(2):
        await state.unset("keeps", "token")
    assert not (await state.settings("keeps")).settings[1].set


@pytest.mark.usefixtures("keeps")
async def test_entries_are_listed_and_deleted(client: SolwardClient, api: Api) -> None:
    wallet = await client.wallets.create(name="kept")
    actor = Actor("admin", via=("skill:keeps", "plugin:keeper"))
    for key in ("a/1", "a/2", "b?&=%"):
        await api.service.operations.entries.keep(
            "put", wallet.id, actor, key=key, value={"k": key}
        )
    state = client.plugin_state
    entries = await state.entries(wallet.id, "Keeper")
    assert [(each.key, each.value, each.version) for each in entries] == [
        ("a/1", {"k": "a/1"}, 1),
        ("a/2", {"k": "a/2"}, 2),
        ("b?&=%", {"k": "b?&=%"}, 3),
    ]
    page = await state.entries(wallet.id, "keeper", prefix="a/", after="a/1", limit=1)
    assert [each.key for each in page] == ["a/2"]
    assert (await state.delete(wallet.id, "keeper", key="b?&=%")).deleted
    assert not (await state.delete(wallet.id, "another", key="a/1")).deleted
    assert len(await state.entries(wallet.id, "keeper")) == 2
    with pytest.raises(BadRequest, match="printable ASCII"):
        await state.delete(wallet.id, "keeper", key="a b")
    with pytest.raises(NotFoundError):
        await state.entries("no-such-wallet", "keeper")


@promise("deletions-audited-sans-value")
@pytest.mark.usefixtures("keeps")
async def test_a_deleted_entry_is_in_the_audit_log_and_its_value_is_not(
    client: SolwardClient, api: Api
) -> None:
    wallet = await client.wallets.create(name="kept")
    actor = Actor("admin", via=("skill:keeps", "plugin:keeper"))
    await api.service.operations.entries.keep(
        "put", wallet.id, actor, key="last", value={"it": VALUE}
    )
    for _ in range(2):
        await client.plugin_state.delete(wallet.id, "Keeper", key="last")
    newest, before = (await client.audit(limit=2)).entries
    assert (newest.kind, before.kind) == ("plugin:entry", "wallet:created")
    assert newest.data == {
        "distribution": "keeper",
        "walletId": wallet.id,
        "key": "last",
        "principal": "admin",
        "before": {"version": 1, "transactionId": None},
    }


@pytest.mark.usefixtures("keeps")
async def test_a_distribution_is_purged_once_nothing_of_it_is_loaded(
    client: SolwardClient, api: Api
) -> None:
    wallets = [await client.wallets.create(name=name) for name in ("one", "two")]
    for each in wallets:
        for plugin in ("keeper", "another"):
            actor = Actor("admin", via=("skill:keeps", f"plugin:{plugin}"))
            await api.service.operations.entries.keep(
                "put", each.id, actor, key="last", value=VALUE
            )
    state = client.plugin_state
    await state.set("keeps", "token", VALUE)
    await state.set("keeps", "hours", 12)
    with pytest.raises(BadRequest, match=r"Keeper is loaded \(keeps\): remove or disable it first"):
        await state.purge(plugin="Keeper")
    assert len(await state.entries(wallets[0].id, "keeper")) == 1

    loaded = api.service.live.registry
    api.service.live.registry = loaded.without_distributions({"keeper"})
    purged = await state.purge(plugin="Keeper")
    assert purged.raw == {"plugin": "keeper", "entries": 2, "settings": 2}
    purged = await state.purge(plugin="keeper")
    assert (purged.entries, purged.settings) == (0, 0)
    newest = (await client.audit(limit=1)).entries[0]
    told = {"distribution": "keeper", "principal": "admin", "entries": 2, "settings": 2}
    assert (newest.kind, newest.data) == ("plugin:purged", told)

    api.service.live.registry = loaded
    assert [each.set for each in (await state.settings("keeps")).settings] == [False, False]
    for each in wallets:
        assert await state.entries(each.id, "keeper") == ()
        assert len(await state.entries(each.id, "another")) == 1
    # A version is given once: an approval that waits may name an earlier one.
    actor = Actor("admin", via=("skill:keeps", "plugin:keeper"))
    await api.service.operations.entries.keep("put", wallets[0].id, actor, key="last", value=1)
    assert (await state.entries(wallets[0].id, "keeper"))[0].version == 2


def _removed(home: Path, *arguments: str, status: int = 0) -> str:
    environment = {"SOLWARD_HOME": str(home), "API_PORT": "1"}
    result = CliRunner().invoke(main, ["plugins", "remove", *arguments], env=environment)
    assert result.exit_code == status, result.output
    return " ".join(result.output.split())


@promise("removal-can-purge-entries")
@pytest.mark.sqlite("its own file, and the lock of the home")
async def test_a_removal_purges_entries_and_settings_of_a_stopped_service(tmp_path: Path) -> None:
    home = tmp_path / "home"
    purged = partial(asyncio.to_thread, _removed, home)
    async with open_stand(home) as stand:
        wallet = await stand.wallet()
        await keeping_context(wallet, "keeper").store.put("last", 1)
        await keeping_context(wallet, "another").store.put("last", 1)
        settings = PluginSettings(stand.service.database)
        await settings.put("keeper", "keeps", "token", VALUE, secret=True)
        # It owns the home, and serves nothing that could be asked.
        refused = await purged("keeper", "--purge", status=2)
        assert "its entries and settings are not, because the running service" in refused
    assert "not installed" in await purged("keeper", status=2)
    assert "Deleted 1 entries and 1 settings." in await purged("Keeper", "--purge")
    assert "not installed" in await purged("keeper", "--purge", status=2)
    async with open_stand(home) as stand:
        assert await PluginSettings(stand.service.database).stored("keeper", "keeps") == ()
        async with stand.service.database.read() as connection:
            kept = await connection.execute(select(plugin_entries.c.plugin))
            assert kept.scalars().all() == ["another"]
            (told,) = await audit_log.newest_entries(connection, 1)
        assert (told.event, jsontext.loads(told.data)["principal"]) == ("plugin:purged", "cli")
        await AuditLog(stand.service.database).verify()


def test_a_secret_is_no_argument_of_a_command() -> None:
    shown = CliRunner().invoke(main, ["plugins", "settings", "set", "--help"])
    assert "standard input" in " ".join(shown.output.split())

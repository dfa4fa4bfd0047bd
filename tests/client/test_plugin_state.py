"""Settings of skills and entries of plugins over REST: the operator's alone, secrets masked."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest
from click.testing import CliRunner
from tests.client.conftest import URL
from tests.support.api import Api
from tests.support.http_transport import Carrier
from tests.support.keeping_plugins import module

from solward import Put
from solward.client import BadRequest, NotFoundError, SolwardClient
from solward.client.errors import ClientError
from solward.testing.targets import target_of
from solward.vault.transactions.request import Actor
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
    loaded = target_of(module(settings=SETTINGS)).loaded
    skills = {**api.service.registry.skills, "keeps": replace(loaded, distribution="Keeper")}
    api.service.registry = replace(api.service.registry, skills=MappingProxyType(skills))


@pytest.mark.usefixtures("keeps")
async def test_settings_are_set_shown_masked_and_unset(client: SolwardClient) -> None:
    state = client.plugin_state
    await state.set("keeps", "token", VALUE)
    await state.set("keeps", "hours", 12)
    shown = await state.settings("keeps")
    assert (shown["skill"], shown["distribution"]) == ("keeps", "keeper")
    assert list(shown["settings"]) == [
        {"name": "hours", "secret": False, "set": True, "value": 12},
        {"name": "token", "secret": True, "set": True},
    ]
    with pytest.raises(BadRequest, match="hours"):
        await state.set("keeps", "hours", 0)
    with pytest.raises(BadRequest, match="token must be text of 8 to 4096") as raised:
        await state.set("keeps", "token", VALUE * 1000)
    assert VALUE not in str(raised.value)
    with pytest.raises(BadRequest, match="setting must be one of token, hours"):
        await state.set("keeps", "nope", 1)
    with pytest.raises(NotFoundError, match="No skill named 'nope'"):
        await state.settings("nope")
    await state.unset("keeps", "token")
    assert not (await state.settings("keeps"))["settings"][1]["set"]


@pytest.mark.usefixtures("keeps")
async def test_entries_are_listed_and_deleted(client: SolwardClient, api: Api) -> None:
    wallet = await client.wallets.create("kept")
    actor = Actor("admin", via=("skill:keeps", "plugin:keeper"))
    for key in ("a/1", "a/2", "b?&=%"):
        await api.service.operations.entries.put(wallet.id, actor, Put(key, {"k": key}))
    state = client.plugin_state
    entries = await state.entries("Keeper", wallet.id)
    assert [(each["key"], each["value"], each["version"]) for each in entries] == [
        ("a/1", {"k": "a/1"}, 1),
        ("a/2", {"k": "a/2"}, 2),
        ("b?&=%", {"k": "b?&=%"}, 3),
    ]
    page = await state.entries("keeper", wallet.id, prefix="a/", after="a/1", limit=1)
    assert [each["key"] for each in page] == ["a/2"]
    assert (await state.delete("keeper", wallet.id, "b?&=%"))["deleted"]
    assert not (await state.delete("another", wallet.id, "a/1"))["deleted"]
    assert len(await state.entries("keeper", wallet.id)) == 2
    with pytest.raises(BadRequest, match="printable ASCII"):
        await state.delete("keeper", wallet.id, "a b")
    with pytest.raises(NotFoundError):
        await state.entries("keeper", "no-such-wallet")


@pytest.mark.usefixtures("keeps")
async def test_an_api_key_reaches_none_of_it(client: SolwardClient, carrier: Carrier) -> None:
    wallet = await client.wallets.create("kept")
    key = await client.keys.create(name="k", wallet_id=wallet.id)
    async with SolwardClient(URL, key.api_key, transport=carrier) as others:
        state = others.plugin_state
        for call in (
            state.settings("keeps"),
            state.set("keeps", "hours", 1),
            state.unset("keeps", "hours"),
            state.entries("keeper", wallet.id),
            state.delete("keeper", wallet.id, "a"),
        ):
            with pytest.raises(ClientError, match="admin API secret required"):
                await call


def test_a_secret_is_no_argument_of_a_command() -> None:
    shown = CliRunner().invoke(main, ["plugins", "settings", "set", "--help"])
    assert "standard input" in " ".join(shown.output.split())

"""What the operator sets for a plugin's skill: checked, sealed, shown masked, given to it alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.support.database import AuditLog
from tests.support.hosts import Hosted, Opened, opened_hosts
from tests.support.plugins import Shelf, shelf, skill_source

from solward import InvalidRequest, SkillError
from solward.plugins.state import PluginSettings
from solward.types.errors import KeystoreError, SkillNotFound, SolwardError

pytestmark = pytest.mark.samples(
    "test_no_secret_is_shown_told_logged_or_stored_in_clear",
    "test_what_does_not_fit_is_named_and_a_secret_not_quoted",
    "test_a_sealed_one_is_of_its_place_and_its_keystore",
)

__all__ = ["shelf"]

SCHEMA = (
    '{"type": "object", "additionalProperties": False, "required": ["token"], "properties": {'
    '"token": {"type": "string", "secret": True, "maxLength": 60},'
    '"hours": {"type": "integer", "minimum": 1, "maximum": 48, "default": 6},'
    '"name": {"type": "string", "maxLength": 20}}}'
)
ANY = '{"type": "object", "properties": {"do": {"type": "string"}}, "additionalProperties": False}'
TELLS = "return str(eval(params['do'], {'context': context, 'SkillError': SkillError}))"
VALUE = "a-very-secret-value-4711"


def source(name: str, settings: str | None = SCHEMA, body: str = TELLS) -> str:
    more = {} if settings is None else {"settings": settings}
    return skill_source(name, schema=ANY, body=body, **more)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Opened:
    return opened_hosts(monkeypatch, tmp_path)


@promise("plugin-settings-are-its-own")
async def test_a_skill_gets_its_own_from_the_next_call_on(shelf: Shelf, opened: Opened) -> None:
    shelf.install("acme", {"tells": source("tells"), "beside": source("beside")})
    shelf.install("other", {"also": source("also", None)})
    async with opened() as hosted:
        service, wallet = hosted.stand.service, (await hosted.stand.wallet()).id
        every = "sorted((k, len(str(v))) for k, v in context.settings.items())"
        with pytest.raises(SkillError, match="Settings of tells are not set: token") as raised:
            await hosted.run("tells", wallet, do=every)
        assert raised.value.code == "settings_missing"
        await service.plugin_state.set("tells", "token", VALUE)
        assert await hosted.run("tells", wallet, do=every) == "[('hours', 1), ('token', 24)]"
        await service.plugin_state.set("tells", "hours", 12)
        await service.plugin_state.set("tells", "token", VALUE + "!")
        assert await hosted.run("tells", wallet, do=every) == "[('hours', 2), ('token', 25)]"
        # Not those of the skill beside it, nor of another distribution's.
        with pytest.raises(SkillError, match="Settings of beside are not set: token"):
            await hosted.run("beside", wallet, do=every)
        assert await hosted.run("also", wallet, do=every) == "[]"
        assert await service.plugin_state.unset("tells", "token")
        assert not await service.plugin_state.unset("tells", "token")
        with pytest.raises(SkillError, match="are not set: token"):
            await hosted.run("tells", wallet, do=every)
        assert hosted.problems == {}


@promise("plugin-settings-are-its-own")
async def test_no_secret_is_shown_told_logged_or_stored_in_clear(
    shelf: Shelf, opened: Opened, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shelf.install("acme", {"tells": source("tells")})
    async with opened() as hosted:
        service, wallet = hosted.stand.service, (await hosted.stand.wallet()).id
        await service.plugin_state.set("tells", "token", VALUE)
        await service.plugin_state.set("tells", "name", "in clear")
        shown = await service.plugin_state.public_settings("tells")
        assert shown["settings"] == [
            {"name": "hours", "secret": False, "set": False},
            {"name": "name", "secret": False, "set": True, "value": "in clear"},
            {"name": "token", "secret": True, "set": True},
        ]
        # What the skill says, deliberately or not.
        told = await hosted.run("tells", wallet, do="dict(context.settings)")
        assert "in clear" in told
        raising = "(_ for _ in ()).throw(SkillError('no', context.settings['token'])).__next__()"
        with pytest.raises(SkillError) as raised:
            await hosted.run("tells", wallet, do=raising)
        await hosted.run(
            "tells", wallet, do="context.log.warning('x', y=context.settings['token'])"
        )
        audit = [each.to_json() for each in await AuditLog(service.database).latest(500)]
        settings = [each["data"] for each in audit if each["event"] == "plugin:setting"]
        assert {each["setting"] for each in settings} == {"token", "name"}
        stored = await service.plugin_state.settings.stored("acme", "tells")
        texts = [told, str(raised.value), repr(shown), repr(audit), repr(stored), repr(settings)]
        assert not [each for each in texts if VALUE in each]
        assert "in clear" not in repr(audit)
    captured = capfd.readouterr()
    assert VALUE not in captured.out + captured.err
    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert any(each.name == "solward.db" for each in files)
    assert not [each for each in files if VALUE.encode() in each.read_bytes()]


@promise("plugin-settings-are-its-own")
async def test_no_error_of_a_skill_has_a_secret_in_its_text_or_code(
    shelf: Shelf, opened: Opened
) -> None:
    """Nor one of a skill beside it, which runs in the same process."""
    holding = (
        "import builtins, solward.types.errors as E; builtins.held = context.settings['token']; "
    )
    shelf.install(
        "acme",
        {
            "tells": source("tells", body=holding + "raise eval(params['do'])"),
            "beside": source("beside", None, "import builtins; return builtins.held"),
        },
    )
    async with opened() as hosted:
        service, wallet = hosted.stand.service, (await hosted.stand.wallet()).id
        await service.plugin_state.set("tells", "token", VALUE)
        with service.events.subscribe() as events:
            for error in (
                "SkillError(held, '')", "SkillError('no', held)", "E.LedgerUnavailable(held)",
                "E.InvalidRequest(held)",
            ):  # fmt: skip
                with pytest.raises(SolwardError) as raised:
                    await hosted.run("tells", wallet, do=error)
                told = (str(raised.value), repr(raised.value), vars(raised.value))
                assert VALUE not in repr(told), error
                assert "[redacted]" in repr(told), error
            assert await hosted.run("beside", wallet, do="") == "[redacted]"
            for _ in range(5):
                assert VALUE not in repr(await events.next())


@pytest.fixture
async def hosted(shelf: Shelf, opened: Opened) -> Any:
    shelf.install("acme", {"tells": source("tells")})
    async with opened() as made:
        yield made


@promise("plugin-settings-are-its-own")
async def test_what_does_not_fit_is_named_and_a_secret_not_quoted(hosted: Hosted) -> None:
    state = hosted.stand.service.plugin_state
    for name, value, text in (
        ("nope", 1, "setting must be one of token, hours, name"),
        ("hours", 49, "hours"),
        ("hours", "1", "hours"),
        ("hours", None, "hours"),
        ("name", "x" * 21, "name"),
        ("token", "short", "token must be text of 8 to 60 characters"),
        ("token", "x" * 61, "token must be text of 8 to 60 characters"),
        ("token", 12345678, "token must be text of 8 to 60 characters"),
        ("token", None, "token must be text of 8 to 60 characters"),
    ):
        with pytest.raises(InvalidRequest, match=text) as raised:
            await state.set("tells", name, value)
        if name == "token":
            assert str(value) not in str(raised.value)
        shown = await state.public_settings("tells")
        assert not any(each["set"] for each in shown["settings"]), (name, value)


@promise("plugin-settings-are-its-own")
async def test_who_takes_a_skills_name_gets_none_of_its_settings(hosted: Hosted) -> None:
    service = hosted.stand.service
    await service.plugin_state.settings.put("another", "tells", "token", VALUE, secret=True)
    assert await service.plugin_state.settings.values("acme", "tells") == {}
    assert await service.plugin_state.settings.values("another", "tells") == {"token": VALUE}


@promise("plugin-settings-are-its-own")
async def test_a_sealed_one_is_of_its_place_and_its_keystore(hosted: Hosted) -> None:
    service = hosted.stand.service
    await service.plugin_state.set("tells", "token", VALUE)
    path = service.settings.solward_home / "solward.db"
    if not path.is_file():
        pytest.skip("of the file that SQLite has")
    with sqlite3.connect(path) as connection:
        connection.execute(
            "INSERT INTO plugin_settings SELECT plugin, skill, 'name', value, sealed, changed_ms"
            " FROM plugin_settings"
        )
    with pytest.raises(KeystoreError, match="The setting name of tells"):
        await service.plugin_state.settings.values("acme", "tells")
    # Copied by whoever can write the database it is still not shown.
    shown = await service.plugin_state.public_settings("tells")
    assert [each["name"] for each in shown["settings"] if "value" in each] == []


@promise("plugin-settings-are-its-own")
async def test_without_the_keystore_none_is_opened(hosted: Hosted) -> None:
    database = hosted.stand.service.database
    await hosted.stand.service.plugin_state.set("tells", "token", VALUE)
    key, database.audit_key = database.audit_key, None
    try:
        with pytest.raises(KeystoreError, match="The keystore is not open"):
            await PluginSettings(database).values("acme", "tells")
        database.audit_key = bytes(len(key or b""))
        with pytest.raises(KeystoreError, match="The setting token of tells"):
            await PluginSettings(database).values("acme", "tells")
    finally:
        database.audit_key = key


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("[]", "must be an object"),
        ('{"type": "object", "properties": {}}', "additionalProperties"),
        ('{"type": "object", "additionalProperties": False, "properties": {"a": {"type":'
         ' "integer", "secret": True}}}', "a: secret must be true, the type string"),
        ('{"type": "object", "additionalProperties": False, "properties": {"a": {"type":'
         ' "string", "secret": True, "default": "x"}}}', "a: a secret must not have default"),
        ('{"type": "object", "additionalProperties": False, "properties": {}, "anyOf": [{}]}',
         "anyOf is not supported at the top"),
    ],
    ids=["list", "open", "integer", "default", "alternatives"],
)  # fmt: skip
async def test_a_declaration_that_cannot_be_kept_is_refused(
    shelf: Shelf, opened: Opened, schema: str, text: str
) -> None:
    shelf.install("acme", {"tells": source("tells", schema)})
    async with opened() as hosted:
        [problem] = hosted.stand.service.live.registry.problems
        assert text in problem.detail
        with pytest.raises(SkillNotFound):
            await hosted.stand.service.plugin_state.set("tells", "a", 1)


async def test_a_skill_without_settings_has_none_to_set(shelf: Shelf, opened: Opened) -> None:
    shelf.install("acme", {"tells": source("tells", None)})
    async with opened() as hosted:
        with pytest.raises(InvalidRequest, match="The skill tells declares no settings"):
            await hosted.stand.service.plugin_state.set("tells", "a", 1)

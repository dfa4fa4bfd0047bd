"""What tests and checks set for a skill, and that its secrets show up nowhere."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.support.plugins import skill_source, wheel
from tests.testing import bad_plugins as bad
from tests.testing.test_bad_plugins_are_found import IN_HOST, IN_PROCESS, failed, given

from solward import InvalidRequest, SkillContext, SkillError
from solward.testing import Stand, TestWallet
from solward.testing.conformance import check_skill, skill_test
from solward.testing.conformance.cases import read_cases
from solward.testing.conformance.runner import check_target, open_conformance

KEY = "right-" + "k" * 40
NOT_SET = "Settings of signs are not set: bank"
SCHEMA = (
    '{"type": "object", "additionalProperties": False, "required": ["pin", "bank"],'
    ' "properties": {"pin": {"type": "string", "secret": True}, "bank": {"type": "string"}}}'
)


@pytest_asyncio.fixture
async def stand() -> AsyncIterator[Stand]:
    async with open_conformance() as opened:
        yield opened


@pytest.mark.more
@pytest.mark.parametrize("mode", [IN_HOST, IN_PROCESS])
async def test_a_skill_conforms_with_what_is_given_and_a_secret_that_is_made_up(
    stand: Stand, mode: str
) -> None:
    report = await check_skill(**given(mode, bad.Signs), settings={"bank": "b"}, stand=stand)
    assert failed(report) == ""
    assert report.finding("examples").detail == "2 ran"
    assert report.finding("secrets").outcome == "ok"


@pytest.mark.more
@pytest.mark.parametrize("mode", [IN_HOST, IN_PROCESS])
async def test_no_call_runs_while_a_required_setting_is_not_set(stand: Stand, mode: str) -> None:
    report = await check_skill(**given(mode, bad.Signs), stand=stand)
    assert failed(report) == ""
    found = report.finding("examples")
    assert (found.outcome, found.detail.partition(";")[0]) == ("skipped", NOT_SET)
    assert "checks/*.json" in found.detail
    assert "bad_parameters" in report.skipped
    assert report.finding("secrets").detail == "no secret in the texts of 0 runs"
    if mode == IN_HOST:
        assert report.grade is not None
        assert report.grade.tier is not None
        assert report.grade.tier.name == "bronze"


@pytest.mark.more
@pytest.mark.parametrize("mode", [pytest.param(IN_HOST, marks=pytest.mark.more), IN_PROCESS])
@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        (bad.TellsItsSetting, "reveals the secret setting key"),
        (bad.LogsItsSetting, "logs the secret setting key"),
        (bad.RaisesItsSetting, "reveals the secret setting key"),
    ],
)
@pytest.mark.parametrize("key", [None, KEY])
async def test_a_secret_in_an_outcome_a_log_or_an_error_is_found_and_not_shown(
    stand: Stand, mode: str, plugin: type[bad.Signs], said: str, key: str | None
) -> None:
    settings = {"bank": "b"} if key is None else {"bank": "b", "key": key}
    report = await check_skill(**given(mode, plugin), settings=settings, stand=stand)
    assert report.finding("secrets").detail == said
    assert "secrets" in report.failed
    assert KEY not in str(report)
    if plugin is bad.RaisesItsSetting:
        assert "with [redacted]" in report.finding("examples").detail


async def test_a_secret_of_another_form_than_is_made_up_has_to_be_given(stand: Stand) -> None:
    target = given(IN_PROCESS, bad.WantsAnotherKey)
    report = await check_skill(**target, settings={"bank": "b"}, stand=stand)
    found = report.finding("examples")
    assert found.outcome == "skipped"
    assert found.detail.startswith("with generated key: case 0: SkillError")
    report = await check_skill(**target, settings={"bank": "b", "key": KEY}, stand=stand)
    assert failed(report) == ""


@pytest.mark.more
def test_a_test_of_ones_own_gives_settings_and_is_told_of_a_wrong_one() -> None:
    skill_test(bad.Signs(), settings={"bank": "b"}, in_process=True)()
    with pytest.raises(InvalidRequest, match="settings: setting must be one of key, bank, floor"):
        skill_test(bad.Signs(), settings={"bnak": "b"}, in_process=True)()
    with pytest.raises(InvalidRequest) as refused:
        skill_test(bad.Signs(), settings={"bank": "b", "key": "short-key"}, in_process=True)()
    assert str(refused.value) == "settings: key must be text of 40 to 50 characters"
    with pytest.raises(InvalidRequest, match="settings: the skill skill declares none"):
        skill_test(bad.Skill(), settings={"bank": "b"}, in_process=True)()


@pytest.mark.more
def test_a_wheel_is_checked_with_the_settings_of_a_file(tmp_path: Path) -> None:
    body = 'return f\'{context.settings["bank"]} of {len(context.settings["pin"])}\''
    source = skill_source("acme", settings=SCHEMA, body=body, examples="({},)")
    path = wheel(tmp_path, plugin="acme", source=source)
    [report] = check_target(str(path)).reports
    assert report.finding("examples").outcome == "skipped", str(report)
    file = tmp_path / "cases.json"
    file.write_text(json.dumps({"kind": "skill", "plugin": "acme", "settings": {"bank": "b"}}))
    [report] = check_target(str(path), cases=[read_cases(file)]).reports
    assert report.finding("examples").detail == "1 ran", str(report)
    assert report.grade is not None
    assert report.grade.tier is not None
    assert report.grade.tier.name == "platinum", str(report)


async def test_a_wallet_runs_a_skill_with_what_was_set_as_the_service_does(
    solward_stand: Stand, wallet: TestWallet
) -> None:
    skill = bad.Signs()
    with pytest.raises(SkillError, match="are not set: key, bank") as raised:
        await wallet.run(skill)
    assert raised.value.code == "settings_missing"
    await solward_stand.set_settings(skill, {"bank": "b", "key": KEY})
    assert await wallet.run(skill, text="it") == "Signed it 3 b by a key of 46 characters."
    await solward_stand.set_settings(skill, {"floor": 4})
    assert "Signed it 4 b" in await wallet.run(skill, text="it")
    with pytest.raises(InvalidRequest, match="settings: setting must be one of key, bank, floor"):
        await solward_stand.set_settings(skill, {"bank": "c", "no_such": 1})
    assert "Signed it 4 b" in await wallet.run(skill, text="it")


async def test_a_context_has_the_settings_it_is_given_and_the_defaults(
    skill_context: Callable[..., SkillContext],
) -> None:
    made: Any = skill_context(bad.Signs(), settings={"bank": "b", "key": KEY})
    assert made.settings == {"bank": "b", "key": KEY, "floor": 3}
    with pytest.raises(SkillError, match=NOT_SET) as raised:
        skill_context(bad.Signs(), settings={"key": KEY})
    assert raised.value.code == "settings_missing"
    with pytest.raises(InvalidRequest, match="settings: bank: must be text"):
        skill_context(bad.Signs(), settings={"bank": 5, "key": KEY})

"""`GET /settings`: every setting with its origin, and of no secret its value."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.services import SECRET, serving_api

from solward.client import Setting
from solward.settings import Settings
from solward.settings.secrecy import secret_fields

CANARY = "canary-4f1d0c9e7b-do-not-show-me-anywhere"
# Those that a service cannot be opened with.
ELSEWHERE = {
    "solana_rpc_url": f"http://127.0.0.1:9/?api-key={CANARY}",
    "database_url": f"postgresql://user:{CANARY}@127.0.0.1:9/solward",
    "approval_slack_token": f"xoxb-{CANARY}",
    "approval_telegram_token": f"1234:{CANARY}-{'a' * 20}",
}


def canary(name: str) -> str:
    """A value that a secret setting takes."""
    address = f"http://127.0.0.1:9/{CANARY}" if name.endswith("_url") else f"{name}-{CANARY}"
    return ELSEWHERE.get(name, address)


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.chdir(tmp_path)


def of(settings: Settings) -> dict[str, Setting]:
    return {each["name"]: Setting.of(each) for each in settings.report()}


def test_each_says_where_it_comes_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("API_PORT=8080\nDASHBOARD_PORT=3300\nMAX_SLIPPAGE_BPS=100\n")
    monkeypatch.setenv("dashboard_port", "3400")
    monkeypatch.setenv("MAX_SLIPPAGE_BPS", "")
    monkeypatch.setenv("MAX_SOL_PER_TRANSACTION", "0.5")
    found = of(Settings(api_host="::1"))
    assert {
        name: (each.value, each.default, each.source, each.set)
        for name, each in found.items()
        if each.set
    } == {
        "API_HOST": ("::1", "127.0.0.1", "argument", True),
        "API_PORT": ("8080", "3001", ".env", True),
        "DASHBOARD_PORT": ("3400", "3000", "environment", True),
        "MAX_SLIPPAGE_BPS": ("100", "1000", ".env", True),
        "MAX_SOL_PER_TRANSACTION": ("0.5", "2", "environment", True),
    }
    assert found["HOLD_EXPIRES_S"].raw == {
        "name": "HOLD_EXPIRES_S",
        "value": "3600",
        "default": "3600",
        "source": "default",
        "secret": False,
        "set": False,
        "ceiling": False,
    }


def test_a_default_is_what_the_other_settings_make_it() -> None:
    found = of(Settings(solana_rpc_url="https://rpc.example", solana_network="mainnet"))
    assert (found["MAX_SLIPPAGE_BPS"].value, found["MAX_SLIPPAGE_BPS"].default) == ("300", "300")
    assert found["SOLANA_NETWORK"].default == "devnet"


def test_the_ceilings_are_marked() -> None:
    assert [name for name, each in of(Settings()).items() if each.ceiling] == [
        "MAX_SOL_PER_TRANSACTION",
        "MAX_TRANSACTIONS_PER_MINUTE",
        "DAILY_SPENDING_LIMIT_SOL",
        "MAX_SLIPPAGE_BPS",
        "MAX_PRICE_IMPACT_BPS",
        "MAX_COSTS_SOL_PER_DAY",
        "MAX_NETWORK_FEE_SOL",
        "TOKEN_LIMITS",
    ]


@promise("settings-shown-masked")
@pytest.mark.parametrize("where", ["environment", ".env"])
def test_no_secret_is_in_it_wherever_it_was_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: str
) -> None:
    secrets = secret_fields(Settings)
    given = {name.upper(): canary(name) for name in secrets}
    if where == ".env":
        (tmp_path / ".env").write_text("".join(f"{name}={text}\n" for name, text in given.items()))
    else:
        for name, text in given.items():
            monkeypatch.setenv(name, text)
    found = of(Settings())
    assert CANARY not in str(found)
    shown = {name: each for name, each in found.items() if each.secret}
    assert shown.keys() == given.keys()
    assert {(each.set, each.source, each.value) for each in shown.values()} == {(True, where, None)}


@pytest.mark.more
async def test_the_route_lists_every_setting_and_shows_no_secret(tmp_path: Path) -> None:
    own = ELSEWHERE.keys() | {"api_secret", "keystore_passphrase"}
    secrets = {name: canary(name) for name in secret_fields(Settings) - own}
    async with serving_api(tmp_path / "home", **secrets) as api:
        answer = await api.get("/settings")
        listed = {each["name"]: each for each in answer.json["settings"]}
        assert listed.keys() == {name.upper() for name in Settings.model_fields}
        assert CANARY not in answer.text
        assert SECRET not in answer.text
        assert {name for name, each in listed.items() if each["secret"] and each["set"]} >= {
            name.upper() for name in secrets
        }
        assert listed["SOLWARD_HOME"]["value"] == str(tmp_path / "home")


def test_the_environment_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    settings = Settings()
    del os.environ["OPENAI_API_KEY"]
    assert of(settings)["OPENAI_API_KEY"].source == "environment"

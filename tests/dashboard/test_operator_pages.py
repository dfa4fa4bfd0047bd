"""What the pages for operators say and change, without a browser."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from solward.client import Event, Frozen, Plugins, Setting, Skill
from solward.resources.plugins import SkillSettings
from solward_dashboard.frame import service_text
from solward_dashboard.pages import audit, plugins, settings
from solward_dashboard.pages.plugins import changes, form_schema
from solward_dashboard.wording import People, midnight

NAMES = People({"wallet:w1": "till", "agent:a1": "ada", "key:k1": "shop"})
SCHEMA = {
    "type": "object",
    "required": ["token", "hours"],
    "properties": {
        "token": {"type": "string", "minLength": 9, "description": "Of the vendor."},
        "hours": {"type": "integer", "default": 6},
        "label": {"type": "string"},
    },
    "additionalProperties": False,
}


def event(kind: str, **data: Any) -> Event:
    raw = {"seq": 1, "event": kind, "data": data}
    return Event.of(raw)


@pytest.mark.parametrize(
    ("kind", "data", "says", "whose"),
    [
        ("switch:frozen", {"walletId": None, "reason": "drill"}, "the whole service, drill", ""),
        ("switch:frozen", {"walletId": "w1", "principal": "admin"}, "till",
         "by admin (API_SECRET)"),
        ("wallet:created", {"walletId": "w1", "name": "till", "principal": "key:k1"}, "till",
         "by key shop"),
        ("agent:changed", {"agentId": "a1", "name": "ada", "principal": "key:gone"}, "ada",
         "by key gone"),
        ("transaction:blocked", {"walletId": "w1", "agentId": "a1", "type": "transfer",
                                 "status": "blocked", "error": "too much"},
         "till, ada, transfer, blocked, too much", ""),
        ("payment:answered", {"walletId": "w1", "amount": Decimal("0.01"), "site": "a.example"},
         "till, a.example, 0.01", ""),
        ("plugin:changed", {"distribution": "acme", "before": {"name": "x"}}, "acme", ""),
    ],
)  # fmt: skip
def test_an_entry_is_told_in_a_line(kind: str, data: Any, says: str, whose: str) -> None:
    one = event(kind, **data)
    assert (audit.subject_text(one, NAMES), audit.principal_text(one, NAMES)) == (says, whose)


def test_a_long_entry_is_cut() -> None:
    line = audit.subject_text(event("agent:error", name="a", error="x" * 900), NAMES)
    assert len(line) == 160
    assert line.endswith("x…")


def test_a_day_is_read_once_it_is_whole() -> None:
    begins = midnight("2026-11-23")
    assert begins is not None
    assert (begins.hour, begins.day, begins.tzinfo is None) == (0, 23, False)
    assert midnight("2026-11-22", days=1) == begins
    assert [midnight(text) for text in ("", None, "2026-13-01", "202")] == [None] * 4


def setting(
    value: str | None, default: str | None, source: str, *, secret: bool = False, name: str = "A"
) -> Setting:
    return Setting(
        name=name,
        value=value,
        default=default,
        source=source,
        secret=secret,
        set=source != "default",
        ceiling=True,
        raw={},
    )


@pytest.mark.parametrize(
    ("of", "value", "default"),
    [
        (setting("1", "2", "environment"), "1", "default: 2"),
        (setting("2", "2", "default"), "2", ""),
        (setting("1", None, ".env"), "1", "default: not set"),
        (setting(None, None, "default"), "not set", ""),
        (setting(None, None, ".env", secret=True), "set", ""),
        (setting(None, None, "default", secret=True), "not set", ""),
    ],
)
def test_a_setting_is_told_with_its_default(of: Setting, value: str, default: str) -> None:
    assert (settings.value_text(of), settings.default_text(of)) == (value, default)


def test_settings_are_searched_by_name_value_and_source() -> None:
    one = setting("1.5", "2", ".env", name="MAX_SOL")
    for text in ("max_s", " 1.5", ".ENV", ""):
        assert settings.matches(one, text, only_set=True)
    assert not settings.matches(one, "slippage", only_set=False)
    unset = setting("2", "2", "default", name="MAX_SOL")
    assert not settings.matches(unset, "", only_set=True)


def test_what_is_frozen_is_said_with_its_reason() -> None:
    at = datetime(2026, 11, 23, 12, tzinfo=UTC)
    frozen = Frozen(service=True, reason="drill", since=at, wallets=(), frozen_wallets=0, raw={})
    assert service_text(frozen).endswith(" (drill): no wallet makes a new transaction.")
    unnamed = Frozen(service=True, reason=None, since=None, wallets=(), frozen_wallets=0, raw={})
    assert service_text(unnamed) == "Everything is frozen: no wallet makes a new transaction."


def found(**stored: Any) -> SkillSettings:
    """The service's answer of a skill whose `token` is a secret."""
    settings = [
        {"name": name, "secret": name == "token", "set": name in stored}
        | ({"value": stored[name]} if name in stored and name != "token" else {})
        for name in ("hours", "label", "old", "token")
        if name != "old" or name in stored
    ]
    raw = {"skill": "keeps", "distribution": "keeper", "schema": SCHEMA, "settings": settings}
    return SkillSettings.of(raw)


@pytest.mark.parametrize(
    ("stored", "typed", "wanted"),
    [
        ({}, {"hours": 6}, {}),
        ({}, {"hours": 7, "label": "a"}, {"hours": 7, "label": "a"}),
        ({"hours": 7}, {"hours": 7}, {}),
        ({"hours": 7}, {"hours": 6}, {"hours": 6}),
        ({"hours": 7, "label": "a"}, {"hours": 7}, {"label": None}),
        ({"token": None}, {"hours": 6}, {}),
        ({"token": None}, {"hours": 6, "token": "new"}, {"token": "new"}),
        ({"old": 1}, {"hours": 6}, {}),
    ],
)
def test_only_what_differs_is_set_or_unset(stored: Any, typed: Any, wanted: Any) -> None:
    assert changes(found(**stored), typed) == wanted


def test_a_secrets_field_is_written_only_and_its_bounds_are_the_services() -> None:
    schema = form_schema(SCHEMA, ["token"])
    assert schema["properties"]["token"] == {
        "type": "string",
        "writeOnly": True,
        "description": "The skill does nothing without this setting. Of the vendor.",
    }
    assert schema["properties"]["hours"] == SCHEMA["properties"]["hours"]  # type: ignore[index]
    assert "required" not in schema


def test_plugins_are_searched_by_every_word_and_kind() -> None:
    def plugin(kind: str, name: str, distribution: str = "solward") -> dict[str, Any]:
        common = {"kind": kind, "name": name, "distribution": distribution, "version": "1"}
        return common | {"manifest": None, "secrets": []}

    raw = {
        "plugins": [
            plugin("skill", "tip", "acme"), plugin("skill", "swap"), plugin("provider", "openai"),
        ],
        "distributions": [
            {"name": "acme", "version": "1", "ownFolder": False, "enabled": True,
             "state": "loaded", "accepted": [], "wheels": [], "trust": None}
        ],
        "guardrails": ["office_hours"],
        "problems": [],
    }  # fmt: skip
    skill = {"name": "tip", "description": "Tip a Jar.", "parameters": {}, "effects": "spend"}
    skill |= {"distribution": "acme", "version": "1", "manifest": None}
    loaded = plugins.LoadedPlugins(Plugins.of(raw), (Skill.of(skill),))

    def names(text: str, kind: str = "") -> list[str]:
        shown = plugins.search(loaded, text, kind).plugins
        return [*(each.name for each in shown.plugins), *shown.guardrails]

    assert names("") == ["tip", "swap", "openai", "office_hours"]
    assert names("JAR tip") == ["tip"]
    assert names("jar swap") == []
    assert names("skill") == ["tip", "swap"]
    assert names("acme") == ["tip"]
    assert names("", "provider") == ["openai"]
    assert names("office", "guardrail") == ["office_hours"]
    assert plugins.search(loaded, "tip", "").plugins.distributions == loaded.plugins.distributions
    assert plugins.search(loaded, "openai", "").plugins.distributions == ()

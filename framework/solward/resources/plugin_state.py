"""What is set for plugins' skills, and what plugins keep for wallets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from solward.resources.answers import Answer
from solward.resources.declare import Call, Request, declared, resource
from solward.resources.fields import Flag, Id, Json, RawText, Shape, Text, Time, Whole
from solward.resources.lists import LIMIT
from solward.resources.schema import mapping
from solward.types.entries import MAX_KEY, MAX_LISTED

_MAX_WHOLE = 2**53 - 1
_PLUGIN = Text("The plugin's distribution.", example="acme-tools", missing="plugin is required")
_KEY = RawText("The entry's key.", most=MAX_KEY, example="last", missing="key is required")
_SKILL = Text("As given.", example="price_alert")
_SETTING = Text("The setting's name.", example="repeatHours")
_SKILLS_SETTINGS = "/plugins/skills/{skill}/settings"
_STORE = "/wallets/{wallet_id}/plugins/{plugin}/store"


@resource
class NewSetting(Request):
    """A setting of a plugin's skill."""

    value: Any = declared(
        Shape(
            "As the skill's schema has it.",
            example=12,
            missing="value is required",
            left_out={
                "cli": "it stands behind the setting's name, or on standard input",
                "dashboard": "there a form of the skill's schema has all settings",
            },
        )
    )


@resource
class PluginSetting(Answer):
    """A setting of a plugin's skill; `value` where it is set and no secret."""

    name: str = declared(_SETTING)
    secret: bool = declared(Flag("Stored sealed, and never shown."))
    set: bool = declared(Flag("Whether it is set.", example=True))
    value: Any = declared(Shape("Where it is set and no secret.", example=12), default=None)


@resource
class SkillSettings(Answer):
    """What is set for a plugin's skill; `schema` is the JSON Schema of all its settings."""

    skill: str = declared(_SKILL)
    distribution: str = declared(Text("The skill's.", example="acme-tools"))
    schema: Mapping[str, Any] = declared(
        Shape("JSON Schema of all.", form=mapping({}, ""), example={"type": "object"})
    )
    settings: tuple[PluginSetting, ...] = declared(Json("By their names."))


@resource
class SettingState(Answer):
    """Whether a setting is set."""

    skill: str = declared(_SKILL)
    name: str = declared(_SETTING)
    set: bool = declared(Flag("Whether it is set now.", example=True))


@resource
class ListedEntries(Request):
    """Which entries are listed."""

    prefix: str | None = declared(
        Shape("Only keys that begin so.", form={"type": "string", "maxLength": MAX_KEY}),
        default=None,
    )
    after: str | None = declared(RawText("Only keys after this one.", most=MAX_KEY), default=None)
    limit: int = declared(replace(LIMIT, most=MAX_LISTED), default=50)


@resource
class PluginEntry(Answer):
    """What a plugin keeps for a wallet under a key."""

    key: str = declared(_KEY)
    value: Any = declared(Shape("Any JSON.", example={"period": 20780}))
    version: int = declared(Whole("Grows with each write.", least=1, most=_MAX_WHOLE))
    changed_at: datetime = declared(Time("When it was written."))
    transaction_id: str | None = declared(Id("The record that remembered it.", example=None))
    status: str | None = declared(Text("Of that record.", example=None))


@resource
class OneEntry(Request):
    """An entry that is to be deleted."""

    key: str = declared(_KEY)


@resource
class DeletedEntry(Answer):
    """What became of an entry."""

    plugin: str = declared(_PLUGIN)
    key: str = declared(_KEY)
    deleted: bool = declared(Flag("Whether it was there.", example=True))


@resource
class OnePlugin(Request):
    """A distribution by its name."""

    plugin: str = declared(_PLUGIN)


@resource
class Purged(Answer):
    """What was deleted of a distribution."""

    plugin: str = declared(_PLUGIN)
    entries: int = declared(Whole("How many entries were deleted.", most=_MAX_WHOLE))
    settings: int = declared(Whole("How many settings were deleted.", most=_MAX_WHOLE))


SHOW_SETTINGS = Call(
    "getPluginSettings",
    f"GET {_SKILLS_SETTINGS}",
    "What is set for a plugin's skill.",
    SkillSettings,
    name="settings",
    about="Of a secret only whether it is set.",
)
SET = Call(
    "setPluginSetting",
    f"PUT {_SKILLS_SETTINGS}/{{name}}",
    "Set a setting of a plugin's skill.",
    SettingState,
    body=NewSetting,
    name=None,
    takes_json=True,
    about="From the skill's next call on. The audit log does not have the value.",
)
UNSET = Call(
    "unsetPluginSetting",
    f"DELETE {_SKILLS_SETTINGS}/{{name}}",
    "Unset a setting of a plugin's skill.",
    SettingState,
)
LIST_ENTRIES = Call(
    "listPluginEntries",
    f"GET {_STORE}",
    "What a plugin keeps for a wallet, by key.",
    PluginEntry,
    query=ListedEntries,
    name="entries",
    listed="entries",
)
DELETE_ENTRY = Call(
    "deletePluginEntry",
    f"DELETE {_STORE}",
    "Delete an entry that a plugin keeps for a wallet.",
    DeletedEntry,
    query=OneEntry,
    about="What it made the plugin leave undone, it may do again. The audit log says which one was"
    " deleted, and not its value.",
)
PURGE = Call(
    "purgePlugin",
    "DELETE /plugins/state",
    "Delete all that a distribution's plugins keep, and all that is set for its skills.",
    Purged,
    query=OnePlugin,
    about="For every wallet, not to be undone. Only of a distribution of which nothing is loaded."
    " Its files are deleted by `solward plugins remove --purge` alone.",
)
CALLS = (SHOW_SETTINGS, SET, UNSET, LIST_ENTRIES, DELETE_ENTRY, PURGE)

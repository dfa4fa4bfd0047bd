"""Loaded plugins and skills, the settings of skills, and the entries that plugins keep for
wallets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from solward.resources.declare import Answer, Call, Raw, Request, declared, resource
from solward.resources.fields import (
    Choice,
    Flag,
    Id,
    Json,
    RawText,
    Shape,
    Text,
    Texts,
    Time,
    Whole,
    nullable,
)
from solward.resources.schema import array, mapping, response_object
from solward.resources.shared import LIMIT
from solward.types.entries import MAX_KEY, MAX_LISTED
from solward.types.manifest import Manifest, ProblemCode, Terms, read_manifest, read_terms
from solward.types.skill import Effects

_DISTRIBUTION = Text("The plugin's distribution.", example="solward")
_VERSION = Text("The distribution's version.", example="0.1.0")
_SECRET_ENV = Text("The environment variable with the provider's key.")
_BASE_URL_ENV = Text("The environment variable that replaces the vendor's address.")
_MANIFEST = Shape(
    "The plugin's declared needs; null if it declares none.",
    form=response_object(
        {
            "sites": array(Text("A host name, with its port unless that is 443.")),
            "operations": nullable(array(Text("A name."), "Null: as effects and grants allow.")),
            "assets": nullable(array(Text("A symbol or a mint."), "Null: as grants allow.")),
            "storageMb": Whole("Megabytes for the plugin's files.", least=0),
            "secrets": array(
                response_object(
                    {
                        "env": Text("The secret's environment variable."),
                        "site": Text("The only site that gets the secret."),
                        "inQuery": Flag("Whether URL queries may contain the secret, too."),
                    }
                )
            ),
        }
    ),
    example=None,
)
_SECRETS = Shape(
    "The plugin's secrets and a provider's key, and whether each is set.",
    form=array(
        response_object(
            {
                "env": Text("The secret's environment variable."),
                "set": Flag("Whether the variable has a value."),
            }
        )
    ),
    example=[],
)
_MAX_WHOLE = 2**53 - 1
_PLUGIN = Text("The plugin's distribution.", example="acme-tools", missing="plugin is required")
_KEY = RawText("The entry's key.", most=MAX_KEY, example="last", missing="key is required")
_SKILL = Text("The skill's name.", example="price_alert")
_SETTING = Text("The setting's name.", example="repeatHours")
_SKILLS_SETTINGS = "/plugins/skills/{skill}/settings"
_STORE = "/wallets/{wallet_id}/plugins/{plugin}/store"


def _is_set_by_variable(secrets: list[Raw]) -> dict[str, bool]:
    return {each["env"]: each["set"] for each in secrets}


@resource
class Skill(Answer):
    """A loaded skill."""

    name: str = declared(Text("The skill's name.", example="check_balance"))
    description: str = declared(Text("What the skill does, for models."))
    parameters: Mapping[str, Any] = declared(Json("JSON Schema 2020-12 of the parameters."))
    effects: str = declared(Choice("The skill's effects.", options=tuple(Effects)))
    distribution: str = declared(_DISTRIBUTION)
    version: str = declared(_VERSION)
    manifest: Manifest | None = declared(_MANIFEST, read=read_manifest)


@resource
class Plugin(Answer):
    """A loaded plugin; the fields after `has_settings` are a provider's.

    Attributes:
        secrets: whether each of its secrets is set, by environment variable.
    """

    kind: str = declared(
        Choice("The plugin's kind.", options=("skill", "provider", "venue", "payment"))
    )
    name: str = declared(Text("The entry point's name.", example="airdrop"))
    distribution: str = declared(_DISTRIBUTION)
    version: str = declared(_VERSION)
    manifest: Manifest | None = declared(_MANIFEST, read=read_manifest)
    secrets: Mapping[str, bool] = declared(_SECRETS, read=_is_set_by_variable)
    has_settings: bool = declared(
        Flag("Whether the plugin is a skill with settings."), default=False
    )
    default_model: str | None = declared(Text("Model for agents that choose none."), default=None)
    options: Mapping[str, Any] | None = declared(Json("JSON Schema of `llmOptions`."), default=None)
    is_llm: bool = declared(Flag("False for the rule-based demo provider."), default=True)
    secret_env: str | None = declared(_SECRET_ENV, default=None, nullable=True)
    base_url_env: str | None = declared(_BASE_URL_ENV, default=None, nullable=True)
    configured: bool = declared(Flag("Whether the key is set, or not needed."), default=True)


@resource
class AcceptedPlugin(Answer):
    """The accepted terms of a plugin that has its own folder."""

    plugin: str = declared(Text("Entry-point group and name.", example="solward.skills:tip"))
    manifest: Manifest | None = declared(_MANIFEST, read=read_manifest)
    spends: bool = declared(Flag("Whether a skill's effects are SPEND."))
    secret_env: str | None = declared(_SECRET_ENV)
    base_url_env: str | None = declared(_BASE_URL_ENV)
    secrets: Mapping[str, bool] = declared(_SECRETS, read=_is_set_by_variable)

    @property
    def terms(self) -> Terms:
        """The accepted terms as one value."""
        return read_terms(self.raw)


@resource
class Wheel(Answer):
    """A wheel that was unpacked into a folder of plugins."""

    file: str = declared(Text("The file's name."))
    sha256: str = declared(Text("The file's hash."))


@resource
class PluginDistribution(Answer):
    """An installed distribution of a third party's plugins."""

    name: str = declared(Text("The distribution's name."))
    version: str = declared(_VERSION)
    own_folder: bool = declared(
        Flag("Whether the distribution has its own folder, outside the service's environment.")
    )
    enabled: bool = declared(Flag("False if none of the distribution's plugins is loaded."))
    state: str = declared(
        Choice(
            "`problem` if `problems` lists one of its plugins.",
            options=("loaded", "disabled", "problem"),
        )
    )
    accepted: tuple[AcceptedPlugin, ...] = declared(
        Json("The accepted terms of each plugin; empty if the distribution has no own folder.")
    )
    wheels: tuple[Wheel, ...] = declared(Json("The wheels in the distribution's folder."))
    trust: str | None = declared(Text("What the code can do in the service's environment."))


@resource
class PluginProblem(Answer):
    """A problem of a plugin, which may prevent it from being loaded."""

    code: str = declared(Choice("Kind; see docs/reference/plugins.md.", options=tuple(ProblemCode)))
    plugin: str = declared(Text("The entry point's name."))
    distribution: str | None = declared(Text("The plugin's distribution."))
    detail: str = declared(Text("The problem."))


@resource
class Plugins(Answer):
    """The loaded plugins, third parties' distributions, extra rules, and problems."""

    plugins: tuple[Plugin, ...] = declared(Json("The loaded plugins."))
    distributions: tuple[PluginDistribution, ...] = declared(
        Json("Installed distributions of third parties.", example=[])
    )
    guardrails: tuple[str, ...] = declared(Texts("Plugins' rules.", each="A rule's name."))
    problems: tuple[PluginProblem, ...] = declared(Json("Plugins' problems.", example=[]))


@resource
class SkillResult(Answer):
    """A skill's answer."""

    result: str = declared(Text("The skill's own text.", example="Waited: no action this cycle."))


LIST_SKILLS = Call(
    "listSkills", "GET /skills", "List the loaded skills.", Skill, name="skills", listed="skills"
)
RUN_SKILL = Call(
    "skill", "POST /wallets/{wallet_id}/skills/{name}", "Run a skill.", SkillResult, name=None
)
LIST_PLUGINS = Call(
    "listPlugins", "GET /plugins", "List plugins, and problems with them.", Plugins, name="plugins"
)


@resource
class NewSetting(Request):
    """A setting of a plugin's skill."""

    value: Any = declared(
        Shape(
            "The value, as the skill's schema requires it.",
            example=12,
            missing="value is required",
            left_out={
                "cli": "the value follows the setting's name, or comes from standard input",
                "dashboard": "one form made from the skill's schema has all settings",
            },
        )
    )


@resource
class PluginSetting(Answer):
    """A setting of a plugin's skill, without `value` if it is unset or secret."""

    name: str = declared(_SETTING)
    secret: bool = declared(Flag("Whether it is encrypted and never shown."))
    set: bool = declared(Flag("Whether it has a value.", example=True))
    value: Any = declared(Shape("The value; absent if unset or secret.", example=12), default=None)


@resource
class SkillSettings(Answer):
    """The settings of a plugin's skill; `schema` is the JSON Schema of all settings."""

    skill: str = declared(_SKILL)
    distribution: str = declared(Text("The skill's distribution.", example="acme-tools"))
    schema: Mapping[str, Any] = declared(
        Shape("The settings' JSON Schema.", form=mapping({}, ""), example={"type": "object"})
    )
    settings: tuple[PluginSetting, ...] = declared(Json("The skill's settings."))


@resource
class SettingState(Answer):
    """The state of a setting after a change."""

    skill: str = declared(_SKILL)
    name: str = declared(_SETTING)
    set: bool = declared(Flag("Whether the setting has a value now.", example=True))


@resource
class ListedEntries(Request):
    """A request for a page of entries."""

    prefix: str | None = declared(
        Shape("Only keys with this prefix.", form={"type": "string", "maxLength": MAX_KEY}),
        default=None,
    )
    after: str | None = declared(RawText("Only keys after this key.", most=MAX_KEY), default=None)
    limit: int = declared(replace(LIMIT, most=MAX_LISTED), default=50)


@resource
class PluginEntry(Answer):
    """An entry that a plugin keeps for a wallet under a key."""

    key: str = declared(_KEY)
    value: Any = declared(Shape("Any JSON.", example={"period": 20780}))
    version: int = declared(Whole("Number that grows with each write.", least=1, most=_MAX_WHOLE))
    changed_at: datetime = declared(Time("When the entry was written."))
    transaction_id: str | None = declared(Id("The record that stored the entry.", example=None))
    status: str | None = declared(Text("The record's status.", example=None))


@resource
class OneEntry(Request):
    """A request to delete an entry."""

    key: str = declared(_KEY)


@resource
class DeletedEntry(Answer):
    """The result of deleting an entry."""

    plugin: str = declared(_PLUGIN)
    key: str = declared(_KEY)
    deleted: bool = declared(Flag("Whether the entry existed.", example=True))


@resource
class OnePlugin(Request):
    """A distribution by its name."""

    plugin: str = declared(_PLUGIN)


@resource
class Purged(Answer):
    """The numbers of deleted entries and deleted settings of a distribution."""

    plugin: str = declared(_PLUGIN)
    entries: int = declared(Whole("How many entries were deleted.", most=_MAX_WHOLE))
    settings: int = declared(Whole("How many settings were deleted.", most=_MAX_WHOLE))


SHOW_SETTINGS = Call(
    "getPluginSettings",
    f"GET {_SKILLS_SETTINGS}",
    "Get the settings of a plugin's skill.",
    SkillSettings,
    name="settings",
    about="A secret's value is never shown.",
)
SET = Call(
    "setPluginSetting",
    f"PUT {_SKILLS_SETTINGS}/{{name}}",
    "Set a setting of a plugin's skill.",
    SettingState,
    body=NewSetting,
    name=None,
    takes_json=True,
    about="It applies from the skill's next call on. The audit log does not have the value.",
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
    "List the entries that a plugin keeps for a wallet.",
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
    about="The plugin may then repeat an action that the entry prevented. The audit log has the"
    " entry's key, and not its value.",
)
PURGE = Call(
    "purgePlugin",
    "DELETE /plugins/state",
    "Delete all entries of a distribution's plugins, and all settings of its skills.",
    Purged,
    query=OnePlugin,
    about="This deletes the entries of every wallet and cannot be undone. No plugin of the"
    " distribution may be loaded. Only `solward plugins remove --purge` deletes its files.",
)

"""Loaded plugins, and the skills among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from solward.resources.answers import Answer, Raw
from solward.resources.declare import Call, declared, resource
from solward.resources.fields import Choice, Flag, Json, Shape, Text, Texts, nullable
from solward.resources.schema import array, flag, response_object, text, whole
from solward.types.manifest import Manifest, ProblemCode, Terms, read_manifest, read_terms
from solward.types.skill import Effects

_DISTRIBUTION = Text("Where it comes from.", example="solward")
_VERSION = Text("The distribution's.", example="0.1.0")
_SECRET_ENV = Text("The environment variable of a provider's key.")
_BASE_URL_ENV = Text("That of an address in place of its vendor's, which gets the key.")
_MANIFEST = Shape(
    "What the plugin needs; null where it declares nothing.",
    form=response_object(
        {
            "sites": array(text("A host name, with its port where that is not 443.")),
            "operations": nullable(array(text("A name."), "Null: as effects and grants allow.")),
            "assets": nullable(array(text("A symbol or a mint."), "Null: as grants allow.")),
            "storageMb": whole("Megabytes of files.", 0),
            "secrets": array(
                response_object(
                    {
                        "env": text("The service's environment variable."),
                        "site": text("The one site that gets it."),
                        "inQuery": flag("It may stand in a query, not in headers alone."),
                    }
                )
            ),
        }
    ),
    example=None,
)
_SECRETS = Shape(
    "The secrets of its manifest, and a provider's key: whether each has a value.",
    form=array(
        response_object(
            {
                "env": text("The service's environment variable."),
                "set": flag("Whether it has a value; never the value."),
            }
        )
    ),
    example=[],
)


def _are_set(secrets: list[Raw]) -> dict[str, bool]:
    return {each["env"]: each["set"] for each in secrets}


@resource
class Skill(Answer):
    """A loaded skill."""

    name: str = declared(Text("The skill's.", example="check_balance"))
    description: str = declared(Text("What it does, for models."))
    parameters: Mapping[str, Any] = declared(Json("JSON Schema 2020-12 of its parameters."))
    effects: str = declared(Choice("What it can do.", options=tuple(Effects)))
    distribution: str = declared(_DISTRIBUTION)
    version: str = declared(_VERSION)
    manifest: Manifest | None = declared(_MANIFEST, read=read_manifest)


@resource
class Plugin(Answer):
    """A loaded plugin; the fields after `has_settings` are a provider's.

    Attributes:
        secrets: whether each of its secrets is set, by environment variable.
    """

    kind: str = declared(Choice("What it is.", options=("skill", "provider", "venue", "payment")))
    name: str = declared(Text("Its entry point's.", example="airdrop"))
    distribution: str = declared(_DISTRIBUTION)
    version: str = declared(_VERSION)
    manifest: Manifest | None = declared(_MANIFEST, read=read_manifest)
    secrets: Mapping[str, bool] = declared(_SECRETS, read=_are_set)
    has_settings: bool = declared(
        Flag("A skill that declares settings, which the operator sets."), default=False
    )
    default_model: str | None = declared(Text("Where an agent names none."), default=None)
    options: Mapping[str, Any] | None = declared(Json("JSON Schema of `llmOptions`."), default=None)
    is_llm: bool = declared(Flag("False for the rule-based demo provider."), default=True)
    secret_env: str | None = declared(_SECRET_ENV, default=None, nullable=True)
    base_url_env: str | None = declared(_BASE_URL_ENV, default=None, nullable=True)
    configured: bool = declared(Flag("Whether it has its key, or needs none."), default=True)


@resource
class AcceptedPlugin(Answer):
    """What a plugin of its own folder may have, as somebody accepted it."""

    plugin: str = declared(Text("Its entry-point group and name.", example="solward.skills:tip"))
    manifest: Manifest | None = declared(_MANIFEST, read=read_manifest)
    spends: bool = declared(Flag("A skill whose effects are SPEND."))
    secret_env: str | None = declared(_SECRET_ENV)
    base_url_env: str | None = declared(_BASE_URL_ENV)
    secrets: Mapping[str, bool] = declared(_SECRETS, read=_are_set)

    @property
    def terms(self) -> Terms:
        """All that was accepted."""
        return read_terms(self.raw)


@resource
class Wheel(Answer):
    """A file that was unpacked into a folder of plugins."""

    file: str = declared(Text("Its name."))
    sha256: str = declared(Text("Of the file."))


@resource
class PluginDistribution(Answer):
    """Where a third party's plugins are installed."""

    name: str = declared(Text("The distribution's."))
    version: str = declared(_VERSION)
    own_folder: bool = declared(
        Flag("It stands in a folder of its own, not in the service's environment.")
    )
    enabled: bool = declared(Flag("False where it is installed and nothing of it is loaded."))
    state: str = declared(
        Choice(
            "`problem`: `problems` has one of its plugins.",
            options=("loaded", "disabled", "problem"),
        )
    )
    accepted: tuple[AcceptedPlugin, ...] = declared(
        Json("What its plugins may have, as somebody accepted it; of its own folder alone.")
    )
    wheels: tuple[Wheel, ...] = declared(Json("What was unpacked into its own folder."))
    trust: str | None = declared(
        Text("What installing it in the service's environment trusts it with.")
    )


@resource
class PluginProblem(Answer):
    """A plugin that was left out, or that something is wrong with."""

    code: str = declared(Choice("See docs/plugins.md.", options=tuple(ProblemCode)))
    plugin: str = declared(Text("Its entry point's name."))
    distribution: str | None = declared(Text("Where it comes from."))
    detail: str = declared(Text("What is wrong."))


@resource
class Plugins(Answer):
    """The loaded plugins, where others' are installed, extra rules, and the plugins left out."""

    plugins: tuple[Plugin, ...] = declared(Json("What is loaded."))
    distributions: tuple[PluginDistribution, ...] = declared(
        Json("Where third parties' plugins are installed.", example=[])
    )
    guardrails: tuple[str, ...] = declared(Texts("Plugins' rules.", each="A rule's name."))
    problems: tuple[PluginProblem, ...] = declared(Json("What is wrong.", example=[]))


@resource
class SkillResult(Answer):
    """What a skill answered."""

    result: str = declared(Text("The skill's own text.", example="Waited: no action this cycle."))


LIST_SKILLS = Call(
    "listSkills",
    "GET /skills",
    "The loaded skills with their schemas.",
    Skill,
    name="skills",
    listed="skills",
)
RUN_SKILL = Call(
    "skill", "POST /wallets/{wallet_id}/skills/{name}", "Run a skill.", SkillResult, name=None
)
LIST_PLUGINS = Call(
    "listPlugins",
    "GET /plugins",
    "Loaded plugins, extra guardrails, and plugins that were left out.",
    Plugins,
    name="plugins",
)
CALLS = (LIST_SKILLS, LIST_PLUGINS)

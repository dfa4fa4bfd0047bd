"""The service's answers about agents, API keys, skills and plugins, typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from solward.resources.answers import Answer, Raw, named, whole
from solward.types.manifest import Manifest, Terms, read_manifest, read_terms


@dataclass(frozen=True, slots=True)
class AgentTemplate(Answer):
    """A starting point of agents.

    Attributes:
        grants: documents; none of them: it signs nothing.
        sentences: the grants in words.
        can_leave: the most that this agent alone can move out of a wallet in any 24 hours:
            `assets`, name -> `most` in whole units, and `sentence`.
    """

    name: str
    title: str
    summary: str
    strategy: str
    loop_interval_ms: int
    guardrails: Mapping[str, Any]
    grants: tuple[Mapping[str, Any], ...]
    sentences: tuple[str, ...]
    can_leave: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Skill(Answer):
    """A loaded skill.

    Attributes:
        parameters: their JSON Schema.
        effects: `read` or `spend`.
        manifest: what it needs; None where it declares nothing.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    effects: str
    distribution: str
    version: str
    manifest: Manifest | None = field(metadata=named("manifest", read_manifest))


def _secrets(raw: Raw) -> dict[str, bool]:
    return {each["env"]: each["set"] for each in raw.get("secrets", ())}


@dataclass(frozen=True, slots=True)
class Plugin(Answer):
    """A loaded plugin; the fields after `secrets` are a provider's.

    Attributes:
        manifest: what it needs; None where it declares nothing.
        secrets: whether each of its secrets is set, by environment variable.
        options: JSON Schema of an agent's `llm_options`.
        is_llm: False when it is not a language model.
        secret_env: the environment variable of its key; None when it needs none.
        base_url_env: that of an address in place of its vendor's; None when it cannot be changed.
        configured: whether it has its key, or needs none.
        has_settings: whether it is a skill that declares settings.
    """

    kind: str
    name: str
    distribution: str
    version: str
    manifest: Manifest | None = field(metadata=named("manifest", read_manifest))
    secrets: Mapping[str, bool] = field(metadata=whole(_secrets))
    default_model: str | None
    options: Mapping[str, Any] | None
    is_llm: bool = field(default=True, kw_only=True)
    secret_env: str | None
    base_url_env: str | None
    configured: bool = field(default=True, kw_only=True)
    has_settings: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class PluginProblem(Answer):
    """A plugin that was left out, and why; docs/plugins.md lists the codes."""

    code: str
    plugin: str
    distribution: str | None
    detail: str


@dataclass(frozen=True, slots=True)
class AcceptedPlugin(Answer):
    """What a plugin of its own folder may have, as somebody accepted it.

    Attributes:
        plugin: its entry-point group and name, such as `solward.skills:tip`.
        secrets: whether each of its secrets is set, by environment variable.
    """

    plugin: str
    terms: Terms = field(metadata=whole(read_terms))
    secrets: Mapping[str, bool] = field(metadata=whole(_secrets))


@dataclass(frozen=True, slots=True)
class PluginDistribution(Answer):
    """Where a third party's plugins are installed.

    Attributes:
        own_folder: in a folder of their own, not in the service's environment.
        state: `loaded`, `disabled`, or `problem` where one of its plugins is left out.
        accepted: what its plugins may have; empty in the service's environment.
        trust: what installing it in the service's environment trusts it with.
    """

    name: str
    version: str
    own_folder: bool
    enabled: bool
    state: str
    accepted: tuple[AcceptedPlugin, ...]
    trust: str | None


@dataclass(frozen=True, slots=True)
class Plugins(Answer):
    """The loaded plugins, where others' are installed, extra rules, and the plugins left out."""

    plugins: tuple[Plugin, ...]
    distributions: tuple[PluginDistribution, ...] = field(default=(), kw_only=True)
    guardrails: tuple[str, ...]
    problems: tuple[PluginProblem, ...]

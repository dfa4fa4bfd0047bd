"""The service's answers about agents, API keys, skills and plugins, typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from solward.client.models import Raw, moment
from solward.types.manifest import Manifest, Terms, read_manifest, read_terms


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent; `status` is idle, running, paused, stopped or error.

    Attributes:
        guardrails: its own limits, in SOL.
        is_llm: False when its provider is not a language model.
        error: why its last cycle failed.
    """

    id: str
    name: str
    wallet_id: str
    status: str
    llm_provider: str
    llm_model: str
    strategy: str
    loop_interval_ms: int
    guardrails: Mapping[str, Any]
    llm_options: Mapping[str, Any]
    llm_budget: Mapping[str, Any]
    is_llm: bool
    created_at: datetime
    error: str | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> Agent:
        """From one agent's JSON."""
        return cls(
            id=raw["id"],
            name=raw["name"],
            wallet_id=raw["walletId"],
            status=raw["status"],
            llm_provider=raw["llmProvider"],
            llm_model=raw["llmModel"],
            strategy=raw["strategy"],
            loop_interval_ms=raw["loopIntervalMs"],
            guardrails=raw["guardrails"],
            llm_options=raw.get("llmOptions", {}),
            llm_budget=raw.get("llmBudget", {}),
            is_llm=raw.get("isLlm", True),
            created_at=moment(raw["createdAt"]),
            error=raw.get("error"),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class TemplatePreview:
    """What an agent of a template would be.

    Attributes:
        parameters: the values, those that were left out as well.
        grants: documents; none of them: it signs nothing.
        sentences: the grants in words.
        can_leave: the most that this agent alone can move out of a wallet in any 24 hours:
            `assets`, name -> `most` in whole units, and `sentence`.
    """

    parameters: Mapping[str, Any]
    strategy: str
    loop_interval_ms: int
    guardrails: Mapping[str, Any]
    grants: tuple[Mapping[str, Any], ...]
    sentences: tuple[str, ...]
    can_leave: Mapping[str, Any]
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> TemplatePreview:
        """From one preview's JSON."""
        return cls(
            parameters=raw["parameters"],
            strategy=raw["strategy"],
            loop_interval_ms=raw["loopIntervalMs"],
            guardrails=raw["guardrails"],
            grants=tuple(raw["grants"]),
            sentences=tuple(raw["sentences"]),
            can_leave=raw["canLeave"],
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class AgentTemplate:
    """A starting point of agents.

    Attributes:
        skills: those that it cannot do without.
        missing_skills: of these, those that are not loaded.
        parameters: JSON Schema of its parameters.
        example: what it comes to with example values; None where the network lacks a token.
    """

    name: str
    title: str
    summary: str
    skills: tuple[str, ...]
    missing_skills: tuple[str, ...]
    parameters: Mapping[str, Any]
    example: TemplatePreview | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> AgentTemplate:
        """From one template's JSON."""
        example = raw["example"]
        return cls(
            name=raw["name"],
            title=raw["title"],
            summary=raw["summary"],
            skills=tuple(raw["skills"]),
            missing_skills=tuple(raw["missingSkills"]),
            parameters=raw["parameters"],
            example=None if example is None else TemplatePreview.of(example),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """One cycle of an agent; `action` is the skill and its parameters, None where it waited."""

    agent_id: str
    cycle: int
    observations: Mapping[str, Any]
    reasoning: str
    action: str | None
    outcome: str
    timestamp: datetime
    usage: Mapping[str, Any] | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> Decision:
        """From a decision's JSON."""
        return cls(
            agent_id=raw["agentId"],
            cycle=raw["cycle"],
            observations=raw["observations"],
            reasoning=raw["reasoning"],
            action=raw["action"],
            outcome=raw["outcome"],
            timestamp=moment(raw["timestamp"]),
            usage=raw.get("usage"),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class Memory:
    """An agent's memory of one cycle."""

    cycle: int
    reasoning: str
    action: str | None
    outcome: str
    timestamp: datetime
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> Memory:
        """From a memory entry's JSON."""
        return cls(
            cycle=raw["cycle"],
            reasoning=raw["reasoning"],
            action=raw["action"],
            outcome=raw["outcome"],
            timestamp=moment(raw["timestamp"]),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key's record, without the key; `wallet_id` is the only wallet it may use.

    Attributes:
        details: with `keys.list(details=True)`, else None.
    """

    id: str
    name: str
    wallet_id: str | None
    permissions: tuple[str, ...]
    created_at: datetime
    last_used_at: datetime | None
    details: KeyDetails | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> ApiKey:
        """From one key of a list."""
        return cls(
            id=raw["id"],
            name=raw["name"],
            wallet_id=raw["walletId"],
            permissions=tuple(raw["permissions"]),
            created_at=moment(raw["createdAt"]),
            last_used_at=_moment(raw["lastUsedAt"]),
            details=KeyDetails.of(raw) if "rateLimit" in raw else None,
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class KeyDetails:
    """When a key ends, its limits, and what is used of each.

    Attributes:
        expires_at: when it ends by itself; None is never.
        rotated_at: when it got its present secret; None where that is its first.
        previous_secret_until: until when the secret before works, or worked.
        rate_limit: `limit`, `used` and `left` transaction requests of the last minute.
        spending_limit_sol: `limit`, `spent`, `reserved` and `left` SOL of the last 24 hours.
        max_costs_sol_per_day: the same of fees and rent.
        grants: what it may do, as JSON; None where it is not under grants.
        sentences: what they say.
    """

    expires_at: datetime | None
    rotated_at: datetime | None
    previous_secret_until: datetime | None
    rate_limit: Mapping[str, Any]
    spending_limit_sol: Mapping[str, Any]
    max_costs_sol_per_day: Mapping[str, Any]
    grants: tuple[Mapping[str, Any], ...] | None
    sentences: tuple[str, ...]

    @classmethod
    def of(cls, raw: Raw) -> KeyDetails:
        """From one key of a detailed list."""
        return cls(
            expires_at=_moment(raw["expiresAt"]),
            rotated_at=_moment(raw["rotatedAt"]),
            previous_secret_until=_moment(raw["previousSecretUntil"]),
            rate_limit=raw["rateLimit"],
            spending_limit_sol=raw["spendingLimitSol"],
            max_costs_sol_per_day=raw["maxCostsSolPerDay"],
            grants=None if raw.get("grants") is None else tuple(raw["grants"]),
            sentences=tuple(raw.get("sentences", ())),
        )


def _moment(text: str | None) -> datetime | None:
    return None if text is None else moment(text)


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A new API key, or a key's new secret. `api_key` is returned only here; `raw` has it too."""

    api_key: str = field(repr=False)
    id: str
    name: str
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> CreatedKey:
        """From the answer to its creation or rotation."""
        return cls(raw["apiKey"], raw["id"], raw["name"], raw)


@dataclass(frozen=True, slots=True)
class Skill:
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
    manifest: Manifest | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> Skill:
        """From one skill of a list."""
        return cls(
            name=raw["name"],
            description=raw["description"],
            parameters=raw["parameters"],
            effects=raw["effects"],
            distribution=raw["distribution"],
            version=raw["version"],
            manifest=read_manifest(raw.get("manifest")),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class Plugin:
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
    manifest: Manifest | None
    secrets: Mapping[str, bool]
    default_model: str | None
    options: Mapping[str, Any] | None
    is_llm: bool
    secret_env: str | None
    base_url_env: str | None
    configured: bool
    has_settings: bool
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> Plugin:
        """From one plugin of a report."""
        return cls(
            kind=raw["kind"],
            name=raw["name"],
            distribution=raw["distribution"],
            version=raw["version"],
            manifest=read_manifest(raw.get("manifest")),
            secrets=_secrets(raw),
            default_model=raw.get("defaultModel"),
            options=raw.get("options"),
            is_llm=raw.get("isLlm", True),
            secret_env=raw.get("secretEnv"),
            base_url_env=raw.get("baseUrlEnv"),
            configured=raw.get("configured", True),
            has_settings=raw.get("hasSettings", False),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class PluginProblem:
    """A plugin that was left out, and why; docs/plugins.md lists the codes."""

    code: str
    plugin: str
    distribution: str | None
    detail: str
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> PluginProblem:
        """From one problem of a report."""
        return cls(raw["code"], raw["plugin"], raw["distribution"], raw["detail"], raw)


@dataclass(frozen=True, slots=True)
class AcceptedPlugin:
    """What a plugin of its own folder may have, as somebody accepted it.

    Attributes:
        plugin: its entry-point group and name, such as `solward.skills:tip`.
        secrets: whether each of its secrets is set, by environment variable.
    """

    plugin: str
    terms: Terms
    secrets: Mapping[str, bool]
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> AcceptedPlugin:
        """From one of a distribution's."""
        return cls(raw["plugin"], read_terms(raw), _secrets(raw), raw)


@dataclass(frozen=True, slots=True)
class PluginDistribution:
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
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> PluginDistribution:
        """From one distribution of a report."""
        return cls(
            name=raw["name"],
            version=raw["version"],
            own_folder=raw["ownFolder"],
            enabled=raw["enabled"],
            state=raw["state"],
            accepted=tuple(map(AcceptedPlugin.of, raw["accepted"])),
            trust=raw["trust"],
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class Plugins:
    """The loaded plugins, where others' are installed, extra rules, and the plugins left out."""

    plugins: tuple[Plugin, ...]
    distributions: tuple[PluginDistribution, ...]
    guardrails: tuple[str, ...]
    problems: tuple[PluginProblem, ...]
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> Plugins:
        """From the answer of `GET /plugins`."""
        return cls(
            plugins=tuple(map(Plugin.of, raw["plugins"])),
            distributions=tuple(map(PluginDistribution.of, raw.get("distributions", ()))),
            guardrails=tuple(raw["guardrails"]),
            problems=tuple(map(PluginProblem.of, raw["problems"])),
            raw=raw,
        )


def _secrets(raw: Raw) -> dict[str, bool]:
    return {each["env"]: each["set"] for each in raw.get("secrets", ())}

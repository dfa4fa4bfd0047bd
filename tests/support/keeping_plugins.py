"""Skills that keep state, as modules of two distributions that are not installed."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

from solward import Effects, SkillContext, SkillSpec, hookimpl
from solward.plugins import LoadedSkill
from solward.testing import TestWallet


def module(
    name: str = "keeps", effects: Effects = Effects.SPEND, settings: Any = None
) -> ModuleType:
    """A skill without parameters that does nothing; its context is what a test works with."""
    made: Any = ModuleType(name)

    @hookimpl
    def skill_spec() -> SkillSpec:
        return SkillSpec(
            name=name,
            description="Keeps.",
            parameters={"type": "object", "additionalProperties": False},
            effects=effects,
            settings=settings,
        )

    @hookimpl
    async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
        return "done"

    made.skill_spec, made.skill_execute = skill_spec, skill_execute
    return made  # type: ignore[no-any-return]


def skill_of(
    wallet: TestWallet, distribution: str, effects: Effects = Effects.SPEND
) -> LoadedSkill:
    """The skill as one of a distribution."""
    loaded = wallet.stand.skill(module(effects=effects))
    return replace(loaded, distribution=distribution)


def context_of(
    wallet: TestWallet, distribution: str = "keeper", effects: Effects = Effects.SPEND
) -> SkillContext:
    """A context of a plugin of a distribution on a wallet."""
    return wallet.context(skill_of(wallet, distribution, effects))

"""The template that a request names, and whether it can work on this service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from solward.agents.templates.built_in import TEMPLATES
from solward.agents.templates.template import AgentTemplate
from solward.plugins import Registry
from solward.types.errors import InvalidRequest


def template_of(body: Mapping[str, Any]) -> AgentTemplate | None:
    """The template that a create body names; None where it names none.

    Raises:
        InvalidRequest: there is no such template, or parameters without one.
    """
    name = body.get("template")
    if name is None:
        if body.get("templateParameters") is not None:
            raise InvalidRequest("templateParameters needs a template")
        return None
    if not isinstance(name, str) or name not in TEMPLATES:
        raise InvalidRequest(f"template must be one of: {', '.join(TEMPLATES)}")
    return TEMPLATES[name]


def missing_skills(template: AgentTemplate, registry: Registry) -> list[str]:
    """The skills that a template needs and that are not loaded."""
    return [each for each in template.skills if each not in registry.skills]


def check_fits(
    template: AgentTemplate, registry: Registry, provider: str, has_strategy: bool
) -> None:
    """Raise `InvalidRequest` where an agent of a template could not work.

    Args:
        provider: one that is loaded.
        has_strategy: the request has a strategy of its own in place of the template's.
    """
    missing = missing_skills(template, registry)
    if missing:
        raise InvalidRequest(
            f"The template {template.name} needs skills that are not loaded: {', '.join(missing)}"
        )
    if not registry.providers[provider].spec.is_llm and not has_strategy:
        raise InvalidRequest(
            f"The strategy of the template {template.name} is for a language model, and the"
            f" provider {provider!r} is none; give another llmProvider, or a strategy"
        )

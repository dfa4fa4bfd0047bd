"""solward_plugin_template: a provider that runs one skill every few cycles.

It is no language model and calls nobody, so that agents on it are the same every time. A provider
of a vendor names its variables in `secret_env` and `base_url_env`, takes a third argument
`context: ProviderContext` that lends their values, and turns what goes wrong into `ProviderError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from solward import (
    Completion,
    CompletionRequest,
    ProviderError,
    ProviderSpec,
    ToolCall,
    hookimpl,
)


@hookimpl
def provider_spec() -> ProviderSpec:
    """The strategy of its agents is the name of a skill that needs no parameters."""
    return ProviderSpec(
        name="solward_plugin_template",
        default_model="every-few-cycles",
        options={
            "type": "object",
            "properties": {
                "every": {
                    "type": "integer",
                    "description": "Cycles from one call to the next.",
                    "minimum": 1,
                    "default": 2,
                },
            },
            "additionalProperties": False,
        },
        is_llm=False,
    )


@hookimpl
async def provider_complete(request: CompletionRequest, options: Mapping[str, Any]) -> Completion:
    """The skill when its cycle has come; otherwise text alone, which waits."""
    skill = request.strategy.strip()
    if skill not in {tool.name for tool in request.tools} and request.tools:
        raise ProviderError(f"The strategy must be the name of a skill, not {skill[:100]!r}")
    if "cycle" not in request.observation:
        return Completion(f"I call {skill} every {options['every']} cycles.")
    left = request.observation["cycle"] % options["every"]
    if left:
        return Completion(f"Waiting: {options['every'] - left} more cycles.")
    return Completion(f"It is time for {skill}.", (ToolCall(skill, {}),))

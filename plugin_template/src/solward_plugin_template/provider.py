"""solward_plugin_template: a provider that runs one skill every few cycles.

It is no language model and calls nobody, so that agents on it are the same every time. A provider
of a vendor names its variables in `secret_env` and `base_url_env`, takes a third argument
`context: ProviderContext` that lends their values, and turns what goes wrong into `ProviderError`.
Its manifest names the vendor's host and the key that goes there:
`Manifest(sites=("api.example.com",), secrets=(Secret("EXAMPLE_API_KEY", "api.example.com"),))`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from solward import (
    Completion,
    CompletionRequest,
    Manifest,
    ProviderError,
    ProviderSpec,
    ToolCall,
    hookimpl,
)


@hookimpl
def provider_spec() -> ProviderSpec:
    """Declare a provider whose strategies name a skill without parameters, as in `run wait`."""
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
        manifest=Manifest(),
    )


@hookimpl
async def provider_complete(request: CompletionRequest, options: Mapping[str, Any]) -> Completion:
    """Return the skill's call in its cycles, and only text in the others, which waits."""
    if "cycle" not in request.observation:
        return Completion(f"I am no language model. My strategy is: {request.strategy}")
    skills = {tool.name for tool in request.tools}
    skill = next((word for word in request.strategy.split() if word in skills), None)
    if skill is None:
        raise ProviderError("The strategy names no skill that is installed")
    passed = request.observation["cycle"] % options["every"]
    if passed:
        return Completion(f"Waiting: cycles until {skill}: {options['every'] - passed}.")
    return Completion(f"It is time for {skill}.", (ToolCall(skill, {}),))

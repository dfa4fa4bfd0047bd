"""A provider that thinks for a given time and then waits; `benchmarks.scale` installs it.

It is a third party's distribution on a path, so that every process of a benchmark, embedded or
distributed, asks the same model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from solward import Completion, CompletionRequest, ProviderSpec, ToolCall, hookimpl

NAME = "scripted"


@hookimpl
def provider_spec() -> ProviderSpec:
    """One option: `seconds`, how long an answer takes."""
    return ProviderSpec(
        name=NAME,
        default_model=NAME,
        options={
            "type": "object",
            "properties": {"seconds": {"type": "number", "minimum": 0}},
            "additionalProperties": False,
        },
        is_llm=False,
    )


@hookimpl
async def provider_complete(request: CompletionRequest, options: Mapping[str, Any]) -> Completion:
    """Wait, as the agents of `benchmarks.fleet` do."""
    await asyncio.sleep(float(options.get("seconds", 0)))
    return Completion("Nothing to do.", (ToolCall("wait", {}),))


def installed(folder: Path) -> str:
    """Install it for processes whose PYTHONPATH is the answer."""
    information = folder / "scripted_provider-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: scripted-provider\nVersion: 1.0\n"
    )
    (information / "entry_points.txt").write_text(
        f"[solward.providers]\n{NAME} = benchmarks.scripted_provider\n"
    )
    return f"{folder}:{Path(__file__).parents[1]}"

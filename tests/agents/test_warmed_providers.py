"""Which providers a service warms when it starts: those that somebody may soon wait for."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from tests.support.agents import hire
from tests.support.services import settings

from solward.agents import store as agent_store
from solward.hosts.models import ModelHosts
from solward.service.service import Solward


@pytest.mark.more
async def test_those_of_agents_that_run_and_the_default_one_where_it_has_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmed: list[Collection[str]] = []

    def warm(_hosts: ModelHosts, names: Collection[str], after_s: float = 0.0) -> None:
        warmed.append(set(names))

    monkeypatch.setattr(ModelHosts, "warm", warm)

    async def opened(**given: Any) -> Collection[str]:
        async with Solward.open(settings(tmp_path / "home", **given)) as service:
            # None runs a cycle: what is meant to run is set at the end.
            for agent in await service.agents.list():
                await service.agents.stop(agent.id)
        return warmed[-1]

    async with Solward.open(settings(tmp_path / "home")) as service:
        for provider in ("anthropic", "anthropic", "gemini"):
            await hire(service, provider)
        runs, *_ = await service.agents.list()
        async with service.database.write() as connection:
            hour = {"desired_state": "running", "next_run_ms": 2**52}
            await agent_store.update_agent(connection, runs.id, hour)
    assert warmed == [set()]
    assert await opened() == {"anthropic"}
    assert await opened() == set()
    assert await opened(default_llm_provider="openai") == set()
    assert await opened(default_llm_provider="openai", openai_api_key="k") == {"openai"}
    assert await opened(openai_api_key="k") == set()

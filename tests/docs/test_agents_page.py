"""The pages of agents show them, their limits and usage with the fields they have."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.agents import AGENT
from tests.support.repository import DOCS
from tests.support.services import Api, serving_api

from solward.agents.agent import TokensUsed, usage_json
from solward.agents.think import MAX_OBSERVATION, MAX_OUTCOME, MAX_REASONING, system_prompt
from solward.resources.agents import LlmBudget
from solward.resources.declare import fields_of
from solward.types.provider import Usage

REST = (DOCS / "reference/rest.md").read_text()
AGENTS = (DOCS / "how-to/agents.md").read_text()


def samples() -> list[dict[str, Any]]:
    """Every object of the page's JSON samples."""
    decoder, found = json.JSONDecoder(), []
    for text in re.findall(r"^```json\n(.*?)^```$", REST, re.MULTILINE | re.DOTALL):
        rest = text.strip()
        while rest:
            value, end = decoder.raw_decode(rest)
            found.append(value)
            rest = rest[end:].lstrip()
    return found


def test_the_sample_agent_has_every_field() -> None:
    (shown,) = [each for each in samples() if "loopIntervalMs" in each]
    assert shown.keys() == AGENT.to_json().keys()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with serving_api(tmp_path / "home", demo=True) as made:
        yield made


async def test_the_sample_limits_have_every_field(api: Api) -> None:
    wallet = await api.wallet()
    body = {"name": "a", "walletId": wallet, "llmProvider": "rules", "llmModel": "rules"}
    agent = (await api.post("/agents", body | {"strategy": "always do wait"})).json["id"]
    real = (await api.get(f"/agents/{agent}/limits")).json
    (shown,) = [each for each in samples() if "agentId" in each]
    assert shown.keys() == real.keys()
    assert shown["model"]["lastDay"].keys() == TokensUsed().to_json().keys()


def test_every_budget_field_and_usage_field_is_explained() -> None:
    for field in (each.json for each in fields_of(LlmBudget)):
        assert f"`{field}`" in REST
        assert f"| `{field}` |" in AGENTS
    for field in usage_json(Usage()):
        assert f'"{field}"' in REST
        assert f"`{field}`" in AGENTS


def test_what_the_page_says_of_blocks_is_what_the_prompt_does() -> None:
    prompt = system_prompt(AGENT, "localnet")
    for kind in ("<observation>", "<memory>", "<message>"):
        assert f"`{kind}`" in AGENTS
        assert kind in prompt
    for number in (MAX_OUTCOME, MAX_REASONING, MAX_OBSERVATION):
        assert f"{number:,}" in AGENTS

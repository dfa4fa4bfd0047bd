"""Cycles with a real, very small model behind the `openai` provider: the plumbing, no wisdom."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.agents import AGENT, Notebook, Scripted, Skills, done, parts
from tests.support.models import loaded, registry

from solward import Completion, CompletionRequest, ProviderContext
from solward.agents.cycle import run_cycle

CYCLES = 10
MOST_TOKENS = 24
SKILLS = ("check_balance", "wait")

pytestmark = pytest.mark.llm


@pytest.fixture
def address() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("local_model.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        told = next((line for line in process.stdout if line.startswith('{"url"')), None)
        assert told is not None, "the model's server did not start"
        yield json.loads(told)["url"] + "/v1"
    finally:
        process.kill()
        process.communicate()


async def test_cycles_with_a_real_model_complete_whatever_it_says(address: str) -> None:
    answers: list[Completion] = []

    async def ask(request: CompletionRequest) -> Completion:
        options = {"maxTokens": MOST_TOKENS, "temperature": 0}
        answer = await loaded("openai").complete(request, options, ProviderContext(None, address))
        answers.append(answer)
        return answer

    agent = replace(AGENT, llm_provider="openai", llm_model="smollm2-135m-instruct")
    notebook, skills = Notebook(agent), Skills(done)
    tools = tuple(tool for tool in registry().tools() if tool.name in SKILLS)
    ready = replace(
        parts(Scripted(), notebook, skills), provider=lambda agent: ask, tools=lambda: tools
    )
    for cycle in range(1, CYCLES + 1):
        await run_cycle("a1", cycle, ready)

    assert len(notebook.decisions) == len(answers) == CYCLES
    assert [result.error for result in notebook.results] == [None] * CYCLES
    assert all(answer.text or answer.tool_calls for answer in answers)
    for answer in answers:
        assert answer.usage is not None
        assert 0 < answer.usage.output_tokens <= MOST_TOKENS
        assert answer.usage.input_tokens > 100
        assert answer.usage.cost_nanousd is None

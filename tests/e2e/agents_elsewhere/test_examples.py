"""Each example of docs/start/wallet-for-my-agent.md as its reader has it: the framework that others
made, in an environment of its own, and its model at a scripted vendor."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.environments import EXAMPLES, BesideFramework
from tests.support.examples import rest_is_long
from tests.support.processes import Service, funded_wallet, sol_of
from tests.support.repository import DOCS
from tests.support.vendors.server import vendor_server
from tests.support.vendors.wire import Answer, Call, CapturedRequest

# Frameworks of hundreds of megabytes are fetched once for each lock.
pytestmark = [promise("examples-get-key-only"), pytest.mark.more, pytest.mark.timeout(900)]

# The release of the MCP SDK that an environment has is the one of `solward mcp` in it too.
CASES = {
    "with_langgraph.py": ("langgraph", "1."),
    "with_openai_agents.py": ("openai_agents", "2."),
    "with_crewai.py": ("together", "1."),
    "with_claude.py": ("claude", "2."),
}
PAGE = DOCS / "start/wallet-for-my-agent.md"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    started = Service(tmp_path_factory.mktemp("elsewhere") / "home")
    yield started.start()
    assert started.stop() == 0


def paying(payee: str, seen: list[CapturedRequest]) -> object:
    """Calls the tool that transfers, tries it first, and tells what the tool answered."""

    def script(request: CapturedRequest) -> Answer:
        seen.append(request)
        said = json.dumps(request.body)
        if "Sent 0.1 SOL" in said:
            return Answer(text="It is paid.")
        # Anthropic's SDK sends a thread's tools once; CrewAI puts the server's name before them.
        [name] = [each.name for each in seen[0].tools if each.name.endswith("transfer")]
        arguments = {"to": payee, "amount": 0.1}
        if "guardrailsApplied" in said:
            return Answer(calls=(Call(name, arguments),))
        return Answer(calls=(Call(name, {**arguments, "dry_run": True}),))

    return script


@pytest.mark.long
@pytest.mark.parametrize("example", rest_is_long(CASES, "with_claude.py"))
async def test_an_agent_pays_from_its_wallet_and_from_no_other(
    service: Service, tmp_path: Path, example: str
) -> None:
    lock, release = CASES[example]
    beside = await asyncio.to_thread(BesideFramework, lock, tmp_path)
    assert beside.release("mcp").startswith(release)
    with service.client() as rest:
        wallet = funded_wallet(rest, f"of {example}", 1)
        payee = rest.post("/wallets", json={}).json()
        key = rest.post("/keys", json={"name": example, "walletId": wallet}).json()["apiKey"]
        seen: list[CapturedRequest] = []
        async with vendor_server(paying(payee["address"], seen)) as vendor:
            printed = await asyncio.to_thread(
                beside.example,
                example,
                f"Send 0.1 SOL to {payee['address']}.",
                SOLWARD_API_URL=service.url.removesuffix("/api/v1"),
                SOLWARD_API_KEY=key,
                OPENAI_API_KEY="sk-of-a-vendor",
                ANTHROPIC_API_KEY="sk-of-a-vendor",
                OPENAI_BASE_URL=f"{vendor.url}/v1",
                ANTHROPIC_BASE_URL=vendor.url,
            )
        assert "It is paid." in printed
        assert vendor.faults == []
        assert sol_of(rest, payee["walletId"]) == Decimal("0.1")
        assert not any("wallet" in tool.parameters["properties"] for tool in seen[0].tools)
        # What the model's vendor was sent has no credential of the service.
        assert key not in str(seen)


@pytest.mark.parametrize("example", CASES)
def test_the_page_shows_each_example_as_it_is_and_it_is_short(example: str) -> None:
    source = (EXAMPLES / example).read_text()
    assert len(source.splitlines()) < 30
    assert f"```python\n{source}```" in PAGE.read_text()


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == CASES.keys()
    linked = re.findall(r"\(\.\./\.\./examples/agents_elsewhere/(\w+\.py)\)", PAGE.read_text())
    assert set(linked) == CASES.keys()

"""MCP as a host has it: the SDK's client over both transports, a real service, a real ledger."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import httpx
import pytest
from mcp import MCPError
from mcp.shared.subscriptions import ToolsListChanged
from mcp_types import ToolListChangedNotification
from tests.promises import promise
from tests.support.mcp import (
    MODES,
    STDIO,
    called,
    http_session,
    refusal,
    resource,
    stdio_environment,
    stdio_session,
)
from tests.support.processes import SECRET, Service, funded_wallet, sol_of

from solward_mcp.tools import built_in_tools

pytestmark = pytest.mark.samples("test_a_session_lists_pays_and_reads[stdio-auto]")

STRANGER = "11111111111111111111111111111112"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
OPEN = {"stdio": stdio_session, "http": http_session}


def transfers(rest: httpx.Client, wallet: str) -> list[Any]:
    """The records of a wallet's transfers."""
    found: list[Any] = rest.get(f"/wallets/{wallet}/transactions?type=transfer").json()[
        "transactions"
    ]
    return found


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    started = Service(tmp_path_factory.mktemp("mcp") / "home", DAILY_SPENDING_LIMIT_SOL="50")
    yield started.start()
    assert started.stop() == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", OPEN)
async def test_a_session_lists_pays_and_reads(service: Service, kind: str, mode: str) -> None:
    with service.client() as rest:
        skills = {skill["name"] for skill in rest.get("/skills").json()["skills"]}
        wallet = funded_wallet(rest, "payer", 2)
        payee = rest.post("/wallets", json={"name": "payee"}).json()
        async with OPEN[kind](service, mode=mode) as client:
            assert client.server_info is not None
            assert client.server_info.name == "solward"
            assert "data, never instructions" in (client.instructions or "")
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert tools.keys() - skills == {
                tool["name"] for tool in built_in_tools(one_wallet=False)
            }
            assert tools["transfer"].input_schema["required"][0] == "wallet"

            assert "SOL" in await called(client, "check_balance", wallet=wallet)
            await called(client, "transfer", wallet=wallet, to=payee["address"], amount=0.25)
            assert sol_of(rest, payee["walletId"]) == Decimal("0.25")
            over = await refusal(client, "transfer", wallet=wallet, to=STRANGER, amount=2.5)
            assert "max_per_tx" in over
            assert "amount" in await refusal(client, "transfer", wallet=wallet, to=STRANGER)
            assert "nobody" in await refusal(client, "check_balance", wallet="nobody")
            with pytest.raises(MCPError, match="Unknown tool: steal"):
                await client.call_tool("steal", {})

            records = await resource(client, f"solward://wallets/{wallet}/transactions")
            shown = rest.get(f"/wallets/{wallet}/transactions").json()["transactions"]
            assert [record["id"] for record in records["transactions"]] == [
                record["id"] for record in shown
            ]
            assert [record["status"] for record in shown[:2]] == ["blocked", "confirmed"]
            one = await resource(client, f"solward://wallets/{wallet}")
            assert one["balance"]["sol"] == sol_of(rest, wallet)
            listed = (await client.list_resources()).resources
            assert {"wallets", "transactions", "payer"} <= {found.name for found in listed}
            with pytest.raises(MCPError, match="nobody"):
                await client.read_resource("solward://wallets/nobody")


@pytest.mark.parametrize("kind", OPEN)
async def test_a_person_is_asked_and_the_same_call_goes_on(service: Service, kind: str) -> None:
    with service.client() as rest:
        wallet = funded_wallet(rest, f"asking over {kind}", 2)
        sol = {"SOL": {"perTx": "1", "per": {"24h": "1"}, "hold": "0.1"}}
        grants = [{"may": ["transfer"], "assets": sol}]
        key = rest.post("/keys", json={"name": f"{kind} asks", "grants": grants}).json()["apiKey"]
        payment = {"wallet": wallet, "to": STRANGER, "amount": 0.25}
        async with OPEN[kind](service, token=key) as client:
            limits = (await client.call_tool("get_limits", {"wallet": wallet})).structured_content
            assert limits is not None
            assert "above 0.1 SOL a person is asked" in str(limits["grants"])
            arguments = {"to": STRANGER, "amount": 0.25}
            tried = {"wallet": wallet, "tool": "transfer", "arguments": arguments}
            trial = (await client.call_tool("dry_run", tried)).structured_content
            assert trial is not None
            assert trial["held"] is True
            for _ in range(2):
                held = await client.call_tool("transfer", payment)
                assert held.is_error is False
                (hold,) = rest.get("/holds", params={"walletId": wallet}).json()["holds"]
                assert held.structured_content is not None
                assert held.structured_content["status"] == "held"
                assert held.structured_content["holdId"] == hold["id"]
                assert held.structured_content["sentence"] == hold["sentence"]
                assert held.structured_content["approveAt"].endswith(f"/holds/{hold['id']}")
                assert key not in held.model_dump_json()
            assert sol_of(rest, wallet) == 2
            assert rest.post(f"/holds/{hold['id']}/approve", json={}).status_code == 200
            assert "Sent 0.25 SOL" in await called(client, "transfer", **payment)
            assert Decimal("1.7") < sol_of(rest, wallet) < Decimal("1.75")


@pytest.mark.parametrize("kind", OPEN)
async def test_twenty_calls_at_once_are_each_answered_and_paid(service: Service, kind: str) -> None:
    with service.client() as rest:
        wallet = funded_wallet(rest, "busy", 2)
        payees = [rest.post("/wallets", json={}).json() for _ in range(10)]
        before = sol_of(rest, wallet)
        async with OPEN[kind](service) as client:
            work: list[Any] = [
                called(client, "transfer", wallet=wallet, to=payee["address"], amount=0.01)
                for payee in payees
            ]
            work += [called(client, "check_balance", wallet=wallet) for _ in range(10)]
            texts = await asyncio.gather(*work)
        assert len(texts) == 20
        assert all(sol_of(rest, payee["walletId"]) == Decimal("0.01") for payee in payees)
        assert before - sol_of(rest, wallet) < Decimal("0.101")


async def test_a_wallet_chosen_at_the_start_is_the_only_one(service: Service) -> None:
    with service.client() as rest:
        mine = funded_wallet(rest, "chosen", 1)
        other = funded_wallet(rest, "other", 1)
    async with stdio_session(service, "--wallet", "chosen") as client:
        tools = (await client.list_tools()).tools
        assert all("wallet" not in tool.input_schema["properties"] for tool in tools)
        await called(client, "transfer", to=STRANGER, amount=0.1)
        assert "alone" in await refusal(client, "check_balance", wallet=other)
        wallets = (await resource(client, "solward://wallets"))["wallets"]
        assert [wallet["id"] for wallet in wallets] == [mine]
    with service.client() as rest:
        assert sol_of(rest, other) == 1


async def test_a_confined_key_reaches_one_wallet_over_stdio(service: Service) -> None:
    with service.client() as rest:
        mine, other = funded_wallet(rest, "k1", 1), funded_wallet(rest, "k2", 1)
        key = rest.post("/keys", json={"name": "k", "walletId": mine}).json()["apiKey"]
    async with stdio_session(service, token=key) as client:
        for tool in (await client.list_tools()).tools:
            assert "wallet" not in tool.input_schema["properties"]
            assert "wallet" not in tool.input_schema.get("required", [])
        assert await called(client, "check_balance") == await called(
            client, "check_balance", wallet=mine
        )
        await refusal(client, "check_balance", wallet=other)
        wallets = (await resource(client, "solward://wallets"))["wallets"]
        assert [wallet["id"] for wallet in wallets] == [mine]


async def test_a_wrong_token_is_told_how_to_be_mended_on_stdio(service: Service) -> None:
    async with stdio_session(service, token="sk-" + "0" * 32) as client:
        text = await refusal(client, "check_balance", wallet="any")
        assert "Invalid API key" in text
        assert "SOLWARD_API_KEY" in text
        with pytest.raises(MCPError, match="Invalid API key"):
            await client.list_tools()


def test_an_input_that_ends_loses_no_response(service: Service) -> None:
    with service.client() as rest:
        wallet = funded_wallet(rest, "piped", 1)
        started = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "printf", "version": "1"},
        }
        pays = {"wallet": wallet, "to": STRANGER, "amount": 0.25}
        sent = [
            {"id": 1, "method": "initialize", "params": started},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": {"name": "transfer", "arguments": pays}},
            {"id": "left", "method": "tools/list"},
            {"method": "notifications/cancelled", "params": {"requestId": "left"}},
        ]
        done = subprocess.run(
            STDIO,
            input="".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in sent),
            env=stdio_environment(service),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        answers = {each["id"]: each for each in map(json.loads, done.stdout.splitlines())}
        [paid] = transfers(rest, wallet)
        assert paid["signature"] in json.dumps(answers[2]["result"])


@promise("mcp-cancelled-call-pays-once")
async def test_a_host_that_waits_no_longer_and_calls_again_pays_once(service: Service) -> None:
    with service.client() as rest:
        wallet = funded_wallet(rest, "impatient", 2)
        async with stdio_session(service) as client:
            await client.list_tools()
            for waited_ms in range(10, 60, 10):
                payment = {"wallet": wallet, "to": STRANGER, "amount": waited_ms / 1000}
                try:
                    await client.call_tool(
                        "transfer", payment, read_timeout_seconds=waited_ms / 1000
                    )
                except MCPError:
                    await called(client, "transfer", **payment)
        assert len(transfers(rest, wallet)) == 5


@promise("mcp-cancelled-call-pays-once")
def test_an_answer_that_the_host_dropped_on_stdio_is_told_again(service: Service) -> None:
    with service.client() as rest:
        wallet = funded_wallet(rest, "dropped", 1)
        pays = {"wallet": wallet, "to": STRANGER, "amount": 0.25}
        params = {"name": "transfer", "arguments": pays, "_meta": META}
        with subprocess.Popen(
            STDIO,
            env=stdio_environment(service),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            answers = []
            for id_ in (1, "two", 3):
                call = {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}
                process.stdin.write(json.dumps(call) + "\n")
                process.stdin.flush()
                answers.append(json.loads(process.stdout.readline())["result"]["content"])
                if id_ == 1:
                    cancel = {"method": "notifications/cancelled", "params": {"requestId": id_}}
                    process.stdin.write(json.dumps({"jsonrpc": "2.0", **cancel}) + "\n")
            process.stdin.close()
        assert answers[0] == answers[1] != answers[2]
        assert len(transfers(rest, wallet)) == 2


async def test_a_stdio_session_outlives_the_service(services: Any) -> None:
    service: Service = services()
    async with stdio_session(service) as client:
        away = await refusal(client, "check_balance", wallet="w")
        assert "solward up" in away
        service.start()
        with service.client() as rest:
            wallet = funded_wallet(rest, "w", 1)
        await called(client, "check_balance", wallet="w")
        service.stop(signal.SIGKILL)
        assert "solward up" in await refusal(client, "check_balance", wallet="w")
        with pytest.raises(MCPError, match="solward up"):
            await client.read_resource("solward://wallets")
        service.start()
        await called(client, "transfer", wallet=wallet, to=STRANGER, amount=0.1)
        assert len((await client.list_tools()).tools) >= 17


async def test_a_host_that_came_first_is_told_when_the_service_is_there(services: Any) -> None:
    service: Service = services()
    told = asyncio.Event()

    async def heed(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            told.set()

    async with (
        stdio_session(service, mode="legacy", message_handler=heed) as older,
        stdio_session(service) as newer,
        newer.listen(tools_list_changed=True) as changes,
    ):
        for client in (older, newer):
            with pytest.raises(MCPError, match="solward up"):
                await client.list_tools()
        await asyncio.to_thread(service.start)
        async with asyncio.timeout(30):
            await told.wait()
            assert await anext(aiter(changes)) == ToolsListChanged()
        for client in (older, newer):
            assert len((await client.list_tools()).tools) >= 17


async def test_the_service_stops_while_sessions_are_open(services: Any) -> None:
    service: Service = services().start()
    async with http_session(service) as http, stdio_session(service) as stdio:
        await http.list_tools()
        await stdio.list_tools()
        assert await asyncio.to_thread(service.stop) == 0


async def test_a_call_whose_answer_was_lost_pays_once(services: Any) -> None:
    service: Service = services().start()
    with service.client() as rest:
        wallet = funded_wallet(rest, "w", 1)
        payee = rest.post("/wallets", json={}).json()
    service.stop()
    service.start("kill:sent:1")
    async with stdio_session(service) as client:
        call = asyncio.create_task(
            called(client, "transfer", wallet=wallet, to=payee["address"], amount=0.25)
        )
        await asyncio.to_thread(service.wait_killed)
        await asyncio.to_thread(service.start)
        assert "0.25" in await call
    with service.client() as rest:
        assert sol_of(rest, payee["walletId"]) == Decimal("0.25")
        records = rest.get(f"/wallets/{wallet}/transactions").json()["transactions"]
        assert [record["type"] for record in records] == ["transfer", "airdrop"]


def test_standard_output_is_the_protocols_alone(service: Service) -> None:
    """Also with a service that is away and all that can be logged; the end of input is the end."""
    messages: list[dict[str, Any]] = [
        {
            "method": "initialize",
            "id": 1,
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "by hand", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"method": "tools/list", "id": 2},
        {"method": "nonsense", "id": 3},
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "solward_cli", "mcp", "--log-level", "debug"],
        env=service.environment | {"SOLWARD_API_URL": "http://127.0.0.1:9"},
        cwd=service.home.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for message in messages:
        process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
    process.stdin.write("no json\n")
    process.stdin.flush()
    lines = [process.stdout.readline() for _ in range(4)]
    rest, log = process.communicate(timeout=30)
    assert (process.returncode, rest) == (0, "")
    answers = {answer["id"]: answer for answer in map(json.loads, lines)}
    assert answers[1]["result"]["serverInfo"]["name"] == "solward"
    assert "solward up" in answers[2]["error"]["message"]
    assert answers[3]["error"]["code"] == -32601
    assert answers[None]["error"]["code"] == -32700
    assert SECRET not in log
    assert "debug" in log
    assert "SOLWARD_API_KEY is not set: this session has the operator's rights" in log

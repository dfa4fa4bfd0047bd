"""`solward doctor --record`: what is in a recording, what never is, and that it can be replayed."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from aiohttp import web
from click.testing import CliRunner
from solders.keypair import Keypair
from tests.promises import promise
from tests.support import rpc as rpc_nodes
from tests.support.http import served
from tests.support.recordings import replaying
from tests.swap_api import serving_swaps

from solward.settings import Settings
from solward.solana.programs import TOKEN_PROGRAM
from solward.support.base58 import b58decode
from solward.types.errors import LedgerRejected
from solward.vault.ledger.transport import HttpTransport
from solward_cli import main
from solward_cli.doctor import ledger, recording
from solward_cli.doctor.recording import decoded_base64, placeholder, record_requests
from solward_cli.doctor.subject import Status, Subject
from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions

# Each in another place; none of the patterns of the log would know them.
IN_PATH = "canary/path+0123456789"
IN_QUERY = 'canary"query&0123456789'
IN_KEY = "canary-venue-key-0123456789"
CANARIES = (IN_PATH, IN_QUERY, IN_KEY)


@asynccontextmanager
async def echoing() -> AsyncIterator[tuple[str, list[web.Request]]]:
    """A vendor that says everything it was told again: in headers, in its error, in its body."""
    asked: list[web.Request] = []

    async def handle(request: web.Request) -> web.Response:
        asked.append(request)
        body = await request.read()
        told = {
            "url": str(request.url),
            "parts": list(CANARIES),
            "quoted": [quote(each, safe="") for each in CANARIES],
            "base64": [base64.b64encode(each.encode()).decode() for each in CANARIES],
            "headers": dict(request.headers),
            "body": body.decode(),
            "apiKey": "a-key-that-nobody-told-us",
            "message": f"wrong key {IN_QUERY} at {request.url}",
        }
        wanted = json.loads(body) if body else {}
        if wanted.get("jsonrpc"):
            answer = {"jsonrpc": "2.0", "id": wanted["id"]}
            told = answer | {"error": {"code": -32000, "message": told["message"], "data": told}}
        return web.Response(
            text=json.dumps(told),
            content_type="application/json",
            headers={
                "Set-Cookie": IN_KEY,
                "X-Request-Echo": IN_QUERY,
                "X-RateLimit-Limit": f"40 {IN_KEY}",
                "Retry-After": "3",
            },
        )

    async with served(handle) as url:
        yield url, asked


def settings(folder: Path, url: str, **given: Any) -> Settings:
    given = {"solana_rpc_url": url, "solana_network": "localnet"} | given
    return Settings(_env_file=None, solward_home=folder / "home", **given)


@promise("recording-holds-no-secret")
async def test_no_secret_gets_into_a_recording_wherever_it_is_told(tmp_path: Path) -> None:
    async with echoing() as (url, asked):
        address = f"{url}/{quote(IN_PATH, safe='')}?api-key={quote(IN_QUERY, safe='')}"
        given = settings(tmp_path, address, jupiter_api_url=url, jupiter_api_key=IN_KEY)
        async with record_requests(given) as (relayed, recorder):
            transport = HttpTransport(relayed.rpc_urls[0])
            with pytest.raises(LedgerRejected):
                await transport.call("getSlot", [IN_QUERY, {"apiKey": "another"}])
            await transport.close()
            async with httpx.AsyncClient(headers={"x-api-key": IN_KEY}) as client:
                there = f"{relayed.jupiter_api_url}/swap"
                # In the request's own parameters too.
                await client.get(there, params={"note": f"of {IN_KEY}", "api-key": "0123456789ab"})
        files = recorder.write(tmp_path)
    # The real addresses got what is theirs.
    assert asked[0].query["api-key"] == IN_QUERY
    assert asked[0].path_qs.startswith(f"/{quote(IN_PATH, safe='')}")
    assert asked[1].headers["x-api-key"] == IN_KEY
    assert [file.name for file in files] == ["jupiter.json", "rpc-1.json"]
    text = "".join(file.read_text() for file in files)
    spelled = [
        *CANARIES,
        *(quote(each, safe="") for each in CANARIES),
        *(base64.b64encode(each.encode()).decode().rstrip("=") for each in CANARIES),
        *(json.dumps(each)[1:-1] for each in CANARIES),
        "a-key-that-nobody-told-us",
        "another",
        "0123456789ab",
        "127.0.0.1",
    ]
    assert [each for each in spelled if each in text] == []
    [exchange] = json.loads(files[1].read_text())
    assert exchange["request"]["url"] == "https://rpc-1/"
    assert exchange["response"]["headers"].keys() == {
        "content-type",
        "retry-after",
        "x-ratelimit-limit",
    }


@promise("recording-holds-no-secret")
async def test_addresses_are_replaced_everywhere_by_the_same_ones(
    tmp_path: Path,
) -> None:
    somebody, other = Keypair().pubkey(), Keypair().pubkey()

    async def answers(_method: str, params: Any) -> Any:
        inside = base64.b64encode(b"before" + bytes(somebody) + b"after").decode()
        return {"value": [params, inside, f"account {somebody} of {other}", TOKEN_PROGRAM]}

    async with rpc_nodes.listening(answers) as (node,):
        async with record_requests(settings(tmp_path, node.url)) as (relayed, recorder):
            transport = HttpTransport(relayed.rpc_urls[0])
            program = {"programId": TOKEN_PROGRAM}
            await transport.call("getTokenAccountsByOwner", [str(somebody), program])
            await transport.call("getBalance", [str(other)])
            await transport.close()
        [file] = recorder.write(tmp_path)
    text = file.read_text()
    assert str(somebody) not in text
    assert str(other) not in text
    first, _second = json.loads(text)
    assert first["request"]["body"]["params"] == [placeholder(0), program]
    inside = first["response"]["body"]["result"]["value"][1]
    assert decoded_base64(inside) == b"before" + b58decode(placeholder(0)) + b"after"
    told = first["response"]["body"]["result"]["value"][2]
    assert told == f"account {placeholder(0)} of {placeholder(1)}"
    # Whoever replays it asks with an address of their own, and is answered with that.
    asker = str(Keypair().pubkey())
    async with replaying(file) as url:
        transport = HttpTransport(url)
        answer = await transport.call("getTokenAccountsByOwner", [asker, program])
        await transport.close()
    assert answer["value"][0] == [asker, program]
    assert answer["value"][2].startswith(f"account {asker} of ")
    raw = decoded_base64(answer["value"][1])
    assert raw == b"before" + b58decode(asker) + b"after"


@pytest.mark.parametrize("takes_v1", [True, False])
async def test_the_checks_say_of_a_recording_what_they_said_of_the_nodes(
    tmp_path: Path, takes_v1: bool
) -> None:
    async with AsyncExitStack() as stack:
        localnet = await Localnet.open(None, LocalnetOptions(takes_version_1=takes_v1))
        stack.push_async_callback(localnet.close)
        answers = rpc_nodes.answers_of(localnet)
        (node,) = await stack.enter_async_context(rpc_nodes.listening(answers))
        node.faults["getProgramAccounts"] = -32010
        given = settings(tmp_path, node.url.replace("127.0.0.1", "localhost"))
        async with (
            record_requests(given) as (relayed, recorder),
            Subject(relayed, real=recorder.real) as subject,
        ):
            live = await ledger.rpc(subject)
        [file] = recorder.write(tmp_path)
    async with replaying(file) as url, Subject(settings(tmp_path, url)) as subject:
        again = await ledger.rpc(subject)
    assert [(line.status, line.name) for line in live] == [
        (line.status, line.name.replace("127.0.0.1", "localhost")) for line in again
    ]
    [swaps] = {line.found for line in (*live, *again) if line.name == "Swaps"}
    assert swaps == f"built in version {int(takes_v1)} (TRANSACTION_VERSION=auto)"
    [refused] = [line.found for line in again if line.status is Status.FAIL]
    assert "code -32010" in refused


async def test_the_venue_of_a_recording_swaps_with_another_taker(
    tmp_path: Path, localnet: Localnet
) -> None:
    async with (
        rpc_nodes.listening(rpc_nodes.answers_of(localnet)) as (node,),
        serving_swaps(localnet) as market,
    ):
        given = settings(tmp_path, node.url, jupiter_api_url=market, swap_venue="jupiter")
        async with record_requests(given) as (relayed, recorder), Subject(relayed) as subject:
            live = await ledger.venue(subject)
        rpc, venue = sorted(recorder.write(tmp_path), reverse=True)
    async with replaying(venue) as market, replaying(rpc) as url:
        given = settings(tmp_path, url, jupiter_api_url=market, swap_venue="jupiter")
        async with Subject(given) as subject:
            again = await ledger.venue(subject)
    assert [line.status for line in live] == [Status.OK, Status.OK]
    assert live == again


async def test_a_request_that_is_too_long_is_not_passed_on(
    tmp_path: Path, localnet: Localnet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "_LONGEST_REQUEST", 1_000)
    async with rpc_nodes.listening(rpc_nodes.answers_of(localnet)) as (node,):
        given = settings(tmp_path, node.url)
        async with record_requests(given) as (relayed, _), httpx.AsyncClient() as client:
            answer = await client.post(relayed.rpc_urls[0], content=b"1" * 1_001)
            assert answer.status_code == 413
        assert node.posts == 0


async def test_where_nobody_answers_the_client_gets_a_gateways_status(tmp_path: Path) -> None:
    given = settings(tmp_path, "http://127.0.0.1:9")
    async with record_requests(given) as (relayed, recorder), httpx.AsyncClient() as client:
        assert (await client.post(relayed.rpc_urls[0], content=b"{}")).status_code == 502
    assert recorder.exchanges == {}


async def test_a_request_that_runs_ends_with_the_recording(tmp_path: Path) -> None:
    async def hangs(_method: str, _params: Any) -> Any:
        await asyncio.sleep(60)

    async with rpc_nodes.listening(hangs) as (node,), httpx.AsyncClient() as client:
        async with record_requests(settings(tmp_path, node.url)) as (relayed, _):
            call = {"jsonrpc": "2.0", "id": 1, "method": "getSlot"}
            asked = asyncio.create_task(client.post(relayed.rpc_urls[0], json=call))
            while not node.posts:
                await asyncio.sleep(0.01)
        with pytest.raises(httpx.TransportError):
            await asyncio.wait_for(asked, 5)


def test_a_folder_that_holds_something_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "rpc-1.json").write_text("mine")
    env = {"SOLWARD_HOME": str(tmp_path / "home"), "SOLANA_RPC_URL": "http://127.0.0.1:9"}
    result = CliRunner(env=env).invoke(main, ["doctor", "rpc", "--record", "kept"])
    assert result.exit_code == 2
    assert "is not empty" in result.stderr
    assert (tmp_path / "kept" / "rpc-1.json").read_text() == "mine"
    # Where nobody answers there is nothing to keep; what would not work is said as ever.
    result = CliRunner(env=env).invoke(main, ["doctor", "rpc", "--record", "new"])
    assert result.exit_code == 1
    assert "FAIL RPC 1" in result.output
    assert list((tmp_path / "new").iterdir()) == []

"""Chat over a real socket: JSON, or server-sent events as the model speaks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs
from tests.promises import promise
from tests.support.agents import agent_body, scripted_model
from tests.support.services import NOBODY, SECRET, settings

from solward.service.service import Solward
from solward.support import jsontext
from solward.testing import ScriptedProvider
from solward.types.errors import ModelRefused, ProviderError
from solward.types.provider import Completion, CompletionRequest, ToolCall, Usage
from solward_server.listening import listen
from solward_server.serve import Address, serve

STREAM = {"Accept": "text/event-stream"}
HELLO = {"message": "hello"}


@dataclass
class Talk:
    """A served service with a running agent whose model is scripted."""

    client: httpx.AsyncClient
    model: ScriptedProvider
    service: Solward
    agent: str

    @property
    def path(self) -> str:
        return f"/agents/{self.agent}/chat"

    async def ask(self, body: Any = HELLO, **options: Any) -> httpx.Response:
        return await self.client.post(self.path, **{"json": body, "headers": STREAM} | options)


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    stop = asyncio.Event()
    address: asyncio.Future[Address] = asyncio.get_running_loop().create_future()
    with scripted_model(tmp_path / "site") as (_, model):
        configured = settings(tmp_path / "home", xai_api_key="a-key")
        async with Solward.open(configured) as service:
            listening = listen("127.0.0.1", 0)
            served = asyncio.create_task(serve(service, listening, stop, ready=address.set_result))
            wallet = await service.wallets.create("talkers")
            body = agent_body(wallet.id, "scripted", strategy="Talk.")
            agent = await service.agents.create(body)
            with service.events.subscribe() as events:
                await service.agents.start(agent.id)
                async with asyncio.timeout(20):
                    async for event in events:
                        if event.event == "agent:decision":
                            break
            headers = {"Authorization": f"Bearer {SECRET}"}
            url = f"{(await address).url}/api/v1"
            async with httpx.AsyncClient(base_url=url, headers=headers, timeout=20) as client:
                yield Talk(client, model, service, agent.id)
            stop.set()
            await served


def events(text: str) -> list[tuple[str, Any]]:
    found = []
    for chunk in text.split("\n\n")[:-1]:
        event, data = chunk.split("\n")
        found.append((event.removeprefix("event: "), jsontext.loads(data.removeprefix("data: "))))
    return found


@promise("credential-within-its-role")
async def test_a_stream_ends_with_the_credential_that_asked(talk: Talk) -> None:
    revoked = asyncio.Event()

    async def pieces(request: CompletionRequest) -> AsyncIterator[str | Usage]:
        yield "before "
        await revoked.wait()
        yield "after"

    talk.model.pieces = pieces
    body = {"name": "ana", "role": "policy"}
    made = (await talk.client.post("/admins", json=body)).json()
    headers = STREAM | {"Authorization": f"Bearer {made['adminSecret']}"}
    async with talk.client.stream("POST", talk.path, json=HELLO, headers=headers) as answer:
        text = ""
        async for part in answer.aiter_text():
            text += part
            if not revoked.is_set():
                assert (await talk.client.delete(f"/admins/{made['id']}")).status_code == 200
                revoked.set()
    assert events(text) == [("delta", {"text": "before "}), ("error", {"error": "Invalid API key"})]


@pytest.mark.more
async def test_a_chat_is_answered_whole_unless_a_stream_is_asked_for(talk: Talk) -> None:
    talk.model.answer = lambda request: Completion(" Fine. ", (ToolCall("airdrop", {}),))
    for accept in ("application/json", "*/*", "application/json, text/event-stream"):
        answer = await talk.ask(headers={"Accept": accept})
        assert (answer.status_code, answer.json()) == (200, {"response": "Fine."})
        assert answer.headers["content-type"] == "application/json"
    assert "hello" in talk.model.requests[-1].messages[0].content
    assert talk.model.requests[-1].tools == ()
    assert await talk.service.history.newest() == []


async def test_pieces_come_as_the_model_speaks_and_the_whole_at_the_end(talk: Talk) -> None:
    told = asyncio.Event()

    async def pieces(request: CompletionRequest) -> AsyncIterator[str | Usage]:
        yield " Good\n\nmorning, "
        await told.wait()
        yield "\ud83d"
        yield "你好 "
        yield Usage(10, 5)

    talk.model.pieces = pieces
    async with talk.client.stream("POST", talk.path, json=HELLO, headers=STREAM) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        text = ""
        async for part in answer.aiter_text():
            text += part
            # The model goes on only when its first piece has arrived here.
            told.set()
    assert events(text) == [
        ("delta", {"text": " Good\n\nmorning, "}),
        ("delta", {"text": "\ufffd"}),
        ("delta", {"text": "你好 "}),
        ("done", {"response": "Good\n\nmorning, \ufffd你好"}),
    ]
    assert (await talk.service.agents.tokens(talk.agent)).tokens == 15


async def test_a_model_that_says_nothing_is_done_at_once(talk: Talk) -> None:
    assert events((await talk.ask()).text) == [("done", {"response": ""})]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ProviderError("The vendor hung up"), "The vendor hung up"),
        (ModelRefused("The model refused (bio)", reason="bio", said="I won't."),
         "The model refused (bio): I won't."),
        (RuntimeError("mine"), "Provider 'scripted' failed with an internal error"),
        (SystemExit(1), "Provider 'scripted' failed with an internal error"),
    ],
)  # fmt: skip
async def test_a_failure_midway_is_the_last_event_and_one_before_is_a_status(
    talk: Talk, error: BaseException, said: str
) -> None:
    first = ["Well, "]

    async def pieces(request: CompletionRequest) -> AsyncIterator[str | Usage]:
        for piece in first:
            yield piece
        raise error

    talk.model.pieces = pieces
    with capture_logs() as logged:
        midway = await talk.ask()
        first.clear()
        before = await talk.ask()
    assert "I won't" not in repr(logged)
    assert midway.status_code == 200
    assert events(midway.text) == [("delta", {"text": "Well, "}), ("error", {"error": said})]
    assert (before.status_code, before.json()) == (500, {"error": said})
    assert before.headers["content-type"] == "application/json"


async def test_what_is_refused_is_an_ordinary_error(talk: Talk) -> None:
    missing = await talk.ask({})
    assert missing.status_code == 400
    assert missing.json() == {"error": "message is required and must be a string"}
    unknown = await talk.client.post(f"/agents/{NOBODY}/chat", json=HELLO, headers=STREAM)
    assert (unknown.status_code, unknown.json()) == (404, {"error": "Agent not found"})
    denied = await talk.ask(headers=STREAM | {"Authorization": ""})
    assert (denied.status_code, denied.json()["error"][:12]) == (401, "Unauthorized")
    await talk.service.agents.update(talk.agent, {"llmBudget": {"maxTokensPerDay": 1}})
    for headers in (STREAM, {}):
        spent = await talk.ask(headers=headers)
        assert spent.status_code == 429
        assert "The token budget has no room" in spent.json()["error"]
    await talk.service.agents.stop(talk.agent)
    stopped = await talk.ask()
    assert (stopped.status_code, stopped.json()) == (400, {"error": "Agent is not running"})


async def test_a_client_that_leaves_ends_the_models_work(talk: Talk) -> None:
    closed = asyncio.Event()

    async def pieces(request: CompletionRequest) -> AsyncIterator[str | Usage]:
        try:
            yield "one"
            await asyncio.Event().wait()
        finally:
            closed.set()

    talk.model.pieces = pieces
    async with talk.client.stream("POST", talk.path, json=HELLO, headers=STREAM) as answer:
        async for _ in answer.aiter_raw():
            break
    await asyncio.wait_for(closed.wait(), 10)


async def test_a_client_that_leaves_before_the_first_piece_ends_it_too(talk: Talk) -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def pieces(request: CompletionRequest) -> AsyncIterator[str | Usage]:
        try:
            asked.set()
            await asyncio.Event().wait()
            yield "never"
        finally:
            closed.set()

    talk.model.pieces = pieces
    leaving = asyncio.create_task(talk.ask())
    await asked.wait()
    leaving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await leaving
    await asyncio.wait_for(closed.wait(), 10)


async def test_an_answer_cut_between_pieces_closes_what_generates_it(talk: Talk) -> None:
    closed = asyncio.Event()

    async def pieces(request: CompletionRequest) -> AsyncIterator[str | Usage]:
        try:
            while True:
                yield "word "
        finally:
            closed.set()

    talk.model.pieces = pieces
    answer = talk.service.agents.chat_stream(talk.agent, "hello")
    assert await anext(answer) == "word "
    await answer.aclose()
    assert closed.is_set()

"""Who gets past the gate, and what every answer carries; without a socket."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import httpx
import pytest
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send
from tests.promises import promise

from solward.support.fair_turns import MOST_OF_SOURCE
from solward.types.roles import Role
from solward_dashboard.access import AccessGate, Login
from solward_dashboard.api import Visitor, client_of
from solward_dashboard.options import Options

PASSWORD = "pass with spaces & ümlaut"
CREDENTIAL = "sa-" + "0" * 48


async def behind(scope: Scope, receive: Receive, send: Send) -> None:
    """What the gate guards."""
    path = Request(scope).url.path
    public = {"cache-control": "public, max-age=9"} if path.startswith("/_nicegui/") else {}
    await PlainTextResponse("the page", headers=public)(scope, receive, send)


def options(password: str | None = None, port: int = 3000) -> Options:
    return Options("http://127.0.0.1:3001", "secret", "127.0.0.1", port, password)


def visitor(gate: AccessGate, base: str = "http://127.0.0.1:3000") -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(gate), base_url=base)


@pytest.mark.parametrize(
    "host", ["127.0.0.1:3000", "localhost:3000", "LocalHost:3000", "[::1]:3000"]
)
async def test_its_own_addresses_are_let_in(host: str) -> None:
    async with visitor(AccessGate(behind, options())) as client:
        assert (await client.get("/", headers={"host": host})).text == "the page"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:3000", "127.0.0.1:3001", "127.0.0.1.evil:3000", ""]
)
async def test_a_name_that_was_pointed_here_is_refused(host: str) -> None:
    async with visitor(AccessGate(behind, options())) as client:
        answer = await client.get("/", headers={"host": host})
    assert (answer.status_code, "the page" in answer.text) == (403, False)
    assert answer.headers["content-security-policy"]


async def test_the_port_of_http_itself_may_be_left_out() -> None:
    async with visitor(AccessGate(behind, options(port=80))) as client:
        assert (await client.get("/", headers={"host": "localhost"})).text == "the page"


async def test_a_socket_with_a_strange_host_is_closed() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    scope = {"type": "websocket", "path": "/_nicegui_ws/", "headers": [(b"host", b"evil.example")]}
    await AccessGate(behind, options())(scope, receive, send)
    assert [(each["type"], each["code"]) for each in sent] == [("websocket.close", 1008)]


async def test_pages_are_kept_nowhere_and_framed_nowhere() -> None:
    async with visitor(AccessGate(behind, options())) as client:
        page = await client.get("/")
        file = await client.get("/_nicegui/3.18.0/quasar.js")
    policy = page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert "default-src 'self'" in policy
    assert "*" not in policy
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["cache-control"] == "no-store"
    assert file.headers.get_list("cache-control") == ["public, max-age=9"]


async def test_a_password_is_asked_for_once() -> None:
    async with visitor(AccessGate(behind, options(PASSWORD))) as client:
        first = await client.get("/wallets")
        assert (first.status_code, first.headers["location"]) == (303, "/login")
        assert 'type="password"' in (await client.get("/login")).text
        wrong = await client.post("/login", data={"password": "guess"})
        assert (wrong.status_code, "the page" in wrong.text) == (403, False)
        assert (await client.get("/")).status_code == 303
        right = await client.post("/login", data={"password": PASSWORD})
        assert right.status_code == 303
        cookie = right.headers["set-cookie"].lower()
        assert all(word in cookie for word in ("httponly", "samesite=strict"))
        assert PASSWORD not in cookie
        assert (await client.get("/")).text == "the page"


async def test_what_is_not_a_page_is_refused_without_a_login() -> None:
    async with visitor(AccessGate(behind, options(PASSWORD))) as client:
        client.cookies.set("solward_dashboard", "made-up")
        answer = await client.post("/_nicegui_ws/")
    assert (answer.status_code, answer.text) == (403, "Log in first.")


async def test_a_login_ends_by_logging_out() -> None:
    async with visitor(AccessGate(behind, options(PASSWORD))) as client:
        await client.post("/login", data={"password": PASSWORD})
        kept = dict(client.cookies)
        assert (await client.get("/logout")).headers["location"] == "/login"
        client.cookies.update(kept)
        assert (await client.get("/")).status_code == 303


async def test_a_login_ends_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = AccessGate(behind, options(PASSWORD))
    async with visitor(gate) as client:
        await client.post("/login", data={"password": PASSWORD})
        assert (await client.get("/")).status_code == 200
        monkeypatch.setattr("solward_dashboard.access.time.monotonic", lambda: 10.0**9)
        assert (await client.get("/")).status_code == 303


async def test_a_long_form_is_no_password() -> None:
    async with visitor(AccessGate(behind, options(PASSWORD))) as client:
        answer = await client.post("/login", data={"password": "x" * 5000})
    assert answer.status_code == 413


def test_nobody_is_known_by_an_empty_cookie() -> None:
    scope = {"type": "http", "headers": [(b"cookie", b"solward_dashboard=")]}
    assert not Login(options(PASSWORD)).is_logged_in(HTTPConnection(scope))


async def test_an_asker_who_left_is_no_error_and_anything_else_is() -> None:
    async def fails(_scope: Scope, receive: Receive, _send: Send) -> None:
        await receive()
        raise RuntimeError("No response returned.")

    async def asked(message: Message) -> None:
        async def receive() -> Message:
            return message

        async def send(_message: Message) -> None:
            raise AssertionError("nobody is there")

        headers = [(b"host", b"127.0.0.1:3000")]
        scope = {"type": "http", "path": "/", "method": "GET", "headers": headers}
        await AccessGate(fails, options())(scope, receive, send)

    await asked({"type": "http.disconnect"})
    with pytest.raises(RuntimeError):
        await asked({"type": "http.request"})


def from_address(gate: AccessGate, address: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(gate, client=(address, 1))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:3000")


@promise("guesses-take-turns", "dashboard-guesses-bounded")
async def test_a_flood_of_guesses_keeps_nobody_else_from_logging_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = asyncio.Event()
    guesses: list[bool] = []

    async def wait(_seconds: float) -> None:
        guesses.append(True)
        await held.wait()

    monkeypatch.setattr("solward_dashboard.access._wait", wait)
    gate = AccessGate(behind, options(PASSWORD))
    async with from_address(gate, "203.0.113.9") as guesser, from_address(gate, "::1") as mine:
        wrong = {"data": {"password": "guess"}}
        flood = [asyncio.create_task(guesser.post("/login", **wrong)) for _ in range(40)]  # type: ignore[arg-type]
        async with asyncio.timeout(30):
            while not any(each.done() for each in flood):
                await asyncio.sleep(0)
        # One at a time is judged, and it is not done yet.
        assert len(guesses) == 1
        right = await mine.post("/login", data={"password": PASSWORD})
        assert right.status_code == 303
        assert (await mine.get("/")).text == "the page"
        assert len(guesses) == 1
        held.set()
        answers = Counter([(await each).status_code for each in flood])
    assert answers == {403: 1 + MOST_OF_SOURCE, 429: 40 - 1 - MOST_OF_SOURCE}


@promise("guesses-slow-no-one-else")
async def test_guesses_of_many_sources_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    held, guesses = asyncio.Event(), list[bool]()

    async def wait(_seconds: float) -> None:
        guesses.append(True)
        await held.wait()

    monkeypatch.setattr("solward_dashboard.access._wait", wait)
    gate = AccessGate(behind, options(PASSWORD))
    async with AsyncExitStack() as stack:
        flood = []
        for number in range(60):
            client = await stack.enter_async_context(from_address(gate, f"203.0.113.{number}"))
            flood.append(asyncio.create_task(client.post("/login", data={"password": "guess"})))
        for _ in range(200):
            await asyncio.sleep(0)
        assert len(guesses) == 10
        held.set()
        assert {(await each).status_code for each in flood} == {403}


async def test_the_sessions_that_are_kept_are_bounded() -> None:
    login = Login(options(PASSWORD))
    for number in range(1_010):
        await login._store_session(f"s{number}", None)
    assert len(login._sessions) == 1_000
    assert "s1009" in login._sessions
    assert "s9" not in login._sessions


@promise("dashboard-guesses-bounded")
async def test_a_credential_ends_no_session_but_its_own() -> None:
    login = Login(options(PASSWORD))
    await login._store_session("operator", None)
    client, _ = client_of(options(PASSWORD), CREDENTIAL)
    ana = Visitor(client, "ana", Role.READ, [])
    await login._store_session("bea", Visitor(client, "bea", Role.READ, []))
    for number in range(1_010):
        await login._store_session(f"s{number}", ana)
    assert {"operator", "bea", "s1009"} <= login._sessions.keys()
    assert len(login._sessions) == 22

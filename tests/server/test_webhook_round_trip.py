"""A payment that a person decides by the webhook, from the hold to the ledger, over real HTTP."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.promises import promise
from tests.support.processes import NO_TLS, free_port
from tests.support.repository import ROOT
from tests.support.services import SECRET, STRANGER, settings

from solward.client import Delivery, sign_decision, verify_delivery
from solward.service.service import Solward
from solward_server.serve import serve

pytestmark = pytest.mark.samples(
    "test_approved_by_the_webhook_it_is_paid_once",
    "test_the_example_receiver_shows_a_person_and_sends_back_what_is_typed",
)

WEBHOOK_SECRET = "a-secret-of-the-webhook-of-32-bytes!"
EXAMPLE = ROOT / "examples" / "approval_webhook" / "receiver.py"


@dataclass
class Desk:
    """A service on a port, a wallet with 2 SOL, a key, and what the receiver heard."""

    service: Solward
    client: httpx.AsyncClient
    wallet: str = ""
    heard: list[Delivery] = field(default_factory=list)

    async def pay(self, amount: float, key: str | None = None) -> httpx.Response:
        headers = {} if key is None else {"Idempotency-Key": key}
        body = {"to": STRANGER, "amount": amount}
        return await self.client.post(
            f"/wallets/{self.wallet}/transfer", json=body, headers=headers
        )

    async def until_told(self, event: str) -> Delivery:
        async with asyncio.timeout(20):
            while not (found := [each for each in self.heard if each.event == event]):
                await asyncio.sleep(0.01)
        return found[0]

    async def decide(
        self, told: Delivery, decision: Literal["approve", "deny"], note: str | None = None
    ) -> httpx.Response:
        sent = sign_decision(WEBHOOK_SECRET, told.hold["id"], decision, note)
        async with httpx.AsyncClient(verify=NO_TLS, timeout=60) as stranger:
            return await stranger.post(
                told.decision_url, content=sent.body, headers=dict(sent.headers)
            )

    async def records(self) -> list[dict[str, Any]]:
        answer = await self.client.get(f"/wallets/{self.wallet}/transactions")
        found = answer.json()["transactions"]
        return [each for each in found if each["type"] == "transfer"]

    async def paid(self) -> int:
        return await self.service.ledger.balance(STRANGER)


@asynccontextmanager
async def open_desk(
    home: Path, receiver_url: str | None = None, grants: list[dict[str, Any]] | None = None
) -> AsyncIterator[Desk]:
    """Args:
    grants: of the key.
    """
    heard: list[Delivery] = []

    async def hear(request: web.Request) -> web.Response:
        heard.append(verify_delivery(WEBHOOK_SECRET, request.headers, await request.read()))
        return web.Response(status=204)

    app = web.Application()
    app.router.add_post("/", hear)
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    async with TestServer(app) as receiver:
        given = {
            "approval_webhook_url": receiver_url or str(receiver.make_url("/")),
            "approval_webhook_secret": WEBHOOK_SECRET,
            "solward_api_url": url,
            "solward_plugins": "solward",
        }
        stop = asyncio.Event()
        async with Solward.open(settings(home, **given)) as service:
            serving = asyncio.create_task(serve(service, listening, stop))
            prefix = f"{url}/api/v1"
            admin = {"Authorization": f"Bearer {SECRET}"}
            options: dict[str, Any] = {"base_url": prefix, "verify": NO_TLS, "timeout": 60}
            async with httpx.AsyncClient(headers=admin, **options) as operator:
                wallet = (await operator.post("/wallets", json={})).json()["walletId"]
                await operator.post(f"/wallets/{wallet}/airdrop", json={"amount": 2})
                body = {"name": "k"} | ({} if grants is None else {"grants": grants})
                made_key = await operator.post("/keys", json=body)
                assert made_key.status_code == 200, made_key.text
                key = made_key.json()["apiKey"]
            bearer = {"Authorization": f"Bearer {key}"}
            async with httpx.AsyncClient(headers=bearer, **options) as client:
                yield Desk(service, client, wallet, heard)
            stop.set()
            await serving


@pytest.fixture
async def desk(tmp_path: Path, asking: None) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path / "home") as opened:
        yield opened


@promise("receiver-decides-holds")
async def test_approved_by_the_webhook_it_is_paid_once(desk: Desk) -> None:
    held = await desk.pay(0.5, "invoice-7")
    assert held.status_code == 202, held.text
    told = await desk.until_told("hold:created")
    assert told.hold["sentence"].count(STRANGER) == 1
    [line] = told.hold["lines"]
    assert (line["operation"], line["asset"], line["units"]) == ("transfer", "SOL", "500000000")
    assert line["account"] == STRANGER
    before = await desk.paid()
    answer = await desk.decide(told, "approve", "known to us")
    assert answer.json() == {"id": told.hold["id"], "state": "executed"}
    assert await desk.paid() == before + 500_000_000
    ended = await desk.until_told("hold:executed")
    assert (ended.hold["decidedBy"], ended.hold["note"]) == ("webhook", "known to us")
    # Signed anew, and asked for anew: nothing more is paid.
    assert (await desk.decide(told, "approve")).json()["state"] == "executed"
    assert (await desk.pay(0.5, "invoice-7")).status_code == 200
    assert await desk.paid() == before + 500_000_000
    [record] = await desk.records()
    assert record["id"] == ended.hold["transactionId"]


@promise("denied-is-final")
async def test_denied_by_the_webhook_nothing_is_paid_and_nothing_can_be(desk: Desk) -> None:
    await desk.pay(0.5, "invoice-8")
    told = await desk.until_told("hold:created")
    before = await desk.paid()
    answer = await desk.decide(told, "deny", "who is that?")
    assert answer.json()["state"] == "denied"
    late = await desk.decide(told, "approve")
    assert (late.status_code, list(late.json())) == (409, ["error"])
    assert (await desk.pay(0.5, "invoice-8")).status_code == 500
    [record] = await desk.records()
    assert record["status"] == "blocked"
    assert record["error"].endswith("the webhook denied it: who is that?")
    assert await desk.paid() == before
    assert (await desk.until_told("hold:denied")).by == "webhook"


@promise("approval-passes-no-limit")
async def test_what_a_grant_holds_is_paid_by_the_webhooks_word_and_never_beyond_the_grant(
    tmp_path: Path,
) -> None:
    limit = {"perTx": "0.6", "per": {"24h": "1"}, "hold": "0.2"}
    grant = {"may": ["transfer"], "assets": {"SOL": limit}, "to": ["any"]}
    async with open_desk(tmp_path / "home", grants=[grant]) as desk:
        before = await desk.paid()
        assert (await desk.pay(0.2)).status_code == 200
        assert (await desk.pay(0.5)).status_code == 202
        first = await desk.until_told("hold:created")
        assert "the 0.2 SOL above which grant 1 of key k asks" in first.hold["sentence"]
        # Both wait: nothing of a hold is reserved.
        desk.heard.clear()
        assert (await desk.pay(0.6)).status_code == 202
        second = await desk.until_told("hold:created")
        assert (await desk.decide(first, "approve")).json()["state"] == "executed"
        # An approval is no room in the window: 0.7 of 1 is used.
        assert (await desk.decide(second, "approve")).json()["state"] == "refused"
        assert (await desk.pay(0.61)).status_code == 500
        assert await desk.paid() == before + 700_000_000


async def test_an_unknown_hold_is_said_to_be_one_to_who_has_the_secret(desk: Desk) -> None:
    await desk.pay(0.5)
    told = await desk.until_told("hold:created")
    for other in ("3f0e8a52-7a5c-4c0b-9d1e-5a0c6d2f4b18", "nothing"):
        url = told.decision_url.replace(told.hold["id"], other)
        sent = replace(told, hold={"id": other}, decision_url=url)
        answer = await desk.decide(sent, "approve")
        assert (answer.status_code, answer.json()) == (404, {"error": "Hold not found"})


@pytest.mark.more
async def test_the_example_receiver_shows_a_person_and_sends_back_what_is_typed(
    tmp_path: Path, asking: None
) -> None:
    port = free_port()
    environment = {"APPROVAL_WEBHOOK_SECRET": WEBHOOK_SECRET, "RECEIVER_PORT": str(port)}
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLE)],
        env=os.environ | environment | {"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        url = f"http://127.0.0.1:{port}/"
        async with open_desk(tmp_path / "home", url) as desk:
            process.stdin.write("approve\n")
            process.stdin.flush()
            before = await desk.paid()
            await desk.pay(0.5)
            said: list[str] = []
            read: Callable[[], str] = process.stdout.readline
            async with asyncio.timeout(30):
                while "hold:executed" not in "".join(said):
                    said.append(await asyncio.to_thread(read))
            assert await desk.paid() == before + 500_000_000
        assert said[0].startswith("hold:created '")
        assert said[1].split() == ["transfer", "500000000", "SOL", STRANGER]
        assert said[2] == "approve or deny? executed\n"
        with httpx.Client(verify=NO_TLS) as stranger:
            assert stranger.post(url, content=b"{}").status_code == 401
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()

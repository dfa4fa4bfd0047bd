"""A service that stops tells people of holds that its last calls made."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from tests.support.clock import until
from tests.support.services import STRANGER, serving_api

from solward.database.tables import webhook_deliveries
from solward.vault.ledger.transport import InProcessTransport
from solward.vault.money.engine import Engine

LIMIT = {"perTx": "2", "per": {"24h": "2"}, "hold": "0.2"}
GRANT = {"may": ["transfer"], "assets": {"SOL": LIMIT}, "to": ["any"]}


async def test_a_hold_that_is_made_while_the_service_stops_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answers = asyncio.Event(), asyncio.Event()
    call, close = InProcessTransport.call, Engine.close

    async def slow(transport: Any, method: str, params: Any) -> Any:
        if method == "simulateTransaction":
            asked.set()
            await answers.wait()
        return await call(transport, method, params)

    async def closing(engine: Engine) -> None:
        answers.set()
        await close(engine)

    given = {
        # Nobody listens there.
        "approval_webhook_url": "http://127.0.0.1:9/holds",
        "approval_webhook_secret": "s" * 32,
    }
    monkeypatch.setattr(Engine, "close", closing)
    async with serving_api(tmp_path / "home", **given) as api:
        wallet = await api.wallet(2)
        key = (await api.post("/keys", {"name": "payer", "grants": [GRANT]})).json["apiKey"]
        monkeypatch.setattr(InProcessTransport, "call", slow)
        path, body = f"/wallets/{wallet}/transfer", {"to": STRANGER, "amount": 0.7}
        task = asyncio.create_task(api.post(path, body, token=key))
        await until(asked.is_set)
    task.cancel()
    monkeypatch.undo()
    async with serving_api(tmp_path / "home", **given) as api:
        (held,) = (await api.get("/holds")).json["holds"]
        async with api.service.database.read() as connection:
            told = (await connection.execute(select(webhook_deliveries.c.body))).scalars().all()
    assert [held["id"] in each for each in told] == [True]

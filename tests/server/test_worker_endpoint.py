"""What a worker answers to supervisors and scrapers, in each of its states."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import SecretStr

from solward.agents.queue import QueuePlacement, Worker
from solward.credentials.credentials import Credentials
from solward.database.database import Database
from solward_server.serve import create_worker_app

SECRET = "a-secret-for-tests-of-at-least-32-bytes"


async def no_cycle(agent_id: str, cycle: int) -> None:
    raise AssertionError("there is no agent")


@pytest.fixture
async def database(postgres_database: Database) -> Database:
    await QueuePlacement(postgres_database).open()
    return postgres_database


class Process:
    """The part of the service the endpoint reads."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.healthy = True
        self.settings = SimpleNamespace(
            api_secret=SecretStr(SECRET),
            requests_per_minute=600,
            dashboard_address="http://127.0.0.1:3000",
            error_status="contract",
        )
        self.credentials = Credentials(database)
        self.display = self

    async def health(self) -> dict[str, Any]:
        return {"healthy": self.healthy}


async def test_it_is_ready_while_the_ledger_answers_and_the_queue_sees_it(
    database: Database,
) -> None:
    process, worker = Process(database), Worker(database, no_cycle, grace_s=0.0)
    client = create_worker_app(process, worker).test_client()  # type: ignore[arg-type]

    async def ready() -> tuple[int, dict[str, bool]]:
        answer = await client.get("/readyz")
        return answer.status_code, await answer.get_json()

    assert await ready() == (503, {"ledger": True, "queue": False})
    task = asyncio.create_task(worker.run())
    async with asyncio.timeout(30):
        while (await ready())[0] != 200:
            await asyncio.sleep(0.05)
    process.healthy = False
    assert await ready() == (503, {"ledger": False, "queue": True})
    process.healthy = True
    worker.stop()
    assert await ready() == (503, {"ledger": True, "queue": False})
    await task
    assert (await client.get("/healthz")).status_code == 200


async def test_only_the_admin_sees_its_metrics(database: Database) -> None:
    client = create_worker_app(
        Process(database),  # type: ignore[arg-type]
        Worker(database, no_cycle),
    ).test_client()
    refused = await client.get("/metrics")
    assert refused.status_code == 401
    assert await refused.get_json() == {"error": "Unauthorized — admin API secret required"}
    shown = await client.get("/metrics", headers={"Authorization": f"Bearer {SECRET}"})
    assert shown.status_code == 200
    assert b"solward_agent_cycles" in await shown.get_data()
    assert (await client.get("/api/v1/wallets")).status_code == 404

"""Services with a long history, and what they are asked in a day."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from benchmarks.growth_rows import Mine, Sizes, fill
from solders.keypair import Keypair
from tests.support.database import Statements, recorded_statements
from tests.support.services import Api, serving_api

from solward.agents import remember as cycles
from solward.agents import store as agents
from solward.database.database import Database
from solward.service.retention import delete_old_rows
from solward.settings import Settings
from solward.support.clock import now_ms
from solward.vault.store import payments, transactions

GRANT = {"may": ["transfer"], "assets": {"SOL": {"per": {"24h": "10"}}}, "costs": "1"}

# Lists of what was made, whole by the contract: they grow with it, not with what it did.
WHOLE = frozenset({"GET /wallets", "GET /agents", "GET /keys", "GET /policy"})
# What policy routes say of principals stands by its name, and any name may be said.
NAMES = frozenset({"GET /policy/<principal>", "PUT /policy/<principal>"})


@dataclass(frozen=True, slots=True)
class Grown:
    """A home with a history.

    Attributes:
        key: the secret of the key of `mine`.
        database_url: None for the file in the home.
    """

    home: Path
    mine: Mine
    key: str
    database_url: str | None

    @asynccontextmanager
    async def serving(self, **given: Any) -> AsyncIterator[Api]:
        """The service of this home, its limits out of the way."""
        options: dict[str, Any] = {
            "database_url": self.database_url,
            "max_transactions_per_minute": 1_000_000,
            "max_costs_sol_per_day": "1000",
            "daily_spending_limit_sol": "1000000",
        }
        async with serving_api(self.home, **options | given) as api:
            yield api


async def grown(home: Path, sizes: Sizes, database_url: str | None = None) -> Grown:
    """A new home whose service made a wallet, an agent, a key and its grants, and then lived for
    long."""
    async with serving_api(home, database_url=database_url) as api:
        wallet = await api.wallet(2)
        secret, key = await api.key(spendingLimitSol=1, rateLimit=1_000, grants=[GRANT])
        agent = {"name": "mine", "walletId": wallet, "llmProvider": "openai", "llmModel": "model"}
        made = await api.post("/agents", agent | {"strategy": "Do nothing."})
        assert made.status == 200, made.text
    mine = Mine(wallet, made.json["id"], key)
    fill(database_url or f"sqlite:///{home / 'solward.db'}", sizes, mine)
    # As its service did each hour.
    database = await Database.open(database_url, home)
    async with database.read() as connection:
        moment = await database.moment(connection)
    await delete_old_rows(database, Settings(_env_file=None), moment.window_ms)
    await database.close()
    return Grown(home, mine, secret, database_url)


async def a_day(home: Grown, found: Callable[[str, Statements], None]) -> None:
    """Start the service of a home, ask each of its routes, move money, run a cycle's statements.

    Args:
        found: told after each what it was and which statements it ran.
    """
    with recorded_statements() as statements:

        def end(label: str) -> None:
            found(label, statements)
            statements.clear()

        async with home.serving() as api:
            end("start")
            await _routes(api, home, end)
            await _money(api, home, end)
            await _stored(api, home, end)
        end("stop")


async def _routes(api: Api, home: Grown, end: Callable[[str], None]) -> None:
    mine = home.mine
    wallet, agent, key = f"/wallets/{mine.wallet}", f"/agents/{mine.agent}", f"key:{mine.key}"

    async def get(label: str, path: str | None = None, **more: Any) -> Any:
        answer = await api.get(path or label, **more)
        assert answer.status == 200, (path, answer.text)
        end(f"GET {label}")
        return answer

    page = (await get("/transactions", "/transactions?limit=50")).json["transactions"]
    await get("/transactions", f"/transactions?limit=50&before={page[-1]['id']}")
    page = (await get("/wallets/<id>/transactions", f"{wallet}/transactions")).json["transactions"]
    await get("/wallets/<id>/transactions", f"{wallet}/transactions?before={page[-1]['id']}")
    for path in ("", "/balance", "/limits", "/pockets", "/stakes"):
        await get(f"/wallets/<id>{path}", f"{wallet}{path}")
    for path in ("", "/decisions", "/decisions?before=500", "/memory", "/limits"):
        await get(f"/agents/<id>{path}", f"{agent}{path}")
    page = (await get("/holds", "/holds?limit=10")).json["holds"]
    await get("/holds/<id>", f"/holds/{page[0]['id']}")
    for query in (f"before={page[-1]['id']}", f"walletId={mine.wallet}", "state=open"):
        await get("/holds", f"/holds?limit=10&{query}")
    await get("/holds by key", "/holds?limit=10", token=home.key)
    page = (await get("/payments", "/payments?limit=10")).json["payments"]
    await get("/payments/<id>", f"/payments/{page[0]['id']}")
    for query in (f"before={page[-1]['id']}", f"walletId={mine.wallet}"):
        await get("/payments", f"/payments?limit=10&{query}")
    page = (await get("/audit")).json["entries"]
    await get("/audit", f"/audit?before={page[-1]['seq']}")
    await get("/wallets?limit=50")
    await get("/health")
    await get("/metrics", prefix="")
    for label in sorted(WHOLE):
        await get(label.removeprefix("GET "))
    await get("/policy/<principal>", f"/policy/{key}")
    put = await api.call("PUT", f"/policy/{key}", {"grants": [GRANT]})
    assert put.status == 200, put.text
    end("PUT /policy/<principal>")


async def _money(api: Api, home: Grown, end: Callable[[str], None]) -> None:
    """Each way of a transfer twice, and the second counts: accounts and plans are warm then."""
    wallet = f"/wallets/{home.mine.wallet}"
    transfer = {"to": str(Keypair().pubkey()), "amount": Decimal("0.001")}
    ways: dict[str, tuple[int, dict[str, Any], dict[str, Any]]] = {
        "transfer": (200, transfer, {}),
        "transfer by key": (200, transfer, {"token": home.key}),
        "dry run": (200, transfer | {"dryRun": True}, {}),
        "blocked": (500, transfer | {"amount": 100}, {}),
    }
    for label, (status, body, more) in ways.items():
        for count in range(2):
            headers = {"Idempotency-Key": f"{label} {count} {time.time_ns()}"}
            end("between")
            answer = await api.post(f"{wallet}/transfer", body, headers=headers, **more)
            assert answer.status == status, answer.text
            again = await api.post(f"{wallet}/transfer", body, headers=headers, **more)
            assert again.status == status, again.text
        end(label)
    await api.post("/wallets", {})
    end("POST /wallets")
    await api.post("/freeze", {"walletId": home.mine.wallet})
    await api.post("/unfreeze", {"walletId": home.mine.wallet})
    end("POST /freeze")


async def _stored(api: Api, home: Grown, end: Callable[[str], None]) -> None:
    """What needs a seller, a model or a node of somebody else's: its statements alone."""
    database, mine = api.service.database, home.mine
    async with database.write() as connection:
        await cycles.enter(connection, [(mine.agent, 1)])
        await cycles.recall(connection, [mine.agent])
        await transactions.recent(connection, [mine.wallet], 5)
        await agents.add_usage(
            connection,
            [{"agent_id": mine.agent, "hour": 1, "tokens": 1, "cost_nanousd": 1,
              "unpriced_tokens": 0}],
        )  # fmt: skip
        await agents.usage_by_agent(connection, [mine.agent], now_ms() // 3_600_000)
    end("cycle")
    async with database.read() as connection:
        await transactions.stake_accounts(connection, mine.wallet)
        await transactions.launched(connection, mine.wallet, ["mint"])
        await payments.last_paid(connection, mine.wallet, "https://api.example.com", "mint")
        await payments.taken_since(connection, mine.wallet, ["SOL"], 1, now_ms() - 60_000, ["x"])
    end("stakes, burns and payments")
    await api.service.engine.reconcile()
    end("reconcile")

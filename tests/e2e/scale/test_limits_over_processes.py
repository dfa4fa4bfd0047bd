"""Three API processes and three workers spend from the same budgets; the ledger counts."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import httpx
import pytest
from tests.promises import promise
from tests.support.processes import SECRET, SOL, Cluster, running_cluster

pytestmark = pytest.mark.more

AMOUNT = Decimal("0.5")
CONCURRENT = 100
# The default limits' day, of a wallet and of a key.
DAY = 10
AGENTS = 3


@pytest.fixture
def cluster(tmp_path: Path, postgres_url: str) -> Iterator[Cluster]:
    with running_cluster(tmp_path / "cluster", postgres_url, apis=3, workers=3) as running:
        yield running


async def burst(cluster: Cluster, token: str, wallets: list[str], to: str) -> int:
    """A hundred transfers at once, over all API processes and wallets; how many were accepted."""
    headers = {"Authorization": f"Bearer {token}"}
    limits = httpx.Limits(max_connections=CONCURRENT)
    async with httpx.AsyncClient(headers=headers, timeout=120, limits=limits) as client:
        body = {"to": to, "amount": float(AMOUNT)}
        wallet = itertools.cycle(wallets)
        api = itertools.cycle(cluster.apis)
        answers = await asyncio.gather(
            *(
                client.post(f"{next(api).url}/wallets/{next(wallet)}/transfer", json=body)
                for _ in range(CONCURRENT)
            )
        )
    refused = [answer for answer in answers if answer.status_code != 200]
    assert {answer.status_code for answer in refused} <= {500}
    limits_named = ("daily_limit", "spending_limit_check")
    for answer in refused:
        assert any(name in answer.text for name in limits_named), answer.text
    return len(answers) - len(refused)


def one_wallet(cluster: Cluster, name: str) -> None:
    """A wallet's day, raced for over REST and by three agents on the workers."""
    wallet, _ = cluster.wallet(name, 20)
    _, payee = cluster.wallet(f"{name}-payee")
    rule = f"always do transfer to={payee} amount={AMOUNT}"
    agents = [cluster.agent(f"{name}-{n}", wallet, rule) for n in range(AGENTS)]
    for number, agent in enumerate(agents):
        cluster.ask(agent, "start", number)
    accepted = asyncio.run(burst(cluster, SECRET, [wallet], payee))
    statement = "SELECT min(cycle_no) FROM agents WHERE wallet_id = %s"
    cluster.until(lambda: cluster.rows(statement, wallet)[0][0] > 1, "each agent had its turn")
    for number, agent in enumerate(agents):
        cluster.ask(agent, "stop", number + 1 - AGENTS)
    by_agents = cluster.rows(
        "SELECT count(*) FROM transactions WHERE wallet_id = %s AND status = 'confirmed'"
        " AND agent_id IS NOT NULL",
        wallet,
    )[0][0]
    assert cluster.lamports(payee) == DAY * SOL
    assert accepted + by_agents == DAY / AMOUNT


def one_key(cluster: Cluster, name: str) -> None:
    """A key's day, raced for over three wallets, each of which could spend all of it."""
    wallets = [cluster.wallet(f"{name}-{n}", 20)[0] for n in range(3)]
    _, payee = cluster.wallet(f"{name}-payee")
    asked = {"name": name, "rateLimit": 100_000, "spendingLimitSol": DAY}
    with cluster.client() as client:
        key = client.post("/keys", json=asked).json()["apiKey"]
    accepted = asyncio.run(burst(cluster, key, wallets, payee))
    assert accepted == DAY / AMOUNT
    assert cluster.lamports(payee) == DAY * SOL


def one_minute(cluster: Cluster, name: str) -> None:
    """A key's requests of a minute."""
    wallet, _ = cluster.wallet(name, 20)
    _, payee = cluster.wallet(f"{name}-payee")
    asked = {"name": name, "rateLimit": 7, "spendingLimitSol": 1_000}
    with cluster.client() as client:
        key = client.post("/keys", json=asked).json()["apiKey"]

    async def race() -> list[int]:
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(headers=headers, timeout=120) as client:
            body = {"to": payee, "amount": 0.01}
            api = itertools.cycle(cluster.apis)
            answers = await asyncio.gather(
                *(
                    client.post(f"{next(api).url}/wallets/{wallet}/transfer", json=body)
                    for _ in range(CONCURRENT)
                )
            )
        return [answer.status_code for answer in answers]

    statuses = asyncio.run(race())
    assert (statuses.count(200), statuses.count(429)) == (7, CONCURRENT - 7)
    assert cluster.lamports(payee) == 7 * SOL // 100


@promise("limits-hold-concurrently")
@pytest.mark.timeout(240)
def test_a_budget_is_spent_exactly_however_many_processes_spend_it(cluster: Cluster) -> None:
    one_wallet(cluster, "short")
    one_key(cluster, "short-key")
    one_minute(cluster, "short-minute")


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_fifty_races_for_a_budget_are_all_exact(cluster: Cluster) -> None:
    for number in range(25):
        one_wallet(cluster, f"wallet-{number}")
        one_key(cluster, f"key-{number}")


@pytest.mark.long
@pytest.mark.timeout(240)
def test_the_race_is_lost_when_check_and_reservation_are_two_transactions(
    tmp_path: Path, postgres_url: str
) -> None:
    with running_cluster(tmp_path / "cluster", postgres_url, apis=3, workers=0) as cluster:
        for api in cluster.apis:
            api.kill()
            api.start("mutant:split_reservation")
        wallet, _ = cluster.wallet("naive", 60)
        _, payee = cluster.wallet("payee")
        accepted = asyncio.run(burst(cluster, SECRET, [wallet], payee))
        assert accepted > DAY / AMOUNT
        assert cluster.lamports(payee) == accepted * AMOUNT * SOL

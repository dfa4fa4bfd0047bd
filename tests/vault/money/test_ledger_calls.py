"""What a warm transfer asks of its ledger, by call and HTTP request, and how often it commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from decimal import Decimal
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.clock import until
from tests.support.engine import UNLIMITED, Bench, open_bench
from tests.support.rpc import RpcNode, answers_of, listening

from solward.database.database import Database
from solward.operations.sol import plan_transfer
from solward.service.cluster import open_cluster
from solward.settings import Settings
from solward.types.record import TransactionStatus
from solward.vault.custody import Wallets
from solward.vault.guardrails.rules import Policy
from solward.vault.money.engine import Engine, EngineOptions
from solward.vault.money.request import ADMIN

AMOUNT = Decimal("0.5")
# Accounts and simulation leave together, then the bytes, then the status.
CALLS = Counter(
    getMultipleAccounts=1, simulateTransaction=1, sendTransaction=1, getSignatureStatuses=1
)
POSTS = 3
# Reservation, write-ahead, settlement.
COMMITS = 3


@asynccontextmanager
async def engine_over(
    bench: Bench, folder: Path, nodes: tuple[RpcNode, ...]
) -> AsyncIterator[tuple[Database, Callable[[], Awaitable[None]]]]:
    """The database of an engine over HTTP, and its transfer, which it has made before."""
    folder.mkdir()
    async with AsyncExitStack() as stack:
        settings = Settings(
            _env_file=None,
            solward_home=folder,
            solana_rpc_url=",".join(node.url for node in nodes),
            solana_network="localnet",
        )
        cluster = await stack.enter_async_context(open_cluster(settings))
        database = await Database.open(None, folder)
        stack.push_async_callback(database.close)
        wallets = await Wallets.open(database, settings, folder)
        options = EngineOptions(policy=Policy(), wallet_limits=UNLIMITED)
        engine = Engine(cluster.ledger, database, wallets, options, verify_cluster=cluster.verify)
        stack.push_async_callback(engine.close)
        wallet = await wallets.create("over http")
        await bench.localnet.call("requestAirdrop", [wallet.address, 10_000_000_000])
        engine.start()

        async def transfer() -> None:
            draft = plan_transfer(wallet.address, to=bench.recipient, amount=AMOUNT)
            record = await engine.execute(wallet.id, ADMIN, draft)
            assert record.status is TransactionStatus.CONFIRMED

        for _ in range(2):
            await transfer()
        yield database, transfer


async def test_on_the_embedded_ledger(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        for _ in range(2):
            await bench.transfer(AMOUNT)
        bench.wire.calls.clear()
        kinds: list[str] = []
        bench.database.on_transaction = kinds.append
        await bench.transfer(AMOUNT)
        assert bench.wire.calls == CALLS
        assert kinds.count("write") == COMMITS


@promise("batch-refusal-is-survived")
@pytest.mark.parametrize("addresses", [1, 2])
async def test_over_http(bench: Bench, tmp_path: Path, addresses: int) -> None:
    # To a second address only the bytes go, too.
    more = addresses - 1
    async with (
        listening(*[answers_of(bench.localnet)] * addresses) as nodes,
        engine_over(bench, tmp_path / "http", nodes) as (database, transfer),
    ):
        for node in nodes:
            node.calls.clear()
            node.posts = 0
        kinds: list[str] = []
        database.on_transaction = kinds.append
        await transfer()

        async def all_sent() -> bool:
            return sum(node.calls["sendTransaction"] for node in nodes) == 1 + more

        # The answer of one address is enough to go on.
        await until(all_sent)
        calls = sum((node.calls for node in nodes), Counter())
        assert calls == CALLS + Counter(sendTransaction=more)
        assert sum(node.posts for node in nodes) == POSTS + more
        assert kinds.count("write") == COMMITS


async def test_over_http_to_a_node_that_takes_no_batches(bench: Bench, tmp_path: Path) -> None:
    async with listening(answers_of(bench.localnet)) as (node,):
        node.faults["batch"] = 403
        async with engine_over(bench, tmp_path / "http", (node,)) as (_database, transfer):
            node.calls.clear()
            node.posts = 0
            await transfer()
            assert node.calls == CALLS
            assert node.posts == CALLS.total()

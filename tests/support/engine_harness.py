"""An engine on a real VM and a real SQLite, with a ledger that can be made to misbehave."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from solders.account import Account
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from tests.support.ended_records import refuse_changes_of_ended_records

from solward.database.database import Database
from solward.operations.perform import Operations
from solward.operations.transfer import plan_transfer
from solward.operations.venues import Venue
from solward.settings import Settings
from solward.solana.token_list import TokenList, token_list
from solward.types.errors import LedgerRejected, LedgerUnavailable
from solward.types.money import LAMPORTS_PER_SOL, sol_to_lamports
from solward.types.record import TransactionRecord
from solward.vault.custody import Wallet, Wallets
from solward.vault.guardrails import Policy, ScopeLimits
from solward.vault.ledger.client import RpcLedger
from solward.vault.ledger.transport import IN_PROCESS
from solward.vault.money.engine import Engine, EngineOptions
from solward.vault.money.request import ADMIN, Actor, Draft
from solward.vault.store import transactions as store
from solward_localnet.errors import RpcError
from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions

LIMITS = ScopeLimits(
    max_lamports_per_tx=2 * LAMPORTS_PER_SOL,
    max_tx_per_minute=5,
    daily_lamports=10 * LAMPORTS_PER_SOL,
)
UNLIMITED = ScopeLimits()

Fault = Callable[[str, Sequence[Any]], Awaitable[Any]]


class Wire:
    """The transport to the localnet: counts calls, and lets a test put a fault before any.

    It is the process's own; a test may give it the `origin` of a remote one.
    """

    origin = IN_PROCESS

    def __init__(self, localnet: Localnet) -> None:
        self._localnet = localnet
        self.calls: Counter[str] = Counter()
        self.faults: dict[str, Fault] = {}

    async def call(self, method: str, params: Sequence[Any]) -> Any:
        self.calls[method] += 1
        fault = self.faults.get(method)
        if fault is not None:
            answer = await fault(method, params)
            if answer is not None:
                return answer
        return await self.direct(method, params)

    async def direct(self, method: str, params: Sequence[Any]) -> Any:
        """Past every fault."""
        try:
            return await self._localnet.call(method, params)
        except RpcError as error:
            raise LedgerRejected(error.code, error.message, error.data) from None

    async def close(self) -> None:
        return None

    def away(self, method: str) -> None:
        """Leave a method unanswered from now on."""

        async def fault(name: str, _params: Sequence[Any]) -> Any:
            raise LedgerUnavailable(f"The ledger did not answer {name}")

        self.faults[method] = fault


@dataclass(slots=True)
class Bench:
    """The parts, a funded wallet, and somebody to pay."""

    localnet: Localnet
    wire: Wire
    ledger: RpcLedger
    database: Database
    wallets: Wallets
    engine: Engine
    wallet: Wallet
    recipient: str = field(default_factory=lambda: str(Keypair().pubkey()))

    def operations(
        self,
        *,
        network: str = "localnet",
        tokens: TokenList | None = None,
        venues: Sequence[Venue] = (),
    ) -> Operations:
        """What the service does with the wallet."""
        return Operations(
            engine=self.engine,
            wallets=self.wallets,
            ledger=self.ledger,
            tokens=token_list(network) if tokens is None else tokens,
            network=network,
            venues=venues,
        )

    def draft(self, amount: Any, to: str | None = None) -> Draft:
        """A transfer of `amount` SOL."""
        return plan_transfer(self.wallet.address, to=to or self.recipient, amount=amount)

    async def transfer(
        self, amount: Any, actor: Actor = ADMIN, to: str | None = None
    ) -> TransactionRecord:
        return await self.engine.execute(self.wallet.id, actor, self.draft(amount, to))

    async def history(self) -> list[TransactionRecord]:
        async with self.database.read() as connection:
            return await store.history(connection, self.wallet.id, 500, None)

    async def lamports(self, address: str) -> int:
        return int((await self.wire.direct("getBalance", [address]))["value"])

    async def reserved_units(self) -> int:
        """All SOL units counted against the wallet in 24 hours."""
        from solward.support.clock import now_ms
        from solward.vault.store import spending

        scope = f"wallet:{self.wallet.id}"
        async with self.database.read() as connection:
            found = await spending.usage(connection, [scope], [], now_ms())
        return found[scope].units_last_day.get(spending.SOL_ASSET, 0)


@asynccontextmanager
async def open_bench(
    tmp_path: Path,
    *,
    limits: ScopeLimits = UNLIMITED,
    blocked: frozenset[str] = frozenset(),
    sol: int = 10,
    genesis: Callable[[], Mapping[Pubkey, Account]] | None = None,
    policy: Policy | None = None,
    **engine_options: Any,
) -> AsyncIterator[Bench]:
    """Open everything; the wallet holds `sol` SOL."""
    async with AsyncExitStack() as stack:
        options = LocalnetOptions(test_control=True, genesis=genesis)
        localnet = await Localnet.open(None, options)
        stack.push_async_callback(localnet.close)
        wire = Wire(localnet)
        ledger = RpcLedger(wire)
        settings = Settings(_env_file=None, solward_home=tmp_path)
        database = await Database.open(None, tmp_path)
        stack.push_async_callback(database.close)
        await refuse_changes_of_ended_records(database)
        wallets = await Wallets.open(database, settings, tmp_path)
        policy = policy or Policy(blocked_addresses=blocked)
        engine_settings = EngineOptions(policy=policy, wallet_limits=limits, **engine_options)
        engine = Engine(ledger, database, wallets, engine_settings)
        stack.push_async_callback(engine.close)
        wallet = await wallets.create("bench")
        if sol:
            await localnet.call("requestAirdrop", [wallet.address, sol_to_lamports(sol)])
        engine.sender.start()
        yield Bench(localnet, wire, ledger, database, wallets, engine, wallet)


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 20) -> None:
    """Wait for something that happens in another task; fails when it does not."""
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.01)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened

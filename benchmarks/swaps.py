"""A swap beside a plain transfer: ledger calls, database transactions, processor time.

The swap is the one-transaction form at the localnet's market, signed by the wallet and a pocket.
The ledger and the market run in the same process, so their processor time is in the figures; what
the market asks of the ledger is not among the calls.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from benchmarks.report import Ratio
from tests.support.engine import Bench
from tests.support.swaps import open_swaps

from solward.telemetry.logs import configure

COUNT = 100
AMOUNT = Decimal("0.001")
# Of a warm transfer: reservation, write-ahead and settlement; accounts, simulation, send, status.
LEDGER_CALLS = 4
COMMITS = 3


@dataclass(frozen=True, slots=True)
class Cost:
    """What one transaction takes, the mean of `COUNT`.

    Attributes:
        ledger_calls: calls of the ledger's RPC.
        commits: write transactions of the database.
        reads: its read transactions.
        cpu_ms: processor time of the process.
    """

    ledger_calls: float
    commits: float
    reads: float
    cpu_ms: float

    def __str__(self) -> str:
        return (
            f"{self.ledger_calls:.2f} ledger calls, {self.commits:.2f} commits, "
            f"{self.reads:.2f} reads, {self.cpu_ms:.2f} ms CPU"
        )


async def _cost(bench: Bench, make: Callable[[], Awaitable[object]]) -> Cost:
    """The cost of `make`, warm."""
    for _ in range(5):
        await make()
    kinds: list[str] = []
    bench.database.on_transaction = kinds.append
    bench.wire.calls.clear()
    before = time.process_time()
    for _ in range(COUNT):
        await make()
    cpu_ms = (time.process_time() - before) / COUNT * 1_000
    bench.database.on_transaction = None
    return Cost(
        bench.wire.calls.total() / COUNT,
        kinds.count("write") / COUNT,
        kinds.count("read") / COUNT,
        cpu_ms,
    )


async def measure(tmp: Path) -> Iterator[Ratio]:
    """What a transfer takes against its limit, a swap against a transfer, and in version 0."""
    configure("error")
    folder = tmp / "swaps"
    folder.mkdir()
    async with open_swaps(folder) as swaps:
        bench = swaps.bench
        transfer = await _cost(bench, lambda: bench.transfer(AMOUNT))
        swap = await _cost(bench, lambda: swaps.swap("SOL", "USDC", AMOUNT))
    folder = tmp / "swaps-version-0"
    folder.mkdir()
    async with open_swaps(folder, transaction_version=0) as swaps:
        older = await _cost(swaps.bench, lambda: swaps.swap("SOL", "USDC", AMOUNT))
    print(f"a transfer:          {transfer}", flush=True)
    print(f"a swap:              {swap}", flush=True)
    print(f"a swap in version 0: {older}", flush=True)
    calls, commits = (transfer.ledger_calls, swap.ledger_calls), (transfer.commits, swap.commits)
    return iter(
        [
            Ratio("ledger calls: limit / transfer", LEDGER_CALLS, calls[0], "", 1),
            Ratio("commits: limit / transfer", COMMITS, commits[0], "", 1),
            Ratio("ledger calls: transfer / swap", *calls, "", 0.45),
            Ratio("commits: transfer / swap", *commits, "", 1),
            Ratio("CPU: transfer / swap", transfer.cpu_ms, swap.cpu_ms, "ms", 0.18),
            Ratio("ledger calls: version 0 / 1", older.ledger_calls, swap.ledger_calls, "", 0.9),
            Ratio("CPU: version 0 / 1", older.cpu_ms, swap.cpu_ms, "ms", 0.8),
        ]
    )

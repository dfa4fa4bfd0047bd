"""Each hot route against a bare Quart handler on Hypercorn, in turn: POST with POST, GET with GET.

The service's ledger is a `solward localnet` over HTTP, but for one row; 16 requests are under way.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
from benchmarks import load, processes
from benchmarks.load import Request
from benchmarks.report import Ratio, middle
from solders.keypair import Keypair
from tests.support.localnet import localnet_process

API = "/api/v1/"
WALLETS = 1_600
RECORDS = 1_000
ROUNDS = 15
# Requests of the bare handler, and of each row but transfers, in a round: a slice begins slowly,
# and a shorter one pays more for it.
SLICE = 300
# Transfers come from so many wallets in turn: payments of one wait for each other.
PAYERS = 16
ECHO = Request("POST", "echo", {"to": "a" * 44, "amount": 0.001})
NEW_WALLET = Request("POST", "wallets", {})
BARE_GET = Request("GET", "api/v1/health")


@dataclass(frozen=True, slots=True)
class Served:
    """A process that serves, and a client of it."""

    client: aiohttp.ClientSession
    pid: int


@dataclass(frozen=True, slots=True)
class Row:
    """A route of the table.

    Attributes:
        requests: what is sent, without end.
        slice: how many of them are sent between two slices of the bare handler.
        at_least: of what the bare handler does in the same time.
        bare: what the bare handler is sent.
        check: called with each answer; raises where it is not the one to be measured.
    """

    title: str
    served: Served
    requests: Iterator[Request]
    slice: int
    at_least: float
    bare: Request = BARE_GET
    check: Callable[[Any], None] = load.unchecked


async def measure(tmp: Path) -> Iterator[Ratio]:
    """Every row, slice by slice with the bare handler."""
    async with AsyncExitStack() as stack:
        node = stack.enter_context(localnet_process(tmp / "rest-ledger.db"))
        ledger = {"SOLANA_RPC_URL": node.http, "SOLANA_NETWORK": "localnet"}
        bare = await _served(stack, load.bare_process(), "/")
        external = await _served(stack, load.service_process(tmp / "rest-external", **ledger), API)
        embedded = await _served(stack, load.service_process(tmp / "rest-embedded"), API)
        rows = await _rows(external, embedded)
        pairs: dict[str, list[tuple[float, float]]] = {row.title: [] for row in rows}
        cpu: dict[str, list[tuple[float, float]]] = {row.title: [] for row in rows}
        for _ in range(ROUNDS):
            for row in rows:
                yardstick, bare_ms = await _slice(bare, [row.bare] * SLICE)
                requests = list(itertools.islice(row.requests, row.slice))
                own, own_ms = await _slice(row.served, requests, row.check)
                pairs[row.title].append((own, yardstick))
                cpu[row.title].append((own_ms, bare_ms))
    for title, times in cpu.items():
        own_ms, bare_ms = map(statistics.mean, zip(*times, strict=True))
        print(
            f"{title}: {own_ms:.2f} ms of the service's CPU each, {bare_ms:.2f} of the bare one's"
        )
    return iter(
        [middle(f"{row.title} / bare Quart", pairs[row.title], "1/s", row.at_least) for row in rows]
    )


async def _slice(
    served: Served, requests: list[Request], check: Callable[[Any], None] = load.unchecked
) -> tuple[float, float]:
    """Requests a second, and milliseconds of the process's CPU for each."""
    before = processes.cpu_s(served.pid)
    rate = await load.per_second(served.client, requests, check)
    return rate, (processes.cpu_s(served.pid) - before) * 1_000 / len(requests)


async def _rows(external: Served, embedded: Served) -> list[Row]:
    """The routes over stored wallets and records."""
    payers = [await _funded(external.client) for _ in range(PAYERS)]
    await load.per_second(external.client, [NEW_WALLET] * (WALLETS - PAYERS))
    transfers = _transfers(payers)
    await load.per_second(external.client, list(itertools.islice(transfers, RECORDS)), _confirmed)
    inside = await _funded(embedded.client)

    def get(title: str, path: str, at_least: float) -> Row:
        return Row(title, external, itertools.repeat(Request("GET", path)), SLICE, at_least)

    of_embedded = get("GET balance, embedded ledger", f"wallets/{inside}/balance", 0.57)
    return [
        # docs/assurance/benchmarks.md has why it is not more.
        Row("transfers confirmed", external, transfers, 160, 0.1, ECHO, _confirmed),
        Row("POST wallets", external, itertools.repeat(NEW_WALLET), SLICE, 0.45, ECHO),
        get("GET balance", f"wallets/{payers[0]}/balance", 0.5),
        replace(of_embedded, served=embedded),
        get("GET transactions?limit=50", "transactions?limit=50", 0.44),
        get("GET wallets?limit=50", "wallets?limit=50", 0.35),
        get("health", "health", 0.57),
    ]


async def _served(
    stack: AsyncExitStack, process: AbstractContextManager[tuple[str, int]], below: str
) -> Served:
    url, pid = stack.enter_context(process)
    return Served(await stack.enter_async_context(load.client(f"{url}{below}")), pid)


async def _funded(client: aiohttp.ClientSession) -> str:
    wallet = str((await load.answer(client, NEW_WALLET))["walletId"])
    await load.answer(client, Request("POST", f"wallets/{wallet}/airdrop", {"amount": 2}))
    return wallet


def _transfers(payers: list[str]) -> Iterator[Request]:
    """Transfers of one wallet after the other, each of another amount."""
    to = str(Keypair().pubkey())
    for number, payer in enumerate(itertools.cycle(payers)):
        amount = (1_000_000 + number) / 10**9
        yield Request("POST", f"wallets/{payer}/transfer", {"to": to, "amount": amount})


def _confirmed(answer: Any) -> None:
    if answer["status"] != "confirmed":
        raise RuntimeError(f"a transfer is {answer['status']}")

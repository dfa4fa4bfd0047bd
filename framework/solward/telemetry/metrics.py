"""The metrics of a process, for Prometheus; docs/reference/metrics.md has the list.

Label values come from small sets: never an id, an address or free text, because Prometheus keeps a
series for each. Times are seconds. The registry is Solward's own, so that a program that embeds
Solward can publish it or not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder

REGISTRY = CollectorRegistry(auto_describe=True)
ProcessCollector(registry=REGISTRY)

# Gauges that are not filled in this time keep their last values.
SCRAPE_WAIT_S = 2.0

# From a read of SQLite to a commit that waits for a disk.
_FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
# From a local answer to a model that thinks.
_SLOW = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0)
# Tenths of a second where a worker has room; unbounded where it has none.
_LAG = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0, 60.0)
# To the end of a blockhash's life, on slow clusters too.
_CONFIRMATION = (0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 45.0, 90.0, 180.0)

_log = structlog.get_logger(__name__)


def _counter(name: str, text: str, *labels: str) -> Counter:
    return Counter(f"solward_{name}", text, labels, registry=REGISTRY)


def _gauge(name: str, text: str, *labels: str) -> Gauge:
    return Gauge(f"solward_{name}", text, labels, registry=REGISTRY)


def _histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
    return Histogram(f"solward_{name}", text, labels, buckets=buckets, registry=REGISTRY)


TRANSACTIONS = _counter(
    "transactions", "Transactions that got a status, by type and status.", "type", "status"
)
GUARDRAIL_BLOCKS = _counter(
    "guardrail_blocks", "Transactions refused by a guardrail, by rule.", "rule"
)
ATTEMPTS = _gauge(
    "attempts", "Signed transactions whose end is not known, in the database, by state.", "state"
)
ATTEMPTS_UNKNOWN = _gauge(
    "attempts_unknown", "Attempts whose fate cannot be told; their money stays reserved."
)
HOLDS_OPEN = _gauge(
    "holds_open",
    "Transactions that wait for a person, or were approved and not carried out.",
    "state",
)
POCKETS_OPEN = _gauge(
    "pockets_open", "Pockets that may hold something, in the database: positions and what is left."
)
ATTEMPTS_ENDED = _counter("attempts_ended", "Signed transactions that ended, by state.", "state")
IN_FLIGHT = _gauge("transactions_in_flight", "Transactions this process watches.")
CONFIRMATION = _histogram(
    "confirmation_seconds", "From the first send to the stored end.", _CONFIRMATION
)
RESENDS = _counter("resends", "Signed bytes sent again.")
RELEASED = _counter("reservations_released", "Reservations given back unspent.")
TAKEOVERS = _counter("takeovers", "Transactions taken over from a process that went away.")
FENCED = _counter(
    "fenced_writes", "Writes refused because another process had taken over, by step.", "step"
)

CYCLES = _counter("agent_cycles", "Agents' cycles, by how they ended.", "outcome")
CYCLE = _histogram("agent_cycle_seconds", "From entering a cycle to leaving it.", _SLOW)
CYCLE_LAG = _histogram("agent_cycle_lag_seconds", "From when a cycle was due to its begin.", _LAG)
SCHEDULE_RUNS = _counter("schedule_runs", "Runs of schedules, by how they ended.", "status")
AGENTS = _gauge("agents", "Agents in the database, by status.", "status")
PROVIDER_CALLS = _counter(
    "provider_calls", "Completions asked of a provider, by outcome.", "provider", "outcome"
)
PROVIDER_CALL = _histogram(
    "provider_call_seconds", "How long a completion took.", _SLOW, "provider"
)
PROVIDER_TOKENS = _counter(
    "provider_tokens", "Tokens as the vendor counted them.", "provider", "direction"
)
PROVIDER_COST = _counter(
    "provider_cost_usd", "Estimated price of completions, where it is known.", "provider"
)
SKILLS = _counter("skill_executions", "Runs of skills, by outcome.", "skill", "outcome")
SKILL = _histogram("skill_execution_seconds", "How long a skill ran.", _SLOW, "skill")

PLUGIN_REQUESTS = _counter(
    "plugin_requests", "HTTP requests of plugins, by outcome.", "plugin", "outcome"
)
PLUGIN_PROBLEMS = _gauge("plugin_problems", "Problems of plugins in this process, by code.", "code")

RPC_CALLS = _counter("rpc_calls", "Calls of the ledger's RPC, by outcome.", "method", "outcome")
RPC_CALL = _histogram("rpc_call_seconds", "How long the RPC took to answer.", _SLOW, "method")
RPC_FAILOVERS = _counter("rpc_failovers", "Calls given to another RPC of the list.")
LEDGER_HEALTHY = _gauge("ledger_healthy", "1 while the ledger answers, else 0.")
WINDOWS_BEHIND = _gauge(
    "windows_behind_seconds",
    "How far the limits' windows are behind the database's clock, as the ledger's time is.",
)
LEDGER_SLOT = _gauge("ledger_slot", "The ledger's slot as last seen.")

HTTP_REQUESTS = _counter(
    "http_requests", "Requests answered, by route template.", "route", "method", "status"
)
HTTP_REQUEST = _histogram(
    "http_request_seconds", "Until the answer began.", _SLOW, "route", "method"
)
RATE_LIMITED = _counter("rate_limited", "Requests refused by a key's rate limit.")

DATABASE_TRANSACTION = _histogram(
    "database_transaction_seconds", "Database transactions, waiting included.", _FAST, "kind"
)
AUDIT_EVENTS = _counter("audit_events", "Events written to the audit log, by kind.", "event")
ALERTS = _counter("alerts", "Alerts raised.", "alert")

HOLD_OLDEST = _gauge(
    "hold_oldest_seconds", "How long the oldest waits that nobody decided; 0 where none does."
)
GRANTS_NEAR_END = _gauge("grants_near_end", "Grants in force that are near their end.", "reason")
WEBHOOK_DELIVERIES = _counter(
    "webhook_deliveries", "Tries to tell a webhook's receiver, by outcome.", "webhook", "outcome"
)
WEBHOOK_WAITING = _gauge(
    "webhook_waiting", "Deliveries of a webhook that wait, in the database.", "webhook"
)
WEBHOOK_DECISIONS = _counter(
    "webhook_decisions", "Decisions that came to the approvals' webhook, by outcome.", "outcome"
)

JOBS = _gauge("jobs", "Jobs of agents' cycles in the queue, by status.", "status")
PROCESSES = _gauge("processes", "Processes with a live lease on the database, by kind.", "kind")
PROCESS_INFO = _gauge("process_info", "Always 1.", "version", "network", "kind")
START_TIME = _gauge("start_time_seconds", "When the process began to serve, in Unix seconds.")

DATABASE_READ = DATABASE_TRANSACTION.labels("read")
DATABASE_WRITE = DATABASE_TRANSACTION.labels("write")


def describe_process(version: str, network: str, kind: str) -> None:
    """Set the constant gauges of this process; `kind` is `api` or `worker`."""
    PROCESS_INFO.labels(version, network, kind).set(1)
    START_TIME.set(time.time())


Filler = Callable[[], Awaitable[None]]
_fillers: list[Filler] = []


@contextmanager
def at_scrape(filler: Filler) -> Iterator[None]:
    """Inside the block, run `filler`, which sets gauges, before each scrape.

    One that raises or takes longer than `SCRAPE_WAIT_S` is skipped and logged.
    """
    _fillers.append(filler)
    try:
        yield
    finally:
        _fillers.remove(filler)


async def scrape(accept: str = "") -> tuple[bytes, str]:
    """Fill the gauges and render all metrics.

    Args:
        accept: the scraper's `Accept` header.

    Returns:
        The body and its content type, OpenMetrics where the scraper accepts it.
    """
    await asyncio.gather(*map(_filled, list(_fillers)))
    return render(accept)


def render(accept: str = "") -> tuple[bytes, str]:
    """As `scrape`, without filling the gauges."""
    encode, content_type = choose_encoder(accept)
    return encode(REGISTRY), content_type


async def _filled(filler: Filler) -> None:
    try:
        async with asyncio.timeout(SCRAPE_WAIT_S):
            await filler()
    except Exception as error:
        # A failed scrape would hide all other metrics too.
        _log.warning("metric_not_filled", error=type(error).__name__)

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

# Seconds for filling the gauges; gauges that are not filled in time keep their last values.
SCRAPE_WAIT_S = 2.0

# From a SQLite read to a commit that waits for the disk.
_FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
# From a local answer to a model with long reasoning.
_SLOW = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0)
# Tenths of a second while a worker has free capacity; unbounded without.
_LAG = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0, 60.0)
# Up to the expiry of a blockhash, also on slow clusters.
_CONFIRMATION = (0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 45.0, 90.0, 180.0)

_log = structlog.get_logger(__name__)


def _counter(name: str, text: str, *labels: str) -> Counter:
    return Counter(f"solward_{name}", text, labels, registry=REGISTRY)


def _gauge(name: str, text: str, *labels: str) -> Gauge:
    return Gauge(f"solward_{name}", text, labels, registry=REGISTRY)


def _histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
    return Histogram(f"solward_{name}", text, labels, buckets=buckets, registry=REGISTRY)


TRANSACTIONS = _counter(
    "transactions",
    "Status changes of transactions: `pending`, then `confirmed` or `failed`; or `blocked`.",
    "type",
    "status",
)
GUARDRAIL_BLOCKS = _counter(
    "guardrail_blocks",
    "Transactions that a rule refused; `freeze` during a freeze.",
    "rule",
)
ATTEMPTS = _gauge(
    "attempts",
    "Signed transactions whose outcome is not known yet: `signed`, `sent` or `unknown`.",
    "state",
)
ATTEMPTS_UNKNOWN = _gauge(
    "attempts_unknown",
    "Signed transactions whose outcome no RPC node can tell. Their money stays reserved.",
)
HOLDS_OPEN = _gauge(
    "holds_open",
    "Holds that wait for a person (`held`), or that are approved and not carried out yet.",
    "state",
)
POCKETS_OPEN = _gauge(
    "pockets_open",
    "Pockets that may hold assets: positions, and assets that a sweep could not return.",
)
ATTEMPTS_ENDED = _counter(
    "attempts_ended",
    "Signed transactions that ended: `landed_ok`, `landed_err`, `dead` or, by one node's word,"
    " `presumed_dead`, whose amount still counts.",
    "state",
)
IN_FLIGHT = _gauge("transactions_in_flight", "Transactions that this process watches.")
CONFIRMATION = _histogram(
    "confirmation_seconds", "Time from the first send to the stored outcome.", _CONFIRMATION
)
RESENDS = _counter("resends", "Repeated sends of signed transactions.")
RELEASED = _counter("reservations_released", "Reservations released because nothing was signed.")
TAKEOVERS = _counter("takeovers", "Transactions taken over from another process.")
FENCED = _counter(
    "fenced_writes",
    "Writes refused because another process had taken over, at the step `reserve`, `write_ahead`"
    " or `leave`.",
    "step",
)

CYCLES = _counter(
    "agent_cycles",
    "Agents' cycles that `acted`, `waited` or `failed`. `fenced`: another run had taken the cycle,"
    " or the agent was stopped.",
    "outcome",
)
CYCLE = _histogram("agent_cycle_seconds", "Duration of a cycle.", _SLOW)
CYCLE_LAG = _histogram(
    "agent_cycle_lag_seconds", "Time from a cycle's due time to its begin.", _LAG
)
SCHEDULE_RUNS = _counter(
    "schedule_runs",
    "Due times of schedules that this process ran: `succeeded`, `held`, `refused` or `failed`.",
    "status",
)
AGENTS = _gauge("agents", "Agents by status.", "status")
PROVIDER_CALLS = _counter(
    "provider_calls",
    "Completions and chats: `ok`, `error`, `refused`, `timeout` or `cancelled`.",
    "provider",
    "outcome",
)
PROVIDER_CALL = _histogram(
    "provider_call_seconds", "How long a completion took.", _SLOW, "provider"
)
PROVIDER_TOKENS = _counter(
    "provider_tokens",
    "Tokens as the vendor counted them: `input` and `output`.",
    "provider",
    "direction",
)
PROVIDER_COST = _counter(
    "provider_cost_usd", "Estimated price of completions, if it is known.", "provider"
)
SKILLS = _counter(
    "skill_executions",
    "Runs of skills: `ok`, `refused`, `blocked`, `failed`, `timeout`, `crashed` or `cancelled`.",
    "skill",
    "outcome",
)
SKILL = _histogram("skill_execution_seconds", "How long a skill ran.", _SLOW, "skill")

PLUGIN_REQUESTS = _counter(
    "plugin_requests",
    "HTTP requests of plugins in plugin hosts: `answered`, `refused`, `failed` or `cancelled`.",
    "plugin",
    "outcome",
)
PLUGIN_PROBLEMS = _gauge("plugin_problems", "Problems of plugins in this process, by code.", "code")

RPC_CALLS = _counter(
    "rpc_calls",
    "Calls to the ledger: `ok`, `rejected`, `unavailable` or `cancelled`.",
    "method",
    "outcome",
)
RPC_CALL = _histogram("rpc_call_seconds", "How long the RPC took to answer.", _SLOW, "method")
RPC_FAILOVERS = _counter("rpc_failovers", "Calls sent on to another node of `SOLANA_RPC_URL`.")
LEDGER_HEALTHY = _gauge("ledger_healthy", "1 while the ledger answers this process, else 0.")
WINDOWS_BEHIND = _gauge(
    "windows_behind_seconds",
    "How far the windows of limits lag behind the database's clock because the ledger's time lags;"
    " 0 if the clocks agree.",
)
LEDGER_SLOT = _gauge("ledger_slot", "The slot last read from the ledger.")

HTTP_REQUESTS = _counter(
    "http_requests",
    "Requests by route template; `unmatched` if no route matches.",
    "route",
    "method",
    "status",
)
HTTP_REQUEST = _histogram(
    "http_request_seconds", "Time until the answer began.", _SLOW, "route", "method"
)
RATE_LIMITED = _counter("rate_limited", "Requests refused by a key's `rateLimit`.")

DATABASE_TRANSACTION = _histogram(
    "database_transaction_seconds",
    "Database transactions, `read` or `write`, waiting included.",
    _FAST,
    "kind",
)
AUDIT_EVENTS = _counter("audit_events", "Entries of the audit log, by kind.", "event")
ALERTS = _counter("alerts", "Alerts raised.", "alert")

HOLD_OLDEST = _gauge(
    "hold_oldest_seconds", "How long the oldest undecided hold has waited; 0 if there is none."
)
GRANTS_NEAR_END = _gauge(
    "grants_near_end",
    "Grants in force near their end: `used`, 90% or more of an amount or of the costs is used;"
    " `until`, the end is within 24 hours.",
    "reason",
)
WEBHOOK_DELIVERIES = _counter(
    "webhook_deliveries",
    "Delivery tries to `approvals`, `alerts`, `slack` or `telegram`: `delivered`, `failed` (tried"
    " again) or `given_up`.",
    "webhook",
    "outcome",
)
WEBHOOK_WAITING = _gauge("webhook_waiting", "Webhook deliveries that wait.", "webhook")
WEBHOOK_DECISIONS = _counter(
    "webhook_decisions",
    "Signed decisions received by the approvals' webhook: `accepted` or `refused`.",
    "outcome",
)

JOBS = _gauge(
    "jobs", "Agents' cycles in the workers' queue: `todo`, `doing` or `stalled`.", "status"
)
PROCESSES = _gauge("processes", "Live processes: `api` and `worker`.", "kind")
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
    """Run `filler`, which sets gauges, before each scrape while the block lasts.

    A filler that raises or takes longer than `SCRAPE_WAIT_S` is skipped and logged.
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
    await asyncio.gather(*map(_fill_gauges, list(_fillers)))
    return render(accept)


def render(accept: str = "") -> tuple[bytes, str]:
    """Render all metrics as `scrape` does, without filling the gauges first."""
    encode, content_type = choose_encoder(accept)
    return encode(REGISTRY), content_type


async def _fill_gauges(filler: Filler) -> None:
    try:
        async with asyncio.timeout(SCRAPE_WAIT_S):
            await filler()
    except Exception as error:
        # A failed scrape would hide all other metrics too.
        _log.warning("metric_not_filled", error=type(error).__name__)

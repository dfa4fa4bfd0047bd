"""Sums over all wallets, for people: what was spent, transactions, refusals, balances, and what can
leave. They are read again if they are older than `KEPT_TIMES` the time that reading them took."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any, Final, Generic, TypeVar

import structlog
from sqlalchemy import bindparam, func, select

from solward.database.database import Database
from solward.database.prepared import Prepared, Row
from solward.database.set_apart import is_shared_failure
from solward.database.tables import transactions, wallets
from solward.operations.policies.grant_report import SWAPS, CanLeave
from solward.operations.policies.refusals import cause_json, causes_of_refusals
from solward.resources import totals as shapes
from solward.resources.declare import answer_json
from solward.service.holdings import Holdings
from solward.solana.balances import Balances
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.support.clock import iso, now_ms
from solward.support.durations import DAY_MS, HOUR_MS
from solward.types.guardrail import COSTS, SOL
from solward.types.money import SOL_DECIMALS, from_units
from solward.vault.grants.dollars import Price
from solward.vault.grants.model import ANY_ASSET, USD_DECIMALS
from solward.vault.store.window_sums import sum_all_wallets

T = TypeVar("T")

KEPT_TIMES: Final = 10
BALANCES_S: Final = 30.0
"""The least time for which balances are kept."""
MOST_ASSETS: Final = 100
"""The most assets in an answer: anybody can send a wallet tokens of any number of mints."""
MOST_CAUSES: Final = 20
MOST_NAMED: Final = 10
# Wallets whose accounts are read in one call.
_TOGETHER: Final = 100
_HOURS, _END_MS = 24, 2**62

_log = structlog.get_logger(__name__)

_COUNTS = Prepared(
    select(transactions.c.type, transactions.c.status, func.count().label("number"))
    .where(
        transactions.c.created_ms > bindparam("after"),
        transactions.c.created_ms <= bindparam("until"),
    )
    .group_by(transactions.c.type, transactions.c.status)
)
_WALLETS = Prepared(select(func.count()).select_from(wallets))


class _Kept(Generic[T]):
    """A value that is read again once it is older than `least_s`, and than `KEPT_TIMES` the time
    that reading took; simultaneous callers wait for one read."""

    def __init__(self, read: Callable[[], Awaitable[T]], least_s: float = 0.0) -> None:
        self._read, self._least_s = read, least_s
        self._lock = asyncio.Lock()
        self._until = 0.0
        self.latest: T | None = None

    async def get(self) -> T:
        async with self._lock:
            began = time.monotonic()
            if self.latest is None or began >= self._until:
                self.latest = await self._read()
                now = time.monotonic()
                self._until = now + max(self._least_s, KEPT_TIMES * (now - began))
            return self.latest


@dataclass(slots=True)
class AssetTotal:
    """The sum of one asset over all wallets, in smallest units.

    Attributes:
        held: includes `wrapped`, which is wrapped SOL.
        bounded: what may leave in 24 hours from wallets with a bound, without `costs`.
        micro_dollars: worth that may leave instead or in addition.
        at_worst: the most of `held` that can leave in 24 hours.
        unbounded: number of wallets without a bound.
    """

    symbol: str | None
    decimals: int
    held: int = 0
    wrapped: int = 0
    bounded: int = 0
    costs: int = 0
    micro_dollars: int = 0
    at_worst: int = 0
    unbounded: int = 0

    def to_json(self, asset: str) -> dict[str, Any]:
        """Return it as the API shows it; `asset` is `SOL`, a mint, or `*` for any other token."""
        names = ("held", "wrapped", "bounded", "costs", "at_worst")
        units = {name: str(getattr(self, name)) for name in names}
        dollars = from_units(self.micro_dollars, USD_DECIMALS)
        reason = SWAPS if self.unbounded else None
        more = {"asset": asset, "dollars": dollars, "reason": reason}
        return answer_json(shapes.AssetTotal, self, **units, **more)

    def add_bound(self, units: int | None, micro_dollars: int, times: int = 1) -> None:
        """Add what may leave one wallet; None for any amount."""
        self.unbounded += times * (units is None)
        self.bounded += times * (units or 0)
        self.micro_dollars += times * micro_dollars

    def add_held(self, held: int, units: int | None, micro_dollars: int, costs: int = 0) -> None:
        """Add what one wallet holds, and of it what can leave by its bound."""
        self.held += held
        self.costs += costs
        # How much of the asset dollars buy is not known here.
        is_loose = units is None or micro_dollars
        self.at_worst += held if is_loose else min(held, (units or 0) + costs)


@dataclass(frozen=True, slots=True)
class _Balances:
    """Balances by wallet id, the names of wallets that could not be read, and the time."""

    by_wallet: Mapping[str, Balances]
    not_counted: Sequence[str]
    read_ms: int


class Totals:
    """Sums over all wallets, as the API shows them."""

    def __init__(self, database: Database, holdings: Holdings) -> None:
        self._database = database
        self._holdings = holdings
        self._day = _Kept(self._read_day)
        self._balances = _Kept(self._read_balances, BALANCES_S)

    async def day(self) -> dict[str, Any]:
        """Return the sums of the last 24 hours, made by the database, and prices."""
        return await self._day.get()

    async def balances(self, leaving: Mapping[str, CanLeave]) -> dict[str, Any]:
        """Return the sums of balances, and what can leave.

        Args:
            leaving: what can leave each wallet, by its id.

        Raises:
            LedgerError: the ledger does not answer.
        """
        read = await self._balances.get()
        sums = {SOL: AssetTotal(SOL, SOL_DECIMALS)}
        for balances in read.by_wallet.values():
            for token in balances.tokens:
                if token.mint != WRAPPED_SOL_MINT:
                    sums.setdefault(token.mint, AssetTotal(token.symbol, token.decimals))
        others = AssetTotal(None, 0)
        # A wallet that was made in between counts from the next read on.
        counted = read.by_wallet.keys() & leaving.keys()
        through: dict[str, int] = {}
        for wallet_id in sorted(counted):
            through |= leaving[wallet_id].through
            _add_wallet(sums, others, read.by_wallet[wallet_id], leaving[wallet_id])
        named = list(through)[:MOST_NAMED]
        sol, *tokens = sums
        for mint in tokens:
            # Of a wallet that neither holds nor names a token, as much may leave as of any other.
            sums[mint].bounded += others.bounded
            sums[mint].micro_dollars += others.micro_dollars
            sums[mint].unbounded += others.unbounded
        tokens.sort(key=lambda mint: _order(mint, sums[mint]))
        shown = (sol, *tokens[: MOST_ASSETS - 1])
        return answer_json(
            shapes.BalanceTotals,
            read,
            assets=[sums[asset].to_json(asset) for asset in shown],
            more=len(sums) - len(shown),
            others=others.to_json(ANY_ASSET),
            through=named,
            through_more=sum(through.values()) - len(named),
            wallets=len(counted),
        )

    async def _read_day(self) -> dict[str, Any]:
        async with self._database.read() as connection:
            now = await self._database.moment(connection)
            spent = await sum_all_wallets(connection, SOL, DAY_MS, now.window_ms)
            count = await _WALLETS.scalar(connection)
        hours: list[dict[str, Any]] = []
        types: dict[str, Counter[str]] = {}
        refused, newest = Counter[tuple[str | None, ...]](), dict[tuple[str | None, ...], Row]()
        # Each hour alone: SQLite is read on the event loop, and others are served in between.
        since = now.database_ms - DAY_MS
        for hour in range(since // HOUR_MS, since // HOUR_MS + _HOURS + 1):
            after = max(since, hour * HOUR_MS - 1)
            # What a clock ahead of ours has stamped counts in the last hour.
            until = (hour + 1) * HOUR_MS - 1 if len(hours) < _HOURS else _END_MS
            async with self._database.read() as connection:
                rows = await _COUNTS.all(connection, {"after": after, "until": until})
                causes = await causes_of_refusals(connection, after, until)
            counts = Counter[str]()
            for kind, status, number in rows:
                counts[status] += number
                types.setdefault(kind, Counter())[status] += number
            hours.append({"start": iso(after + 1), "counts": counts})
            for cause, number, row in causes:
                refused[cause] += number
                newest[cause] = row
        by_rule = Counter[str]()
        for (rule, *_), number in refused.items():
            by_rule[rule or ""] += number
        latest = sorted(newest, key=lambda cause: -newest[cause].seq)[:MOST_CAUSES]
        return {
            "wallets": count,
            "spentLamports": str(spent),
            "hours": hours,
            "types": types,
            "refused": by_rule.total(),
            "byRule": dict(by_rule.most_common()),
            "causes": [cause_json(newest[each], refused[each]) for each in latest],
            "prices": await self._read_prices(),
        }

    async def _read_prices(self) -> dict[str, Decimal]:
        """Return the prices of SOL, and of listed tokens that a wallet holds."""
        read = self._balances.latest
        held = () if read is None else read.by_wallet.values()
        # Nobody makes the sources look for tokens that he only sent to a wallet.
        listed = {token.mint for each in held for token in each.tokens if token.symbol is not None}
        found = await self._holdings.prices.prices({SOL, *listed})
        with localcontext(prec=18):
            return {
                asset: Decimal(price.usd.numerator) / price.usd.denominator
                for asset, price in found.items()
                if isinstance(price, Price)
            }

    async def _read_balances(self) -> _Balances:
        began_ms = now_ms()
        found: dict[str, Balances] = {}
        failed: list[str] = []
        every = await self._holdings.wallets.list()
        for first in range(0, len(every), _TOGETHER):
            some = every[first : first + _TOGETHER]
            asked = (self._holdings.observed(each.id, None) for each in some)
            answers = await asyncio.gather(*asked, return_exceptions=True)
            for wallet, answer in zip(some, answers, strict=True):
                if isinstance(answer, Balances):
                    found[wallet.id] = answer
                    continue
                _log.warning("wallet_not_counted", wallet=wallet.id, error=str(answer))
                failed.append(wallet.name)
            last = answers[-1]
            if not found and isinstance(last, Exception) and is_shared_failure(last):
                # The ledger is away: every further round would wait as long.
                raise last
        return _Balances(found, failed, began_ms)


def _add_wallet(
    sums: Mapping[str, AssetTotal], others: AssetTotal, balances: Balances, leaving: CanLeave
) -> None:
    """Add one wallet. The bound of `others` is of every token, so for a token that the wallet
    holds or its limits name, only the difference to it is added."""
    held = {each.mint: each.units for each in balances.tokens}
    wrapped = held.pop(WRAPPED_SOL_MINT, 0)
    costs, sol = leaving.bounds[COSTS], leaving.bounds[SOL]
    # Costs are lent to pockets, so without a bound SOL has none either.
    of_sol = (None if costs is None else sol, leaving.dollars.get(SOL, 0))
    sums[SOL].wrapped += wrapped
    sums[SOL].add_bound(*of_sol)
    sums[SOL].add_held(balances.lamports + wrapped, *of_sol, costs=costs or 0)
    dollars = leaving.bounds[ANY_ASSET]
    of_others = (None if dollars is None else 0, dollars or 0)
    others.add_bound(*of_others)
    for mint in (held.keys() | leaving.bounds.keys()) & sums.keys() - {SOL}:
        of_mint = of_others
        if mint in leaving.bounds:
            of_mint = (leaving.bounds[mint], leaving.dollars.get(mint, 0))
            sums[mint].add_bound(*of_mint)
            sums[mint].add_bound(*of_others, times=-1)
        sums[mint].add_held(held.get(mint, 0), *of_mint)


def _order(mint: str, each: AssetTotal) -> tuple[object, ...]:
    """Sort key of tokens. Those on no list come last: anybody can make a wallet hold them."""
    return each.symbol is None, -each.unbounded, not each.at_worst, each.symbol or "", mint

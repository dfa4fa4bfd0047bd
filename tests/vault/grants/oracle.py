"""What grants say of a transaction, by trying every way to share its lines out; slow and plain.

It shares no code with `decide` but the types: it takes the rules one by one from their words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

from solward.types.guardrail import Line, Operation
from solward.vault.grants.model import AssetLimit, Case, Grant, NewRecipient

DAY = 86_400_000


@dataclass
class Ledger:
    """What was charged: (grant's scope, asset, time, units); `tx` is one for each transaction."""

    rows: list[tuple[str, str, int, int]] = field(default_factory=list)

    def sum(self, scope: str, asset: str, now: int, length: int) -> int:
        return sum(
            units
            for whose, what, at, units in self.rows
            if whose == scope and what == asset and now - length < at <= now
        )


@dataclass(frozen=True)
class Ruling:
    """`ways`: the grants of the lines, by principal; none where it is refused."""

    outcome: str
    ways: dict[str, tuple[Grant, ...]]


def rule(grants: dict[str, list[Grant]], case: Case, ledger: Ledger) -> Ruling:
    outcomes: list[str] = []
    ways: dict[str, tuple[Grant, ...]] = {}
    for who in case.chain:
        if who in grants:
            outcome, way = _principal(grants[who], case, ledger)
            ways[who] = way
        else:
            outcome = _default(who, case)
        outcomes.append(outcome)
    if "refused" in outcomes:
        return Ruling("refused", {})
    if "held" in outcomes and not case.is_admins and not case.is_approved:
        return Ruling("held", ways)
    return Ruling("allowed", ways)


def _principal(
    grants: Sequence[Grant], case: Case, ledger: Ledger
) -> tuple[str, tuple[Grant, ...]]:
    lines: Sequence[Line | None] = case.lines or [None]
    held: list[tuple[list[tuple[bool, int]], tuple[Grant, ...]]] = []
    for numbers in product(range(len(grants)), repeat=len(lines)):
        way = tuple(grants[number] for number in numbers)
        if not _fits(way, lines, case, ledger):
            continue
        asks = [_asks(way[: at + 1], lines[: at + 1], case) for at in range(len(lines))]
        if not any(asks):
            return "allowed", way
        held.append((list(zip(asks, numbers, strict=True)), way))
    if not held:
        return "refused", ()
    return "held", min(held, key=lambda each: each[0])[1]


def _fits(way: Sequence[Grant], lines: Sequence[Line | None], case: Case, ledger: Ledger) -> bool:
    now = case.now_ms[0]
    for at, (grant, line) in enumerate(zip(way, lines, strict=True)):
        if not _matches(grant, line, at, case):
            return False
        if case.costs_lamports and grant.costs_lamports == 0:
            return False
        for rate in grant.rates:
            if ledger.sum(grant.scope, "tx", now, rate.length_ms) + 1 > rate.most:
                return False
    if case.costs_lamports:
        first = way[0]
        spent = ledger.sum(first.scope, "costs", now, DAY)
        if spent + case.costs_lamports > first.costs_lamports:
            return False
    for (scope, asset), (limit, units) in _sums(way, lines, case).items():
        if limit.per_tx is not None and units > limit.per_tx:
            return False
        for window in limit.windows:
            if ledger.sum(scope, asset, now, window.length_ms) + units > window.most:
                return False
    return True


def _asks(way: Sequence[Grant], lines: Sequence[Line | None], case: Case) -> bool:
    """Whether the last of the lines makes a person be asked."""
    grant, line = way[-1], lines[-1]
    if line is None:
        return False
    if grant.new == NewRecipient.HOLD and _is_new(line, case):
        return True
    limit = _limit(grant, line)
    if limit is None or limit.hold is None:
        return False
    counted = "usd" if limit.asset == "*" else limit.asset
    return _sums(way, lines, case)[grant.scope, counted][1] > limit.hold


def _sums(
    way: Sequence[Grant], lines: Sequence[Line | None], case: Case
) -> dict[tuple[str, str], tuple[AssetLimit, int]]:
    sums: dict[tuple[str, str], tuple[AssetLimit, int]] = {}
    for at, (grant, line) in enumerate(zip(way, lines, strict=True)):
        limit = None if line is None else _limit(grant, line)
        if line is None or limit is None:
            continue
        asset, units = limit.asset, line.units
        if asset == "*":
            worth = case.dollars[at]
            assert isinstance(worth, int)
            asset, units = "usd", worth
        before = sums.get((grant.scope, asset), (limit, 0))[1]
        sums[grant.scope, asset] = limit, before + units
    return sums


def charges(ruling: Ruling, case: Case) -> dict[tuple[str, str], int]:
    """(scope, asset) -> units: of an asset, `usd`, `costs`, and `tx`, 1 a grant."""
    found: dict[tuple[str, str], int] = defaultdict(int)
    for way in ruling.ways.values():
        for (scope, asset), (_, units) in _sums(way, case.lines or [None], case).items():
            found[scope, asset] += units
        for grant in way:
            found[grant.scope, "tx"] = 1
        if case.costs_lamports:
            found[way[0].scope, "costs"] += case.costs_lamports
    return dict(found)


def _matches(grant: Grant, line: Line | None, at: int, case: Case) -> bool:
    day = [now % DAY // 60_000 for now in case.now_ms]
    if grant.wallet is not None and grant.wallet != case.wallet_id:
        return False
    if grant.until_ms is not None and max(case.now_ms) >= grant.until_ms:
        return False
    if grant.hours is not None:
        start, end = grant.hours.start, grant.hours.end
        open_at = set(range(start, end) if start < end else [*range(start, 1_440), *range(end)])
        if not open_at.issuperset(day):
            return False
    if grant.via and not set(grant.via).intersection(case.chain):
        return False
    if line is None:
        return bool(grant.may)
    operations = set(grant.may)
    if Operation.TRANSFER in operations:
        operations.add(Operation.FUND)
    if line.operation not in operations or not _goes_there(grant, line, case):
        return False
    if grant.new == NewRecipient.REFUSE and _is_new(line, case):
        return False
    if line.operation == Operation.SWAP and grant.swap is not None and not _swaps(grant, case):
        return False
    limit = _limit(grant, line)
    if line.operation == Operation.LAUNCH:
        return True
    if limit is None:
        return False
    return (
        isinstance(case.dollars[at], int)
        if limit.asset == "*"
        else (limit.decimals == line.decimals)
    )


def _swaps(grant: Grant, case: Case) -> bool:
    assert grant.swap is not None
    assert case.swap is not None
    bounds = [
        (grant.swap.slippage_bps, case.swap.slippage_bps),
        (grant.swap.impact_bps, case.swap.impact_bps),
    ]
    if any(most is not None and (is_ is None or is_ > most) for most, is_ in bounds):
        return False
    return not grant.swap.into or case.swap.into in grant.swap.into


def _limit(grant: Grant, line: Line) -> AssetLimit | None:
    if line.operation == Operation.LAUNCH:
        return None
    if line.asset in grant.assets:
        return grant.assets[line.asset]
    return grant.assets.get("*")


def _goes_there(grant: Grant, line: Line, case: Case) -> bool:
    if line.operation not in ("transfer", "fund", "pay", "swap"):
        return True
    allowed: set[str] = set()
    for to in grant.to:
        if to == "any":
            return True
        allowed.update(_named(to, case))
    return line.account in allowed or line.owner in allowed


def _named(to: str, case: Case) -> Iterable[str]:
    if to == "own":
        return case.own
    return case.book.get(to[1:], ()) if to[0] == "@" else (to,)


def _is_new(line: Line, case: Case) -> bool:
    if line.operation not in ("transfer", "fund", "pay"):
        return False
    return line.account not in case.paid and line.owner not in case.paid


def _default(who: str, case: Case) -> str:
    if who.partition(":")[0] not in ("agent", "key"):
        return "allowed"
    return "refused" if any(_is_barred(line, case) for line in case.lines) else "allowed"


def _is_barred(line: Line, case: Case) -> bool:
    if line.operation == Operation.SWAP:
        assert case.swap is not None
        return case.listed is not None and case.swap.into not in {"SOL", *case.listed}
    if line.asset == "SOL" or line.operation == Operation.LAUNCH:
        return False
    return line.operation != Operation.BURN or line.asset not in case.launched

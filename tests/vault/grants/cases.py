"""Grants, lines and transactions to judge, short to write; amounts are smallest units."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from solders.pubkey import Pubkey

from solward.solana.programs import TOKEN_PROGRAM
from solward.solana.tokens import associated_address
from solward.types.guardrail import SOL, Line, Operation
from solward.vault.grants.decide import Need, compile_grants, decide, needed
from solward.vault.grants.model import (
    ANY_ASSET,
    RATE,
    AssetLimit,
    Case,
    Charge,
    Decision,
    Grant,
    Window,
)


def address(number: int) -> str:
    return str(Pubkey(bytes([number]) * 32))


USDC, BONK, OWN_TOKEN = address(1), address(2), address(3)
VENDOR, STRANGER, SAVINGS = address(11), address(12), address(13)
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NOON: Final = 20_000 * DAY + 12 * HOUR
DECIMALS: Final = {SOL: 9, USDC: 6, BONK: 5, OWN_TOKEN: 9, ANY_ASSET: 6}
FEE: Final = 5_000
AGENT, KEY, WALLET, SKILL = "agent:scout", "key:till", "wallet:w", "skill:pay_all"
SITE, OTHER_SITE = "site:a.example", "site:127.0.0.1:4021"


def limit(
    asset: str,
    *windows: tuple[int, int],
    per_tx: int | None = None,
    hold: int | None = None,
    decimals: int | None = None,
) -> AssetLimit:
    """Windows as (length in ms, most); without any, one of a day with much room."""
    bounds = tuple(Window(*each) for each in windows or ((DAY, 10**15),))
    stored = DECIMALS[asset] if decimals is None else decimals
    return AssetLimit(asset, stored, bounds, per_tx, hold)


def grant(name: str, *limits: AssetLimit, who: str = AGENT, **more: Any) -> Grant:
    """To transfer, unless `may` names other operations."""
    may = frozenset(Operation(each) for each in more.pop("may", "transfer").split())
    return Grant(name, who, may, assets={each.asset: each for each in limits}, **more)


def paid(
    units: int,
    asset: str = USDC,
    to: str | None = VENDOR,
    operation: str = "transfer",
    **more: Any,
) -> Line:
    """SOL to a wallet, a token to the associated account of one whose owner is proved."""
    program = None if asset == SOL else TOKEN_PROGRAM
    account = to
    if program is not None and to is not None and not to.startswith("venue:"):
        account = associated_address(to, asset, program)
        more.setdefault("owner", to)
    more.setdefault("decimals", DECIMALS[asset])
    more.setdefault("program", program)
    return Line(Operation(operation), asset, units, more.pop("account", account), **more)


def launched() -> Line:
    return Line(Operation.LAUNCH, OWN_TOKEN, 0)


def case(*lines: Line, chain: Sequence[str] = (WALLET, AGENT), **more: Any) -> Case:
    more.setdefault("costs_lamports", FEE)
    more.setdefault("now_ms", (NOON, NOON))
    more.setdefault("book", {"vendors": frozenset({VENDOR})})
    return Case("w", tuple(chain), lines, **more)


class Policy:
    """Grants of several principals, and a ledger of what was charged to them.

    Sums are taken row by row, by their definition.
    """

    def __init__(self, *grants: Grant, empty: Iterable[str] = ()) -> None:
        self.grants: dict[str, list[Grant]] = {who: [] for who in empty}
        for each in grants:
            self.grants.setdefault(each.who, []).append(each)
        self.sets = {who: compile_grants(listed) for who, listed in self.grants.items()}
        self.rows: dict[str, list[tuple[int, str, int]]] = defaultdict(list)

    def used(self, case: Case) -> Mapping[Need, int]:
        """Every sum that is asked for; of the window (now - length, now]."""
        now = min(case.now_ms)
        return {
            (scope, asset, length): sum(
                1 if asset == RATE else units
                for at, charged, units in self.rows[scope]
                if charged == (SOL if asset == RATE else asset) and now - length < at <= now
            )
            for scope, asset, length in needed(self.sets, case)
        }

    def judge(self, *lines: Line, **more: Any) -> Decision:
        return self.decide(case(*lines, **more))

    def decide(self, case: Case) -> Decision:
        return decide(self.sets, case, self.used(case))

    def reserve(self, charges: Iterable[Charge], at: int = NOON) -> None:
        for each in charges:
            self.rows[each.scope].append((at, each.asset, each.units))

    def spend(self, *lines: Line, **more: Any) -> Decision:
        """Judge, and reserve what is allowed."""
        judged = case(*lines, **more)
        verdict = self.decide(judged)
        if verdict.refused is None and not verdict.held:
            self.reserve(verdict.charges, min(judged.now_ms))
        return verdict


def charged(verdict: Decision) -> set[str]:
    """Names of the grants that pay."""
    assert verdict.refused is None
    return {each.scope.partition("#")[2] for each in verdict.charges}


def said(verdict: Decision) -> str:
    """`allowed`, `held` or why it is refused."""
    if verdict.refused is not None:
        assert not verdict.charges
        assert not verdict.held
        return str(verdict.refused.why)
    return "held" if verdict.held else "allowed"

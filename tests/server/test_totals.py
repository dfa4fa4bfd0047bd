"""Sums over all wallets: equal to plain SQL and exact, whatever single records and wallets are."""

from __future__ import annotations

import asyncio
from collections import Counter
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import insert, text
from tests.promises import promise
from tests.support.database import ON_POSTGRES
from tests.support.services import STRANGER, Api

from solward.database.tables import reservations, transactions
from solward.operations.policies.grant_report import CanLeave
from solward.service.totals import BALANCES_S, Totals
from solward.solana.balances import Balances, TokenBalance
from solward.types.errors import LedgerRejected, LedgerUnavailable
from solward.types.guardrail import COSTS, SOL
from solward.types.money import COUNTED_MAX, U64_MAX
from solward.vault.grants.model import ANY_ASSET

USDC = "7ijRzGx7S7c7RY9DM65CjqwtrmCJyKi6V5dFwFMbeciZ"
PAPER = "CnfsDnWmh34rN9EM5MLVJB7dLbe1x8VDM3mv2EQq4KZ8"
WRAPPED = "So11111111111111111111111111111111111111112"
HOUR_MS = 3_600_000
STATUSES = ("confirmed", "pending", "failed", "blocked")
RULES = ("max_per_tx", "daily_limit", "a rule of a plugin")


def _id(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


async def _store(api: Api, wallets: list[str], now_ms: int) -> None:
    """Store records of every status and type, with amounts up to the largest, some of them old."""
    made, counted = [], []
    for number in range(120):
        status, wallet = STATUSES[number % 4], wallets[number % 3]
        # The last one is a second too old, mostly in an hour that is counted in part.
        age_ms = number * 17 * 60_000 if number < 119 else 24 * HOUR_MS + 1_000
        record = {
            "id": _id(number),
            "wallet_id": wallet,
            "principal": f"key:{number % 2}",
            "type": ("transfer", "swap", "type of a plugin")[number % 5 % 3],
            "status": status,
            "details": "{}",
            "guardrails_applied": ["rate_limit", RULES[number % 3]],
            "held_lamports": 0,
            # Else another process would settle what is pending.
            "owner": api.service.engine.process.id,
            "created_ms": now_ms - age_ms,
            "error": "refused" if status == "blocked" else None,
            "refusal_numbers": {"asked": str(U64_MAX), "limit": str(number % 2), "unit": "SOL"},
        }
        made.append(record)
        if status in ("confirmed", "pending"):
            for scope in (f"wallet:{wallet}", "key:0", "agent:a", "grant:key:0#x"):
                for asset, units in ((SOL, U64_MAX), (COSTS, 5_000), (USDC, U64_MAX)):
                    row = {"transaction_id": record["id"], "scope": scope, "asset": asset}
                    counted.append(row | {"created_ms": now_ms - age_ms, "units": units})
    async with api.service.database.write() as connection:
        await connection.execute(insert(transactions), made[::-1])
        await connection.execute(insert(reservations), counted)


async def _rows(api: Api, statement: str, since_ms: int) -> list[tuple[Any, ...]]:
    async with api.service.database.read() as connection:
        return [tuple(row) for row in await connection.execute(text(statement), {"s": since_ms})]


@promise("overview-sums-everything")
async def test_the_sums_of_a_day_are_those_of_plain_sql(api: Api) -> None:
    wallets = [await api.wallet(1), await api.wallet(), await api.wallet()]
    grant = {"may": ["transfer"], "assets": {"SOL": {"per": {"24h": "1"}, "hold": "0.1"}}}
    key, _ = await api.key(grants=[grant])
    body = {"to": STRANGER, "amount": Decimal("0.5")}
    held = await api.post(f"/wallets/{wallets[0]}/transfer", body, token=key)
    assert held.json["status"] == "held"
    async with api.service.database.read() as connection:
        now_ms = (await api.service.database.moment(connection)).database_ms
    await _store(api, wallets, now_ms)
    if not ON_POSTGRES:
        # PostgreSQL stores nothing that is no JSON.
        broken = ("details", "guardrails_applied", "refusal_numbers")
        async with api.service.database.write() as connection:
            for number, column in zip((3, 7, 11), broken, strict=True):
                change = f"UPDATE transactions SET {column} = '{{broken' WHERE id = :id"
                await connection.execute(text(change), {"id": _id(number)})
            change = "UPDATE transactions SET refusal_numbers = '[1]' WHERE id = :id"
            await connection.execute(text(change), {"id": _id(15)})
    found = (await api.get("/totals")).json
    since = now_ms - 24 * HOUR_MS
    spent = await _rows(
        api,
        "SELECT units FROM reservations WHERE scope LIKE 'wallet:%' AND asset = 'SOL'"
        " AND created_ms > :s",
        since,
    )
    assert len(spent) > 40
    assert int(found["spentLamports"]) == sum(units for (units,) in spent)
    assert int(found["spentLamports"]) == len(spent) * COUNTED_MAX
    counted = await _rows(
        api, "SELECT type, status, created_ms FROM transactions WHERE created_ms > :s", since
    )
    kinds: dict[str, Counter[str]] = {}
    hours: dict[int, Counter[str]] = {}
    for kind, status, ms in counted:
        kinds.setdefault(kind, Counter())[status] += 1
        hours.setdefault(ms // HOUR_MS, Counter())[status] += 1
    assert found["types"] == kinds
    assert len(found["hours"]) == 25
    assert [each["counts"] for each in found["hours"]] == [
        hours.get(hour, {}) for hour in range(since // HOUR_MS, since // HOUR_MS + 25)
    ]
    blocked = [status for _, status, _ in counted].count("blocked")
    assert found["refused"] == blocked == sum(found["byRule"].values())
    assert sum(each["count"] for each in found["causes"]) == blocked
    assert found["wallets"] == 3
    rules = dict.fromkeys(RULES) if ON_POSTGRES else dict.fromkeys((*RULES, ""))
    assert found["byRule"].keys() == rules.keys()
    times = [each["timestamp"] for each in found["causes"]]
    assert times == sorted(times, reverse=True)


async def test_refusals_of_one_cause_are_one(api: Api) -> None:
    wallet, other = await api.wallet(2), await api.wallet()
    key, key_id = await api.key(spendingLimitSol=Decimal("0.5"))
    for amount in ("0.75", "0.8", "0.9"):
        body = {"to": STRANGER, "amount": Decimal(amount)}
        await api.post(f"/wallets/{wallet}/transfer", body, token=key)
    await api.post(f"/wallets/{other}/transfer", {"to": STRANGER, "amount": Decimal(3)})
    found = (await api.get("/totals")).json
    first, second = found["causes"]
    assert (first["rule"], first["walletId"], first["count"]) == ("max_per_tx", other, 1)
    assert first["numbers"] == {"asked": "3", "limit": "2", "unit": "SOL"}
    assert (second["rule"], second["count"]) == ("spending_limit_check", 3)
    assert (second["walletId"], second["principal"]) == (wallet, f"key:{key_id}")
    # The newest stands for all of them.
    assert second["numbers"]["asked"] == "0.9"
    newest = (await api.get(f"/transactions/{second['transactionId']}")).json
    assert newest["refusal"]["reason"] == second["reason"]
    assert found["byRule"] == {"spending_limit_check": 3, "max_per_tx": 1}


async def test_what_can_leave_agrees_with_the_limits_of_each_wallet(api: Api) -> None:
    wallets = [await api.wallet(1) for _ in range(2)]
    ceilings = {"dailySpendingLimitSol": 0.5, "maxCostsSolPerDay": 0.01}
    await api.call("PATCH", f"/wallets/{wallets[1]}/limits", ceilings)
    _, plain = await api.key(walletId=wallets[0])
    await api.key(
        name="granted", grants=[{"may": ["transfer"], "assets": {"SOL": {"per": {"24h": "2"}}}}]
    )
    found = (await api.get("/totals/balances")).json
    bounds = [
        (await api.get(f"/wallets/{each}/limits")).json["canLeave"]["assets"] for each in wallets
    ]
    (sol,) = found["assets"]
    assert int(sol["bounded"]) == sum(int(Decimal(each["SOL"]["most"]) * 10**9) for each in bounds)
    assert int(sol["costs"]) == sum(int(Decimal(each["COSTS"]["most"]) * 10**9) for each in bounds)
    assert sol["held"] == "2000000000"
    assert found["through"] == [f"key:{plain}"]
    assert found["throughMore"] == 0
    assert found["others"]["unbounded"] == [each["*"]["most"] for each in bounds].count(None) == 1


# With balances that no ledger gives at once.


class Held:
    """Holdings of wallets by name; an error in place of balances is raised."""

    def __init__(self, **balances: Balances | Exception) -> None:
        self.balances = balances
        self.asked: Counter[str] = Counter()
        self.together = self.most = 0
        self.wallets = self

    async def list(self) -> list[Any]:
        return [SimpleNamespace(id=name, name=name) for name in self.balances]

    async def observed(self, wallet_id: str, _mark: object) -> Balances:
        self.asked[wallet_id] += 1
        self.together += 1
        self.most = max(self.most, self.together)
        await asyncio.sleep(0)
        self.together -= 1
        found = self.balances[wallet_id]
        if isinstance(found, Exception):
            raise found
        return found


def holding(lamports: int = 0, **units: int) -> Balances:
    mints = {"USDC": (USDC, "USDC"), "PAPER": (PAPER, None), "WSOL": (WRAPPED, "SOL")}
    tokens = [
        TokenBalance(mint, units[name], 6, symbol)
        for name, (mint, symbol) in mints.items()
        if name in units
    ]
    return Balances(lamports, tuple(tokens))


def bound(dollars: dict[str, int] | None = None, **units: int | None) -> CanLeave:
    named = {USDC if name == "USDC" else name: each for name, each in units.items()}
    rest = named.pop("rest", 0)
    return CanLeave(
        {SOL: 10 * 10**9, COSTS: 50_000_000} | named | {ANY_ASSET: rest}, {}, dollars or {}
    )


async def sums(held: Held, **leaving: CanLeave) -> dict[str, Any]:
    database: Any = None
    holdings: Any = held
    found = await Totals(database, holdings).balances(leaving)
    return found | {"by": {each["asset"]: each for each in found["assets"]}}


@promise("most-that-can-leave-shown")
async def test_sums_are_exact_and_wrapped_sol_is_sol() -> None:
    held = Held(
        a=holding(100_000_001, WSOL=50_000_000, USDC=U64_MAX), b=holding(200_000_000, USDC=2)
    )
    found = await sums(held, a=bound(USDC=5), b=bound(USDC=1))
    assert found["by"].keys() == {SOL, USDC}
    assert found["by"][SOL]["held"] == "350000001"
    assert found["by"][SOL]["wrapped"] == "50000000"
    assert found["by"][SOL]["atWorst"] == "350000001"
    assert found["by"][USDC]["held"] == str(U64_MAX + 2)
    assert found["by"][USDC]["bounded"] == "6"
    assert found["by"][USDC]["atWorst"] == "6"


async def test_of_sol_what_can_leave_at_worst_is_what_is_held_or_allowed_with_costs() -> None:
    held = Held(a=holding(500_000_000), b=holding(30 * 10**9))
    sol = (await sums(held, a=bound(), b=bound()))["by"][SOL]
    assert (sol["bounded"], sol["costs"]) == ("20000000000", "100000000")
    assert sol["atWorst"] == "10550000000"


@promise("most-that-can-leave-shown")
async def test_what_nothing_bounds_comes_first_but_behind_listed_tokens() -> None:
    held = Held(a=holding(1, USDC=3, PAPER=7), b=holding(1, USDC=3))
    found = await sums(held, a=bound(USDC=1, rest=None), b=bound(USDC=1))
    # Anybody can send a wallet tokens that are on no list.
    assert list(found["by"]) == [SOL, USDC, PAPER]
    paper = found["by"][PAPER]
    assert (paper["unbounded"], paper["atWorst"], paper["bounded"]) == (1, "7", "0")
    assert "without grants" in paper["reason"]
    assert found["others"]["unbounded"] == 1
    loose = await sums(held, a=bound(USDC=None), b=bound(USDC=1))
    assert loose["by"][USDC]["unbounded"] == 1
    assert loose["by"][USDC]["atWorst"] == "4"


async def test_a_bound_in_dollars_takes_all_that_is_held() -> None:
    held = Held(a=holding(1, PAPER=7), b=holding(1, USDC=4))
    found = await sums(
        held, a=bound(rest=20_000_000), b=bound({USDC: 5_000_000}, USDC=1, rest=7_000_000)
    )
    assert (found["by"][PAPER]["dollars"], found["by"][PAPER]["atWorst"]) == (27, "7")
    usdc = found["by"][USDC]
    assert (usdc["bounded"], usdc["dollars"], usdc["atWorst"]) == ("1", 25, "4")


async def test_costs_that_nothing_bounds_leave_sol_unbounded() -> None:
    sol = (await sums(Held(a=holding(5)), a=bound(COSTS=None)))["by"][SOL]
    assert (sol["unbounded"], sol["atWorst"]) == (1, "5")


@promise("unread-wallet-named")
async def test_a_wallet_that_cannot_be_read_is_named_and_stops_no_other() -> None:
    every = {f"w{number}": holding(1) for number in range(202)}
    errors = {"w0": LedgerRejected(-32602, "too many tokens"), "w150": ValueError("odd account")}
    held = Held(**(every | errors))
    found = await sums(held, **{name: bound() for name in every})
    assert (found["wallets"], found["notCounted"]) == (200, ["w0", "w150"])
    assert found["by"][SOL]["held"] == "200"
    assert held.most <= 100
    # One that is made between the two reads counts from the next time on.
    del held.balances["w0"], held.balances["w150"]
    newer = await sums(held, **{name: bound() for name in list(held.balances)[1:]})
    assert (newer["wallets"], newer["by"][SOL]["held"]) == (199, "199")


async def test_a_ledger_that_is_away_is_asked_for_one_round() -> None:
    held = Held(**{f"w{number}": LedgerUnavailable("away") for number in range(300)})
    with pytest.raises(LedgerUnavailable, match="away"):
        await sums(held)
    assert held.asked.total() == 100


async def test_balances_are_read_once_for_all_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("solward.service.totals.time.monotonic", lambda: clock[0])
    held = Held(a=holding(1))
    database: Any = None
    holdings: Any = held
    totals = Totals(database, holdings)
    await asyncio.gather(*(totals.balances({"a": bound()}) for _ in range(5)))
    assert held.asked["a"] == 1
    clock[0] = BALANCES_S
    await totals.balances({"a": bound()})
    assert held.asked["a"] == 2


async def test_tokens_that_anybody_sends_do_not_fill_the_answer() -> None:
    spam = tuple(TokenBalance(f"mint{number}", 1, 0) for number in range(1_000))
    held = Held(a=Balances(1, spam), b=holding(1, USDC=1))
    found = await sums(held, a=bound(rest=None), b=bound())
    assert (len(found["assets"]), found["more"]) == (100, 902)
    assert found["assets"][1]["asset"] == USDC

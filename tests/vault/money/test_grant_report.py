"""What grants leave room for, and the most that can leave a wallet in a day."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from msgspec import structs
from tests.promises import promise
from tests.support.engine import Bench
from tests.support.grants import grant, limit

from solward.database.window_clock import Moment
from solward.operations.policies.changes import replace_policy
from solward.operations.policies.grant_report import CanLeave, KeyGroup, can_leave, wallet_grants
from solward.solana.token_list import token_list
from solward.support.durations import DAY_MS, HOUR_MS, MINUTE_MS
from solward.types.guardrail import COSTS, Operation
from solward.vault.grants.model import ANY_ASSET, Grant, Window
from solward.vault.grants.spelling import Names
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.money.request import Actor

NOW = Moment(1_800_000_000_000, 1_800_000_000_000)
AGENT, KEY, WALLET = "agent:a", "key:k", "wallet:w"
MINT = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
SOL = 10**9
CEILINGS = ScopeLimits(daily_lamports=10 * SOL, daily_costs_lamports=SOL // 20)
UNLIMITED = ScopeLimits()


def leaving(
    callers: dict[str, ScopeLimits], *grants: Grant, empty: tuple[str, ...] = ()
) -> CanLeave:
    sets: dict[str, list[Grant]] = {who: [] for who in empty}
    for each in grants:
        sets.setdefault(each.who, []).append(each)
    return can_leave("w", CEILINGS, callers.items(), sets, NOW)


def test_without_anybody_nothing_can_leave() -> None:
    assert set(leaving({}).bounds.values()) == {0}


@promise("most-that-leaves-is-known")
def test_without_grants_ceilings_bound_sol_and_nothing_bounds_what_may_be_swapped() -> None:
    half = ScopeLimits(daily_lamports=SOL // 2, daily_costs_lamports=SOL // 100)
    found = leaving({AGENT: half, KEY: half}).bounds
    assert found == {"SOL": SOL, COSTS: SOL // 50, ANY_ASSET: None}
    assert leaving({AGENT: UNLIMITED}).bounds["SOL"] == 10 * SOL
    # A key that may spend 0 SOL cannot sign a transaction.
    assert set(leaving({KEY: replace(half, daily_lamports=0)}).bounds.values()) == {0}


@promise("most-that-leaves-is-known")
def test_grants_add_up_over_principals_and_the_wallets_own_bound_them_all() -> None:
    agent, key = grant(AGENT, **{MINT: limit(MINT, 20)}), grant(KEY, **{MINT: limit(MINT, 5)})
    callers = {AGENT: UNLIMITED, KEY: UNLIMITED}
    found = leaving(callers, agent, key).bounds
    assert (found[MINT], found["SOL"], found[ANY_ASSET]) == (25, 0, 0)
    whole = grant(WALLET, **{MINT: limit(MINT, 7)})
    assert leaving(callers, agent, key, whole).bounds[MINT] == 7
    # One principal that is not under grants may swap any amount; the wallet's own still bind.
    assert leaving(callers, agent).bounds[MINT] is None
    assert leaving(callers, agent, whole).bounds[MINT] == 7
    assert leaving(callers, agent, empty=(KEY,)).bounds[MINT] == 20


def test_whoever_nothing_limits_is_named_unless_something_else_does() -> None:
    agent, whole = grant(AGENT, **{MINT: limit(MINT, 20)}), grant(WALLET, **{MINT: limit(MINT, 7)})
    callers = {AGENT: UNLIMITED, KEY: UNLIMITED, "key:zero": ScopeLimits(daily_lamports=0)}
    found = leaving(callers, agent)
    assert found.through == {KEY: 1}
    # The wallet's own grants limit everybody.
    assert leaving(callers, agent, whole).through == {}
    alike = [KeyGroup(UNLIMITED, 3, "key:x"), KeyGroup(ScopeLimits(daily_lamports=0), 2, "key:y")]
    assert can_leave("w", CEILINGS, [], {}, NOW, alike).through == {"key:x": 3}
    tokens = ScopeLimits(daily_tokens={MINT: 5})
    # A named token has a ceiling; every other one has none.
    assert can_leave("w", tokens, [(KEY, UNLIMITED)], {}, NOW).through == {KEY: 1}


def test_a_key_reads_no_name_of_another_caller() -> None:
    names = Names(token_list("localnet"), {"agent": {"a": "secretive"}, "key": {"k": "till"}})
    found = leaving({AGENT: UNLIMITED, KEY: UNLIMITED})
    told = found.to_json("w", names, {KEY})
    assert told["through"] == [KEY]
    assert "Key till and another have no grants" in told["sentence"]
    assert "secretive" not in str(told)
    assert found.to_json("w", names)["through"] == [AGENT, KEY]


def test_what_swaps_of_tokens_lend_may_leave_as_costs_beyond_the_ceiling_of_fees() -> None:
    """A ceiling counts it as SOL, so that a venue that keeps it takes up to the costs granted."""
    half = ScopeLimits(daily_lamports=SOL // 2, daily_costs_lamports=SOL // 100)
    more = {"costs": SOL // 4, MINT: limit(MINT, 20)}
    swaps = leaving({AGENT: half}, grant(AGENT, [Operation.SWAP], **more)).bounds
    assert (swaps[COSTS], swaps["SOL"]) == (SOL // 4, 0)
    assert leaving({KEY: half}, grant(WALLET, [Operation.SWAP], **more)).bounds[COSTS] == SOL // 4
    sends = leaving({AGENT: half}, grant(AGENT, [Operation.TRANSFER], **more)).bounds
    assert sends[COSTS] == SOL // 100


@pytest.mark.parametrize(
    ("windows", "most"),
    [
        ({DAY_MS: 20, HOUR_MS: 8}, 20),
        ({HOUR_MS: 8}, 24 * 8),
        ({7 * HOUR_MS: 8}, 4 * 8),
        ({30 * DAY_MS: 100}, 100),
        ({MINUTE_MS: 1, DAY_MS: 30}, 30),
    ],
)
def test_every_window_bounds_a_day(windows: dict[int, int], most: int) -> None:
    made = grant(AGENT, **{MINT: limit(MINT, windows)})
    assert leaving({AGENT: UNLIMITED}, made).bounds[MINT] == most


def test_a_rate_of_bounded_transactions_bounds_a_day() -> None:
    made = grant(AGENT, rates=(Window(HOUR_MS, 1),), **{MINT: limit(MINT, 10**6, per_tx=3)})
    assert leaving({AGENT: UNLIMITED}, made).bounds[MINT] == 72


def test_what_has_ended_or_is_for_another_wallet_adds_nothing() -> None:
    limits = {MINT: limit(MINT, 20)}
    ended = grant(AGENT, until_ms=NOW.window_ms, **limits)
    other = grant(AGENT, wallet="v", **limits)
    launch = grant(AGENT, [Operation.LAUNCH], **limits)
    assert leaving({AGENT: UNLIMITED}, ended, other, launch).bounds[MINT] == 0


def test_dollars_of_any_asset_are_told_beside_the_amounts_of_named_ones() -> None:
    named = grant(AGENT, **{MINT: limit(MINT, 20)})
    other = grant(AGENT, **{ANY_ASSET: limit(ANY_ASSET, 3_000_000)})
    found = leaving({AGENT: UNLIMITED}, named, other)
    assert (found.bounds[MINT], found.dollars[MINT]) == (20, 3_000_000)
    assert found.bounds[ANY_ASSET] == 3_000_000
    both = leaving(
        {AGENT: UNLIMITED}, structs.replace(named, assets={**named.assets, **other.assets})
    )
    # What a dollar buys is not known: of SOL the ceiling is told.
    assert (both.bounds[MINT], both.bounds["SOL"], both.dollars) == (20, 10 * SOL, {})


def test_what_may_be_paid_over_http_can_leave_through_whatever_sites() -> None:
    pays = [Operation.PAY]
    one = grant(AGENT, pays, via=("site:a.example",), **{MINT: limit(MINT, 20)})
    other = grant(AGENT, pays, via=("site:b.example",), **{MINT: limit(MINT, 5)})
    assert leaving({AGENT: UNLIMITED}, one).bounds[MINT] == 20
    assert leaving({AGENT: UNLIMITED}, one, other).bounds[MINT] == 25
    assert leaving({AGENT: UNLIMITED}, one, other).bounds["SOL"] == 0
    # What sites are paid at most is paid by these callers, or by the operator.
    site = grant("site:a.example", pays, **{MINT: limit(MINT, 7)})
    assert leaving({AGENT: UNLIMITED}, one, site).bounds[MINT] == 20


async def test_the_report_says_what_is_used_and_left(bench: Bench) -> None:
    wallet = bench.wallet.id
    made = grant(AGENT, SOL=limit("SOL", {DAY_MS: SOL, HOUR_MS: SOL // 2}))
    await replace_policy(bench.database, {AGENT: [made], KEY: []}, {})
    actor = Actor(AGENT, limits=((AGENT, UNLIMITED),))
    await bench.transfer(Decimal("0.45"), actor)
    callers = [(AGENT, UNLIMITED), (KEY, UNLIMITED)]
    tokens = token_list("localnet")
    report = await wallet_grants(bench.database, tokens, wallet, CEILINGS, callers)
    agent, key = report["grants"]
    assert (agent["who"], key["who"], key["grants"]) == (AGENT, KEY, [])
    [shown] = agent["grants"]
    assert "up to 0.5 SOL an hour and 1 a day" in shown["sentence"]
    rows = {(each["asset"], each["window"]): each for each in shown["limits"]}
    hour, day = rows["SOL", "1h"], rows["SOL", "24h"]
    assert (hour["limit"], hour["used"], hour["left"]) == ("0.5", "0.45", "0.05")
    assert (day["limit"], day["used"], day["left"]) == ("1", "0.45", "0.55")
    assert "roomAt" in hour
    assert "roomAt" not in day
    assert rows[COSTS, "24h"]["used"] == "0.000005"
    assert report["canLeave"]["assets"]["SOL"] == {"most": "1"}
    assert report["canLeave"]["sentence"].startswith("At most 1 SOL and 0.05 SOL of fees")
    report = await wallet_grants(bench.database, tokens, wallet, CEILINGS, callers, (KEY,))
    assert [each["who"] for each in report["grants"]] == [KEY]


async def test_the_report_leaves_out_what_cannot_bind_the_wallet(bench: Bench) -> None:
    """What is left keeps its number, since refusals name it by that."""
    sol = {"SOL": limit("SOL", SOL)}
    elsewhere = structs.replace(grant(AGENT, **sol), id="e", wallet="another")
    approves = structs.replace(grant(AGENT, []), id="a", approves=True)
    here = structs.replace(grant(AGENT, **sol), id="h", wallet=bench.wallet.id)
    await replace_policy(bench.database, {AGENT: [elsewhere, approves, here]}, {})
    callers = [(AGENT, UNLIMITED)]
    tokens = token_list("localnet")
    report = await wallet_grants(bench.database, tokens, bench.wallet.id, CEILINGS, callers)
    [agent] = report["grants"]
    assert [each["number"] for each in agent["grants"]] == [2, 3]
    # What is paid is charged to no grant that only lets approve.
    assert [[row["asset"] for row in each["limits"]] for each in agent["grants"]] == [
        [],
        ["SOL", COSTS],
    ]

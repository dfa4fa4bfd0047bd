"""A refusal's numbers are stored with it as its rule had them, and answered as they were stored."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from msgspec import structs
from sqlalchemy import insert
from tests.promises import promise
from tests.support.database import WALLET_ROW, statements_of
from tests.support.engine import UNLIMITED
from tests.support.grants import SaidPrices, grant, limit

from solward.database.database import Database
from solward.database.tables import wallets
from solward.database.window_clock import Moment
from solward.operations.policies.changes import replace_set
from solward.operations.policies.refusals import record_json, refusal_numbers, refusals
from solward.plugins.load import ThreadedRule
from solward.plugins.loaded import LoadedGuardrail
from solward.solana.token_list import token_list
from solward.support.durations import HOUR_MS, MINUTE_MS
from solward.types.guardrail import Intent, Line, Operation, Outflow, TransactionEffects
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.custody import Pocket
from solward.vault.grants.judged import GRANTS_RULE
from solward.vault.grants.model import ANY_ASSET, Grant, SwapBounds, Window
from solward.vault.guardrails.rules import RULES, Policy, ScopeLimits, Verdict
from solward.vault.money.judge.granting import GrantJudge, GrantRuling, Question
from solward.vault.money.judge.prices import Prices
from solward.vault.money.outcomes import Trial
from solward.vault.money.request import ADMIN, Actor, PocketUse
from solward.vault.money.reserve.hold_reservation import Judgement
from solward.vault.money.reserve.reservation import Reserver
from solward.vault.refusal import RefusalNumbers
from solward.vault.store import spending
from solward.vault.store import transactions as store

ADDRESS = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
POCKET = "4Nd1mBQtrMJVYVfKf2PJy9NZUZdTAsp7D4xWLs4gDB4T"
USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
MINT = "CnfsDnWmh34rN9EM5MLVJB7dLbe1x8VDM3mv2EQq4KZ8"
AGENT, KEY = "agent:a", "key:k"
INTENT = Intent("transfer", ADDRESS, rent_lamports=10**8)
EFFECTS = TransactionEffects(lamports_out=0, fee_lamports=5_000)
SOL = 10**9
# What was allowed before a case.
ROOMY = Policy(max_fee_lamports=SOL, max_rent_lamports=SOL)
OURS = "5 SOL is more than the 2 SOL allowed per transaction (limit of the wallet)"

Numbers = Mapping[str, str]
Asked = tuple[Intent, TransactionEffects]


def sol(lamports: int, **effects: Any) -> Asked:
    """A declared payment of SOL."""
    return replace(INTENT, lamports_out=lamports), replace(EFFECTS, **effects)


def tokens(units: int, **effects: Any) -> Asked:
    return replace(INTENT, tokens_out={MINT: units}), replace(EFFECTS, **effects)


def lines(units: int, fee: int = 5_000, rent: int = 0, to: str = POCKET) -> Asked:
    """A payment of USDC by its bytes, as grants judge it."""
    line = Line(Operation.TRANSFER, USDC, units, to, to, 6)
    out = {USDC: units}
    outflow = Outflow(0, fee, rent, out, (line,))
    effects = TransactionEffects(0, fee, tokens_out=out, outflow=outflow)
    return Intent("transfer", ADDRESS, tokens_out=out), effects


@dataclass(frozen=True, slots=True)
class Case:
    """What is refused after what, and the numbers it is stored with.

    Attributes:
        earlier: what was reserved before, in the same windows.
        pocket: a swap's.
    """

    rule: str
    asked: Asked
    numbers: Numbers
    limits: ScopeLimits = UNLIMITED
    earlier: Sequence[Asked] = ()
    actor: Actor = ADMIN
    grant: Grant | None = None
    pocket: PocketUse | None = None


DAY = {"window": "24 hours"}
IN_SOL = {"unit": "SOL"}


def day(rule: str, **options: Any) -> Case:
    return Case(
        rule,
        sol(SOL),
        {"asked": "1", "limit": "10", "left": "0.75", "used": "9.25"} | IN_SOL | DAY,
        earlier=[sol(9_250_000_000)],
        **options,
    )


def day_of_tokens(unit: str, amounts: Numbers, **effects: Any) -> Case:
    return Case(
        "daily_limit",
        tokens(30, **effects),
        {"unit": f"{unit} of mint {MINT}"} | DAY | amounts,
        ScopeLimits(daily_tokens={MINT: 500}),
        [tokens(480)],
    )


def violated(rule: str) -> Case:
    """By what the bytes do, whose sentence is not the rule's."""
    return Case(rule, (INTENT, replace(EFFECTS, violations=((rule, OURS),))), {})


# Each form of each rule's sentence that says numbers, in the order of the rules.
BUILT_IN = {
    "at once": Case(
        "max_per_tx",
        sol(3_000_000_001),
        {"asked": "3.000000001", "limit": "2"} | IN_SOL,
        ScopeLimits(2 * SOL),
    ),
    "rate": Case(
        "rate_limit",
        sol(1),
        {"limit": "2", "used": "2", "unit": "transactions", "window": "minute"},
        ScopeLimits(max_tx_per_minute=2),
        [sol(1), sol(1)],
    ),
    "day": day("daily_limit", limits=ScopeLimits(daily_lamports=10 * SOL)),
    "day of a token": day_of_tokens(
        "tokens",
        {"asked": "3", "limit": "50", "left": "2", "used": "48", "mint": MINT},
        decimals={MINT: 1},
    ),
    "day of units": day_of_tokens(
        "smallest units", {"asked": "30", "limit": "500", "left": "20", "used": "480"}
    ),
    "day of a key": day(
        "spending_limit_check", actor=Actor(KEY, limits=((KEY, ScopeLimits(None, None, 10 * SOL)),))
    ),
    "fee": Case(
        "fee_limit",
        (INTENT, replace(EFFECTS, fee_lamports=2_000_000)),
        {"asked": "0.002", "limit": "0.001"} | IN_SOL,
    ),
    "rent": Case(
        "fee_limit",
        (INTENT, replace(EFFECTS, rent_lamports=30_000_000)),
        {"asked": "0.03", "limit": "0.02"} | IN_SOL,
    ),
    "rent declared": Case(
        "fee_limit",
        (replace(INTENT, rent_lamports=7), replace(EFFECTS, rent_lamports=8)),
        {"asked": "0.000000008", "limit": "0.000000007"} | IN_SOL,
    ),
    "possible rent": Case(
        "fee_limit",
        (INTENT, replace(EFFECTS, outflow=Outflow(0, 5_000, 30_000_000))),
        {"asked": "0.03", "limit": "0.02"} | IN_SOL,
    ),
    "accounts": Case(
        "fee_limit",
        (INTENT, replace(EFFECTS, accounts_created=7)),
        {"asked": "7", "limit": "4", "unit": "new accounts"},
    ),
    "leaves SOL": Case(
        "simulated_effects",
        (INTENT, replace(EFFECTS, lamports_out=SOL)),
        {"asked": "1", "limit": "0"} | IN_SOL,
    ),
    "leaves tokens": Case(
        "simulated_effects",
        (INTENT, replace(EFFECTS, tokens_out={MINT: 25}, decimals={MINT: 1})),
        {"asked": "2.5", "limit": "0", "unit": f"tokens of mint {MINT}", "mint": MINT},
    ),
    "could leave SOL": Case(
        "simulated_effects",
        (INTENT, replace(EFFECTS, outflow=Outflow(SOL, 5_000, 0))),
        {"asked": "1", "limit": "0"} | IN_SOL,
    ),
    "could leave tokens": Case(
        "simulated_effects",
        (INTENT, replace(EFFECTS, outflow=Outflow(0, 5_000, 0, {MINT: 25}))),
        {"asked": "25", "limit": "0", "unit": f"smallest units of mint {MINT}"},
    ),
    "costs": Case(
        "costs_limit",
        (INTENT, EFFECTS),
        {"asked": "0.000005", "limit": "0.05", "left": "0.000001", "used": "0.049999"}
        | IN_SOL
        | DAY,
        ScopeLimits(daily_costs_lamports=50_000_000),
        [sol(0, fee_lamports=49_999_000)],
    ),
    "price": Case(
        "swap_bounds",
        (replace(INTENT, price_impact_bps=700), EFFECTS),
        {"asked": "700", "limit": "500", "unit": "basis points"},
    ),
    # Their sentences say no number of a limit.
    "a key of nothing": Case(
        "spending_limit_check",
        (INTENT, EFFECTS),
        {"limit": "0", "unit": "SOL"},
        actor=Actor(KEY, limits=((KEY, ScopeLimits(None, None, 0)),)),
    ),
    "program": violated("program_allowlist"),
    "fee by the bytes": violated("fee_limit"),
    "authority": violated("authority_change"),
}  # fmt: skip


def granted(asked: Asked, numbers: Numbers, made: Grant, *earlier: Asked, **options: Any) -> Case:
    actor = Actor(AGENT, limits=((AGENT, UNLIMITED),))
    return Case(GRANTS_RULE, asked, numbers, earlier=earlier, actor=actor, grant=made, **options)


def usdc(most: Any, **options: Any) -> Grant:
    return grant(AGENT, **{USDC: limit(USDC, most, **options)})


def usd(most: Any, **options: Any) -> Grant:
    return grant(AGENT, **{ANY_ASSET: limit(ANY_ASSET, most, **options)})


def swap(bounds: SwapBounds, numbers: Numbers, **terms: int) -> Case:
    intent, effects = lines(1_000_000)
    intent = replace(intent, type="swap", details={"outputToken": MINT}, **terms)
    made = structs.replace(usdc(8_000_000), swap=bounds)
    pocket = PocketUse(Pocket("w1", 1, POCKET), venue="market")
    return granted((intent, effects), numbers, made, pocket=pocket)


# Each form of a grant's sentence that says numbers.
OF_GRANTS = {
    "at once": granted(
        lines(6_000_000),
        {"asked": "6", "limit": "5", "unit": "USDC"},
        usdc(8_000_000, per_tx=5_000_000),
    ),
    "window": granted(
        lines(4_000_000),
        {"asked": "4", "limit": "8", "left": "3", "unit": "USDC", "window": "an hour"},
        usdc({HOUR_MS: 8_000_000}),
        lines(5_000_000),
    ),
    "never": granted(
        lines(9_000_000), {"asked": "9", "limit": "8", "unit": "USDC"} | DAY, usdc(8_000_000)
    ),
    "dollars at once": granted(
        lines(6_000_000), {"asked": "$6", "limit": "$5"}, usd(8_000_000, per_tx=5_000_000)
    ),
    "dollars": granted(
        lines(4_000_000),
        {"asked": "$4", "limit": "$5", "left": "$0.5"} | DAY,
        usd(5_000_000),
        lines(4_500_000),
    ),
    "dollars never": granted(
        lines(9_000_000), {"asked": "$9", "limit": "$8"} | DAY, usd(8_000_000)
    ),
    "rate": granted(
        lines(1),
        {"limit": "2", "used": "2", "unit": "transactions", "window": "a minute"},
        structs.replace(usdc(8_000_000), rates=(Window(MINUTE_MS, 2),)),
        lines(1), lines(1),
    ),
    "rate of one": granted(
        lines(1),
        {"limit": "1", "used": "1", "unit": "transaction", "window": "a minute"},
        structs.replace(usdc(8_000_000), rates=(Window(MINUTE_MS, 1),)),
        lines(1),
    ),
    "costs": granted(
        lines(1, fee=0, rent=20_000_000),
        {"asked": "0.02", "limit": "0.05", "left": "0.005", "unit": "SOL of fees and rent"} | DAY,
        usdc(8_000_000),
        lines(1, fee=5_000_000, rent=40_000_000),
    ),
    "costs never": granted(
        lines(1, fee=0, rent=20_000_000),
        {"asked": "0.02", "limit": "0.01", "unit": "SOL of fees and rent"} | DAY,
        structs.replace(usdc(8_000_000), costs_lamports=10_000_000),
    ),
    "slippage": swap(
        SwapBounds(slippage_bps=100), {"asked": "2.5%", "limit": "1%", "unit": "slippage"},
        slippage_bps=250,
    ),
    "impact": swap(
        SwapBounds(impact_bps=100), {"asked": "2.5%", "limit": "1%", "unit": "price impact"},
        price_impact_bps=250,
    ),
    "slippage not known": swap(
        SwapBounds(slippage_bps=100), {"limit": "1%", "unit": "slippage"}
    ),
    "no costs": granted(lines(1), {}, structs.replace(usdc(8_000_000), costs_lamports=0)),
    "no grant": granted(lines(1), {}, grant(AGENT, SOL=limit("SOL", 1))),
}  # fmt: skip


@pytest.fixture
async def stored(database: Database) -> Database:
    """A database with a wallet."""
    async with database.write() as connection:
        await connection.execute(insert(wallets), [WALLET_ROW])
    return database


def reserver_of(database: Database, case: Case, **options: Any) -> Reserver:
    prices = Prices([SaidPrices(usd={USDC: (1, 6)})])
    granting = GrantJudge(prices, token_list("mainnet-beta"))
    return Reserver(database, Policy(), case.limits, granting=granting, **options)


def pending(case: Case) -> TransactionRecord:
    return TransactionRecord(
        str(uuid.uuid4()), "w1", case.asked[0].type, TransactionStatus.PENDING, {}, (),
        created_ms=0, principal=case.actor.principal,
    )  # fmt: skip


async def prepare(database: Database, case: Case) -> None:
    """The grant, and what was reserved before."""
    if case.grant is not None:
        await replace_set(database, case.grant.who, [case.grant])
    prices = Prices([SaidPrices(usd={USDC: (1, 6)})])
    before = Reserver(database, ROOMY, UNLIMITED, granting=GrantJudge(prices))
    actor = replace(case.actor, limits=tuple((who, UNLIMITED) for who, _ in case.actor.limits))
    for each in case.earlier:
        made = await before.reserve(pending(case), Question("w1", actor, *each))
        assert made.record.status is TransactionStatus.PENDING, made.record.error


async def shown(database: Database, record: TransactionRecord) -> dict[str, Any]:
    """The refusal, as both routes answer it."""
    body = await record_json(database, record)
    assert (await refusals(database, "w1", 1))["refusals"] == [body]
    found: dict[str, Any] = body["refusal"]
    return found


async def refused(database: Database, case: Case, **options: Any) -> dict[str, Any]:
    """The refusal on the record, which a dry run of the same answers too."""
    await prepare(database, case)
    reserver = reserver_of(database, case, **options)
    question = Question("w1", case.actor, *case.asked, case.pocket)
    trial = await reserver.trial(question)
    record = (await reserver.reserve(pending(case), question)).record
    assert record.status is TransactionStatus.BLOCKED
    found = await shown(database, record)
    assert found["reason"] == record.error
    tried = Trial(trial, case.asked[1]).to_json()
    assert (tried["rule"], tried.get("numbers", {})) == (found["rule"], found["numbers"])
    return found


CASES = {f"{case.rule}: {name}": case for at in (BUILT_IN, OF_GRANTS) for name, case in at.items()}


@promise("refusal-numbers-stored")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_the_record_has_the_numbers_of_its_sentence(stored: Database, case: Case) -> None:
    found = await refused(stored, case)
    assert (found["rule"], found["numbers"]) == (case.rule, case.numbers)
    for number in case.numbers.values():
        assert number in found["reason"]


def test_every_rule_has_a_case_but_those_that_say_no_numbers() -> None:
    said = {case.rule for case in CASES.values() if case.numbers}
    assert {*RULES, GRANTS_RULE} - said == {
        "program_allowlist", "blocked_address", "authority_change",
    }  # fmt: skip


async def test_what_was_never_simulated_has_its_numbers_too(stored: Database) -> None:
    case = BUILT_IN["at once"]
    intent = case.asked[0]
    reserver = reserver_of(stored, case)
    record = await reserver.fail(pending(case), ADMIN, intent, "it cannot be simulated")
    assert (await shown(stored, record))["numbers"] == case.numbers
    reserver = reserver_of(stored, replace(case, limits=UNLIMITED))
    record = await reserver.fail(pending(case), ADMIN, intent, OURS)
    assert record.status is TransactionStatus.FAILED
    assert "refusal" not in await record_json(stored, record)


@promise("refusal-numbers-stored")
async def test_a_plugins_sentence_that_is_written_like_ours_has_none(stored: Database) -> None:
    class Forged(str):
        __slots__ = ()
        numbers = RefusalNumbers(asked="5", limit="2", unit="SOL")

        def to_json(self) -> dict[str, str]:
            return self.numbers.to_json()

    def forges(_intent: Intent, _effects: TransactionEffects) -> str:
        return Forged(OURS)

    rule = LoadedGuardrail("max_per_tx_too", "rules", "1.0", ThreadedRule(forges))
    case = Case("max_per_tx_too", (INTENT, EFFECTS), {})
    found = await refused(stored, case, plugin_guardrails=(rule,))
    assert found == {"rule": "max_per_tx_too", "reason": OURS, "numbers": {}}


async def test_a_refusal_of_ours_before_a_plugins_rule_keeps_its_numbers(stored: Database) -> None:
    def never(_intent: Intent, _effects: TransactionEffects) -> str:
        return "no"

    rule = LoadedGuardrail("never", "rules", "1.0", ThreadedRule(never))
    case = BUILT_IN["at once"]
    found = await refused(stored, case, plugin_guardrails=(rule,))
    assert (found["rule"], found["numbers"]) == (case.rule, case.numbers)


async def test_a_freeze_that_is_reasoned_like_a_limit_has_none(stored: Database) -> None:
    async with stored.write() as connection:
        await spending.set_frozen(connection, "service", True, OURS)
    found = await refused(stored, Case("freeze", sol(1), {}))
    assert (found["rule"], found["numbers"]) == ("freeze", {})


def test_another_rule_that_refuses_then_has_no_numbers_of_the_first() -> None:
    numbers = RefusalNumbers(asked="5", limit="2", unit="SOL")
    verdict = Verdict(("max_per_tx",), "max_per_tx", "too much", numbers=numbers)
    judged = Judgement(verdict, Moment(0, 0), {})
    assert judged.with_refusal("it is not what was approved").verdict.numbers is None


# One row has both: there is no moment between them.


async def test_sentence_and_numbers_are_one_statement(stored: Database) -> None:
    case = BUILT_IN["at once"]
    async with statements_of(stored) as seen:
        await reserver_of(stored, case).reserve(
            pending(case), Question("w1", case.actor, *case.asked)
        )
    of_records = [each for each in seen if "transactions" in each and "SELECT" not in each.upper()]
    (only,) = of_records
    assert only.upper().startswith("INSERT INTO TRANSACTIONS")
    assert "refusal_numbers" in only
    async with statements_of(stored) as seen:
        await reserver_of(stored, case).reserve(pending(case), Question("w1", case.actor, *sol(1)))
    assert "INSERT INTO transactions" in " ".join(seen)
    # What is let through takes no value more.
    assert not any("refusal_numbers" in each for each in seen)


@promise("refusal-numbers-stored")
async def test_where_the_transaction_fails_neither_is_stored(
    stored: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cut_off(*_: Any) -> None:
        raise RuntimeError("cut off")

    # It is noted behind the record, in the same transaction.
    monkeypatch.setattr(GrantRuling, "note", cut_off)
    case = OF_GRANTS["never"]
    await prepare(stored, case)
    record = pending(case)
    with pytest.raises(RuntimeError, match="cut off"):
        await reserver_of(stored, case).reserve(record, Question("w1", case.actor, *case.asked))
    async with stored.read() as connection:
        assert await store.get(connection, record.id) is None
        assert await refusal_numbers(connection, [record.id]) == {}
    monkeypatch.undo()
    await reserver_of(stored, case).reserve(record, Question("w1", case.actor, *case.asked))
    async with stored.read() as connection:
        assert await refusal_numbers(connection, [record.id]) == {record.id: case.numbers}

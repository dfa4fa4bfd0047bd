"""What a decision by grants takes with its database transaction, on SQLite: at most 1 ms, and 10 ms
where 100 grants of one principal match.

A decision is all that a dry run asks once the effects are known: it begins, reads switches, usage
and what grants have counted, judges, and ends. A reservation does the same before it writes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.grants import COIN, HOUR, PAID, USED, address, grant
from benchmarks.report import Ratio
from sqlalchemy import insert

from solward.database.database import Database
from solward.database.tables import reservations
from solward.operations.policies.changes import replace_policy
from solward.types.guardrail import COSTS, SOL, Intent, Outflow, TransactionEffects
from solward.vault.grants.model import Grant
from solward.vault.guardrails.rules import Policy, ScopeLimits
from solward.vault.money.judge.granting import Question
from solward.vault.money.request import Actor
from solward.vault.money.reserve.reservation import Reserver

# Decisions a second of one core. Where 100 grants match, 500 sums of up to 24 hours are read.
AT_LEAST, AT_LEAST_OF_100_MATCHING = 1_000, 100
ROUNDS = 200
SCOUT = "agent:scout"
ACTOR = Actor(SCOUT, via=("skill:pay",), limits=((SCOUT, ScopeLimits()),))
PAYEE = str(PAID.owner)
ROOM = 10**9
VENDORS = {"vendors": [address(number) for number in range(3, 60)]}

Sets = Mapping[str, Sequence[Grant]]


def others(count: int) -> Sets:
    """`count` grants of other principals, 100 each."""
    return {
        f"key:{at}": [grant(f"key:{at}", number, COIN, ROOM) for number in range(100)]
        for at in range(count // 100)
    }


def of_scout(for_others: int, exhausted: int = 0) -> list[Grant]:
    """Grants of the agent: for other assets, without room, and one with room."""
    listed = [grant(SCOUT, number, address(100 + number), ROOM) for number in range(for_others)]
    listed += [grant(SCOUT, number, COIN, USED) for number in range(exhausted)]
    return [*listed, grant(SCOUT, 100, COIN, ROOM)]


async def _fill(database: Database, scope: str, an_hour: int) -> None:
    """A day in which a grant was used up: `an_hour` transactions in each of its hours."""
    count = 24 * an_hour
    async with database.write() as connection:
        now_ms = (await database.moment(connection)).window_ms
        rows = [
            {
                "transaction_id": f"{scope} {number}",
                "scope": scope,
                "asset": asset,
                "created_ms": now_ms - number * (HOUR // an_hour),
                "units": units,
            }
            for number in range(count)
            for asset, units in ((COIN, USED // count + 1), (SOL, 0), (COSTS, 1))
        ]
        await connection.execute(insert(reservations), rows)


async def _a_second(folder: Path, sets: Sets, busy: Sequence[tuple[str, int]]) -> float:
    """Decisions a second by the fastest tenth; each lets a payment through.

    Args:
        busy: scopes, and how many transactions each counts in an hour.
    """
    folder.mkdir(parents=True)
    database = await Database.open(None, folder)
    try:
        await replace_policy(database, sets, VENDORS)
        for scope, an_hour in busy:
            await _fill(database, scope, an_hour)
        # Without grants no token leaves, so SOL does.
        line = PAID if SCOUT in sets else replace(PAID, asset=SOL, decimals=9)
        tokens = {line.asset: line.units} if SCOUT in sets else {}
        lamports = 0 if SCOUT in sets else line.units
        outflow = Outflow(lamports, 5_000, 0, tokens, (line,))
        effects = TransactionEffects(lamports, 5_000, tokens_out=tokens, outflow=outflow)
        intent = Intent(
            "transfer", address(1), lamports, tokens_out=tokens, destinations=frozenset({PAYEE})
        )
        reserver = Reserver(database, Policy(), ScopeLimits())
        taken = []
        for _ in range(ROUNDS):
            start = time.process_time()
            verdict = await reserver.trial(Question("w", ACTOR, intent, effects))
            taken.append(time.process_time() - start)
            assert verdict.allowed, verdict.reason
        # Each does the same; what else the machine does only adds to it.
        return 1 / statistics.quantiles(taken, n=10)[0]
    finally:
        await database.close()


async def measure(tmp: Path) -> Iterator[Ratio]:
    """Decisions a second of one core, against the least."""
    found: list[Ratio] = []
    one, hundred, matching = of_scout(0), of_scout(99), of_scout(0, exhausted=99)
    thousand = {**others(900), SCOUT: hundred}
    for name, sets, busy, least in (
        ("no grants", {}, [], AT_LEAST),
        ("no grants, 24,000 that day", {}, [(SCOUT, 1_000)], AT_LEAST),
        ("1 grant, matches", {SCOUT: one}, [], AT_LEAST),
        ("100 grants, 1 matches", {SCOUT: hundred}, [], AT_LEAST),
        (
            "1,000 grants, all busy, 1 matches",
            thousand,
            [(each.scope, 1) for listed in thousand.values() for each in listed[:-1]]
            + [(hundred[-1].scope, 100)],
            AT_LEAST,
        ),
        (
            "100 match, 99 exhausted",
            {SCOUT: matching},
            [(each.scope, 4) for each in matching],
            AT_LEAST_OF_100_MATCHING,
        ),
    ):
        figure = await _a_second(tmp / "decisions" / str(len(found)), sets, busy)
        found.append(Ratio(f"decisions by grants: {name}", figure, least, "a s", 1))
    return iter(found)

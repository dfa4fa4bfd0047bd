"""What a verdict of grants takes, without the database: at most 1 ms, and 50 ms of 60 lines."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.report import Ratio
from solders.pubkey import Pubkey

from solward.types.guardrail import COSTS, Line, Operation
from solward.vault.grants.decide import CompiledGrants, compile_grants, decide, needed
from solward.vault.grants.model import MAX_GRANTS, AssetLimit, Case, Decision, Grant, Window

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
# Verdicts a second of one core.
AT_LEAST, AT_LEAST_OF_60_LINES = 1_000, 20
ROUNDS = 300
CHAIN = ("wallet:w", "agent:scout", "skill:pay")
USED = 1_000


def address(number: int) -> str:
    return str(Pubkey(number.to_bytes(32, "big")))


COIN = address(1)
PAID = Line(Operation.TRANSFER, COIN, 5, address(2), address(3), decimals=6)


def grant(who: str, number: int, asset: str, most: int) -> Grant:
    """With every kind of check: a book of names, hours, a rate, windows of a minute to a day."""
    windows = tuple(Window(length, most) for length in (MINUTE, HOUR, DAY))
    return Grant(
        f"{number:016x}",
        who,
        frozenset({Operation.TRANSFER}),
        assets={asset: AssetLimit(asset, 6, windows, per_tx=most)},
        to=("@vendors", "own"),
        rates=(Window(MINUTE, USED + 1),),
    )


def stored(count: int, *, others: int = 0, exhausted: int = 0) -> dict[str, CompiledGrants]:
    """`count` grants of other principals, and of each in the chain `others` for other assets, then
    `exhausted` without room and one that has it."""
    sets = {
        f"key:{at}": compile_grants([grant(f"key:{at}", n, COIN, 10**9) for n in range(100)])
        for at in range(count // 100)
    }
    for who in CHAIN:
        listed = [grant(who, n, address(100 + n), 10**9) for n in range(others)]
        listed += [grant(who, others + n, COIN, USED) for n in range(exhausted)]
        if len(listed) < MAX_GRANTS:
            listed.append(grant(who, MAX_GRANTS, COIN, 10**9))
        sets[who] = compile_grants(listed)
    return sets


def verdict(sets: Mapping[str, CompiledGrants], lines: int = 1) -> Decision:
    case = Case(
        "w",
        CHAIN,
        (PAID,) * lines,
        5_000,
        (1_700_000_000_000,) * 2,
        book={"vendors": frozenset(address(n) for n in range(3, 60))},
    )
    sums = {need: 0 if need[1] == COSTS else USED for need in needed(sets, case)}
    return decide(sets, case, sums)


def figures() -> Iterator[tuple[str, float, int]]:
    """(what, verdicts a second, at least how many): by the median of many."""
    for name, sets, lines in (
        ("1 grant each", stored(0), 1),
        ("100 grants each, 1 matches", stored(0, others=99), 1),
        ("1,000 grants stored, 1 matches", stored(700, others=99), 1),
        ("1,000 grants stored, 8 lines", stored(700, others=99), 8),
    ):
        yield name, _a_second(sets, lines, is_allowed=True), AT_LEAST
    busy = {**stored(700), CHAIN[1]: stored(0, exhausted=100)[CHAIN[1]]}
    yield "100 matching and exhausted", _a_second(busy, 1, is_allowed=False), AT_LEAST
    # Each with room for one line: all fit together, or no way of very many leads anywhere.
    for count in (60, 59):
        tight = compile_grants([grant(CHAIN[1], n, COIN, USED + PAID.units) for n in range(count)])
        figure = _a_second({CHAIN[1]: tight}, 60, is_allowed=count == 60)
        yield f"60 lines over {count} grants", figure, AT_LEAST_OF_60_LINES


def _a_second(sets: Mapping[str, CompiledGrants], lines: int, *, is_allowed: bool) -> float:
    taken = []
    for _ in range(ROUNDS):
        start = time.process_time()
        made = verdict(sets, lines)
        taken.append(time.process_time() - start)
        assert (made.refused is None) == is_allowed
    return 1 / statistics.median(taken)


async def measure(_tmp: Path) -> Iterator[Ratio]:
    """Verdicts a second of one core, against the least."""
    return iter(
        [
            Ratio(f"verdicts of grants: {name}", figure, least, "a s", 1)
            for name, figure, least in figures()
        ]
    )

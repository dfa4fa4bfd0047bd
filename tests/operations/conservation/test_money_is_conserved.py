from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.operations.conservation.machine import STRANGERS, Amount, Purse
from tests.operations.conservation.support import Limits, Way
from tests.support.swaps import BONK

from solward.vault.guardrails.rules import ScopeLimits

OPERATIONS = (
    "airdrop", "transfer", "swap", "launch", "mint", "send", "burn", "revoke", "close",
    "wrap", "unwrap", "stake", "unstake", "withdraw",
)  # fmt: skip

# What needs more SOL than a fee, and so fails where the owner has spent it.
SPENDS = {"transfer", "swap", "launch", "send", "wrap", "stake"}
HALF, TWO = Amount(Decimal("0.5")), Amount(2)
CALM = Way(0)


def outcomes(but: str = "confirmed", /, **named: str) -> dict[str, str]:
    """How each operation ends: as `but`, unless it is named."""
    return {kind: named.get(kind, but) for kind in OPERATIONS}


@contextmanager
def opened(home: Path, limits: Limits) -> Iterator[Purse]:
    purse = Purse(home, Counter())
    purse.open(limits=limits, furnished=False)
    try:
        yield purse
    finally:
        purse.teardown()


@pytest.mark.parametrize(
    ("way", "ends"),
    [
        (CALM, outcomes()),
        (Way(0, "key"), outcomes("blocked")),
        pytest.param(Way(0, "dry"), outcomes("dry"), marks=pytest.mark.more),
        pytest.param(Way(0, weather="silent"), outcomes("failed"), marks=pytest.mark.more),
        pytest.param(
            Way(0, weather="lost"),
            outcomes("failed", airdrop="confirmed"),
            marks=pytest.mark.more,
        ),
        pytest.param(Way(0, weather="unheard"), outcomes(), marks=pytest.mark.more),
        pytest.param(
            Way(0, weather="overtaken"),
            outcomes(**dict.fromkeys(SPENDS, "failed")),
            marks=pytest.mark.more,
        ),
    ],
    ids=["calm", "blocked", "dry", "silent", "lost", "unheard", "overtaken"],
)
def test_every_operation_ends_as_its_way_asks_and_the_books_balance(
    tmp_path: Path, way: Way, ends: dict[str, str]
) -> None:
    with opened(tmp_path, Limits(key=ScopeLimits(max_tx_per_minute=0))) as purse:
        # A mint with a supply; an empty account of BONK; a stake that is inactive, an active one.
        purse.launch(way=CALM, decimals=6, supply=1000)
        purse.swap(way=CALM, pair=("SOL", "BONK"), amount=HALF, share=1, slippage=50)
        purse.burn(way=CALM, mint=BONK, share=1000)
        purse.wrap(way=CALM, amount=HALF)
        for _ in range(2):
            purse.stake(way=CALM, amount=TWO, validator=None)
        purse.pass_epochs(epochs=1)
        purse.unstake(way=CALM, which=0, mine=True)
        purse.pass_epochs(epochs=1)
        asked: dict[str, Callable[..., object]] = {
            "airdrop": partial(purse.airdrop, amount=TWO),
            "transfer": partial(purse.transfer, amount=HALF, to=STRANGERS[0]),
            "swap": partial(purse.swap, pair=("SOL", "USDC"), amount=HALF, share=1, slippage=50),
            "launch": partial(purse.launch, decimals=9, supply=1),
            "mint": partial(purse.mint, which=0, mine=True, amount=TWO, decimals=None),
            "send": partial(purse.send_launched, which=0, mine=True, share=300, to="other"),
            "burn": partial(purse.burn_launched, which=0, mine=True, share=500),
            "revoke": partial(purse.revoke, which=0, mine=True, kind="freeze"),
            "close": partial(purse.close, mint=BONK),
            "wrap": partial(purse.wrap, amount=HALF),
            "unwrap": purse.unwrap,
            "stake": partial(purse.stake, amount=TWO, validator=None),
            "unstake": partial(purse.unstake, which=1, mine=True),
            "withdraw": partial(purse.withdraw, which=0, mine=True),
        }
        found = {}
        for kind, ask in asked.items():
            purse.refill()
            purse.books_balance()
            before = purse.counts.copy()
            ask(way=way)
            ((_kind, found[kind]),) = purse.counts - before
            purse.books_balance()
            purse.ask_again()
            purse.books_balance()
        assert found == ends


def run(home: Path, examples: int, steps: int) -> Counter[tuple[str, str]]:
    """Run the machine; how many steps of each operation ended how."""
    counts: Counter[tuple[str, str]] = Counter()

    class Counted(Purse):
        def __init__(self) -> None:
            super().__init__(home, counts)

    run_state_machine_as_test(
        Counted,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=[HealthCheck.too_slow],
            # To explain a failure costs more lives than to find it.
            phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
            report_multiple_bugs=False,
        ),
    )
    return counts


@pytest.mark.more
@pytest.mark.timeout(600)
def test_money_is_conserved_whatever_two_wallets_do(tmp_path: Path) -> None:
    counts = run(tmp_path, 10, 15)
    assert {outcome for _kind, outcome in counts} >= {"confirmed", "invalid"}


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_money_is_conserved_over_many_long_lives(tmp_path: Path) -> None:
    counts = run(tmp_path, 300, 40)
    assert not [kind for kind in OPERATIONS if not counts[kind, "confirmed"]], counts
    assert {outcome for _kind, outcome in counts} == {
        "confirmed", "blocked", "failed", "invalid", "dry",
    }  # fmt: skip

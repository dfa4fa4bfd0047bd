"""Whatever two wallets can do, in any order: the rules of the money machine."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)
from solders.keypair import Keypair
from tests.operations.conservation_support import SOL, Call, Limits, Way, World, open_world
from tests.operations.conservation_weather import WEATHERS
from tests.operations.swap_support import BONK, USDC

from solward.guardrails import ScopeLimits
from solward.ledger.token_list import WRAPPED_SOL_MINT
from solward.record import TransactionRecord

STRANGERS = [str(Keypair.from_seed(bytes([number] * 32)).pubkey()) for number in (1, 2)]
BLOCKED = str(Keypair.from_seed(bytes([3] * 32)).pubkey())

WIDE = Limits()
SMALL = Limits(
    ScopeLimits(
        max_lamports_per_tx=3 * SOL // 2,
        daily_lamports=4 * SOL,
        daily_tokens={USDC: 200 * 10**6, BONK: 10**12},
    ),
    ScopeLimits(max_lamports_per_tx=SOL, daily_lamports=5 * SOL),
)
FEW = Limits(ScopeLimits(max_tx_per_minute=8), ScopeLimits(max_tx_per_minute=3))


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount as a caller gives it, and whether it is one at all."""

    value: Any
    valid: bool = True


def lamports(least: int, most: int) -> st.SearchStrategy[Amount]:
    return st.integers(least, most).map(lambda units: Amount(Decimal(units).scaleb(-9)))


NO_AMOUNTS = st.sampled_from(
    [0, -1, True, "1", 1.5, Decimal("NaN"), Decimal("1E-10"), Decimal(2**64)]
).map(lambda value: Amount(value, False))
SOL_AMOUNTS = st.one_of(
    lamports(1, SOL),
    lamports(SOL, 3 * SOL),
    st.sampled_from([Amount(1), Amount(2), Amount(Decimal("0.00089088")), Amount(100)]),
    NO_AMOUNTS,
)
STAKED = st.one_of(
    lamports(SOL + 2_282_880, 2 * SOL), st.sampled_from([Amount(2), Amount(1)]), NO_AMOUNTS
)
# Thousandths of what the wallet holds.
SHARES = st.sampled_from([1, 300, 500, 1000, 1000, 1500])
PAIRS = st.sampled_from(
    [
        ("SOL", "USDC"), ("SOL", "USDC"), ("SOL", BONK), ("USDC", "SOL"), (BONK, "SOL"),
        ("USDC", "BONK"), ("BONK", USDC), ("SOL", "SOL"), ("SOL", "NOPE"),
    ]
)  # fmt: skip
WAYS = st.builds(
    Way,
    st.integers(0, 1),
    st.sampled_from(["admin", "admin", "key", "key", "dry"]),
    st.sampled_from(["calm"] * 7 + list(WEATHERS)),
)
MINE = st.sampled_from([True, True, True, False])

# A launched mint or a stake: the index of its wallet, and its address.
Owned = tuple[int, str]


def by(way: Way, owned: Owned, mine: bool) -> Way:
    """The way, by the owner of something or by the other wallet."""
    return Way(owned[0] if mine else 1 - owned[0], way.caller, way.weather)


class Purse(RuleBasedStateMachine):
    """Two wallets that do whatever wallets can do."""

    mints: Bundle[Owned] = Bundle("mints")
    stakes: Bundle[Owned] = Bundle("stakes")

    def __init__(self, home: Path, counts: Counter[tuple[str, str]]) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(dir=home))
        self.counts = counts
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.world: World

    @initialize(limits=st.sampled_from([WIDE, WIDE, WIDE, SMALL, FEW]))
    def open(self, limits: Limits) -> None:
        opened = open_world(self.home, limits, BLOCKED, self.counts)
        self.world = self.runner.run(self.stack.enter_async_context(opened))

    def take(self, kind: str, way: Way, call: Call, valid: bool = True) -> TransactionRecord | None:
        return self.runner.run(self.world.take(kind, way, call, valid=valid))

    def units(self, who: int, mint: str, share: int) -> int:
        return self.runner.run(self.world.units(who, mint)) * share // 1000

    @rule(way=WAYS, amount=SOL_AMOUNTS)
    def airdrop(self, way: Way, amount: Amount) -> None:
        valid = amount.valid and amount.value <= 2
        self.take("airdrop", way, lambda o, w, a: o.airdrop(w, a, amount=amount.value), valid)

    @rule(way=WAYS, amount=SOL_AMOUNTS, to=st.sampled_from(["self", "other", *STRANGERS, BLOCKED]))
    def transfer(self, way: Way, amount: Amount, to: str) -> None:
        ours = {"self": way.who, "other": 1 - way.who}
        target = self.world.wallets[ours[to]].address if to in ours else to
        self.take(
            "transfer",
            way,
            lambda o, w, a: o.transfer(w, a, to=target, amount=amount.value),
            amount.valid,
        )

    @rule(way=WAYS, pair=PAIRS, amount=SOL_AMOUNTS, share=SHARES,
          slippage=st.sampled_from([50, 50, 50, 0, 10_000, -1]))  # fmt: skip
    def swap(
        self, way: Way, pair: tuple[str, str], amount: Amount, share: int, slippage: int
    ) -> None:
        source, target = pair
        value = amount.value
        if source != "SOL":
            mint = USDC if source in ("USDC", USDC) else BONK
            decimals = self.world.books.decimals[mint]
            value = Decimal(max(1, self.units(way.who, mint, share))).scaleb(-decimals)
        valid = (amount.valid or source != "SOL") and slippage >= 0
        self.take(
            "swap",
            way,
            lambda o, w, a: o.swap(
                w, a, input_token=source, output_token=target, amount=value, slippage_bps=slippage
            ),
            valid and source != target != "NOPE",
        )

    @rule(target=mints, way=WAYS, decimals=st.integers(0, 10),
          supply=st.sampled_from([1, 1000, 10**6, Decimal("2.5"), 2**64]))  # fmt: skip
    def launch(self, way: Way, decimals: int, supply: Any) -> Any:
        fits = supply != 2**64 and not (supply == Decimal("2.5") and decimals == 0)
        record = self.take(
            "launch",
            way,
            lambda o, w, a: o.launch_token(
                w, a, name="Coin", symbol="COIN", decimals=decimals, initial_supply=supply
            ),
            fits and decimals < 10,
        )
        return multiple() if record is None else (way.who, record.details["mint"])

    @rule(way=WAYS, mint=mints, mine=MINE, amount=st.one_of(st.integers(1, 10**9).map(Amount),
          NO_AMOUNTS), decimals=st.sampled_from([None, None, 4]))  # fmt: skip
    def mint(self, way: Way, mint: Owned, mine: bool, amount: Amount, decimals: Any) -> None:
        agrees = decimals is None or decimals == self.world.books.decimals[mint[1]]
        self.take(
            "mint",
            by(way, mint, mine),
            lambda o, w, a: o.mint_supply(
                w, a, mint=mint[1], amount=amount.value, decimals=decimals
            ),
            amount.valid and mine and agrees,
        )

    @rule(way=WAYS, mint=mints, mine=MINE, share=SHARES)
    def burn(self, way: Way, mint: Owned, mine: bool, share: int) -> None:
        self._burn(by(way, mint, mine), mint[1], share)

    @rule(way=WAYS, mint=st.sampled_from([USDC, BONK, WRAPPED_SOL_MINT]), share=SHARES)
    def burn_bought(self, way: Way, mint: str, share: int) -> None:
        self._burn(way, mint, share)

    def _burn(self, way: Way, mint: str, share: int) -> None:
        units = max(1, self.units(way.who, mint, share))
        amount = Decimal(units).scaleb(-self.world.books.decimals[mint])
        valid = units <= self.units(way.who, mint, 1000) and mint != WRAPPED_SOL_MINT
        self.take("burn", way, lambda o, w, a: o.burn(w, a, mint=mint, amount=amount), valid)

    @rule(way=WAYS, mint=mints, mine=MINE, kind=st.sampled_from(["mint", "freeze", "owner"]))
    def revoke(self, way: Way, mint: Owned, mine: bool, kind: str) -> None:
        self.take(
            "revoke",
            by(way, mint, mine),
            lambda o, w, a: o.revoke_authority(w, a, mint=mint[1], authority_type=kind),
            mine and kind != "owner",
        )

    @rule(way=WAYS, mint=mints, mine=MINE)
    def close(self, way: Way, mint: Owned, mine: bool) -> None:
        self._close(by(way, mint, mine), mint[1])

    @rule(way=WAYS, mint=st.sampled_from([USDC, BONK, WRAPPED_SOL_MINT]))
    def close_bought(self, way: Way, mint: str) -> None:
        self._close(way, mint)

    def _close(self, way: Way, mint: str) -> None:
        empty = self.units(way.who, mint, 1000) == 0
        self.take("close", way, lambda o, w, a: o.close_account(w, a, mint=mint), empty)

    @rule(way=WAYS, amount=SOL_AMOUNTS)
    def wrap(self, way: Way, amount: Amount) -> None:
        self.take("wrap", way, lambda o, w, a: o.wrap_sol(w, a, amount=amount.value), amount.valid)

    @rule(way=WAYS)
    def unwrap(self, way: Way) -> None:
        held = self.units(way.who, WRAPPED_SOL_MINT, 1000)
        self.take("unwrap", way, lambda o, w, a: o.unwrap_sol(w, a), held > 0)

    @rule(target=stakes, way=WAYS, amount=STAKED,
          validator=st.sampled_from([None, None, None, STRANGERS[0]]))  # fmt: skip
    def stake(self, way: Way, amount: Amount, validator: str | None) -> Any:
        record = self.take(
            "stake",
            way,
            lambda o, w, a: o.stake(w, a, amount=amount.value, validator=validator),
            amount.valid and validator is None and amount.value > 1,
        )
        return multiple() if record is None else (way.who, record.details["stakeAccount"])

    @rule(way=WAYS, stake=stakes, mine=MINE)
    def unstake(self, way: Way, stake: Owned, mine: bool) -> None:
        self.take(
            "unstake",
            by(way, stake, mine),
            lambda o, w, a: o.unstake(w, a, stake_account=stake[1]),
            mine,
        )

    @rule(way=WAYS, stake=stakes, mine=MINE)
    def withdraw(self, way: Way, stake: Owned, mine: bool) -> None:
        self.take(
            "withdraw",
            by(way, stake, mine),
            lambda o, w, a: o.withdraw_stake(w, a, stake_account=stake[1]),
            mine,
        )

    @rule(epochs=st.integers(1, 2))
    def pass_epochs(self, epochs: int) -> None:
        self.runner.run(self.world.bench.localnet.advance_epochs(epochs))

    @rule()
    def refill(self) -> None:
        self.runner.run(self.world.refill())

    @precondition(lambda self: self.world.asked is not None)
    @rule()
    def ask_again(self) -> None:
        self.runner.run(self.world.ask_again())

    @invariant()
    def books_balance(self) -> None:
        self.runner.run(self.world.check())

    def teardown(self) -> None:
        try:
            self.runner.run(self.stack.aclose())
        finally:
            self.runner.close()
            shutil.rmtree(self.home)

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
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from solders.keypair import Keypair
from tests.operations.conservation.support import SOL, Call, Limits, Way, World, open_world
from tests.operations.conservation.weather import WEATHERS
from tests.support.swaps import BONK, USDC

from solward.solana.programs import WRAPPED_SOL_MINT
from solward.types.record import TransactionRecord
from solward.vault.guardrails.rules import ScopeLimits

STRANGERS = [str(Keypair.from_seed(bytes([number] * 32)).pubkey()) for number in (1, 2)]
BLOCKED = str(Keypair.from_seed(bytes([3] * 32)).pubkey())

WIDE = Limits()
SMALL = Limits(
    ScopeLimits(
        max_lamports_per_tx=3 * SOL // 2,
        daily_lamports=6 * SOL,
        daily_tokens={USDC: 50 * 10**6, BONK: 10**12},
    ),
    ScopeLimits(max_lamports_per_tx=SOL, daily_lamports=5 * SOL),
)
FEW = Limits(ScopeLimits(max_tx_per_minute=20), ScopeLimits(max_tx_per_minute=5))


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
    lamports(1_000_000, SOL),
    lamports(10**8, 2 * SOL),
    lamports(10**8, SOL),
    st.sampled_from([Amount(1), Amount(2), Amount(Decimal("0.00089088")), Amount(100)]),
    lamports(1, 1_000_000),
    NO_AMOUNTS,
)
STAKED = st.one_of(
    lamports(SOL + 2_282_880, 2 * SOL),
    lamports(SOL + 2_282_880, 3 * SOL // 2),
    st.sampled_from([Amount(2), Amount(1)]),
    NO_AMOUNTS,
)
SUPPLIES = st.sampled_from([1, 1, 1000, 10**6, Decimal("2.5"), 2**64])
MINTED = st.one_of(st.integers(1, 10**9).map(Amount), st.integers(1, 9).map(Amount), NO_AMOUNTS)
# Thousandths of what the wallet holds.
SHARES = st.sampled_from([1, 300, 500, 1000, 1000, 1000, 1500])
PAIRS = st.sampled_from(
    [
        ("SOL", "USDC"), ("SOL", BONK), ("USDC", "SOL"), (BONK, "SOL"), ("USDC", "BONK"),
        ("BONK", USDC), ("SOL", USDC), ("USDC", "SOL"), ("SOL", "SOL"), ("SOL", "NOPE"),
    ]
)  # fmt: skip
RECEIVERS = st.sampled_from(["self", "other", *STRANGERS, BLOCKED])
WAYS = st.builds(
    Way,
    st.integers(0, 1),
    st.sampled_from(["admin"] * 3 + ["key"] * 3 + ["dry"]),
    st.sampled_from(["calm"] * 12 + list(WEATHERS)),
)
MINE = st.sampled_from([True] * 7 + [False])
# Which of what there is, counted round.
WHICH = st.integers(0, 7)
TENTH = Amount(Decimal("0.1"))

# A mint or a stake: the index of its wallet, and its address.
Owned = tuple[int, str]


def by(way: Way, owned: Owned, mine: bool) -> Way:
    """The way, by the owner of something or by the other wallet."""
    return Way(owned[0] if mine else 1 - owned[0], way.caller, way.weather)


class Purse(RuleBasedStateMachine):
    """Two wallets that do whatever wallets can do."""

    def __init__(self, home: Path, counts: Counter[tuple[str, str]]) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(dir=home))
        self.counts = counts
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.world: World
        self.mints: list[Owned] = []
        self.stakes: list[Owned] = []

    @initialize(
        limits=st.sampled_from([WIDE, WIDE, WIDE, SMALL, FEW]),
        furnished=st.sampled_from([True, True, True, False]),
    )
    def open(self, limits: Limits, furnished: bool) -> None:
        opened = open_world(self.home, limits, BLOCKED, self.counts)
        self.world = self.runner.run(self.stack.enter_async_context(opened))
        if furnished:
            self.furnish()

    def furnish(self) -> None:
        """Let both wallets have something of everything; none of it counts as a step."""
        counts = self.counts.copy()
        for way in (Way(0), Way(1)):
            self.launch(way=way, decimals=2, supply=10)
            for pair in (("SOL", "USDC"), ("SOL", "BONK")):
                self.swap(way=way, pair=pair, amount=TENTH, share=1000, slippage=50)
            self.burn(way=way, mint=BONK, share=1000)
            self.wrap(way=way, amount=TENTH)
            for _ in range(2):
                self.stake(way=way, amount=Amount(Decimal("1.1")), validator=None)
        self.pass_epochs(epochs=1)
        for which in (0, 2):
            self.unstake(way=Way(0), which=which, mine=True)
        self.pass_epochs(epochs=1)
        self.counts.clear()
        self.counts.update(counts)

    def take(self, kind: str, way: Way, call: Call, valid: bool = True) -> TransactionRecord | None:
        return self.runner.run(self.world.take(kind, way, call, valid=valid))

    def units(self, who: int, mint: str, share: int) -> int:
        return self.runner.run(self.world.held(who)).get(mint, 0) * share // 1000

    @rule(way=WAYS, amount=SOL_AMOUNTS)
    def airdrop(self, way: Way, amount: Amount) -> None:
        valid = amount.valid and amount.value <= 2
        self.take(
            "airdrop",
            way,
            lambda o, w, a: o.perform("airdrop", w, a, {"amount": amount.value}),
            valid,
        )

    @rule(way=WAYS, amount=SOL_AMOUNTS, to=RECEIVERS)
    def transfer(self, way: Way, amount: Amount, to: str) -> None:
        ours = {"self": way.who, "other": 1 - way.who}
        target = self.world.wallets[ours[to]].address if to in ours else to
        self.take(
            "transfer",
            way,
            lambda o, w, a: o.perform("transfer", w, a, {"to": target, "amount": amount.value}),
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
            lambda o, w, a: o.perform(
                "swap",
                w,
                a,
                {
                    "inputToken": source,
                    "outputToken": target,
                    "amount": value,
                    "slippageBps": slippage,
                },
            ),
            valid and source != target != "NOPE",
        )

    @rule(way=WAYS, decimals=st.integers(0, 10), supply=SUPPLIES)
    def launch(self, way: Way, decimals: int, supply: Any) -> None:
        fits = supply != 2**64 and not (supply == Decimal("2.5") and decimals == 0)
        record = self.take(
            "launch",
            way,
            lambda o, w, a: o.perform(
                "launch_token",
                w,
                a,
                {"name": "Coin", "symbol": "COIN", "decimals": decimals, "initialSupply": supply},
            ),
            fits and decimals < 10,
        )
        if record is not None:
            self.mints.append((way.who, record.details["mint"]))

    @precondition(lambda self: self.mints)
    @rule(
        way=WAYS, which=WHICH, mine=MINE, amount=MINTED, decimals=st.sampled_from([None, None, 2])
    )
    def mint(self, way: Way, which: int, mine: bool, amount: Amount, decimals: Any) -> None:
        owned = self.mints[which % len(self.mints)]
        agrees = decimals is None or decimals == self.world.books.decimals[owned[1]]
        self.take(
            "mint",
            by(way, owned, mine),
            lambda o, w, a: o.perform(
                "mint_supply",
                w,
                a,
                {"mint": owned[1], "amount": amount.value, "decimals": decimals},
            ),
            amount.valid and mine and agrees,
        )

    @precondition(lambda self: self.mints)
    @rule(way=WAYS, which=WHICH, mine=MINE, share=SHARES)
    def burn_launched(self, way: Way, which: int, mine: bool, share: int) -> None:
        owned = self.mints[which % len(self.mints)]
        self.burn(by(way, owned, mine), owned[1], share)

    @rule(way=WAYS, mint=st.sampled_from([USDC, BONK, USDC, BONK, WRAPPED_SOL_MINT]), share=SHARES)
    def burn(self, way: Way, mint: str, share: int) -> None:
        units = max(1, self.units(way.who, mint, share))
        amount = Decimal(units).scaleb(-self.world.books.decimals[mint])
        valid = units <= self.units(way.who, mint, 1000) and mint != WRAPPED_SOL_MINT
        self.take(
            "burn",
            way,
            lambda o, w, a: o.perform("burn", w, a, {"mint": mint, "amount": amount}),
            valid,
        )

    @precondition(lambda self: self.mints)
    @rule(way=WAYS, which=WHICH, mine=MINE, share=SHARES, to=RECEIVERS)
    def send_launched(self, way: Way, which: int, mine: bool, share: int, to: str) -> None:
        owned = self.mints[which % len(self.mints)]
        self.send(by(way, owned, mine), owned[1], share, to)

    @rule(way=WAYS, mint=st.sampled_from([USDC, BONK, USDC, WRAPPED_SOL_MINT]), share=SHARES,
          to=RECEIVERS)  # fmt: skip
    def send(self, way: Way, mint: str, share: int, to: str) -> None:
        ours = {"self": way.who, "other": 1 - way.who}
        target = self.world.wallets[ours[to]].address if to in ours else to
        units = max(1, self.units(way.who, mint, share))
        amount = Decimal(units).scaleb(-self.world.books.decimals[mint])
        valid = units <= self.units(way.who, mint, 1000) and mint != WRAPPED_SOL_MINT
        self.take(
            "send",
            way,
            lambda o, w, a: o.perform(
                "transfer_token", w, a, {"mint": mint, "to": target, "amount": amount}
            ),
            valid and to != "self",
        )

    @precondition(lambda self: self.mints)
    @rule(way=WAYS, which=WHICH, mine=MINE, kind=st.sampled_from(["mint", "freeze", "owner"]))
    def revoke(self, way: Way, which: int, mine: bool, kind: str) -> None:
        owned = self.mints[which % len(self.mints)]
        self.take(
            "revoke",
            by(way, owned, mine),
            lambda o, w, a: o.perform(
                "revoke_authority", w, a, {"mint": owned[1], "authorityType": kind}
            ),
            mine and kind != "owner",
        )

    @rule(way=WAYS, which=WHICH)
    def close_empty(self, way: Way, which: int) -> None:
        """Close an empty account, where there is one."""
        held = self.runner.run(self.world.held(way.who))
        mints = [mint for mint, units in held.items() if units == 0] or list(held) or [USDC]
        self.close(way, mints[which % len(mints)])

    @rule(way=WAYS, mint=st.sampled_from([USDC, BONK, WRAPPED_SOL_MINT]))
    def close(self, way: Way, mint: str) -> None:
        empty = self.units(way.who, mint, 1000) == 0
        self.take(
            "close", way, lambda o, w, a: o.perform("close_account", w, a, {"mint": mint}), empty
        )

    @rule(way=WAYS, amount=SOL_AMOUNTS)
    def wrap(self, way: Way, amount: Amount) -> None:
        self.take(
            "wrap",
            way,
            lambda o, w, a: o.perform("wrap_sol", w, a, {"amount": amount.value}),
            amount.valid,
        )

    @rule(way=WAYS)
    def unwrap(self, way: Way) -> None:
        held = self.units(way.who, WRAPPED_SOL_MINT, 1000)
        self.take("unwrap", way, lambda o, w, a: o.perform("unwrap_sol", w, a, {}), held > 0)

    @rule(way=WAYS, amount=STAKED, validator=st.sampled_from([None] * 7 + [STRANGERS[0]]))
    def stake(self, way: Way, amount: Amount, validator: str | None) -> None:
        record = self.take(
            "stake",
            way,
            lambda o, w, a: o.perform(
                "stake", w, a, {"amount": amount.value, "validator": validator}
            ),
            amount.valid and validator is None and amount.value > 1,
        )
        if record is not None:
            self.stakes.append((way.who, record.details["stakeAccount"]))

    @precondition(lambda self: self.stakes)
    @rule(way=WAYS, which=WHICH, mine=MINE)
    def unstake(self, way: Way, which: int, mine: bool) -> None:
        stake = self.stakes[which % len(self.stakes)]
        self.take(
            "unstake",
            by(way, stake, mine),
            lambda o, w, a: o.perform("unstake", w, a, {"stakeAccount": stake[1]}),
            mine,
        )

    @precondition(lambda self: self.stakes)
    @rule(way=WAYS, which=WHICH, mine=MINE)
    def withdraw(self, way: Way, which: int, mine: bool) -> None:
        stake = self.stakes[which % len(self.stakes)]
        self.take(
            "withdraw",
            by(way, stake, mine),
            lambda o, w, a: o.perform("withdraw_stake", w, a, {"stakeAccount": stake[1]}),
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

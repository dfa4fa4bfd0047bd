"""Two managed wallets on a real engine, market and database, stepped and checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from tests.operations.conservation.books import PAYS_RENT, Books, Fact, Told, told
from tests.operations.conservation.ledger import Landed, Watch, check_supply, holdings, rent_of
from tests.operations.conservation.weather import weather
from tests.support.engine import UNLIMITED, Bench
from tests.support.swaps import BONK, USDC, SwapBench, open_swaps
from tests.support.tokens import TokenBench

from solward.operations.perform import Operations
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.types.errors import GuardrailBlocked, InvalidRequest, TransactionFailed
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.custody import Wallet
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.money.outcomes import TrialEnded
from solward.vault.money.request import Actor

SOL = 1_000_000_000
KEY = "key:shared"

Call = Callable[[Operations, str, Actor], Awaitable[TransactionRecord]]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of each wallet, and of the key both are used with."""

    wallet: ScopeLimits = UNLIMITED
    key: ScopeLimits = UNLIMITED


@dataclass(frozen=True, slots=True)
class Way:
    """How an operation is asked for: by which wallet, by whom, and what the ledger does to it.

    Attributes:
        caller: `admin`, `key`, or `dry` for a dry run.
        weather: see `weather`.
    """

    who: int
    caller: str = "admin"
    weather: str = "calm"


@dataclass(frozen=True, slots=True)
class Asked:
    """An operation that left a record."""

    kind: str
    way: Way
    call: Call
    actor: Actor
    record_id: str


@dataclass
class World:
    """The bench and what is known of it.

    Attributes:
        counts: (operation, outcome) -> steps; an outcome is a record's status, `invalid` or `dry`.
    """

    swaps: SwapBench
    wallets: tuple[Wallet, Wallet]
    stranger: Keypair
    watch: Watch
    books: Books
    limits: Limits
    counts: Counter[tuple[str, str]]
    asked: Asked | None = None
    steps: int = 0

    @property
    def bench(self) -> Bench:
        return self.swaps.bench

    async def take(
        self, kind: str, way: Way, call: Call, *, valid: bool = True
    ) -> TransactionRecord | None:
        """Ask for an operation and check all it did; its record when it is confirmed.

        Args:
            valid: False where it must be refused as bad input.
        """
        self.steps += 1
        actor = Actor(
            "admin" if way.caller == "admin" else KEY,
            limits=() if way.caller == "admin" else ((KEY, self.limits.key),),
            action_key=f"step {self.steps}",
            dry_run=way.caller == "dry",
        )
        outcome, record = await self._step(way, call, actor)
        assert valid or outcome == "invalid", f"{kind}: bad input was {outcome}"
        self.counts[kind, outcome] += 1
        if record is None:
            return None
        self.asked = Asked(kind, way, call, actor, record.id)
        return record if outcome == "confirmed" else None

    async def ask_again(self) -> None:
        """Repeat the last operation with its action key: the same answer, and nothing moves."""
        assert self.asked is not None
        asked = self.asked
        _outcome, record = await self._step(asked.way, asked.call, asked.actor, known=True)
        assert record is not None
        assert record.id == asked.record_id, f"{asked.kind} was taken twice"
        self.counts["ask again", "confirmed"] += 1

    async def check(self) -> None:
        """What holds between any two steps."""
        await self.books.check(self.bench)
        for mint in self.books.decimals:
            await check_supply(self.bench, mint)

    async def held(self, who: int) -> dict[str, int]:
        """mint -> units a wallet holds, of every account that is open."""
        return await holdings(self.bench, self.wallets[who].address)

    async def _step(
        self, way: Way, call: Call, actor: Actor, *, known: bool = False
    ) -> tuple[str, TransactionRecord | None]:
        before, stored = await self._held(), await self._records()
        with weather(way.weather, self.swaps, self.wallets[way.who], self.stranger):
            outcome, record = await _outcome(
                call(self.swaps.operations(), self.wallets[way.who].id, actor)
            )
        landed = await self.watch.check(self.bench)
        after = await self._held()
        new = [each for each in await self._records() if each not in stored]
        if record is None or known:
            assert not new, f"{outcome} left a record"
            assert not landed, f"{outcome} sent something"
            assert before == after, f"{outcome} moved something"
            return outcome, record
        assert len(new) == 1, f"{outcome} left {len(new)} records"
        (kept,) = new
        assert outcome == kept.status.value
        assert kept == record, "the answer is not what was stored"
        assert record.wallet_id == self.wallets[way.who].id
        await self._agree(way, record, landed, before, after)
        return outcome, record

    async def _agree(
        self,
        way: Way,
        record: TransactionRecord,
        landed: Sequence[Landed],
        before: Sequence[tuple[int, dict[str, int]]],
        after: Sequence[tuple[int, dict[str, int]]],
    ) -> None:
        """Both wallets changed by what the record says, and by what the owner did by hand."""
        own = [each for each in landed if each.signature == record.signature]
        by_owner = [each for each in landed if each not in own]
        assert len(own) <= 1
        assert way.weather == "overtaken" or not by_owner, "something else landed"
        address = self.wallets[way.who].address
        fact = Fact(address, own[0] if own else None)
        said = Told()
        if record.status is TransactionStatus.CONFIRMED:
            assert own, "confirmed, and not on the ledger"
            if record.type == "token_launch":
                self.books.decimals[record.details["mint"]] = record.details["decimals"]
            said = told(record, self.books.decimals)
            if record.type in PAYS_RENT:
                fact = replace(fact, rent=await rent_of(self.bench, own[0]))
            if said.other is not None:
                assert own[0].change(said.other[0]) == said.other[1], record.type
        self.books.facts[record.id] = fact
        for who, wallet in enumerate(self.wallets):
            lamports = sum(each.change(wallet.address) for each in by_owner)
            tokens: dict[str, int] = {}
            if who == way.who:
                lamports += said.lamports - fact.fee - fact.rent
                tokens = dict(said.tokens)
            elif said.other is not None and said.other[0] == wallet.address:
                lamports += said.other[1]
            elif said.receiver == wallet.address:
                tokens = {mint: -units for mint, units in said.tokens.items()}
            assert after[who][0] - before[who][0] == lamports, f"{record.type}: {record.details}"
            assert _grown(before[who][1], after[who][1]) == tokens, record.type

    async def _held(self) -> list[tuple[int, dict[str, int]]]:
        return [
            (await self.bench.lamports(each.address), await holdings(self.bench, each.address))
            for each in self.wallets
        ]

    async def _records(self) -> list[TransactionRecord]:
        return [
            record
            for wallet in self.wallets
            for record in await replace(self.bench, wallet=wallet).history()
        ]

    async def refill(self) -> None:
        """The stranger gives wallets that have little what they spent by hand."""
        for wallet in self.wallets:
            if await self.bench.lamports(wallet.address) < SOL:
                pay = TransferParams(
                    from_pubkey=self.stranger.pubkey(),
                    to_pubkey=Pubkey.from_string(wallet.address),
                    lamports=5 * SOL,
                )
                # On a blockhash of its own, for it may have given the same before.
                await self.bench.localnet.advance_slots(1)
                await TokenBench(self.bench, self.stranger).land([transfer(pay)])
        await self.watch.check(self.bench)


async def _outcome(
    asked: Awaitable[TransactionRecord],
) -> tuple[str, TransactionRecord | None]:
    try:
        record = await asked
    except InvalidRequest:
        return "invalid", None
    except TrialEnded:
        return "dry", None
    except GuardrailBlocked as error:
        return "blocked", error.record
    except TransactionFailed as error:
        return "failed", error.record
    assert record.status is TransactionStatus.CONFIRMED
    return record.status.value, record


def _grown(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    change = {m: after.get(m, 0) - before.get(m, 0) for m in before.keys() | after.keys()}
    return {mint: units for mint, units in change.items() if units}


@asynccontextmanager
async def open_world(
    home: Path, limits: Limits, blocked: str, counts: Counter[tuple[str, str]]
) -> AsyncIterator[World]:
    """Open everything; each wallet holds 10 SOL, and a stranger 1,000."""
    options: Any = {"limits": limits.wallet, "blocked": frozenset({blocked})}
    async with open_swaps(home, **options) as swaps:
        bench = swaps.bench
        # Nobody waits for a slot, so that bytes that were lost are dead at once.
        bench.engine.sender.pace, bench.engine.sender.resend_slots = 0.0125, 0
        wallets = (bench.wallet, await bench.wallets.create("other"))
        stranger = Keypair()
        for address, sol in ((wallets[1].address, 10), (str(stranger.pubkey()), 1000)):
            await bench.localnet.call("requestAirdrop", [address, sol * SOL])
        watch = Watch()
        unsubscribe = bench.localnet.subscribe(watch)
        books = Books(
            {f"wallet:{each.id}": limits.wallet for each in wallets} | {KEY: limits.key},
            {USDC: 6, BONK: 5, WRAPPED_SOL_MINT: 9},
        )
        yield World(swaps, wallets, stranger, watch, books, limits, counts)
        unsubscribe()

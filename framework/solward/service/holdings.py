"""Holdings of wallets, for people and models: balances, their value in dollars, and stakes.

`Display` answers simultaneous callers with one read, and reuses a read for at most a slot. No
decision about money uses it: the import contracts exclude it from transactions, guardrails,
operations and plugins.

A read is reused only while this process knows of no later change of the ledger (`Ledger.changes`),
so nobody who knows of a confirmed transaction gets the state before it. Changes by others appear
after a slot at the latest.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Generic, TypeAlias, TypeGuard, TypeVar

from solward.database.database import Database
from solward.operations.staking import recorded_stakes
from solward.solana.balances import Balances, balances_of
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.stakes import Stake, read_stakes
from solward.solana.token_list import TokenList
from solward.solana.tokens import token_account
from solward.support.tasks import end
from solward.types.errors import LedgerError, LedgerRejected, LedgerUnavailable
from solward.types.guardrail import SOL
from solward.types.ledger import Account, TokenHolding
from solward.types.money import SOL_DECIMALS
from solward.vault.custody import Wallets
from solward.vault.grants.dollars import NOT_ASKED, AssetPrice, NoPrice, micro_dollars
from solward.vault.ledger.answers import MalformedAnswer
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.patience import READ_WAIT_S, seconds_left, within
from solward.vault.money.judge.prices import Prices

# The longest delay until `Display.observed` shows a token account that a stranger opened. Listing
# a wallet's token accounts takes two calls for each wallet; reading known ones takes one for a
# hundred accounts of any wallets. With 5 s these lists were still two thirds of a call for each
# cycle of a thousand agents (benchmarks/scale.py).
LISTED_S: Final = 15.0
# For this long, a node that is behind does not replace a newer state that was returned.
BEHIND_S: Final = 5.0
# The health route must answer within a second, even without the ledger.
HEALTH_WAIT_S: Final = 0.7
# The maximum number of cached wallets; the least recently requested is dropped first.
MOST_KEPT: Final = 10_000
# The maximum number of wallets whose token accounts are listed simultaneously.
_LISTINGS: Final = 32
# The maximum token accounts of a wallet that are read with other wallets': those of one call. A
# wallet with more, maybe opened by strangers, is listed alone: others need not wait.
_SHARED: Final = 100
# Errors that one of several wallets read together may have caused.
_PER_WALLET_ERRORS: Final = (LedgerRejected, MalformedAnswer)
_STOPS: Final = "The service is stopping and reads the ledger no more"

T = TypeVar("T")

_Accounts: TypeAlias = tuple[int, Mapping[str, Account | None]]
"""The slot at which accounts were read, and the accounts by address."""

_AccountRequest: TypeAlias = tuple[Sequence[str], asyncio.Future[_Accounts]]
"""The addresses of the accounts that a caller requests, and the future of the result."""


@dataclass(frozen=True, slots=True)
class WalletSnapshot:
    """A wallet's holdings at a slot, for display.

    Attributes:
        lamports: the balance of the wallet's own account, 0 if it does not exist.
        holdings: its token accounts under both token programs, empty ones included.
        slot: the slot at which these were read.
    """

    lamports: int
    holdings: tuple[TokenHolding, ...]
    slot: int


@dataclass(slots=True)
class _SharedRead(Generic[T]):
    """A running or finished read whose result several callers share.

    Attributes:
        changes: the ledger's count of changes when the read began.
        asked_at: the moment when it began, in monotonic seconds.
    """

    task: asyncio.Task[T]
    changes: int
    asked_at: float


@dataclass(frozen=True, slots=True)
class _Listing:
    """A wallet's list of token accounts, valid while `lamports` and `mark` do not change."""

    lamports: int
    mark: Hashable
    holdings: tuple[TokenHolding, ...]
    listed_at: float


class Display:
    """Reads one ledger for display; simultaneous callers share one read.

    All callers that wait for a read get its error, and later callers do not. If a caller stops
    waiting, the read continues for the others.
    """

    def __init__(
        self,
        ledger: Ledger,
        network: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a display; `clock` gives monotonic seconds."""
        self._ledger = ledger
        self._network = network
        self._clock = clock
        self._exact: OrderedDict[str, _SharedRead[WalletSnapshot]] = OrderedDict()
        # Each wallet's newest returned state, and the time it was read.
        self._newest: OrderedDict[str, tuple[float, WalletSnapshot]] = OrderedDict()
        self._listings: OrderedDict[str, _Listing] = OrderedDict()
        self._listing = asyncio.Semaphore(_LISTINGS)
        self._slot: _SharedRead[int] | None = None
        # The accounts that simultaneous callers request, and the call that reads them.
        self._wanted: list[_AccountRequest] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    async def wallet(self, address: str) -> WalletSnapshot:
        """Return a wallet's holdings.

        Raises:
            LedgerError: the ledger did not answer within the caller's deadline.
        """
        found = self._exact.get(address)
        if not self._is_fresh(found) or found.changes != self._ledger.changes:
            found = self._exact[address] = self._start_read(partial(self._read_wallet, address))
        _mark_used(self._exact, address)
        return await _await_read(found.task)

    async def observed(self, address: str, mark: Hashable = None) -> WalletSnapshot:
        """Return a wallet's holdings, for callers that often request many wallets.

        Wallets asked for in one moment are read in one call for each hundred accounts, always anew.
        A token account that the wallet pays for shows at once, any other within `LISTED_S`.

        Args:
            mark: changes with the wallet's own transactions, even those that another process
                confirms, so that these appear at once too.

        Raises:
            LedgerError: see `wallet`.
        """
        began = self._clock()
        listing = self._listings.get(address)
        if listing is not None and (listing.mark != mark or began - listing.listed_at > LISTED_S):
            listing = None
        known = () if listing is None else listing.holdings
        try:
            slot, accounts = await self._read_accounts([address, *(each.account for each in known)])
        except _PER_WALLET_ERRORS:
            # The next caller lists the accounts again: one of these may be no account.
            self._listings.pop(address, None)
            raise
        lamports = _lamports(accounts[address])
        holdings = None
        # Whoever opens a token account pays for it: with the lamports of then, it opened none.
        if listing is not None and listing.lamports == lamports:
            holdings = _update_units(address, known, accounts)
        if holdings is None:
            # After the lamports were read: what is opened in between changes them, and counts then.
            async with self._listing:
                listed_at = self._clock()
                holdings = await self._ledger.holdings(address)
            self._listings.pop(address, None)
            if len(holdings) <= _SHARED:
                self._listings[address] = _Listing(lamports, mark, holdings, listed_at)
        if address in self._listings:
            _mark_used(self._listings, address)
        return self._keep_newer(address, WalletSnapshot(lamports, holdings, slot), began)

    async def slot(self) -> int:
        """Return the current slot, read at most one slot ago.

        Raises:
            LedgerError: see `wallet`.
        """
        kept = self._slot
        if not self._is_fresh(kept):
            kept = self._slot = self._start_read(self._ledger.slot)
        return await _await_read(kept.task)

    async def health(self) -> dict[str, Any]:
        """Return `{healthy, network, slot}` of the ledger within `HEALTH_WAIT_S`."""
        slot = None
        with contextlib.suppress(LedgerError, TimeoutError):
            async with asyncio.timeout(HEALTH_WAIT_S):
                slot = await self.slot()
        return {"healthy": slot is not None, "network": self._network, "slot": slot or 0}

    async def close(self) -> None:
        """Stop all reads; their callers get an error."""
        await end(self._tasks)
        # This read was stopped before it began.
        _fail_requests(self._wanted, LedgerUnavailable(_STOPS))

    def _is_fresh(self, kept: _SharedRead[T] | None) -> TypeGuard[_SharedRead[T]]:
        """Return whether a read is at most a slot old and has not failed."""
        if kept is None or self._clock() - kept.asked_at > self._ledger.slot_s:
            return False
        task = kept.task
        return not task.done() or (not task.cancelled() and task.exception() is None)

    def _start_read(self, work: Callable[[], Awaitable[T]]) -> _SharedRead[T]:
        """Start a read with its own deadline and context, so that it outlives each caller."""

        async def bounded() -> T:
            with within(READ_WAIT_S, own=True):
                return await work()

        changes, now = self._ledger.changes, self._clock()
        task = asyncio.create_task(bounded(), context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._forget_task)
        return _SharedRead(task, changes, now)

    def _forget_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Retrieve the error: asyncio logs one that no caller has read.
            task.exception()

    async def _read_wallet(self, address: str) -> WalletSnapshot:
        began = self._clock()
        (slot, accounts), holdings = await asyncio.gather(
            self._read_accounts([address]), self._ledger.holdings(address)
        )
        lamports = _lamports(accounts[address])
        return self._keep_newer(address, WalletSnapshot(lamports, holdings, slot), began)

    def _keep_newer(self, address: str, found: WalletSnapshot, began: float) -> WalletSnapshot:
        """Return the newer of this snapshot and the previously returned one."""
        before = self._newest.get(address)
        if before is not None and before[1].slot > found.slot and began - before[0] <= BEHIND_S:
            return before[1]
        self._newest[address] = began, found
        _mark_used(self._newest, address)
        return found

    async def _read_accounts(self, addresses: Sequence[str]) -> _Accounts:
        """Return the accounts and their slot, from a read shared with simultaneous callers."""
        if not self._wanted:
            self._start_read(self._read_requested)
        answer: asyncio.Future[_Accounts] = asyncio.get_running_loop().create_future()
        self._wanted.append((addresses, answer))
        return await answer

    async def _read_requested(self) -> None:
        wanted = self._wanted
        try:
            # Whoever is ready to run now asks before this goes on.
            await asyncio.sleep(0)
            self._wanted = []
            await self._answer_all(wanted)
        except asyncio.CancelledError:
            _fail_requests(wanted, LedgerUnavailable(_STOPS))
            raise

    async def _answer_all(self, wanted: Sequence[_AccountRequest]) -> None:
        """Read the accounts of all callers at once. If that is refused or malformed, read each half
        alone, so that an error for one wallet does not affect the others."""
        addresses = dict.fromkeys(each for some, _future in wanted for each in some)
        try:
            found = await self._ledger.accounts_at(list(addresses))
        except _PER_WALLET_ERRORS as error:
            half = len(wanted) // 2
            if not half:
                _fail_requests(wanted, error)
                return
            await asyncio.gather(self._answer_all(wanted[:half]), self._answer_all(wanted[half:]))
        except Exception as error:
            _fail_requests(wanted, error)
        else:
            for _addresses, answer in wanted:
                if not answer.done():
                    answer.set_result(found)


def _fail_requests(wanted: Sequence[_AccountRequest], error: Exception) -> None:
    for _addresses, answer in wanted:
        if not answer.done():
            answer.set_exception(error)


async def _await_read(task: asyncio.Task[T]) -> T:
    """Wait for a shared read until the caller's deadline, and return its result."""
    if task.done() and not task.cancelled():
        return task.result()
    try:
        async with asyncio.timeout(seconds_left(READ_WAIT_S)):
            return await asyncio.shield(task)
    except TimeoutError:
        raise LedgerUnavailable("The ledger did not answer in time") from None
    except asyncio.CancelledError:
        caller = asyncio.current_task()
        if not task.cancelled() or (caller is not None and caller.cancelling()):
            raise
        raise LedgerUnavailable(_STOPS) from None


def _mark_used(kept: OrderedDict[str, Any], address: str) -> None:
    """Mark an entry as used, and drop the least recently used if there are too many."""
    kept.move_to_end(address)
    if len(kept) > MOST_KEPT:
        kept.popitem(last=False)


def _lamports(account: Account | None) -> int:
    return 0 if account is None else account.lamports


def _update_units(
    owner: str, known: Sequence[TokenHolding], accounts: Mapping[str, Account | None]
) -> tuple[TokenHolding, ...] | None:
    """Return the holdings with their current units; None if an account has changed its role."""
    found = []
    for holding in known:
        account = accounts[holding.account]
        state = token_account(account)
        if (
            account is None
            or state is None
            or account.owner != holding.program
            or state.owner != owner
            or state.mint != holding.mint
        ):
            return None
        found.append(replace(holding, units=state.amount))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Worth:
    """The value of holdings, for people.

    Attributes:
        micro_dollars: asset -> micro-dollars, for assets with a price.
        unpriced: asset -> why it has no price.
    """

    micro_dollars: Mapping[str, int]
    unpriced: Mapping[str, str]

    @property
    def total(self) -> int:
        """The total micro-dollars of all assets with a price."""
        return sum(self.micro_dollars.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """Reads the holdings of wallets.

    Every method that names a wallet raises `WalletNotFound` and `LedgerError`.
    """

    database: Database
    ledger: Ledger
    display: Display
    wallets: Wallets
    tokens: TokenList
    prices: Prices

    async def balances(self, wallet_id: str, *, empty: bool = False) -> Balances:
        """Return a wallet's SOL and tokens; `empty` includes token accounts that hold nothing."""
        wallet = await self.wallets.get(wallet_id)
        with within(READ_WAIT_S):
            return self._balances(await self.display.wallet(wallet.address), empty=empty)

    async def observed(self, wallet_id: str, mark: Hashable) -> Balances:
        """Return the balances of a wallet for an agent's cycle, read by `Display.observed`."""
        wallet = await self.wallets.get(wallet_id)
        with within(READ_WAIT_S):
            return self._balances(await self.display.observed(wallet.address, mark))

    def _balances(self, shown: WalletSnapshot, *, empty: bool = False) -> Balances:
        return balances_of(shown.lamports, shown.holdings, self.tokens, empty=empty)

    async def worth(self, balances: Balances) -> Worth:
        """Return the value of balances in dollars, for assets that the price sources know."""
        holdings = {SOL: (balances.lamports, SOL_DECIMALS)} | {
            token.mint: (token.units, token.decimals) for token in balances.tokens
        }
        return worth(holdings, await self.prices.prices(holdings))

    async def stakes(self, wallet_id: str) -> tuple[tuple[Stake, ...], bool]:
        """Return a wallet's stake accounts, and whether the list is complete. If no RPC provider
        lists stake accounts, the list has those in the wallet's records that still exist."""
        wallet = await self.wallets.get(wallet_id)
        ledger = recorded_stakes(self.ledger, self.database, wallet_id)
        with within(READ_WAIT_S):
            return await read_stakes(ledger, wallet.address), ledger.complete


def worth(
    holdings: Mapping[str, tuple[int, int | None]], prices: Mapping[str, AssetPrice]
) -> Worth:
    """Return the dollar value of each holding, rounded up.

    Args:
        holdings: asset -> smallest units and decimals.
        prices: the prices of all assets of `holdings`; wrapped SOL has that of `SOL`.
    """
    known: dict[str, int] = {}
    unpriced: dict[str, str] = {}
    for asset, (units, decimals) in holdings.items():
        price = prices.get(SOL if asset == WRAPPED_SOL_MINT else asset, NOT_ASKED)
        found = micro_dollars(units, decimals, price)
        if isinstance(found, NoPrice):
            unpriced[asset] = found.reason
        else:
            known[asset] = found
    return Worth(known, unpriced)

"""What a skill holds while it runs: a capability over one wallet, and nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, cast

from msgspec import Meta

from solward.context.operations import OperationMethods
from solward.types.bounds import Address, Addresses, Name, Units, WireBytes
from solward.types.entries import (
    Entry,
    HistoryRequest,
    Put,
    Remember,
    check_page,
    checked_key,
    checked_put,
    checked_remember,
    checked_version,
)
from solward.types.errors import SkillError
from solward.types.guardrail import Intent
from solward.types.manifest import secret_text
from solward.types.payment import PaidAnswer, PayRequest
from solward.types.record import TransactionRecord

if TYPE_CHECKING:
    import httpx
    from solders.instruction import Instruction

    from solward.solana.balances import Balances
    from solward.solana.stakes import Stake
    from solward.solana.token_list import TokenList
    from solward.types.ledger import ReadLedger
    from solward.types.venue import Quote


Build = Callable[[str], Awaitable["bytes | Sequence[Instruction]"]]
"""What a pocket is asked for: an async function of its address; see `SkillContext.pocket`."""

_ELSEWHERE: Final = cast("Build", None)


@dataclass(frozen=True, slots=True)
class OperationRequest:
    """A declared operation, and its fields by their JSON names."""

    operation: Name
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TransactRequest:
    """A transaction that a skill made itself; its wallet is that of the call, whatever it says."""

    intent: Intent
    instructions: Annotated[tuple[Instruction, ...], Meta(max_length=64)]
    wire: WireBytes | None


@dataclass(frozen=True, slots=True)
class PocketRequest:
    """One use of a pocket; see `SkillContext.pocket`. Amounts are smallest units.

    Attributes:
        build: stays where the skill runs: each end of a plugin host's channel has its own.
    """

    build: Build = _ELSEWHERE
    lamports: int = 0
    tokens: Units = field(default_factory=dict)
    returns: Units = field(default_factory=dict)
    mints: Addresses = ()
    program: Address | None = None
    position: Name | None = None
    stays: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)


MoneyRequest = OperationRequest | TransactRequest | PocketRequest | PayRequest


class StoreCalls(Protocol):
    """What a store needs of the service that runs the skill; it knows the plugin and the wallet."""

    async def keep(self, what: str, **asked: Any) -> Any:
        """`get`, `put`, `delete` or `list` entries of the store, or read the `history`."""


class Store:
    """What the plugin keeps for the wallet of the call; shared by the plugins of a distribution.

    No other plugin reads or writes it, nor a call for another wallet. Each call is one transaction
    of the service's database, durable when it returns; in a dry run nothing is stored. To keep what
    a money call did, have the call itself remember it: `context.transfer(..., remember=...)`.

    Each raises `InvalidRequest` for a key, a value or a version that does not fit.
    """

    __slots__ = ("_calls",)

    def __init__(self, calls: StoreCalls) -> None:
        self._calls = calls

    async def get(self, key: str) -> Entry | None:
        """One entry, None where there is none."""
        entry: Entry | None = await self._calls.keep("get", key=checked_key(key))
        return entry

    async def put(self, key: str, value: Any, *, version: int | None = None) -> Entry:
        """Write an entry; returns it with its new version.

        Args:
            version: that it must have now; 0: it must not be there; None: whatever is there.

        Raises:
            SkillError: `store_changed`: it has another version. `store_full`: there would be more
                keys or bytes than the operator allows; names the bound. `store_busy`: the plugin
                wrote too often in this minute; says when it may again.
        """
        put = checked_put(Put(key, value, version))
        entry: Entry = await self._calls.keep(
            "put", key=put.key, value=put.value, version=put.version
        )
        return entry

    async def delete(self, key: str, *, version: int | None = None) -> bool:
        """Delete an entry; returns whether it was there.

        Raises:
            SkillError: `store_changed`: it has another version than `version`.
        """
        was_there: bool = await self._calls.keep(
            "delete", key=checked_key(key), version=checked_version(version)
        )
        return was_there

    async def list(
        self, prefix: str = "", *, after: str | None = None, limit: int = 100
    ) -> tuple[Entry, ...]:
        """Entries whose keys begin with `prefix`, by key in the order of ASCII.

        Args:
            after: only keys that come after this one: the last of the page before.
            limit: 1 to 200.
        """
        check_page(prefix, after, limit)
        entries: tuple[Entry, ...] = await self._calls.keep(
            "list", prefix=prefix, after=after, limit=limit
        )
        return entries


class MoneyCalls(StoreCalls, Protocol):
    """What a context needs of the service that runs the skill; it knows wallet, caller and effects.

    Calls that make a transaction are numbered from 1 in the order the skill makes them, so that a
    repeated run pays each once. All raise `SkillError` once the lifetime has ended, and those that
    make a transaction for a skill that declares READ.

    """

    @property
    def lifetime(self) -> Lifetime:
        """Ends when the call for which the context was made ends."""

    async def money(self, asked: MoneyRequest, ordinal: int, remember: Sequence[Put] = ()) -> Any:
        """Make a transaction; returns its `TransactionRecord`, or the `PaidAnswer` to a
        `PayRequest`.

        Args:
            remember: written to the plugin's store in the database transaction that stores the
                record as pending, or not at all.
        """

    async def quote(self, params: Mapping[str, Any]) -> Quote:
        """What the venue would give for a swap with these parameters."""


@dataclass(frozen=True, slots=True)
class WalletView:
    """The wallet a skill acts on: id, name, base58 address."""

    id: Name
    name: str
    address: Address


@dataclass(frozen=True, slots=True)
class AgentView:
    """The agent a skill runs for."""

    id: Name
    name: str


class SkillContext(OperationMethods):
    """The hands of a skill: read the ledger, and request transactions of its own wallet.

    Every money call goes through the engine and its guardrails; each raises `GuardrailBlocked`
    or `TransactionFailed` with the stored record, and returns a record that is `confirmed`, or
    `pending` where the ledger had not answered in time (`pay`: an answer with its payment).

    It lasts as long as the call it was made for: after that every money call, read and request
    raises `SkillError` `call_ended`. Its attributes cannot be assigned.
    """

    __slots__ = (
        "_agent", "_calls", "_http", "_ledger", "_log", "_ordinal", "_secrets", "_settings",
        "_storage", "_store", "_tokens", "_wallet",
    )  # fmt: skip

    def __init__(
        self,
        *,
        wallet: WalletView,
        agent: AgentView | None,
        ledger: ReadLedger,
        tokens: TokenList,
        calls: MoneyCalls,
        log: Any,
        secrets: Mapping[str, str | None] = {},
        storage: Path | None = None,
        settings: Mapping[str, Any] = {},
    ) -> None:
        # Imported at first use, as below: it brings solders.
        from solward.types.ledger import ReadOnlyLedger

        self._wallet = wallet
        self._agent = agent
        self._ledger: ReadLedger = ReadOnlyLedger(ledger, calls.lifetime.check)
        self._tokens = tokens
        self._http: httpx.AsyncClient | None = None
        self._log = log
        self._calls = calls
        self._secrets = secrets
        self._storage = storage
        self._store = Store(calls)
        self._settings = MappingProxyType(dict(settings))
        self._ordinal = itertools.count(1)

    @property
    def wallet(self) -> WalletView:
        """Id, name and address; no key is reachable from here."""
        return self._wallet

    @property
    def agent(self) -> AgentView | None:
        """The agent this runs for, None for a REST or CLI call."""
        return self._agent

    @property
    def ledger(self) -> ReadLedger:
        """Read only."""
        return self._ledger

    @property
    def tokens(self) -> TokenList:
        """Symbols known on this network."""
        return self._tokens

    @property
    def http(self) -> httpx.AsyncClient:
        """A client for the skill's own requests, made for this call at its first use."""
        self._calls.lifetime.check()
        if self._http is None:
            from solward.context.http import CallClient

            self._http = CallClient(self._calls.lifetime)
        return self._http

    def secret(self, name: str) -> str:
        """What to put into a request where a secret of the manifest belongs.

        In a plugin host it is a text that stands for the value: the service puts the value into
        the headers of requests to the secret's own site, and nowhere else. In the service's own
        process, as in `skill_context`, it is the value. So put it into a header as it is; do not
        compute with it.

        Args:
            name: the environment variable that the manifest's `Secret` names.

        Raises:
            SkillError: `secret_not_declared`, or `secret_not_set` by the operator.
        """
        return secret_text(self._secrets, name)

    @property
    def storage(self) -> Path:
        """The folder of the plugin's distribution, whose files outlive its calls and upgrades.

        Files alone: runs at the same time, in other processes too, share it without locks. Beyond
        the manifest's `storage_mb` the plugin host is ended, and does not start again until
        somebody made room.

        Raises:
            SkillError: `no_storage`: the manifest declares no `storage_mb`.
        """
        if self._storage is None:
            raise SkillError("no_storage", "The plugin's manifest declares no storage_mb")
        return self._storage

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the operator set for this skill, by its declaration's `settings`, defaults applied.

        Its secrets are here in clear, in its own process alone: put none into an answer, a log
        line, a record or an entry.
        """
        return self._settings

    @property
    def store(self) -> Store:
        """What the plugin keeps for this wallet."""
        return self._store

    @property
    def log(self) -> Any:
        """A logger that scrubs secrets."""
        return self._log

    def end(self) -> None:
        """End it; the service does so when the skill returns, raises or is out of time."""
        self._calls.lifetime.end()

    async def aclose(self) -> None:
        """End it, and close its HTTP client where it has one."""
        self.end()
        if self._http is not None:
            await self._http.aclose()

    async def balances(self) -> Balances:
        """SOL and token holdings of the wallet."""
        from solward.solana.balances import read_balances

        return await read_balances(self.ledger, self.tokens, self.wallet.address)

    async def stakes(self) -> tuple[Stake, ...]:
        """Every stake the wallet may unstake or withdraw."""
        from solward.solana.stakes import read_stakes

        return await read_stakes(self.ledger, self.wallet.address)

    async def history(
        self,
        *,
        type: str | None = None,  # noqa: A002 - the record's own field name
        status: str | None = None,
        since_ms: int | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> tuple[TransactionRecord, ...]:
        """The wallet's records that the plugins of this distribution asked for, newest first:
        whoever had them run, those refused too.

        Args:
            type: only of this `TransactionType`.
            status: only of this `TransactionStatus`.
            since_ms: only made then or later, milliseconds since the Unix epoch.
            before: id of a record of these: only older ones.
            limit: 1 to 100.

        Raises:
            InvalidRequest: a filter that does not fit; names it.
        """
        HistoryRequest(type, status, since_ms, before, limit).check()
        records: tuple[TransactionRecord, ...] = await self._calls.keep(
            "history", type=type, status=status, since_ms=since_ms, before=before, limit=limit
        )
        return records

    async def transact(
        self,
        *,
        instructions: Sequence[Instruction] = (),
        wire: bytes | None = None,
        type: str = "other",  # noqa: A002 - the record's own field name
        lamports_out: int = 0,
        rent_lamports: int = 0,
        tokens_out: Mapping[str, int] | None = None,
        tokens_in: Mapping[str, int] | None = None,
        destinations: Sequence[str] = (),
        may_close: Sequence[str] = (),
        details: Mapping[str, Any] | None = None,
        remember: Remember = (),
    ) -> TransactionRecord:
        """Have a transaction of your own judged, signed and sent: instructions, or whole bytes.

        Declare what it does to the wallet; what it can do beyond that by its bytes, or does in
        the simulation, and any control given away, is blocked. An instruction that names the
        wallet's key must be of a program that Solward decodes; for any other there is `pocket`.

        Args:
            type: `other`, or what the bytes are and nothing more: `transfer`, `token_transfer`,
                `burn`, `mint_supply`, or a `swap` of one asset for another.
            lamports_out: lamports that leave, without fee and rent.
            rent_lamports: most lamports of rent for the accounts it opens.
            tokens_out: mint -> most units that leave.
            tokens_in: mint -> least units that must arrive.
            destinations: who receives; checked against the blocked addresses.
            may_close: token accounts of the wallet that it closes, their rent to the wallet.
            details: the record's, JSON-able, amounts as Decimal. What the type states by itself
                (addresses, mint, amount) is read from the bytes; give it equal, or leave it out.
            remember: entries of the store, written with the pending record or not at all.

        Raises:
            InvalidRequest: a type or a detail that is not what the bytes do, or it is no
                transaction this wallet alone can sign.
        """
        intent = Intent(
            type=type,
            wallet=self.wallet.address,
            lamports_out=lamports_out,
            rent_lamports=rent_lamports,
            tokens_out=dict(tokens_out or {}),
            tokens_in=dict(tokens_in or {}),
            destinations=frozenset(destinations),
            may_close=frozenset(may_close),
            details=dict(details or {}),
        )
        record: TransactionRecord = await self._money(
            TransactRequest(intent, cast("tuple[Instruction, ...]", instructions), wire), remember
        )
        return record

    async def pocket(
        self,
        build: Build,
        *,
        lamports: int = 0,
        tokens: Mapping[str, int] | None = None,
        returns: Mapping[str, int] | None = None,
        mints: Sequence[str] = (),
        program: str | None = None,
        position: str | None = None,
        stays: bool = False,
        details: Mapping[str, Any] | None = None,
        remember: Remember = (),
    ) -> TransactionRecord:
        """Call any program, with a key that holds what you put in and nothing else.

        The wallet puts lamports and tokens into a pocket, a key of its own made for this use. Once
        they are there, `build` gives what the pocket alone signs. Then all it holds goes back to
        the wallet, whatever came of the call; the record is the call's. The program can take what
        was put in, and no more.

        Args:
            build: an async function of the pocket's address. Returns instructions, for which the
                pocket pays the fee, or the bytes of a whole transaction that only the pocket's
                signature is missing from. The wallet may receive in them; it signs nothing.
            lamports: put in; the fee and the rent of accounts that the call opens come out of
                these. After the fee the pocket must hold 0 or the rent of an
                account of 0 bytes, as much as the cluster asks.
            tokens: mint -> units put in, each into the pocket's associated account.
            returns: mint -> least units by which wallet and pocket together must grow by the call,
                in its simulation; under the mint of wrapped SOL the lamports too.
            mints: further mints that the pocket may hold afterwards, to be taken home.
            program: with `position`: the program a position is in, base58.
            position: a name. Its pocket is the same at each use, one for each program and
                position, and a call can take all that is in it.
            stays: leave what the pocket holds where it is, as a position that is at risk.
            details: the record's, JSON-able, amounts as Decimal.
            remember: entries of the store, written with the pending record or not at all.

        Raises:
            InvalidRequest: a value that does not fit; nothing was sent.
            TransactionFailed: it was not funded, or the call failed; what the pocket held is back.
        """
        request = PocketRequest(
            build=build,
            lamports=lamports,
            tokens=dict(tokens or {}),
            returns=dict(returns or {}),
            mints=tuple(mints),
            program=program,
            position=position,
            stays=bool(stays),
            details=dict(details or {}),
        )
        record: TransactionRecord = await self._money(request, remember)
        return record

    async def pay(
        self,
        *,
        url: str,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | str | None = None,
        max: str,  # noqa: A002 - the field's name wherever a payment is asked for
        remember: Remember = (),
    ) -> PaidAnswer:
        """Make a request over HTTP, and pay for it where the site answers 402.

        The service makes the request, with the wallet as payer: `http` never pays. It pays once, at
        most `max`, and follows no redirect. A plugin pays only sites that its manifest names.

        An answer of any status is returned. One that is not 2xx may have been paid for all the
        same: `payment` says so, and the amount counts until the ledger says that nothing was paid.
        Do not ask again for a payment that is `pending`.

        Args:
            url: https, without user; a fragment is not sent.
            method: in capitals.
            body: text is sent as UTF-8.
            max: the most to pay, and in what: `0.05 USDC`, whole units and a symbol or mint.
            remember: entries of the store, written with the pending record or not at all: a site
                that asks for no payment writes none.

        Raises:
            InvalidRequest: a value that does not fit, or nothing that the site takes may be paid;
                nothing was paid.
            Otherwise as the other money calls.
        """
        request = PayRequest(
            url=url,
            method=method,
            headers=dict(headers or {}),
            body=body.encode() if isinstance(body, str) else bytes(body or b""),
            max=max,
        )
        answer: PaidAnswer = await self._money(request, remember)
        return answer

    async def _perform(
        self, operation: str, params: Mapping[str, Any], remember: Remember = ()
    ) -> TransactionRecord:
        record: TransactionRecord = await self._money(OperationRequest(operation, params), remember)
        return record

    async def _money(self, asked: MoneyRequest, remember: Remember) -> Any:
        puts = checked_remember(remember)
        return await self._calls.money(asked, next(self._ordinal), puts)

    async def _quote(self, params: Mapping[str, Any]) -> Quote:
        return await self._calls.quote(params)


class Lifetime:
    """Whether a call still runs. It ends once, and for good."""

    __slots__ = ("_ended",)

    def __init__(self) -> None:
        self._ended = False

    def end(self) -> None:
        """End it."""
        self._ended = True

    def check(self) -> None:
        """Raise `SkillError` `call_ended` once the call has ended."""
        if self._ended:
            raise SkillError(
                "call_ended", "The skill's call has ended; its context can do nothing any more"
            )

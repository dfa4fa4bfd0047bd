"""A running skill's capability over one wallet, which is all that the skill gets."""

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
"""An async function that makes a pocket's instructions or transaction, given its address."""

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
    """The service's part of a store; it knows the plugin and the wallet."""

    async def keep(self, what: str, **asked: Any) -> Any:
        """Do a `get`, `put`, `delete` or `list` of entries of the store, or read the `history`."""


class Store:
    """Small JSON entries of the plugin's distribution for the wallet of the call.

    The plugins of a distribution share them. No other distribution, and no call for another wallet,
    reads or writes them. A write is durable when it returns; a dry run writes nothing.

    Each method raises `InvalidRequest` for a key, a value or a version that is not valid. A key has
    1 to 200 printable ASCII characters and no space. A value is JSON, at most 32 levels deep; a
    fraction is a `Decimal`, and a float is refused.

    In a plugin host, one call may use the store and the history 500 times; after that it gets
    `SkillError` `too_many_store_calls`.
    """

    __slots__ = ("_calls",)

    def __init__(self, calls: StoreCalls) -> None:
        self._calls = calls

    async def get(self, key: str) -> Entry | None:
        """Return the entry of a key, or None."""
        entry: Entry | None = await self._calls.keep("get", key=checked_key(key))
        return entry

    async def put(self, key: str, value: Any, *, version: int | None = None) -> Entry:
        """Write an entry and return it with its new version.

        Args:
            version: write only over this version; 0 if there must be no entry; None to overwrite.

        Raises:
            SkillError: `store_changed` if the entry has another version. `store_full` if there
                would be more keys or bytes than the operator allows; the text names the limit.
                `store_busy` if the distribution wrote too often in this minute; the text says in
                how many seconds it may write again.
        """
        put = checked_put(Put(key, value, version))
        entry: Entry = await self._calls.keep(
            "put", key=put.key, value=put.value, version=put.version
        )
        return entry

    async def delete(self, key: str, *, version: int | None = None) -> bool:
        """Delete an entry and return whether there was one.

        Args:
            version: delete only this version; None for any.

        Raises:
            SkillError: `store_changed` if the entry has another version.
        """
        was_there: bool = await self._calls.keep(
            "delete", key=checked_key(key), version=checked_version(version)
        )
        return was_there

    async def list(
        self, prefix: str = "", *, after: str | None = None, limit: int = 100
    ) -> tuple[Entry, ...]:
        """Return the entries whose keys begin with `prefix`, sorted by key in ASCII order.

        Args:
            after: return only keys after this one, such as the last key of the previous page.
            limit: most entries to return, 1 to 200.
        """
        check_page(prefix, after, limit)
        entries: tuple[Entry, ...] = await self._calls.keep(
            "list", prefix=prefix, after=after, limit=limit
        )
        return entries


class MoneyCalls(StoreCalls, Protocol):
    """The service's part of a context; it knows wallet, caller and effects.

    Calls that make a transaction are numbered from 1 in the order the skill makes them, so that a
    repeated run pays each once. All raise `SkillError` once the lifetime has ended, and those that
    make a transaction for a skill that declares READ.
    """

    @property
    def lifetime(self) -> Lifetime:
        """Ends when the call for which the context was made ends."""

    async def money(self, asked: MoneyRequest, ordinal: int, remember: Sequence[Put] = ()) -> Any:
        """Make a transaction; return its `TransactionRecord`, or a `PayRequest`'s `PaidAnswer`.

        Args:
            remember: written to the plugin's store in the database transaction that stores the
                record as pending, or not at all.
        """

    async def quote(self, params: Mapping[str, Any]) -> Quote:
        """Quote a swap with these parameters at its venue."""


@dataclass(frozen=True, slots=True)
class WalletView:
    """The wallet that a skill acts on. `address` is base58."""

    id: Name
    name: str
    address: Address


@dataclass(frozen=True, slots=True)
class AgentView:
    """The agent for which a skill runs."""

    id: Name
    name: str


class SkillContext(OperationMethods):
    """A skill's access to one wallet: read the ledger, and request transactions. It has no key.

    Rules and grants decide on every money call. A money call returns the stored record, with the
    status `confirmed`, or `pending` if the ledger did not answer in time; a pending transaction may
    still land. It raises `GuardrailBlocked` if a rule refuses it and `TransactionFailed` if it
    fails, both with the stored record. `pay` returns a `PaidAnswer` instead of a record.

    The context ends with the call. After that, every money call, read and request raises
    `SkillError` `call_ended`. Attributes cannot be assigned.
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
        """The wallet of this call."""
        return self._wallet

    @property
    def agent(self) -> AgentView | None:
        """The agent for which the skill runs. None if a person, a key or a schedule runs it."""
        return self._agent

    @property
    def ledger(self) -> ReadLedger:
        """Reads of the ledger: accounts, token holdings, rent, slot."""
        return self._ledger

    @property
    def tokens(self) -> TokenList:
        """The symbols known on this network; iterate over it to get each `KnownToken`."""
        return self._tokens

    @property
    def http(self) -> httpx.AsyncClient:
        """An HTTP client of this call alone, with a timeout of 15 seconds by default.

        It reaches only the sites that the plugin's manifest names, and closes with the call. It
        never pays: use `pay` for that.
        """
        self._calls.lifetime.check()
        if self._http is None:
            from solward.context.http import CallClient

            self._http = CallClient(self._calls.lifetime)
        return self._http

    def secret(self, name: str) -> str:
        """Return the text that stands for a secret of the manifest in a header.

        In a plugin host this is a placeholder. The service replaces it by the secret in headers of
        requests to the secret's own site, and nowhere else. In the service's own process, as in
        `skill_context`, it is the secret. Put it into a header as it is; do not compute with it.

        Args:
            name: the environment variable that the manifest's `Secret` names.

        Raises:
            SkillError: `secret_not_declared` if the manifest does not name it, `secret_not_set` if
                the operator has not set it.
        """
        return secret_text(self._secrets, name)

    @property
    def storage(self) -> Path:
        """The folder of the plugin's distribution. Its files outlive calls, restarts and upgrades.

        Calls that run at the same time share the folder, without locks. If the files grow beyond
        the manifest's `storage_mb`, the service ends the plugin host and does not start it again
        until somebody makes room.

        Raises:
            SkillError: `no_storage` if the manifest declares no `storage_mb`.
        """
        if self._storage is None:
            raise SkillError("no_storage", "The plugin's manifest declares no storage_mb")
        return self._storage

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings that the operator set for this skill, with the declared defaults.

        Secret settings are here in clear. Put none into an answer, a log line, a record or an
        entry.
        """
        return self._settings

    @property
    def store(self) -> Store:
        """The entries that the plugin keeps for this wallet."""
        return self._store

    @property
    def log(self) -> Any:
        """A structlog logger. The service removes its own secrets from every line."""
        return self._log

    def end(self) -> None:
        """End it; the service does so when the skill returns, raises or is out of time."""
        self._calls.lifetime.end()

    async def aclose(self) -> None:
        """End the call, and close its HTTP client if it has one."""
        self.end()
        if self._http is not None:
            await self._http.aclose()

    async def balances(self) -> Balances:
        """Return the wallet's SOL and tokens, exact."""
        from solward.solana.balances import read_balances

        return await read_balances(self.ledger, self.tokens, self.wallet.address)

    async def stakes(self) -> tuple[Stake, ...]:
        """Return every stake account that the wallet may unstake or withdraw from."""
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
        """Return the wallet's records that plugins of this distribution requested, newest first.

        The result includes refused transactions, and records of every caller's requests.

        Args:
            type: return only records of this `TransactionType`.
            status: return only records of this `TransactionStatus`.
            since_ms: return only records made at this time or later, in milliseconds since the Unix
                epoch.
            before: return only records older than the one with this id.
            limit: most records to return, 1 to 100.

        Raises:
            InvalidRequest: if a filter is not valid; the text names it.
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
        """Send a transaction that you built, if every rule allows it.

        Give `instructions`, or a whole transaction as `wire`. Declare every change that the
        transaction makes to the wallet. Solward blocks the transaction if its bytes can take more
        than you declared, if it does more in the simulation, or if it gives control of an account
        away. Instructions that name the wallet's
        key must be of a program that Solward decodes; use `pocket` to call any other program.

        Args:
            instructions: instructions of `solders`.
            wire: the bytes of a transaction that lacks only the wallet's signature.
            type: `other`; or `transfer`, `token_transfer`, `burn` or `mint_supply` if the
                instructions do that and nothing more; or `swap` if one asset leaves and another
                must arrive.
            lamports_out: lamports that leave, without fee and rent.
            rent_lamports: most lamports of rent for accounts that the
                transaction opens.
            tokens_out: the most units that leave, by mint.
            tokens_in: the least units that must arrive, by mint.
            destinations: addresses that receive. Solward refuses blocked addresses.
            may_close: token accounts of the wallet that it closes. Their rent must return to the
                wallet.
            details: for the record, JSON with amounts as `Decimal`. Addresses, mint and amount of
                a `type` other than `other` are read from the bytes: leave them out, or give equal
                ones.
            remember: entries to write to the store together with the pending record.

        Raises:
            InvalidRequest: if `type` or `details` differ from the bytes, or if others must sign the
                transaction too.
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
        """Call any program with a one-off account that holds only what you put in.

        The wallet moves lamports and tokens into a pocket, a one-off account. Then the pocket alone
        signs the transaction that `build` returns. Whether or not the call succeeds, the pocket's
        contents return to the wallet afterwards. The program can take what was put in, and no more.
        The returned record is the call's.

        Args:
            build: an async function that gets the pocket's address, called once the pocket is
                funded. It returns instructions, for which the pocket pays the fee, or the bytes of
                a transaction that lacks only the pocket's signature. The wallet may
                receive in this transaction, but signs nothing.
            lamports: lamports to put in. They pay the fee and the rent of accounts that the call
                opens. After the fee the pocket must hold 0 lamports or the rent of an account of 0
                bytes.
            tokens: units to put in, by mint, each into the pocket's associated token account.
            returns: least units, by mint, by which wallet and pocket together must grow in the
                simulation of the call. Wrapped SOL counts lamports too.
            mints: further mints that the pocket may hold after the call and that return.
            program: base58 address of the program of a position; give it with `position`.
            position: a name for a pocket that is kept, one for each program and name. A call can
                take all that is in it.
            stays: keep the pocket's contents in the pocket, as a position that is at risk.
            details: for the record, JSON with amounts as `Decimal`.
            remember: entries to write to the store together with the pending record.

        Raises:
            InvalidRequest: if a value is not valid; nothing was sent.
            TransactionFailed: if the pocket was not funded or the call failed. The pocket's
                contents are back.
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
        """Make an HTTP request, and pay for it if the site answers 402.

        The service makes the request and pays from the wallet: once, the site's exact price, at
        most `max`. It follows no redirect. A plugin can pay only the sites that its manifest names.

        The answer is returned whatever its status. If it is not 2xx, the site may still have been
        paid: `payment` says so, and the amount counts until the ledger shows that nothing was paid.
        Do not repeat the request while `payment.status` is `pending`.

        It raises the same errors as the other money calls, too.

        Args:
            url: an https URL without a user. Its fragment is not sent.
            method: in capitals.
            body: at most 64 KiB; text is sent as UTF-8.
            max: the most to pay, in whole units and a symbol or mint: `0.05 USDC`.
            remember: entries to write to the store together with the pending record. If the site
                asks for no payment, no entry is written.

        Raises:
            InvalidRequest: if a value is not valid, or if no offer of the site may be paid; nothing
                was paid.
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
    """The lifetime of a call, which ends once and for good."""

    __slots__ = ("_ended",)

    def __init__(self) -> None:
        self._ended = False

    def end(self) -> None:
        """End the call's lifetime."""
        self._ended = True

    def check(self) -> None:
        """Raise `SkillError` `call_ended` once the call has ended."""
        if self._ended:
            raise SkillError(
                "call_ended", "The skill's call has ended, so its context can no longer be used"
            )

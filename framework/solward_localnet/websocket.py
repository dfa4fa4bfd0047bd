"""The localnet's WebSocket side: Solana's subscriptions, fed by the ledger's commits."""

import asyncio
import base64
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from solders.account import Account
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from solward_localnet.accountindex import token_account
from solward_localnet.encoding import check_account_encoding, encode_account
from solward_localnet.errors import METHOD_NOT_FOUND, RpcError, invalid_params
from solward_localnet.jsonrpc import Call, answer, encode
from solward_localnet.methods.accounts import account_filters
from solward_localnet.params import (
    Config,
    commitment,
    config_at,
    flag,
    optional_map,
    optional_string,
    parse_pubkey,
    parse_signature,
    pubkey_at,
    string_at,
)
from solward_localnet.records import Commit, StoredTransaction

MAX_QUEUED = 4096
"""Messages that may wait for a slow client before its connection is closed."""

_log = logging.getLogger(__name__)

Notify = Callable[[str, int, Any], None]
"""Sends a client a notification: method, subscription id, the result or what computes it."""

_K = TypeVar("_K")
_S = TypeVar("_S")

Encode = Callable[[Pubkey, Account, Commit], Awaitable[dict[str, Any]]]
"""Renders an account in the encoding a subscription was made with."""

# After a long sleep clients are sent only so many of the slots that passed.
_MOST_SLOTS = 32

_EMPTY = Account(0, b"", Pubkey.default())


@dataclass(frozen=True, slots=True)
class Later:
    """A result that is computed only when its turn to be sent comes."""

    compute: Callable[[], Awaitable[Any]]


@dataclass(slots=True)
class Signature:
    """Waits for one transaction, then is over. `final` waits for the slot after it as well."""

    id: int
    notify: Notify
    signature: str
    final: bool
    received: bool


@dataclass(frozen=True, slots=True)
class AccountChange:
    """Sends each change of one account, as `encode` renders it."""

    id: int
    notify: Notify
    address: Pubkey
    encode: Encode


@dataclass(frozen=True, slots=True)
class ProgramChange:
    """Sends each change of the accounts of one program whose data all `filters` match."""

    id: int
    notify: Notify
    program: Pubkey
    filters: tuple[Callable[[bytes], bool], ...]
    encode: Encode


@dataclass(frozen=True, slots=True)
class Logs:
    """Sends the logs of transactions that mention an address, of all where it is None."""

    id: int
    notify: Notify
    mentions: str | None


@dataclass(frozen=True, slots=True)
class Slots:
    """Sends each slot, or with `roots` each root."""

    id: int
    notify: Notify
    roots: bool


Subscription = Signature | AccountChange | ProgramChange | Logs | Slots


@dataclass(slots=True)
class Subscriptions:
    """All subscriptions of all clients, found by what happens."""

    by_id: dict[int, Subscription] = field(default_factory=dict)
    _signatures: dict[str, dict[int, Signature]] = field(default_factory=dict)
    _final: dict[int, tuple[Signature, int, Any]] = field(default_factory=dict)
    _accounts: dict[Pubkey, dict[int, AccountChange]] = field(default_factory=dict)
    _programs: dict[int, ProgramChange] = field(default_factory=dict)
    _logs: dict[int, Logs] = field(default_factory=dict)
    _slots: dict[int, Slots] = field(default_factory=dict)
    _ids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def new_id(self) -> int:
        """An id no subscription had."""
        return next(self._ids)

    def add(self, subscription: Subscription) -> None:
        """Notify `subscription` from now on."""
        self.by_id[subscription.id] = subscription
        match subscription:
            case Signature():
                self._signatures.setdefault(subscription.signature, {})[subscription.id] = (
                    subscription
                )
            case AccountChange():
                self._accounts.setdefault(subscription.address, {})[subscription.id] = subscription
            case ProgramChange():
                self._programs[subscription.id] = subscription
            case Logs():
                self._logs[subscription.id] = subscription
            case Slots():
                self._slots[subscription.id] = subscription

    def remove(self, subscription_id: int) -> None:
        """Notify the subscription no more; an unknown id is ignored."""
        subscription = self.by_id.pop(subscription_id, None)
        match subscription:
            case Signature():
                self._final.pop(subscription_id, None)
                _drop(self._signatures, subscription.signature, subscription_id)
            case AccountChange():
                _drop(self._accounts, subscription.address, subscription_id)
            case ProgramChange():
                del self._programs[subscription_id]
            case Logs():
                del self._logs[subscription_id]
            case Slots():
                del self._slots[subscription_id]

    def publish(self, commit: Commit) -> None:
        """Notify every subscription that `commit` concerns."""
        for transaction in commit.transactions:
            self.settle(transaction.signature, transaction.slot, transaction.err, commit.slot)
        for subscription, slot, err in list(self._final.values()):
            if commit.slot > slot:
                self._finish(subscription, commit.slot, err)
        if self._accounts or self._programs:
            self._publish_accounts(commit)
        if self._logs:
            for transaction in commit.transactions:
                self._publish_logs(transaction)
        if self._slots:
            self._publish_slots(commit)

    def settle(self, signature: str, slot: int, err: Any, current_slot: int) -> None:
        """Notify who waits for a transaction that landed in `slot`, at once or when it is final."""
        for subscription in list(self._signatures.get(signature, {}).values()):
            if subscription.received:
                subscription.received = False
                subscription.notify(
                    "signatureNotification", subscription.id, _at(slot, "receivedSignature")
                )
            if subscription.final and current_slot <= slot:
                self._final[subscription.id] = (subscription, slot, err)
            else:
                self._finish(subscription, slot, err)

    def _finish(self, subscription: Signature, slot: int, err: Any) -> None:
        self.remove(subscription.id)
        subscription.notify("signatureNotification", subscription.id, _at(slot, {"err": err}))

    def _publish_accounts(self, commit: Commit) -> None:
        for address, state in commit.accounts.items():
            account = state or _EMPTY
            for subscription in self._accounts.get(address, {}).values():
                later = _account_later(subscription, address, account, commit)
                subscription.notify("accountNotification", subscription.id, later)
            for program in self._programs.values():
                if account.owner == program.program and _matches(program, account):
                    later = _keyed_later(program, address, account, commit)
                    program.notify("programNotification", program.id, later)

    def _publish_logs(self, transaction: StoredTransaction) -> None:
        value = {
            "signature": transaction.signature,
            "err": transaction.err,
            "logs": list(transaction.log_messages),
        }
        mentioned: frozenset[str] | None = None
        for subscription in list(self._logs.values()):
            if subscription.mentions is not None:
                mentioned = mentioned or _addresses(transaction)
                if subscription.mentions not in mentioned:
                    continue
            subscription.notify("logsNotification", subscription.id, _at(transaction.slot, value))

    def _publish_slots(self, commit: Commit) -> None:
        first = max(commit.previous_slot + 1, commit.slot - _MOST_SLOTS + 1)
        for slot in range(first, commit.slot + 1):
            # One validator: a slot is rooted as soon as the next one begins.
            root = max(slot - 1, 0)
            for subscription in list(self._slots.values()):
                if subscription.roots:
                    subscription.notify("rootNotification", subscription.id, root)
                else:
                    result = {"slot": slot, "parent": max(slot - 1, 0), "root": root}
                    subscription.notify("slotNotification", subscription.id, result)


def _at(slot: int, value: Any) -> dict[str, Any]:
    return {"context": {"slot": slot}, "value": value}


def _matches(subscription: ProgramChange, account: Account) -> bool:
    data = account.data
    return all(matches(data) for matches in subscription.filters)


def _account_later(
    subscription: AccountChange, address: Pubkey, account: Account, commit: Commit
) -> Later:
    async def compute() -> dict[str, Any]:
        return _at(commit.slot, await subscription.encode(address, account, commit))

    return Later(compute)


def _keyed_later(
    subscription: ProgramChange, address: Pubkey, account: Account, commit: Commit
) -> Later:
    async def compute() -> dict[str, Any]:
        encoded = await subscription.encode(address, account, commit)
        return _at(commit.slot, {"pubkey": str(address), "account": encoded})

    return Later(compute)


def _addresses(transaction: StoredTransaction) -> frozenset[str]:
    message = VersionedTransaction.from_bytes(transaction.wire).message
    static: Sequence[Pubkey] = message.account_keys
    loaded = (*transaction.loaded_writable, *transaction.loaded_readonly)
    return frozenset((*map(str, static), *loaded))


def _drop(index: dict[_K, dict[int, _S]], key: _K, subscription_id: int) -> None:
    subscriptions = index[key]
    del subscriptions[subscription_id]
    if not subscriptions:
        del index[key]


@dataclass(frozen=True, slots=True)
class Request:
    """A subscription request: its id, how its client is notified, its parameters.

    `call` reads the ledger, for the mint of a token account that is to be parsed.
    """

    id: int
    notify: Notify
    params: Sequence[Any]
    call: Call


def _signature(request: Request) -> Signature:
    signature = parse_signature(string_at(request.params, 0))
    config = config_at(request.params, 1)
    return Signature(
        request.id,
        request.notify,
        signature,
        final=commitment(config) == "finalized",
        received=flag(config, "enableReceivedNotification"),
    )


def _account(request: Request) -> AccountChange:
    address = pubkey_at(request.params, 0)
    render = _encoder(request.call, config_at(request.params, 1))
    return AccountChange(request.id, request.notify, address, render)


def _program(request: Request) -> ProgramChange:
    program = pubkey_at(request.params, 0)
    config = config_at(request.params, 1)
    filters = tuple(account_filters(config))
    render = _encoder(request.call, config)
    return ProgramChange(request.id, request.notify, program, filters, render)


def _logs(request: Request) -> Logs:
    which = request.params[0] if request.params else None
    config_at(request.params, 1)
    if which in ("all", "allWithVotes"):
        return Logs(request.id, request.notify, None)
    mentions = which.get("mentions") if isinstance(which, dict) else None
    if not isinstance(mentions, list):
        raise invalid_params(
            'Invalid params: the filter is "all", "allWithVotes" or {"mentions": [address]}.'
        )
    if len(mentions) != 1:
        raise invalid_params("Invalid Request: Only 1 address supported")
    return Logs(request.id, request.notify, str(parse_pubkey(mentions[0])))


def _slots(request: Request) -> Slots:
    return Slots(request.id, request.notify, roots=False)


def _roots(request: Request) -> Slots:
    return Slots(request.id, request.notify, roots=True)


def _encoder(call: Call, config: Config) -> Encode:
    encoding, data_slice = optional_string(config, "encoding"), optional_map(config, "dataSlice")
    check_account_encoding(encoding)
    # A bad slice is the subscriber's mistake: refused here, not at the first change.
    encode_account(Account(0, b"", Pubkey.default()), encoding, data_slice, Pubkey.default())

    async def render(address: Pubkey, account: Account, commit: Commit) -> dict[str, Any]:
        known: dict[Pubkey, Account | None] = {}
        token = token_account(account) if encoding == "jsonParsed" else None
        if token is not None:
            mint = Pubkey.from_string(token.mint)
            known[mint] = commit.accounts.get(mint) or await _read(call, mint)
        return encode_account(account, encoding, data_slice, address, known.get)

    return render


async def _read(call: Call, address: Pubkey) -> Account | None:
    answered = await call("getAccountInfo", [str(address), {"encoding": "base64"}])
    value = answered["value"]
    if value is None:
        return None
    data = base64.b64decode(value["data"][0])
    return Account(value["lamports"], data, Pubkey.from_string(value["owner"]))


SUBSCRIBE: Mapping[str, Callable[[Request], Subscription]] = {
    "signatureSubscribe": _signature,
    "accountSubscribe": _account,
    "programSubscribe": _program,
    "logsSubscribe": _logs,
    "slotSubscribe": _slots,
    "rootSubscribe": _roots,
}
"""How each subscribing method's request is read; raises `RpcError` for bad parameters."""

UNSUBSCRIBE = frozenset(name.replace("Subscribe", "Unsubscribe") for name in SUBSCRIBE)
"""The methods that end a subscription."""


class PubSub:
    """All WebSocket connections of one localnet; `publish` is its commit listener."""

    def __init__(self, call: Call, *, max_queued: int = MAX_QUEUED) -> None:
        self._call = call
        self._max_queued = max_queued
        self.subscriptions = Subscriptions()

    def publish(self, commit: Commit) -> None:
        """Notify the subscribed clients of `commit`. Never blocks: notifications wait in each
        client's own queue, and a client whose queue is full is cut off."""
        self.subscriptions.publish(commit)

    async def serve_connection(self, socket: ServerConnection) -> None:
        """Serve one client until it leaves; for `websockets.asyncio.server.serve`."""
        client = _Client(self._call, self.subscriptions, socket, self._max_queued)
        await client.run()


class _Client:
    """One connection: its subscriptions and what waits to be sent to it."""

    def __init__(
        self, call: Call, subscriptions: Subscriptions, socket: ServerConnection, max_queued: int
    ) -> None:
        self._call = call
        self._subscriptions = subscriptions
        self._socket = socket
        self._queue: asyncio.Queue[str | tuple[str, int, Later]] = asyncio.Queue(max_queued)
        self._own: set[int] = set()
        self._waiting: list[str | tuple[str, int, Later]] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        writer = asyncio.create_task(self._write())
        try:
            async for message in self._socket:
                await self._receive(message)
        except ConnectionClosed:
            pass
        finally:
            for subscription_id in self._own:
                self._subscriptions.remove(subscription_id)
            for task in (writer, *self._tasks):
                task.cancel()
            await asyncio.gather(writer, *self._tasks, return_exceptions=True)

    async def _receive(self, message: str | bytes) -> None:
        # A client must have a subscription's id before it is notified under that id.
        self._waiting = []
        response = await answer(message, self._dispatch)
        waiting, self._waiting = self._waiting, None
        if response is not None:
            self._put(response)
        for item in waiting:
            self._put(item)

    async def _write(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                item = await self._queue.get()
                if isinstance(item, str):
                    await self._socket.send(item)
                    continue
                method, subscription_id, later = item
                try:
                    result = await later.compute()
                except Exception:
                    _log.exception("a %s could not be computed", method)
                    continue
                await self._socket.send(_notification(method, subscription_id, result))

    def _put(self, item: str | tuple[str, int, Later]) -> None:
        if self._waiting is not None:
            self._waiting.append(item)
            return
        try:
            self._queue.put_nowait(item)
        except asyncio.QueueFull:
            _log.warning("a WebSocket client does not read what it subscribed to: cut off")
            self._socket.transport.abort()

    def _notify(self, method: str, subscription_id: int, result: Any) -> None:
        if method == "signatureNotification" and subscription_id not in self._subscriptions.by_id:
            self._own.discard(subscription_id)
        if isinstance(result, Later):
            self._put((method, subscription_id, result))
        else:
            self._put(_notification(method, subscription_id, result))

    async def _dispatch(self, method: str, params: Sequence[Any]) -> Any:
        build = SUBSCRIBE.get(method)
        if build is not None:
            request = Request(self._subscriptions.new_id(), self._notify, params, self._call)
            subscription = build(request)
            self._subscriptions.add(subscription)
            self._own.add(subscription.id)
            # A transaction that landed before the request is notified at once.
            if isinstance(subscription, Signature):
                task = asyncio.create_task(self._settle_if_landed(subscription))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            return subscription.id
        if method in UNSUBSCRIBE:
            return self._unsubscribe(params)
        raise RpcError(METHOD_NOT_FOUND, "Method not found")

    def _unsubscribe(self, params: Sequence[Any]) -> bool:
        if len(params) != 1 or type(params[0]) is not int or params[0] not in self._own:
            raise invalid_params("Invalid subscription id.")
        self._own.remove(params[0])
        self._subscriptions.remove(params[0])
        return True

    async def _settle_if_landed(self, subscription: Signature) -> None:
        try:
            options = {"searchTransactionHistory": True}
            answered = await self._call("getSignatureStatuses", [[subscription.signature], options])
        except Exception:
            # The subscription stays, and is notified when the transaction lands.
            _log.exception("the status of a subscribed signature could not be read")
            return
        status = answered["value"][0]
        if status is not None and subscription.id in self._subscriptions.by_id:
            slot = answered["context"]["slot"]
            subscription.received = False
            self._subscriptions.settle(subscription.signature, status["slot"], status["err"], slot)


def _notification(method: str, subscription_id: int, result: Any) -> str:
    params = {"result": result, "subscription": subscription_id}
    return encode({"jsonrpc": "2.0", "method": method, "params": params})

"""The localnet's WebSocket side: Solana's subscriptions, fed by the ledger's commits."""

import asyncio
import base64
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from solders.account import Account
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from solward_localnet.accountindex import token_account
from solward_localnet.encoding import check_account_encoding, encode_account
from solward_localnet.jsonrpc import (
    METHOD_NOT_FOUND,
    Call,
    Config,
    RpcError,
    answer,
    commitment,
    config_at,
    encode,
    flag,
    invalid_params,
    optional_map,
    optional_string,
    parse_pubkey,
    parse_signature,
    pubkey_at,
    string_at,
)
from solward_localnet.ledger import Commit
from solward_localnet.methods.accounts import account_filters
from solward_localnet.storage import StoredTransaction

MAX_QUEUED = 4096
"""The maximum number of queued messages for a client; beyond it, the connection is closed."""

_log = logging.getLogger(__name__)

Compute = Callable[[], Awaitable[Any]]
"""A function that computes a queued result right before it is sent."""

Encode = Callable[[Pubkey, Account, Commit], Awaitable[dict[str, Any]]]
"""A function that encodes an account as its subscription requested."""

Landed = Mapping[str, StoredTransaction]
"""The transactions of a commit by their signatures."""

# Maximum number of past slots of which clients are notified after a long sleep.
_MOST_SLOTS = 32

_EMPTY = Account(0, b"", Pubkey.default())


@dataclass(frozen=True, slots=True)
class Subscriber:
    """The receiver of one subscription's notifications, at one client."""

    client: "_Client"
    id: int

    def notify(self, method: str, result: Any) -> None:
        """Send a result."""
        self.client.put(_notification(method, self.id, result))

    def notify_later(self, method: str, compute: Compute) -> None:
        """Queue a notification whose result is computed right before it is sent."""
        self.client.put((method, self.id, compute))

    def end(self) -> None:
        """End the subscription."""
        self.client.unsubscribe(self.id)


class Subscription(Protocol):
    """A client's subscription to one subject."""

    def publish(self, commit: Commit, landed: Landed) -> None:
        """Notify the client of a commit that concerns the subject."""


@dataclass(slots=True)
class SignatureWatch:
    """Waits for one transaction, or with `final` also for the next slot, and then ends."""

    to: Subscriber
    signature: str
    final: bool
    received: bool
    _waits: tuple[int, Any] | None = None

    def publish(self, commit: Commit, landed: Landed) -> None:
        """See `Subscription`."""
        transaction = landed.get(self.signature)
        if transaction is not None:
            self.settle(transaction.slot, transaction.err, commit.slot)
        elif self._waits is not None and commit.slot > self._waits[0]:
            self._notify_and_end(commit.slot, self._waits[1])

    def settle(self, slot: int, err: Any, current_slot: int) -> None:
        """Notify that the transaction landed in `slot`, at once or when it is final."""
        if self.received:
            self.received = False
            self.to.notify("signatureNotification", _with_slot(slot, "receivedSignature"))
        if self.final and current_slot <= slot:
            self._waits = slot, err
        else:
            self._notify_and_end(slot, err)

    def _notify_and_end(self, slot: int, err: Any) -> None:
        self.to.notify("signatureNotification", _with_slot(slot, {"err": err}))
        self.to.end()


@dataclass(frozen=True, slots=True)
class AccountWatch:
    """Sends the new state of each changed account that `is_of` accepts, encoded by `encode`. With
    `of_program`, the account's address is sent too."""

    to: Subscriber
    is_of: Callable[[Pubkey, Account], bool]
    encode: Encode
    of_program: bool

    def publish(self, commit: Commit, _landed: Landed) -> None:
        """See `Subscription`."""
        method = "programNotification" if self.of_program else "accountNotification"
        for address, state in commit.accounts.items():
            account = state or _EMPTY
            if self.is_of(address, account):
                self.to.notify_later(method, partial(self._payload, address, account, commit))

    async def _payload(self, address: Pubkey, account: Account, commit: Commit) -> dict[str, Any]:
        encoded = await self.encode(address, account, commit)
        keyed = {"pubkey": str(address), "account": encoded}
        return _with_slot(commit.slot, keyed if self.of_program else encoded)


@dataclass(frozen=True, slots=True)
class LogsWatch:
    """Sends the logs of transactions that mention an address, or of all transactions for None."""

    to: Subscriber
    mentions: str | None

    def publish(self, commit: Commit, _landed: Landed) -> None:
        """See `Subscription`."""
        for transaction in commit.transactions:
            if self.mentions is None or self.mentions in _mentioned_addresses(transaction):
                value = {
                    "signature": transaction.signature,
                    "err": transaction.err,
                    "logs": list(transaction.log_messages),
                }
                self.to.notify("logsNotification", _with_slot(transaction.slot, value))


@dataclass(frozen=True, slots=True)
class SlotWatch:
    """Sends each slot, or with `roots` each root."""

    to: Subscriber
    roots: bool

    def publish(self, commit: Commit, _landed: Landed) -> None:
        """See `Subscription`."""
        first = max(commit.previous_slot + 1, commit.slot - _MOST_SLOTS + 1)
        for slot in range(first, commit.slot + 1):
            # One validator: a slot is rooted as soon as the next one begins.
            root = max(slot - 1, 0)
            if self.roots:
                self.to.notify("rootNotification", root)
            else:
                self.to.notify("slotNotification", {"slot": slot, "parent": root, "root": root})


def _with_slot(slot: int, value: Any) -> dict[str, Any]:
    return {"context": {"slot": slot}, "value": value}


def _mentioned_addresses(transaction: StoredTransaction) -> frozenset[str]:
    message = VersionedTransaction.from_bytes(transaction.wire).message
    static: Sequence[Pubkey] = message.account_keys
    loaded = (*transaction.loaded_writable, *transaction.loaded_readonly)
    return frozenset((*map(str, static), *loaded))


def _watch_signature(to: Subscriber, params: Sequence[Any], _call: Call) -> SignatureWatch:
    signature = parse_signature(string_at(params, 0))
    config = config_at(params, 1)
    final = commitment(config) == "finalized"
    return SignatureWatch(to, signature, final, flag(config, "enableReceivedNotification"))


def _watch_account(to: Subscriber, params: Sequence[Any], call: Call) -> AccountWatch:
    wanted = pubkey_at(params, 0)
    encode = _make_encoder(call, config_at(params, 1))
    return AccountWatch(to, lambda address, _state: address == wanted, encode, of_program=False)


def _watch_program(to: Subscriber, params: Sequence[Any], call: Call) -> AccountWatch:
    program, config = pubkey_at(params, 0), config_at(params, 1)
    filters = account_filters(config)

    def is_of(_address: Pubkey, account: Account) -> bool:
        return account.owner == program and all(matches(account.data) for matches in filters)

    return AccountWatch(to, is_of, _make_encoder(call, config), of_program=True)


def _watch_logs(to: Subscriber, params: Sequence[Any], _call: Call) -> LogsWatch:
    which = params[0] if params else None
    config_at(params, 1)
    if which in ("all", "allWithVotes"):
        return LogsWatch(to, None)
    mentions = which.get("mentions") if isinstance(which, dict) else None
    if not isinstance(mentions, list):
        raise invalid_params(
            'Invalid params: the filter is "all", "allWithVotes" or {"mentions": [address]}.'
        )
    if len(mentions) != 1:
        raise invalid_params("Invalid Request: Only 1 address supported")
    return LogsWatch(to, str(parse_pubkey(mentions[0])))


def _make_encoder(call: Call, config: Config) -> Encode:
    encoding, data_slice = optional_string(config, "encoding"), optional_map(config, "dataSlice")
    check_account_encoding(encoding)
    # A bad slice is the subscriber's mistake: refused here, not at the first change.
    encode_account(_EMPTY, encoding, data_slice, Pubkey.default())

    async def render(address: Pubkey, account: Account, commit: Commit) -> dict[str, Any]:
        known: dict[Pubkey, Account | None] = {}
        token = token_account(account) if encoding == "jsonParsed" else None
        if token is not None:
            mint = Pubkey.from_string(token.mint)
            known[mint] = commit.accounts.get(mint) or await _read_account(call, mint)
        return encode_account(account, encoding, data_slice, address, known.get)

    return render


async def _read_account(call: Call, address: Pubkey) -> Account | None:
    answered = await call("getAccountInfo", [str(address), {"encoding": "base64"}])
    value = answered["value"]
    if value is None:
        return None
    data = base64.b64decode(value["data"][0])
    return Account(value["lamports"], data, Pubkey.from_string(value["owner"]))


SUBSCRIBE: Mapping[str, Callable[[Subscriber, Sequence[Any], Call], Subscription]] = {
    "signatureSubscribe": _watch_signature,
    "accountSubscribe": _watch_account,
    "programSubscribe": _watch_program,
    "logsSubscribe": _watch_logs,
    "slotSubscribe": lambda to, _params, _call: SlotWatch(to, roots=False),
    "rootSubscribe": lambda to, _params, _call: SlotWatch(to, roots=True),
}
"""The function that makes each method's subscription; raises `RpcError` for bad parameters. Its
`Call` reads the mint of a token account that must be parsed."""

UNSUBSCRIBE = frozenset(name.replace("Subscribe", "Unsubscribe") for name in SUBSCRIBE)
"""The methods that end a subscription."""


class PubSub:
    """The subscriptions of all WebSocket clients of one localnet; `publish` listens to its commits.

    Attributes:
        ids: ids for future subscriptions.
        subscriptions: the subscriptions of all clients, by id.
    """

    def __init__(self, call: Call, *, max_queued: int = MAX_QUEUED) -> None:
        self.call = call
        self.max_queued = max_queued
        self.ids = itertools.count(1)
        self.subscriptions: dict[int, Subscription] = {}

    def publish(self, commit: Commit) -> None:
        """Notify the subscribed clients of `commit` without blocking. Notifications wait in a queue
        for each client, and a client whose queue is full is disconnected."""
        landed = {each.signature: each for each in commit.transactions}
        for subscription in list(self.subscriptions.values()):
            subscription.publish(commit, landed)

    async def serve_connection(self, socket: ServerConnection) -> None:
        """Serve one client until it disconnects; for `websockets.asyncio.server.serve`."""
        await _Client(self, socket).run()


_Item = str | tuple[str, int, Compute]


class _Client:
    """One connection: its subscriptions and its unsent notifications."""

    def __init__(self, pubsub: PubSub, socket: ServerConnection) -> None:
        self._pubsub = pubsub
        self._socket = socket
        self._queue: asyncio.Queue[_Item] = asyncio.Queue(pubsub.max_queued)
        self._own: set[int] = set()
        self._waiting: list[_Item] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        writer = asyncio.create_task(self._send_queued())
        try:
            async for message in self._socket:
                await self._handle_message(message)
        except ConnectionClosed:
            pass
        finally:
            for subscription_id in list(self._own):
                self.unsubscribe(subscription_id)
            for task in (writer, *self._tasks):
                task.cancel()
            await asyncio.gather(writer, *self._tasks, return_exceptions=True)

    async def _handle_message(self, message: str | bytes) -> None:
        # A client must have a subscription's id before it is notified under that id.
        self._waiting = []
        response = await answer(message, self._call_method)
        waiting, self._waiting = self._waiting, None
        if response is not None:
            self.put(response)
        for item in waiting:
            self.put(item)

    async def _send_queued(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                item = await self._queue.get()
                if isinstance(item, str):
                    await self._socket.send(item)
                    continue
                method, subscription_id, compute = item
                try:
                    result = await compute()
                except Exception:
                    _log.exception("a %s could not be computed", method)
                    continue
                await self._socket.send(_notification(method, subscription_id, result))

    def put(self, item: _Item) -> None:
        if self._waiting is not None:
            self._waiting.append(item)
            return
        try:
            self._queue.put_nowait(item)
        except asyncio.QueueFull:
            _log.warning("disconnected a WebSocket client that does not read its notifications")
            self._socket.transport.abort()

    def unsubscribe(self, subscription_id: int) -> None:
        self._own.discard(subscription_id)
        self._pubsub.subscriptions.pop(subscription_id, None)

    async def _call_method(self, method: str, params: Sequence[Any]) -> Any:
        build = SUBSCRIBE.get(method)
        if build is not None:
            to = Subscriber(self, next(self._pubsub.ids))
            subscription = build(to, params, self._pubsub.call)
            self._pubsub.subscriptions[to.id] = subscription
            self._own.add(to.id)
            # A transaction that landed before the request is notified at once.
            if isinstance(subscription, SignatureWatch):
                task = asyncio.create_task(self._settle_if_landed(to.id, subscription))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            return to.id
        if method in UNSUBSCRIBE:
            if len(params) != 1 or type(params[0]) is not int or params[0] not in self._own:
                raise invalid_params("Invalid subscription id.")
            self.unsubscribe(params[0])
            return True
        raise RpcError(METHOD_NOT_FOUND, "Method not found")

    async def _settle_if_landed(self, subscription_id: int, subscription: SignatureWatch) -> None:
        try:
            options = {"searchTransactionHistory": True}
            asked = [[subscription.signature], options]
            answered = await self._pubsub.call("getSignatureStatuses", asked)
        except Exception:
            # The subscription stays, and is notified when the transaction lands.
            _log.exception("the status of a subscribed signature could not be read")
            return
        status = answered["value"][0]
        if status is not None and subscription_id in self._own:
            subscription.received = False
            slot = answered["context"]["slot"]
            subscription.settle(status["slot"], status["err"], slot)


def _notification(method: str, subscription_id: int, result: Any) -> str:
    params = {"result": result, "subscription": subscription_id}
    return encode({"jsonrpc": "2.0", "method": method, "params": params})

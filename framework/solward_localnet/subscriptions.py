"""WebSocket subscriptions: the requests that make them, and what each is sent of a commit."""

import base64
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from solders.account import Account
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from solward_localnet.accountindex import token_account
from solward_localnet.encoding import check_account_encoding, encode_account
from solward_localnet.errors import invalid_params
from solward_localnet.jsonrpc import Call
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

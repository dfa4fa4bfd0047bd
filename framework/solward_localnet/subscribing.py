"""What a subscription request asks for: its parameters read into a `Subscription`."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from solders.account import Account
from solders.pubkey import Pubkey

from solward.solana.tokens import TOKEN_ACCOUNT_BYTES
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
from solward_localnet.records import Commit
from solward_localnet.subscriptions import (
    AccountChange,
    Encode,
    Logs,
    Notify,
    ProgramChange,
    Signature,
    Slots,
    Subscription,
)


@dataclass(frozen=True, slots=True)
class Request:
    """A subscription request: the id it gets, how its client is told, its parameters.

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
    # A bad slice is the subscriber's mistake, so it is told now and not at the first change.
    encode_account(Account(0, b"", Pubkey.default()), encoding, data_slice, Pubkey.default())

    async def render(address: Pubkey, account: Account, commit: Commit) -> dict[str, Any]:
        known: dict[Pubkey, Account | None] = {}
        data = account.data
        if encoding == "jsonParsed" and len(data) >= TOKEN_ACCOUNT_BYTES:
            mint = Pubkey(data[:32])
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

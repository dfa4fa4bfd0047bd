"""Methods that read accounts."""

import base64
import binascii
from collections.abc import Callable
from typing import Any

from solders.account import Account
from solders.pubkey import Pubkey

from solward.solana.tokens import TOKEN_ACCOUNT_BYTES, TOKEN_ACCOUNT_STATE_AT
from solward.support.base58 import b58decode
from solward_localnet.encoding import check_account_encoding, encode_account
from solward_localnet.errors import invalid_params
from solward_localnet.ledger import LocalLedger
from solward_localnet.methods.base import with_context
from solward_localnet.params import (
    Config,
    Params,
    check_context_slot,
    check_integer,
    config_at,
    flag,
    list_at,
    optional_map,
    optional_string,
    parse_pubkey,
    pubkey_at,
    wrong_type,
)

MAX_MULTIPLE_ACCOUNTS = 100
MAX_FILTERS = 4
MAX_MEMCMP_BYTES = 128

Filter = Callable[[bytes], bool]


def encode(
    ledger: LocalLedger, address: Pubkey, account: Account, config: Config
) -> dict[str, Any]:
    """The `UiAccount` in the encoding and the slice of the configuration."""
    encoding = optional_string(config, "encoding")
    data_slice = optional_map(config, "dataSlice")
    return encode_account(account, encoding, data_slice, address, ledger.vm.account)


def encode_optional(ledger: LocalLedger, address: Pubkey, config: Config) -> dict[str, Any] | None:
    """As `encode`, for the account at `address`; None where there is none."""
    account = ledger.vm.account(address)
    return None if account is None else encode(ledger, address, account, config)


def _checked_config(ledger: LocalLedger, params: Params, index: int) -> Config:
    config = config_at(params, index)
    check_context_slot(config, ledger.chain.slot)
    check_account_encoding(optional_string(config, "encoding"))
    return config


def get_balance(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    address = pubkey_at(params, 0)
    check_context_slot(config_at(params, 1), ledger.chain.slot)
    return with_context(ledger, ledger.vm.balance(address))


def get_account_info(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    address = pubkey_at(params, 0)
    config = _checked_config(ledger, params, 1)
    return with_context(ledger, encode_optional(ledger, address, config))


def get_multiple_accounts(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    wanted = list_at(params, 0)
    if len(wanted) > MAX_MULTIPLE_ACCOUNTS:
        raise invalid_params(f"Too many inputs provided; max {MAX_MULTIPLE_ACCOUNTS}")
    addresses = [parse_pubkey(text) for text in wanted]
    config = dict(_checked_config(ledger, params, 1))
    if config.get("encoding") is None:
        config["encoding"] = "base64"
    return with_context(ledger, [encode_optional(ledger, address, config) for address in addresses])


def get_program_accounts(ledger: LocalLedger, params: Params) -> Any:
    program = pubkey_at(params, 0)
    config = _checked_config(ledger, params, 1)
    filters = account_filters(config)
    found = []
    for address in ledger.vm.index.owned_by_program(program):
        account = ledger.vm.account(address)
        if account is None:
            continue
        data = account.data
        if all(matches(data) for matches in filters):
            found.append((address, account))
    if config.get("sortResults") is not False:
        found.sort(key=lambda pair: bytes(pair[0]))
    answer = keyed_accounts(ledger, found, config)
    return with_context(ledger, answer) if flag(config, "withContext") else answer


def keyed_accounts(
    ledger: LocalLedger, found: list[tuple[Pubkey, Account]], config: Config
) -> list[dict[str, Any]]:
    """Each account with its address, as `RpcKeyedAccount`."""
    return [
        {"account": encode(ledger, address, account, config), "pubkey": str(address)}
        for address, account in found
    ]


def account_filters(config: Config) -> list[Filter]:
    """The predicates over account data of the configuration's `filters`."""
    given = config.get("filters")
    if given is None:
        return []
    if not isinstance(given, list | tuple):
        raise wrong_type(given, "a sequence")
    if len(given) > MAX_FILTERS:
        raise invalid_params(f"Too many filters provided; max {MAX_FILTERS}")
    return [_filter(item) for item in given]


def _filter(item: Any) -> Filter:
    if item == "tokenAccountState":
        return lambda data: len(data) >= TOKEN_ACCOUNT_BYTES and data[TOKEN_ACCOUNT_STATE_AT] != 0
    if isinstance(item, dict) and set(item) == {"dataSize"}:
        size = check_integer(item["dataSize"])
        return lambda data: len(data) == size
    if isinstance(item, dict) and set(item) == {"memcmp"}:
        return _memcmp(item["memcmp"])
    raise invalid_params(
        'Invalid params: a filter is {"memcmp": {"offset", "bytes"}}, {"dataSize"} or'
        f' "tokenAccountState", not {item!r}.'
    )


def _memcmp(comparison: Any) -> Filter:
    if not isinstance(comparison, dict):
        raise wrong_type(comparison, "a map")
    offset = check_integer(comparison.get("offset"))
    wanted = _memcmp_bytes(comparison.get("bytes"), comparison.get("encoding"))
    if len(wanted) > MAX_MEMCMP_BYTES:
        raise invalid_params("Invalid param: filter data too large")
    return lambda data: data[offset : offset + len(wanted)] == wanted


def _memcmp_bytes(value: Any, encoding: Any) -> bytes:
    if encoding not in (None, "base58", "base64", "bytes"):
        raise invalid_params(
            f"Invalid params: unknown variant `{encoding}`, expected `base58` or `base64`."
        )
    try:
        if isinstance(value, list | tuple):
            return bytes(value)
        if not isinstance(value, str):
            raise wrong_type(value, "a string")
        if encoding == "base64":
            return base64.b64decode(value, validate=True)
        return b58decode(value)
    except (ValueError, TypeError, binascii.Error):
        raise invalid_params(
            f"Invalid param: unable to decode the memcmp bytes as {encoding or 'base58'}"
        ) from None


def get_largest_accounts(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    config_at(params, 0)
    largest = ledger.storage.largest_accounts(20)
    return with_context(
        ledger, [{"address": str(key), "lamports": lamports} for key, lamports in largest]
    )


METHODS = {
    "getAccountInfo": get_account_info,
    "getBalance": get_balance,
    "getLargestAccounts": get_largest_accounts,
    "getMultipleAccounts": get_multiple_accounts,
    "getProgramAccounts": get_program_accounts,
}

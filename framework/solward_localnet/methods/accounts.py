"""Methods that read accounts, and token accounts and mints, of both token programs."""

import base64
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from solders.account import Account
from solders.pubkey import Pubkey

from solward.solana.programs import TOKEN_PROGRAMS
from solward.solana.tokens import TOKEN_ACCOUNT_BYTES, TOKEN_ACCOUNT_STATE_AT, Mint
from solward.support.base58 import b58decode
from solward_localnet.accountindex import mint_account, token_account
from solward_localnet.encoding import check_account_encoding, encode_account
from solward_localnet.jsonrpc import (
    Config,
    Params,
    check_integer,
    config_at,
    flag,
    invalid_params,
    list_at,
    optional_map,
    optional_string,
    parse_pubkey,
    pubkey_at,
    wrong_type,
)
from solward_localnet.ledger import LocalLedger
from solward_localnet.parsed import ui_token_amount

MAX_MULTIPLE_ACCOUNTS = 100
MAX_FILTERS = 4
MAX_MEMCMP_BYTES = 128

Filter = Callable[[bytes], bool]

LARGEST_ACCOUNTS = 20


def encode(
    ledger: LocalLedger, address: Pubkey, account: Account, config: Config
) -> dict[str, Any]:
    """Return the `UiAccount` in the encoding and the slice of the configuration."""
    encoding = optional_string(config, "encoding")
    data_slice = optional_map(config, "dataSlice")
    return encode_account(account, encoding, data_slice, address, ledger.vm.account)


def encode_optional(ledger: LocalLedger, address: Pubkey, config: Config) -> dict[str, Any] | None:
    """Encode the account at `address` as `encode` does; return None if there is none."""
    account = ledger.vm.account(address)
    return None if account is None else encode(ledger, address, account, config)


def _checked_config(ledger: LocalLedger, params: Params, index: int) -> Config:
    config = config_at(params, index, ledger.chain.slot)
    check_account_encoding(optional_string(config, "encoding"))
    return config


def get_balance(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    address = pubkey_at(params, 0)
    config_at(params, 1, ledger.chain.slot)
    return ledger.with_context(ledger.vm.balance(address))


def get_account_info(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    address = pubkey_at(params, 0)
    config = _checked_config(ledger, params, 1)
    return ledger.with_context(encode_optional(ledger, address, config))


def get_multiple_accounts(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    wanted = list_at(params, 0)
    if len(wanted) > MAX_MULTIPLE_ACCOUNTS:
        raise invalid_params(f"Too many inputs provided; max {MAX_MULTIPLE_ACCOUNTS}")
    addresses = [parse_pubkey(text) for text in wanted]
    config = dict(_checked_config(ledger, params, 1))
    if config.get("encoding") is None:
        config["encoding"] = "base64"
    return ledger.with_context([encode_optional(ledger, address, config) for address in addresses])


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
    return ledger.with_context(answer) if flag(config, "withContext") else answer


def keyed_accounts(
    ledger: LocalLedger, found: list[tuple[Pubkey, Account]], config: Config
) -> list[dict[str, Any]]:
    """Return each account with its address, as `RpcKeyedAccount`."""
    return [
        {"account": encode(ledger, address, account, config), "pubkey": str(address)}
        for address, account in found
    ]


def account_filters(config: Config) -> list[Filter]:
    """Return the configuration's `filters` as predicates over account data."""
    given = config.get("filters")
    if given is None:
        return []
    if not isinstance(given, list | tuple):
        raise wrong_type(given, "a sequence")
    if len(given) > MAX_FILTERS:
        raise invalid_params(f"Too many filters provided; max {MAX_FILTERS}")
    return [_parse_filter(item) for item in given]


def _parse_filter(item: Any) -> Filter:
    if item == "tokenAccountState":
        return lambda data: len(data) >= TOKEN_ACCOUNT_BYTES and data[TOKEN_ACCOUNT_STATE_AT] != 0
    if isinstance(item, dict) and set(item) == {"dataSize"}:
        size = check_integer(item["dataSize"])
        return lambda data: len(data) == size
    if isinstance(item, dict) and set(item) == {"memcmp"}:
        return _parse_memcmp(item["memcmp"])
    raise invalid_params(
        'Invalid params: a filter is {"memcmp": {"offset", "bytes"}}, {"dataSize"} or'
        f' "tokenAccountState", not {item!r}.'
    )


def _parse_memcmp(comparison: Any) -> Filter:
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
    except (ValueError, TypeError):
        raise invalid_params(
            f"Invalid param: unable to decode the memcmp bytes as {encoding or 'base58'}"
        ) from None


def get_largest_accounts(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    config_at(params, 0)
    largest = ledger.storage.largest_accounts(LARGEST_ACCOUNTS)
    return ledger.with_context(
        [{"address": str(key), "lamports": lamports} for key, lamports in largest]
    )


def _find_mint(ledger: LocalLedger, address: Pubkey) -> Mint:
    account = ledger.vm.account(address)
    if account is None:
        raise invalid_params("Invalid param: could not find mint")
    mint = mint_account(address, account)
    if mint is None:
        raise invalid_params("Invalid param: not a Token mint")
    return mint


def get_token_account_balance(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    account = ledger.vm.account(pubkey_at(params, 0))
    config_at(params, 1)
    if account is None:
        raise invalid_params("Invalid param: could not find account")
    token = token_account(account)
    if token is None:
        raise invalid_params("Invalid param: not a Token account")
    mint = _find_mint(ledger, Pubkey.from_string(token.mint))
    return ledger.with_context(ui_token_amount(token.amount, mint.decimals))


def get_token_supply(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    address = pubkey_at(params, 0)
    config_at(params, 1)
    mint = _find_mint(ledger, address)
    return ledger.with_context(ui_token_amount(mint.supply, mint.decimals))


def get_token_largest_accounts(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    address = pubkey_at(params, 0)
    config_at(params, 1)
    decimals = _find_mint(ledger, address).decimals
    holders = []
    for holder in ledger.vm.index.token_accounts_with_mint(address):
        token = token_account(ledger.vm.account(holder))
        if token is not None:
            holders.append((token.amount, str(holder)))
    holders.sort(key=lambda holder: (-holder[0], holder[1]))
    return ledger.with_context(
        [
            {"address": holder, **ui_token_amount(amount, decimals)}
            for amount, holder in holders[:LARGEST_ACCOUNTS]
        ],
    )


def get_token_accounts_by_owner(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    owner = pubkey_at(params, 0)
    return _list_token_accounts(ledger, params, ledger.vm.index.token_accounts_of(owner))


def get_token_accounts_by_delegate(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    delegate = str(pubkey_at(params, 0))
    every = chain.from_iterable(map(ledger.vm.index.owned_by_program, TOKEN_PROGRAMS))
    return _list_token_accounts(ledger, params, every, delegate)


def _list_token_accounts(
    ledger: LocalLedger, params: Params, addresses: Iterable[Pubkey], delegate: str | None = None
) -> dict[str, Any]:
    """Return the token accounts at `addresses` that belong to the mint or program in `params`, and
    have the `delegate` if one is given."""
    mint, program = _parse_owner_filter(ledger, params)
    config = _checked_config(ledger, params, 2)
    found = []
    for address in addresses:
        account = ledger.vm.account(address)
        token = token_account(account)
        if account is None or token is None or (program is not None and account.owner != program):
            continue
        if mint in (None, token.mint) and delegate in (None, token.delegate):
            found.append((address, account))
    found.sort(key=lambda pair: bytes(pair[0]))
    return ledger.with_context(keyed_accounts(ledger, found, config))


def _parse_owner_filter(ledger: LocalLedger, params: Params) -> tuple[str | None, Pubkey | None]:
    if len(params) < 2:
        raise invalid_params("`params` should have at least 2 argument(s)")
    wanted = params[1]
    if not isinstance(wanted, dict):
        raise wrong_type(wanted, 'a map with "mint" or "programId"')
    if wanted.get("mint") is not None:
        mint = parse_pubkey(wanted["mint"])
        _find_mint(ledger, mint)
        return str(mint), None
    if wanted.get("programId") is not None:
        program = parse_pubkey(wanted["programId"])
        if str(program) not in TOKEN_PROGRAMS:
            raise invalid_params("Invalid param: unrecognized Token program id")
        return None, program
    raise invalid_params('Invalid params: expected a map with "mint" or "programId".')


METHODS = {
    "getAccountInfo": get_account_info,
    "getBalance": get_balance,
    "getLargestAccounts": get_largest_accounts,
    "getMultipleAccounts": get_multiple_accounts,
    "getProgramAccounts": get_program_accounts,
    "getTokenAccountBalance": get_token_account_balance,
    "getTokenAccountsByDelegate": get_token_accounts_by_delegate,
    "getTokenAccountsByOwner": get_token_accounts_by_owner,
    "getTokenLargestAccounts": get_token_largest_accounts,
    "getTokenSupply": get_token_supply,
}

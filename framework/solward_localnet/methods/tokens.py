"""Methods about token accounts and mints, of both token programs."""

from typing import Any

from solders.account import Account
from solders.pubkey import Pubkey

from solward.solana.programs import TOKEN_PROGRAMS
from solward_localnet import accountindex as layout
from solward_localnet.encoding import check_account_encoding
from solward_localnet.errors import invalid_params
from solward_localnet.ledger import Ledger
from solward_localnet.methods.accounts import keyed_accounts
from solward_localnet.methods.base import with_context
from solward_localnet.params import (
    Params,
    check_context_slot,
    config_at,
    optional_string,
    parse_pubkey,
    pubkey_at,
    wrong_type,
)
from solward_localnet.parsed.tokens import ui_token_amount

LARGEST_ACCOUNTS = 20


def _token_account(ledger: Ledger, address: Pubkey) -> Account:
    account = ledger.vm.account(address)
    if account is None:
        raise invalid_params("Invalid param: could not find account")
    if not layout.is_token_account(account):
        raise invalid_params("Invalid param: not a Token account")
    return account


def _mint(ledger: Ledger, address: Pubkey) -> Account:
    account = ledger.vm.account(address)
    if account is None:
        raise invalid_params("Invalid param: could not find mint")
    if not layout.is_mint(account):
        raise invalid_params("Invalid param: not a Token mint")
    return account


def get_token_account_balance(ledger: Ledger, params: Params) -> dict[str, Any]:
    address = pubkey_at(params, 0)
    config_at(params, 1)
    data = _token_account(ledger, address).data
    decimals = layout.mint_decimals(_mint(ledger, layout.token_mint(data)).data)
    return with_context(ledger, ui_token_amount(layout.token_amount(data), decimals))


def get_token_supply(ledger: Ledger, params: Params) -> dict[str, Any]:
    mint = pubkey_at(params, 0)
    config_at(params, 1)
    data = _mint(ledger, mint).data
    return with_context(
        ledger, ui_token_amount(layout.mint_supply(data), layout.mint_decimals(data))
    )


def get_token_largest_accounts(ledger: Ledger, params: Params) -> dict[str, Any]:
    mint = pubkey_at(params, 0)
    config_at(params, 1)
    decimals = layout.mint_decimals(_mint(ledger, mint).data)
    holders = []
    for address in ledger.vm.index.token_accounts_with_mint(mint):
        account = ledger.vm.account(address)
        if account is not None:
            holders.append((layout.token_amount(account.data), str(address)))
    holders.sort(key=lambda holder: (-holder[0], holder[1]))
    return with_context(
        ledger,
        [
            {"address": address, **ui_token_amount(amount, decimals)}
            for amount, address in holders[:LARGEST_ACCOUNTS]
        ],
    )


def get_token_accounts_by_owner(ledger: Ledger, params: Params) -> dict[str, Any]:
    owner = pubkey_at(params, 0)
    mint, program = _mint_or_program(ledger, params)
    config = config_at(params, 2)
    check_context_slot(config, ledger.chain.slot)
    check_account_encoding(optional_string(config, "encoding"))
    found = []
    for address in ledger.vm.index.token_accounts_of(owner):
        account = ledger.vm.account(address)
        if account is None or (program is not None and account.owner != program):
            continue
        if mint is None or layout.token_mint(account.data) == mint:
            found.append((address, account))
    found.sort(key=lambda pair: bytes(pair[0]))
    return with_context(ledger, keyed_accounts(ledger, found, config))


def _mint_or_program(ledger: Ledger, params: Params) -> tuple[Pubkey | None, Pubkey | None]:
    if len(params) < 2:
        raise invalid_params("`params` should have at least 2 argument(s)")
    wanted = params[1]
    if not isinstance(wanted, dict):
        raise wrong_type(wanted, 'a map with "mint" or "programId"')
    if wanted.get("mint") is not None:
        mint = parse_pubkey(wanted["mint"])
        _mint(ledger, mint)
        return mint, None
    if wanted.get("programId") is not None:
        program = parse_pubkey(wanted["programId"])
        if str(program) not in TOKEN_PROGRAMS:
            raise invalid_params("Invalid param: unrecognized Token program id")
        return None, program
    raise invalid_params('Invalid params: expected a map with "mint" or "programId".')


METHODS = {
    "getTokenAccountBalance": get_token_account_balance,
    "getTokenAccountsByOwner": get_token_accounts_by_owner,
    "getTokenLargestAccounts": get_token_largest_accounts,
    "getTokenSupply": get_token_supply,
}

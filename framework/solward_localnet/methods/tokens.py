"""Methods about token accounts and mints, of both token programs."""

from typing import Any

from solders.pubkey import Pubkey

from solward.solana.programs import TOKEN_PROGRAMS
from solward.solana.tokens import Mint
from solward_localnet.accountindex import mint_account, token_account
from solward_localnet.encoding import check_account_encoding
from solward_localnet.errors import invalid_params
from solward_localnet.ledger import LocalLedger
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


def _mint(ledger: LocalLedger, address: Pubkey) -> Mint:
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
    mint = _mint(ledger, Pubkey.from_string(token.mint))
    return with_context(ledger, ui_token_amount(token.amount, mint.decimals))


def get_token_supply(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    address = pubkey_at(params, 0)
    config_at(params, 1)
    mint = _mint(ledger, address)
    return with_context(ledger, ui_token_amount(mint.supply, mint.decimals))


def get_token_largest_accounts(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    address = pubkey_at(params, 0)
    config_at(params, 1)
    decimals = _mint(ledger, address).decimals
    holders = []
    for holder in ledger.vm.index.token_accounts_with_mint(address):
        token = token_account(ledger.vm.account(holder))
        if token is not None:
            holders.append((token.amount, str(holder)))
    holders.sort(key=lambda holder: (-holder[0], holder[1]))
    return with_context(
        ledger,
        [
            {"address": holder, **ui_token_amount(amount, decimals)}
            for amount, holder in holders[:LARGEST_ACCOUNTS]
        ],
    )


def get_token_accounts_by_owner(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    owner = pubkey_at(params, 0)
    mint, program = _mint_or_program(ledger, params)
    config = config_at(params, 2)
    check_context_slot(config, ledger.chain.slot)
    check_account_encoding(optional_string(config, "encoding"))
    found = []
    for address in ledger.vm.index.token_accounts_of(owner):
        account = ledger.vm.account(address)
        token = token_account(account)
        if account is None or token is None or (program is not None and account.owner != program):
            continue
        if mint is None or token.mint == str(mint):
            found.append((address, account))
    found.sort(key=lambda pair: bytes(pair[0]))
    return with_context(ledger, keyed_accounts(ledger, found, config))


def get_token_accounts_by_delegate(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    delegate = pubkey_at(params, 0)
    mint, program = _mint_or_program(ledger, params)
    config = config_at(params, 2)
    check_context_slot(config, ledger.chain.slot)
    check_account_encoding(optional_string(config, "encoding"))
    programs = [program] if program is not None else map(Pubkey.from_string, TOKEN_PROGRAMS)
    found = []
    for owner in programs:
        for address in ledger.vm.index.owned_by_program(owner):
            account = ledger.vm.account(address)
            token = token_account(account)
            if account is None or token is None or token.delegate != str(delegate):
                continue
            if mint is None or token.mint == str(mint):
                found.append((address, account))
    found.sort(key=lambda pair: bytes(pair[0]))
    return with_context(ledger, keyed_accounts(ledger, found, config))


def _mint_or_program(ledger: LocalLedger, params: Params) -> tuple[Pubkey | None, Pubkey | None]:
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
    "getTokenAccountsByDelegate": get_token_accounts_by_delegate,
    "getTokenAccountsByOwner": get_token_accounts_by_owner,
    "getTokenLargestAccounts": get_token_largest_accounts,
    "getTokenSupply": get_token_supply,
}

"""simulateTransaction."""

from typing import Any

from solders.pubkey import Pubkey

from solward_localnet.encoding import check_account_encoding, decode_transaction, encode_account
from solward_localnet.errors import invalid_params
from solward_localnet.execution import Execution
from solward_localnet.landing import (
    balances,
    read_transaction,
    refusal,
    signature_failure,
    signatures_hold,
    token_balances,
)
from solward_localnet.ledger import LocalLedger
from solward_localnet.methods.base import with_context
from solward_localnet.methods.cluster import latest_blockhash
from solward_localnet.params import (
    Config,
    Params,
    check_context_slot,
    config_at,
    flag,
    list_at,
    optional_map,
    optional_string,
    parse_pubkey,
    string_at,
)
from solward_localnet.txjson import parsed_inner_instructions


def simulate_transaction(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    """What sending would do, without doing it.

    `replaceRecentBlockhash` leaves the blockhash and the duplicate unchecked: with neither checked
    the outcome is that of a fresh blockhash, which is returned.
    """
    text = string_at(params, 0)
    config = config_at(params, 1)
    check_context_slot(config, ledger.chain.slot)
    verify, replace = flag(config, "sigVerify"), flag(config, "replaceRecentBlockhash")
    if verify and replace:
        raise invalid_params("sigVerify may not be used with replaceRecentBlockhash")
    wire = decode_transaction(text, optional_string(config, "encoding") or "base58")
    tx = read_transaction(wire)
    if verify and not signatures_hold(tx):
        raise signature_failure()
    wanted, encoding = _wanted_accounts(config, ledger.vm.keys(tx.message).all)
    refused = None if replace else refusal(ledger, tx)[0]
    value: dict[str, Any]
    if refused is not None:
        value = _refused(refused, None if wanted is None else len(wanted))
    else:
        execution = ledger.vm.simulate(tx)
        value = _outcome(ledger, execution)
        value["accounts"] = _accounts(ledger, execution, wanted, encoding)
        if flag(config, "innerInstructions"):
            addresses = [str(key) for key in execution.keys.all]
            value["innerInstructions"] = parsed_inner_instructions(execution.inner, addresses)
    value["replacementBlockhash"] = latest_blockhash(ledger) if replace else None
    return with_context(ledger, value)


def _wanted_accounts(
    config: Config, keys: tuple[Pubkey, ...]
) -> tuple[list[Pubkey] | None, str | None]:
    accounts = optional_map(config, "accounts")
    if accounts is None:
        return None, None
    encoding = optional_string(accounts, "encoding") or "base64"
    check_account_encoding(encoding)
    if encoding in ("binary", "base58"):
        raise invalid_params("base58 encoding not supported")
    addresses = list_at([accounts.get("addresses")], 0)
    if len(addresses) > len(keys):
        raise invalid_params(f"Too many accounts provided; max {len(keys)}")
    return [parse_pubkey(address) for address in addresses], encoding


def _accounts(
    ledger: LocalLedger, execution: Execution, wanted: list[Pubkey] | None, encoding: str | None
) -> list[dict[str, Any] | None] | None:
    if wanted is None:
        return None
    if execution.err is not None:
        return [None] * len(wanted)
    states = zip(execution.keys.all, execution.keys.writable, execution.post, strict=True)
    after = {key: post for key, writable, post in states if writable}
    found: list[dict[str, Any] | None] = []
    for address in wanted:
        account = after[address] if address in after else ledger.vm.account(address)

        def lookup(key: Pubkey) -> Any:
            return after[key] if key in after else ledger.vm.account(key)

        found.append(
            None if account is None else encode_account(account, encoding, None, address, lookup)
        )
    return found


def _outcome(ledger: LocalLedger, execution: Execution) -> dict[str, Any]:
    keys = execution.keys
    return {
        "accounts": None,
        "err": execution.err,
        "fee": execution.fee,
        "innerInstructions": None,
        "loadedAccountsDataSize": sum(len(a.data) for a in execution.pre if a is not None),
        "loadedAddresses": {
            "readonly": [str(key) for key in keys.loaded_readonly],
            "writable": [str(key) for key in keys.loaded_writable],
        },
        "logs": list(execution.logs),
        "postBalances": list(balances(execution.post)),
        "postTokenBalances": list(token_balances(ledger, execution, execution.post)),
        "preBalances": list(balances(execution.pre)),
        "preTokenBalances": list(token_balances(ledger, execution, execution.pre)),
        "returnData": execution.return_data,
        "unitsConsumed": execution.compute_units,
    }


def _refused(err: str, accounts: int | None) -> dict[str, Any]:
    return {
        "accounts": None if accounts is None else [None] * accounts,
        "err": err,
        "fee": None,
        "innerInstructions": None,
        "loadedAccountsDataSize": 0,
        "loadedAddresses": None,
        "logs": [],
        "postBalances": None,
        "postTokenBalances": None,
        "preBalances": None,
        "preTokenBalances": None,
        "returnData": None,
        "unitsConsumed": 0,
    }

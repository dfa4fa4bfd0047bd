"""Methods that send transactions and read their history, and methods about blocks: every slot has
a block with the transactions that landed in the slot."""

from typing import Any

from solders.account import Account
from solders.compute_budget import set_compute_unit_limit
from solders.hash import Hash
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from solward.solana.builders import pay
from solward_localnet.encoding import check_account_encoding, encode_account
from solward_localnet.jsonrpc import (
    BLOCK_NOT_AVAILABLE,
    Config,
    Params,
    RpcError,
    at_least_confirmed,
    check_context_slot,
    check_integer,
    check_variant,
    config_at,
    flag,
    integer_at,
    invalid_params,
    list_at,
    optional_integer,
    optional_map,
    optional_string,
    parse_blockhash,
    parse_pubkey,
    parse_signature,
    pubkey_at,
    string_at,
    wrong_type,
)
from solward_localnet.landing import (
    balances,
    has_valid_signatures,
    land,
    message_hash,
    read_transaction,
    signature_failure,
    simulation_json,
    token_balances,
    why_refused,
)
from solward_localnet.ledger import LocalLedger
from solward_localnet.methods.cluster import latest_blockhash
from solward_localnet.txjson import decode_transaction, parsed_inner_instructions, transaction_json
from solward_localnet.vm import Execution

MAX_BLOCK_RANGE = 500_000


def _block_slot(ledger: LocalLedger, params: Params) -> int:
    slot = integer_at(params, 0)
    if slot > ledger.chain.slot:
        raise RpcError(BLOCK_NOT_AVAILABLE, f"Block not available for slot {slot}")
    return slot


def get_block(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    """Return the block of a slot. The current slot's block may still grow."""
    slot = _block_slot(ledger, params)
    config = config_at(params, 1)
    at_least_confirmed(config)
    details = optional_string(config, "transactionDetails") or "full"
    check_variant(details, ("full", "signatures", "none"))
    previous = max(0, slot - 1)
    block: dict[str, Any] = {
        "blockHeight": slot,
        "blockTime": ledger.chain.block_time(slot),
        "blockhash": str(Hash(ledger.chain.blockhash(slot))),
        "parentSlot": previous,
        "previousBlockhash": str(Hash(ledger.chain.blockhash(previous))),
    }
    if config.get("rewards") is not False:
        block["rewards"] = []
    records = [] if details == "none" else ledger.storage.transactions_in(slot)
    if details == "signatures":
        block["signatures"] = [record.signature for record in records]
    elif details == "full":
        encoding = optional_string(config, "encoding") or "json"
        highest = max_version(config.get("maxSupportedTransactionVersion"))
        block["transactions"] = [
            {
                name: value
                for name, value in transaction_json(record, encoding, highest).items()
                if name not in ("slot", "blockTime")
            }
            for record in records
        ]
    return block


def max_version(value: Any) -> int | None:
    """Return `maxSupportedTransactionVersion` as an integer, None if it is not given."""
    if value is None:
        return None
    if check_integer(value) > 255:
        raise wrong_type(value, "u8")
    return int(value)


def get_block_time(ledger: LocalLedger, params: Params) -> int:
    return ledger.chain.block_time(_block_slot(ledger, params))


def get_blocks(ledger: LocalLedger, params: Params) -> list[int]:
    first = integer_at(params, 0)
    last = min(integer_at(params, 1, default=ledger.chain.slot), ledger.chain.slot)
    if last - first > MAX_BLOCK_RANGE:
        raise invalid_params(f"Slot range too large; max {MAX_BLOCK_RANGE}")
    return list(range(first, last + 1))


def get_blocks_with_limit(ledger: LocalLedger, params: Params) -> list[int]:
    first, limit = integer_at(params, 0), integer_at(params, 1)
    if limit > MAX_BLOCK_RANGE:
        raise invalid_params(f"Limit too large; max {MAX_BLOCK_RANGE}")
    return list(range(first, min(first + limit, ledger.chain.slot + 1)))


def get_block_commitment(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    """Return no commitment for any block: on a localnet nobody votes."""
    integer_at(params, 0)
    return {"commitment": None, "totalStake": sum(ledger.stakes().values())}


def get_block_production(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    """Return one block a slot for the one validator, which leads every slot and skips none."""
    config = config_at(params, 0)
    epoch_start = ledger.chain.epoch * ledger.chain.slots_per_epoch
    wanted = optional_map(config, "range") or {}
    first = check_integer(wanted.get("firstSlot", epoch_start))
    last = wanted.get("lastSlot")
    last = ledger.chain.slot if last is None else check_integer(last)
    if not first <= last <= ledger.chain.slot:
        raise invalid_params(f"Invalid slot range [{first}, {last}]")
    identity, asked = ledger.cast.identity.pubkey(), optional_string(config, "identity")
    slots = last - first + 1
    is_asked = asked is None or parse_pubkey(asked) == identity
    value = {
        "byIdentity": {str(identity): [slots, slots]} if is_asked else {},
        "range": {"firstSlot": first, "lastSlot": last},
    }
    return ledger.with_context(value)


MAX_STATUSES = 256
MAX_SIGNATURES = 1000

RECENT_SLOTS = 300
"""Slots that `getSignatureStatuses` searches without `searchTransactionHistory`, as in Agave."""

_AIRDROP_COMPUTE_UNITS = 1_000


def simulate_transaction(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    """Simulate a transaction: report the outcome of sending it, and change nothing.

    `replaceRecentBlockhash` skips the checks of the blockhash and for a duplicate. The outcome is
    then the same as with a fresh blockhash, which is returned.
    """
    text = string_at(params, 0)
    config = config_at(params, 1, ledger.chain.slot)
    verify, replace = flag(config, "sigVerify"), flag(config, "replaceRecentBlockhash")
    if verify and replace:
        raise invalid_params("sigVerify may not be used with replaceRecentBlockhash")
    wire = decode_transaction(text, optional_string(config, "encoding") or "base58")
    tx = read_transaction(wire, takes_version_1=ledger.options.takes_version_1)
    if verify and not has_valid_signatures(tx):
        raise signature_failure()
    wanted, encoding = _wanted_accounts(config, ledger.vm.keys(tx.message).all)
    refused = None if replace else why_refused(ledger, tx)[0]
    execution = ledger.vm.simulate(tx) if refused is None else None
    value = simulation_json(refused) if execution is None else _simulation_fields(ledger, execution)
    value["accounts"] = _simulated_accounts(ledger, execution, wanted, encoding)
    if execution is not None and flag(config, "innerInstructions"):
        addresses = [str(key) for key in execution.keys.all]
        value["innerInstructions"] = parsed_inner_instructions(execution.inner, addresses)
    value["replacementBlockhash"] = latest_blockhash(ledger) if replace else None
    return ledger.with_context(value)


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


def _simulated_accounts(
    ledger: LocalLedger,
    execution: Execution | None,
    wanted: list[Pubkey] | None,
    encoding: str | None,
) -> list[dict[str, Any] | None] | None:
    if wanted is None:
        return None
    if execution is None or execution.err is not None:
        return [None] * len(wanted)
    states = zip(execution.keys.all, execution.keys.writable, execution.post, strict=True)
    after = {key: post for key, writable, post in states if writable}

    def account(key: Pubkey) -> Account | None:
        return after[key] if key in after else ledger.vm.account(key)

    found = [(address, account(address)) for address in wanted]
    return [
        None if state is None else encode_account(state, encoding, None, address, account)
        for address, state in found
    ]


def _simulation_fields(ledger: LocalLedger, execution: Execution) -> dict[str, Any]:
    keys = execution.keys
    return simulation_json(execution.err, execution) | {
        "loadedAccountsDataSize": execution.loaded_bytes,
        "loadedAddresses": {
            "readonly": [str(key) for key in keys.loaded_readonly],
            "writable": [str(key) for key in keys.loaded_writable],
        },
        "postBalances": list(balances(execution.post)),
        "postTokenBalances": list(token_balances(ledger, execution, execution.post)),
        "preBalances": list(balances(execution.pre)),
        "preTokenBalances": list(token_balances(ledger, execution, execution.pre)),
    }


def send_transaction(ledger: LocalLedger, params: Params) -> str:
    text = string_at(params, 0)
    config = config_at(params, 1, ledger.chain.slot)
    optional_integer(config, "maxRetries")
    wire = decode_transaction(text, optional_string(config, "encoding") or "base58")
    preflight = not flag(config, "skipPreflight")
    tx = read_transaction(wire, takes_version_1=ledger.options.takes_version_1)
    return land(ledger, tx, wire, preflight=preflight)


def request_airdrop(ledger: LocalLedger, params: Params) -> str:
    """Return the signature of a transfer from the faucet, which lands like any other transaction.

    The transfer is refused, as a failed preflight, if a network would drop it, such as one that
    leaves a new account below the rent.
    """
    address = pubkey_at(params, 0)
    lamports = integer_at(params, 1)
    config = config_at(params, 2)
    most = ledger.options.max_airdrop_lamports
    if not 0 < lamports <= most:
        raise invalid_params(
            f"Invalid param: an airdrop must be of 1 to {most} lamports, not {lamports}"
        )
    given = optional_string(config, "recentBlockhash")
    blockhash = Hash(ledger.chain.blockhash() if given is None else parse_blockhash(given))
    tx = _make_airdrop(ledger, address, lamports, blockhash)
    return land(ledger, tx, bytes(tx), preflight=True)


def _make_airdrop(
    ledger: LocalLedger, address: Pubkey, lamports: int, blockhash: Hash
) -> VersionedTransaction:
    faucet = ledger.cast.faucet
    paid = pay(str(faucet.pubkey()), str(address), lamports)
    instructions, units = [paid], _AIRDROP_COMPUTE_UNITS
    while True:
        message = MessageV0.try_compile(faucet.pubkey(), instructions, [], blockhash)
        tx = VersionedTransaction(message, [faucet])
        if not ledger.storage.has_message(message_hash(tx)):
            return tx
        # Equal airdrops within one slot differ by their compute limit, and so in their signature.
        units += 1
        instructions = [set_compute_unit_limit(units), paid]


def get_signature_statuses(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    wanted = list_at(params, 0)
    if len(wanted) > MAX_STATUSES:
        raise invalid_params(f"Too many inputs provided; max {MAX_STATUSES}")
    signatures = [parse_signature(text) for text in wanted]
    config = config_at(params, 1)
    oldest = 0 if flag(config, "searchTransactionHistory") else ledger.chain.slot - RECENT_SLOTS
    return ledger.with_context([_signature_status(ledger, text, oldest) for text in signatures])


def _signature_status(ledger: LocalLedger, signature: str, oldest: int) -> dict[str, Any] | None:
    found = ledger.storage.status(signature)
    if found is None or found[0] < oldest:
        return None
    slot, err = found
    level = confirmation_status(ledger, slot)
    return {
        "confirmationStatus": level,
        "confirmations": None if level == "finalized" else 0,
        "err": err,
        "slot": slot,
        "status": {"Ok": None} if err is None else {"Err": err},
    }


def confirmation_status(ledger: LocalLedger, slot: int) -> str:
    """Return the status of transactions that landed in `slot`. They are finalized at once; with
    finality `tower` they are first confirmed, and finalized one slot later."""
    is_tower = ledger.options.finality == "tower"
    return "confirmed" if is_tower and slot >= ledger.chain.slot else "finalized"


def get_signatures_for_address(ledger: LocalLedger, params: Params) -> list[dict[str, Any]]:
    address = pubkey_at(params, 0)
    config = config_at(params, 1)
    at_least_confirmed(config)
    check_context_slot(config, ledger.chain.slot)
    limit = optional_integer(config, "limit")
    limit = MAX_SIGNATURES if limit is None else limit
    if not 1 <= limit <= MAX_SIGNATURES:
        raise invalid_params(f"Invalid limit; max {MAX_SIGNATURES}")
    before, until = _sequence(ledger, config, "before"), _sequence(ledger, config, "until")
    if config.get("before") is not None and before is None:
        return []
    found = ledger.storage.signatures_for(address, before=before, until=until, limit=limit)
    return [
        {
            "blockTime": block_time,
            "confirmationStatus": confirmation_status(ledger, slot),
            "err": err,
            "memo": memo,
            "signature": signature,
            "slot": slot,
        }
        for signature, slot, block_time, err, memo in found
    ]


def _sequence(ledger: LocalLedger, config: Config, name: str) -> int | None:
    text = config.get(name)
    return None if text is None else ledger.storage.sequence(parse_signature(text))


def get_transaction(ledger: LocalLedger, params: Params) -> dict[str, Any] | None:
    signature = parse_signature(string_at(params, 0))
    config: Config
    # The oldest form of the call has the encoding alone in place of the configuration.
    if len(params) > 1 and isinstance(params[1], str):
        config = {"encoding": params[1]}
    else:
        config = config_at(params, 1)
    at_least_confirmed(config)
    highest = max_version(config.get("maxSupportedTransactionVersion"))
    record = ledger.storage.transaction(signature)
    if record is None:
        return None
    return transaction_json(record, optional_string(config, "encoding") or "json", highest)


METHODS = {
    "getBlock": get_block,
    "getBlockCommitment": get_block_commitment,
    "getBlockProduction": get_block_production,
    "getBlockTime": get_block_time,
    "getBlocks": get_blocks,
    "getBlocksWithLimit": get_blocks_with_limit,
    "getSignatureStatuses": get_signature_statuses,
    "getSignaturesForAddress": get_signatures_for_address,
    "getTransaction": get_transaction,
    "requestAirdrop": request_airdrop,
    "sendTransaction": send_transaction,
    "simulateTransaction": simulate_transaction,
}

"""Methods that send transactions and read their history."""

from typing import Any

from solders.compute_budget import set_compute_unit_limit
from solders.hash import Hash
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from solward_localnet.encoding import decode_transaction
from solward_localnet.errors import invalid_params
from solward_localnet.landing import land, message_hash, read_transaction
from solward_localnet.ledger import LocalLedger
from solward_localnet.methods.base import with_context
from solward_localnet.methods.blocks import max_version
from solward_localnet.methods.simulation import simulate_transaction
from solward_localnet.params import (
    Config,
    Params,
    at_least_confirmed,
    check_context_slot,
    config_at,
    flag,
    integer_at,
    list_at,
    optional_integer,
    optional_string,
    parse_blockhash,
    parse_signature,
    pubkey_at,
    string_at,
)
from solward_localnet.txjson import transaction_json

MAX_STATUSES = 256
MAX_SIGNATURES = 1000

RECENT_SLOTS = 300
"""How far back `getSignatureStatuses` looks without `searchTransactionHistory`: Agave's cache."""

_AIRDROP_COMPUTE_UNITS = 1_000


def send_transaction(ledger: LocalLedger, params: Params) -> str:
    text = string_at(params, 0)
    config = config_at(params, 1)
    check_context_slot(config, ledger.chain.slot)
    optional_integer(config, "maxRetries")
    wire = decode_transaction(text, optional_string(config, "encoding") or "base58")
    preflight = not flag(config, "skipPreflight")
    return land(ledger, read_transaction(wire), wire, preflight=preflight)


def request_airdrop(ledger: LocalLedger, params: Params) -> str:
    """A transfer from the faucet, signed, landed and recorded like any other.

    Refused, as a failed preflight, where the network would drop it (a new account below rent).
    """
    address = pubkey_at(params, 0)
    lamports = integer_at(params, 1)
    config = config_at(params, 2)
    most = ledger.options.max_airdrop_lamports
    if not 0 < lamports <= most:
        raise invalid_params(
            f"Invalid param: an airdrop is of 1 to {most} lamports, not {lamports}"
        )
    given = optional_string(config, "recentBlockhash")
    blockhash = Hash(ledger.chain.blockhash() if given is None else parse_blockhash(given))
    tx = _airdrop(ledger, address, lamports, blockhash)
    return land(ledger, tx, bytes(tx), preflight=True)


def _airdrop(
    ledger: LocalLedger, address: Pubkey, lamports: int, blockhash: Hash
) -> VersionedTransaction:
    faucet = ledger.cast.faucet
    pay = transfer(
        TransferParams(from_pubkey=faucet.pubkey(), to_pubkey=address, lamports=lamports)
    )
    instructions, units = [pay], _AIRDROP_COMPUTE_UNITS
    while True:
        message = MessageV0.try_compile(faucet.pubkey(), instructions, [], blockhash)
        tx = VersionedTransaction(message, [faucet])
        if not ledger.storage.has_message(message_hash(tx)):
            return tx
        # Equal airdrops within one slot differ by their compute limit, and so in their signature.
        units += 1
        instructions = [set_compute_unit_limit(units), pay]


def get_signature_statuses(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    wanted = list_at(params, 0)
    if len(wanted) > MAX_STATUSES:
        raise invalid_params(f"Too many inputs provided; max {MAX_STATUSES}")
    signatures = [parse_signature(text) for text in wanted]
    config = config_at(params, 1)
    oldest = 0 if flag(config, "searchTransactionHistory") else ledger.chain.slot - RECENT_SLOTS
    return with_context(ledger, [_status(ledger, text, oldest) for text in signatures])


def _status(ledger: LocalLedger, signature: str, oldest: int) -> dict[str, Any] | None:
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
    """A transaction is confirmed at once, there being one validator, and final a slot later."""
    return "finalized" if slot < ledger.chain.slot else "confirmed"


def get_signatures_for_address(ledger: LocalLedger, params: Params) -> list[dict[str, Any]]:
    address = pubkey_at(params, 0)
    config = config_at(params, 1)
    at_least_confirmed(config)
    check_context_slot(config, ledger.chain.slot)
    limit = optional_integer(config, "limit")
    limit = MAX_SIGNATURES if limit is None else limit
    if not 1 <= limit <= MAX_SIGNATURES:
        raise invalid_params(f"Invalid limit; max {MAX_SIGNATURES}")
    before, until = _bound(ledger, config, "before"), _bound(ledger, config, "until")
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


def _bound(ledger: LocalLedger, config: Config, name: str) -> int | None:
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
    "getSignatureStatuses": get_signature_statuses,
    "getSignaturesForAddress": get_signatures_for_address,
    "getTransaction": get_transaction,
    "requestAirdrop": request_airdrop,
    "sendTransaction": send_transaction,
    "simulateTransaction": simulate_transaction,
}

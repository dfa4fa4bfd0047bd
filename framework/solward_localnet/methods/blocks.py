"""Methods about blocks: there is one in every slot, and it holds what landed in the slot."""

from typing import Any

from solders.hash import Hash

from solward_localnet.errors import BLOCK_NOT_AVAILABLE, RpcError, check_variant, invalid_params
from solward_localnet.ledger import LocalLedger
from solward_localnet.params import (
    Params,
    at_least_confirmed,
    check_integer,
    config_at,
    integer_at,
    optional_map,
    optional_string,
    parse_pubkey,
    wrong_type,
)
from solward_localnet.txjson import transaction_json

MAX_BLOCK_RANGE = 500_000


def _slot_at(ledger: LocalLedger, params: Params) -> int:
    slot = integer_at(params, 0)
    if slot > ledger.chain.slot:
        raise RpcError(BLOCK_NOT_AVAILABLE, f"Block not available for slot {slot}")
    return slot


def get_block(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    """The block of a slot. The current slot's may still grow."""
    slot = _slot_at(ledger, params)
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
    """`maxSupportedTransactionVersion`, None where it is not given."""
    if value is None:
        return None
    if check_integer(value) > 255:
        raise wrong_type(value, "u8")
    return int(value)


def get_block_time(ledger: LocalLedger, params: Params) -> int:
    return ledger.chain.block_time(_slot_at(ledger, params))


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
    """Nobody votes here, so no block has stake on it."""
    integer_at(params, 0)
    return {"commitment": None, "totalStake": sum(ledger.stakes().values())}


def get_block_production(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    """The one validator leads every slot, and none is skipped."""
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


METHODS = {
    "getBlock": get_block,
    "getBlockCommitment": get_block_commitment,
    "getBlockProduction": get_block_production,
    "getBlockTime": get_block_time,
    "getBlocks": get_blocks,
    "getBlocksWithLimit": get_blocks_with_limit,
}

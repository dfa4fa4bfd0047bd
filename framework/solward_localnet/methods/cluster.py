"""Methods about the chain and its one validator: slots, blockhashes, epochs, fees, votes; and those
that only tests may call: they let time pass."""

import base64
from collections.abc import Callable, Mapping
from typing import Any

from solana.constants import STAKE_PROGRAM_ID
from solders.hash import Hash
from solders.instruction import Instruction
from solders.message import MessageV0, from_bytes_versioned
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from solward.solana.message import fee_terms
from solward.solana.protocol import MAX_LOCALNET_RENT_PER_BYTE, Stake
from solward_localnet.jsonrpc import (
    BLOCK_NOT_AVAILABLE,
    Params,
    RpcError,
    check_integer,
    config_at,
    integer_at,
    invalid_params,
    list_at,
    optional_string,
    parse_blockhash,
    parse_pubkey,
    string_at,
)
from solward_localnet.ledger import API_VERSION, COMMISSION_PERCENT, LocalLedger
from solward_localnet.txjson import is_writable

FEATURE_SET = 0
_FEE_SLOTS = 150
# Nodes keep a sample a minute for twelve hours.
_SAMPLE_S = 60
_MOST_SAMPLES = 720
_CERTIFICATE_BYTES = 192
# Maximum number of accounts in one call (agave: MAX_TX_ACCOUNT_LOCKS).
_MAX_ACCOUNTS = 128

MAX_SLOTS = 100_000_000


def get_slot(ledger: LocalLedger, params: Params) -> int:
    """Return the slot, which is also the block height because no slot is skipped."""
    config_at(params, 0, ledger.chain.slot)
    return ledger.chain.slot


def get_epoch_info(ledger: LocalLedger, params: Params) -> dict[str, int]:
    config_at(params, 0, ledger.chain.slot)
    chain = ledger.chain
    return {
        "absoluteSlot": chain.slot,
        "blockHeight": chain.slot,
        "epoch": chain.epoch,
        "slotIndex": chain.slot % chain.slots_per_epoch,
        "slotsInEpoch": chain.slots_per_epoch,
        "transactionCount": ledger.storage.transaction_count(),
    }


def get_epoch_schedule(ledger: LocalLedger, _params: Params) -> dict[str, Any]:
    slots = ledger.chain.slots_per_epoch
    return {
        "firstNormalEpoch": 0,
        "firstNormalSlot": 0,
        "leaderScheduleSlotOffset": slots,
        "slotsPerEpoch": slots,
        "warmup": False,
    }


def get_latest_blockhash(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    config_at(params, 0, ledger.chain.slot)
    return ledger.with_context(latest_blockhash(ledger))


def latest_blockhash(ledger: LocalLedger) -> dict[str, Any]:
    """Return the current blockhash and the last block height at which it is valid."""
    return {
        "blockhash": str(Hash(ledger.chain.blockhash())),
        "lastValidBlockHeight": ledger.chain.last_valid_block_height(),
    }


def is_blockhash_valid(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    blockhash = parse_blockhash(string_at(params, 0))
    config_at(params, 1, ledger.chain.slot)
    return ledger.with_context(ledger.chain.blockhash_slot(blockhash) is not None)


def get_fee_for_message(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    """Return the fee in lamports; null if the message's blockhash is no longer valid."""
    text = string_at(params, 0)
    config_at(params, 1, ledger.chain.slot)
    try:
        message = from_bytes_versioned(base64.b64decode(text, validate=True))
    except ValueError as error:
        raise invalid_params(f"failed to deserialize VersionedMessage: {error}") from None
    unsigned = [Signature.default()] * message.header.num_required_signatures
    tx = VersionedTransaction.populate(message, unsigned)
    try:
        tx.sanitize()
    except Exception:  # solders.SanitizeError is no subclass of anything narrower
        raise invalid_params("invalid message: its account indexes are invalid") from None
    known = ledger.chain.blockhash_slot(bytes(message.recent_blockhash)) is not None
    if not known and ledger.usable_nonce(tx) is None:
        return ledger.with_context(None)
    return ledger.with_context(ledger.vm.simulate(tx).fee)


def get_recent_prioritization_fees(ledger: LocalLedger, params: Params) -> list[dict[str, int]]:
    """Return for each of the last 150 slots the lowest landed compute unit price, or the lowest of
    transactions that wrote the given accounts if that is higher; 0 if nothing landed.

    Agave computes the same in runtime/src/prioritization_fee.rs.
    """
    given = list_at(params, 0) if params else []
    wanted = frozenset(str(parse_pubkey(address)) for address in given)
    if len(given) > _MAX_ACCOUNTS:
        raise invalid_params(f"Too many inputs provided; max {_MAX_ACCOUNTS}")
    slot = ledger.chain.slot
    return [
        {"prioritizationFee": _lowest_price(ledger, number, wanted), "slot": number}
        for number in range(max(0, slot - _FEE_SLOTS + 1), slot + 1)
    ]


def _lowest_price(ledger: LocalLedger, slot: int, wanted: frozenset[str]) -> int:
    everybodys: list[int] = []
    written: dict[str, int] = {}
    for stored in ledger.storage.transactions_in(slot):
        message = VersionedTransaction.from_bytes(stored.wire).message
        price = fee_terms(message).unit_price
        everybodys.append(price)
        static = [str(k) for at, k in enumerate(message.account_keys) if is_writable(message, at)]
        for address in wanted.intersection((*static, *stored.loaded_writable)):
            written[address] = min(price, written.get(address, price))
    return max([min(everybodys, default=0), *written.values()])


def get_minimum_balance(ledger: LocalLedger, params: Params) -> int:
    data_bytes = integer_at(params, 0)
    config_at(params, 1)
    if data_bytes > 10 * 1024 * 1024:
        raise invalid_params(
            f"Invalid param: an account has at most 10 MiB, not {data_bytes} bytes"
        )
    return ledger.vm.rent(data_bytes)


def get_stake_minimum_delegation(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    """Return the minimum that the Stake program itself reports in a simulation."""
    config_at(params, 0, ledger.chain.slot)
    faucet = ledger.cast.faucet
    number = Stake.GET_MINIMUM_DELEGATION.to_bytes(4, "little")
    ask = Instruction(STAKE_PROGRAM_ID, number, [])
    message = MessageV0.try_compile(faucet.pubkey(), [ask], [], Hash(ledger.chain.blockhash()))
    execution = ledger.vm.simulate(VersionedTransaction(message, [faucet]))
    if execution.return_data is None:
        raise RuntimeError(f"the Stake program gave no minimum delegation: {execution.err}")
    answer = base64.b64decode(execution.return_data["data"][0])
    return ledger.with_context(int.from_bytes(answer, "little"))


def get_vote_accounts(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    config = config_at(params, 0)
    wanted = config.get("votePubkey")
    vote = ledger.cast.vote.pubkey()
    if wanted is not None and parse_pubkey(wanted) != vote:
        return {"current": [], "delinquent": []}
    slot, epoch, length = ledger.chain.slot, ledger.chain.epoch, ledger.chain.slots_per_epoch
    account = {
        "activatedStake": ledger.stakes().get(vote, 0),
        "commission": COMMISSION_PERCENT,
        # A credit a slot; the last five epochs, as a node lists them.
        "epochCredits": [
            [each, min(slot + 1, (each + 1) * length), each * length]
            for each in range(max(0, epoch - 4), epoch + 1)
        ],
        "epochVoteAccount": True,
        "lastVote": slot,
        "nodePubkey": str(ledger.cast.identity.pubkey()),
        "rootSlot": max(0, slot - 1),
        "votePubkey": str(vote),
    }
    return {"current": [account], "delinquent": []}


def get_supply(ledger: LocalLedger, params: Params) -> dict[str, Any]:
    config_at(params, 0)
    total = ledger.storage.total_lamports()
    supply = {
        "circulating": total,
        "nonCirculating": 0,
        "nonCirculatingAccounts": [],
        "total": total,
    }
    return ledger.with_context(supply)


def get_transaction_count(ledger: LocalLedger, params: Params) -> int:
    config_at(params, 0, ledger.chain.slot)
    return ledger.storage.transaction_count()


def get_cluster_nodes(ledger: LocalLedger, _params: Params) -> list[dict[str, Any]]:
    nowhere = ("gossip", "pubsub", "rpc", "serveRepair", "tpu", "tpuForwards", "tpuForwardsQuic")
    return [
        {
            "featureSet": FEATURE_SET,
            "pubkey": str(ledger.cast.identity.pubkey()),
            "shredVersion": 1,
            "version": API_VERSION,
            **dict.fromkeys((*nowhere, "tpuQuic", "tpuVote", "tvu")),
        }
    ]


def get_slot_leader(ledger: LocalLedger, params: Params) -> str:
    config_at(params, 0, ledger.chain.slot)
    return str(ledger.cast.identity.pubkey())


def get_slot_leaders(ledger: LocalLedger, params: Params) -> list[str]:
    integer_at(params, 0)
    limit = integer_at(params, 1)
    if not 1 <= limit <= 5000:
        raise invalid_params("Invalid limit; max 5000")
    return [str(ledger.cast.identity.pubkey())] * limit


def get_leader_schedule(ledger: LocalLedger, params: Params) -> dict[str, list[int]] | None:
    """Return the leaders of a slot's epoch, always the validator; null after the next epoch."""
    chain = ledger.chain
    slot = chain.slot if not params or params[0] is None else integer_at(params, 0)
    asked = optional_string(config_at(params, 1), "identity")
    if slot // chain.slots_per_epoch > chain.epoch + 1:
        return None
    identity = ledger.cast.identity.pubkey()
    is_asked = asked is None or parse_pubkey(asked) == identity
    return {str(identity): list(range(chain.slots_per_epoch))} if is_asked else {}


def get_inflation_governor(_ledger: LocalLedger, params: Params) -> dict[str, float]:
    """Return zeros: a localnet pays no rewards, so there is no inflation."""
    config_at(params, 0)
    names = ("foundation", "foundationTerm", "initial", "taper", "terminal")
    return dict.fromkeys(names, 0.0)


def get_inflation_rate(ledger: LocalLedger, _params: Params) -> dict[str, float]:
    none = dict.fromkeys(("foundation", "total", "validator"), 0.0)
    return {"epoch": ledger.chain.epoch, **none}


def get_inflation_reward(ledger: LocalLedger, params: Params) -> list[None]:
    """Return null for each address in an epoch that has ended: a localnet pays no rewards."""
    addresses = [parse_pubkey(each) for each in list_at(params, 0)]
    epoch = config_at(params, 1).get("epoch")
    if epoch is not None and check_integer(epoch) >= ledger.chain.epoch:
        raise RpcError(BLOCK_NOT_AVAILABLE, f"Block not available for epoch {epoch}")
    return [None for _ in addresses]


def get_recent_performance_samples(ledger: LocalLedger, params: Params) -> list[dict[str, int]]:
    """Return the slots and transactions of each minute, newest first; a ledger younger than a
    minute has one sample of its seconds."""
    most = integer_at(params, 0, default=_MOST_SAMPLES)
    if most > _MOST_SAMPLES:
        raise invalid_params(f"Invalid limit; max {_MOST_SAMPLES}")
    slot, slot_ms = ledger.chain.slot, ledger.chain.slot_ms
    samples: list[dict[str, int]] = []
    while len(samples) < most:
        seconds = min(_SAMPLE_S, (slot - 1) * slot_ms // 1000)
        slots = seconds * 1000 // slot_ms
        if not slots or (samples and seconds < _SAMPLE_S):
            break
        transactions = ledger.storage.transactions_between(slot - slots + 1, slot)
        samples.append(
            {
                "numNonVoteTransactions": transactions,
                "numSlots": slots,
                "numTransactions": transactions,
                "samplePeriodSecs": seconds,
                "slot": slot,
            }
        )
        slot -= slots
    return samples


def get_ag_genesis_cert(ledger: LocalLedger, _params: Params) -> dict[str, Any] | None:
    """Return an unsigned certificate of Alpenglow's first block, null with finality `tower`."""
    if ledger.options.finality == "tower":
        return None
    block = {"blockId": list(ledger.genesis_hash()), "slot": 0}
    return {"block": block, "signature": {"bitmap": [], "signature": [0] * _CERTIFICATE_BYTES}}


METHODS: Mapping[str, Callable[[LocalLedger, Params], Any]] = {
    "getAgGenesisCert": get_ag_genesis_cert,
    "getBlockHeight": get_slot,
    "getClusterNodes": get_cluster_nodes,
    "getEpochInfo": get_epoch_info,
    "getEpochSchedule": get_epoch_schedule,
    "getFeeForMessage": get_fee_for_message,
    "getFirstAvailableBlock": lambda _ledger, _params: 0,
    "getGenesisHash": lambda ledger, _params: str(Hash(ledger.genesis_hash())),
    "getHealth": lambda _ledger, _params: "ok",
    "getIdentity": lambda ledger, _params: {"identity": str(ledger.cast.identity.pubkey())},
    "getInflationGovernor": get_inflation_governor,
    "getInflationRate": get_inflation_rate,
    "getInflationReward": get_inflation_reward,
    "getLatestBlockhash": get_latest_blockhash,
    "getLeaderSchedule": get_leader_schedule,
    "getMinimumBalanceForRentExemption": get_minimum_balance,
    "getRecentPerformanceSamples": get_recent_performance_samples,
    "getRecentPrioritizationFees": get_recent_prioritization_fees,
    "getSlot": get_slot,
    "getSlotLeader": get_slot_leader,
    "getSlotLeaders": get_slot_leaders,
    "getStakeMinimumDelegation": get_stake_minimum_delegation,
    "getSupply": get_supply,
    "getTransactionCount": get_transaction_count,
    "getVersion": lambda _ledger, _params: {"feature-set": FEATURE_SET, "solana-core": API_VERSION},
    "getVoteAccounts": get_vote_accounts,
    "isBlockhashValid": is_blockhash_valid,
    "minimumLedgerSlot": lambda _ledger, _params: 0,
}


def advance_slots(ledger: LocalLedger, params: Params) -> int:
    """Move the ledger ahead by some slots at once, and return the new slot."""
    slots = integer_at(params, 0)
    if slots > MAX_SLOTS:
        raise invalid_params(f"Invalid param: at most {MAX_SLOTS} slots at once, not {slots}")
    ledger.skip(slots)
    return ledger.chain.slot


def advance_epochs(ledger: LocalLedger, params: Params) -> int:
    """Move the ledger ahead by some epochs, to an epoch's first slot, and return that slot."""
    epochs = integer_at(params, 0)
    chain = ledger.chain
    target = (chain.epoch + epochs) * chain.slots_per_epoch
    return advance_slots(ledger, [max(0, target - chain.slot)])


def set_rent(ledger: LocalLedger, params: Params) -> int:
    """Set the rent in lamports per byte that the ledger requires from now on, and return it."""
    per_byte = integer_at(params, 0)
    if not 1 <= per_byte <= MAX_LOCALNET_RENT_PER_BYTE:
        raise invalid_params(
            f"Invalid param: from 1 to {MAX_LOCALNET_RENT_PER_BYTE} lamports, not {per_byte}"
        )
    ledger.set_rent(per_byte)
    return per_byte


CONTROL_METHODS = {
    "solward_advanceSlots": advance_slots,
    "solward_advanceEpochs": advance_epochs,
    "solward_setRent": set_rent,
}

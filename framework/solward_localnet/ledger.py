"""The ledger: bank, chain and file together, used by one worker thread; and the accounts of a new
ledger.

Changes are durable only after `storage.commit()`, so no call may be answered before.
"""

import hashlib
import secrets
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from solana.constants import LAMPORTS_PER_SOL, STAKE_PROGRAM_ID, VOTE_PROGRAM_ID
from solders.account import Account
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, create_account
from solders.sysvar import CLOCK, RENT
from solders.transaction import VersionedTransaction
from spl.token.constants import TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID, WRAPPED_SOL_MINT

from solward.solana import stakes
from solward.solana.programs import TOKEN_2022_WRAPPED_SOL_MINT
from solward.solana.protocol import BLOCKHASH_BLOCKS, MOST_RENT_PER_BYTE
from solward_localnet.options import LocalnetOptions
from solward_localnet.storage import Storage, StoredTransaction
from solward_localnet.vm import SYSTEM_PROGRAM, Vm, current_nonce

API_VERSION = "3.1.0"
"""The Agave release whose RPC answers the localnet reproduces."""

CEILING_SLOTS = 8
"""The number of slots that answers may name without a write. After a kill up to as many slots are
skipped, so that no slot is repeated even if the machine's clock was set back."""

_STATE_FIELDS = ("slot", "time_ms", "skew_ms", "ceiling")

SLOT_HASHES = 512
"""The number of entries in the SlotHashes sysvar."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Changes that became durable together; `slot` follows them, `block_height` is its height.

    `previous_slot` is the slot of the commit before; equal to `slot` when none has passed.
    `accounts` maps each account that a transaction wrote to its new state, None where it was
    closed. Listeners are called on the event loop, in commit order, and must not block.
    """

    slot: int
    block_height: int
    previous_slot: int
    transactions: tuple[StoredTransaction, ...]
    accounts: Mapping[Pubkey, Account | None]


@dataclass(frozen=True, slots=True)
class ChainState:
    """The persisted part of the ledger's clock.

    `time_ms` is the ledger's time at the start of `slot`; the ledger's time is the machine's clock
    plus `skew_ms`. `ceiling` is the highest slot that may have been answered to anybody.
    """

    slot: int
    time_ms: int
    skew_ms: int
    ceiling: int


@dataclass(slots=True)
class Chain:
    """The slots, blockhashes and epochs of one ledger. All times are in milliseconds."""

    seed: bytes
    slots_per_epoch: int
    slot_ms: int
    slot: int
    time_ms: int
    skew_ms: int
    _last_clock_ms: int
    _recent: dict[bytes, int] = field(default_factory=dict)

    @classmethod
    def resume(
        cls, state: ChainState, *, seed: bytes, slots_per_epoch: int, slot_ms: int, now_ms: int
    ) -> "Chain":
        """Return the chain as of `now_ms`, but at no slot before those of earlier answers."""
        skew_ms = max(state.skew_ms, state.time_ms - now_ms)
        chain = cls(seed, slots_per_epoch, slot_ms, state.slot, state.time_ms, skew_ms, now_ms)
        chain._remember_blockhashes(max(0, state.slot - BLOCKHASH_BLOCKS))
        chain.advance(now_ms)
        chain.skip(max(0, state.ceiling - chain.slot))
        return chain

    def advance(self, now_ms: int) -> bool:
        """Move ahead to the slot of the clock's time, and return whether any slot has passed."""
        if now_ms < self._last_clock_ms:
            self.skew_ms += self._last_clock_ms - now_ms
        self._last_clock_ms = now_ms
        passed = (now_ms + self.skew_ms - self.time_ms) // self.slot_ms
        if passed <= 0:
            return False
        self._move_ahead(passed)
        return True

    def skip(self, slots: int) -> None:
        """Move the chain and its time ahead by `slots` at once."""
        if slots > 0:
            self.skew_ms += slots * self.slot_ms
            self._move_ahead(slots)

    def _move_ahead(self, slots: int) -> None:
        before = self.slot
        self.slot += slots
        self.time_ms += slots * self.slot_ms
        oldest = max(0, self.slot - BLOCKHASH_BLOCKS)
        self._recent = {key: slot for key, slot in self._recent.items() if slot >= oldest}
        self._remember_blockhashes(max(oldest, before + 1))

    def _remember_blockhashes(self, first: int) -> None:
        for slot in range(first, self.slot + 1):
            self._recent[self.blockhash(slot)] = slot

    def blockhash(self, slot: int | None = None) -> bytes:
        """Return the 32 bytes of the blockhash of `slot`, or of the current slot if it is None."""
        number = self.slot if slot is None else slot
        return hashlib.sha256(self.seed + b"blockhash" + number.to_bytes(8, "little")).digest()

    def blockhash_slot(self, blockhash: bytes) -> int | None:
        """Return the slot of a blockhash; None if the blockhash is unknown or has expired."""
        return self._recent.get(blockhash)

    def last_valid_block_height(self) -> int:
        """Return the last block height at which the current blockhash may be used."""
        return self.slot + BLOCKHASH_BLOCKS

    def slot_hashes(self) -> list[tuple[int, bytes]]:
        """Return slots and their hashes for the SlotHashes sysvar, the current slot first."""
        oldest = max(0, self.slot - SLOT_HASHES + 1)
        return [
            (slot, hashlib.sha256(self.seed + b"bank" + slot.to_bytes(8, "little")).digest())
            for slot in range(self.slot, oldest - 1, -1)
        ]

    @property
    def epoch(self) -> int:
        return self.slot // self.slots_per_epoch

    @property
    def unix_timestamp(self) -> int:
        """Seconds since the Unix epoch at the start of the current slot."""
        return self.time_ms // 1000

    def block_time(self, slot: int) -> int:
        """Return the Unix time at which `slot` started, computed back from the current slot."""
        return (self.time_ms - (self.slot - slot) * self.slot_ms) // 1000

    def state(self, ceiling: int) -> ChainState:
        """Return the state to store. Until the next state, answers name slots up to `ceiling`."""
        return ChainState(self.slot, self.time_ms, self.skew_ms, ceiling)


IDENTITY_LAMPORTS = 500 * LAMPORTS_PER_SOL
COMMISSION_PERCENT = 5

_VOTE_ACCOUNT_BYTES = 3762


@dataclass(frozen=True, slots=True, repr=False)
class LedgerKeys:
    """A ledger's own keys, derived from its seed. They are secret, but protect nothing of value."""

    faucet: Keypair
    identity: Keypair
    vote: Keypair
    stake: Keypair

    @classmethod
    def from_seed(cls, seed: bytes) -> "LedgerKeys":
        names = (b"faucet", b"identity", b"vote", b"stake")
        return cls(*(Keypair.from_seed(hashlib.sha256(seed + name).digest()) for name in names))


class LocalLedger:
    """One open ledger. JSON-RPC methods read `vm`, `chain`, `storage`, `cast` and `options`."""

    vm: Vm
    chain: Chain

    def __init__(self, path: Path | None, options: LocalnetOptions) -> None:
        """Open the ledger at `path`, or in memory if it is None; a new ledger gets its genesis.

        Raises:
            LedgerLocked: it is open elsewhere.
            LedgerMismatch: the file is no ledger of this version.
        """
        self.options = options
        self.storage = Storage(path)
        try:
            seed = self.storage.meta("seed")
            if seed is None:
                seed = self._create_genesis()
            self.seed = seed
            self.cast = LedgerKeys.from_seed(seed)
            self.load()
        except BaseException:
            self.storage.close()
            raise

    def _create_genesis(self) -> bytes:
        seed = secrets.token_bytes(32)
        vm = Vm(self.options.slots_per_epoch, self.options.rent_per_byte)
        accounts = genesis_accounts(vm, LedgerKeys.from_seed(seed), self.options)
        self.storage.put_accounts(accounts)
        self.storage.put_meta(
            {
                "seed": seed,
                "slots_per_epoch": _integer(self.options.slots_per_epoch),
                "rent_per_byte": _integer(self.options.rent_per_byte),
            }
        )
        self._put_state(ChainState(1, self.options.clock(), 0, 1))
        self.storage.commit()
        return seed

    def load(self) -> None:
        """Build the virtual machine and the chain from stored data; drop uncommitted changes."""
        self.storage.rollback()
        stored = {name: self.storage.meta(name) for name in ("slots_per_epoch", *_STATE_FIELDS)}
        number = {
            name: int.from_bytes(value or b"", "little", signed=True)
            for name, value in stored.items()
        }
        rent = self.storage.meta("rent_per_byte")
        # An older file does not store the rent; all ledgers had the same rent then.
        per_byte = MOST_RENT_PER_BYTE if rent is None else int.from_bytes(rent, "little")
        self.vm = Vm(number["slots_per_epoch"], per_byte)
        self.vm.put(dict(self.storage.accounts()))
        state = ChainState(*(number[name] for name in _STATE_FIELDS))
        self.chain = Chain.resume(
            state,
            seed=self.seed,
            slots_per_epoch=number["slots_per_epoch"],
            slot_ms=self.options.slot_ms,
            now_ms=self.options.clock(),
        )
        self._ceiling = state.ceiling
        self._history = self.storage.stake_history()
        self._synced_slot = -1
        self._synced_epoch = -1
        self._published_slot = self.chain.slot
        self._begin_changes()
        self.sync()

    def _begin_changes(self) -> None:
        self._transactions: list[StoredTransaction] = []
        self._accounts: dict[Pubkey, Account | None] = {}

    def sync(self) -> None:
        """Move chain and virtual machine ahead to the clock's slot, before a batch of calls."""
        self.chain.advance(self.options.clock())
        self.follow_chain()

    def follow_chain(self) -> None:
        """Set the virtual machine's sysvars for the chain's slot, and the stakes for its epoch."""
        chain = self.chain
        if chain.slot == self._synced_slot:
            return
        if chain.epoch != self._synced_epoch:
            self._enter_epoch()
        self.vm.set_clock(
            slot=chain.slot,
            epoch=chain.epoch,
            epoch_start=chain.block_time(chain.epoch * chain.slots_per_epoch),
            now=chain.unix_timestamp,
            hashes=chain.slot_hashes(),
        )
        self._synced_slot = chain.slot

    def _enter_epoch(self) -> None:
        epoch = self.chain.epoch
        delegations = self.vm.delegations()
        first = max(self._history, default=-1) + 1
        added = stakes.pass_epochs(delegations, first, epoch, self._history)
        if added:
            self.storage.put_stake_history(added)
            recent = {e: v for e, v in self._history.items() if e >= epoch - stakes.HISTORY_EPOCHS}
            self._history = recent | added
        self.vm.set_stakes(self._history, stakes.epoch_stakes(delegations, epoch, self._history))
        self._synced_epoch = epoch

    def skip(self, slots: int) -> None:
        """Move chain and virtual machine ahead by `slots` at once."""
        self.chain.skip(slots)
        self.follow_chain()

    def set_rent(self, per_byte: int) -> None:
        """Set the rent to `per_byte` lamports from now on, as a cluster's feature gate does."""
        self.vm.set_rent(per_byte)
        self.storage.put_meta({"rent_per_byte": _integer(per_byte)})

    def genesis_hash(self) -> bytes:
        """Return the 32 bytes that identify this ledger and never change."""
        return hashlib.sha256(self.seed + b"genesis").digest()

    def with_context(self, value: Any) -> dict[str, Any]:
        """Return `value` with the current slot, in the form of Agave's `RpcResponse`."""
        return {"context": {"apiVersion": API_VERSION, "slot": self.chain.slot}, "value": value}

    def stakes(self) -> Mapping[Pubkey, int]:
        """Return the effective stake of each vote account in this epoch."""
        return stakes.epoch_stakes(self.vm.delegations(), self.chain.epoch, self._history)

    def usable_nonce(self, tx: VersionedTransaction) -> Pubkey | None:
        """Return the nonce account whose durable nonce is the transaction's blockhash, or None.

        As Agave's `check_load_and_advance_message_nonce_account`: the first instruction advances
        the nonce, the account is written, and its authority has signed.
        """
        if not tx.uses_durable_nonce():
            return None
        message = tx.message
        advance = message.instructions[0]
        if not advance.accounts:
            return None
        index = advance.accounts[0]
        keys = self.vm.keys(message)
        if index >= len(keys.all) or not keys.writable[index]:
            return None
        nonce = current_nonce(self.vm.account(keys.all[index]))
        if nonce is None or nonce.value != bytes(message.recent_blockhash):
            return None
        signers = message.account_keys[: message.header.num_required_signatures]
        return keys.all[index] if nonce.authority in map(str, signers) else None

    def record(
        self,
        stored: StoredTransaction,
        changed: Mapping[Pubkey, Account | None],
        *,
        message_hash: bytes,
        addresses: tuple[Pubkey, ...],
        memo: str | None,
    ) -> None:
        """Store a transaction that landed, with the accounts it changed."""
        self.storage.put_accounts(changed)
        self.storage.put_transaction(
            stored, message_hash=message_hash, addresses=addresses, memo=memo
        )
        self._transactions.append(stored)
        self._accounts.update(changed)

    def commit(self) -> Commit | None:
        """Make everything since the last commit durable, and return the commit for listeners."""
        chain = self.chain
        if self.storage.writing or chain.slot > self._ceiling:
            ceiling = max(self._ceiling, chain.slot)
            if chain.slot >= self._ceiling:
                ceiling = chain.slot + CEILING_SLOTS
            self._put_state(chain.state(ceiling))
            self.storage.commit()
            self._ceiling = ceiling
        transactions, accounts, previous = self._transactions, self._accounts, self._published_slot
        self._begin_changes()
        self._published_slot = chain.slot
        if not transactions and chain.slot == previous:
            return None
        return Commit(chain.slot, chain.slot, previous, tuple(transactions), accounts)

    def close(self) -> None:
        """Store the chain's present state, and close the file."""
        try:
            self.storage.rollback()
            self._put_state(self.chain.state(self.chain.slot))
            self.storage.commit()
        finally:
            self.storage.close()

    def _put_state(self, state: ChainState) -> None:
        self.storage.put_meta({name: _integer(getattr(state, name)) for name in _STATE_FIELDS})


def _integer(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)


def genesis_accounts(vm: Vm, cast: LedgerKeys, options: LocalnetOptions) -> dict[Pubkey, Account]:
    """Put the genesis accounts into an empty `vm` and return them: faucet, validator, native mints.

    Raises:
        RuntimeError: LiteSVM's Vote program does not make the vote account.
    """
    accounts: dict[Pubkey, Account] = {
        cast.faucet.pubkey(): Account(options.faucet_lamports, b"", SYSTEM_PROGRAM),
        cast.identity.pubkey(): Account(IDENTITY_LAMPORTS, b"", SYSTEM_PROGRAM),
        WRAPPED_SOL_MINT: _native_mint(vm, TOKEN_PROGRAM_ID),
        Pubkey.from_string(TOKEN_2022_WRAPPED_SOL_MINT): _native_mint(vm, TOKEN_2022_PROGRAM_ID),
        cast.stake.pubkey(): _stake_account(vm, cast, options.validator_stake_lamports),
    }
    vm.put(accounts)
    _make_vote_account(vm, cast)
    seeded: Mapping[Pubkey, Account] = options.genesis() if options.genesis else {}
    clash = accounts.keys() & seeded.keys()
    if clash:
        raise ValueError(f"genesis may not replace {sorted(map(str, clash))}")
    vm.put(seeded)
    for key in (cast.identity.pubkey(), cast.vote.pubkey()):
        account = vm.account(key)
        if account is not None:
            accounts[key] = account
    return accounts | dict(seeded)


def _native_mint(vm: Vm, program: Pubkey) -> Account:
    # No authorities, no supply that is counted, 9 decimals.
    data = struct.pack("<I32xQBBI32x", 0, 0, 9, 1, 0)
    return Account(vm.rent(len(data)), data, program)


def _stake_account(vm: Vm, cast: LedgerKeys, lamports: int) -> Account:
    reserve = vm.rent(stakes.STAKE_ACCOUNT_BYTES)
    data = stakes.pack_genesis_stake(cast.identity.pubkey(), cast.vote.pubkey(), lamports, reserve)
    return Account(lamports + reserve, data, STAKE_PROGRAM_ID)


def _make_vote_account(vm: Vm, cast: LedgerKeys) -> None:
    # The Vote program itself writes the account, in whatever version of its state it has.
    identity, vote = cast.identity.pubkey(), cast.vote.pubkey()
    initialize = Instruction(
        VOTE_PROGRAM_ID,
        (0).to_bytes(4, "little") + bytes(identity) * 3 + bytes([COMMISSION_PERCENT]),
        [
            AccountMeta(vote, is_signer=False, is_writable=True),
            AccountMeta(RENT, is_signer=False, is_writable=False),
            AccountMeta(CLOCK, is_signer=False, is_writable=False),
            AccountMeta(identity, is_signer=True, is_writable=False),
        ],
    )
    create = create_account(
        CreateAccountParams(
            from_pubkey=identity,
            to_pubkey=vote,
            lamports=vm.rent(_VOTE_ACCOUNT_BYTES),
            space=_VOTE_ACCOUNT_BYTES,
            owner=VOTE_PROGRAM_ID,
        )
    )
    message = MessageV0.try_compile(identity, [create, initialize], [], Hash.default())
    outcome = vm.execute(VersionedTransaction(message, [cast.identity, cast.vote]))
    if outcome.err is not None:
        raise RuntimeError(f"no vote account at genesis: {outcome.err} {outcome.logs}")

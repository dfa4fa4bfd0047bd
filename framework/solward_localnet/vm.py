"""LiteSVM as the bank of the localnet: it executes or simulates, and returns the changes.

LiteSVM's own checks of signatures, blockhashes and duplicates are off: the ledger makes them,
against its own chain (LiteSVM accepts its latest blockhash alone). What LiteSVM lacks is added
here: the config of a v1 message, and the nonce that advances even when the rest of its transaction
fails.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from solders.account import Account
from solders.clock import Clock
from solders.epoch_schedule import EpochSchedule
from solders.hash import Hash
from solders.instruction import CompiledInstruction
from solders.litesvm import LiteSVM
from solders.message import Message, MessageHeader, MessageV0, MessageV1
from solders.pubkey import Pubkey
from solders.rent import Rent
from solders.stake_history import StakeHistory, StakeHistoryEntry
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import (
    FailedTransactionMetadata,
    SimulatedTransactionInfo,
    TransactionMetadata,
)

from solward.solana.accounts import LOOKUP_TABLE_HEADER_BYTES, Nonce, nonce_account
from solward.solana.message import (
    COMPUTE_BUDGET_SIZES,
    REQUEST_HEAP,
    SET_LOADED_BYTES,
    SET_UNIT_LIMIT,
    SET_UNIT_PRICE,
)
from solward.solana.programs import COMPUTE_BUDGET_PROGRAM, MEMO_PROGRAM, STAKE_PROGRAM
from solward.solana.protocol import LAMPORTS_PER_SIGNATURE, MAX_COMPUTE_UNITS
from solward.solana.stakes import Delegation, Entry, stake_account
from solward.support.base58 import b58encode
from solward_localnet.accountindex import AccountIndex, plain

AnyMessage = Message | MessageV0 | MessageV1

SYSTEM_PROGRAM = Pubkey.default()
_MORE_LOCKS = Pubkey.from_string("9LZdXeKGeBV6hRLdxS1rHbHoEUsKqesCC2ZAPTPKJAbK")
_UPGRADEABLE = Pubkey.from_string("BPFLoaderUpgradeab1e11111111111111111111111")
_COMPUTE_BUDGET = Pubkey.from_string(COMPUTE_BUDGET_PROGRAM)
_MEMO = Pubkey.from_string(MEMO_PROGRAM)
_TOO_LARGE = "MaxLoadedAccountsDataSizeExceeded"
# Maximum bytes that a transaction may load.
_ANY_BYTES = 64 << 20
# Bytes counted for each account beyond its data (SIMD-0186), and for each lookup table.
_ACCOUNT_BYTES = 64
_TABLE_BYTES = 8_248
_MOST_INSTRUCTIONS = 64
_MOST_LOCKS = 64
# Bytes of a program's heap if the transaction asks for none.
_LEAST_HEAP = 32 << 10
# Compute units of a ComputeBudget instruction, and the lines it logs.
_BUDGET_UNITS = 150
_BUDGET_LINES = 2


@dataclass(frozen=True, slots=True)
class Keys:
    """The account keys of a transaction: the message's, then those from lookup tables."""

    all: tuple[Pubkey, ...]
    writable: tuple[bool, ...]
    programs: frozenset[int]
    loaded_writable: tuple[Pubkey, ...]
    loaded_readonly: tuple[Pubkey, ...]


@dataclass(frozen=True, slots=True)
class Execution:
    """The outcome of a transaction. `landed` means that its fee was charged.

    `pre` and `post` are the accounts of `keys`, in order, before and after; None where there is no
    account. `loaded_bytes` is the size of its loaded accounts. The other fields have the shapes of
    `StoredTransaction`.
    """

    keys: Keys
    err: Any | None
    landed: bool
    fee: int
    compute_units: int
    logs: tuple[str, ...]
    inner: tuple[dict[str, Any], ...]
    return_data: dict[str, Any] | None
    pre: tuple[Account | None, ...]
    post: tuple[Account | None, ...]
    loaded_bytes: int = 0

    def changed(self) -> dict[Pubkey, Account | None]:
        """Return the accounts that the transaction changed, with their new states."""
        states = zip(self.keys.all, self.keys.writable, self.pre, self.post, strict=True)
        return {key: post for key, writable, pre, post in states if writable and pre != post}


def execution_of(
    begun: Execution,
    result: Any,
    tx: VersionedTransaction,
    vm_tx: VersionedTransaction,
    *,
    landed: bool,
    post: tuple[Account | None, ...],
) -> Execution:
    """Convert LiteSVM's result of `vm_tx` to that of `tx`: add the fee that LiteSVM does not take,
    and remove the ComputeBudget instructions of `_convert_for_vm`, which ran if the others did."""
    added = len(vm_tx.message.instructions) - len(tx.message.instructions)
    err: Any | None = None
    meta = result if isinstance(result, TransactionMetadata) else result.meta()
    if isinstance(result, FailedTransactionMetadata):
        err = json.loads(result.to_json())["err"]
        if (
            _loads_too_much(tx.message, begun.loaded_bytes)
            and isinstance(err, dict)
            and "InstructionError" in err
        ):
            err = _TOO_LARGE
        added = 0
    logs = meta.logs()
    return replace(
        begun,
        err=err,
        landed=landed,
        fee=begun.fee + meta.fee(),
        compute_units=meta.compute_units_consumed() - _BUDGET_UNITS * added,
        logs=tuple(logs[: len(logs) - _BUDGET_LINES * added]),
        inner=_inner_instructions(meta),
        return_data=_return_data(meta),
        post=post,
    )


def _inner_instructions(meta: TransactionMetadata) -> tuple[dict[str, Any], ...]:
    groups = []
    for index, group in enumerate(meta.inner_instructions()):
        if not group:
            continue
        instructions = []
        for inner in group:
            instruction = inner.instruction()
            instructions.append(
                {
                    "programIdIndex": instruction.program_id_index,
                    "accounts": list(instruction.accounts),
                    "data": b58encode(bytes(instruction.data)),
                    "stackHeight": inner.stack_height(),
                }
            )
        groups.append({"index": index, "instructions": instructions})
    return tuple(groups)


def _return_data(meta: TransactionMetadata) -> dict[str, Any] | None:
    returned = meta.return_data()
    data = bytes(returned.data)
    if not data:
        return None
    return {
        "programId": str(returned.program_id),
        "data": [base64.b64encode(data).decode("ascii"), "base64"],
    }


class VmPanic(Exception):
    """LiteSVM panicked, so its state is unreliable and must be built again."""


class Vm:
    """A LiteSVM instance and the index of its accounts; used by one thread."""

    def __init__(self, slots_per_epoch: int, rent_per_byte: int) -> None:
        # Instructions that `_convert_for_vm` adds may need one account more than the usual limit.
        features = LiteSVM.mainnet_feature_set()
        features.activate(_MORE_LOCKS, 0)
        self._svm = (
            LiteSVM()
            .with_feature_set(features)
            .with_sigverify(False)
            .with_blockhash_check(False)
            .with_transaction_history(0)
            .with_log_bytes_limit(10_000)
        )
        self._svm.set_epoch_schedule(EpochSchedule.custom(slots_per_epoch, slots_per_epoch, False))
        self.set_rent(rent_per_byte)
        self.index = AccountIndex()
        self._program_bytes: dict[Pubkey, int] = {}

    def set_rent(self, per_byte: int) -> None:
        """Set the Rent sysvar, in lamports per byte of an account and its overhead."""
        self._svm.set_rent(Rent(per_byte))

    def account(self, address: Pubkey) -> Account | None:
        """Return the account; None if it does not exist or has no lamports."""
        return _existing_account(self._svm.get_account(address))

    def balance(self, address: Pubkey) -> int:
        """Return the account's lamports; 0 if it does not exist."""
        return self._svm.get_balance(address) or 0

    def put(self, accounts: Mapping[Pubkey, Account | None]) -> None:
        """Write the new state of accounts; None deletes an account."""
        for address, account in accounts.items():
            self._svm.set_account(address, account or Account(0, b"", SYSTEM_PROGRAM))
            self.index.update(address, account)
            self._program_bytes.pop(address, None)

    def rent(self, data_bytes: int) -> int:
        """Return the lamports that make an account with `data_bytes` of data exempt from rent."""
        return self._svm.minimum_balance_for_rent_exemption(data_bytes)

    def delegations(self) -> list[Delegation]:
        """Return every delegated stake."""
        accounts = map(self.account, self.index.owned_by_program(STAKE_PROGRAM))
        stakes = [stake_account(plain(account)) for account in accounts if account is not None]
        return [stake.delegation for stake in stakes if stake and stake.delegation]

    def set_clock(
        self, *, slot: int, epoch: int, epoch_start: int, now: int, hashes: Sequence[Any]
    ) -> None:
        """Set the Clock and SlotHashes sysvars; times in seconds since the Unix epoch."""
        self._svm.set_clock(
            Clock(
                slot=slot,
                epoch_start_timestamp=epoch_start,
                epoch=epoch,
                leader_schedule_epoch=epoch + 1,
                unix_timestamp=now,
            )
        )
        self._svm.set_slot_hashes([(number, Hash(digest)) for number, digest in hashes])

    def set_stakes(self, history: Mapping[int, Entry], stakes: Mapping[Pubkey, int]) -> None:
        """Set the StakeHistory sysvar and the epoch's stake of each vote account."""
        sysvar = StakeHistory()
        for epoch, (effective, activating, deactivating) in sorted(history.items()):
            sysvar.add(epoch, StakeHistoryEntry(effective, activating, deactivating))
        self._svm.set_stake_history(sysvar)
        self._svm.set_epoch_stakes(dict(stakes))

    def execute(
        self, tx: VersionedTransaction, *, keep_failure: bool = True, nonce: Pubkey | None = None
    ) -> Execution:
        """Execute a transaction and apply its changes; a failure's only with `keep_failure`.

        `nonce` is the account of the durable nonce that stands in for the blockhash, if any.

        Raises:
            VmPanic: the transaction made LiteSVM panic.
        """
        begun, vm_tx = self._prepare_run(tx)
        if begun.err is not None:
            return begun
        keys, pre, extra = begun.keys, begun.pre, begun.fee
        try:
            result = self._call_vm(self._svm.send_transaction, vm_tx)
        except Exception:
            self.put({keys.all[0]: pre[0]})
            raise
        post = self._read_states(keys)
        failed = isinstance(result, FailedTransactionMetadata)
        # LiteSVM charges no fee if a transaction does not land; then no priority fee is due either.
        landed = not failed or _lamports(post[0]) < _lamports(pre[0]) - extra
        if failed and post[0] != pre[0] and not (landed and keep_failure):
            self.put({keys.all[0]: pre[0]})
            post = pre
        elif failed and landed and nonce is not None:
            self._advance_nonce(nonce, bytes(tx.message.recent_blockhash))
            post = self._read_states(keys)
        execution = execution_of(begun, result, tx, vm_tx, landed=landed, post=post)
        for address, account in execution.changed().items():
            self.index.update(address, account)
        return execution

    def simulate(self, tx: VersionedTransaction) -> Execution:
        """Execute a transaction without applying its changes; only `post` has them.

        Raises:
            VmPanic: the transaction made LiteSVM panic.
        """
        begun, vm_tx = self._prepare_run(tx)
        if begun.err is not None:
            return begun
        keys, pre, extra = begun.keys, begun.pre, begun.fee
        try:
            result = self._call_vm(self._svm.simulate_transaction, vm_tx)
        finally:
            if extra and pre[0] is not None:
                self._svm.set_account(keys.all[0], pre[0])
        post = pre
        if isinstance(result, SimulatedTransactionInfo):
            after = dict(result.post_accounts())
            states = zip(keys.all, pre, strict=True)
            post = tuple(_existing_account(after.get(key, old)) for key, old in states)
        return execution_of(begun, result, tx, vm_tx, landed=False, post=post)

    def _prepare_run(self, tx: VersionedTransaction) -> tuple[Execution, VersionedTransaction]:
        """Charge the priority fee of a v1 message, and return the transaction for LiteSVM, with the
        outcome before it runs, which has an error if it must not run."""
        keys = self.keys(tx.message)
        pre = self._read_states(keys)
        loaded = self._loaded_bytes(tx.message, keys, pre)
        is_long = len(keys.all) > _MOST_LOCKS
        fee = 0 if is_long else priority_fee_of_message(tx.message)
        err: Any | None = "TooManyAccountLocks"
        if not is_long:
            err = self._take_fee(keys.all[0], pre[0], tx.message)
        counted = loaded if err is None else 0
        begun = Execution(keys, err, False, fee, 0, (), (), None, pre, pre, counted)
        return begun, _convert_for_vm(tx, loaded)

    def keys(self, message: AnyMessage) -> Keys:
        """Return a message's accounts; those of unreadable lookup tables are missing."""
        static, header = message.account_keys, message.header
        signed = header.num_required_signatures
        last_signed = signed - header.num_readonly_signed_accounts
        last_unsigned = len(static) - header.num_readonly_unsigned_accounts
        writable = [
            index < last_signed or signed <= index < last_unsigned for index in range(len(static))
        ]
        loaded_writable: list[Pubkey] = []
        loaded_readonly: list[Pubkey] = []
        for lookup in message.address_table_lookups if isinstance(message, MessageV0) else ():
            table = self._svm.get_account(lookup.account_key)
            data = b"" if table is None else table.data[LOOKUP_TABLE_HEADER_BYTES:]
            loaded_writable += _addresses_at(data, bytes(lookup.writable_indexes))
            loaded_readonly += _addresses_at(data, bytes(lookup.readonly_indexes))
        return Keys(
            all=(*static, *loaded_writable, *loaded_readonly),
            writable=(*writable, *[True] * len(loaded_writable), *[False] * len(loaded_readonly)),
            programs=frozenset(
                instruction.program_id_index for instruction in message.instructions
            ),
            loaded_writable=tuple(loaded_writable),
            loaded_readonly=tuple(loaded_readonly),
        )

    def _read_states(self, keys: Keys) -> tuple[Account | None, ...]:
        return tuple(
            # The code of a program is long, does not change and is not needed here.
            Account(self.balance(key), b"", SYSTEM_PROGRAM)
            if index in keys.programs and not keys.writable[index]
            else self.account(key)
            for index, key in enumerate(keys.all)
        )

    def _loaded_bytes(
        self, message: AnyMessage, keys: Keys, pre: tuple[Account | None, ...]
    ) -> int:
        tables = len(message.address_table_lookups) if isinstance(message, MessageV0) else 0
        return tables * _TABLE_BYTES + sum(
            self._bytes_of_program(key)
            if index in keys.programs
            else _ACCOUNT_BYTES + len(state.data)
            for index, (key, state) in enumerate(zip(keys.all, pre, strict=True))
            if state is not None
        )

    def _bytes_of_program(self, address: Pubkey) -> int:
        """Return how many bytes are loaded for a program and its code; the number never changes."""
        found = self._program_bytes.get(address)
        if found is None:
            account = self.account(address)
            data = b"" if account is None else account.data
            found = _ACCOUNT_BYTES + len(data)
            if account is not None and account.owner == _UPGRADEABLE and len(data) >= 36:
                code = self.account(Pubkey.from_bytes(data[4:36]))
                found += 0 if code is None else _ACCOUNT_BYTES + len(code.data)
            self._program_bytes[address] = found
        return found

    def _take_fee(self, address: Pubkey, payer: Account | None, message: AnyMessage) -> Any | None:
        """Charge a v1 message's priority fee, because LiteSVM does not; return an error if unpaid.

        A payer that may pay no fee at all is not charged, because LiteSVM refuses it.
        """
        lamports = priority_fee_of_message(message)
        if not lamports or payer is None or payer.owner != SYSTEM_PROGRAM:
            return None
        signatures = message.header.num_required_signatures * LAMPORTS_PER_SIGNATURE
        left = payer.lamports - lamports - signatures
        least = self.rent(len(payer.data))
        # A durable nonce must stay exempt from rent; another payer may also end with nothing.
        if left < (least if payer.data else 0):
            return "InsufficientFundsForFee"
        if 0 < left < least <= payer.lamports:
            return {"InsufficientFundsForRent": {"account_index": 0}}
        reduced = Account(payer.lamports - lamports, payer.data, payer.owner)
        self._svm.set_account(address, reduced)
        return None

    def _call_vm(self, run: Any, tx: VersionedTransaction) -> Any:
        try:
            return run(tx)
        except Exception:
            raise
        except BaseException as panic:
            # pyo3's PanicException is not an Exception.
            raise VmPanic(str(panic)) from None

    def _advance_nonce(self, address: Pubkey, used: bytes) -> None:
        account = self.account(address)
        nonce = current_nonce(account)
        if account is None or nonce is None or nonce.value != used:
            return
        data = account.data
        following = hashlib.sha256(b"DURABLE_NONCE" + used).digest()
        self.put(
            {
                address: Account(
                    account.lamports,
                    data[:40] + following + data[72:],
                    account.owner,
                    account.executable,
                    account.rent_epoch,
                )
            }
        )


def _convert_for_vm(tx: VersionedTransaction, loaded: int) -> VersionedTransaction:
    """Return the transaction that LiteSVM executes in place of `tx`. LiteSVM takes the limits of a
    v1 message from ComputeBudget instructions, which a cluster ignores there, and not from its
    config (SIMD-0385). So the config's values go into the message's own ComputeBudget instructions,
    and into further ones while there is room: LiteSVM runs no more than 64.
    """
    message = tx.message
    if not isinstance(message, MessageV1):
        return tx
    keys, header, config = list(message.account_keys), message.header, message.config
    # Beyond the bytes of accounts that it may load nothing runs, which LiteSVM does not know.
    runs = not _loads_too_much(message, loaded)
    values = {
        SET_UNIT_LIMIT: min(config.compute_unit_limit or 0, MAX_COMPUTE_UNITS) if runs else 0,
        REQUEST_HEAP: config.heap_size or _LEAST_HEAP,
        # The priority fee is taken apart.
        SET_UNIT_PRICE: 0,
        SET_LOADED_BYTES: _ANY_BYTES,
    }
    kinds = list(values)
    run: list[CompiledInstruction | int] = []
    for each in message.instructions:
        if keys[each.program_id_index] != _COMPUTE_BUDGET:
            run.append(each)
        elif kinds:
            kind = each.data[0] if each.data else -1
            run.append(kinds.pop(kinds.index(kind) if kind in kinds else 0))
        else:
            run.append(CompiledInstruction(_program_index(keys, _MEMO), b"", b""))
    room = _MOST_INSTRUCTIONS - len(run)
    due = SET_UNIT_LIMIT, *([REQUEST_HEAP] if config.heap_size else [])
    further = [kind for kind in due if kind in kinds][:room]
    if values[SET_UNIT_LIMIT]:
        more = values[SET_UNIT_LIMIT] + _BUDGET_UNITS * len(further)
        values[SET_UNIT_LIMIT] = min(more, MAX_COMPUTE_UNITS)
    instructions = [
        _budget_instruction(keys, each, values[each]) if isinstance(each, int) else each
        for each in (*run, *further)
    ]
    made = MessageV0(
        MessageHeader(
            header.num_required_signatures,
            header.num_readonly_signed_accounts,
            header.num_readonly_unsigned_accounts + len(keys) - len(message.account_keys),
        ),
        keys,
        message.recent_blockhash,
        instructions,
        [],
    )
    return VersionedTransaction.populate(made, tx.signatures)


def _loads_too_much(message: AnyMessage, loaded: int) -> bool:
    """Return whether a v1 message loads more account bytes than its limit, which defaults to 0."""
    if not isinstance(message, MessageV1):
        return False
    return loaded > (message.config.loaded_accounts_data_size_limit or 0)


def _budget_instruction(keys: list[Pubkey], kind: int, value: int) -> CompiledInstruction:
    data = bytes([kind]) + value.to_bytes(COMPUTE_BUDGET_SIZES[kind] - 1, "little")
    return CompiledInstruction(_program_index(keys, _COMPUTE_BUDGET), data, b"")


def _program_index(keys: list[Pubkey], program: Pubkey) -> int:
    if program not in keys:
        keys.append(program)
    return keys.index(program)


def priority_fee_of_message(message: AnyMessage) -> int:
    """Return the priority fee of a v1 message, in lamports; 0 for older versions."""
    return message.config.priority_fee or 0 if isinstance(message, MessageV1) else 0


def current_nonce(account: Account | None) -> Nonce | None:
    """Return the durable nonce in an account; None unless it has the current version."""
    nonce = None if account is None else nonce_account(plain(account))
    return nonce if nonce is not None and nonce.version == 1 else None


def _addresses_at(addresses: bytes, indexes: bytes) -> list[Pubkey]:
    found = (addresses[32 * index : 32 * index + 32] for index in indexes)
    return [Pubkey(address) for address in found if len(address) == 32]


def _existing_account(account: Account | None) -> Account | None:
    return account if account is not None and account.lamports else None


def _lamports(account: Account | None) -> int:
    return 0 if account is None else account.lamports

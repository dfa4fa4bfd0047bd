"""The steps by which a transaction lands on the ledger: read, check, execute, record."""

import hashlib
import re
from typing import Any

from solders.message import MessageV1, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from solward.solana.programs import MEMO_PROGRAMS
from solward.solana.protocol import MAX_WIRE_BYTES
from solward_localnet.accountindex import mint_account, token_account
from solward_localnet.jsonrpc import (
    PREFLIGHT_FAILURE,
    SIGNATURE_VERIFICATION_FAILURE,
    RpcError,
    invalid_params,
)
from solward_localnet.ledger import LocalLedger
from solward_localnet.parsed import ui_token_amount
from solward_localnet.storage import StoredTransaction
from solward_localnet.vm import Execution, VmPanic

# Errors that Agave finds while it resolves lookup tables, before it has a transaction to execute.
_LOOKUP_ERRORS = frozenset(
    {
        "AddressLookupTableNotFound",
        "InvalidAddressLookupTableOwner",
        "InvalidAddressLookupTableData",
        "InvalidAddressLookupTableIndex",
    }
)

# Display of `TransactionError` in solana-transaction-error, and below of `InstructionError` in
# solana-instruction-error. Not listed are those whose text is their name in words, and those that
# LiteSVM never gives.
_TRANSACTION = {
    "AccountNotFound": "Attempt to debit an account but found no record of a prior credit.",
    "ProgramAccountNotFound": "Attempt to load a program that does not exist",
    "InvalidAccountForFee": "This account may not be used to pay transaction fees",
    "AlreadyProcessed": "This transaction has already been processed",
    "InvalidProgramForExecution": "This program may not be used for executing instructions",
    "SanitizeFailure": "Transaction failed to sanitize accounts offsets correctly",
    "UnsupportedVersion": "Transaction version is unsupported",
    "InvalidWritableAccount": "Transaction loads a writable account that cannot be written",
    "TooManyAccountLocks": "Transaction locked too many accounts",
    "AddressLookupTableNotFound": ("Transaction loads an address table account that doesn't exist"),
    "InvalidAddressLookupTableOwner": (
        "Transaction loads an address table account with an invalid owner"
    ),
    "InvalidAddressLookupTableData": (
        "Transaction loads an address table account with invalid data"
    ),
    "InvalidAddressLookupTableIndex": "Transaction address table lookup uses an invalid index",
    "InvalidRentPayingAccount": (
        "Transaction leaves an account with a lower balance than rent-exempt minimum"
    ),
    "MaxLoadedAccountsDataSizeExceeded": "Transaction exceeded max loaded accounts data size cap",
    "InvalidLoadedAccountsDataSizeLimit": (
        "LoadedAccountsDataSizeLimit set for transaction must be greater than 0."
    ),
    "UnbalancedTransaction": "Sum of account balances before and after transaction do not match",
    "InsufficientFundsForRent": (
        "Transaction results in an account ({}) with insufficient funds for rent"
    ),
    "DuplicateInstruction": "Transaction contains a duplicate instruction ({}) that is not allowed",
    "ProgramExecutionTemporarilyRestricted": (
        "Execution of the program referenced by account at index {} is temporarily restricted."
    ),
}

_INSTRUCTION = {
    "GenericError": "generic instruction error",
    "InvalidArgument": "invalid program argument",
    "InvalidInstructionData": "invalid instruction data",
    "InvalidAccountData": "invalid account data for instruction",
    "AccountDataTooSmall": "account data too small for instruction",
    "InsufficientFunds": "insufficient funds for instruction",
    "IncorrectProgramId": "incorrect program id for instruction",
    "MissingRequiredSignature": "missing required signature for instruction",
    "AccountAlreadyInitialized": "instruction requires an uninitialized account",
    "UninitializedAccount": "instruction requires an initialized account",
    "UnbalancedInstruction": ("sum of account balances before and after instruction do not match"),
    "ModifiedProgramId": "instruction illegally modified the program id of an account",
    "ExternalAccountLamportSpend": (
        "instruction spent from the balance of an account it does not own"
    ),
    "ExternalAccountDataModified": "instruction modified data of an account it does not own",
    "ReadonlyLamportChange": "instruction changed the balance of a read-only account",
    "ReadonlyDataModified": "instruction modified data of a read-only account",
    "DuplicateAccountIndex": "instruction contains duplicate accounts",
    "ExecutableModified": "instruction changed executable bit of an account",
    "NotEnoughAccountKeys": "insufficient account keys for instruction",
    "AccountDataSizeChanged": (
        "program other than the account's owner changed the size of the account data"
    ),
    "AccountNotExecutable": "instruction expected an executable account",
    "AccountBorrowFailed": (
        "instruction tries to borrow reference for an account which is already borrowed"
    ),
    "AccountBorrowOutstanding": "instruction left account with an outstanding borrowed reference",
    "InvalidError": "program returned invalid error code",
    "ExecutableDataModified": "instruction changed executable accounts data",
    "ExecutableLamportChange": "instruction changed the balance of an executable account",
    "ExecutableAccountNotRentExempt": "executable accounts must be rent exempt",
    "CallDepth": "Cross-program invocation call depth too deep",
    "MissingAccount": "An account required by the instruction is missing",
    "ReentrancyNotAllowed": "Cross-program invocation reentrancy not allowed for this instruction",
    "MaxSeedLengthExceeded": "Length of the seed is too long for address generation",
    "InvalidSeeds": "Provided seeds do not result in a valid address",
    "InvalidRealloc": "Failed to reallocate account data",
    "PrivilegeEscalation": (
        "Cross-program invocation with unauthorized signer or writable account"
    ),
    "ProgramEnvironmentSetupFailure": "Failed to create program execution environment",
    "Immutable": "Account is immutable",
    "IncorrectAuthority": "Incorrect authority provided",
    "AccountNotRentExempt": "An account does not have enough lamports to be rent-exempt",
    "ArithmeticOverflow": "Program arithmetic overflowed",
    "IllegalOwner": "Provided owner is not allowed",
    "MaxAccountsDataAllocationsExceeded": (
        "Accounts data allocations exceeded the maximum allowed per transaction"
    ),
}


class TornLedger(Exception):
    """A transaction was executed, but could not be recorded. The batch must be rolled back."""


def read_transaction(wire: bytes, *, takes_version_1: bool = True) -> VersionedTransaction:
    """Decode the transaction in `wire`, and check its structure.

    Raises:
        RpcError: -32602, it cannot be read or its indexes do not fit.
    """
    try:
        tx = VersionedTransaction.from_bytes(wire)
        if bytes(tx) != wire:
            raise ValueError("it does not serialize to the same bytes")
        if isinstance(tx.message, MessageV1) and not takes_version_1:
            raise ValueError("it is of version 1")
        if len(wire) > MAX_WIRE_BYTES and not isinstance(tx.message, MessageV1):
            raise ValueError(f"it has more than {MAX_WIRE_BYTES} bytes, and is not of version 1")
    except ValueError as error:
        raise invalid_params(
            f"failed to deserialize solana_transaction::versioned::VersionedTransaction: {error}"
        ) from None
    try:
        tx.sanitize()
    except Exception:  # solders.SanitizeError is no subclass of anything narrower
        raise invalid_params(f"invalid transaction: {error_text('SanitizeFailure')}") from None
    return tx


def has_valid_signatures(tx: VersionedTransaction) -> bool:
    """Return whether every signature that the message requires is present and valid."""
    results = tx.verify_with_results()
    return len(results) == tx.message.header.num_required_signatures and all(results)


def signature_failure() -> RpcError:
    """Return Agave's error for a transaction with a missing or wrong signature."""
    return RpcError(SIGNATURE_VERIFICATION_FAILURE, "Transaction signature verification failure")


def message_hash(tx: VersionedTransaction) -> bytes:
    """Hash a transaction's message. Duplicates have equal hashes, even with other signatures."""
    return hashlib.sha256(to_bytes_versioned(tx.message)).digest()


def why_refused(ledger: LocalLedger, tx: VersionedTransaction) -> tuple[str | None, Pubkey | None]:
    """Return the error if the chain refuses the transaction, else the account of its nonce."""
    nonce: Pubkey | None = None
    if ledger.chain.blockhash_slot(bytes(tx.message.recent_blockhash)) is None:
        nonce = ledger.usable_nonce(tx)
        if nonce is None:
            # As in Agave, a used nonce is reported here, before the check for a duplicate.
            return "BlockhashNotFound", None
    if ledger.storage.has_message(message_hash(tx)):
        return "AlreadyProcessed", None
    return None, nonce


def land(ledger: LocalLedger, tx: VersionedTransaction, wire: bytes, *, preflight: bool) -> str:
    """Execute and record a transaction, and return its signature.

    With `preflight` a transaction that fails is refused and changes nothing. Without, a failure is
    recorded with its fee, and a transaction that the chain does not accept (unknown blockhash,
    duplicate, bad signature, a payer without the fee) is dropped silently, as a node drops it.

    Raises:
        RpcError: with `preflight`: -32003 or -32002 with the simulation as its data.
        VmPanic: LiteSVM panicked.
        TornLedger: the transaction was executed and could not be recorded.
    """
    signature = str(tx.signatures[0])
    if not has_valid_signatures(tx):
        if preflight:
            raise signature_failure()
        return signature
    refused, nonce = why_refused(ledger, tx)
    if refused is not None:
        if preflight:
            raise preflight_failure(None, refused)
        return signature
    try:
        execution = ledger.vm.execute(tx, keep_failure=not preflight, nonce=nonce)
        if execution.err is None or (execution.landed and not preflight):
            _record_transaction(ledger, tx, wire, execution)
    except VmPanic:
        raise
    except BaseException as error:
        raise TornLedger(f"{signature}: {error}") from error
    if preflight and execution.err is not None:
        if isinstance(execution.err, str) and execution.err in _LOOKUP_ERRORS:
            raise invalid_params(f"invalid transaction: {error_text(execution.err)}")
        raise preflight_failure(execution, execution.err)
    return signature


def preflight_failure(execution: Execution | None, err: Any) -> RpcError:
    """Return Agave's error -32002, with the failed simulation as its data."""
    text = f"Transaction simulation failed: {error_text(err)}"
    return RpcError(PREFLIGHT_FAILURE, text, simulation_json(err, execution))


def simulation_json(err: Any, execution: Execution | None = None) -> dict[str, Any]:
    """Return a simulation's result in the RPC's form, without the accounts' states. `execution` is
    None for a transaction that the chain does not accept."""
    return {
        "accounts": None,
        "err": err,
        "fee": None if execution is None else execution.fee,
        "innerInstructions": None,
        "loadedAccountsDataSize": 0,
        "loadedAddresses": None,
        "logs": [] if execution is None else list(execution.logs),
        "postBalances": None,
        "postTokenBalances": None,
        "preBalances": None,
        "preTokenBalances": None,
        "replacementBlockhash": None,
        "returnData": None if execution is None else execution.return_data,
        "unitsConsumed": 0 if execution is None else execution.compute_units,
    }


def _record_transaction(
    ledger: LocalLedger, tx: VersionedTransaction, wire: bytes, execution: Execution
) -> None:
    keys = execution.keys
    stored = StoredTransaction(
        signature=str(tx.signatures[0]),
        slot=ledger.chain.slot,
        block_time=ledger.chain.unix_timestamp,
        err=execution.err,
        fee=execution.fee,
        wire=wire,
        compute_units=execution.compute_units,
        log_messages=execution.logs,
        pre_balances=balances(execution.pre),
        post_balances=balances(execution.post),
        pre_token_balances=token_balances(ledger, execution, execution.pre),
        post_token_balances=token_balances(ledger, execution, execution.post),
        inner_instructions=execution.inner,
        loaded_writable=tuple(map(str, keys.loaded_writable)),
        loaded_readonly=tuple(map(str, keys.loaded_readonly)),
        return_data=execution.return_data,
    )
    ledger.record(
        stored,
        execution.changed(),
        message_hash=message_hash(tx),
        addresses=keys.all,
        memo=_memo_text(tx, keys.all),
    )


def balances(accounts: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the lamports of each account; 0 for None."""
    return tuple(0 if account is None else account.lamports for account in accounts)


def token_balances(
    ledger: LocalLedger, execution: Execution, accounts: tuple[Any, ...]
) -> tuple[dict[str, Any], ...]:
    """Return the `UiTransactionTokenBalance` of each token account of the transaction."""
    known = dict(zip(execution.keys.all, accounts, strict=True))
    found = []
    for index, account in enumerate(accounts):
        token = token_account(account)
        if token is None:
            continue
        address = Pubkey.from_string(token.mint)
        mint = mint_account(address, known.get(address) or ledger.vm.account(address))
        if mint is None:
            continue
        found.append(
            {
                "accountIndex": index,
                "mint": token.mint,
                "owner": token.owner,
                "programId": str(account.owner),
                "uiTokenAmount": ui_token_amount(token.amount, mint.decimals),
            }
        )
    return tuple(found)


def _memo_text(tx: VersionedTransaction, keys: tuple[Pubkey, ...]) -> str | None:
    memos = []
    for instruction in tx.message.instructions:
        if str(keys[instruction.program_id_index]) in MEMO_PROGRAMS:
            data = bytes(instruction.data)
            text = data.decode("utf-8", errors="replace")
            memos.append(f"[{len(data)}] {text}")
    return "; ".join(memos) or None


def error_text(err: Any) -> str:
    """Return Agave's sentence for a transaction error, given as JSON."""
    if isinstance(err, str):
        return _TRANSACTION.get(err, _spaced(err))
    ((name, value),) = err.items()
    if name == "InstructionError":
        return f"Error processing Instruction {value[0]}: {_instruction_text(value[1])}"
    index = value.get("account_index") if isinstance(value, dict) else value
    return _TRANSACTION.get(name, _spaced(name)).format(index)


def _instruction_text(err: Any) -> str:
    if isinstance(err, str):
        return _INSTRUCTION.get(err, _spaced(err))
    ((name, value),) = err.items()
    return f"custom program error: {value:#x}" if name == "Custom" else f"{_spaced(name)}: {value}"


def _spaced(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name).capitalize()

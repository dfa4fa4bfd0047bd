"""A stored transaction in the JSON of `getTransaction` and of the instructions in simulations."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from solders.message import Message, MessageV0, MessageV1, VersionedMessage
from solders.transaction import VersionedTransaction

from solward.support.base58 import b58decode, b58encode
from solward_localnet.errors import UNSUPPORTED_TRANSACTION_VERSION, RpcError, check_variant
from solward_localnet.parsed.instructions import parse_instruction
from solward_localnet.parsed.reader import Unparsable
from solward_localnet.storage import StoredTransaction

Json = dict[str, Any]

TRANSACTION_ENCODINGS = ("binary", "base64", "base58", "json", "jsonParsed")


def transaction_json(record: StoredTransaction, encoding: str, max_version: int | None) -> Json:
    """The `EncodedConfirmedTransactionWithStatusMeta` of `record`.

    `encoding` is one of `TRANSACTION_ENCODINGS`. `max_version` is the caller's
    `maxSupportedTransactionVersion`: None accepts legacy transactions alone, and then `version` is
    left out, as Agave does.

    Raises:
        RpcError: an unknown encoding (-32602), or a version above `max_version` (-32015).
    """
    check_variant(encoding, TRANSACTION_ENCODINGS)
    transaction = VersionedTransaction.from_bytes(record.wire)
    message = transaction.message
    version = _version(message)
    if version is not None and (max_version is None or max_version < version):
        raise RpcError(
            UNSUPPORTED_TRANSACTION_VERSION,
            f"Transaction version ({version}) is not supported by the requesting client. "
            "Please try the request again with the following configuration parameter: "
            f'"maxSupportedTransactionVersion": {version}',
        )
    static = map(str, message.account_keys)
    addresses = [*static, *record.loaded_writable, *record.loaded_readonly]
    answer: Json = {
        "slot": record.slot,
        "blockTime": record.block_time,
        "transaction": _encode(transaction, record, encoding, addresses),
        "meta": _meta(record, addresses, parsed=encoding == "jsonParsed"),
    }
    if max_version is not None:
        answer["version"] = "legacy" if version is None else version
    return answer


def parsed_inner_instructions(
    groups: Sequence[Mapping[str, Any]], addresses: Sequence[str]
) -> list[Json]:
    """Inner instructions in `jsonParsed`, for `StoredTransaction.inner_instructions`' shape.

    `addresses` are the message's accounts followed by the loaded ones, as base58.
    """
    return [
        {
            "index": group["index"],
            "instructions": [
                _parsed_instruction(
                    addresses,
                    inner["programIdIndex"],
                    inner["accounts"],
                    b58decode(inner["data"]),
                    inner.get("stackHeight"),
                )
                for inner in group["instructions"]
            ],
        }
        for group in groups
    ]


def _version(message: VersionedMessage) -> int | None:
    if isinstance(message, Message):
        return None
    return 1 if isinstance(message, MessageV1) else 0


def _encode(
    transaction: VersionedTransaction,
    record: StoredTransaction,
    encoding: str,
    addresses: Sequence[str],
) -> Any:
    if encoding == "binary":
        return b58encode(record.wire)
    if encoding == "base58":
        return [b58encode(record.wire), encoding]
    if encoding == "base64":
        return [base64.b64encode(record.wire).decode("ascii"), encoding]
    message = transaction.message
    return {
        "signatures": [str(signature) for signature in transaction.signatures],
        "message": _parsed_message(message, len(record.loaded_writable), addresses)
        if encoding == "jsonParsed"
        else _raw_message(message),
    }


def _raw_message(message: VersionedMessage) -> Json:
    header = message.header
    body: Json = {
        "header": {
            "numRequiredSignatures": header.num_required_signatures,
            "numReadonlySignedAccounts": header.num_readonly_signed_accounts,
            "numReadonlyUnsignedAccounts": header.num_readonly_unsigned_accounts,
        },
        "accountKeys": [str(key) for key in message.account_keys],
        "recentBlockhash": str(message.recent_blockhash),
        "instructions": [
            {
                "programIdIndex": instruction.program_id_index,
                "accounts": list(instruction.accounts),
                "data": b58encode(bytes(instruction.data)),
                "stackHeight": 1,
            }
            for instruction in message.instructions
        ],
    }
    return body | _extras(message)


def _parsed_message(
    message: VersionedMessage, writable_loaded: int, addresses: Sequence[str]
) -> Json:
    static = len(message.account_keys)
    accounts = [
        {
            "pubkey": address,
            "writable": is_writable(message, index)
            if index < static
            else index < static + writable_loaded,
            "signer": message.is_signer(index),
            "source": "transaction" if index < static else "lookupTable",
        }
        for index, address in enumerate(addresses)
    ]
    body: Json = {
        "accountKeys": accounts,
        "recentBlockhash": str(message.recent_blockhash),
        "instructions": [
            _parsed_instruction(
                addresses,
                instruction.program_id_index,
                instruction.accounts,
                bytes(instruction.data),
                1,
            )
            for instruction in message.instructions
        ],
    }
    return body | _extras(message)


def is_writable(message: VersionedMessage, index: int) -> bool:
    header = message.header
    signed = header.num_required_signatures
    end = (
        signed - header.num_readonly_signed_accounts
        if index < signed
        else len(message.account_keys) - header.num_readonly_unsigned_accounts
    )
    # The runtime demotes a called program to read-only, whatever the header says.
    return index < end and not message.is_key_called_as_program(index)


def _extras(message: VersionedMessage) -> Json:
    """What a version has beyond the legacy message."""
    if isinstance(message, MessageV1):
        config = message.config
        return {
            "transactionConfig": {
                "priorityFee": config.priority_fee,
                "computeUnitLimit": config.compute_unit_limit,
                "loadedAccountsDataSizeLimit": config.loaded_accounts_data_size_limit,
                "heapSize": config.heap_size,
            }
        }
    if isinstance(message, MessageV0):
        return {
            "addressTableLookups": [
                {
                    "accountKey": str(lookup.account_key),
                    "writableIndexes": list(lookup.writable_indexes),
                    "readonlyIndexes": list(lookup.readonly_indexes),
                }
                for lookup in message.address_table_lookups
            ]
        }
    return {}


def _parsed_instruction(
    addresses: Sequence[str],
    program_index: int,
    account_indexes: Sequence[int],
    data: bytes,
    stack_height: int | None,
) -> Json:
    program_id = addresses[program_index]
    accounts = [addresses[index] for index in account_indexes]
    try:
        return parse_instruction(program_id, accounts, data) | {"stackHeight": stack_height}
    except Unparsable:
        return {
            "programId": program_id,
            "accounts": accounts,
            "data": b58encode(data),
            "stackHeight": stack_height,
        }


def _meta(record: StoredTransaction, addresses: Sequence[str], *, parsed: bool) -> Json:
    inner: Sequence[Mapping[str, Any]] = record.inner_instructions
    meta: Json = {
        "err": record.err,
        "status": {"Ok": None} if record.err is None else {"Err": record.err},
        "fee": record.fee,
        "preBalances": list(record.pre_balances),
        "postBalances": list(record.post_balances),
        "innerInstructions": parsed_inner_instructions(inner, addresses)
        if parsed
        else [dict(group) for group in inner],
        "logMessages": list(record.log_messages),
        "preTokenBalances": list(record.pre_token_balances),
        "postTokenBalances": list(record.post_token_balances),
        "rewards": [],
        "computeUnitsConsumed": record.compute_units,
    }
    if not parsed:
        meta["loadedAddresses"] = {
            "writable": list(record.loaded_writable),
            "readonly": list(record.loaded_readonly),
        }
    if record.return_data is not None:
        meta["returnData"] = record.return_data
    return meta

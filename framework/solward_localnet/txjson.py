"""Decoding of a transaction's text; and the JSON of `getTransaction` for a stored transaction, with
tables of each program's instruction layouts for `jsonParsed`."""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from solders.message import Message, MessageV0, MessageV1, VersionedMessage
from solders.transaction import VersionedTransaction

from solward.solana.programs import (
    ASSOCIATED_TOKEN_PROGRAM,
    MEMO_PROGRAM,
    MEMO_V1_PROGRAM,
    SYSTEM_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
)
from solward.solana.protocol import MAX_V1_WIRE_BYTES, TOKEN_METADATA_INITIALIZE, System, Token
from solward.support.base58 import b58decode, b58encode
from solward_localnet.jsonrpc import (
    UNSUPPORTED_TRANSACTION_VERSION,
    RpcError,
    check_variant,
    invalid_params,
)
from solward_localnet.parsed import (
    EXTENSION_TYPES,
    Fields,
    Layout,
    Parsed,
    Reader,
    Unparsable,
    parse_numbered,
    parsed_call,
    ui_token_amount,
)
from solward_localnet.storage import StoredTransaction

Json = dict[str, Any]

# Agave's limits for an encoded transaction: the lengths of the longest possible one.
_MAX_ENCODED = {"base58": 5594, "base64": 5464}
_TRANSACTION = "solana_transaction::versioned::VersionedTransaction"

TRANSACTION_ENCODINGS = ("binary", "base64", "base58", "json", "jsonParsed")


def decode_transaction(text: str, encoding: str) -> bytes:
    """Return the wire bytes of a transaction given as base58 or base64 text.

    Raises:
        RpcError: -32602, with Agave's texts: an encoding other than the two, text that is not of
            its encoding, or more than 4,096 bytes.
    """
    limit = _MAX_ENCODED.get(encoding)
    if limit is None:
        raise invalid_params(
            f"unsupported encoding: {encoding}. Supported encodings: base58, base64"
        )
    if len(text) > limit:
        raise invalid_params(
            f"{encoding} encoded {_TRANSACTION} too large: {len(text)} bytes "
            f"(max: encoded/raw {limit}/{MAX_V1_WIRE_BYTES})"
        )
    try:
        wire = b58decode(text) if encoding == "base58" else base64.b64decode(text, validate=True)
    except ValueError as error:
        raise invalid_params(f"invalid {encoding} encoding: {error}") from None
    if len(wire) > MAX_V1_WIRE_BYTES:
        raise invalid_params(
            f"decoded {_TRANSACTION} too large: {len(wire)} bytes (max: {MAX_V1_WIRE_BYTES} bytes)"
        )
    return wire


def transaction_json(record: StoredTransaction, encoding: str, max_version: int | None) -> Json:
    """Return the `EncodedConfirmedTransactionWithStatusMeta` of `record`.

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
        "transaction": _encoded_transaction(transaction, record, encoding, addresses),
        "meta": _meta_json(record, addresses, parsed=encoding == "jsonParsed"),
    }
    if max_version is not None:
        answer["version"] = "legacy" if version is None else version
    return answer


def parsed_inner_instructions(
    groups: Sequence[Mapping[str, Any]], addresses: Sequence[str]
) -> list[Json]:
    """Return `StoredTransaction.inner_instructions` in the shape of `jsonParsed`.

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


def _encoded_transaction(
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
    signatures = [str(signature) for signature in transaction.signatures]
    loaded, parsed = len(record.loaded_writable), encoding == "jsonParsed"
    message = _message_json(transaction.message, addresses, loaded, parsed=parsed)
    return {"signatures": signatures, "message": message}


def _message_json(
    message: VersionedMessage, addresses: Sequence[str], writable_loaded: int, *, parsed: bool
) -> Json:
    body: Json = {"recentBlockhash": str(message.recent_blockhash)}
    if parsed:
        static = len(message.account_keys)
        body["accountKeys"] = [
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
        body["instructions"] = [
            _parsed_instruction(
                addresses, each.program_id_index, each.accounts, bytes(each.data), 1
            )
            for each in message.instructions
        ]
    else:
        header = message.header
        body["header"] = {
            "numRequiredSignatures": header.num_required_signatures,
            "numReadonlySignedAccounts": header.num_readonly_signed_accounts,
            "numReadonlyUnsignedAccounts": header.num_readonly_unsigned_accounts,
        }
        body["accountKeys"] = [str(key) for key in message.account_keys]
        body["instructions"] = [
            {
                "programIdIndex": each.program_id_index,
                "accounts": list(each.accounts),
                "data": b58encode(bytes(each.data)),
                "stackHeight": 1,
            }
            for each in message.instructions
        ]
    return body | _version_fields(message)


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


def _version_fields(message: VersionedMessage) -> Json:
    """Return the fields that a message's version adds to the legacy message."""
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


def _meta_json(record: StoredTransaction, addresses: Sequence[str], *, parsed: bool) -> Json:
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


# spl_token_2022's `AuthorityType`; the first word says what the instruction's account is.
_AUTHORITIES = (
    ("mint", "mintTokens"),
    ("mint", "freezeAccount"),
    ("account", "accountOwner"),
    ("account", "closeAccount"),
    ("mint", "transferFeeConfig"),
    ("mint", "withheldWithdraw"),
    ("mint", "closeMint"),
    ("mint", "interestRate"),
    ("mint", "permanentDelegate"),
    ("mint", "confidentialTransferMint"),
    ("mint", "transferHookProgramId"),
    ("mint", "confidentialTransferFeeConfig"),
    ("mint", "metadataPointer"),
    ("mint", "groupPointer"),
    ("mint", "groupMemberPointer"),
    ("mint", "scaledUiAmount"),
    ("mint", "pause"),
    ("mint", "permissionedBurn"),
)


def _parse_token(accounts: Sequence[str], data: bytes) -> Parsed:
    if data.startswith(TOKEN_METADATA_INITIALIZE):
        return parsed_call(_METADATA_LAYOUT, accounts, Reader(data, len(TOKEN_METADATA_INITIALIZE)))
    read = Reader(data)
    kind = read.u8()
    if kind == Token.SET_AUTHORITY:
        return _parse_set_authority(accounts, read)
    if kind == Token.METADATA_POINTER_EXTENSION:
        return parse_numbered(_METADATA_POINTERS, read.u8(), accounts, read)
    return parse_numbered(_TOKEN, kind, accounts, read)


def _parse_set_authority(accounts: Sequence[str], read: Reader) -> Parsed:
    kind = read.u8()
    if kind >= len(_AUTHORITIES):
        raise Unparsable(f"{kind} is no authority type")
    owned, name = _AUTHORITIES[kind]
    fields = {"authorityType": lambda _read: name, "newAuthority": Reader.optional_key}
    return parsed_call(Layout("setAuthority", (owned,), fields, "authority"), accounts, read)


def _read_extension_types(read: Reader) -> list[str] | None:
    kinds = [read.u16() for _ in range(read.remaining() // 2)]
    if any(kind >= len(EXTENSION_TYPES) for kind in kinds):
        raise Unparsable("an unknown extension type")
    return [EXTENSION_TYPES[kind] for kind in kinds] or None


_AMOUNT: Fields = {"amount": Reader.amount}
_CHECKED: Fields = {"tokenAmount": lambda read: ui_token_amount(read.u64(), read.u8())}
_OWNER: Fields = {"owner": Reader.key}
_LAMPORTS: Fields = {"lamports": Reader.u64}
_SIGNERS: Fields = {"m": Reader.u8}
_MINT_FIELDS: Fields = {
    "decimals": Reader.u8,
    "mintAuthority": Reader.key,
    "freezeAuthority?": Reader.optional_key,
}

# The numbers are `TokenInstruction`'s.
_TOKEN: Mapping[int, Layout] = {
    0: Layout("initializeMint", ("mint", "rentSysvar"), _MINT_FIELDS),
    1: Layout("initializeAccount", ("account", "mint", "owner", "rentSysvar")),
    2: Layout("initializeMultisig", ("multisig", "rentSysvar", "*signers"), _SIGNERS),
    3: Layout("transfer", ("source", "destination"), _AMOUNT, "authority"),
    4: Layout("approve", ("source", "delegate"), _AMOUNT, "owner"),
    5: Layout("revoke", ("source",), {}, "owner"),
    7: Layout("mintTo", ("mint", "account"), _AMOUNT, "mintAuthority"),
    8: Layout("burn", ("account", "mint"), _AMOUNT, "authority"),
    9: Layout("closeAccount", ("account", "destination"), {}, "owner"),
    10: Layout("freezeAccount", ("account", "mint"), {}, "freezeAuthority"),
    11: Layout("thawAccount", ("account", "mint"), {}, "freezeAuthority"),
    12: Layout("transferChecked", ("source", "mint", "destination"), _CHECKED, "authority"),
    13: Layout("approveChecked", ("source", "mint", "delegate"), _CHECKED, "owner"),
    14: Layout("mintToChecked", ("mint", "account"), _CHECKED, "mintAuthority"),
    15: Layout("burnChecked", ("account", "mint"), _CHECKED, "authority"),
    16: Layout("initializeAccount2", ("account", "mint", "rentSysvar"), _OWNER),
    17: Layout("syncNative", ("account",)),
    18: Layout("initializeAccount3", ("account", "mint"), _OWNER),
    19: Layout("initializeMultisig2", ("multisig", "*signers"), _SIGNERS),
    20: Layout("initializeMint2", ("mint",), _MINT_FIELDS),
    21: Layout("getAccountDataSize", ("mint",), {"extensionTypes?": _read_extension_types}),
    22: Layout("initializeImmutableOwner", ("account",)),
    23: Layout("amountToUiAmount", ("mint",), _AMOUNT),
    24: Layout("uiAmountToAmount", ("mint",), {"uiAmount": Reader.text}),
    25: Layout("initializeMintCloseAuthority", ("mint",), {"newAuthority": Reader.optional_key}),
    31: Layout("createNativeMint", ("payer", "nativeMint", "systemProgram")),
    32: Layout("initializeNonTransferableMint", ("mint",)),
    35: Layout("initializePermanentDelegate", ("mint",), {"delegate": Reader.key}),
    38: Layout("withdrawExcessLamports", ("source", "destination"), {}, "authority"),
}

_METADATA_POINTERS: Mapping[int, Layout] = {
    0: Layout(
        "initializeMetadataPointer",
        ("mint",),
        {"authority?": Reader.key_or_none, "metadataAddress?": Reader.key_or_none},
    ),
    1: Layout(
        "updateMetadataPointer",
        ("mint",),
        {"metadataAddress?": Reader.key_or_none},
        "authority",
    ),
}

_METADATA_LAYOUT = Layout(
    "initializeTokenMetadata",
    ("metadata", "updateAuthority", "mint", "mintAuthority"),
    dict.fromkeys(("name", "symbol", "uri"), Reader.short_text),
)


def parse_instruction(program_id: str, accounts: Sequence[str], data: bytes) -> Parsed:
    """Return an instruction as `{"program", "programId", "parsed"}`.

    `accounts` are the instruction's own accounts in their order, as base58.

    Raises:
        Unparsable: no parser knows the program or the instruction, or accounts are missing.
    """
    try:
        program, parse = _PARSERS[program_id]
    except KeyError:
        raise Unparsable(f"no parser for instructions of {program_id}") from None
    return {"program": program, "programId": program_id, "parsed": parse(accounts, data)}


def _parse_system(accounts: Sequence[str], data: bytes) -> Parsed:
    read = Reader(data)
    kind = read.u32()
    if kind == System.CREATE_ACCOUNT_ALLOW_PREFUND:
        # Without lamports nobody pays, and the second account may be missing.
        lamports = read.u64()
        names = ("newAccount", "source") if lamports else ("newAccount",)
        fields = {"lamports?": lambda _read: lamports or None, **_SPACE, **_OWNER}
        layout = Layout("createAccountAllowPrefund", names, fields)
        return parsed_call(layout, accounts, read)
    return parse_numbered(_SYSTEM, kind, accounts, read)


_NONCE = ("nonceAccount", "recentBlockhashesSysvar")
_SPACE: Fields = {"space": Reader.u64}
_SEED: Fields = {"base": Reader.key, "seed": Reader.long_text}
_NEW_ACCOUNT: Fields = {**_LAMPORTS, **_SPACE, **_OWNER}

# The numbers are `SystemInstruction`'s.
_SYSTEM: Mapping[int, Layout] = {
    0: Layout("createAccount", ("source", "newAccount"), _NEW_ACCOUNT),
    1: Layout("assign", ("account",), _OWNER),
    2: Layout("transfer", ("source", "destination"), _LAMPORTS),
    3: Layout("createAccountWithSeed", ("source", "newAccount"), {**_SEED, **_NEW_ACCOUNT}),
    4: Layout("advanceNonce", (*_NONCE, "nonceAuthority")),
    5: Layout(
        "withdrawFromNonce",
        (
            "nonceAccount",
            "destination",
            "recentBlockhashesSysvar",
            "rentSysvar",
            "nonceAuthority",
        ),
        _LAMPORTS,
    ),
    6: Layout("initializeNonce", (*_NONCE, "rentSysvar"), {"nonceAuthority": Reader.key}),
    7: Layout("authorizeNonce", ("nonceAccount", "nonceAuthority"), {"newAuthorized": Reader.key}),
    8: Layout("allocate", ("account",), _SPACE),
    9: Layout("allocateWithSeed", ("account",), {**_SEED, **_SPACE, **_OWNER}),
    10: Layout("assignWithSeed", ("account",), {**_SEED, **_OWNER}),
    11: Layout(
        "transferWithSeed",
        ("source", "sourceBase", "destination"),
        {**_LAMPORTS, "sourceSeed": Reader.long_text, "sourceOwner": Reader.key},
    ),
    12: Layout("upgradeNonce", ("nonceAccount",)),
}

_CREATE = ("source", "account", "wallet", "mint", "systemProgram", "tokenProgram")
_ATA: Mapping[int, Layout] = {
    0: Layout("create", _CREATE),
    1: Layout("createIdempotent", _CREATE),
    2: Layout(
        "recoverNested",
        (
            "nestedSource",
            "nestedMint",
            "destination",
            "nestedOwner",
            "ownerMint",
            "wallet",
            "tokenProgram",
        ),
    ),
}

_MEMO = "spl-memo", lambda _accounts, data: Reader(data).text()
_PARSERS: Mapping[str, tuple[str, Callable[[Sequence[str], bytes], Any]]] = {
    SYSTEM_PROGRAM: ("system", _parse_system),
    TOKEN_PROGRAM: ("spl-token", _parse_token),
    TOKEN_2022_PROGRAM: ("spl-token", _parse_token),
    ASSOCIATED_TOKEN_PROGRAM: (
        "spl-associated-token-account",
        # The program's first version had no instruction data: it could only create.
        lambda accounts, data: parse_numbered(_ATA, data[0] if data else 0, accounts, Reader(data)),
    ),
    MEMO_V1_PROGRAM: _MEMO,
    MEMO_PROGRAM: _MEMO,
}

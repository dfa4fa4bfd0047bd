"""Instructions as `jsonParsed`: the parser of each program; System, associated token and memo."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from solward.solana.programs import (
    ASSOCIATED_TOKEN_PROGRAM,
    CLOCK_SYSVAR,
    MEMO_PROGRAM,
    MEMO_V1_PROGRAM,
    RENT_SYSVAR,
    STAKE_CONFIG,
    STAKE_PROGRAM,
    SYSTEM_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
)
from solward_localnet.parsed.reader import Layout, Parsed, Reader, Unparsable, apply, name_accounts
from solward_localnet.parsed.tokens import ui_token_amount

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

_EXTENSION_TYPES = (
    "uninitialized",
    "transferFeeConfig",
    "transferFeeAmount",
    "mintCloseAuthority",
    "confidentialTransferMint",
    "confidentialTransferAccount",
    "defaultAccountState",
    "immutableOwner",
    "memoTransfer",
    "nonTransferable",
    "interestBearingConfig",
    "cpiGuard",
    "permanentDelegate",
    "nonTransferableAccount",
    "transferHook",
    "transferHookAccount",
    "confidentialTransferFeeConfig",
    "confidentialTransferFeeAmount",
    "metadataPointer",
    "tokenMetadata",
    "groupPointer",
    "tokenGroup",
    "groupMemberPointer",
    "tokenGroupMember",
    "confidentialMintBurn",
    "scaledUiAmount",
    "pausable",
    "pausableAccount",
    "permissionedBurn",
)

_METADATA_POINTER_EXTENSION = 39
_METADATA_INITIALIZE = bytes((210, 225, 30, 162, 88, 184, 77, 141))

_AUTHORITY_TYPES = ("Staker", "Withdrawer")


@dataclass(frozen=True, slots=True)
class _Signed:
    """An instruction whose accounts end with an authority, or a multisig and its signers."""

    type: str
    accounts: tuple[str, ...]
    authority: str
    amount: Callable[[Reader], Parsed] | None = None


def parse_token_instruction(accounts: Sequence[str], data: bytes) -> Parsed:
    """A token instruction as `{"type", "info"}`.

    Raises:
        Unparsable: no parser knows the instruction, or accounts or data are missing.
    """
    if data.startswith(_METADATA_INITIALIZE):
        return _initialize_metadata(accounts, Reader(data, len(_METADATA_INITIALIZE)))
    read = Reader(data)
    kind = read.u8()
    if kind in _SIGNED:
        signed = _SIGNED[kind]
        info = name_accounts(signed.accounts, accounts)
        if signed.amount is not None:
            info |= signed.amount(read)
        info |= _authority(accounts, len(signed.accounts), signed.authority)
        return {"type": signed.type, "info": info}
    if kind in _TOKEN_OWN:
        return _TOKEN_OWN[kind](accounts, read)
    return apply(_TOKEN_PLAIN, kind, accounts, read)


def _authority(accounts: Sequence[str], position: int, name: str) -> Parsed:
    if len(accounts) <= position:
        raise Unparsable("the authority's account is missing")
    signers = list(accounts[position + 1 :])
    if not signers:
        return {name: accounts[position]}
    return {f"multisig{name[0].upper()}{name[1:]}": accounts[position], "signers": signers}


def _amount(read: Reader) -> Parsed:
    return {"amount": str(read.u64())}


def _token_amount(read: Reader) -> Parsed:
    amount, decimals = read.u64(), read.u8()
    return {"tokenAmount": ui_token_amount(amount, decimals)}


def _optional_key(read: Reader) -> str | None:
    return read.key() if read.boolean() else None


def _initialize_mint(accounts: Sequence[str], read: Reader, *, version: int) -> Parsed:
    names = ("mint", "rentSysvar") if version == 1 else ("mint",)
    info = name_accounts(names, accounts)
    info |= {"decimals": read.u8(), "mintAuthority": read.key()}
    freezer = _optional_key(read)
    if freezer is not None:
        info["freezeAuthority"] = freezer
    return {"type": "initializeMint" if version == 1 else "initializeMint2", "info": info}


def _initialize_multisig(accounts: Sequence[str], read: Reader, *, version: int) -> Parsed:
    names = ("multisig", "rentSysvar") if version == 1 else ("multisig",)
    info = name_accounts(names, accounts)
    signers = list(accounts[len(names) :])
    if not signers:
        raise Unparsable("a multisig's signers are missing")
    info |= {"signers": signers, "m": read.u8()}
    return {"type": "initializeMultisig" if version == 1 else "initializeMultisig2", "info": info}


def _set_authority(accounts: Sequence[str], read: Reader) -> Parsed:
    kind = read.u8()
    if kind >= len(_AUTHORITIES):
        raise Unparsable(f"{kind} is no authority type")
    owned, name = _AUTHORITIES[kind]
    info = name_accounts((owned,), accounts)
    info |= {"authorityType": name, "newAuthority": _optional_key(read)}
    info |= _authority(accounts, 1, "authority")
    return {"type": "setAuthority", "info": info}


def _account_data_size(accounts: Sequence[str], read: Reader) -> Parsed:
    info = name_accounts(("mint",), accounts)
    kinds = [read.u16() for _ in range(read.left() // 2)]
    if any(kind >= len(_EXTENSION_TYPES) for kind in kinds):
        raise Unparsable("an unknown extension type")
    if kinds:
        info["extensionTypes"] = [_EXTENSION_TYPES[kind] for kind in kinds]
    return {"type": "getAccountDataSize", "info": info}


def _ui_amount_to_amount(accounts: Sequence[str], read: Reader) -> Parsed:
    info = name_accounts(("mint",), accounts)
    try:
        info["uiAmount"] = read.take(read.left()).decode("utf-8")
    except UnicodeDecodeError:
        raise Unparsable("the amount is not UTF-8") from None
    return {"type": "uiAmountToAmount", "info": info}


def _initialize_close_authority(accounts: Sequence[str], read: Reader) -> Parsed:
    info = name_accounts(("mint",), accounts)
    info["newAuthority"] = _optional_key(read)
    return {"type": "initializeMintCloseAuthority", "info": info}


def _metadata_pointer(accounts: Sequence[str], read: Reader) -> Parsed:
    kind = read.u8()
    info = name_accounts(("mint",), accounts)
    if kind == 0:
        fields: dict[str, Any] = {
            "authority": read.key_or_none(),
            "metadataAddress": read.key_or_none(),
        }
        info |= {name: value for name, value in fields.items() if value is not None}
        return {"type": "initializeMetadataPointer", "info": info}
    if kind != 1:
        raise Unparsable(f"{kind} is no metadata pointer instruction")
    address = read.key_or_none()
    if address is not None:
        info["metadataAddress"] = address
    info |= _authority(accounts, 1, "authority")
    return {"type": "updateMetadataPointer", "info": info}


def _initialize_metadata(accounts: Sequence[str], read: Reader) -> Parsed:
    names = ("metadata", "updateAuthority", "mint", "mintAuthority")
    info = name_accounts(names, accounts)
    info |= {name: read.text(4) for name in ("name", "symbol", "uri")}
    return {"type": "initializeTokenMetadata", "info": info}


# The numbers are `TokenInstruction`'s.
_SIGNED: Mapping[int, _Signed] = {
    3: _Signed("transfer", ("source", "destination"), "authority", _amount),
    4: _Signed("approve", ("source", "delegate"), "owner", _amount),
    5: _Signed("revoke", ("source",), "owner"),
    7: _Signed("mintTo", ("mint", "account"), "mintAuthority", _amount),
    8: _Signed("burn", ("account", "mint"), "authority", _amount),
    9: _Signed("closeAccount", ("account", "destination"), "owner"),
    10: _Signed("freezeAccount", ("account", "mint"), "freezeAuthority"),
    11: _Signed("thawAccount", ("account", "mint"), "freezeAuthority"),
    12: _Signed("transferChecked", ("source", "mint", "destination"), "authority", _token_amount),
    13: _Signed("approveChecked", ("source", "mint", "delegate"), "owner", _token_amount),
    14: _Signed("mintToChecked", ("mint", "account"), "mintAuthority", _token_amount),
    15: _Signed("burnChecked", ("account", "mint"), "authority", _token_amount),
    38: _Signed("withdrawExcessLamports", ("source", "destination"), "authority"),
}

_TOKEN_PLAIN: Mapping[int, Layout] = {
    1: Layout("initializeAccount", ("account", "mint", "owner", "rentSysvar")),
    16: Layout("initializeAccount2", ("account", "mint", "rentSysvar"), (("owner", Reader.key),)),
    17: Layout("syncNative", ("account",)),
    18: Layout("initializeAccount3", ("account", "mint"), (("owner", Reader.key),)),
    22: Layout("initializeImmutableOwner", ("account",)),
    23: Layout("amountToUiAmount", ("mint",), (("amount", lambda read: str(read.u64())),)),
    31: Layout("createNativeMint", ("payer", "nativeMint", "systemProgram")),
    32: Layout("initializeNonTransferableMint", ("mint",)),
    35: Layout("initializePermanentDelegate", ("mint",), (("delegate", Reader.key),)),
}

_TOKEN_OWN: Mapping[int, Callable[[Sequence[str], Reader], Parsed]] = {
    0: lambda accounts, read: _initialize_mint(accounts, read, version=1),
    2: lambda accounts, read: _initialize_multisig(accounts, read, version=1),
    6: _set_authority,
    19: lambda accounts, read: _initialize_multisig(accounts, read, version=2),
    20: lambda accounts, read: _initialize_mint(accounts, read, version=2),
    21: _account_data_size,
    24: _ui_amount_to_amount,
    25: _initialize_close_authority,
    _METADATA_POINTER_EXTENSION: _metadata_pointer,
}


def parse_stake_instruction(accounts: Sequence[str], data: bytes) -> Parsed:
    """A stake instruction as `{"type", "info"}`.

    Raises:
        Unparsable: no parser knows the instruction, or accounts or data are missing.
    """
    read = Reader(data)
    kind = read.u32()
    if kind in _OWN:
        name, parse = _OWN[kind]
        return {"type": name, "info": parse(accounts, read)}
    if kind == _GET_MINIMUM_DELEGATION:
        return {"type": "getMinimumDelegation"}
    return apply(_PLAIN, kind, accounts, read)


def _has(accounts: Sequence[str], position: int, address: str) -> bool:
    return len(accounts) > position and accounts[position] == address


def _name(accounts: Sequence[str], required: Sequence[str], optional: Sequence[str]) -> Parsed:
    """The required accounts and as many of the optional ones as are there, by their names."""
    info = name_accounts(required, accounts)
    return info | dict(zip(optional, accounts[len(required) :], strict=False))


def _authority_type(read: Reader) -> str:
    kind = read.u32()
    if kind >= len(_AUTHORITY_TYPES):
        raise Unparsable(f"{kind} is no stake authority")
    return _AUTHORITY_TYPES[kind]


def _initialize(accounts: Sequence[str], read: Reader) -> Parsed:
    info = name_accounts(("stakeAccount",), accounts)
    info["authorized"] = {"staker": read.key(), "withdrawer": read.key()}
    info["lockup"] = {
        "unixTimestamp": read.signed(8),
        "epoch": read.u64(),
        "custodian": read.key(),
    }
    if _has(accounts, 1, RENT_SYSVAR):
        info["rentSysvar"] = RENT_SYSVAR
    return info


def _authorize(accounts: Sequence[str], read: Reader) -> Parsed:
    clock = ("clockSysvar",) if _has(accounts, 1, CLOCK_SYSVAR) else ()
    info = _name(accounts, ("stakeAccount", *clock, "authority"), ("custodian",))
    return info | {"newAuthority": read.key(), "authorityType": _authority_type(read)}


def _delegate(accounts: Sequence[str], _read: Reader) -> Parsed:
    if not _has(accounts, 2, CLOCK_SYSVAR):
        return _name(accounts, ("stakeAccount", "voteAccount", "stakeAuthority"), ())
    required = ("stakeAccount", "voteAccount", "clockSysvar", "stakeHistorySysvar")
    if _has(accounts, 4, STAKE_CONFIG):
        return _name(accounts, (*required, "stakeConfigAccount"), ("stakeAuthority",))
    return _name(accounts, (*required, "stakeAuthority"), ())


def _split(accounts: Sequence[str], read: Reader) -> Parsed:
    info = _name(accounts, ("stakeAccount", "newSplitAccount"), ("stakeAuthority",))
    return info | {"lamports": read.u64()}


def _withdraw(accounts: Sequence[str], read: Reader) -> Parsed:
    sysvars = ("clockSysvar", "stakeHistorySysvar") if _has(accounts, 2, CLOCK_SYSVAR) else ()
    required = ("stakeAccount", "destination", *sysvars, "withdrawAuthority")
    return _name(accounts, required, ("custodian",)) | {"lamports": read.u64()}


def _deactivate(accounts: Sequence[str], _read: Reader) -> Parsed:
    if _has(accounts, 1, CLOCK_SYSVAR):
        return _name(accounts, ("stakeAccount", "clockSysvar"), ("stakeAuthority",))
    return _name(accounts, ("stakeAccount", "stakeAuthority"), ())


def _merge(accounts: Sequence[str], _read: Reader) -> Parsed:
    if _has(accounts, 2, CLOCK_SYSVAR):
        required = ("destination", "source", "clockSysvar", "stakeHistorySysvar")
        return _name(accounts, required, ("stakeAuthority",))
    return _name(accounts, ("destination", "source", "stakeAuthority"), ())


def _initialize_checked(accounts: Sequence[str], _read: Reader) -> Parsed:
    rent = ("rentSysvar",) if _has(accounts, 1, RENT_SYSVAR) else ()
    return _name(accounts, ("stakeAccount", *rent, "staker", "withdrawer"), ())


def _authorize_checked(accounts: Sequence[str], read: Reader) -> Parsed:
    clock = ("clockSysvar",) if _has(accounts, 1, CLOCK_SYSVAR) else ()
    required = ("stakeAccount", *clock, "authority", "newAuthority")
    return _name(accounts, required, ("custodian",)) | {"authorityType": _authority_type(read)}


_GET_MINIMUM_DELEGATION = 13
_MOVE = ("source", "destination", "stakeAuthority")

# The numbers are `StakeInstruction`'s.
_OWN: Mapping[int, tuple[str, Callable[[Sequence[str], Reader], Parsed]]] = {
    0: ("initialize", _initialize),
    1: ("authorize", _authorize),
    2: ("delegate", _delegate),
    3: ("split", _split),
    4: ("withdraw", _withdraw),
    5: ("deactivate", _deactivate),
    7: ("merge", _merge),
    9: ("initializeChecked", _initialize_checked),
    10: ("authorizeChecked", _authorize_checked),
}

_PLAIN: Mapping[int, Layout] = {
    14: Layout("deactivateDelinquent", ("stakeAccount", "voteAccount", "referenceVoteAccount")),
    16: Layout("moveStake", _MOVE, (("lamports", Reader.u64),)),
    17: Layout("moveLamports", _MOVE, (("lamports", Reader.u64),)),
}


def parse_instruction(program_id: str, accounts: Sequence[str], data: bytes) -> Parsed:
    """An instruction as `{"program", "programId", "parsed"}`.

    `accounts` are the instruction's own accounts in their order, as base58.

    Raises:
        Unparsable: no parser knows the program or the instruction, or accounts are missing.
    """
    try:
        program, parse = _PARSERS[program_id]
    except KeyError:
        raise Unparsable(f"no parser for instructions of {program_id}") from None
    return {"program": program, "programId": program_id, "parsed": parse(accounts, data)}


def _system(accounts: Sequence[str], data: bytes) -> Parsed:
    read = Reader(data)
    kind = read.u32()
    if kind == _CREATE_ALLOW_PREFUND:
        return _create_allow_prefund(accounts, read)
    return apply(_SYSTEM, kind, accounts, read)


def _create_allow_prefund(accounts: Sequence[str], read: Reader) -> Parsed:
    lamports = read.u64()
    # Without lamports nobody pays, and the second account may be missing.
    names = ("newAccount", "source") if lamports else ("newAccount",)
    info = name_accounts(names, accounts)
    if lamports:
        info["lamports"] = lamports
    info |= {"space": read.u64(), "owner": read.key()}
    return {"type": "createAccountAllowPrefund", "info": info}


def _associated_token(accounts: Sequence[str], data: bytes) -> Parsed:
    # The program's first version had no instruction data: it could only create.
    return apply(_ASSOCIATED, data[0] if data else 0, accounts, Reader(data))


def _memo(_accounts: Sequence[str], data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unparsable(f"the memo is not UTF-8: {error}") from None


def _text(read: Reader) -> str:
    return read.text(8)


_CREATE_ALLOW_PREFUND = 13
_NONCE = ("nonceAccount", "recentBlockhashesSysvar")

# The numbers are `SystemInstruction`'s.
_SYSTEM: Mapping[int, Layout] = {
    0: Layout(
        "createAccount",
        ("source", "newAccount"),
        (("lamports", Reader.u64), ("space", Reader.u64), ("owner", Reader.key)),
    ),
    1: Layout("assign", ("account",), (("owner", Reader.key),)),
    2: Layout("transfer", ("source", "destination"), (("lamports", Reader.u64),)),
    3: Layout(
        "createAccountWithSeed",
        ("source", "newAccount"),
        (
            ("base", Reader.key),
            ("seed", _text),
            ("lamports", Reader.u64),
            ("space", Reader.u64),
            ("owner", Reader.key),
        ),
    ),
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
        (("lamports", Reader.u64),),
    ),
    6: Layout("initializeNonce", (*_NONCE, "rentSysvar"), (("nonceAuthority", Reader.key),)),
    7: Layout(
        "authorizeNonce", ("nonceAccount", "nonceAuthority"), (("newAuthorized", Reader.key),)
    ),
    8: Layout("allocate", ("account",), (("space", Reader.u64),)),
    9: Layout(
        "allocateWithSeed",
        ("account",),
        (("base", Reader.key), ("seed", _text), ("space", Reader.u64), ("owner", Reader.key)),
    ),
    10: Layout(
        "assignWithSeed",
        ("account",),
        (("base", Reader.key), ("seed", _text), ("owner", Reader.key)),
    ),
    11: Layout(
        "transferWithSeed",
        ("source", "sourceBase", "destination"),
        (("lamports", Reader.u64), ("sourceSeed", _text), ("sourceOwner", Reader.key)),
    ),
    12: Layout("upgradeNonce", ("nonceAccount",)),
}

_CREATE = ("source", "account", "wallet", "mint", "systemProgram", "tokenProgram")
_ASSOCIATED: Mapping[int, Layout] = {
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

_PARSERS: Mapping[str, tuple[str, Callable[[Sequence[str], bytes], Any]]] = {
    SYSTEM_PROGRAM: ("system", _system),
    TOKEN_PROGRAM: ("spl-token", parse_token_instruction),
    TOKEN_2022_PROGRAM: ("spl-token", parse_token_instruction),
    ASSOCIATED_TOKEN_PROGRAM: (
        "spl-associated-token-account",
        _associated_token,
    ),
    STAKE_PROGRAM: ("stake", parse_stake_instruction),
    MEMO_V1_PROGRAM: ("spl-memo", _memo),
    MEMO_PROGRAM: ("spl-memo", _memo),
}

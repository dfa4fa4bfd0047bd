"""Instructions of SPL Token and Token-2022.

Token-2022's extension instructions that a wallet meets (metadata and pointers, mint close
authority) are parsed; the rest raise `Unparsable` and are shown partially decoded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
    if kind in _OWN:
        return _OWN[kind](accounts, read)
    return apply(_PLAIN, kind, accounts, read)


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

_PLAIN: Mapping[int, Layout] = {
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

_OWN: Mapping[int, Callable[[Sequence[str], Reader], Parsed]] = {
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

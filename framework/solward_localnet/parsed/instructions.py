"""Instructions as `jsonParsed`: the layouts of each program's, in tables."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from solward.solana.instructions import TOKEN_METADATA_INITIALIZE, System, Token
from solward.solana.programs import (
    ASSOCIATED_TOKEN_PROGRAM,
    MEMO_PROGRAM,
    MEMO_V1_PROGRAM,
    SYSTEM_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
)
from solward_localnet.parsed.reader import (
    Fields,
    Layout,
    Parsed,
    Reader,
    Unparsable,
    apply,
    shown,
)
from solward_localnet.parsed.tokens import EXTENSION_TYPES, ui_token_amount

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


def _token(accounts: Sequence[str], data: bytes) -> Parsed:
    if data.startswith(TOKEN_METADATA_INITIALIZE):
        return shown(_METADATA_LAYOUT, accounts, Reader(data, len(TOKEN_METADATA_INITIALIZE)))
    read = Reader(data)
    kind = read.u8()
    if kind == Token.SET_AUTHORITY:
        return _set_authority(accounts, read)
    if kind == Token.METADATA_POINTER_EXTENSION:
        return apply(_METADATA_POINTERS, read.u8(), accounts, read)
    return apply(_TOKEN, kind, accounts, read)


def _set_authority(accounts: Sequence[str], read: Reader) -> Parsed:
    kind = read.u8()
    if kind >= len(_AUTHORITIES):
        raise Unparsable(f"{kind} is no authority type")
    owned, name = _AUTHORITIES[kind]
    fields = {"authorityType": lambda _read: name, "newAuthority": Reader.optional_key}
    return shown(Layout("setAuthority", (owned,), fields, "authority"), accounts, read)


def _token_amount(read: Reader) -> Parsed:
    amount, decimals = read.u64(), read.u8()
    return ui_token_amount(amount, decimals)


def _extension_types(read: Reader) -> list[str] | None:
    kinds = [read.u16() for _ in range(read.left() // 2)]
    if any(kind >= len(EXTENSION_TYPES) for kind in kinds):
        raise Unparsable("an unknown extension type")
    return [EXTENSION_TYPES[kind] for kind in kinds] or None


_AMOUNT: Fields = {"amount": Reader.amount}
_CHECKED: Fields = {"tokenAmount": _token_amount}
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
    21: Layout("getAccountDataSize", ("mint",), {"extensionTypes?": _extension_types}),
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
    if kind == System.CREATE_ACCOUNT_ALLOW_PREFUND:
        # Without lamports nobody pays, and the second account may be missing.
        lamports = read.u64()
        names = ("newAccount", "source") if lamports else ("newAccount",)
        fields = {"lamports?": lambda _read: lamports or None, **_SPACE, **_OWNER}
        layout = Layout("createAccountAllowPrefund", names, fields)
        return shown(layout, accounts, read)
    return apply(_SYSTEM, kind, accounts, read)


def _associated_token(accounts: Sequence[str], data: bytes) -> Parsed:
    # The program's first version had no instruction data: it could only create.
    return apply(_ASSOCIATED, data[0] if data else 0, accounts, Reader(data))


def _memo(_accounts: Sequence[str], data: bytes) -> str:
    return Reader(data).text()


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
    TOKEN_PROGRAM: ("spl-token", _token),
    TOKEN_2022_PROGRAM: ("spl-token", _token),
    ASSOCIATED_TOKEN_PROGRAM: ("spl-associated-token-account", _associated_token),
    MEMO_V1_PROGRAM: ("spl-memo", _memo),
    MEMO_PROGRAM: ("spl-memo", _memo),
}

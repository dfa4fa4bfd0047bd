"""Instructions as `jsonParsed`: the parser of each program; System, associated token and memo."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from solward.solana.programs import (
    ASSOCIATED_TOKEN_PROGRAM,
    MEMO_PROGRAM,
    MEMO_V1_PROGRAM,
    STAKE_PROGRAM,
    SYSTEM_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
)
from solward_localnet.parsed.reader import Layout, Parsed, Reader, Unparsable, apply, name_accounts
from solward_localnet.parsed.stake_instructions import parse_stake_instruction
from solward_localnet.parsed.token_instructions import parse_token_instruction


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

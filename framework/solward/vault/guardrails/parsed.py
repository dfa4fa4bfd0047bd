"""Inner instructions in the parsed form real RPC nodes answer with, turned back into bytes.

`simulateTransaction` of Agave words inner instructions it knows as `{"program", "programId",
"parsed": {"type", "info"}}`. Kinds not listed here are refused, so nothing is judged half read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from solders.pubkey import Pubkey

from solward.solana.programs import (
    ASSOCIATED_TOKEN_PROGRAM,
    MEMO_PROGRAMS,
    RENT_SYSVAR,
    SYSTEM_PROGRAM,
    TOKEN_PROGRAMS,
)
from solward.vault.guardrails.errors import UntrustedSimulation
from solward.vault.guardrails.model import Invocation

_AUTHORITY_TYPES = ("mintTokens", "freezeAccount", "accountOwner", "closeAccount")


def parsed_call(item: Mapping[Any, Any], top: int) -> Invocation:
    """One parsed inner instruction -> the call it stands for.

    Raises:
        UntrustedSimulation: a program, type or field that is not known.
    """
    program, parsed = item.get("programId"), item.get("parsed")
    if isinstance(program, str) and program in MEMO_PROGRAMS and isinstance(parsed, str):
        return Invocation(program, (), parsed.encode(), top)
    if isinstance(program, str) and isinstance(parsed, Mapping):
        kind, info = parsed.get("type"), parsed.get("info")
        if isinstance(kind, str) and isinstance(info, Mapping):
            try:
                accounts, data = _rebuild(program, kind, info)
            except (KeyError, ValueError, TypeError, OverflowError):
                accounts, data = (), None
            if data is not None:
                return Invocation(program, accounts, data, top)
        raise UntrustedSimulation(f"an inner {kind!r} instruction of {program} is not understood")
    raise UntrustedSimulation("a parsed inner instruction has an unknown form")


def _rebuild(
    program: str, kind: str, info: Mapping[Any, Any]
) -> tuple[tuple[str, ...], bytes | None]:
    if program == SYSTEM_PROGRAM:
        return _system(kind, info)
    if program in TOKEN_PROGRAMS:
        return _token(kind, info)
    if program == ASSOCIATED_TOKEN_PROGRAM and kind in ("create", "createIdempotent"):
        names = ("source", "account", "wallet", "mint", "systemProgram", "tokenProgram")
        return _names(info, *names), bytes([kind == "createIdempotent"])
    return (), None


def _system(kind: str, info: Mapping[Any, Any]) -> tuple[tuple[str, ...], bytes | None]:
    if kind == "transfer":
        return _names(info, "source", "destination"), _u32(2) + _u64(info["lamports"])
    if kind == "createAccount":
        data = _u32(0) + _u64(info["lamports"]) + _u64(info["space"]) + _key(info["owner"])
        return _names(info, "source", "newAccount"), data
    if kind == "createAccountAllowPrefund":
        data = _u32(13) + _u64(info.get("lamports", 0)) + _u64(info["space"]) + _key(info["owner"])
        return _names(info, *(name for name in ("newAccount", "source") if name in info)), data
    if kind == "createAccountWithSeed":
        seed = str(info["seed"]).encode()
        data = _u32(3) + _key(info["base"]) + _u64(len(seed)) + seed
        data += _u64(info["lamports"]) + _u64(info["space"]) + _key(info["owner"])
        return _names(info, "source", "newAccount"), data
    if kind == "transferWithSeed":
        seed = str(info["sourceSeed"]).encode()
        data = _u32(11) + _u64(info["lamports"]) + _u64(len(seed)) + seed
        data += _key(info["sourceOwner"])
        return _names(info, "source", "sourceBase", "destination"), data
    if kind == "assign":
        return _names(info, "account"), _u32(1) + _key(info["owner"])
    if kind == "allocate":
        return _names(info, "account"), _u32(8) + _u64(info["space"])
    return (), None


def _token(kind: str, info: Mapping[Any, Any]) -> tuple[tuple[str, ...], bytes | None]:
    if "signers" in info:
        return (), None
    simple = {
        "closeAccount": (9, ("account", "destination", "owner")),
        "syncNative": (17, ("account",)),
        "initializeImmutableOwner": (22, ("account",)),
        "revoke": (5, ("source", "owner")),
    }
    amounts = {
        "transfer": (3, ("source", "destination", "authority")),
        "approve": (4, ("source", "delegate", "owner")),
        "mintTo": (7, ("mint", "account", "mintAuthority")),
        "burn": (8, ("account", "mint", "authority")),
    }
    checked = {
        "transferChecked": (12, ("source", "mint", "destination", "authority")),
        "approveChecked": (13, ("source", "mint", "delegate", "owner")),
        "mintToChecked": (14, ("mint", "account", "mintAuthority")),
        "burnChecked": (15, ("account", "mint", "authority")),
    }
    if kind in simple:
        number, names = simple[kind]
        return _names(info, *names), bytes([number])
    if kind in amounts:
        number, names = amounts[kind]
        return _names(info, *names), bytes([number]) + _u64(info["amount"])
    if kind in checked:
        number, names = checked[kind]
        amount = info["tokenAmount"]
        data = bytes([number]) + _u64(amount["amount"]) + bytes([int(amount["decimals"])])
        return _names(info, *names), data
    if kind in ("initializeAccount2", "initializeAccount3"):
        number = 16 if kind == "initializeAccount2" else 18
        return _names(info, "account", "mint"), bytes([number]) + _key(info["owner"])
    if kind == "initializeAccount":
        return (*_names(info, "account", "mint", "owner"), RENT_SYSVAR), b"\x01"
    if kind == "setAuthority":
        target = "account" if "account" in info else "mint"
        new = info["newAuthority"]
        option = b"\x00" if new is None else b"\x01" + _key(new)
        data = bytes([6, _AUTHORITY_TYPES.index(info["authorityType"])]) + option
        return _names(info, target, "authority"), data
    if kind == "getAccountDataSize":
        return _names(info, "mint"), b"\x15"
    return (), None


def _names(info: Mapping[Any, Any], *names: str) -> tuple[str, ...]:
    return tuple(str(Pubkey.from_string(info[name])) for name in names)


def _key(value: str) -> bytes:
    return bytes(Pubkey.from_string(value))


def _u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def _u64(value: int | str) -> bytes:
    return int(value).to_bytes(8, "little")

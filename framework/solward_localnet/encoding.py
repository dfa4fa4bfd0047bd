"""Accounts in the encodings of Solana's JSON-RPC. For `jsonParsed`, here is a parser for each owner
program except the token programs."""

import base64
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any

from solders.account import Account
from solders.pubkey import Pubkey

from solward.solana import accounts as layouts
from solward.solana.programs import (
    CLOCK_SYSVAR,
    EPOCH_SCHEDULE_SYSVAR,
    LOOKUP_TABLE_PROGRAM,
    RENT_SYSVAR,
    STAKE_HISTORY_SYSVAR,
    STAKE_PROGRAM,
    SYSTEM_PROGRAM,
    SYSVAR_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
    VOTE_PROGRAM,
)
from solward.solana.stakes import read_stake_history, stake_account
from solward.support.base58 import b58encode
from solward_localnet.accountindex import plain
from solward_localnet.jsonrpc import INVALID_REQUEST, RpcError, check_variant, invalid_params
from solward_localnet.parsed import (
    Fields,
    ParseContext,
    Parsed,
    Reader,
    Unparsable,
    json_float,
    parse_token,
    read_fields,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAX_BASE58_BYTES = 128
"""Agave's limit for account data in base58, because encoding takes quadratic time."""

ACCOUNT_ENCODINGS = ("binary", "base58", "base64", "base64+zstd", "jsonParsed")


def encode_account(
    account: Account,
    encoding: str | None,
    data_slice: Mapping[str, Any] | None,
    pubkey: Pubkey,
    parse_context: ParseContext = lambda _address: None,
) -> dict[str, Any]:
    """Return the `UiAccount` of `account`: lamports, data, owner, executable, rentEpoch, space.

    `encoding` None is the legacy `binary`: base58 text alone. `jsonParsed` falls back to base64
    where the data cannot be parsed, as in Agave. `data_slice` is `{"offset", "length"}` in bytes
    and does not touch `space`, which is the whole length. `parse_context` looks up mints;
    without one token accounts fall back too.

    Raises:
        RpcError: an unknown encoding or a bad slice (-32602), or more than 128 bytes in base58
            (-32600), with Agave's texts.
    """
    check_account_encoding(encoding)
    whole = account.data
    return {
        "lamports": account.lamports,
        "data": _encode_data(account, encoding, data_slice, pubkey, parse_context),
        "owner": str(account.owner),
        "executable": account.executable,
        "rentEpoch": account.rent_epoch,
        "space": len(whole),
    }


def check_account_encoding(encoding: object) -> None:
    """Refuse a value that is not an account encoding.

    Raises:
        RpcError: -32602 with the text serde gives for an unknown variant.
    """
    if encoding is not None:
        check_variant(encoding, ACCOUNT_ENCODINGS)


def _encode_data(
    account: Account,
    encoding: str | None,
    data_slice: Mapping[str, Any] | None,
    pubkey: Pubkey,
    parse_context: ParseContext,
) -> Any:
    if encoding == "jsonParsed":
        try:
            return parse_account(pubkey, account, parse_context)
        except Unparsable:
            encoding = "base64"
    data = _cut_slice(account.data, data_slice)
    if encoding in (None, "binary", "base58"):
        if len(data) > MAX_BASE58_BYTES:
            raise RpcError(
                INVALID_REQUEST,
                "Encoded binary (base 58) data should be less than "
                f"{MAX_BASE58_BYTES} bytes, please use Base64 encoding.",
            )
        text = b58encode(data)
        return [text, "base58"] if encoding == "base58" else text
    if encoding == "base64+zstd":
        data = zstd.compress(data)
    return [base64.b64encode(data).decode("ascii"), encoding]


def _cut_slice(data: bytes, data_slice: Mapping[str, Any] | None) -> bytes:
    if data_slice is None:
        return data
    bounds: list[int] = []
    for field in ("offset", "length"):
        value = data_slice.get(field)
        if type(value) is not int or value < 0:
            raise invalid_params(
                f"Invalid params: dataSlice.{field} must be a whole number of bytes, not {value!r}."
            )
        bounds.append(value)
    offset, length = bounds
    return data[offset : offset + length]


_STAKES_WITHOUT_STATE = {0: "uninitialized", 3: "rewardsPool"}
_VOTE_1_14_11, _VOTE_3, _VOTE_4 = 1, 2, 3
_PRIOR_VOTERS = 32
_NO_VOTER = str(Pubkey.default())


def parse_account(pubkey: Pubkey, account: Account, context: ParseContext) -> Parsed:
    """Return the `ParsedAccount`: `{"program", "parsed", "space"}`.

    Raises:
        Unparsable: no parser knows the owner, or the data is not of its layout.
    """
    try:
        program, parse = _PARSERS[str(account.owner)]
    except KeyError:
        raise Unparsable(f"no parser for accounts of {account.owner}") from None
    parsed = parse(pubkey, account, context)
    return {"program": program, "parsed": parsed, "space": len(account.data)}


def _parse_nonce(_pubkey: Pubkey, account: Account, _context: ParseContext) -> Parsed:
    nonce = layouts.decode_nonce(account.data)
    if nonce is None or nonce.version > 1:
        raise Unparsable("not an initialized nonce account")
    return {
        "type": "initialized",
        "info": {
            "authority": nonce.authority,
            "blockhash": b58encode(nonce.value),
            "feeCalculator": {"lamportsPerSignature": str(nonce.lamports_per_signature)},
        },
    }


def _parse_lookup_table(_pubkey: Pubkey, account: Account, _context: ParseContext) -> Parsed:
    read = Reader(account.data)
    kind = read.u32()
    if kind == 0:
        return {"type": "uninitialized"}
    if kind != 1:
        raise Unparsable(f"{kind} is no lookup table state")
    info: Parsed = {
        "deactivationSlot": str(read.u64()),
        "lastExtendedSlot": str(read.u64()),
        "lastExtendedSlotStartIndex": read.u8(),
    }
    if read.boolean():
        info["authority"] = read.key()
    if len(account.data) < layouts.LOOKUP_TABLE_HEADER_BYTES:
        raise Unparsable("shorter than a lookup table's header")
    info["addresses"] = layouts.lookup_table_addresses(account.data)
    return {"type": "lookupTable", "info": info}


def _parse_stake(_pubkey: Pubkey, account: Account, _context: ParseContext) -> Parsed:
    stake = stake_account(plain(account))
    if stake is None:
        kind = Reader(account.data).u32()
        if kind not in _STAKES_WITHOUT_STATE:
            raise Unparsable(f"{kind} is no stake state, or its data is cut off")
        return {"type": _STAKES_WITHOUT_STATE[kind]}
    lockup, delegation = stake.lockup, stake.delegation
    meta = {
        "rentExemptReserve": str(stake.rent_reserve),
        "authorized": {"staker": stake.staker, "withdrawer": stake.withdrawer},
        "lockup": {
            "unixTimestamp": lockup.unix_time,
            "epoch": lockup.epoch,
            "custodian": lockup.custodian,
        },
    }
    if delegation is None:
        return {"type": "initialized", "info": {"meta": meta, "stake": None}}
    delegated = {
        "delegation": {
            "voter": str(delegation.voter),
            "stake": str(delegation.stake),
            "activationEpoch": str(delegation.activation_epoch),
            "deactivationEpoch": str(delegation.deactivation_epoch),
            "warmupCooldownRate": json_float(delegation.warmup_rate),
        },
        "creditsObserved": delegation.credits_observed,
    }
    return {"type": "delegated", "info": {"meta": meta, "stake": delegated}}


def _parse_vote(_pubkey: Pubkey, account: Account, _context: ParseContext) -> Parsed:
    # `VoteStateVersions` 1.14.11, 3 and 4.
    read = Reader(account.data)
    version = read.u32()
    if version not in (_VOTE_1_14_11, _VOTE_3, _VOTE_4):
        raise Unparsable(f"{version} is no vote state")
    info: Parsed = {"nodePubkey": read.key(), "authorizedWithdrawer": read.key()}
    info["commission"] = _read_commission_v4(read) if version == _VOTE_4 else read.u8()
    info["votes"] = []
    for _ in _item_range(read):
        # Later versions have each vote's latency before it.
        read.take(0 if version == _VOTE_1_14_11 else 1)
        info["votes"].append({"slot": read.u64(), "confirmationCount": read.u32()})
    info["rootSlot"] = read.u64() if read.boolean() else None
    info["authorizedVoters"] = [
        {"epoch": read.u64(), "authorizedVoter": read.key()} for _ in _item_range(read)
    ]
    info["priorVoters"] = [] if version == _VOTE_4 else _read_prior_voters(read)
    info["epochCredits"] = [
        {"epoch": read.u64(), "credits": str(read.u64()), "previousCredits": str(read.u64())}
        for _ in _item_range(read)
    ]
    info["lastTimestamp"] = {"slot": read.u64(), "timestamp": read.i64()}
    return {"type": "vote", "info": info}


def _item_range(read: Reader) -> range:
    count = read.u64()
    if count > read.remaining():
        raise Unparsable(f"{count} items do not fit")
    return range(count)


def _read_commission_v4(read: Reader) -> int:
    read.take(64)
    percent = read.u16() // 100
    read.take(2 + 8)
    if read.boolean():
        read.take(48)
    return percent


def _read_prior_voters(read: Reader) -> list[Parsed]:
    voters = [
        {
            "authorizedPubkey": read.key(),
            "epochOfLastAuthorizedSwitch": read.u64(),
            "targetEpoch": read.u64(),
        }
        for _ in range(_PRIOR_VOTERS)
    ]
    read.take(8 + 1)
    return [voter for voter in voters if voter["authorizedPubkey"] != _NO_VOTER]


def _parse_sysvar(pubkey: Pubkey, account: Account, _context: ParseContext) -> Parsed:
    address, read = str(pubkey), Reader(account.data)
    if address == STAKE_HISTORY_SYSVAR:
        try:
            history = read_stake_history(account.data)
        except struct.error as error:
            raise Unparsable(str(error)) from None
        names = ("effective", "activating", "deactivating")
        entries = [
            {"epoch": epoch, "stakeHistory": dict(zip(names, entry, strict=True))}
            for epoch, entry in history.items()
        ]
        return {"type": "stakeHistory", "info": entries}
    if address not in _SYSVARS:
        raise Unparsable(f"no parser for the sysvar {address}")
    name, fields = _SYSVARS[address]
    return {"type": name, "info": read_fields(fields, read)}


_SYSVARS: Mapping[str, tuple[str, Fields]] = {
    CLOCK_SYSVAR: (
        "clock",
        {
            "slot": Reader.u64,
            "epochStartTimestamp": Reader.i64,
            "epoch": Reader.u64,
            "leaderScheduleEpoch": Reader.u64,
            "unixTimestamp": Reader.i64,
        },
    ),
    RENT_SYSVAR: (
        "rent",
        {
            "lamportsPerByteYear": Reader.amount,
            "exemptionThreshold": Reader.double,
            "burnPercent": Reader.u8,
        },
    ),
    EPOCH_SCHEDULE_SYSVAR: (
        "epochSchedule",
        {
            "slotsPerEpoch": Reader.u64,
            "leaderScheduleSlotOffset": Reader.u64,
            "warmup": Reader.boolean,
            "firstNormalEpoch": Reader.u64,
            "firstNormalSlot": Reader.u64,
        },
    ),
}

_PARSERS: Mapping[str, tuple[str, Callable[[Pubkey, Account, ParseContext], Parsed]]] = {
    SYSTEM_PROGRAM: ("nonce", _parse_nonce),
    LOOKUP_TABLE_PROGRAM: ("address-lookup-table", _parse_lookup_table),
    TOKEN_PROGRAM: ("spl-token", parse_token),
    TOKEN_2022_PROGRAM: ("spl-token-2022", parse_token),
    STAKE_PROGRAM: ("stake", _parse_stake),
    VOTE_PROGRAM: ("vote", _parse_vote),
    SYSVAR_PROGRAM: ("sysvar", _parse_sysvar),
}

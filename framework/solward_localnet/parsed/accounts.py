"""Which parser an account's owner asks for, and the parsers of one layout each."""

from collections.abc import Callable, Mapping

from solders.account import Account
from solders.pubkey import Pubkey

from solward.solana.base58 import b58encode
from solward.solana.programs import (
    LOOKUP_TABLE_PROGRAM,
    STAKE_PROGRAM,
    SYSTEM_PROGRAM,
    SYSVAR_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
    VOTE_PROGRAM,
)
from solward_localnet.parsed.reader import ParseContext, Parsed, Reader, Unparsable
from solward_localnet.parsed.stake import parse_stake
from solward_localnet.parsed.sysvars import parse_sysvar
from solward_localnet.parsed.tokens import parse_token
from solward_localnet.parsed.vote import parse_vote

_LOOKUP_TABLE_META = 56


def parse_account(pubkey: Pubkey, account: Account, context: ParseContext) -> Parsed:
    """The `ParsedAccount`: `{"program", "parsed", "space"}`.

    Raises:
        Unparsable: no parser knows the owner, or the data is not of its layout.
    """
    try:
        program, parse = _PARSERS[str(account.owner)]
    except KeyError:
        raise Unparsable(f"no parser for accounts of {account.owner}") from None
    parsed = parse(pubkey, account, context)
    return {"program": program, "parsed": parsed, "space": len(account.data)}


def _nonce(_pubkey: Pubkey, account: Account, _context: ParseContext) -> Parsed:
    read = Reader(account.data)
    version, state = read.u32(), read.u32()
    # An allocated account of zeros would read as an uninitialized nonce, and is none.
    if version > 1 or state != 1:
        raise Unparsable("not an initialized nonce account")
    return {
        "type": "initialized",
        "info": {
            "authority": read.key(),
            "blockhash": b58encode(read.take(32)),
            "feeCalculator": {"lamportsPerSignature": str(read.u64())},
        },
    }


def _lookup_table(_pubkey: Pubkey, account: Account, _context: ParseContext) -> Parsed:
    data = account.data
    read = Reader(data)
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
    addresses = Reader(data, _LOOKUP_TABLE_META)
    info["addresses"] = [addresses.key() for _ in range(addresses.left() // 32)]
    return {"type": "lookupTable", "info": info}


_PARSERS: Mapping[str, tuple[str, Callable[[Pubkey, Account, ParseContext], Parsed]]] = {
    SYSTEM_PROGRAM: ("nonce", _nonce),
    LOOKUP_TABLE_PROGRAM: ("address-lookup-table", _lookup_table),
    TOKEN_PROGRAM: ("spl-token", parse_token),
    TOKEN_2022_PROGRAM: ("spl-token-2022", parse_token),
    STAKE_PROGRAM: ("stake", parse_stake),
    VOTE_PROGRAM: ("vote", parse_vote),
    SYSVAR_PROGRAM: ("sysvar", parse_sysvar),
}

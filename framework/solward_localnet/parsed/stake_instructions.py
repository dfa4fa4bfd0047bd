"""Instructions of the Stake program, in its layouts with and without sysvar accounts."""

from collections.abc import Callable, Mapping, Sequence

from solward.solana.programs import CLOCK_SYSVAR, RENT_SYSVAR, STAKE_CONFIG
from solward_localnet.parsed.reader import Layout, Parsed, Reader, Unparsable, apply, name_accounts

_AUTHORITY_TYPES = ("Staker", "Withdrawer")


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

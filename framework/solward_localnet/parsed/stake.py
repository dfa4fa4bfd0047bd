"""Accounts of the Stake program."""

from solders.account import Account
from solders.pubkey import Pubkey

from solward_localnet.parsed.reader import ParseContext, Parsed, Reader, Unparsable

_UNINITIALIZED, _INITIALIZED, _DELEGATED, _REWARDS_POOL = range(4)


def parse_stake(_pubkey: Pubkey, account: Account, _context: ParseContext) -> Parsed:
    """A stake account (`StakeStateV2`) as `{"type", "info"}`.

    Raises:
        Unparsable: the data is no stake state.
    """
    read = Reader(account.data)
    kind = read.u32()
    if kind == _UNINITIALIZED:
        return {"type": "uninitialized"}
    if kind == _INITIALIZED:
        return {"type": "initialized", "info": {"meta": _meta(read), "stake": None}}
    if kind == _DELEGATED:
        return {"type": "delegated", "info": {"meta": _meta(read), "stake": _stake(read)}}
    if kind == _REWARDS_POOL:
        return {"type": "rewardsPool"}
    raise Unparsable(f"{kind} is no stake state")


def _meta(read: Reader) -> Parsed:
    return {
        "rentExemptReserve": str(read.u64()),
        "authorized": {"staker": read.key(), "withdrawer": read.key()},
        "lockup": {
            "unixTimestamp": read.signed(8),
            "epoch": read.u64(),
            "custodian": read.key(),
        },
    }


def _stake(read: Reader) -> Parsed:
    delegation: Parsed = {
        "voter": read.key(),
        "stake": str(read.u64()),
        "activationEpoch": str(read.u64()),
        "deactivationEpoch": str(read.u64()),
        "warmupCooldownRate": read.double(),
    }
    return {"delegation": delegation, "creditsObserved": read.u64()}

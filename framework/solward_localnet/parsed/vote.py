"""Accounts of the Vote program."""

from solders.account import Account
from solders.pubkey import Pubkey

from solward_localnet.parsed.reader import ParseContext, Parsed, Reader, Unparsable

_V1_14_11, _V3, _V4 = 1, 2, 3
_PRIOR_VOTERS = 32
_NO_VOTER = str(Pubkey.default())


def parse_vote(_pubkey: Pubkey, account: Account, _context: ParseContext) -> Parsed:
    """A vote account (`VoteStateVersions` 1.14.11, 3 and 4) as `{"type": "vote", "info"}`.

    Raises:
        Unparsable: the data is none of these versions.
    """
    read = Reader(account.data)
    version = read.u32()
    if version not in (_V1_14_11, _V3, _V4):
        raise Unparsable(f"{version} is no vote state")
    info: Parsed = {"nodePubkey": read.key(), "authorizedWithdrawer": read.key()}
    info["commission"] = _commission_v4(read) if version == _V4 else read.u8()
    info["votes"] = [_lockout(read, has_latency=version != _V1_14_11) for _ in _items(read)]
    info["rootSlot"] = read.u64() if read.boolean() else None
    info["authorizedVoters"] = [
        {"epoch": read.u64(), "authorizedVoter": read.key()} for _ in _items(read)
    ]
    info["priorVoters"] = [] if version == _V4 else _prior_voters(read)
    info["epochCredits"] = [
        {"epoch": read.u64(), "credits": str(read.u64()), "previousCredits": str(read.u64())}
        for _ in _items(read)
    ]
    info["lastTimestamp"] = {"slot": read.u64(), "timestamp": read.signed(8)}
    return {"type": "vote", "info": info}


def _items(read: Reader) -> range:
    count = read.u64()
    if count > read.left():
        raise Unparsable(f"{count} items do not fit")
    return range(count)


def _commission_v4(read: Reader) -> int:
    read.take(64)
    percent = read.u16() // 100
    read.take(2 + 8)
    if read.boolean():
        read.take(48)
    return percent


def _lockout(read: Reader, *, has_latency: bool) -> Parsed:
    if has_latency:
        read.u8()
    return {"slot": read.u64(), "confirmationCount": read.u32()}


def _prior_voters(read: Reader) -> list[Parsed]:
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

"""The sysvars clients read: Clock, Rent, EpochSchedule, StakeHistory."""

from collections.abc import Callable, Mapping

from solders.account import Account
from solders.pubkey import Pubkey

from solward.solana.programs import (
    CLOCK_SYSVAR,
    EPOCH_SCHEDULE_SYSVAR,
    RENT_SYSVAR,
    STAKE_HISTORY_SYSVAR,
)
from solward_localnet.parsed.reader import ParseContext, Parsed, Reader, Unparsable


def parse_sysvar(pubkey: Pubkey, account: Account, _context: ParseContext) -> Parsed:
    """The sysvar at `pubkey` as `{"type", "info"}`.

    Raises:
        Unparsable: another sysvar than the four, or data that is not of its layout.
    """
    try:
        name, parse = _PARSERS[str(pubkey)]
    except KeyError:
        raise Unparsable(f"no parser for the sysvar {pubkey}") from None
    return {"type": name, "info": parse(Reader(account.data))}


def _clock(read: Reader) -> Parsed:
    return {
        "slot": read.u64(),
        "epochStartTimestamp": read.signed(8),
        "epoch": read.u64(),
        "leaderScheduleEpoch": read.u64(),
        "unixTimestamp": read.signed(8),
    }


def _rent(read: Reader) -> Parsed:
    return {
        "lamportsPerByteYear": str(read.u64()),
        "exemptionThreshold": read.double(),
        "burnPercent": read.u8(),
    }


def _epoch_schedule(read: Reader) -> Parsed:
    return {
        "slotsPerEpoch": read.u64(),
        "leaderScheduleSlotOffset": read.u64(),
        "warmup": read.boolean(),
        "firstNormalEpoch": read.u64(),
        "firstNormalSlot": read.u64(),
    }


def _stake_history(read: Reader) -> list[Parsed]:
    count = read.u64()
    if count * 32 > read.left():
        raise Unparsable(f"{count} entries do not fit")
    return [
        {
            "epoch": read.u64(),
            "stakeHistory": {
                "effective": read.u64(),
                "activating": read.u64(),
                "deactivating": read.u64(),
            },
        }
        for _ in range(count)
    ]


_PARSERS: Mapping[str, tuple[str, Callable[[Reader], Parsed | list[Parsed]]]] = {
    CLOCK_SYSVAR: ("clock", _clock),
    RENT_SYSVAR: ("rent", _rent),
    EPOCH_SCHEDULE_SYSVAR: ("epochSchedule", _epoch_schedule),
    STAKE_HISTORY_SYSVAR: ("stakeHistory", _stake_history),
}

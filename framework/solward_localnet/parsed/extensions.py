"""The type-length-value extensions behind a Token-2022 mint or token account."""

from collections.abc import Callable, Mapping

from solward_localnet.parsed.reader import Parsed, Reader, Unparsable

_STATES = ("uninitialized", "initialized", "frozen")


def parse_extensions(data: bytes) -> list[Parsed]:
    """Each extension as `{"extension": name, "state": {...}}`, in the order they are stored.

    Extensions without a state have their name alone. One that cannot be read, and the confidential
    transfer family, is listed as `unparsableExtension`, which is Agave's name for such.
    """
    found: list[Parsed] = []
    read = Reader(data)
    while read.left() >= 4:
        kind, length = read.u16(), read.u16()
        if kind == 0 or length > read.left():
            break
        found.append(_parse(kind, read.take(length)))
    return found


def _parse(kind: int, data: bytes) -> Parsed:
    if kind in _MARKERS:
        return {"extension": _MARKERS[kind]}
    try:
        name, parse = _PARSERS[kind]
        return {"extension": name, "state": parse(Reader(data))}
    except (KeyError, Unparsable):
        return {"extension": "unparsableExtension"}


def _transfer_fee(read: Reader) -> Parsed:
    return {
        "epoch": read.u64(),
        "maximumFee": read.u64(),
        "transferFeeBasisPoints": read.u16(),
    }


def _transfer_fee_config(read: Reader) -> Parsed:
    return {
        "transferFeeConfigAuthority": read.key_or_none(),
        "withdrawWithheldAuthority": read.key_or_none(),
        "withheldAmount": read.u64(),
        "olderTransferFee": _transfer_fee(read),
        "newerTransferFee": _transfer_fee(read),
    }


def _default_account_state(read: Reader) -> Parsed:
    state = read.u8()
    return {"accountState": _STATES[state] if state < len(_STATES) else _STATES[0]}


def _interest_bearing(read: Reader) -> Parsed:
    return {
        "rateAuthority": read.key_or_none(),
        "initializationTimestamp": read.signed(8),
        "preUpdateAverageRate": read.signed(2),
        "lastUpdateTimestamp": read.signed(8),
        "currentRate": read.signed(2),
    }


def _metadata(read: Reader) -> Parsed:
    fields: Parsed = {"updateAuthority": read.key_or_none(), "mint": read.key()}
    fields |= {name: read.text(4) for name in ("name", "symbol", "uri")}
    pairs = read.u32()
    fields["additionalMetadata"] = [[read.text(4), read.text(4)] for _ in range(pairs)]
    return fields


def _multiplier(read: Reader) -> str:
    return str(read.double()).removesuffix(".0")


def _scaled_ui_amount(read: Reader) -> Parsed:
    return {
        "authority": read.key_or_none(),
        "multiplier": _multiplier(read),
        "newMultiplierEffectiveTimestamp": read.signed(8),
        "newMultiplier": _multiplier(read),
    }


def _token_group(read: Reader) -> Parsed:
    return {
        "updateAuthority": read.key_or_none(),
        "mint": read.key(),
        "size": read.u64(),
        "maxSize": read.u64(),
    }


def _token_group_member(read: Reader) -> Parsed:
    return {"mint": read.key(), "group": read.key(), "memberNumber": read.u64()}


def _keys(*names: str) -> Callable[[Reader], Parsed]:
    return lambda read: {name: read.key_or_none() for name in names}


def _flag(name: str) -> Callable[[Reader], Parsed]:
    return lambda read: {name: read.boolean()}


# The numbers are spl_token_2022's `ExtensionType`.
_MARKERS: Mapping[int, str] = {
    7: "immutableOwner",
    9: "nonTransferable",
    13: "nonTransferableAccount",
    27: "pausableAccount",
}
_PARSERS: Mapping[int, tuple[str, Callable[[Reader], Parsed]]] = {
    1: ("transferFeeConfig", _transfer_fee_config),
    2: ("transferFeeAmount", lambda read: {"withheldAmount": read.u64()}),
    3: ("mintCloseAuthority", _keys("closeAuthority")),
    6: ("defaultAccountState", _default_account_state),
    8: ("memoTransfer", _flag("requireIncomingTransferMemos")),
    10: ("interestBearingConfig", _interest_bearing),
    11: ("cpiGuard", _flag("lockCpi")),
    12: ("permanentDelegate", _keys("delegate")),
    14: ("transferHook", _keys("authority", "programId")),
    15: ("transferHookAccount", _flag("transferring")),
    18: ("metadataPointer", _keys("authority", "metadataAddress")),
    19: ("tokenMetadata", _metadata),
    20: ("groupPointer", _keys("authority", "groupAddress")),
    21: ("tokenGroup", _token_group),
    22: ("groupMemberPointer", _keys("authority", "memberAddress")),
    23: ("tokenGroupMember", _token_group_member),
    25: ("scaledUiAmountConfig", _scaled_ui_amount),
    26: (
        "pausableConfig",
        lambda read: {"authority": read.key_or_none(), "paused": read.boolean()},
    ),
}

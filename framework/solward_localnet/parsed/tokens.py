"""Token accounts, mints, multisigs and Token-2022's extensions as `jsonParsed`."""

from collections.abc import Callable, Mapping

from solders.account import Account
from solders.pubkey import Pubkey
from spl.token.constants import NATIVE_DECIMALS

from solward.solana.programs import TOKEN_2022_WRAPPED_SOL_MINT, WRAPPED_SOL_MINT
from solward.solana.tokens import MULTISIG_BYTES, Mint, TokenAccount, read_extensions
from solward.solana.tokens import token_account as strict_token_account
from solward_localnet.accountindex import mint_account, plain
from solward_localnet.parsed.reader import ParseContext, Parsed, Reader, Unparsable

_NATIVE_MINTS = frozenset({WRAPPED_SOL_MINT, TOKEN_2022_WRAPPED_SOL_MINT})
_STATES = ("uninitialized", "initialized", "frozen")


def ui_token_amount(amount: int, decimals: int) -> Parsed:
    """The `UiTokenAmount` of `amount` base units.

    `uiAmount` is for display only (a JSON number, as the wire has it); `amount` is exact.
    """
    text = str(amount)
    if decimals:
        padded = text.rjust(decimals + 1, "0")
        text = f"{padded[:-decimals]}.{padded[-decimals:]}".rstrip("0").rstrip(".")
    # Agave computes the divisor in 64 bits and gives up past them.
    fits = 10**decimals < 2**64
    return {
        "uiAmount": float(amount) / float(10**decimals) if fits else None,
        "decimals": decimals,
        "amount": str(amount),
        "uiAmountString": text,
    }


def mint_decimals(address: Pubkey, context: ParseContext) -> int:
    """The decimals of the mint at `address`.

    Raises:
        Unparsable: there is no such mint.
    """
    if str(address) in _NATIVE_MINTS:
        return NATIVE_DECIMALS
    mint = mint_account(address, context(address))
    if mint is None:
        raise Unparsable(f"no mint at {address}")
    return mint.decimals


def parse_token(pubkey: Pubkey, account: Account, context: ParseContext) -> Parsed:
    """A token account, mint or multisig as `{"type", "info"}`.

    Raises:
        Unparsable: the data is none of the three, or the token account's mint is unknown.
    """
    data = account.data
    token = strict_token_account(plain(account), strict=True)
    if token is not None:
        return {"type": "account", "info": _token_account(token, context) | _extensions(data)}
    mint = mint_account(pubkey, account)
    if mint is not None:
        return {"type": "mint", "info": _mint(mint) | _extensions(data)}
    if len(data) == MULTISIG_BYTES:
        return {"type": "multisig", "info": _multisig(data)}
    raise Unparsable("neither a token account nor a mint nor a multisig")


def _token_account(token: TokenAccount, context: ParseContext) -> Parsed:
    decimals = mint_decimals(Pubkey.from_string(token.mint), context)
    info: Parsed = {
        "mint": token.mint,
        "owner": token.owner,
        "tokenAmount": ui_token_amount(token.amount, decimals),
        "state": "frozen" if token.is_frozen else "initialized",
        "isNative": token.rent_reserve is not None,
    }
    if token.delegate is not None:
        info["delegate"] = token.delegate
        info["delegatedAmount"] = ui_token_amount(token.delegated_amount, decimals)
    if token.rent_reserve is not None:
        info["rentExemptReserve"] = ui_token_amount(token.rent_reserve, decimals)
    if token.close_authority is not None:
        info["closeAuthority"] = token.close_authority
    return info


def _mint(mint: Mint) -> Parsed:
    return {
        "mintAuthority": mint.mint_authority,
        "supply": str(mint.supply),
        "decimals": mint.decimals,
        "isInitialized": True,
        "freezeAuthority": mint.freeze_authority,
    }


def _multisig(data: bytes) -> Parsed:
    read = Reader(data)
    required, valid, initialized = read.u8(), read.u8(), read.boolean()
    if not initialized:
        raise Unparsable("the multisig is not initialized")
    signers = [read.key_or_none() for _ in range(11)]
    return {
        "numRequiredSigners": required,
        "numValidSigners": valid,
        "isInitialized": initialized,
        "signers": [signer for signer in signers if signer is not None],
    }


def _extensions(data: bytes) -> Parsed:
    """The extensions as `{"extension": name, "state": {...}}`, in the order they are stored.

    Extensions without a state have their name alone. One that cannot be read, and the confidential
    transfer family, is listed as `unparsableExtension`, which is Agave's name for such.
    """
    found = [_extension(kind, value) for kind, value in read_extensions(data, strict=True)]
    return {"extensions": found} if found else {}


def _extension(kind: int, data: bytes) -> Parsed:
    if kind in _MARKERS:
        return {"extension": _MARKERS[kind]}
    try:
        name, parse = _EXTENSIONS[kind]
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
        "initializationTimestamp": read.i64(),
        "preUpdateAverageRate": read.i16(),
        "lastUpdateTimestamp": read.i64(),
        "currentRate": read.i16(),
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
        "newMultiplierEffectiveTimestamp": read.i64(),
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
_EXTENSIONS: Mapping[int, tuple[str, Callable[[Reader], Parsed]]] = {
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

"""Token accounts, mints, multisigs and Token-2022's extensions as `jsonParsed`."""

from collections.abc import Mapping

from solders.account import Account
from solders.pubkey import Pubkey
from spl.token.constants import NATIVE_DECIMALS

from solward.solana.programs import TOKEN_2022_WRAPPED_SOL_MINT, WRAPPED_SOL_MINT
from solward.solana.tokens import MULTISIG_BYTES, Mint, TokenAccount, read_extensions
from solward.solana.tokens import token_account as strict_token_account
from solward_localnet.accountindex import mint_account, plain
from solward_localnet.parsed.reader import (
    Fields,
    ParseContext,
    Parsed,
    Reader,
    Unparsable,
    read_fields,
)

_NATIVE_MINTS = frozenset({WRAPPED_SOL_MINT, TOKEN_2022_WRAPPED_SOL_MINT})
_STATES = ("uninitialized", "initialized", "frozen")

EXTENSION_TYPES = (
    "uninitialized",
    "transferFeeConfig",
    "transferFeeAmount",
    "mintCloseAuthority",
    "confidentialTransferMint",
    "confidentialTransferAccount",
    "defaultAccountState",
    "immutableOwner",
    "memoTransfer",
    "nonTransferable",
    "interestBearingConfig",
    "cpiGuard",
    "permanentDelegate",
    "nonTransferableAccount",
    "transferHook",
    "transferHookAccount",
    "confidentialTransferFeeConfig",
    "confidentialTransferFeeAmount",
    "metadataPointer",
    "tokenMetadata",
    "groupPointer",
    "tokenGroup",
    "groupMemberPointer",
    "tokenGroupMember",
    "confidentialMintBurn",
    "scaledUiAmount",
    "pausable",
    "pausableAccount",
    "permissionedBurn",
)
"""By spl_token_2022's number of an `ExtensionType`, its name in instructions."""


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
    info = read_fields(_MULTISIG, Reader(data))
    if not info["isInitialized"]:
        raise Unparsable("the multisig is not initialized")
    return info


def _signers(read: Reader) -> list[str]:
    signers = [read.key_or_none() for _ in range(11)]
    return [signer for signer in signers if signer is not None]


def _extensions(data: bytes) -> Parsed:
    """The extensions as `{"extension": name, "state": {...}}`, in the order they are stored.

    Extensions without a state have their name alone. One that cannot be read, and the confidential
    transfer family, is listed as `unparsableExtension`, which is Agave's name for such.
    """
    found = [_extension(kind, value) for kind, value in read_extensions(data, strict=True)]
    return {"extensions": found} if found else {}


def _extension(kind: int, data: bytes) -> Parsed:
    try:
        name = EXTENSION_TYPES[kind]
        fields = _EXTENSIONS[name]
        state = read_fields(fields, Reader(data))
    except (IndexError, KeyError, Unparsable):
        return {"extension": "unparsableExtension"}
    shown: Parsed = {"extension": _OTHER_NAMES.get(name, name)}
    return shown | {"state": state} if fields else shown


def _account_state(read: Reader) -> str:
    state = read.u8()
    return _STATES[state] if state < len(_STATES) else _STATES[0]


def _pairs(read: Reader) -> list[list[str]]:
    return [[read.short_text(), read.short_text()] for _ in range(read.u32())]


def _multiplier(read: Reader) -> str:
    return str(read.double()).removesuffix(".0")


def _transfer_fee(read: Reader) -> Parsed:
    return read_fields(_TRANSFER_FEE, read)


_MULTISIG: Fields = {
    "numRequiredSigners": Reader.u8,
    "numValidSigners": Reader.u8,
    "isInitialized": Reader.boolean,
    "signers": _signers,
}
_TRANSFER_FEE: Fields = {
    "epoch": Reader.u64,
    "maximumFee": Reader.u64,
    "transferFeeBasisPoints": Reader.u16,
}

# Where accounts have another name than instructions.
_OTHER_NAMES = {"scaledUiAmount": "scaledUiAmountConfig", "pausable": "pausableConfig"}
# What each holds as its state, if it has one.
_EXTENSIONS: Mapping[str, Fields] = {
    "transferFeeConfig": {
        "transferFeeConfigAuthority": Reader.key_or_none,
        "withdrawWithheldAuthority": Reader.key_or_none,
        "withheldAmount": Reader.u64,
        "olderTransferFee": _transfer_fee,
        "newerTransferFee": _transfer_fee,
    },
    "transferFeeAmount": {"withheldAmount": Reader.u64},
    "mintCloseAuthority": {"closeAuthority": Reader.key_or_none},
    "defaultAccountState": {"accountState": _account_state},
    "immutableOwner": {},
    "memoTransfer": {"requireIncomingTransferMemos": Reader.boolean},
    "nonTransferable": {},
    "interestBearingConfig": {
        "rateAuthority": Reader.key_or_none,
        "initializationTimestamp": Reader.i64,
        "preUpdateAverageRate": Reader.i16,
        "lastUpdateTimestamp": Reader.i64,
        "currentRate": Reader.i16,
    },
    "cpiGuard": {"lockCpi": Reader.boolean},
    "permanentDelegate": {"delegate": Reader.key_or_none},
    "nonTransferableAccount": {},
    "transferHook": {"authority": Reader.key_or_none, "programId": Reader.key_or_none},
    "transferHookAccount": {"transferring": Reader.boolean},
    "metadataPointer": {"authority": Reader.key_or_none, "metadataAddress": Reader.key_or_none},
    "tokenMetadata": {
        "updateAuthority": Reader.key_or_none,
        "mint": Reader.key,
        "name": Reader.short_text,
        "symbol": Reader.short_text,
        "uri": Reader.short_text,
        "additionalMetadata": _pairs,
    },
    "groupPointer": {"authority": Reader.key_or_none, "groupAddress": Reader.key_or_none},
    "tokenGroup": {
        "updateAuthority": Reader.key_or_none,
        "mint": Reader.key,
        "size": Reader.u64,
        "maxSize": Reader.u64,
    },
    "groupMemberPointer": {"authority": Reader.key_or_none, "memberAddress": Reader.key_or_none},
    "tokenGroupMember": {"mint": Reader.key, "group": Reader.key, "memberNumber": Reader.u64},
    "scaledUiAmount": {
        "authority": Reader.key_or_none,
        "multiplier": _multiplier,
        "newMultiplierEffectiveTimestamp": Reader.i64,
        "newMultiplier": _multiplier,
    },
    "pausable": {"authority": Reader.key_or_none, "paused": Reader.boolean},
    "pausableAccount": {},
}

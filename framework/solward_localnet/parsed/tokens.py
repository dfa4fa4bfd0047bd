"""Accounts of SPL Token and Token-2022: token accounts, mints, multisigs."""

from solders.account import Account
from solders.pubkey import Pubkey

from solward.solana.programs import TOKEN_2022_WRAPPED_SOL_MINT, TOKEN_PROGRAMS, WRAPPED_SOL_MINT
from solward_localnet.parsed.extensions import parse_extensions
from solward_localnet.parsed.reader import ParseContext, Parsed, Reader, Unparsable

_NATIVE_MINTS = frozenset({WRAPPED_SOL_MINT, TOKEN_2022_WRAPPED_SOL_MINT})

MINT_LENGTH = 82
ACCOUNT_LENGTH = 165
MULTISIG_LENGTH = 355
_EXTENSIONS_START = ACCOUNT_LENGTH + 1
_TYPE_MINT, _TYPE_ACCOUNT = 1, 2
_STATES = ("uninitialized", "initialized", "frozen")
_NATIVE_DECIMALS = 9


def ui_token_amount(amount: int, decimals: int) -> Parsed:
    """The `UiTokenAmount` of `amount` base units.

    `uiAmount` is for display only (a JSON number, as the wire asks); `amount` is exact.
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


def mint_decimals(mint: Pubkey, context: ParseContext) -> int:
    """The decimals of `mint`.

    Raises:
        Unparsable: there is no such mint.
    """
    if str(mint) in _NATIVE_MINTS:
        return _NATIVE_DECIMALS
    account = context(mint)
    if account is None or str(account.owner) not in TOKEN_PROGRAMS:
        raise Unparsable(f"no mint at {mint}")
    data = account.data
    if not _is_mint(data):
        raise Unparsable(f"no mint at {mint}")
    return data[44]


def parse_token(_pubkey: Pubkey, account: Account, context: ParseContext) -> Parsed:
    """A token account, mint or multisig as `{"type", "info"}`.

    Raises:
        Unparsable: the data is none of the three, or the token account's mint is unknown.
    """
    data = account.data
    if _is_token_account(data):
        return {"type": "account", "info": _token_account(data, context)}
    if _is_mint(data):
        return {"type": "mint", "info": _mint(data)}
    if len(data) == MULTISIG_LENGTH:
        return {"type": "multisig", "info": _multisig(data)}
    raise Unparsable("neither a token account nor a mint nor a multisig")


def _is_token_account(data: bytes) -> bool:
    if len(data) <= 108 or data[108] not in (1, 2):
        return False
    return len(data) == ACCOUNT_LENGTH or _account_type(data) == _TYPE_ACCOUNT


def _is_mint(data: bytes) -> bool:
    if len(data) < MINT_LENGTH or data[45] != 1:
        return False
    return len(data) == MINT_LENGTH or _account_type(data) == _TYPE_MINT


def _account_type(data: bytes) -> int | None:
    if len(data) <= ACCOUNT_LENGTH or len(data) == MULTISIG_LENGTH:
        return None
    return data[ACCOUNT_LENGTH]


def _token_account(data: bytes, context: ParseContext) -> Parsed:
    read = Reader(data)
    mint, owner, amount = read.key(), read.key(), read.u64()
    delegate, state = read.c_option_key(), read.u8()
    reserve, delegated, closer = read.c_option_u64(), read.u64(), read.c_option_key()
    decimals = mint_decimals(Pubkey.from_string(mint), context)
    info: Parsed = {
        "mint": mint,
        "owner": owner,
        "tokenAmount": ui_token_amount(amount, decimals),
        "state": _STATES[state],
        "isNative": reserve is not None,
    }
    if delegate is not None:
        info["delegate"] = delegate
        info["delegatedAmount"] = ui_token_amount(delegated, decimals)
    if reserve is not None:
        info["rentExemptReserve"] = ui_token_amount(reserve, decimals)
    if closer is not None:
        info["closeAuthority"] = closer
    return info | _extensions(data)


def _mint(data: bytes) -> Parsed:
    read = Reader(data)
    authority, supply, decimals = read.c_option_key(), read.u64(), read.u8()
    initialized, freezer = read.boolean(), read.c_option_key()
    return {
        "mintAuthority": authority,
        "supply": str(supply),
        "decimals": decimals,
        "isInitialized": initialized,
        "freezeAuthority": freezer,
    } | _extensions(data)


def _extensions(data: bytes) -> Parsed:
    extensions = parse_extensions(data[_EXTENSIONS_START:])
    return {"extensions": extensions} if extensions else {}


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

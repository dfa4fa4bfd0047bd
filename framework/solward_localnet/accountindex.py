"""Addresses by owner program, token owner and mint, so that no query scans every account."""

from collections import defaultdict
from collections.abc import Iterable

from solders.account import Account
from solders.pubkey import Pubkey

from solward.solana.programs import TOKEN_2022_PROGRAM, TOKEN_PROGRAMS

_ACCOUNT_BYTES = 165
_MULTISIG_BYTES = 355
_MINT_BYTES = 82
_STATE_OFFSET = 108
_KIND_MINT = 1
_KIND_ACCOUNT = 2


def is_token_account(account: Account) -> bool:
    """Whether this is an initialized token account of either token program."""
    if str(account.owner) not in TOKEN_PROGRAMS:
        return False
    data = account.data
    if len(data) == _ACCOUNT_BYTES:
        return data[_STATE_OFFSET] != 0
    return _extended(account, data, _KIND_ACCOUNT) and data[_STATE_OFFSET] != 0


def is_mint(account: Account) -> bool:
    """Whether this is an initialized mint of either token program."""
    if str(account.owner) not in TOKEN_PROGRAMS:
        return False
    data = account.data
    if len(data) == _MINT_BYTES:
        return data[45] == 1
    return _extended(account, data, _KIND_MINT) and data[45] == 1


def _extended(account: Account, data: bytes, kind: int) -> bool:
    return (
        str(account.owner) == TOKEN_2022_PROGRAM
        and len(data) > _ACCOUNT_BYTES
        and len(data) != _MULTISIG_BYTES
        and data[_ACCOUNT_BYTES] == kind
    )


def token_mint(data: bytes) -> Pubkey:
    """The mint in the data of a token account."""
    return Pubkey(data[:32])


def token_owner(data: bytes) -> Pubkey:
    """The owner in the data of a token account."""
    return Pubkey(data[32:64])


def token_amount(data: bytes) -> int:
    """The base units in the data of a token account."""
    return int.from_bytes(data[64:72], "little")


def mint_supply(data: bytes) -> int:
    """The base units in existence, in the data of a mint."""
    return int.from_bytes(data[36:44], "little")


def mint_decimals(data: bytes) -> int:
    """The decimals in the data of a mint."""
    return data[44]


class AccountIndex:
    """Which addresses belong to which program, token owner and mint."""

    def __init__(self) -> None:
        self._keys: dict[Pubkey, tuple[tuple[str, Pubkey], ...]] = {}
        # A dict of None is a set that keeps its order, so that answers do not change by chance.
        self._addresses: defaultdict[tuple[str, Pubkey], dict[Pubkey, None]] = defaultdict(dict)

    def update(self, address: Pubkey, account: Account | None) -> None:
        """Take the new state of an account, None where it is closed."""
        keys = () if account is None else _index_keys(account)
        old = self._keys.get(address, ())
        if keys == old:
            return
        for key in old:
            del self._addresses[key][address]
        for key in keys:
            self._addresses[key][address] = None
        if keys:
            self._keys[address] = keys
        else:
            self._keys.pop(address, None)

    def owned_by_program(self, program: Pubkey) -> Iterable[Pubkey]:
        return tuple(self._addresses.get(("program", program), ()))

    def token_accounts_of(self, owner: Pubkey) -> Iterable[Pubkey]:
        return tuple(self._addresses.get(("owner", owner), ()))

    def token_accounts_with_mint(self, mint: Pubkey) -> Iterable[Pubkey]:
        return tuple(self._addresses.get(("mint", mint), ()))


def _index_keys(account: Account) -> tuple[tuple[str, Pubkey], ...]:
    program = ("program", account.owner)
    if not is_token_account(account):
        return (program,)
    data = account.data
    return (program, ("owner", token_owner(data)), ("mint", token_mint(data)))

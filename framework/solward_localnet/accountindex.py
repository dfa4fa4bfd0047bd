"""Addresses by owner program, token owner and mint, so that no query scans every account."""

from collections import defaultdict
from collections.abc import Iterable

from solders.account import Account as SolderAccount
from solders.pubkey import Pubkey

from solward.solana import tokens
from solward.solana.programs import TOKEN_PROGRAMS
from solward.types.ledger import Account

_TOKEN_PROGRAMS = frozenset(map(Pubkey.from_string, TOKEN_PROGRAMS))


def plain(account: SolderAccount) -> Account:
    """Convert an account of solders to the account type of `solward.solana`."""
    return Account(account.lamports, str(account.owner), account.data)


def token_account(account: SolderAccount | None) -> tokens.TokenAccount | None:
    """Return the initialized token account of either token program; None if there is none."""
    # Most accounts belong to other programs, and decoding them all would take long.
    if account is None or account.owner not in _TOKEN_PROGRAMS:
        return None
    return tokens.token_account(plain(account))


def mint_account(address: Pubkey, account: SolderAccount | None) -> tokens.Mint | None:
    """Return the initialized mint of either token program; None if there is none."""
    if account is None:
        return None
    return tokens.mint_account(str(address), plain(account), strict=True)


class AccountIndex:
    """An index of account addresses by program, token owner and mint."""

    def __init__(self) -> None:
        self._keys: dict[Pubkey, tuple[tuple[str, str], ...]] = {}
        # A dict of None is a set that keeps its order, so that answers do not change by chance.
        self._addresses: defaultdict[tuple[str, str], dict[Pubkey, None]] = defaultdict(dict)

    def update(self, address: Pubkey, account: SolderAccount | None) -> None:
        """Index the new state of an account; None means that it is closed."""
        keys: tuple[tuple[str, str], ...] = ()
        if account is not None:
            keys, token = (("program", str(account.owner)),), token_account(account)
            if token is not None:
                keys += (("owner", token.owner), ("mint", token.mint))
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

    def owned_by_program(self, program: Pubkey | str) -> Iterable[Pubkey]:
        return tuple(self._addresses.get(("program", str(program)), ()))

    def token_accounts_of(self, owner: Pubkey) -> Iterable[Pubkey]:
        return tuple(self._addresses.get(("owner", str(owner)), ()))

    def token_accounts_with_mint(self, mint: Pubkey) -> Iterable[Pubkey]:
        return tuple(self._addresses.get(("mint", str(mint)), ()))

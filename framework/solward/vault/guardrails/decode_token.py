"""What SPL Token and Token-2022 instructions do to the wallet.

Discriminators and layouts: spl-token-interface and spl-token-2022-interface (one byte), the
token metadata interface (eight bytes).
"""

from __future__ import annotations

from collections.abc import Iterator

from solward.solana.accounts import key_at
from solward.solana.programs import TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from solward.vault.guardrails.model import Invocation
from solward.vault.guardrails.view import View

_TRANSFER = 3
_APPROVE = 4
_SET_AUTHORITY = 6
_TRANSFER_CHECKED = 12
_APPROVE_CHECKED = 13
_METADATA_POINTER = 39
_BATCH = 255
_METADATA_INITIALIZE = bytes([210, 225, 30, 162, 88, 184, 77, 141])

# Discriminator -> where the authority stands, for the kinds that need one.
_AUTHORITY_AT = {
    _TRANSFER: 2, _APPROVE: 2, 5: 1, _SET_AUTHORITY: 1, 7: 2, 8: 2, 9: 2, 10: 2, 11: 2,
    _TRANSFER_CHECKED: 3, _APPROVE_CHECKED: 3, 14: 2, 15: 2,
}  # fmt: skip
_INITIALIZE_ACCOUNT = frozenset({1, 16, 18})
_MINT_TO = frozenset({7, 14})
_BURN = frozenset({8, 15})
_CLOSE = 9
# InitializeMint, Revoke, Freeze, Thaw, SyncNative, InitializeMint2, GetAccountDataSize,
# InitializeImmutableOwner, AmountToUiAmount, UiAmountToAmount.
_HARMLESS = frozenset({0, 5, 10, 11, 17, 20, 21, 22, 23, 24})

_AUTHORITY_KINDS = {0: "mint_authority", 1: "freeze_authority", 2: "owner", 3: "close_authority"}


def unbatch(call: Invocation) -> Iterator[Invocation]:
    """The instructions inside a Token `Batch` (p-token), or the instruction itself.

    Raises:
        IndexError: the batch's own lengths do not add up.
    """
    if call.program != TOKEN_PROGRAM or call.data[:1] != bytes([_BATCH]):
        yield call
        return
    accounts, data = call.accounts, call.data[1:]
    while data:
        count, size = data[0], data[1]
        if count > len(accounts) or 2 + size > len(data):
            raise IndexError("a batch's lengths do not add up")
        yield Invocation(call.program, accounts[:count], data[2 : 2 + size], call.top)
        accounts, data = accounts[count:], data[2 + size :]


def note_initialised(call: Invocation, view: View) -> None:
    """Remember the (mint, owner) a token account is initialised with, before decoding."""
    kind = call.data[0] if call.data else -1
    if kind in _INITIALIZE_ACCOUNT:
        owner = call.accounts[2] if kind == 1 else key_at(call.data, 1)
        entry = (call.accounts[1], owner)
        if view.initialised.setdefault(call.accounts[0], entry) != entry:
            view.violate("simulated_effects", f"{call.accounts[0]} is initialised twice")


def decode_token(call: Invocation, view: View) -> None:
    """File outflow, closes and authority changes of one token instruction.

    Raises:
        IndexError: the instruction has fewer accounts or bytes than its kind needs.
    """
    kind = call.data[0] if call.data else -1
    accounts = call.accounts
    if kind in _AUTHORITY_AT and view.wallet in accounts[_AUTHORITY_AT[kind] + 1 :]:
        view.violate("authority_change", "the wallet would sign as a member of a multisig")
    if kind == _TRANSFER:
        _transfer(view, accounts[0], accounts[1], _u64(call.data))
    elif kind == _TRANSFER_CHECKED:
        _transfer(view, accounts[0], accounts[2], _u64(call.data))
    elif kind in (_APPROVE, _APPROVE_CHECKED):
        at = _AUTHORITY_AT[kind]
        if view.owns_token(accounts[0]) or accounts[at] == view.wallet:
            view.change("delegate", accounts[0], accounts[at - 1])
    elif kind == _SET_AUTHORITY:
        _set_authority(view, call)
    elif kind in _MINT_TO:
        if accounts[2] == view.wallet and not view.keeps_token(accounts[1]):
            view.tokens_out[accounts[0]] += _u64(call.data)
    elif kind in _BURN:
        if view.owns_token(accounts[0]):
            view.tokens_out[accounts[1]] += _u64(call.data)
    elif kind == _CLOSE:
        _close(view, accounts[0], accounts[1])
    elif call.program == TOKEN_2022_PROGRAM and call.data[:8] == _METADATA_INITIALIZE:
        if accounts[3] == view.wallet:
            view.change("update_authority", accounts[2], accounts[1])
    elif call.program == TOKEN_2022_PROGRAM and call.data[:2] == bytes([_METADATA_POINTER, 0]):
        _point(view, call)
    elif kind not in _HARMLESS and kind not in _INITIALIZE_ACCOUNT:
        view.violate("program_allowlist", f"token instruction {kind} is not allowed")


def _transfer(view: View, source: str, receiver: str, units: int) -> None:
    spends, keeps = view.owns_token(source), view.keeps_token(receiver)
    entry = view.token(source) or view.token(receiver)
    if entry is None:
        raise IndexError("a transfer between accounts that are not shown")
    if spends and not keeps:
        view.tokens_out[entry[0]] += units
    if spends or keeps:
        view.moved.add(entry[0])


def _set_authority(view: View, call: Invocation) -> None:
    account, authority = call.accounts[0], call.accounts[1]
    if call.data[2] not in (0, 1):
        raise IndexError("an authority option is neither absent nor present")
    new = key_at(call.data, 3) if call.data[2] == 1 else None
    kind = _AUTHORITY_KINDS.get(call.data[1], f"authority_{call.data[1]}")
    if authority == view.wallet or view.owns_token(account) or view.controls_mint(account):
        view.change(kind, account, new)


def _point(view: View, call: Invocation) -> None:
    """Who may say later where the metadata of a mint of the wallet's is; all zeros is nobody."""
    if any(call.data[2:34]) and view.controls_mint(call.accounts[0]):
        view.change("metadata_pointer_authority", call.accounts[0], key_at(call.data, 2))


def _close(view: View, account: str, receiver: str) -> None:
    ours = view.owns_token(account) or view.controls_mint(account)
    if ours and (receiver != view.wallet or view.pre(account) is not None):
        view.close(account, receiver)


def _u64(data: bytes) -> int:
    if len(data) < 9:
        raise IndexError("instruction data is too short")
    return int.from_bytes(data[1:9], "little")

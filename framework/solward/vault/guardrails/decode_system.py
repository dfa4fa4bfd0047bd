"""What System instructions do to the wallet. Layouts: solana-system-interface."""

from __future__ import annotations

from solward.solana.accounts import key_at, nonce_authority
from solward.vault.guardrails.model import Invocation
from solward.vault.guardrails.view import View

_CREATE_ACCOUNT = 0
_ASSIGN = 1
_TRANSFER = 2
_CREATE_ACCOUNT_WITH_SEED = 3
_ADVANCE_NONCE = 4
_WITHDRAW_NONCE = 5
_INITIALIZE_NONCE = 6
_AUTHORIZE_NONCE = 7
_ALLOCATE = 8
_ALLOCATE_WITH_SEED = 9
_ASSIGN_WITH_SEED = 10
_TRANSFER_WITH_SEED = 11
_CREATE_ACCOUNT_ALLOW_PREFUND = 13


def decode_system(call: Invocation, view: View) -> None:
    """File outflow, owner changes and refusals of one System instruction.

    Raises:
        IndexError: the instruction has fewer accounts than its kind needs.
    """
    kind = int.from_bytes(call.data[:4], "little") if len(call.data) >= 4 else -1
    accounts, data = call.accounts, call.data
    if kind in (_TRANSFER, _WITHDRAW_NONCE):
        _move(view, accounts[0], accounts[1], _u64(data, 4), base=None)
    elif kind == _TRANSFER_WITH_SEED:
        _move(view, accounts[0], accounts[2], _u64(data, 4), base=accounts[1])
    elif kind == _CREATE_ACCOUNT:
        _create(view, accounts[0], accounts[1], _u64(data, 4))
    elif kind == _CREATE_ACCOUNT_WITH_SEED:
        seed = _u64(data, 36)
        _create(view, accounts[0], accounts[1], _u64(data, 44 + seed))
    elif kind == _CREATE_ACCOUNT_ALLOW_PREFUND:
        funder = accounts[1] if len(accounts) > 1 else ""
        _create(view, funder, accounts[0], _u64(data, 4))
    elif kind in (_ASSIGN, _ASSIGN_WITH_SEED):
        if accounts[0] == view.wallet:
            view.change("owner", view.wallet, key_at(data, len(data) - 32))
    elif kind in (_ALLOCATE, _ALLOCATE_WITH_SEED):
        _no_data_in_wallet(view, accounts[0])
    elif kind == _AUTHORIZE_NONCE:
        if view.wallet == accounts[1] or nonce_authority(view.pre(accounts[0])) == view.wallet:
            view.change("nonce_authority", accounts[0], key_at(data, 4))
    elif kind == _ADVANCE_NONCE:
        view.violate("program_allowlist", "a durable nonce would keep the transaction valid")
    elif kind != _INITIALIZE_NONCE:
        view.violate("program_allowlist", f"System instruction {kind} is not allowed")


def _move(view: View, source: str, receiver: str, lamports: int, base: str | None) -> None:
    if source == view.wallet:
        view.pay(receiver, lamports)
        return
    ours = base == view.wallet or nonce_authority(view.pre(source)) == view.wallet
    if ours and receiver != view.wallet:
        view.lamports_out += lamports


def _create(view: View, funder: str, account: str, lamports: int) -> None:
    _no_data_in_wallet(view, account)
    if funder == view.wallet:
        view.pay(account, lamports)


def _no_data_in_wallet(view: View, account: str) -> None:
    # A system account with data can neither pay fees nor send, for ever.
    if account == view.wallet:
        view.violate("authority_change", "the wallet itself would be turned into a data account")


def _u64(data: bytes, start: int) -> int:
    if start + 8 > len(data):
        raise IndexError("instruction data is too short")
    return int.from_bytes(data[start : start + 8], "little")

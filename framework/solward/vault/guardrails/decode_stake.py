"""What Stake instructions do to the wallet. Layouts: solana-stake-interface."""

from __future__ import annotations

from solward.solana.accounts import key_at
from solward.solana.stakes import stake_account
from solward.vault.guardrails.model import Invocation
from solward.vault.guardrails.view import View

_INITIALIZE = 0
_AUTHORIZE = 1
_SPLIT = 3
_WITHDRAW = 4
_SET_LOCKUP = 6
_MERGE = 7
_AUTHORIZE_WITH_SEED = 8
_INITIALIZE_CHECKED = 9
_AUTHORIZE_CHECKED = 10
_AUTHORIZE_CHECKED_WITH_SEED = 11
_SET_LOCKUP_CHECKED = 12
_MOVE_STAKE = 16
_MOVE_LAMPORTS = 17
# Delegate, Deactivate, GetMinimumDelegation, DeactivateDelinquent: no lamports, no authority.
_HARMLESS = frozenset({2, 5, 13, 14})

_ROLES = {0: "staker", 1: "withdrawer"}


def decode_stake(call: Invocation, view: View) -> None:
    """File outflow and authority changes of one Stake instruction.

    Raises:
        IndexError: the instruction has fewer accounts or bytes than its kind needs.
    """
    kind = int.from_bytes(call.data[:4], "little") if len(call.data) >= 4 else -1
    # The program takes its sysvar accounts or does without them; what is left has one order.
    accounts = tuple(account for account in call.accounts if not account.startswith("Sysvar"))
    data = call.data
    if kind == _INITIALIZE:
        view.change("staker", accounts[0], _key(data, 4))
        view.change("withdrawer", accounts[0], _key(data, 36))
        if any(data[68:84]):
            view.change("lockup", accounts[0], _key(data, 84))
    elif kind == _INITIALIZE_CHECKED:
        view.change("staker", accounts[0], accounts[1])
        view.change("withdrawer", accounts[0], accounts[2])
    elif kind in (_AUTHORIZE, _AUTHORIZE_WITH_SEED):
        view.change(_role(data, 36), accounts[0], _key(data, 4))
    elif kind in (_AUTHORIZE_CHECKED, _AUTHORIZE_CHECKED_WITH_SEED):
        view.change(_role(data, 4), accounts[0], accounts[2])
    elif kind in (_SET_LOCKUP, _SET_LOCKUP_CHECKED):
        view.change("lockup", accounts[0], None)
    elif kind in (_SPLIT, _MOVE_STAKE, _MOVE_LAMPORTS):
        lamports = _u64(data)
        if _owns(view, accounts[0]) and not view.controls(view.post(accounts[1]), accounts[1]):
            view.lamports_out += lamports
    elif kind == _WITHDRAW:
        if _owns(view, accounts[0]) and accounts[1] != view.wallet:
            view.lamports_out += _u64(data)
    elif kind == _MERGE:
        if _owns(view, accounts[1]):
            view.close(accounts[1], accounts[0])
    elif kind not in _HARMLESS:
        view.violate("program_allowlist", f"Stake instruction {kind} is not allowed")


def _owns(view: View, address: str) -> bool:
    for state in (view.pre(address), view.post(address)):
        stake = stake_account(state)
        if stake and view.wallet in (stake.staker, stake.withdrawer):
            return True
    return False


def _role(data: bytes, start: int) -> str:
    return _ROLES.get(int.from_bytes(data[start : start + 4], "little"), "stake_authority")


def _key(data: bytes, start: int) -> str:
    if start + 32 > len(data):
        raise IndexError("instruction data is too short")
    return key_at(data, start)


def _u64(data: bytes) -> int:
    if len(data) < 12:
        raise IndexError("instruction data is too short")
    return int.from_bytes(data[4:12], "little")

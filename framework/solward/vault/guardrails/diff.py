"""What changed between before and after on accounts the wallet controls."""

from __future__ import annotations

from collections.abc import Sequence

from solward.solana.accounts import nonce_authority
from solward.solana.message import ResolvedKey
from solward.solana.programs import SYSTEM_PROGRAM, TOKEN_2022_PROGRAM
from solward.solana.stakes import stake_account
from solward.solana.tokens import mint_account, token_account
from solward.vault.guardrails.view import View

# Token-2022 mint extensions that cannot take, stop or tax a holding: close authority,
# confidential transfer, interest-bearing and scaled display, metadata, groups. Anything else,
# known or not yet known, is refused: non-transferable, fee, hook, delegate, pause, frozen.
_SAFE_EXTENSIONS = frozenset({3, 4, 10, 18, 19, 20, 21, 22, 23, 25})
_DEFAULT_ACCOUNT_STATE = 6
_EXTENSION_NAMES = {
    1: "a transfer fee",
    6: "accounts frozen by default",
    9: "non-transferable tokens",
    12: "a permanent delegate",
    14: "a transfer hook",
    26: "a pause authority",
}


def compare(view: View, keys: Sequence[ResolvedKey]) -> None:
    """File authority changes and closes seen in the account data, whatever caused them."""
    for key in keys:
        if not key.writable:
            continue
        if key.address not in view.simulation.pre or key.address not in view.simulation.post:
            view.violate("simulated_effects", f"the simulation does not show {key.address}")
            continue
        _wallet(view, key.address)
        _token(view, key.address)
        _mint(view, key.address)
        _stake(view, key.address)
        before = nonce_authority(view.pre(key.address))
        if before == view.wallet and view.post(key.address) is not None:
            view.change("nonce_authority", key.address, nonce_authority(view.post(key.address)))


def check_mints(view: View) -> None:
    """Refuse moving tokens whose mint lets others take, stop or tax them."""
    for address in sorted(view.moved):
        state = view.pre(address) or view.post(address)
        if state is None:
            if _may_be_token_2022(view, address):
                view.violate(
                    "simulated_effects", f"mint {address} is not shown, but its tokens move"
                )
            continue
        mint = mint_account(address, state)
        if mint is None:
            view.violate("simulated_effects", f"{address} is not a mint, but its tokens move")
            continue
        for kind, value in zip(mint.extensions, mint.extension_values, strict=True):
            if kind in _SAFE_EXTENSIONS or (kind == _DEFAULT_ACCOUNT_STATE and value == b"\x01"):
                continue
            name = _EXTENSION_NAMES.get(kind, f"extension {kind}")
            view.violate("simulated_effects", f"mint {address} has {name}")


def _may_be_token_2022(view: View, mint: str) -> bool:
    for states in (view.simulation.pre, view.simulation.post):
        for state in states.values():
            account = token_account(state)
            if account and account.mint == mint and state and state.owner == TOKEN_2022_PROGRAM:
                return True
    return False


def _wallet(view: View, address: str) -> None:
    after = view.post(address)
    if address != view.wallet or after is None:
        return
    if after.owner != SYSTEM_PROGRAM:
        view.change("owner", address, after.owner)
    elif after.data:
        view.violate("authority_change", "the wallet itself would be turned into a data account")


def _token(view: View, address: str) -> None:
    before, after = token_account(view.pre(address)), token_account(view.post(address))
    ours = before is not None and before.owner == view.wallet
    if ours and after is None:
        if view.post(address) is not None:
            view.violate("simulated_effects", f"token account {address} becomes something else")
        elif address not in view.closed:
            view.close(address, "an unknown receiver")
        return
    if after is None or not (ours or after.owner == view.wallet):
        return
    if ours:
        view.change("owner", address, after.owner)
    grown = before is None or after.delegated_amount > before.delegated_amount
    if after.delegate and (grown or before is None or after.delegate != before.delegate):
        view.change("delegate", address, after.delegate)
    if after.close_authority and (
        before is None or after.close_authority != before.close_authority
    ):
        view.change("close_authority", address, after.close_authority)


def _mint(view: View, address: str) -> None:
    before = mint_account(address, view.pre(address))
    if before is None or view.wallet not in (before.mint_authority, before.freeze_authority):
        return
    after = mint_account(address, view.post(address))
    if after is None:
        if address not in view.closed:
            view.close(address, "an unknown receiver")
        return
    if before.mint_authority == view.wallet:
        view.change("mint_authority", address, after.mint_authority)
    if before.freeze_authority == view.wallet:
        view.change("freeze_authority", address, after.freeze_authority)


def _stake(view: View, address: str) -> None:
    before, after = stake_account(view.pre(address)), stake_account(view.post(address))
    if after is None or view.wallet not in (
        {before.staker, before.withdrawer} if before else {after.staker, after.withdrawer}
    ):
        return
    if before is None or before.staker != after.staker:
        view.change("staker", address, after.staker)
    if before is None or before.withdrawer != after.withdrawer:
        view.change("withdrawer", address, after.withdrawer)
    if before is not None and before.lockup != after.lockup:
        view.change("lockup", address, None)

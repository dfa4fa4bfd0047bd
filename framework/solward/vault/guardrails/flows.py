"""How much leaves and arrives: instructions summed gross, balances as the cross-check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from solward.solana.accounts import Account, rent_exempt_minimum
from solward.solana.message import ResolvedKey
from solward.solana.programs import SYSTEM_PROGRAM, WRAPPED_SOL_MINT
from solward.solana.tokens import (
    TOKEN_2022_ACCOUNT_RENT,
    TOKEN_ACCOUNT_RENT,
    mint_account,
    token_account,
)
from solward.vault.guardrails.view import View


@dataclass(slots=True)
class Flows:
    """Gross amounts of one transaction; see `Effects` for each."""

    lamports_out: int = 0
    rent_lamports: int = 0
    accounts_created: int = 0
    tokens_out: dict[str, int] = field(default_factory=dict)
    tokens_in: dict[str, int] = field(default_factory=dict)
    created: dict[str, str] = field(default_factory=dict)


def measure(view: View, keys: Sequence[ResolvedKey], fee: int) -> Flows:
    """Sum what the decoded instructions move, and raise it to what the balances show."""
    flows = Flows(lamports_out=view.lamports_out)
    foreign_rent = 0
    wrapped = 0
    for receiver, lamports in view.paid.items():
        rent = min(lamports, _rent_room(view, receiver, flows))
        flows.rent_lamports += rent
        flows.lamports_out += lamports - rent
        if view.keeps_token(receiver):
            entry = view.token(receiver)
            wrapped += lamports - rent if entry and entry[0] == WRAPPED_SOL_MINT else 0
        else:
            foreign_rent += rent
    flows.accounts_created = sum(_appears(view, key.address) for key in keys)

    lamports_gone, tokens_gone = _balances(view, keys)
    tokens_out = Counter(view.tokens_out)
    for mint, units in tokens_gone.items():
        # Unwrapping turns wrapped SOL into the wallet's own lamports, which the lamports tell.
        if units > tokens_out[mint] and mint != WRAPPED_SOL_MINT:
            tokens_out[mint] = units
        if units < 0 and mint != WRAPPED_SOL_MINT:
            flows.tokens_in[mint] = -units
    # What was wrapped in this transaction is in `lamports_out` already.
    tokens_out[WRAPPED_SOL_MINT] = max(0, tokens_out[WRAPPED_SOL_MINT] - wrapped)
    flows.tokens_out = {mint: units for mint, units in sorted(tokens_out.items()) if units > 0}

    own_fee = fee if keys and keys[0].address == view.wallet else 0
    if own_fee - lamports_gone > 0:
        flows.tokens_in[WRAPPED_SOL_MINT] = own_fee - lamports_gone
    unexplained = lamports_gone - own_fee - foreign_rent - tokens_out[WRAPPED_SOL_MINT]
    flows.lamports_out = max(flows.lamports_out, unexplained)
    return flows


def _rent_room(view: View, address: str, flows: Flows) -> int:
    """Lamports of a payment to `address` that are rent; registers the account as created."""
    before, after = view.pre(address), view.post(address)
    if not _is_blank(before):
        return 0
    held = before.lamports if before else 0
    token, mint = token_account(after), mint_account(address, after)
    if after is not None and token is not None:
        flows.created[address] = token.owner
        return max(0, rent_exempt_minimum(len(after.data)) - held)
    if after is not None and mint is not None:
        flows.created[address] = mint.mint_authority or view.wallet
        return max(0, rent_exempt_minimum(len(after.data)) - held)
    entry = view.initialised.get(address)
    if after is None and entry is not None and entry[1] == view.wallet:
        # Created and closed again; to a stranger is refused through `closed`.
        classic = entry[0] == WRAPPED_SOL_MINT
        return max(0, (TOKEN_ACCOUNT_RENT if classic else TOKEN_2022_ACCOUNT_RENT) - held)
    return 0


def _is_blank(state: Account | None) -> bool:
    return state is None or (state.owner == SYSTEM_PROGRAM and not state.data)


def _appears(view: View, address: str) -> bool:
    if address in view.initialised and view.pre(address) is None:
        return True
    return view.pre(address) is None and view.post(address) is not None


def _balances(view: View, keys: Sequence[ResolvedKey]) -> tuple[int, Counter[str]]:
    """(lamports, mint -> units) by which what the wallet controls shrinks; negative: grows."""
    lamports = 0
    tokens: Counter[str] = Counter()
    for key in keys:
        if not key.writable:
            continue
        before, after = view.pre(key.address), view.post(key.address)
        ours = view.controls(before, key.address)
        # Control that passes to someone else is refused as such; here the account still counts.
        for sign, state in ((1, before if ours else None), (-1, after)):
            if state is not None and (ours or view.controls(state, key.address)):
                lamports += sign * state.lamports
                token = token_account(state)
                if token is not None:
                    tokens[token.mint] += sign * token.amount
    return lamports, tokens

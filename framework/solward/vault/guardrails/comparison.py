"""Compares accounts before and after a transaction: changed control, and amounts in and out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from solward.solana.accounts import nonce_authority, rent_per_byte
from solward.solana.message import ResolvedKey
from solward.solana.programs import (
    RENT_SYSVAR,
    SYSTEM_PROGRAM,
    TOKEN_2022_PROGRAM,
    WRAPPED_SOL_MINT,
)
from solward.solana.protocol import MOST_RENT_PER_BYTE, rent_of
from solward.solana.stakes import stake_account
from solward.solana.tokens import (
    NON_TRANSFERABLE,
    TOKEN_2022_ACCOUNT_BYTES,
    TOKEN_ACCOUNT_BYTES,
    TRANSFER_FEE,
    TRANSFER_HOOK,
    Mint,
    associated_account_size,
    mint_account,
    token_account,
)
from solward.vault.guardrails.simulation import View

# Token-2022 mint extensions that cannot take, stop or tax a holding: close authority, confidential
# transfer and its fee, interest-bearing and scaled display, metadata, groups. All others are
# refused, unknown ones too; the operator can allow those in `_REGULATED` by mint.
_SAFE_EXTENSIONS = frozenset({3, 4, 10, 16, 18, 19, 20, 21, 22, 23, 25})
_DEFAULT_ACCOUNT_STATE = 6
_INITIALIZED = b"\x01"
_EXTENSION_NAMES = {
    TRANSFER_FEE: "a transfer fee",
    _DEFAULT_ACCOUNT_STATE: "accounts frozen by default",
    NON_TRANSFERABLE: "non-transferable tokens",
    12: "a permanent delegate",
    TRANSFER_HOOK: "a transfer hook",
    26: "a pause authority",
}
# Extensions by which an issuer can take or stop others' holdings. A transfer hook is allowed only
# while it has no program: a program gets accounts that must not meet the wallet's signature.
_REGULATED = frozenset({TRANSFER_FEE, _DEFAULT_ACCOUNT_STATE, 12, TRANSFER_HOOK, 26})


def compare(view: View, keys: Sequence[ResolvedKey]) -> None:
    """Add to the view the authority changes and closed accounts that the account data shows.

    Tokens that move must have a mint that lets nobody take, stop or tax them.
    """
    for key in keys:
        if not key.writable:
            continue
        if key.address not in view.simulation.pre or key.address not in view.simulation.post:
            view.violate("simulated_effects", f"the simulation does not show {key.address}")
            continue
        _compare_wallet(view, key.address)
        _compare_token(view, key.address)
        _compare_mint(view, key.address)
        _compare_stake(view, key.address)
        before = nonce_authority(view.pre(key.address))
        if before == view.wallet and view.post(key.address) is not None:
            view.change("nonce_authority", key.address, nonce_authority(view.post(key.address)))
    _check_mints(view)


def _check_mints(view: View) -> None:
    for address in sorted(view.moved):
        state = view.pre(address) or view.post(address)
        if state is None:
            if _may_be_token_2022(view, address):
                view.violate(
                    "simulated_effects", f"the simulation lacks mint {address}, whose tokens move"
                )
            continue
        mint = mint_account(address, state)
        if mint is None:
            view.violate("simulated_effects", f"{address} is not a mint, but its tokens move")
            continue
        for reason in mint_refusals(mint, view.regulated_mints, leaves=address in view.tokens_out):
            view.violate("simulated_effects", reason)


def mint_refusals(mint: Mint, regulated: Collection[str], *, leaves: bool = False) -> Iterator[str]:
    """Yield each reason, in words, why tokens of a mint must not move; nothing if they may.

    Args:
        regulated: see `Policy.regulated_mints`.
        leaves: whether the wallet sends them.
    """
    for kind in _unsafe_extensions(mint):
        if kind == TRANSFER_FEE and leaves:
            # The transfer fee comes out of the leaving units, all of which count.
            continue
        may_be_allowed = kind in _REGULATED and not (kind == TRANSFER_HOOK and mint.runs_hook)
        if may_be_allowed and mint.address in regulated:
            continue
        way = "; REGULATED_MINTS can allow this mint" if may_be_allowed else ""
        yield f"mint {mint.address} has {_extension_name(kind)}{way}"


def issuers_rights(mint: Mint) -> list[str]:
    """Return the mint's extensions that can take, stop or tax a holding, in words."""
    return [_extension_name(kind) for kind in _unsafe_extensions(mint)]


def _unsafe_extensions(mint: Mint) -> Iterator[int]:
    for kind, value in zip(mint.extensions, mint.extension_values, strict=True):
        by_default = kind == _DEFAULT_ACCOUNT_STATE and value == _INITIALIZED
        if kind not in _SAFE_EXTENSIONS and not by_default:
            yield kind


def _extension_name(kind: int) -> str:
    return _EXTENSION_NAMES.get(kind, f"extension {kind}")


def _may_be_token_2022(view: View, mint: str) -> bool:
    for states in (view.simulation.pre, view.simulation.post):
        for state in states.values():
            account = token_account(state)
            if account and account.mint == mint and state and state.owner == TOKEN_2022_PROGRAM:
                return True
    return False


def _compare_wallet(view: View, address: str) -> None:
    after = view.post(address)
    if address != view.wallet or after is None:
        return
    if after.owner != SYSTEM_PROGRAM:
        view.change("owner", address, after.owner)
    elif after.data:
        view.violate("authority_change", "the wallet itself would be turned into a data account")


def _compare_token(view: View, address: str) -> None:
    before, after = token_account(view.pre(address)), token_account(view.post(address))
    ours = before is not None and before.owner == view.wallet
    if ours and after is None:
        if view.post(address) is not None:
            view.violate("simulated_effects", f"{address} would stop being a token account")
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


def _compare_mint(view: View, address: str) -> None:
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


def _compare_stake(view: View, address: str) -> None:
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


@dataclass(slots=True)
class Flows:
    """The amounts of one transaction, with no inflow subtracted; see `TransactionEffects`."""

    lamports_out: int = 0
    rent_lamports: int = 0
    accounts_created: int = 0
    tokens_out: dict[str, int] = field(default_factory=dict)
    tokens_in: dict[str, int] = field(default_factory=dict)
    created: dict[str, str] = field(default_factory=dict)


def measure(view: View, keys: Sequence[ResolvedKey], fee: int) -> Flows:
    """Sum the decoded instructions' amounts; raise sums that are below the balance changes."""
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
    flows.accounts_created = sum(
        view.pre(key.address) is None
        and (key.address in view.initialised or view.post(key.address) is not None)
        for key in keys
    )

    lamports_gone, tokens_gone = _total_decrease(view, keys)
    lamports_arrived, tokens_arrived = _total_increase(view, keys)
    tokens_out = Counter(view.tokens_out)
    for mint, units in tokens_gone.items():
        # Unwrapping turns wrapped SOL into the wallet's own lamports, which are counted as such.
        if units > tokens_out[mint] and mint != WRAPPED_SOL_MINT:
            tokens_out[mint] = units
        arrived = min(-units, tokens_arrived[mint])
        if arrived > 0 and mint != WRAPPED_SOL_MINT:
            flows.tokens_in[mint] = arrived
    # SOL that was wrapped in this transaction is in `lamports_out` already.
    tokens_out[WRAPPED_SOL_MINT] = max(0, tokens_out[WRAPPED_SOL_MINT] - wrapped)
    flows.tokens_out = {mint: units for mint, units in sorted(tokens_out.items()) if units > 0}

    own_fee = fee if keys and keys[0].address == view.wallet else 0
    arrived = own_fee + min(-lamports_gone, lamports_arrived)
    if arrived > 0:
        flows.tokens_in[WRAPPED_SOL_MINT] = arrived
    unexplained = lamports_gone - own_fee - foreign_rent - tokens_out[WRAPPED_SOL_MINT]
    flows.lamports_out = max(flows.lamports_out, unexplained)
    return flows


def _rent_room(view: View, address: str, flows: Flows) -> int:
    """Return the maximum part of a payment to `address` that is rent, and note the account as
    created. The price of rent is the ledger's, but at most `MOST_RENT_PER_BYTE`."""
    per_byte = min(rent_per_byte(view.pre(RENT_SYSVAR)), MOST_RENT_PER_BYTE)
    before, after = view.pre(address), view.post(address)
    if before is not None and (before.owner != SYSTEM_PROGRAM or before.data):
        return 0
    balance = before.lamports if before else 0
    token, mint = token_account(after), mint_account(address, after)
    if after is not None and token is not None:
        flows.created[address] = token.owner
        return max(0, rent_of(len(after.data), per_byte) - balance)
    if after is not None and mint is not None:
        flows.created[address] = mint.mint_authority or view.wallet
        return max(0, rent_of(len(after.data), per_byte) - balance)
    entry = view.initialised.get(address)
    if after is None and entry is not None and entry[1] in (view.wallet, view.pocket):
        # The account was created and closed again. `closed` refuses to close the wallet's account
        # to a stranger, and a pocket's contents were counted when they were put in.
        opened = mint_account(entry[0], view.pre(entry[0]))
        if opened is not None:
            # The account is larger if the mint's extensions require account extensions in it.
            size = associated_account_size(opened)
        elif entry[0] == WRAPPED_SOL_MINT:
            size = TOKEN_ACCOUNT_BYTES
        else:
            size = TOKEN_2022_ACCOUNT_BYTES
        return max(0, rent_of(size, per_byte) - balance)
    return 0


def _total_decrease(view: View, keys: Sequence[ResolvedKey]) -> tuple[int, Counter[str]]:
    """Return the decrease of all that the wallet controls as (lamports, mint -> units), signed."""
    lamports = 0
    tokens: Counter[str] = Counter()
    for key in keys:
        if not key.writable:
            continue
        before, after = view.pre(key.address), view.post(key.address)
        ours = view.controls(before, key.address)
        # The account counts even if control passes to somebody else, which is refused elsewhere.
        for sign, state in ((1, before if ours else None), (-1, after)):
            if state is not None and (ours or view.controls(state, key.address)):
                lamports += sign * state.lamports
                token = token_account(state)
                if token is not None:
                    tokens[token.mint] += sign * token.amount
    return lamports, tokens


def _total_increase(view: View, keys: Sequence[ResolvedKey]) -> tuple[int, Counter[str]]:
    """Return the increase of what only the wallet can take, as (lamports, mint -> units)."""
    lamports = 0
    tokens: Counter[str] = Counter()
    for key in keys:
        if not key.writable:
            continue
        for sign, state in ((-1, view.pre(key.address)), (1, view.post(key.address))):
            held, units = view.holds_alone(state, key.address)
            lamports += sign * held
            token = token_account(state) if units else None
            if token is not None:
                tokens[token.mint] += sign * units
    return lamports, tokens

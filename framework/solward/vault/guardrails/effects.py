"""Computes a transaction's effects on a wallet: the bound from its bytes, and the effects that a
simulation and each known instruction show.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from solward.solana.accounts import key_at, nonce_authority
from solward.solana.message import (
    COMPUTE_BUDGET_SIZES,
    AnyMessage,
    MalformedTransaction,
    ResolvedKey,
    batch_parts,
    is_batch,
    network_fee,
)
from solward.solana.programs import (
    ASSOCIATED_TOKEN_PROGRAM,
    COMPUTE_BUDGET_PROGRAM,
    MEMO_PROGRAMS,
    STAKE_PROGRAM,
    SYSTEM_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
    TOKEN_PROGRAMS,
)
from solward.solana.protocol import (
    ASSOCIATED_TOKEN_CREATIONS,
    TOKEN_AUTHORITIES,
    TOKEN_HARVEST_WITHHELD_TO_MINT,
    TOKEN_METADATA_INITIALIZE,
    TOKEN_METADATA_POINTER_INITIALIZE,
    TOKEN_TRANSFER_CHECKED_WITH_FEE,
    Stake,
    System,
    Token,
)
from solward.solana.stakes import stake_account
from solward.solana.tokens import mint_account, token_account
from solward.types.guardrail import TransactionEffects
from solward.vault.guardrails.comparison import compare, measure
from solward.vault.guardrails.simulation import Invocation, Simulation, UntrustedSimulation, View
from solward.vault.guardrails.worst_case import NoBound, worst_case


def analyse(
    message: AnyMessage,
    keys: Sequence[ResolvedKey],
    simulation: Simulation,
    wallet: str,
    managed: Collection[str] = (),
    *,
    pocket: str | None = None,
    regulated_mints: frozenset[str] = frozenset(),
) -> TransactionEffects:
    """Return the simulated effects, with the bound from the bytes, which counts against limits.

    If the bytes give no bound, `outflow` stays None and the reason is the first violation. For
    arguments and errors, see `simulated_effects`.
    """
    effects = simulated_effects(message, keys, simulation, wallet, managed, pocket, regulated_mints)
    try:
        return replace(effects, outflow=worst_case(message, wallet))
    except NoBound as refused:
        violations = ((refused.rule, refused.reason), *effects.violations)
        return replace(effects, violations=violations)


def simulated_effects(
    message: AnyMessage,
    keys: Sequence[ResolvedKey],
    simulation: Simulation,
    wallet: str,
    managed: Collection[str] = (),
    pocket: str | None = None,
    regulated_mints: frozenset[str] = frozenset(),
) -> TransactionEffects:
    """Return the simulated effects of `message` on all that `wallet` controls.

    No inflow is subtracted. These effects only refuse early and explain refusals, because the state
    may change before the transaction lands.

    Args:
        keys: result of `resolve` for the same message.
        simulation: simulation of the same bytes, with all inner instructions.
        managed: other required signers whose keys this service holds. Each must sign only its own
            transactions, so such a signer is a violation.
        pocket: a key of the wallet that signs too.
        regulated_mints: see `View`.

    Raises:
        UntrustedSimulation: inner instructions belong to no top-level instruction, or use accounts
            that the message does not have.
    """
    view = View(wallet, simulation, pocket, regulated_mints)
    every = list(_all_calls(message, keys, simulation))
    # The wallet's signature gives these nothing, so only the simulated states judge them.
    foreign = _foreign_tops(wallet, every)
    calls = [call for call in every if call.top not in foreign]
    decode(calls, view)
    compare(view, keys)
    for key in keys:
        if key.signer and key.address != wallet and key.address in managed:
            view.violate("authority_change", f"managed wallet {key.address} would sign as well")
    fee = network_fee(message) if keys[0].address == wallet else 0
    flows = measure(view, keys, fee)
    return TransactionEffects(
        lamports_out=flows.lamports_out,
        fee_lamports=fee,
        rent_lamports=flows.rent_lamports,
        accounts_created=flows.accounts_created,
        tokens_out=flows.tokens_out,
        tokens_in=flows.tokens_in,
        closed=dict(sorted(view.closed.items())),
        authority_changes=tuple(view.changes),
        programs=frozenset(call.program for call in every),
        addresses=_used_addresses(view, keys),
        violations=tuple(dict.fromkeys(view.violations)),
        created=flows.created,
        instruction_data=tuple(dict.fromkeys(call.data for call in every)),
        decimals=_mint_decimals(simulation),
    )


def _foreign_tops(wallet: str, calls: Sequence[Invocation]) -> set[int]:
    """Return the indexes of top-level instructions without a decoder and without the wallet."""
    return {
        call.top
        for call in calls
        if not call.inner and not has_decoder(call.program) and wallet not in call.accounts
    }


def _all_calls(
    message: AnyMessage, keys: Sequence[ResolvedKey], simulation: Simulation
) -> Iterator[Invocation]:
    """Yield every instruction in the order of execution; inner instructions follow their caller."""
    names = [key.address for key in keys]
    known = set(names)
    for call in simulation.inner:
        if not 0 <= call.top < len(message.instructions):
            raise UntrustedSimulation("an inner instruction has no outer instruction")
        if not known.issuperset(call.accounts) or call.program not in known:
            raise UntrustedSimulation("an inner instruction uses an account not in the message")
    for top, instruction in enumerate(message.instructions):
        yield Invocation(
            names[instruction.program_id_index],
            tuple(names[index] for index in instruction.accounts),
            bytes(instruction.data),
            top,
            inner=False,
        )
        yield from (call for call in simulation.inner if call.top == top)


def _mint_decimals(simulation: Simulation) -> dict[str, int]:
    found: dict[str, int] = {}
    for states in (simulation.post, simulation.pre):
        for address, state in states.items():
            mint = mint_account(address, state)
            if mint is not None:
                found[address] = mint.decimals
    return found


def _used_addresses(view: View, keys: Sequence[ResolvedKey]) -> frozenset[str]:
    addresses = {key.address for key in keys}
    for states in (view.simulation.pre, view.simulation.post):
        for address, state in states.items():
            account = token_account(state) if address in addresses else None
            if account is not None:
                addresses.add(account.owner)
    for _mint, owner in view.initialised.values():
        addresses.add(owner)
    return frozenset(addresses)


def decode(calls: Sequence[Invocation], view: View) -> None:
    """Add the effects of `calls` to `view`.

    An instruction that is malformed (its decoder raises `IndexError` or `ValueError`) or not
    understood is a violation. A program without a decoder, such as Memo, is judged by its calls and
    changes; `worst_case` bounds the amounts that it can take.
    """
    flat: list[Invocation] = []
    for call in calls:
        try:
            flat.extend(_split_batch(call))
        except MalformedTransaction as error:
            view.violate("program_allowlist", f"an instruction of {call.program}: {error}")
    tokens = [(call, _note_initialised) for call in flat if call.program in TOKEN_PROGRAMS]
    known = [(call, _DECODERS[call.program]) for call in flat if call.program in _DECODERS]
    # Owners of new token accounts first: a transfer may precede its receiver's initialisation.
    for call, step in (*tokens, *known):
        try:
            step(call, view)
        except (IndexError, ValueError):
            view.violate("program_allowlist", f"an instruction of {call.program} is malformed")


def has_decoder(program: str) -> bool:
    """Return whether a program's instructions are understood."""
    return program in _DECODERS or program in MEMO_PROGRAMS


# System.


def _decode_system(call: Invocation, view: View) -> None:
    kind = int.from_bytes(call.data[:4], "little") if len(call.data) >= 4 else -1
    accounts, data = call.accounts, call.data
    if kind in (System.TRANSFER, System.WITHDRAW_NONCE):
        _pay(view, accounts[0], accounts[1], _u64(data, 4), base=None)
    elif kind == System.TRANSFER_WITH_SEED:
        _pay(view, accounts[0], accounts[2], _u64(data, 4), base=accounts[1])
    elif kind == System.CREATE_ACCOUNT:
        _create_account(view, accounts[0], accounts[1], _u64(data, 4))
    elif kind == System.CREATE_ACCOUNT_WITH_SEED:
        seed = _u64(data, 36)
        _create_account(view, accounts[0], accounts[1], _u64(data, 44 + seed))
    elif kind == System.CREATE_ACCOUNT_ALLOW_PREFUND:
        funder = accounts[1] if len(accounts) > 1 else ""
        _create_account(view, funder, accounts[0], _u64(data, 4))
    elif kind in (System.ASSIGN, System.ASSIGN_WITH_SEED):
        if accounts[0] == view.wallet:
            view.change("owner", view.wallet, key_at(data, len(data) - 32))
    elif kind in (System.ALLOCATE, System.ALLOCATE_WITH_SEED):
        _no_data_in_wallet(view, accounts[0])
    elif kind == System.AUTHORIZE_NONCE:
        if view.wallet == accounts[1] or nonce_authority(view.pre(accounts[0])) == view.wallet:
            view.change("nonce_authority", accounts[0], key_at(data, 4))
    elif kind == System.ADVANCE_NONCE:
        view.violate("program_allowlist", "a durable nonce would keep the transaction valid")
    elif kind != System.INITIALIZE_NONCE:
        view.violate("program_allowlist", f"System instruction {kind} is not allowed")


def _pay(view: View, source: str, receiver: str, lamports: int, base: str | None) -> None:
    if source == view.wallet:
        view.pay(receiver, lamports)
        return
    ours = base == view.wallet or nonce_authority(view.pre(source)) == view.wallet
    if ours and receiver != view.wallet:
        view.lamports_out += lamports


def _create_account(view: View, funder: str, account: str, lamports: int) -> None:
    _no_data_in_wallet(view, account)
    if funder == view.wallet:
        view.pay(account, lamports)


def _no_data_in_wallet(view: View, account: str) -> None:
    # A system account with data can never again pay fees or send SOL.
    if account == view.wallet:
        view.violate("authority_change", "the wallet itself would be turned into a data account")


# SPL Token and Token-2022.

# Discriminator -> index of the authority's account, for instructions with an authority.
_TOKEN_AUTHORITY_AT = {
    Token.TRANSFER: 2, Token.APPROVE: 2, 5: 1, Token.SET_AUTHORITY: 1, 7: 2, 8: 2, 9: 2, 10: 2,
    11: 2, Token.TRANSFER_CHECKED: 3, Token.APPROVE_CHECKED: 3, 14: 2, 15: 2,
    Token.WITHDRAW_EXCESS_LAMPORTS: 2, Token.UNWRAP_LAMPORTS: 2,
}  # fmt: skip
_TOKEN_INITIALIZE_ACCOUNT = frozenset({1, 16, 18})
_TOKEN_MINT_TO = frozenset({7, 14})
_TOKEN_BURN = frozenset({8, 15})
# InitializeMint, Revoke, Freeze, Thaw, SyncNative, InitializeMint2, GetAccountDataSize,
# InitializeImmutableOwner, AmountToUiAmount, UiAmountToAmount.
_TOKEN_HARMLESS = frozenset({0, 5, 10, 11, 17, 20, 21, 22, 23, 24})


def _split_batch(call: Invocation) -> Iterator[Invocation]:
    """Yield the instructions inside a token program's `Batch`, or the instruction itself."""
    if not is_batch(call.program, call.data):
        yield call
        return
    for data, start, end in batch_parts(call.data, len(call.accounts)):
        yield replace(call, data=data, accounts=call.accounts[start:end])


def _note_initialised(call: Invocation, view: View) -> None:
    """Note the (mint, owner) with which a token account is initialised."""
    kind = call.data[0] if call.data else -1
    if kind in _TOKEN_INITIALIZE_ACCOUNT:
        owner = call.accounts[2] if kind == 1 else key_at(call.data, 1)
        entry = (call.accounts[1], owner)
        if view.initialised.setdefault(call.accounts[0], entry) != entry:
            view.violate("simulated_effects", f"{call.accounts[0]} is initialised twice")


def _decode_token(call: Invocation, view: View) -> None:
    kind = call.data[0] if call.data else -1
    accounts = call.accounts
    if kind in _TOKEN_AUTHORITY_AT and view.wallet in accounts[_TOKEN_AUTHORITY_AT[kind] + 1 :]:
        view.violate("authority_change", "the wallet would sign as a member of a multisig")
    if kind == Token.TRANSFER:
        _transfer_tokens(view, accounts[0], accounts[1], _u64(call.data, 1))
    elif kind == Token.TRANSFER_CHECKED:
        _transfer_tokens(view, accounts[0], accounts[2], _u64(call.data, 1))
    elif call.program == TOKEN_2022_PROGRAM and call.data[:2] == TOKEN_TRANSFER_CHECKED_WITH_FEE:
        if view.wallet in accounts[4:]:
            view.violate("authority_change", "the wallet would sign as a member of a multisig")
        _transfer_tokens(view, accounts[0], accounts[2], _u64(call.data, 2))
    elif kind in (Token.APPROVE, Token.APPROVE_CHECKED):
        at = _TOKEN_AUTHORITY_AT[kind]
        if view.owns_token(accounts[0]) or accounts[at] == view.wallet:
            view.change("delegate", accounts[0], accounts[at - 1])
    elif kind == Token.SET_AUTHORITY:
        _set_token_authority(view, call)
    elif kind in _TOKEN_MINT_TO:
        if accounts[2] == view.wallet and not view.keeps_token(accounts[1]):
            view.tokens_out[accounts[0]] += _u64(call.data, 1)
    elif kind in _TOKEN_BURN:
        if view.owns_token(accounts[0]):
            view.tokens_out[accounts[1]] += _u64(call.data, 1)
    elif kind == Token.CLOSE_ACCOUNT:
        _close_token_account(view, accounts[0], accounts[1])
    elif kind == Token.WITHDRAW_EXCESS_LAMPORTS:
        _withdraw_excess(view, accounts[0], accounts[1])
    elif kind == Token.UNWRAP_LAMPORTS:
        _unwrap(view, accounts[0], accounts[1], call.data)
    elif call.program == TOKEN_2022_PROGRAM and call.data[:8] == TOKEN_METADATA_INITIALIZE:
        if accounts[3] == view.wallet:
            view.change("update_authority", accounts[2], accounts[1])
    elif call.program == TOKEN_2022_PROGRAM and call.data[:2] == (
        TOKEN_METADATA_POINTER_INITIALIZE
    ):
        _set_metadata_pointer(view, call)
    elif call.program == TOKEN_2022_PROGRAM and call.data == TOKEN_HARVEST_WITHHELD_TO_MINT:
        # A pocket's account needs this instruction before it can be closed.
        pass
    elif kind not in _TOKEN_HARMLESS and kind not in _TOKEN_INITIALIZE_ACCOUNT:
        view.violate("program_allowlist", f"token instruction {kind} is not allowed")


def _transfer_tokens(view: View, source: str, receiver: str, units: int) -> None:
    spends, keeps = view.owns_token(source), view.keeps_token(receiver)
    entry = view.token(source) or view.token(receiver)
    if entry is None:
        raise IndexError("a transfer between accounts that are not shown")
    if spends and not keeps:
        view.tokens_out[entry[0]] += units
    if spends or keeps:
        view.moved.add(entry[0])


def _set_token_authority(view: View, call: Invocation) -> None:
    account, authority = call.accounts[0], call.accounts[1]
    if call.data[2] not in (0, 1):
        raise IndexError("an authority option is neither absent nor present")
    new = key_at(call.data, 3) if call.data[2] == 1 else None
    kind = TOKEN_AUTHORITIES.get(call.data[1], f"authority_{call.data[1]}")
    if authority == view.wallet or view.owns_token(account) or view.controls_mint(account):
        view.change(kind, account, new)


def _set_metadata_pointer(view: View, call: Invocation) -> None:
    # The authority that may point to other metadata; all zeros mean nobody.
    if any(call.data[2:34]) and view.controls_mint(call.accounts[0]):
        view.change("metadata_pointer_authority", call.accounts[0], key_at(call.data, 2))


def _close_token_account(view: View, account: str, receiver: str) -> None:
    ours = view.owns_token(account) or view.controls_mint(account)
    if ours and (receiver != view.wallet or view.pre(account) is not None):
        view.close(account, receiver)


def _withdraw_excess(view: View, account: str, receiver: str) -> None:
    if receiver != view.wallet and (view.owns_token(account) or view.controls_mint(account)):
        text = f"the lamports of {account} beyond its rent would go to {receiver}"
        view.violate("simulated_effects", text)


def _unwrap(view: View, account: str, receiver: str, data: bytes) -> None:
    entry, before = view.token(account), token_account(view.pre(account))
    held = 0 if before is None else before.amount
    units = _u64(data, 2) if data[1] else held
    if entry is not None and view.owns_token(account) and receiver != view.wallet:
        view.tokens_out[entry[0]] += units


# Stake.

# Delegate, Deactivate, GetMinimumDelegation, DeactivateDelinquent: no lamports, no authority.
_STAKE_HARMLESS = frozenset({2, 5, 13, 14})

_STAKE_ROLES = {0: "staker", 1: "withdrawer"}


def _decode_stake(call: Invocation, view: View) -> None:
    kind = int.from_bytes(call.data[:4], "little") if len(call.data) >= 4 else -1
    # Sysvar accounts are optional; the other accounts have a fixed order.
    accounts = tuple(account for account in call.accounts if not account.startswith("Sysvar"))
    data = call.data
    if kind == Stake.INITIALIZE:
        view.change("staker", accounts[0], key_at(data, 4))
        view.change("withdrawer", accounts[0], key_at(data, 36))
        if any(data[68:84]):
            view.change("lockup", accounts[0], key_at(data, 84))
    elif kind == Stake.INITIALIZE_CHECKED:
        view.change("staker", accounts[0], accounts[1])
        view.change("withdrawer", accounts[0], accounts[2])
    elif kind in (Stake.AUTHORIZE, Stake.AUTHORIZE_WITH_SEED):
        view.change(_stake_role(data, 36), accounts[0], key_at(data, 4))
    elif kind in (Stake.AUTHORIZE_CHECKED, Stake.AUTHORIZE_CHECKED_WITH_SEED):
        view.change(_stake_role(data, 4), accounts[0], accounts[2])
    elif kind in (Stake.SET_LOCKUP, Stake.SET_LOCKUP_CHECKED):
        view.change("lockup", accounts[0], None)
    elif kind in (Stake.SPLIT, Stake.MOVE_STAKE, Stake.MOVE_LAMPORTS):
        lamports = _u64(data, 4)
        if _controls_stake(view, accounts[0]) and not view.controls(
            view.post(accounts[1]), accounts[1]
        ):
            view.lamports_out += lamports
    elif kind == Stake.WITHDRAW:
        if _controls_stake(view, accounts[0]) and accounts[1] != view.wallet:
            view.lamports_out += _u64(data, 4)
    elif kind == Stake.MERGE:
        if _controls_stake(view, accounts[1]):
            view.close(accounts[1], accounts[0])
    elif kind not in _STAKE_HARMLESS:
        view.violate("program_allowlist", f"Stake instruction {kind} is not allowed")


def _controls_stake(view: View, address: str) -> bool:
    for state in (view.pre(address), view.post(address)):
        stake = stake_account(state)
        if stake and view.wallet in (stake.staker, stake.withdrawer):
            return True
    return False


def _stake_role(data: bytes, start: int) -> str:
    return _STAKE_ROLES.get(int.from_bytes(data[start : start + 4], "little"), "stake_authority")


# Associated Token and Compute Budget, which move nothing themselves.


def _decode_associated_token(call: Invocation, view: View) -> None:
    """Refuse everything except creation, because RecoverNested closes accounts."""
    if call.data not in ASSOCIATED_TOKEN_CREATIONS:
        view.violate("program_allowlist", "this Associated Token instruction is not allowed")


def _decode_compute_budget(call: Invocation, view: View) -> None:
    """Refuse instructions that `network_fee` does not read."""
    if not call.data or COMPUTE_BUDGET_SIZES.get(call.data[0]) != len(call.data):
        view.violate("program_allowlist", "this Compute Budget instruction is not allowed")


_DECODERS: Final[dict[str, Callable[[Invocation, View], None]]] = {
    SYSTEM_PROGRAM: _decode_system,
    TOKEN_PROGRAM: _decode_token,
    TOKEN_2022_PROGRAM: _decode_token,
    STAKE_PROGRAM: _decode_stake,
    ASSOCIATED_TOKEN_PROGRAM: _decode_associated_token,
    COMPUTE_BUDGET_PROGRAM: _decode_compute_budget,
}


def _u64(data: bytes, start: int) -> int:
    if start + 8 > len(data):
        raise IndexError("instruction data is too short")
    return int.from_bytes(data[start : start + 8], "little")

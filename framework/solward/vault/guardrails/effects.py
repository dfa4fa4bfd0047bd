"""What a transaction really does to a wallet: its instructions decoded, its simulation compared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from solward.guardrail import TransactionEffects
from solward.solana.message import AnyMessage, ResolvedKey
from solward.solana.programs import (
    ASSOCIATED_TOKEN_PROGRAM,
    COMPUTE_BUDGET_PROGRAM,
    MEMO_PROGRAM,
    MEMO_V1_PROGRAM,
    STAKE_PROGRAM,
    SYSTEM_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
    TOKEN_PROGRAMS,
)
from solward.solana.tokens import mint_account, token_account
from solward.vault.guardrails.decode_other import (
    decode_associated_token,
    decode_compute_budget,
    decode_memo,
)
from solward.vault.guardrails.decode_stake import decode_stake
from solward.vault.guardrails.decode_system import decode_system
from solward.vault.guardrails.decode_token import decode_token, note_initialised, unbatch
from solward.vault.guardrails.diff import check_mints, compare
from solward.vault.guardrails.errors import UntrustedSimulation
from solward.vault.guardrails.fees import network_fee
from solward.vault.guardrails.flows import measure
from solward.vault.guardrails.model import Invocation, Simulation
from solward.vault.guardrails.view import View

# A program without a decoder is judged by the allowlist and by what it calls and changes.
_DECODERS: Final[dict[str, Callable[[Invocation, View], None]]] = {
    SYSTEM_PROGRAM: decode_system,
    TOKEN_PROGRAM: decode_token,
    TOKEN_2022_PROGRAM: decode_token,
    STAKE_PROGRAM: decode_stake,
    ASSOCIATED_TOKEN_PROGRAM: decode_associated_token,
    COMPUTE_BUDGET_PROGRAM: decode_compute_budget,
    MEMO_PROGRAM: decode_memo,
    MEMO_V1_PROGRAM: decode_memo,
}


def analyse(
    message: AnyMessage,
    keys: Sequence[ResolvedKey],
    simulation: Simulation,
    wallet: str,
    managed: Collection[str] = (),
) -> TransactionEffects:
    """The gross effects of `message` on everything `wallet` controls.

    Args:
        keys: from `resolve` of the same message.
        simulation: of the same bytes; inner instructions complete.
        managed: other required signers this service holds keys for; each must ask for its own
            transaction, so one here is a violation.

    Raises:
        UntrustedSimulation: inner instructions belong to no top-level instruction, or call
            accounts the message does not have.
    """
    view = View(wallet, simulation)
    calls = list(_calls(message, keys, simulation))
    flat: list[Invocation] = []
    for call in calls:
        try:
            flat.extend(unbatch(call))
        except (IndexError, ValueError):
            view.violate("program_allowlist", "a batch of token instructions is malformed")
    _apply(view, [call for call in flat if call.program in TOKEN_PROGRAMS], note_initialised)
    for call in flat:
        decoder = _DECODERS.get(call.program)
        if decoder is not None:
            _apply(view, [call], decoder)
    compare(view, keys)
    check_mints(view)
    for key in keys:
        if key.signer and key.address != wallet and key.address in managed:
            view.violate("authority_change", f"managed wallet {key.address} would sign as well")
    fee = network_fee(message)
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
        programs=frozenset(call.program for call in calls),
        addresses=_addresses(view, keys),
        violations=tuple(dict.fromkeys(view.violations)),
        created=flows.created,
        instruction_data=tuple(dict.fromkeys(call.data for call in calls)),
        decimals=_decimals(simulation),
    )


def _calls(
    message: AnyMessage, keys: Sequence[ResolvedKey], simulation: Simulation
) -> Iterator[Invocation]:
    """Every instruction in the order of execution, inner ones after the one that makes them."""
    names = [key.address for key in keys]
    known = set(names)
    for call in simulation.inner:
        if not 0 <= call.top < len(message.instructions):
            raise UntrustedSimulation("an inner instruction belongs to no instruction")
        if not known.issuperset(call.accounts) or call.program not in known:
            raise UntrustedSimulation("an inner instruction uses an account not in the message")
    for top, instruction in enumerate(message.instructions):
        yield Invocation(
            names[instruction.program_id_index],
            tuple(names[index] for index in instruction.accounts),
            bytes(instruction.data),
            top,
        )
        yield from (call for call in simulation.inner if call.top == top)


def _apply(
    view: View, calls: Sequence[Invocation], step: Callable[[Invocation, View], None]
) -> None:
    for call in calls:
        try:
            step(call, view)
        except (IndexError, ValueError):
            view.violate("program_allowlist", f"an instruction of {call.program} is malformed")


def _decimals(simulation: Simulation) -> dict[str, int]:
    found: dict[str, int] = {}
    for states in (simulation.post, simulation.pre):
        for address, state in states.items():
            mint = mint_account(address, state)
            if mint is not None:
                found[address] = mint.decimals
    return found


def _addresses(view: View, keys: Sequence[ResolvedKey]) -> frozenset[str]:
    addresses = {key.address for key in keys}
    for states in (view.simulation.pre, view.simulation.post):
        for address, state in states.items():
            account = token_account(state) if address in addresses else None
            if account is not None:
                addresses.add(account.owner)
    for _mint, owner in view.initialised.values():
        addresses.add(owner)
    return frozenset(addresses)

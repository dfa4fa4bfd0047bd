"""What a transaction does to a wallet: its bound by the bytes, and what a simulation shows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from solward.solana.fees import network_fee
from solward.solana.message import AnyMessage, ResolvedKey
from solward.solana.tokens import mint_account, token_account
from solward.types.guardrail import TransactionEffects
from solward.vault.guardrails.comparison import compare, measure
from solward.vault.guardrails.instructions import decode, decodes
from solward.vault.guardrails.simulation import Invocation, Simulation, UntrustedSimulation, View
from solward.vault.guardrails.worst_case import Unbounded, worst_case


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
    """The bound that limits count, from the bytes, beside what the simulation shows.

    What the bytes cannot bound is the first of the violations, and there is no bound then. Args and
    raises as `simulated_effects`.
    """
    effects = simulated_effects(message, keys, simulation, wallet, managed, pocket, regulated_mints)
    try:
        return replace(effects, outflow=worst_case(message, wallet))
    except Unbounded as refused:
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
    """What the simulation shows of `message`: its gross effects on everything `wallet` controls.

    An early refusal and an explanation; the state may change before it lands.

    Args:
        keys: from `resolve` of the same message.
        simulation: of the same bytes; inner instructions complete.
        managed: other required signers this service holds keys for; each must sign a transaction of
            its own, so one here is a violation.
        pocket: a key of the wallet that signs too.
        regulated_mints: see `View`.

    Raises:
        UntrustedSimulation: inner instructions belong to no top-level instruction, or call
            accounts the message does not have.
    """
    view = View(wallet, simulation, pocket, regulated_mints)
    every = list(_calls(message, keys, simulation))
    # What they do is for the simulation to show: the wallet's signature gives them nothing.
    foreign = _without(wallet, every)
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
        addresses=_addresses(view, keys),
        violations=tuple(dict.fromkeys(view.violations)),
        created=flows.created,
        instruction_data=tuple(dict.fromkeys(call.data for call in every)),
        decimals=_decimals(simulation),
    )


def _without(wallet: str, calls: Sequence[Invocation]) -> set[int]:
    """Top-level instructions of programs without a decoder that do not name the wallet."""
    return {
        call.top
        for call in calls
        if not call.inner and not decodes(call.program) and wallet not in call.accounts
    }


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
            inner=False,
        )
        yield from (call for call in simulation.inner if call.top == top)


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

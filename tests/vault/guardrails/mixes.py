"""Attacks hidden among harmless instructions, drawn by chance; the seed says which."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from spl.token.instructions import create_idempotent_associated_token_account
from tests.vault.guardrails.attacks import ATTACKS, Attack, pay, token, u64
from tests.vault.guardrails.bank import (
    POLICY,
    RENT_TOKEN,
    SOL,
    WALLET_LIMITS,
    Bank,
    key,
    mint_data,
)

from solward.solana.programs import COMPUTE_BUDGET_PROGRAM, MEMO_PROGRAM, TOKEN_PROGRAM
from solward.types.guardrail import Intent, TransactionEffects
from solward.vault.guardrails.rules import Policy, ScopeLimits, ScopeUsage, Verdict, judge

DECLARED: Final = 10_000_000
# What a harmless payment of a mix may be: three of them stay below what is declared.
_SMALL: Final = DECLARED // 4
_PACKET: Final = 1_232
MOUNTS: Final = ("legacy", "0", "1", "table", "router")

# The rules that no instruction breaks alone: what is allowed, spent or blocked decides.
LIMITS: Final = (
    "max_per_tx", "rate_limit", "daily_limit", "blocked_address", "spending_limit_check",
    "costs_limit", "swap_bounds",
)  # fmt: skip


def price(bank: Bank) -> list[Instruction]:
    units, micro_lamports = 1_400_000, 1_000_000
    budget = [set_compute_unit_limit(units), set_compute_unit_price(micro_lamports)]
    return [*budget, pay(bank, 1)]


HIDDEN: Final = (
    *(each for each in ATTACKS if each.simulated),
    Attack("10 unit price", "fee_limit", price),
)


@dataclass(frozen=True)
class Mix:
    """One transaction: what is in it, how it is mounted, and whether the VM ran it.

    `harmless` counts the instructions beside the attack.
    """

    instructions: tuple[Instruction, ...]
    mount: str
    effects: TransactionEffects
    ran: bool
    harmless: int = 0


def intent(bank: Bank) -> Intent:
    """A payment of 0.01 SOL that may open one token account."""
    return Intent(
        type="transfer",
        wallet=bank.address,
        lamports_out=DECLARED,
        rent_lamports=RENT_TOKEN,
        destinations=frozenset({str(bank.stranger.pubkey())}),
    )


def harmless(bank: Bank, rng: random.Random, attack: Sequence[Instruction]) -> list[Instruction]:
    """Up to six instructions the declaration covers, none of them twice."""
    memo = bytes(rng.choices(b"abcdefghij ", k=rng.randrange(1, 24)))
    units, micro_lamports = rng.randrange(300_000, 1_400_000), rng.randrange(1, 100)
    # Of a mint no attack touches: who owns the other account at the end decides what left it.
    spare = bank.put_tokens(bank.put(TOKEN_PROGRAM, mint_data(bank.own)), bank.own, 10**6)
    to_itself = [(spare, "w"), (spare, "w"), (bank.own, "s")]
    pool = [
        Instruction(key(MEMO_PROGRAM), memo, []),
        Instruction(key(MEMO_PROGRAM), memo[::-1], [AccountMeta(bank.own, True, False)]),
        pay(bank, rng.randrange(1, _SMALL)),
        pay(bank, rng.randrange(_SMALL)),
        pay(bank, rng.randrange(1, _SMALL), bank.own),
        create_idempotent_associated_token_account(bank.own, bank.own, bank.wsol),
        create_idempotent_associated_token_account(bank.own, bank.own, bank.mint),
        token(b"\x03" + u64(rng.randrange(1_000)), *to_itself),
    ]
    if not _budgeted(attack):
        pool += [set_compute_unit_limit(units), set_compute_unit_price(micro_lamports)]
    return rng.sample(pool, rng.randrange(1, 7))


def hidden(bank: Bank, rng: random.Random, attack: Attack) -> tuple[Mix, Mix]:
    """An attack among harmless instructions, and the same ones without it."""
    core = list(attack.make(bank))
    around = harmless(bank, rng, core)
    # Version 1 has its fee and its units in the message, and a budget asked for from inside a
    # router is none.
    barred = {"1"} if _budgeted((*core, *around)) else set()
    barred |= {"router"} if _budgeted(core) else set()
    mount = rng.choice([each for each in MOUNTS if each not in barred])
    signers = tuple(attack.signers(bank))
    alone = _mounted(bank, around, (), mount, must_run=True)
    places = sorted(rng.choices(range(len(around) + 1), k=len(core)))
    mixed = list(around)
    for place, instruction in reversed(list(zip(places, core, strict=True))):
        mixed.insert(place, instruction)
    # Some attacks break what comes after them, so that the whole fails: those go last.
    for order in (mixed, [*around, *core], core):
        if _size(bank, order, signers) > _PACKET:
            continue
        made = _mounted(bank, order, signers, mount, must_run=False)
        if made.ran or not attack.runs:
            break
    return replace(made, harmless=len(made.instructions) - len(core)), alone


def _budgeted(instructions: Sequence[Instruction]) -> bool:
    return any(one.program_id == key(COMPUTE_BUDGET_PROGRAM) for one in instructions)


def _size(bank: Bank, instructions: Sequence[Instruction], signers: Sequence[Keypair]) -> int:
    return len(bank.build(instructions, signers))


def _mounted(
    bank: Bank,
    instructions: Sequence[Instruction],
    signers: tuple[Keypair, ...],
    mount: str,
    *,
    must_run: bool,
) -> Mix:
    tables = [bank.put_table(loadable(bank, instructions))] if mount == "table" else []
    version = {"table": "0", "router": "legacy"}.get(mount, mount)
    wire = bank.build(instructions, signers, version=version, tables=tables)
    _, _, simulation = bank.simulate(wire, must_run=must_run)
    ran = simulation.post is not simulation.pre
    assert ran or not must_run
    if mount == "router":
        effects = bank.inner_effects(instructions, wire)
    else:
        effects = bank.effects(wire, must_run=False)
    return Mix(tuple(instructions), mount, effects, ran)


def loadable(bank: Bank, instructions: Sequence[Instruction]) -> list[Pubkey]:
    """What a lookup table can hold for them: all but the wallet and who signs."""
    found = {
        meta.pubkey
        for one in instructions
        for meta in one.accounts
        if not meta.is_signer and meta.pubkey != bank.own
    }
    return sorted(found, key=bytes)


def over_a_limit(bank: Bank, mix: Mix, rule: str) -> Verdict:
    """The verdict on harmless instructions where `rule` alone has nothing left for them."""
    declared = intent(bank)
    wallet, key_limits = replace(WALLET_LIMITS), ScopeLimits()
    used, key_used, policy = ScopeUsage(), ScopeUsage(), POLICY
    if rule == "max_per_tx":
        wallet = replace(wallet, max_lamports_per_tx=DECLARED - 1)
    elif rule == "rate_limit":
        used = ScopeUsage(tx_last_minute=5)
    elif rule == "daily_limit":
        used = ScopeUsage(lamports_last_day=10 * SOL - DECLARED + 1)
    elif rule == "swap_bounds":
        declared = replace(declared, price_impact_bps=501)
    elif rule == "costs_limit":
        wallet = replace(wallet, daily_costs_lamports=4_999)
    elif rule == "spending_limit_check":
        key_limits = ScopeLimits(daily_lamports=SOL)
        key_used = ScopeUsage(lamports_last_day=SOL - DECLARED + 1)
    else:
        policy = _blocking(bank)
    return judge(
        declared,
        mix.effects,
        [("wallet:w", wallet, used), ("key:k", key_limits, key_used)],
        policy,
    )


def _blocking(bank: Bank) -> Policy:
    return replace(POLICY, blocked_addresses=frozenset({str(bank.stranger.pubkey())}))

"""What an honest caller declares and does is allowed, whatever the amounts and what lies around it.

Each is then run: the wallet loses no more than was counted.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from solders.compute_budget import (
    request_heap_frame,
    set_compute_unit_limit,
    set_compute_unit_price,
    set_loaded_accounts_data_size_limit,
)
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import TransferParams
from solders.system_program import transfer as system_transfer
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import TransactionMetadata
from spl.token.instructions import (
    create_idempotent_associated_token_account,
    get_associated_token_address,
)
from tests.vault.guardrails.attacks import pay, token, u64
from tests.vault.guardrails.bank import (
    RENT_TOKEN,
    SOL,
    WALLET_LIMITS,
    Bank,
    key,
    mint_data,
    verdict,
)

from solward.solana.programs import MEMO_PROGRAM, TOKEN_PROGRAM, WRAPPED_SOL_MINT
from solward.types.guardrail import Intent
from solward.vault.guardrails.rules import RULES, max_debit


@dataclass(frozen=True)
class Honest:
    """Instructions, who else signs, and exactly what they are declared to do."""

    instructions: list[Instruction]
    declared: Mapping[str, Any]
    signers: list[Keypair] = field(default_factory=list)


def transfer(bank: Bank, rng: random.Random) -> Honest:
    to = rng.choice([bank.friend.pubkey(), bank.stranger.pubkey(), Pubkey.new_unique()])
    # Not less than the rent a new account needs, not more than a transaction may move.
    lamports = rng.choice([890_880, 2 * SOL, rng.randrange(890_880, 2 * SOL)])
    return Honest(
        [pay(bank, lamports, to)], {"lamports_out": lamports, "destinations": frozenset({str(to)})}
    )


def several(bank: Bank, rng: random.Random) -> Honest:
    amounts = [rng.randrange(890_880, SOL // 2) for _ in range(rng.randint(2, 4))]
    receivers = [Pubkey.new_unique() for _ in amounts]
    paid = [pay(bank, lamports, to) for lamports, to in zip(amounts, receivers, strict=True)]
    declared = {"lamports_out": sum(amounts), "destinations": frozenset(map(str, receivers))}
    return Honest(paid, declared)


def token_transfer(bank: Bank, rng: random.Random) -> Honest:
    units = rng.randrange(1, 1_000_001)
    owner = rng.choice([bank.friend.pubkey(), Pubkey.new_unique()])
    to = get_associated_token_address(owner, bank.mint)
    return Honest(
        [
            create_idempotent_associated_token_account(bank.own, owner, bank.mint),
            checked(bank, bank.tokens, to, units, bank.own),
        ],
        {
            "rent_lamports": RENT_TOKEN,
            "tokens_out": {str(bank.mint): units},
            "destinations": frozenset({str(owner)}),
        },
    )


def wrap(bank: Bank, rng: random.Random) -> Honest:
    lamports = rng.randrange(1, 2 * SOL)
    return Honest(
        _wrapping(bank, lamports), {"lamports_out": lamports, "rent_lamports": RENT_TOKEN}
    )


def unwrap(bank: Bank, rng: random.Random) -> Honest:
    account = bank.put_tokens(bank.wsol, bank.own, rng.randrange(5 * SOL))
    return Honest([_close(bank, account)], {"may_close": frozenset({str(account)})})


def buy(bank: Bank, rng: random.Random) -> Honest:
    lamports, units = rng.randrange(1, 2 * SOL), rng.randrange(1, 1_000_001)
    get = checked(bank, bank.their_tokens, bank.tokens, units, bank.stranger.pubkey())
    return Honest(
        [pay(bank, lamports), get],
        {"lamports_out": lamports, "tokens_in": {str(bank.mint): units}},
        [bank.stranger],
    )


def buy_wrapped(bank: Bank, rng: random.Random) -> Honest:
    """As an aggregator does: wrap, pay the market, close what is left."""
    lamports, units = rng.randrange(1, 2 * SOL), rng.randrange(1, 1_000_001)
    own = get_associated_token_address(bank.own, bank.wsol)
    market = bank.put_tokens(bank.wsol, bank.stranger.pubkey(), 0)
    spend = token(b"\x03" + u64(lamports), (own, "w"), (market, "w"), (bank.own, "s"))
    get = checked(bank, bank.their_tokens, bank.tokens, units, bank.stranger.pubkey())
    return Honest(
        [*_wrapping(bank, lamports), spend, get, _close(bank, own)],
        {
            "lamports_out": lamports,
            "rent_lamports": RENT_TOKEN,
            "tokens_in": {str(bank.mint): units},
            "may_close": frozenset({str(own)}),
        },
        [bank.stranger],
    )


def sell(bank: Bank, rng: random.Random) -> Honest:
    lamports, units = rng.randrange(10_000, 50 * SOL), rng.randrange(1, 1_000_001)
    give = checked(bank, bank.tokens, bank.their_tokens, units, bank.own)
    return Honest(
        [give, _paid_by(bank.stranger, bank.own, lamports)],
        {"tokens_out": {str(bank.mint): units}, "tokens_in": {WRAPPED_SOL_MINT: lamports - 1}},
        [bank.stranger],
    )


def burn(bank: Bank, rng: random.Random) -> Honest:
    units = rng.randrange(1, 1_000_001)
    return Honest(
        [token(b"\x08" + u64(units), (bank.tokens, "w"), (bank.mint, "w"), (bank.own, "s"))],
        {"tokens_out": {str(bank.mint): units}},
    )


def mint_more(bank: Bank, rng: random.Random) -> Honest:
    units = rng.randrange(1, 2**62)
    return Honest(
        [token(b"\x07" + u64(units), (bank.mint, "w"), (bank.tokens, "w"), (bank.own, "s"))],
        {"tokens_in": {str(bank.mint): units}},
    )


def revoke(bank: Bank, rng: random.Random) -> Honest:
    return Honest(
        [token(bytes([6, 0, 0]), (bank.mint, "w"), (bank.own, "s"))],
        {"may_revoke": frozenset({str(bank.mint)})},
    )


def close_empty(bank: Bank, rng: random.Random) -> Honest:
    mint = bank.put(TOKEN_PROGRAM, mint_data(bank.stranger.pubkey()))
    account = bank.put_tokens(mint, bank.own, 0)
    return Honest([_close(bank, account)], {"may_close": frozenset({str(account)})})


KINDS: tuple[Callable[[Bank, random.Random], Honest], ...] = (
    transfer, several, token_transfer, wrap, unwrap, buy, buy_wrapped, sell, burn, mint_more,
    revoke, close_empty,
)  # fmt: skip


def checked(bank: Bank, source: Pubkey, target: Pubkey, units: int, owner: Pubkey) -> Instruction:
    """A TransferChecked of `bank.mint`, which has 6 decimals."""
    return token(
        b"\x0c" + u64(units) + b"\x06", (source, "w"), (bank.mint, ""), (target, "w"), (owner, "s")
    )


def _wrapping(bank: Bank, lamports: int) -> list[Instruction]:
    account = get_associated_token_address(bank.own, bank.wsol)
    return [
        create_idempotent_associated_token_account(bank.own, bank.own, bank.wsol),
        pay(bank, lamports, account),
        token(b"\x11", (account, "w")),
    ]


def _close(bank: Bank, account: Pubkey) -> Instruction:
    return token(b"\x09", (account, "w"), (bank.own, "w"), (bank.own, "s"))


def _paid_by(payer: Keypair, to: Pubkey, lamports: int) -> Instruction:
    return system_transfer(
        TransferParams(from_pubkey=payer.pubkey(), to_pubkey=to, lamports=lamports)
    )


def _around(bank: Bank, rng: random.Random) -> list[Instruction]:
    """Compute budget, in any order, with a price that stays below the fee limit."""
    budget = [
        set_compute_unit_limit(rng.randrange(250_000, 1_400_000)),
        set_compute_unit_price(rng.randrange(600_000)),
        request_heap_frame(32 * 1024 * rng.randint(1, 8)),
        set_loaded_accounts_data_size_limit(64 * 1024 * 1024),
    ]
    return rng.sample(budget, rng.randint(0, 4))


def run(rounds: int, seed: int) -> None:
    rng = random.Random(seed)
    seen: Counter[str] = Counter()
    for number in range(rounds):
        bank, kind = Bank(), KINDS[number % len(KINDS)]
        honest = kind(bank, rng)
        version = rng.choice(["legacy", "0", "1"])
        instructions = list(honest.instructions)
        if version != "1":
            instructions = [*_around(bank, rng), *instructions]
        if rng.random() < 0.5:
            signed = [AccountMeta(bank.own, True, False)] if rng.random() < 0.5 else []
            instructions.append(Instruction(key(MEMO_PROGRAM), b"invoice %d" % number, signed))
        fee = rng.randrange(900_000) if version == "1" else None
        wire = bank.build(instructions, honest.signers, version=version, priority_fee=fee)
        effects = bank.effects(wire)
        intent = Intent(type="other", wallet=bank.address, **honest.declared)
        judged = verdict(intent, effects)
        assert judged.allowed, (kind.__name__, number, judged, effects)
        assert judged.applied == RULES
        before = bank.svm.get_balance(bank.own) or 0
        landed = bank.svm.send_transaction(VersionedTransaction.from_bytes(wire))
        assert isinstance(landed, TransactionMetadata), (kind.__name__, number)
        debit = before - (bank.svm.get_balance(bank.own) or 0)
        assert debit <= max_debit(intent, effects), kind.__name__
        assert effects.lamports_out <= (WALLET_LIMITS.max_lamports_per_tx or 0)
        seen.update((kind.__name__, version))
    assert {kind.__name__ for kind in KINDS} | {"legacy", "0", "1"} <= set(seen)


def test_120_honest_transactions_are_allowed() -> None:
    run(120, seed=5)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_2000_honest_transactions_are_allowed() -> None:
    run(2_000, seed=55)

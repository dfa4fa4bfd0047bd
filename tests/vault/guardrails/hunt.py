"""Generated messages judged by their bytes, then executed: does any take more than was counted?"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias

from solders.account import Account
from solders.instruction import Instruction
from solders.message import MessageV1
from solders.pubkey import Pubkey
from tests.vault.guardrails.generated_messages import SHAPES, Case, Shape, generate
from tests.vault.guardrails.world import NATIVE_MINTS, Accounts, Loss, World, total

from solward.solana.message import AnyMessage
from solward.solana.protocol import MAX_V1_WIRE_BYTES, MAX_WIRE_BYTES
from solward.types.guardrail import Line, Operation, Outflow

Judge: TypeAlias = Callable[[World, Case, AnyMessage], Outflow | None]
"""The bound of a message, None where it is refused; it knows nothing of the accounts' state."""

KEPT = frozenset({Operation.STAKE, Operation.WRAP})
"""Operations whose money stays the wallet's."""


@dataclass
class Report:
    """What became of the cases.

    Attributes:
        moved: landed accepted messages that took something beside the fee.
        refused_harm: what refused messages took when they were executed all the same -> how often.
        violations: accepted messages that took more than their bound, readable.
        stayed: landed messages with a line that says that its money stays the wallet's.
        unkept: those of them after which it did not, readable.
    """

    accepted: int = 0
    landed: int = 0
    moved: int = 0
    refused: int = 0
    refused_harm: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    stayed: int = 0
    unkept: list[str] = field(default_factory=list)


def hunt(
    world: World,
    judge: Judge,
    seed: int,
    cases: Iterable[int],
    concerns: Callable[[Case], bool] = lambda case: True,
    shapes: Sequence[tuple[Shape, int]] = SHAPES,
    v1: float = 0.3,
) -> Report:
    """Run generated cases; each follows from `seed`, its number and `shapes` alone.

    Args:
        concerns: which of them to run.
        v1: the share of messages of version 1.
    """
    report = Report()
    for number in cases:
        case = generate(world, random.Random(seed * 1_000_003 + number), shapes, v1)
        if concerns(case):
            _run(world, judge, case, f"seed {seed} case {number}", report)
    return report


def _run(world: World, judge: Judge, case: Case, name: str, report: Report) -> None:
    message = compile_case(world, case)
    transaction = world.sign(message)
    most = MAX_WIRE_BYTES if case.config is None else MAX_V1_WIRE_BYTES
    if transaction is None or len(bytes(transaction)) > most or not _asked(world, message):
        return
    bound = judge(world, case, message)
    addresses = _addresses(message, case)
    around = addresses | {
        meta.pubkey for front in case.fronts for one in front for meta in one.accounts
    }
    world.prepare(around, random.Random(case.state))
    world.put_table(case.held)
    absent = [each for each in around if each not in world.states and not world.exists(each)]
    for front in case.fronts:
        _land_front(world, front)
    before = world.read(addresses)
    if bound is None:
        report.refused += 1
        after, fee = world.simulate(transaction, before)
        if after is not None:
            paid = fee if case.payer == world.own else 0
            report.refused_harm.update(world.step(before, _refunded(world, after, paid)).kinds)
    else:
        report.accepted += 1
        steps = _steps(world, case, before)
        after, fee = world.land(transaction, before)
        paid = fee if case.payer == world.own else 0
        loss = Loss(_charged(message, fee) if paid else 0)
        if after is not None:
            report.landed += 1
            steps.append(_refunded(world, after, paid))
            loss = total([loss, *(world.step(*pair) for pair in pairwise(steps))])
            report.moved += bool(loss.kinds or loss.own)
            kept = [line for line in bound.lines if line.operation in KEPT]
            if kept:
                report.stayed += 1
                unkept = _unkept(world, bound, kept, before, _refunded(world, after, paid))
                if unkept:
                    told = _told(world, case, name, bound, loss, unkept, before)
                    report.unkept.append(told)
        excess = _excess(bound, loss)
        if excess:
            report.violations.append(_told(world, case, name, bound, loss, excess, before))
    for address in absent:
        if world.exists(address):
            world.remove(address)


def compile_case(world: World, case: Case) -> AnyMessage:
    return world.compile(
        case.payer, case.instructions, case.claimed, legacy=case.legacy, config=case.config
    )


def _charged(message: AnyMessage, fee: int) -> int:
    """What a cluster takes where the VM took `fee`: of version 1 the fee in the config, which the
    VM does not know, and not that of ComputeBudget instructions (SIMD-0385)."""
    if not isinstance(message, MessageV1):
        return fee
    return 5_000 * message.header.num_required_signatures + (message.config.priority_fee or 0)


def _asked(world: World, message: AnyMessage) -> bool:
    return world.own in message.account_keys[: message.header.num_required_signatures]


def _addresses(message: AnyMessage, case: Case) -> set[Pubkey]:
    """Every account the message can use, whatever it names in the lookup table."""
    return {*message.account_keys, *case.held}


def _steps(world: World, case: Case, before: Accounts) -> list[Accounts]:
    """The accounts before the message and after each of its instructions but the last.

    An instruction after which the message cannot end (its accounts are below their rent) has no
    state of its own.
    """
    steps = [before]
    for count in range(1, len(case.instructions)):
        part = replace(case, instructions=case.instructions[:count])
        transaction = world.sign(compile_case(world, part))
        assert transaction is not None
        after, fee = world.simulate(transaction, before)
        if after is not None:
            steps.append(_refunded(world, after, fee if case.payer == world.own else 0))
    return steps


def _refunded(world: World, accounts: Accounts, fee: int) -> Accounts:
    """The accounts as if there had been no fee."""
    account = accounts.get(world.own)
    if account is None or not fee:
        return accounts
    whole = Account(account.lamports + fee, account.data, account.owner)
    return {**accounts, world.own: whole}


def _land_front(world: World, front: Sequence[Instruction]) -> None:
    transaction = world.sign(world.compile(world.them, front))
    if (
        transaction is not None
        and world.own
        not in transaction.message.account_keys[
            : transaction.message.header.num_required_signatures
        ]
    ):
        world.svm.send_transaction(transaction)


def _excess(bound: Outflow, loss: Loss) -> list[str]:
    """What of the loss the bound does not cover."""
    covered = bound.lamports + bound.rent_lamports
    over = []
    if loss.fee > bound.fee_lamports:
        over.append(f"fee {loss.fee} > {bound.fee_lamports}")
    if loss.own > covered:
        over.append(f"lamports of the wallet's account {loss.own} > {covered}")
    native = sum(bound.tokens.get(str(mint), 0) for mint in NATIVE_MINTS)
    if loss.lamports > covered + native:
        over.append(f"lamports {loss.lamports} > {covered + native}")
    for mint, units in loss.units.items():
        if units > bound.tokens.get(str(mint), 0):
            over.append(f"units of {mint} {units} > {bound.tokens.get(str(mint), 0)}")
    over += [f"{name} of {address}" for name, address in sorted(loss.powers)]
    return over


def _unkept(
    world: World, bound: Outflow, kept: Sequence[Line], before: Accounts, after: Accounts
) -> list[str]:
    """What of the money that stays the wallet's, as `kept` says, did not."""
    gone = world.lamports_gone(before, after)
    leaves = bound.lamports + bound.rent_lamports - sum(line.units for line in kept)
    found = [f"lamports {gone} > {leaves} of the lines that leave"] if gone > leaves else []
    for line in kept:
        at = Pubkey.from_string(line.account or "")
        if line.operation == Operation.STAKE and not world.commands(after.get(at)):
            found.append(f"others command the stake {at}")
    return found


def _told(
    world: World,
    case: Case,
    name: str,
    bound: Outflow,
    loss: Loss,
    excess: Sequence[str],
    before: Accounts,
) -> str:
    """All one needs to understand a violation; the seed and the number run it again."""
    lines = [f"{name}: {'; '.join(excess)}", f"  {bound}", f"  {loss}"]
    fronts = [("before it, by the thief", front) for front in case.fronts]
    for label, steps in ((f"paid by {world.name(case.payer)}", case.instructions), *fronts):
        lines.append(f"  {label}")
        for one in steps:
            metas = ", ".join(
                world.name(meta.pubkey) + "+" * meta.is_signer + "*" * meta.is_writable
                for meta in one.accounts
            )
            lines.append(f"    {world.name(one.program_id)} {bytes(one.data).hex()} [{metas}]")
    if case.claimed is not None:
        for said, held in zip(case.claimed, case.held, strict=True):
            lines.append(f"  table: {world.name(said)} is {world.name(held)}")
    for address, account in before.items():
        if account is not None and address in world.states:
            lines.append(f"  {world.name(address)}: {account.lamports} {account.data.hex()}")
    return "\n".join(lines)

"""Checks of a guardrail. It is a pure function of intent and effects, so no service is needed."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterator, Sequence
from decimal import Decimal

from solward.hosts.wire.methods import ObservedCall
from solward.solana.token_list import token_list
from solward.solana.tokens import TOKEN_ACCOUNT_RENT
from solward.testing.conformance.report import Finding, Outcome, errors_finding, finding
from solward.testing.conformance.watch import Watch
from solward.types.guardrail import (
    AuthorityChange,
    Hold,
    Intent,
    Outflow,
    Request,
    TransactionEffects,
)
from solward.vault.money.judge.plugin_rules import TIME_LIMIT_S

Ask = Callable[[Intent, TransactionEffects], Awaitable[str | Hold | None]]
Pair = tuple[Intent, TransactionEffects]

WALLET = "4Nd1mYfYgoYyYgXbbXnhmCbtLrcZQAMTrQwpCRhVoNLh"
STRANGER = "11111111111111111111111111111112"
MINT = token_list("mainnet-beta").resolve("USDC", "mint")

# Limit of a refusal's text, which is stored in a record and in a model's memory.
MAX_REASON = 500
# Seconds above which a guardrail is slow: every transaction waits for it.
SLOW_S = 0.05


async def guardrail_findings(
    ask: Ask,
    watch: Watch,
    refused: Sequence[Pair] = (),
    allowed: Sequence[Pair] = (),
    held: Sequence[Pair] = (),
    *,
    tiered: bool = False,
) -> list[Finding]:
    """Return the findings of all checks of a loaded guardrail, in a fixed order.

    Args:
        ask: calls the guardrail as the vault does.
        tiered: whether to include the higher tiers' checks.
    """
    answers: list[str | Hold | None] = []
    raised, impure, odd, slow = [], [], [], 0.0
    pairs = [*refused, *allowed, *held, *transactions()]
    number = 0
    for intent, effects in pairs:
        asked: list[str | Hold | None] = []
        seen: list[ObservedCall] = []
        for _ in range(2):
            asked.append(await _verdict(ask, intent, effects))
            seen.append(await watch.observed("", number))
            number += seen[-1].executed
        answers.append(asked[0])
        for each in seen:
            if not each.ended:
                raised.append(str(asked[0]))
            elif each.raised is not None:
                raised.append(f"{each.raised.type}: {each.raised.text} (on a {intent.type!r})")
        if any(each.raised is not None or not each.ended for each in seen):
            continue
        slow = max(slow, seen[0].seconds)
        if asked[0] != asked[1]:
            impure.append(f"answers {asked[0]!r:.80} and then {asked[1]!r:.80} for one transaction")
        if any(each.changed for each in seen):
            impure.append("changes its arguments")
        odd += [each.odd for each in seen if each.odd]
    reasons = [
        each.reason if isinstance(each, Hold) else each for each in answers if each is not None
    ]
    return [
        finding("does_not_raise", raised, f"{len(pairs)} transactions"),
        finding("pure", impure),
        finding("answer", [*map(_odd_answer_text, odd), *_reason_faults(answers)]),
        _cases_finding(answers, refused, allowed, held),
        finding(
            "quick",
            [f"took {slow * 1000:.0f} ms; every transaction waits for it"] if slow > SLOW_S else (),
            warns=True,
        ),
        *([errors_finding(reasons)] if tiered else []),
    ]


async def _verdict(ask: Ask, intent: Intent, effects: TransactionEffects) -> str | Hold | None:
    try:
        async with asyncio.timeout(TIME_LIMIT_S):
            return await ask(copy.deepcopy(intent), copy.deepcopy(effects))
    except TimeoutError:
        return f"no answer within {TIME_LIMIT_S:g} s (on a {intent.type!r})"


def transactions() -> Iterator[Pair]:
    """Yield usual and unusual transactions that the engine may pass to a rule."""
    fee = 5_000
    yield Intent("transfer", WALLET), TransactionEffects(0, fee)
    for lamports in (1, 10**9, 2**64 - 1):
        details = {"to": STRANGER, "amount": Decimal(lamports) / 10**9}
        yield (
            Intent(
                "transfer",
                WALLET,
                lamports_out=lamports,
                destinations=frozenset({STRANGER}),
                details=details,
            ),
            TransactionEffects(
                lamports,
                fee,
                addresses=frozenset({WALLET, STRANGER}),
                outflow=Outflow(lamports, fee, 0),
                request=Request(WALLET, agent="scout"),
            ),
        )
    yield (
        Intent("swap", WALLET, tokens_out={MINT: 10**6}, tokens_in={MINT: 1}),
        TransactionEffects(
            0, fee, rent_lamports=TOKEN_ACCOUNT_RENT, accounts_created=1, tokens_out={MINT: 10**6},
            tokens_in={MINT: 1}, programs=frozenset({MINT}), decimals={MINT: 6},
            outflow=Outflow(0, fee, TOKEN_ACCOUNT_RENT, {MINT: 10**6}),
        ),
    )  # fmt: skip
    yield Intent("airdrop", WALLET, details={"amount": Decimal(2)}), TransactionEffects(0, 0)
    yield (
        Intent("", WALLET, details={"amount": None, "to": 7, "nested": {"amount": "1e400"}}),
        TransactionEffects(
            0, fee, closed={STRANGER: WALLET}, instruction_data=(b"", b"\xff" * 1_232)
        ),
    )
    yield (
        Intent("other", WALLET, lamports_out=0, destinations=frozenset()),
        TransactionEffects(
            5, 10**6, authority_changes=(AuthorityChange("delegate", WALLET, None),),
            violations=(("authority_change", "gives the wallet away"),),
        ),
    )  # fmt: skip


def _odd_answer_text(answer: str) -> str:
    return (
        f"answers {answer}; return text to refuse, Hold with text to ask a person, or None to allow"
    )


def _reason_faults(answers: Sequence[str | Hold | None]) -> list[str]:
    trouble = []
    for answer in answers:
        if answer is None:
            continue
        reason = answer.reason if isinstance(answer, Hold) else answer
        if not reason.strip():
            what = "asks a person" if isinstance(answer, Hold) else "refuses"
            trouble.append(f"{what} without a reason")
        elif len(reason) > MAX_REASON:
            trouble.append(f"a reason has {len(reason)} characters; at most {MAX_REASON}")
    return trouble


def _cases_finding(
    answers: Sequence[str | Hold | None],
    refused: Sequence[Pair],
    allowed: Sequence[Pair],
    held: Sequence[Pair],
) -> Finding:
    trouble = [
        f"refused[{at}] is {'held' if answers[at] else 'let through'}"
        for at in range(len(refused))
        if not isinstance(answers[at], str) or not answers[at]
    ]
    for at in range(len(allowed)):
        answer = answers[len(refused) + at]
        if answer is not None:
            what = f"held: {answer.reason}" if isinstance(answer, Hold) else f"refused: {answer}"
            trouble.append(f"allowed[{at}] is {what}")
    for at in range(len(held)):
        answer = answers[len(refused) + len(allowed) + at]
        if not isinstance(answer, Hold):
            trouble.append(f"held[{at}] is {'refused' if answer else 'let through'}")
    if not trouble and not any(answers):
        return Finding("cases", Outcome.WARNING, "it refused no transaction; give `refused`")
    if not trouble and all(answers):
        return Finding("cases", Outcome.WARNING, "it refused every transaction; give `allowed`")
    return finding("cases", trouble, f"{sum(map(bool, answers))} of {len(answers)} refused")

"""Replays a policy over what is stored: read page by page, judged beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import Database
from solward.operations.policies.changes import read_policy
from solward.operations.policies.replay import (
    Change,
    CompiledPolicy,
    Kept,
    Past,
    Replay,
    Replayed,
    ReplayVerdict,
)
from solward.solana.token_list import TokenList
from solward.support.clock import iso
from solward.support.durations import DAY_MS
from solward.types.errors import InvalidRequest
from solward.types.guardrail import COSTS, Operation
from solward.vault.grants.document import GrantPolicy
from solward.vault.grants.judged import from_row
from solward.vault.grants.model import Case
from solward.vault.grants.sentences import finding_sentence, reason_sentence
from solward.vault.money.judge.grant_case import addresses, funded, recipients
from solward.vault.money.judge.principal_names import names_in
from solward.vault.store import grants
from solward.vault.store import judged as judged_store
from solward.vault.store import recipients as recipient_store
from solward.vault.store import transactions as transaction_store
from solward.vault.store.judged import JudgedRow

MAX_DAYS: Final = 366
MOST_REPLAYED: Final = 200_000
"""Most transactions of one replay; some thousand take a second."""
MOST_CHANGES: Final = 500
"""Most changes that are listed; all are counted."""


async def replay_stored(
    database: Database, tokens: TokenList, days: int, draft: GrantPolicy | None = None
) -> dict[str, Any]:
    """What a draft would have changed in the last days, as JSON; without one, the policy in force.

    Raises:
        InvalidRequest: `days` is out of range, or so much was judged in them that it would take too
            long.
    """
    if isinstance(days, bool) or not isinstance(days, int) or not 1 <= days <= MAX_DAYS:
        raise InvalidRequest(f"days must be a whole number from 1 to {MAX_DAYS}")
    async with database.read() as connection:
        policy = await read_policy(connection)
        version = await grants.version(connection)
        in_force = CompiledPolicy.of(policy.sets, policy.book)
        drafted = in_force if draft is None else CompiledPolicy.of(draft.sets, draft.book)
        from_ms = (await database.moment(connection)).database_ms - days * DAY_MS
        longest_ms = max(in_force.longest_ms, drafted.longest_ms)
        seq, count = await judged_store.first_judged(connection, from_ms - longest_ms)
    if count > MOST_REPLAYED:
        raise InvalidRequest(
            f"days must be fewer: {count} transactions were judged in them and in the longest"
            f" window before, and at most {MOST_REPLAYED} are replayed"
        )
    run = Replay(in_force, version, drafted, report_from_ms=from_ms, most=MOST_CHANGES)
    while seq:
        async with database.read() as connection:
            rows = await judged_store.judged_page(connection, seq)
            past = await _with_facts(connection, [past_of(row) for row in rows])
        await asyncio.to_thread(run.add, past)
        seq = int(rows[-1].row["seq"]) + 1 if rows else 0
    found = run.result()
    async with database.read() as connection:
        sentences = [await _sentence(connection, tokens, each) for each in found.changes]
    return _json(days, version, found, sentences)


def past_of(row: JudgedRow) -> Past:
    """A transaction as it is stored, with what the service gave back of it."""
    if row.is_done:
        return Past(from_row(row.row), Kept.NOTHING)
    kept = Kept.ALL
    if row.kept is not None and not any(row.kept[asset] for asset in row.kept if asset != COSTS):
        kept = Kept.COSTS if row.kept else Kept.NOTHING
    return Past(from_row(row.row), kept)


class _Facts(NamedTuple):
    """What is known by now of some transactions.

    Attributes:
        wallets: address of a wallet of this service -> when it was made.
        paid: wallet, address -> when it was paid first, and by which transaction.
        launched: wallet, mint.
    """

    wallets: Mapping[str, int]
    paid: Mapping[tuple[str, str], tuple[int, str]]
    launched: Collection[tuple[str, str]]

    def of(self, past: Past) -> Case:
        """The case of a transaction with what was so at its time."""
        case = past.judged.case
        at_ms = case.now_ms[0]
        own = {each for each in addresses(case.lines) if self.wallets.get(each, at_ms + 1) <= at_ms}
        lines = funded(case.lines, own)
        paid = set(case.paid)
        for each in recipients(lines):
            when, by = self.paid.get((case.wallet_id, each), (at_ms, ""))
            if when < at_ms and by != past.judged.transaction_id:
                paid.add(each)
        launched = {mint for mint in _burned(case) if (case.wallet_id, mint) in self.launched}
        return replace(
            case,
            lines=lines,
            own=case.own | own,
            paid=frozenset(paid),
            launched=case.launched | launched,
        )


async def _with_facts(connection: AsyncConnection, past: Sequence[Past]) -> list[Past]:
    cases = [each.judged.case for each in past]
    named = dict.fromkeys(address for case in cases for address in addresses(case.lines))
    burned = {(case.wallet_id, mint) for case in cases for mint in _burned(case)}
    facts = _Facts(
        await recipient_store.wallets_made(connection, named),
        await recipient_store.first_paid(
            connection,
            {(case.wallet_id, each) for case in cases for each in addresses(case.lines)},
        ),
        {
            (wallet_id, mint)
            for wallet_id, mint in burned
            if await transaction_store.launched(connection, wallet_id, [mint])
        },
    )
    return [replace(each, facts=facts.of(each)) for each in past]


def _burned(case: Case) -> set[str]:
    return {line.asset for line in case.lines if line.operation == Operation.BURN}


async def _sentence(connection: AsyncConnection, tokens: TokenList, change: Change) -> str:
    names = await names_in(connection, tokens, change.findings)
    said = change.in_force if change.now is ReplayVerdict.ALLOWED else change.now
    sentence = reason_sentence if said is ReplayVerdict.HELD else finding_sentence
    return " ".join(sentence(each, names) for each in change.findings)


def _json(days: int, version: int, found: Replayed, sentences: Iterable[str]) -> dict[str, Any]:
    return {
        "days": days,
        "version": version,
        "judged": found.judged,
        "refusedByOtherRules": found.others,
        "judgedByOlderPolicy": found.older,
        "changedSinceThen": found.older_differ,
        "changed": found.changed,
        "changes": [
            {
                "transactionId": each.judged.transaction_id,
                "walletId": each.judged.case.wallet_id,
                "timestamp": iso(each.judged.case.now_ms[0]),
                "type": each.judged.type,
                "chain": list(each.judged.case.chain),
                "then": each.then.value,
                "inForce": each.in_force.value,
                "now": each.now.value,
                "sentence": sentence,
                "olderPolicy": each.is_older,
            }
            for each, sentence in zip(found.changes, sentences, strict=True)
        ],
    }

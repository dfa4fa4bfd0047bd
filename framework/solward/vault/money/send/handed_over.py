"""Watches handed-over payments whose fee somebody else pays, until the payments end.

The fee payer's signature names such a transaction, and this service does not have that signature.
So it looks for the signature that the seller names, and in the history of the paying account. A
signature belongs to these bytes only if the fee payer made it over the same message. This service
verifies that, so neither a node nor a seller can pass off another transaction or changed bytes.

Only the ledger ends a payment. The payment has landed if a node has such a signature without an
error. It is dead if a node proves what `polling` demands. Because no signature can be asked for,
two more facts must hold at `finalized`, past the expiry: the account's whole history back to the
signing lacks the payment, and the account holds no less than the wallet's own records explain.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog
from solders.message import to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.protocol import BLOCKHASH_BLOCKS
from solward.solana.tokens import token_account
from solward.support.durations import DAY_MS
from solward.types.errors import LedgerError, LedgerRejected, LedgerUnavailable
from solward.types.guardrail import COSTS, SOL
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.protocol import (
    FINALIZED,
    MIN_CONTEXT_SLOT,
    SignatureRow,
    SignatureStatus,
    is_final,
)
from solward.vault.money.judge.blockhash import MAX_VALID_BLOCKS
from solward.vault.money.send.polling import (
    PATIENCE_BLOCKS,
    Answers,
    Fates,
    InFlight,
    Poller,
    find_fates,
)
from solward.vault.store import payments
from solward.vault.store.attempts import Settlement
from solward.vault.store.payments import PaymentRow

# The times that follow are in slots. Statuses of known signatures are read once a slot. An
# account's history is first read after this time: most sellers answer sooner and name the
# signature.
FIRST_LOOK: Final = 10
# Afterwards, an account's history is read at growing intervals, once for all of its payments.
LOOK: Final = 5
MOST_LOOK: Final = 50
# The intervals between the tries to get a proof that no node has given yet.
PROOF: Final = 10
MOST_PROOF: Final = BLOCKHASH_BLOCKS

_FIRST_PAGE: Final = 100
_PAGE: Final = 1_000
# The time limit for reading one account's history from one node. Hundreds of thousands of rows of
# spam take longer, and the payment stays open.
_HISTORY_S: Final = 60.0
# Verifying takes 65 microseconds. If more payments than this match a row, its transaction is read.
_VERIFIED_AT_ONCE: Final = 8
# The number of signatures that are verified before other tasks get a turn.
_BREATH: Final = 64
# Each look repeats this many slots of the previous look, because another node may be behind.
_SLACK_SLOTS: Final = 64
_PLAIN_MEMO: Final = re.compile(r"[A-Za-z0-9 ._:-]{1,64}")

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _ProofTimes:
    """The monotonic time of the next try to get a proof, and the slots until the try after it."""

    next_at: float = 0.0
    wait_slots: float = PROOF


@dataclass(slots=True, eq=False, kw_only=True)
class LivePayment(InFlight):
    """A sponsored payment whose end is not known yet.

    Attributes:
        payer: the fee payer.
        message: the signed message.
        memo: the memo that history rows of the payment show; None if they may show none.
        row: the stored payment.
        death: the tries to prove that the payment never landed.
        failure: the tries to prove that the transaction `found` failed. They have separate times,
            because one node's false failure would otherwise delay the proof of death for ever.
    """

    row: PaymentRow
    payer: Pubkey
    message: bytes
    memo: str | None
    context_slot: int
    looked_slot: int = 0
    look_at: float = 0.0
    look_slots: float = LOOK
    death: _ProofTimes = field(default_factory=_ProofTimes)
    failure: _ProofTimes = field(default_factory=_ProofTimes)

    def is_named_by(self, signature: str) -> bool:
        """Return whether a signature was made by the fee payer over exactly these bytes."""
        try:
            return Signature.from_string(signature).verify(self.payer, self.message)
        except ValueError:
            return False

    def may_match(self, row: SignatureRow) -> bool:
        """Return whether a row's slot and memo allow these bytes; some providers omit memos."""
        if row.slot < self.context_slot:
            return False
        return self.memo is None or row.memo is None or self.memo in row.memo


def live_payment(row: PaymentRow, item: InFlight) -> LivePayment:
    """Return the payment to watch, made from its stored row and its written-ahead bytes."""
    assert item.wire is not None and item.context_slot is not None  # noqa: PT018
    message = VersionedTransaction.from_bytes(item.wire).message
    # Rows with another memo are ignored. The seller chose the memo, and a host may show it changed
    # or cut, so only a plain memo is compared.
    memo = row.memo if row.memo is not None and _PLAIN_MEMO.fullmatch(row.memo) else None
    return LivePayment(
        transaction_id=item.transaction_id,
        signature=item.signature,
        wire=None,
        last_valid_block_height=item.last_valid_block_height,
        fee_lamports=0,
        held_lamports=item.held_lamports,
        reserved=item.reserved,
        sends=False,
        row=row,
        payer=message.account_keys[0],
        message=bytes(to_bytes_versioned(message)),
        memo=memo,
        context_slot=item.context_slot,
    )


class Watcher(Poller[LivePayment]):
    """Watches payments whose signature is not known before they have landed."""

    def watch(self, item: LivePayment, hint: str | None = None) -> None:
        """Watch a payment that may have landed already."""
        item.look_at = time.monotonic() + self._slots_s(FIRST_LOOK)
        self._apply_hint(item, hint)
        super().watch(item)

    def note_answer(self, transaction_id: str, hint: str | None) -> None:
        """Look for a payment now: the seller answered and may have named a signature."""
        item = self._open.get(transaction_id)
        if item is None:
            return
        item.look_slots = LOOK
        self._apply_hint(item, hint)
        if item.found is None:
            item.look_at = time.monotonic()
        self._wake.set()

    def _postpone_proofs(self, proofs: Iterable[_ProofTimes]) -> None:
        """Set the time of these proofs' next try, and wait longer each time."""
        now = time.monotonic()
        for proof in proofs:
            proof.next_at = now + self._slots_s(proof.wait_slots)
            proof.wait_slots = min(proof.wait_slots * 1.5, MOST_PROOF)

    @staticmethod
    def _apply_hint(item: LivePayment, hint: str | None) -> None:
        if hint is None or item.found is not None:
            return
        if item.is_named_by(hint):
            item.found = hint
        else:
            _log.warning("payment_hint_is_not_its_own", transaction_id=item.transaction_id)

    async def _round(self) -> float:
        named = [item for item in self._open.values() if item.found is not None]
        if named:
            # These payments' signatures are verified, so a status is enough.
            statuses = await self._ledger.statuses([item.name for item in named])
            found = zip(named, statuses, strict=True)
            await self._settle_found(
                [(i, s) for i, s in found if s is not None and is_final(s.confirmation)]
            )
        now = time.monotonic()
        due = [item for item in self._open.values() if item.look_at <= now]
        if due:
            # The next look is set first, so that a failure does not repeat this look at once.
            for item in due:
                item.look_at = now + self._slots_s(item.look_slots)
                item.look_slots = min(item.look_slots * 1.6, MOST_LOOK)
            sources = {item.row.source for item in due if item.found is None}
            looked = await asyncio.gather(
                *(self._search_history(source) for source in sources), return_exceptions=True
            )
            await self._end_expired()
            for each in looked:
                if isinstance(each, BaseException):
                    raise each
        if any(item.found is not None for item in self._open.values()):
            return self._slots_s(1)
        waits = [item.look_at - time.monotonic() for item in self._open.values()]
        return max(min(waits, default=0.0), self._slots_s(1) / 8)

    async def _settle_found(
        self, found: Sequence[tuple[LivePayment, SignatureStatus | SignatureRow]]
    ) -> None:
        """Settle landed payments now, and failed payments once enough nodes report the failure."""
        landed, failed = [], []
        for item, seen in found:
            if seen.err is None:
                item.landed_slot = seen.slot
                landed.append(item)
            else:
                failed.append(item)
        await self._settle_landed(landed)
        await self._end_failed(failed)

    async def _search_history(self, source: str) -> None:
        """Look for an account's payments in its newest history, usually with one call."""
        items = [i for i in self._open.values() if i.row.source == source and i.found is None]
        if not items:
            return
        oldest = min(max(i.context_slot, i.looked_slot - _SLACK_SLOTS) for i in items)
        newest, before, limit = 0, None, _FIRST_PAGE
        found: list[tuple[LivePayment, SignatureRow]] = []
        while True:
            page = await self._ledger.signatures_for(source, before=before, limit=limit)
            newest = max([newest, *(row.slot for row in page)])
            rows = [row for row in page if row.confirmation is None or is_final(row.confirmation)]
            for item, row in await _match_rows(self._ledger, rows, items, finalized=False):
                item.found = row.signature
                found.append((item, row))
            if len(page) < limit or page[-1].slot < oldest or page[-1].signature == before:
                break
            before, limit = page[-1].signature, _PAGE
        for item in items:
            item.looked_slot = max(item.looked_slot, newest)
        await self._settle_found(found)

    async def _end_failed(self, items: Sequence[LivePayment]) -> None:
        """Ask every node about payments that one node calls failed, as a failure frees money."""
        items = [item for item in items if item.failure.next_at <= time.monotonic()]
        if not items:
            return
        self._postpone_proofs(item.failure for item in items)
        fates = await find_fates(self._ledger, items)
        # A missing signature proves nothing, because the same key can sign the same bytes with
        # another signature.
        ended = {name: fate for name, fate in fates.ended.items() if fate.status is not None}
        await self._settle_fates(items, Fates(ended, frozenset()))

    async def _end_expired(self) -> None:
        """Prove that expired payments never landed, or find that they landed."""
        now = time.monotonic()
        items = [item for item in self._open.values() if item.death.next_at <= now]
        if not items:
            return
        height = await self._ledger.block_height()
        items = [item for item in items if height > item.last_valid_block_height]
        if not items:
            return
        self._postpone_proofs(item.death for item in items)
        await self._settle_fates(items, await find_fates(self._ledger, items, self._ask_node))

    async def _ask_node(
        self, node: Ledger, items: Sequence[LivePayment], answers: Mapping[str, Answers]
    ) -> None:
        """Add one node's answers about payments that have expired by another node's height."""
        tip = await node.tip(finalized=True)
        expired = [i for i in items if tip.block_height > i.last_valid_block_height]
        for item in expired:
            late = tip.block_height > item.last_valid_block_height + PATIENCE_BLOCKS
            answers[item.signature].late |= late
        if not expired:
            return
        try:
            absent = await self._find_absent(node, expired, tip.slot, answers)
            if not absent:
                return
            # The first slot is read last, because a node drops its oldest blocks meanwhile.
            first_slot = await node.first_slot()
            short = await self._find_short(node, absent, tip.slot)
        except LedgerRejected as error:
            if error.code == MIN_CONTEXT_SLOT:
                raise LedgerUnavailable(str(error)) from None
            for item in expired:
                answers[item.signature].unknown = True
            return
        for item in absent:
            each = answers[item.signature]
            if first_slot > item.context_slot or item.transaction_id in short:
                each.unknown = True
            else:
                each.dead_by.add(node.origin)

    async def _find_absent(
        self, node: Ledger, items: Sequence[LivePayment], slot: int, answers: Mapping[str, Answers]
    ) -> list[LivePayment]:
        """Return the payments that are not in their account's finalized history, and add to
        `answers` how the other payments landed. If a node does not return an account's history,
        only that account's payments wait."""
        absent: list[LivePayment] = []
        for source in {item.row.source for item in items}:
            group = [item for item in items if item.row.source == source]
            found: dict[str, SignatureRow] = {}
            try:
                async with asyncio.timeout(_HISTORY_S):
                    async for rows in _history_pages(node, source, group, slot):
                        left = [i for i in group if i.transaction_id not in found]
                        for item, row in await _match_rows(node, rows, left, finalized=True):
                            found[item.transaction_id] = row
            except (TimeoutError, LedgerError) as error:
                if isinstance(error, LedgerRejected):
                    if error.code == MIN_CONTEXT_SLOT:
                        raise
                    for item in group:
                        answers[item.signature].unknown = True
                _log.warning("history_not_read", account=source, error=str(error) or "too long")
                continue
            for item in group:
                each, row_of = answers[item.signature], found.get(item.transaction_id)
                if row_of is None:
                    absent.append(item)
                    continue
                item.found = row_of.signature
                status = SignatureStatus(row_of.slot, row_of.err, FINALIZED)
                if row_of.err is None:
                    each.landed = status
                else:
                    each.failed = status
                    each.failed_by.add(node.origin)
        return absent

    async def _find_short(self, node: Ledger, items: Sequence[LivePayment], slot: int) -> set[str]:
        """Return the payments whose account holds fewer units than if none of `items` landed."""
        sources = sorted({item.row.source for item in items})
        _slot, states = await node.accounts_at(sources, min_slot=slot, finalized=True)
        dead = [item.transaction_id for item in items]
        short: set[str] = set()
        for item in items:
            state = states[item.row.source]
            token = None if item.row.asset == SOL else token_account(state)
            if item.row.asset == SOL:
                held = 0 if state is None else state.lamports
            else:
                held = 0 if token is None else token.amount
            if held >= item.row.source_units:
                continue
            # Reservations count wrapped SOL that leaves as SOL.
            native = item.row.asset in (SOL, WRAPPED_SOL_MINT)
            assets = (item.row.asset, SOL, COSTS) if native else (item.row.asset,)
            async with self._database.read() as connection:
                taken = await payments.taken_since(
                    connection,
                    item.row.wallet_id,
                    assets,
                    # No higher than the height of the assessment, though nodes may differ.
                    item.last_valid_block_height - 2 * MAX_VALID_BLOCKS,
                    item.row.created_ms - 2 * DAY_MS,
                    dead,
                )
            if held < item.row.source_units - taken:
                short.add(item.transaction_id)
                _log.error(
                    "payment_account_is_short",
                    transaction_id=item.transaction_id,
                    account=item.row.source,
                    units=held,
                    explained=item.row.source_units - taken,
                )
        return short

    async def _settle(self, settlements: Sequence[Settlement]) -> None:
        await self._apart.run(settlements, super()._settle)


async def _history_pages(
    node: Ledger, source: str, items: Sequence[LivePayment], slot: int
) -> AsyncIterator[list[SignatureRow]]:
    """Yield pages of an account's finalized history, from a node that has reached `slot`, back to
    the slot at which the first of `items` was signed."""
    oldest = min(item.context_slot for item in items)
    before: str | None = None
    last: SignatureRow | None = None
    while True:
        page = await node.signatures_for(
            source, before=before, limit=_PAGE, finalized=True, min_slot=slot
        )
        if last is None:
            yield page
        elif page and page[0].signature == last.signature and page[-1].slot <= last.slot:
            yield page[1:]
        else:
            raise LedgerUnavailable(f"The ledger's history of {source} has a gap between two pages")
        if len(page) < 2 or page[-1].slot < oldest:
            return
        # The next page begins after the last row but one, so that the last row is repeated. An
        # empty or short page is not the end of the history: Agave gives an empty page if it lacks
        # `before`, as another node at the same address may, and some hosts give fewer rows.
        before, last = page[-2].signature, page[-1]


async def _match_rows(
    node: Ledger, rows: Sequence[SignatureRow], items: Sequence[LivePayment], *, finalized: bool
) -> list[tuple[LivePayment, SignatureRow]]:
    """Return each payment whose verified signature is in a history row, with the row."""
    found: list[tuple[LivePayment, SignatureRow]] = []
    left = list(items)
    verified = 0
    for row in rows:
        candidates = [item for item in left if item.may_match(row)]
        if len(candidates) > _VERIFIED_AT_ONCE:
            wire = await node.transaction_wire(row.signature, finalized=finalized)
            if wire is None:
                raise LedgerUnavailable(f"The ledger did not return transaction {row.signature}")
            message = _message_of(wire)
            candidates = [item for item in candidates if item.message == message]
        for item in candidates:
            verified += 1
            if verified % _BREATH == 0:
                await asyncio.sleep(0)
            if item.is_named_by(row.signature):
                found.append((item, row))
                left.remove(item)
                break
    return found


def _message_of(wire: bytes) -> bytes | None:
    try:
        return bytes(to_bytes_versioned(VersionedTransaction.from_bytes(wire).message))
    except ValueError:
        return None

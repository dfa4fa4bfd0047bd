"""The fate of transactions that the node in use calls expired or failed.

A transaction is dead only where a single node proves it: its block height is past the last valid
one; *afterwards*, at a slot no earlier, its whole history has no status; and that history reaches
back to when the bytes were signed. Answers of different nodes are never combined to one proof: a
node that lags has not seen yet what another one's height says is over.

Who has it without an error is believed. That it is dead or failed frees money, so that takes as
many hosts as `trust` says. Where fewer are configured, or the others do not say in time, the
record ends by the word there is and its money stays counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from solward.types.errors import LedgerError, LedgerRejected
from solward.vault.ledger.protocol import Ledger, SignatureStatus
from solward.vault.ledger.trust import is_enough

# About two minutes past the expiry, in which a second host may come back and say what it has. In
# blocks, because the wall clock decides nothing here.
PATIENCE_BLOCKS: Final = 300


class Open(Protocol):
    """A transaction as it was signed; `context_slot` None where its slot is not known."""

    @property
    def signature(self) -> str: ...
    @property
    def last_valid_block_height(self) -> int: ...
    @property
    def context_slot(self) -> int | None: ...


class Fate(NamedTuple):
    """How a transaction ended.

    Attributes:
        status: None where it is dead.
        sure: whether the word is enough to give money back (`solward.vault.ledger.trust`).
    """

    status: SignatureStatus | None
    sure: bool


@dataclass(frozen=True, slots=True)
class Fates:
    """By signature: how it ended, and what no node can decide. A signature in neither may still
    land, waits for another host's word, or no node answered for it."""

    ended: Mapping[str, Fate]
    unknown: frozenset[str]


@dataclass(slots=True)
class Answers:
    """What the nodes say of one transaction."""

    landed: SignatureStatus | None = None
    failed: SignatureStatus | None = None
    failed_by: set[str] = field(default_factory=set)
    dead_by: set[str] = field(default_factory=set)
    unknown: bool = False
    late: bool = False


async def find_fates(ledger: Ledger, items: Sequence[Open]) -> Fates:
    """Query every usable node: one node's status outweighs another's lack of one.

    Raises:
        LedgerError: no node answered.
    """
    answers = {item.signature: Answers() for item in items}
    unanswered: LedgerError | None = None
    answered = False
    for node in ledger.nodes():
        open_items = [item for item in items if answers[item.signature].landed is None]
        try:
            await _query(node, open_items, answers)
        except LedgerError as error:
            unanswered = error
            continue
        answered = True
    if not answered and unanswered is not None:
        raise unanswered
    alone = not is_enough(ledger.origins())
    ended = {
        signature: fate for signature, each in answers.items() if (fate := conclude(each, alone))
    }
    unknown = {
        signature
        for signature, each in answers.items()
        if each.unknown and not each.dead_by and signature not in ended
    }
    return Fates(ended, frozenset(unknown))


def conclude(answers: Answers, alone: bool) -> Fate | None:
    """What to conclude; None where it may still land, or another host is waited for.

    Args:
        alone: whether no more hosts are configured than one, whose word gives no money back.
    """
    if answers.landed is not None:
        return Fate(answers.landed, sure=True)
    # A node that has it, failed or not, counts more than one that has it not.
    witnesses = answers.failed_by or answers.dead_by
    sure = is_enough(witnesses)
    if not witnesses or not (sure or alone or answers.late):
        return None
    return Fate(answers.failed, sure)


async def _query(node: Ledger, items: Sequence[Open], answers: Mapping[str, Answers]) -> None:
    # An item that has expired by this node, not by another one.
    expired = {item.signature for item in items}
    try:
        tip = await node.tip()
        height = tip.block_height
        expired = {item.signature for item in items if height > item.last_valid_block_height}
        signatures = [item.signature for item in items]
        found = await node.statuses(signatures, search_history=True, min_slot=tip.slot)
        missing = any(
            status is None and item.signature in expired
            for item, status in zip(items, found, strict=True)
        )
        # Last, because a node drops its oldest blocks as it goes on.
        first_slot = await node.first_slot() if missing else 0
    except LedgerRejected:
        for signature in expired:
            answers[signature].unknown = True
        return
    for item, status in zip(items, found, strict=True):
        each = answers[item.signature]
        each.late |= height > item.last_valid_block_height + PATIENCE_BLOCKS
        if status is not None:
            _note(each, status, node.origin)
        elif item.signature in expired:
            if item.context_slot is None or first_slot <= item.context_slot:
                each.dead_by.add(node.origin)
            else:
                each.unknown = True


def _note(answers: Answers, status: SignatureStatus, origin: str) -> None:
    if status.confirmation not in ("confirmed", "finalized"):
        return
    if status.err is None:
        answers.landed = status
    else:
        answers.failed = status
        answers.failed_by.add(origin)

"""The fate of transactions whose last valid block height has passed.

A transaction is dead only where a single node proves it: its block height is past the last valid
one; *afterwards*, at a slot no earlier, its whole history has no status; and that history reaches
back to when the bytes were signed. Answers of different nodes are never combined: a node that lags
has not seen yet what another one's height says is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from solward.errors import LedgerError, LedgerRejected
from solward.vault.ledger.protocol import Ledger, SignatureStatus


class Expired(Protocol):
    """A transaction as it was signed; `context_slot` None where its slot is not known."""

    @property
    def signature(self) -> str: ...
    @property
    def last_valid_block_height(self) -> int: ...
    @property
    def context_slot(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Fates:
    """By signature: what landed, what never can any more, and what no node can decide. A signature
    in none of them has not expired yet, or no node answered for it."""

    landed: Mapping[str, SignatureStatus]
    dead: frozenset[str]
    unknown: frozenset[str]


async def find_fates(ledger: Ledger, items: Sequence[Expired]) -> Fates:
    """Query every usable node: one node's status outweighs another's lack of one.

    Raises:
        LedgerError: no node answered.
    """
    landed: dict[str, SignatureStatus] = {}
    dead: set[str] = set()
    unknown: set[str] = set()
    unanswered: LedgerError | None = None
    answered = False
    for node in ledger.nodes():
        open_items = [item for item in items if item.signature not in landed]
        try:
            fates = await _fates_of_node(node, open_items)
        except LedgerError as error:
            unanswered = error
            continue
        answered = True
        landed |= fates.landed
        dead |= fates.dead
        unknown |= fates.unknown
    if not answered and unanswered is not None:
        raise unanswered
    dead -= landed.keys()
    return Fates(landed, frozenset(dead), frozenset(unknown - dead - landed.keys()))


async def _fates_of_node(node: Ledger, items: Sequence[Expired]) -> Fates:
    expired = list(items)
    try:
        tip = await node.tip()
        expired = [item for item in items if tip.block_height > item.last_valid_block_height]
        signatures = [item.signature for item in expired]
        found = await node.statuses(signatures, search_history=True, min_slot=tip.slot)
        # Last, because a node drops its oldest blocks as it goes on.
        first_slot = await node.first_slot()
    except LedgerRejected:
        return Fates({}, frozenset(), frozenset(item.signature for item in expired))
    landed: dict[str, SignatureStatus] = {}
    dead: set[str] = set()
    unknown: set[str] = set()
    for item, status in zip(expired, found, strict=True):
        if status is None:
            known = item.context_slot is None or first_slot <= item.context_slot
            (dead if known else unknown).add(item.signature)
        elif status.confirmation in ("confirmed", "finalized"):
            landed[item.signature] = status
    return Fates(landed, frozenset(dead), frozenset(unknown))

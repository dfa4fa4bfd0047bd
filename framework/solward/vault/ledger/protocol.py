"""What a Solana cluster answers, in Solward's own types; and which commitment is asked for, and
what is final: no other module compares the words.

Addresses, signatures and blockhashes are base58 text.

Where Alpenglow runs, a block is final some 150 ms after it, `confirmed` reports the same block as
`finalized`, and the word is to go. Before, `finalized` is some thirty slots behind `confirmed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from solward.types.errors import LedgerRejected
from solward.types.ledger import Account

# The JSON-RPC code of a node that has not reached the `minContextSlot` asked for
# (agave rpc-client-api/src/custom_error.rs).
MIN_CONTEXT_SLOT: Final = -32016
CONFIRMED: Final = "confirmed"
FINALIZED: Final = "finalized"
# JSON-RPC 2.0: invalid parameters.
_INVALID: Final = -32602


@dataclass(frozen=True, slots=True)
class Blockhash:
    """A recent blockhash and the last block height at which it is valid.

    Attributes:
        context_slot: of the node that gave it.
        others_slots: of the other nodes then, those that answered.
    """

    blockhash: str
    last_valid_block_height: int
    context_slot: int
    others_slots: tuple[int, ...] = ()

    @property
    def earliest_landing_slot(self) -> int:
        """The first slot in which bytes that are signed now can land: the lower median of the
        nodes' slots.

        Of two slots it is the lower. Of more, no single node can make it later than an honest
        node's, which would hide what landed, or so early that no history reaches back to it.
        """
        slots = sorted((self.context_slot, *self.others_slots))
        return slots[(len(slots) - 1) // 2]


@dataclass(frozen=True, slots=True)
class Tip:
    """A node's newest block: slot and block height."""

    slot: int
    block_height: int


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """What `simulateTransaction` answered.

    Attributes:
        err: the error in the RPC's JSON shape, None when it would succeed.
        accounts: post-state of each requested address; None where the account would not exist.
        inner_instructions: the RPC's JSON, None when the node gave none.
        loaded_bytes: of all accounts that it loaded; None where the node does not say.
    """

    err: Any
    logs: tuple[str, ...]
    accounts: Mapping[str, Account | None]
    inner_instructions: Any
    units_consumed: int | None
    slot: int
    loaded_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class SignatureStatus:
    """What is known of a signature: slot, error in the RPC's JSON shape, commitment reached."""

    slot: int
    err: Any
    confirmation: str | None


@dataclass(frozen=True, slots=True)
class SignatureRow:
    """A transaction in the history of an address.

    Attributes:
        signature: base58, of its fee payer.
        err: the error in the RPC's JSON shape, None where it succeeded.
        memo: of all its memos, each as `[bytes] text`; None where the node shows none.
        confirmation: the commitment reached; None where the node does not say.
    """

    signature: str
    slot: int
    err: Any
    memo: str | None
    confirmation: str | None


def is_final(status: str | None) -> bool:
    """Whether a transaction of this `confirmationStatus` stays on the ledger."""
    return status in (CONFIRMED, FINALIZED)


def has_certificate(answer: Any) -> bool:
    """Whether an answer to `getAgGenesisCert` is Alpenglow's certificate; null before it."""
    return isinstance(answer, dict) and bool(answer)


def refuses_confirmed(error: LedgerRejected) -> bool:
    """Whether a node does not know the word `confirmed` any more."""
    return error.code == _INVALID and CONFIRMED in str(error)


def in_word(params: Sequence[Any], word: str) -> tuple[Any, ...]:
    """Parameters of a call, with `word` in place of `confirmed`."""
    return tuple(
        each | {"commitment": word}
        if isinstance(each, dict) and each.get("commitment") == CONFIRMED
        else each
        for each in params
    )

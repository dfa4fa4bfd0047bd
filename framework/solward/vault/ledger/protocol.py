"""What a Solana cluster answers, in Solward's own types.

Addresses, signatures and blockhashes are base58 text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from solward.types.ledger import Account

# The JSON-RPC code of a node that has not reached the `minContextSlot` asked for
# (agave rpc-client-api/src/custom_error.rs).
MIN_CONTEXT_SLOT: Final = -32016


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

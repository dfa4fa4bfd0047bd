"""The narrow ledger protocol: all that Solward needs of a Solana cluster, in its own types.

Addresses, signatures and blockhashes are base58 text; amounts are lamports or token units.
Every method may raise `LedgerUnavailable` (no answer: nothing is known) or `LedgerRejected`
(a JSON-RPC error object).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from solward.types.ledger import Account, ReadLedger

# The JSON-RPC code of a node that has not reached the `minContextSlot` asked for
# (agave rpc-client-api/src/custom_error.rs).
MIN_CONTEXT_SLOT: Final = -32016


T = TypeVar("T")


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


class Ledger(ReadLedger, Protocol):
    """Reading and sending; for the transaction engine alone."""

    @property
    def slot_s(self) -> float:
        """Seconds that a slot takes, as measured (`solward.vault.ledger.slot_time`)."""

    async def look(self) -> None:
        """Ask the nodes for the pace of slots and for the consensus, unless that was done lately.
        Never raises for the ledger."""

    async def genesis_hash(self) -> str:
        """The cluster's genesis hash."""

    async def block_height(self) -> int:
        """The current block height at `confirmed` (`solward.vault.ledger.finality`)."""

    async def tip(self, *, finalized: bool = False) -> Tip:
        """The newest block at `confirmed`, or at `finalized`."""

    async def first_slot(self) -> int:
        """The first slot in the node's history; of older ones it knows nothing."""

    @property
    def origin(self) -> str:
        """Whose word an answer of one of `nodes()` is; see `solward.vault.ledger.trust`."""

    def origins(self) -> frozenset[str]:
        """The origins of every node that is configured, those that rest included."""

    def nodes(self) -> Sequence[Ledger]:
        """A ledger for each usable node, the one to ask first; none switches to another node.

        For conclusions that need two answers of one node.
        """

    def beside(self, node: Ledger) -> Sequence[Ledger]:
        """The usable nodes other than `node`, which is one of `nodes()`."""

    async def on_one_node(self, work: Callable[[Ledger], Awaitable[T]]) -> T:
        """What `work` gives on one of `nodes()`, the next where that does not answer or has not
        reached a `min_slot`; where none answers, again within the caller's deadline."""

    @property
    def newest_landed_slot(self) -> int:
        """The newest slot in which a node told this process that a transaction landed, 0 for none.
        A node that has not reached it shows the wallets as they were before."""

    @property
    def changes(self) -> int:
        """How many changes of the ledger this process knows of: a node said that a transaction
        landed; on the embedded ledger, whatever changed an account."""

    async def latest_blockhash(self) -> Blockhash:
        """A blockhash at `confirmed`."""

    async def prioritization_fees(self, addresses: Sequence[str]) -> list[int]:
        """For each of the last slots the node has, oldest first, the least price in micro-lamports
        a compute unit at which a transaction that writes `addresses` (at most 128) landed."""

    async def account_from(self, address: str, min_slot: int) -> Account | None:
        """An account's state at `min_slot` or later.

        Raises:
            LedgerUnavailable: no node has reached it, though it was waited for.
        """

    async def accounts_at(
        self, addresses: Sequence[str], *, min_slot: int = 0, finalized: bool = False
    ) -> tuple[int, dict[str, Account | None]]:
        """As `accounts`, with the slot they were read at, the earliest where it took several calls.

        Args:
            finalized: as they are at `finalized`; with a `min_slot`.

        Raises:
            LedgerRejected: with `MIN_CONTEXT_SLOT`, no node has reached `min_slot`.
        """

    async def simulate(
        self, wire: bytes, addresses: Sequence[str], *, min_slot: int = 0
    ) -> SimulationResult:
        """Run a transaction without signature checks; report the state of `addresses` after it.

        Raises:
            LedgerRejected: with `MIN_CONTEXT_SLOT`, no node has reached `min_slot`.
        """

    async def send(self, wire: bytes) -> str:
        """Hand bytes to the cluster without its own retries; returns the signature.

        An error here is never the transaction's fate: only statuses are.
        """

    async def statuses(
        self, signatures: Sequence[str], *, search_history: bool = False, min_slot: int = 0
    ) -> list[SignatureStatus | None]:
        """Statuses of signatures, in as many calls of 256 as it takes, None where unknown.

        A node that has not reached `min_slot` counts as no answer: it may not know them yet.
        """

    async def signatures_for(
        self,
        address: str,
        *,
        before: str | None = None,
        limit: int = 1_000,
        finalized: bool = False,
        min_slot: int = 0,
    ) -> list[SignatureRow]:
        """Transactions that mention an address, the newest first; at `confirmed` or `finalized`.

        Args:
            before: only older ones than this.
            limit: at most as many, at most 1,000.

        Raises:
            LedgerRejected: with `MIN_CONTEXT_SLOT`, no node has reached `min_slot`.
        """

    async def transaction_wire(self, signature: str, *, finalized: bool = False) -> bytes | None:
        """The bytes of a landed transaction, None when unknown."""

    async def transaction(self, signature: str) -> dict[str, Any] | None:
        """A landed transaction with its meta in the RPC's JSON shape, None when unknown."""

    async def request_airdrop(self, address: str, lamports: int) -> str:
        """Request SOL of the cluster's faucet; returns the faucet transaction's signature."""

    async def close(self) -> None:
        """Release connections."""

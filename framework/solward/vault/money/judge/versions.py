"""Which version of transactions swaps are built in, as TRANSACTION_VERSION says.

In one of version 1 every account stands in the bytes (SIMD-0385), so that no node's word on a
lookup table is needed. Whether the cluster takes it is asked of each node by a simulation: a node
says of no version of its software, and of no feature's address, what it would do with the bytes.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final, Literal, TypeAlias

import structlog
from solders.hash import Hash
from solders.instruction import Instruction
from solders.message import MessageV1, TransactionConfig
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction
from spl.memo.constants import MEMO_PROGRAM_ID

from solward.solana.protocol import MAX_COMPUTE_UNITS, MAX_LOADED_BYTES
from solward.types.errors import LedgerError, LedgerRejected, LedgerUnavailable
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.protocol import MIN_CONTEXT_SLOT

TransactionVersion: TypeAlias = Literal["auto", 0, 1]
"""`auto`: 1 where the cluster takes it, 0 elsewhere."""

# A cluster begins to take a version at an epoch's start, and no swap needs it at once.
REMEMBERED_S: Final = 600.0
# Where no node answered, or not to the question.
_UNKNOWN_S: Final = 30.0
# A swap waits no longer than this for the answer.
_ANSWER_S: Final = 2.0

# JSON-RPC's "invalid params": how a node refuses bytes that it cannot read.
_INVALID_PARAMS: Final = -32602
_UNSUPPORTED: Final = "UnsupportedVersion"
# What a simulation says once it has read the version: that the payer has too little.
_UNFUNDED: Final = frozenset({"AccountNotFound", "InsufficientFundsForFee"})
# What it may say before it.
_STALE: Final = frozenset({"BlockhashNotFound", "AlreadyProcessed"})

_log = structlog.get_logger(__name__)


class VersionRefused(LedgerUnavailable):
    """A node refuses a transaction of version 1."""


def refuses(answer: LedgerRejected | object) -> bool:
    """Whether a node refuses version 1 by this error, of a simulation's result or in its place."""
    if isinstance(answer, LedgerRejected):
        return answer.code == _INVALID_PARAMS
    return answer == _UNSUPPORTED


class Versions:
    """Finds the version that swaps are built in."""

    def __init__(self, ledger: Ledger, setting: TransactionVersion = "auto") -> None:
        self._ledger = ledger
        self._setting = setting
        self._known: bool | None = None
        self._until = float("-inf")
        self._asking = asyncio.Lock()

    @property
    def may_fall_back(self) -> bool:
        """Whether what does not go in version 1 may go in version 0."""
        return self._setting != 1

    async def of_swaps(self, payer: str) -> int:
        """The version to build a swap in; never raises for the ledger.

        Args:
            payer: of the transaction that is simulated to find out, and not sent.
        """
        if self._setting != "auto":
            return self._setting
        async with self._asking:
            if time.monotonic() >= self._until:
                found = await self.ask(payer)
                self._note(found, REMEMBERED_S if found is not None else _UNKNOWN_S)
        return 1 if self._known else 0

    def refused(self) -> None:
        """Note that a node refused version 1 after all."""
        self._note(False, REMEMBERED_S)

    def _note(self, found: bool | None, for_s: float) -> None:
        if found is not None and found != self._known:
            _log.info("transaction_version_found", version=int(found), remembered_s=for_s)
        self._known, self._until = found, time.monotonic() + for_s

    async def ask(self, payer: str) -> bool | None:
        """Whether every node that answers takes version 1; None where none says. Asks the nodes
        each time."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                latest = await self._ledger.latest_blockhash()
        except (LedgerError, TimeoutError):
            return None
        wire = _probe(payer, latest.blockhash)
        found = await asyncio.gather(*(_takes(node, wire) for node in self._ledger.nodes()))
        said = [each for each in found if each is not None]
        return all(said) if said else None


async def _takes(node: Ledger, wire: bytes) -> bool | None:
    """Whether a node would run the bytes; None where it does not say."""
    try:
        async with asyncio.timeout(_ANSWER_S):
            err = (await node.simulate(wire, ())).err
    except LedgerRejected as error:
        return None if error.code == MIN_CONTEXT_SLOT else False
    except (LedgerError, TimeoutError):
        return None
    if isinstance(err, str) and err in _STALE:
        return None
    return err is None or (isinstance(err, str) and err in _UNFUNDED)


def _probe(payer: str, blockhash: str) -> bytes:
    """A transaction of version 1 that does nothing."""
    message = MessageV1.try_compile(
        Pubkey.from_string(payer),
        [Instruction(MEMO_PROGRAM_ID, b"", [])],
        Hash.from_string(blockhash),
        TransactionConfig(
            compute_unit_limit=MAX_COMPUTE_UNITS,
            loaded_accounts_data_size_limit=MAX_LOADED_BYTES,
        ),
    )
    return bytes(VersionedTransaction.populate(message, [Signature.default()]))

"""The localnet's clock: slots, the blockhash of each, and epochs.

A slot passes every `slot_ms` milliseconds of the ledger's time and none is skipped, so the block
height is the slot. Time passes while the ledger is closed, as it does for a cluster that one is not
connected to: after a long stop, blockhashes have expired and epochs have passed. The ledger's time
never goes back, whatever the machine's clock does: what the clock lost is kept as `skew_ms`.
"""

import hashlib
from dataclasses import dataclass, field

MAX_BLOCKHASH_AGE = 150
"""Slots a blockhash may be used for: Agave's `MAX_PROCESSING_AGE`."""

SLOT_HASHES = 512
"""Entries of the SlotHashes sysvar."""


@dataclass(frozen=True, slots=True)
class ChainState:
    """What of the clock is persisted.

    `time_ms` is the ledger's time at the start of `slot`; the ledger's time is the machine's clock
    plus `skew_ms`. `ceiling` is the highest slot that may have been answered to anybody.
    """

    slot: int
    time_ms: int
    skew_ms: int
    ceiling: int


@dataclass(slots=True)
class Chain:
    """Slots, blockhashes and epochs of one ledger. All times are milliseconds."""

    seed: bytes
    slots_per_epoch: int
    slot_ms: int
    slot: int
    time_ms: int
    skew_ms: int
    _last_clock_ms: int
    _recent: dict[bytes, int] = field(default_factory=dict)

    @classmethod
    def resume(
        cls, state: ChainState, *, seed: bytes, slots_per_epoch: int, slot_ms: int, now_ms: int
    ) -> "Chain":
        """The chain as it is at `now_ms`, never before what an earlier process answered."""
        skew_ms = max(state.skew_ms, state.time_ms - now_ms)
        chain = cls(seed, slots_per_epoch, slot_ms, state.slot, state.time_ms, skew_ms, now_ms)
        chain._remember(max(0, state.slot - MAX_BLOCKHASH_AGE))
        chain.advance(now_ms)
        chain.skip(max(0, state.ceiling - chain.slot))
        return chain

    def advance(self, now_ms: int) -> bool:
        """Let the slots pass that the clock says have passed. True when any has."""
        if now_ms < self._last_clock_ms:
            self.skew_ms += self._last_clock_ms - now_ms
        self._last_clock_ms = now_ms
        passed = (now_ms + self.skew_ms - self.time_ms) // self.slot_ms
        if passed <= 0:
            return False
        self._pass(passed)
        return True

    def skip(self, slots: int) -> None:
        """Let `slots` pass at once, and their time with them."""
        if slots > 0:
            self.skew_ms += slots * self.slot_ms
            self._pass(slots)

    def _pass(self, slots: int) -> None:
        before = self.slot
        self.slot += slots
        self.time_ms += slots * self.slot_ms
        oldest = max(0, self.slot - MAX_BLOCKHASH_AGE)
        self._recent = {key: slot for key, slot in self._recent.items() if slot >= oldest}
        self._remember(max(oldest, before + 1))

    def _remember(self, first: int) -> None:
        for slot in range(first, self.slot + 1):
            self._recent[self.blockhash(slot)] = slot

    def blockhash(self, slot: int | None = None) -> bytes:
        """The 32 bytes of the blockhash of `slot`, of the current slot for None."""
        number = self.slot if slot is None else slot
        return hashlib.sha256(self.seed + b"blockhash" + number.to_bytes(8, "little")).digest()

    def blockhash_slot(self, blockhash: bytes) -> int | None:
        """The slot of a blockhash that may still be used, or None for any other."""
        return self._recent.get(blockhash)

    def last_valid_block_height(self) -> int:
        """The last block height at which the current blockhash may be used."""
        return self.slot + MAX_BLOCKHASH_AGE

    def slot_hashes(self) -> list[tuple[int, bytes]]:
        """Newest first, for the SlotHashes sysvar; the current slot is included."""
        oldest = max(0, self.slot - SLOT_HASHES + 1)
        return [(slot, self._slot_hash(slot)) for slot in range(self.slot, oldest - 1, -1)]

    def _slot_hash(self, slot: int) -> bytes:
        return hashlib.sha256(self.seed + b"bank" + slot.to_bytes(8, "little")).digest()

    @property
    def epoch(self) -> int:
        return self.slot // self.slots_per_epoch

    @property
    def unix_timestamp(self) -> int:
        """Seconds since the Unix epoch at the start of the current slot."""
        return self.time_ms // 1000

    def block_time(self, slot: int) -> int:
        """Seconds since the Unix epoch at the start of `slot`, counted back from the current."""
        return (self.time_ms - (self.slot - slot) * self.slot_ms) // 1000

    def state(self, ceiling: int) -> ChainState:
        """What to persist; `ceiling` is the highest slot answered before the next time."""
        return ChainState(self.slot, self.time_ms, self.skew_ms, ceiling)

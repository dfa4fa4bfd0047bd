"""What the protocol fixes, in numbers. Only the standard library is imported, so that settings,
command line, dashboard and plugin hosts may use it as it is."""

from __future__ import annotations

from typing import Final

LAMPORTS_PER_SIGNATURE: Final = 5_000
DEFAULT_MAX_NETWORK_FEE: Final = 1_000_000
"""Lamports that one transaction may pay the network where no setting says otherwise."""
MAX_WIRE_BYTES: Final = 1_232
"""Of a legacy transaction or one of version 0: one packet."""
MAX_V1_WIRE_BYTES: Final = 4_096
"""Of a transaction of version 1 (SIMD-0385), so of any."""
MAX_V1_ADDRESSES: Final = 64
"""That a transaction of version 1 may name."""
MAX_V1_INSTRUCTIONS: Final = 64
"""Of a transaction of version 1."""
MAX_COMPUTE_UNITS: Final = 1_400_000
"""Of one transaction."""
MAX_LOADED_BYTES: Final = 64 << 20
"""Of the accounts that one transaction may load."""
BLOCKHASH_BLOCKS: Final = 150
"""Blocks for which bytes on a blockhash can land (Agave's `MAX_PROCESSING_AGE`). How long a block
takes is the cluster's (`solward.vault.ledger.slot_time`)."""
LEAST_SLOT_MS: Final = 100
MOST_SLOT_MS: Final = 1_000
"""A slot is counted as no shorter and no longer, whatever a node says: a false one would have nodes
polled all the time, or plans kept until they are too old."""
UNMEASURED_SLOT_MS: Final = 200
"""Of a slot until it is measured: what mainnet's gates aim at."""
MOST_RENT_PER_BYTE: Final = 6_960
"""Lamports of rent a byte that bounds count, whatever less a cluster asks: the most that SIMD-0437
lets one ask, and SIMD-0438 may bring back. Where a node says more, nothing that pays rent is
signed."""
RENT_OVERHEAD_BYTES: Final = 128
"""That an account pays rent for beside its data."""
LOCALNET_RENT_PER_BYTE: Final = 5_080
"""Lamports that a new localnet asks where nothing says otherwise: mainnet's in November 2026."""
MAX_LOCALNET_RENT_PER_BYTE: Final = 1_000_000
"""Lamports that a localnet can be set to ask."""


def rent_of(size: int, per_byte: int) -> int:
    """Lamports an account of `size` data bytes must hold at `per_byte` lamports a byte."""
    return (size + RENT_OVERHEAD_BYTES) * per_byte

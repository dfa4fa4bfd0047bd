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

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
MAX_COMPUTE_UNITS: Final = 1_400_000
"""Of one transaction."""

"""The network's fee in numbers. Only the standard library is imported, so that settings, command
line and dashboard may use it as it is."""

from __future__ import annotations

from typing import Final

LAMPORTS_PER_SIGNATURE: Final = 5_000
DEFAULT_MAX_NETWORK_FEE: Final = 1_000_000
"""Lamports that one transaction may pay the network where no setting says otherwise."""

"""What makes a transaction unfit to be judged at all."""

from __future__ import annotations

from solward.errors import LedgerError


class UntrustedSimulation(LedgerError):
    """The ledger's simulation answer lacks what judging needs, or has a form not understood."""

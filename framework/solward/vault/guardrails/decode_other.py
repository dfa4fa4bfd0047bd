"""The programs that move nothing themselves: Associated Token, Memo, Compute Budget."""

from __future__ import annotations

from solward.vault.guardrails.model import Invocation
from solward.vault.guardrails.view import View

# Create (empty data or 0) and CreateIdempotent (1); their effects are inner instructions.
_ASSOCIATED_TOKEN_DATA = frozenset({b"", b"\x00", b"\x01"})

# RequestHeapFrame, SetComputeUnitLimit, SetComputeUnitPrice, SetLoadedAccountsDataSizeLimit.
_COMPUTE_BUDGET_SIZES = {1: 5, 2: 5, 3: 9, 4: 5}


def decode_associated_token(call: Invocation, view: View) -> None:
    """Refuse everything but creation; RecoverNested closes accounts."""
    if call.data not in _ASSOCIATED_TOKEN_DATA:
        view.violate("program_allowlist", "this Associated Token instruction is not allowed")


def decode_compute_budget(call: Invocation, view: View) -> None:
    """Refuse what `network_fee` would not have understood."""
    if not call.data or _COMPUTE_BUDGET_SIZES.get(call.data[0]) != len(call.data):
        view.violate("program_allowlist", "this Compute Budget instruction is not allowed")


def decode_memo(_call: Invocation, _view: View) -> None:
    """A memo only writes to the log."""

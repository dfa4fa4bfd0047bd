"""Rows of the table of holds."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from solward.types.hold import Hold, HoldState
from solward.vault.store.holds import HoldRow


def hold_row(wallet_id: str, now_ms: int, **changes: Any) -> HoldRow:
    """A held transfer of 1 SOL that a key asked for and that can be made again.

    Args:
        changes: fields of the row, or of its hold.
    """
    row = {name: changes.pop(name) for name in list(changes) if name in HoldRow.__slots__}
    hold = Hold(
        id=str(uuid.uuid4()),
        wallet_id=wallet_id,
        agent_id=None,
        principal="key:k1",
        chain=(f"wallet:{wallet_id}", "key:k1"),
        type="transfer",
        state=HoldState.HELD,
        sentence="Key k1 asks to transfer 1 SOL.",
        reasons=("More than 0.5 SOL.",),
        lines=({"operation": "transfer", "asset": "SOL", "units": "1000000000", "account": "a"},),
        costs_lamports=5_000,
        arrives={},
        details={"amount": 1},
        repeats=False,
        created_ms=now_ms,
        expires_ms=now_ms + 3_600_000,
    )
    fields: dict[str, Any] = {
        "digest": uuid.uuid4().hex,
        "action_key": None,
        "recipe": {"operation": "transfer", "params": {}},
        "applied": ("max_per_tx",),
        "trace": None,
    }
    return HoldRow(replace(hold, **changes), **(fields | row))

"""What the methods share: their type, and the context around an answer."""

from collections.abc import Callable
from typing import Any

from solward_localnet.ledger import LocalLedger
from solward_localnet.params import Params

API_VERSION = "3.1.0"
"""The release of Agave whose RPC service the localnet answers like."""

Method = Callable[[LocalLedger, Params], Any]
"""A JSON-RPC method: runs in the ledger's thread and returns plain JSON values."""


def with_context(ledger: LocalLedger, value: Any) -> dict[str, Any]:
    """`value` with the slot it holds for, as most answers about state come."""
    return {"context": {"apiVersion": API_VERSION, "slot": ledger.chain.slot}, "value": value}

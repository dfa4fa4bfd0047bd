"""The JSON-RPC methods of the localnet, by name."""

from collections.abc import Callable, Mapping
from typing import Any

from solward_localnet.jsonrpc import Params
from solward_localnet.ledger import LocalLedger
from solward_localnet.methods import accounts, cluster, transactions

Method = Callable[[LocalLedger, Params], Any]
"""A JSON-RPC method: runs in the ledger's thread and returns plain JSON values."""

METHODS: Mapping[str, Method] = {
    **accounts.METHODS,
    **cluster.METHODS,
    **transactions.METHODS,
}

CONTROL_METHODS: Mapping[str, Method] = cluster.CONTROL_METHODS

__all__ = ["CONTROL_METHODS", "METHODS", "Method"]

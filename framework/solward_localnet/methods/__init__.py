"""The JSON-RPC methods of the localnet, by name."""

from collections.abc import Mapping

from solward_localnet.methods import accounts, blocks, cluster, transactions
from solward_localnet.methods.base import Method

METHODS: Mapping[str, Method] = {
    **accounts.METHODS,
    **blocks.METHODS,
    **cluster.METHODS,
    **transactions.METHODS,
}

CONTROL_METHODS: Mapping[str, Method] = cluster.CONTROL_METHODS

__all__ = ["CONTROL_METHODS", "METHODS", "Method"]

"""The public clusters of Solana, by the names that nodes and sellers give them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# A node of another cluster would have amounts judged against the wrong money.
GENESIS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "mainnet-beta": "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d",
        "devnet": "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG",
        "testnet": "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY",
    }
)
"""Network -> its genesis hash, base58."""


def chain_id(genesis: str) -> str:
    """The CAIP-2 id of the ledger with this genesis hash."""
    return f"solana:{genesis[:32]}"


CHAIN_IDS: Final[Mapping[str, str]] = MappingProxyType(
    {name: chain_id(genesis) for name, genesis in GENESIS.items()}
)
"""Network -> its CAIP-2 id."""

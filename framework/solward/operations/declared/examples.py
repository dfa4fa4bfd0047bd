"""The addresses and amounts that the examples of operations have."""

from __future__ import annotations

from decimal import Decimal

from solward.solana.programs import LOCALNET_USDC_MINT, WRAPPED_SOL_MINT
from solward.solana.protocol import LOCALNET_RENT_PER_BYTE, rent_of

WALLET = "Xyk1ak1fTvBzxDgQ8ypk1T4PfUfmQEXDnvC6Y6Ttnvh"
RECIPIENT = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
SOL = WRAPPED_SOL_MINT
USDC = LOCALNET_USDC_MINT
MINT = "CnfsDnWmh34rN9EM5MLVJB7dLbe1x8VDM3mv2EQq4KZ8"
ACCOUNT = "GEVUHyWDGETFB2QXpKh43KZDyZZzHTQptZRqx1sA2wfu"
STAKE = "6RDVFMTdCXVaW2iFUmvQ7UvLSYbbyTUNGKEGD2XmVMzs"
VALIDATOR = "9QU2QSxhb24FUX3Tu2FpczXjpK3VYrvRudywSZaM29mF"
WRAPPED = "4yzpwGH8prcWPpXbJKjyVCdBBCaUyKuomxgmmZr5MrYh"


def example_rent(size: int) -> Decimal:
    """SOL of rent, as examples show it, of an account of `size` data bytes."""
    return Decimal(rent_of(size, LOCALNET_RENT_PER_BYTE)).scaleb(-9)

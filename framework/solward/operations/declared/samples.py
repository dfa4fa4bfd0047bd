"""Addresses that examples are written with."""

from __future__ import annotations

from solward.solana.programs import LOCALNET_USDC_MINT, WRAPPED_SOL_MINT

WALLET = "Xyk1ak1fTvBzxDgQ8ypk1T4PfUfmQEXDnvC6Y6Ttnvh"
RECIPIENT = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
SOL = WRAPPED_SOL_MINT
USDC = LOCALNET_USDC_MINT
MINT = "CnfsDnWmh34rN9EM5MLVJB7dLbe1x8VDM3mv2EQq4KZ8"
ACCOUNT = "GEVUHyWDGETFB2QXpKh43KZDyZZzHTQptZRqx1sA2wfu"
STAKE = "6RDVFMTdCXVaW2iFUmvQ7UvLSYbbyTUNGKEGD2XmVMzs"
VALIDATOR = "9QU2QSxhb24FUX3Tu2FpczXjpK3VYrvRudywSZaM29mF"
WRAPPED = "4yzpwGH8prcWPpXbJKjyVCdBBCaUyKuomxgmmZr5MrYh"

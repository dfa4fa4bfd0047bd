"""Solana as it is written: addresses, byte layouts, decoders, arithmetic; and reading a ledger."""

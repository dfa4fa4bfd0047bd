"""Solana's data formats and arithmetic: addresses, byte layouts, decoders; and ledger reads."""

"""Pockets: single-use wallets for programs that are not decoded."""

"""Pockets: wallets of single use for programs that are not decoded."""

"""Grants: what a principal may do with a wallet, and how much of it; all else it may not."""

"""Grants: what a principal may do with a wallet, and how much; everything else is refused."""

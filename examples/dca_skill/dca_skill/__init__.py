"""Buys a token for a fixed amount, once a period."""

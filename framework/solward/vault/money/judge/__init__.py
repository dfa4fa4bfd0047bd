"""Builds a transaction, computes what it can take, and judges it by rules and grants."""

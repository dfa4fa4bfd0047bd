"""Builds a transaction, computes the most it can take, and judges it by rules and grants."""

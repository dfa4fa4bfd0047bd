"""Builds a transaction, computes the maximum it can take, and judges it by rules and grants."""

"""Logs, metrics and traces, and the concealment of secrets in all of them."""

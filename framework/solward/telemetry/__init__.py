"""Logs, metrics and traces, and the removal of secrets from all of them."""

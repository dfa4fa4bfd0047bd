"""Processes that run plugins' code, and hold nothing of the service's."""

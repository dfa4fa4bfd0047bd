"""Processes that run plugins' code without the service's keys, settings or stores."""

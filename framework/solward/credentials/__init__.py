"""Credentials for the service's interfaces: API keys, and admin credentials with a role."""

"""Credentials of the interface: API keys, and admin credentials with a role."""

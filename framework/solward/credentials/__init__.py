"""API keys and admin credentials, as they are stored."""

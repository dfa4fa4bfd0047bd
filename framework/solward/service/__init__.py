"""A service process and its parts, which all its interfaces call."""
